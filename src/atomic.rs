//! Files appear whole or not at all: written beside their destination, then renamed onto it.

use crate::{Error, Result};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Lets `write` fill a temporary file in the folder of `path` and renames it to `path` once it is safely on disk.
///
/// The temporary file keeps the extension of `path`; a symbolic link is followed. When anything fails the temporary
/// file is removed and whatever `path` held before is still there.
///
/// # Errors
/// [`Error::Io`] naming `path` when the folder is missing or not writable, the disk is full, or `path` is read-only
/// or no regular file; whatever `write` returns.
pub(crate) fn write_atomically(path: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let io = |source: std::io::Error| Error::io(path, &source);
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    if let Ok(existing) = fs::metadata(&target) {
        let refused = |problem: &str| Error::Io { path: path.display().to_string(), problem: problem.into() };
        if !existing.is_file() {
            return Err(refused("exists and is not a regular file; choose another name"));
        }
        if existing.permissions().readonly() {
            return Err(refused("exists and is read-only; make it writable or choose another name"));
        }
    }
    let suffix = target.extension().and_then(OsStr::to_str).map_or_else(String::new, |ext| format!(".{ext}"));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".cagey-").suffix(&suffix);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let temporary = builder.tempfile_in(folder(&target)).map_err(io)?.into_temp_path();
    write(&temporary)?;
    // Renaming before the bytes are on disk could leave an empty file behind after a power failure.
    File::options().write(true).open(&temporary).and_then(|file| file.sync_all()).map_err(io)?;
    temporary.persist(&target).map_err(|failed| io(failed.error))
}

/// The folder that holds `path`.
fn folder(path: &Path) -> PathBuf {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}
