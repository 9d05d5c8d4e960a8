//! Where results go, settled before anything is computed.

use std::fs::canonicalize;
use std::path::Path;

use cagey::data::check_destination;
use cagey::{Error, Result};

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
