//! Tables of predictions.

use std::io;
use std::path::Path;

use crate::data::{TextColumns, atomic_write};
use crate::{Error, Result};

/// Writes a CSV file with the kept columns of the input, if any, followed by columns of numbers `[n]`.
///
/// Numbers are written with the fewest digits that read back as the same number.
///
/// # Errors
/// [`Error::Shape`] if the columns differ in length, [`Error::Io`] as in [`atomic_write`].
pub fn write_predictions(path: impl AsRef<Path>, kept: Option<&TextColumns>, columns: &[(&str, &[f64])]) -> Result<()> {
    write_labelled(path, kept, None, columns)
}

/// As [`write_predictions`], with a named column of words `[n]` before the numbers.
///
/// # Errors
/// As [`write_predictions`].
pub fn write_labelled(
    path: impl AsRef<Path>,
    kept: Option<&TextColumns>,
    labels: Option<(&str, &[&str])>,
    columns: &[(&str, &[f64])],
) -> Result<()> {
    let n = kept.map(TextColumns::len).or_else(|| columns.first().map(|(_, values)| values.len())).unwrap_or(0);
    let lengths = labels.iter().map(|(name, values)| (*name, values.len()));
    for (name, length) in lengths.chain(columns.iter().map(|(name, values)| (*name, values.len()))) {
        if length != n {
            return Err(Error::shape(format!("column `{name}`"), format!("{n} values"), length.to_string()));
        }
    }
    atomic_write(path, |file| {
        let mut writer = ::csv::Writer::from_writer(file);
        let names = kept.iter().flat_map(|kept| &kept.names).map(String::as_str);
        let names = names.chain(labels.map(|(name, _)| name));
        writer.write_record(names.chain(columns.iter().map(|(name, _)| *name))).map_err(cause)?;
        for i in 0..n {
            for cell in kept.iter().flat_map(|kept| kept.row(i)).chain(labels.map(|(_, labels)| labels[i])) {
                writer.write_field(cell).map_err(cause)?;
            }
            writer.write_record(columns.iter().map(|(_, values)| format!("{:?}", values[i]))).map_err(cause)?;
        }
        writer.flush()
    })
}

/// The I/O error behind a CSV error. The usual conversion hides its kind, such as a closed pipe or a full disk.
fn cause(error: ::csv::Error) -> io::Error {
    match error.into_kind() {
        ::csv::ErrorKind::Io(source) => source,
        other => io::Error::other(format!("{other:?}")),
    }
}
