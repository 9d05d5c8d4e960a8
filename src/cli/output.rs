//! Where results go, settled before anything is computed.

use std::fs::canonicalize;
use std::path::Path;

use cagey::data::check_destination;
use cagey::plot::check_format;
use cagey::{Error, Result};

/// [`check`] for a figure, whose format is also settled.
pub fn check_figure(output: &Path, others: &[&Path]) -> Result<()> {
    check(output, others)?;
    check_format(output)
}

/// Refuses an output that cannot be written, or that is one of the files the command reads or writes besides.
pub fn check(output: &Path, others: &[&Path]) -> Result<()> {
    let place = |path: &Path| canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let same = |other: &&&Path| output.as_os_str() != "-" && place(output) == place(other);
    if let Some(other) = others.iter().find(same) {
        let (output, other) = (output.display(), other.display());
        return Err(Error::Usage(format!("{output}: writing there would overwrite {other}; name another file")));
    }
    check_destination(output)
}
