//! Checks of where results are written, before anything is computed.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use cagey::data::{TextColumns, check_destination, check_file, resolved, write_labelled};
use cagey::plot::check_format;
use cagey::{Error, Result};

/// [`check`] for a figure, including its format.
pub fn check_figure(output: &Path, others: &[&Path]) -> Result<()> {
    check(output, others)?;
    check_format(output)
}

/// Formats in which tables are read but not written.
const READ_ONLY: [&str; 3] = ["gz", "npy", "parquet"];

/// [`check`] for a table, which is written as CSV.
pub fn check_table(output: &Path, others: &[&Path]) -> Result<()> {
    let extension = output.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    if READ_ONLY.iter().any(|other| extension.eq_ignore_ascii_case(other)) {
        return Err(Error::Usage(format!("{}: tables are written as CSV; end the name in .csv", output.display())));
    }
    check_distinct(output, others)?;
    if output.as_os_str() == "-" {
        check_standard()?;
    }
    check_destination(output)
}

/// Columns of numbers with their names.
pub type Columns = Vec<(String, Vec<f64>)>;

/// Samples as columns.
pub fn samples(paths: Vec<Vec<f64>>) -> impl Iterator<Item = (String, Vec<f64>)> {
    paths.into_iter().enumerate().map(|(i, path)| (format!("sample{i}"), path))
}

/// Writes columns as CSV, after those that are kept and a column of words, if there are some.
pub fn write(
    output: &Path,
    kept: Option<&TextColumns>,
    words: Option<(&str, &[&str])>,
    columns: Columns,
) -> Result<()> {
    let columns: Vec<(&str, &[f64])> = columns.iter().map(|(name, v)| (name.as_str(), v.as_slice())).collect();
    write_labelled(output, kept, words, &columns)
}

/// Refuses a file that cannot be written, or that is one of `others`: the files that the command also reads or writes.
pub fn check(output: &Path, others: &[&Path]) -> Result<()> {
    check_distinct(output, others)?;
    check_file(output)
}

/// Where a path leads, whether or not the file exists yet.
fn place(path: &Path) -> PathBuf {
    resolved(path).unwrap_or_else(|_| path.to_path_buf())
}

fn check_distinct(output: &Path, others: &[&Path]) -> Result<()> {
    let same = |other: &&&Path| output.as_os_str() != "-" && place(output) == place(other);
    if let Some(other) = others.iter().find(same) {
        let (output, other) = (output.display(), other.display());
        return Err(Error::Usage(format!("{output}: writing there would overwrite {other}; name another file")));
    }
    Ok(())
}

static CLOSED: AtomicBool = AtomicBool::new(false);

/// Tells [`run`](super::run) that standard output was closed before the process began. Output would be lost without
/// notice, so commands that print refuse to.
pub fn without_output() {
    CLOSED.store(true, Ordering::Relaxed);
}

/// Refuses a standard output that is closed.
pub fn check_standard() -> Result<()> {
    if CLOSED.load(Ordering::Relaxed) {
        let problem = "it is closed; redirect it, or name a file with `-o`".into();
        return Err(Error::Io { path: "standard output".into(), problem });
    }
    Ok(())
}
