//! Files appear whole or not at all: written beside their destination, then renamed onto it.

use crate::{Error, Result};
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::TempPath;

/// Lets `write` fill a temporary file in the folder of `path` and renames it to `path` once it is safely on disk.
///
/// The temporary file keeps the extension of `path`; a symbolic link is followed and an existing file's mode is kept.
/// When anything fails the temporary file is removed and whatever `path` held before is still there.
///
/// # Errors
/// [`Error::Io`] naming `path` when the folder is missing or not writable, the disk is full, or `path` is read-only
/// or no regular file; whatever `write` returns.
pub(crate) fn write_atomically(path: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let destination = Destination::of(path)?;
    let _unfinished = Unfinished::new(&destination.temporary);
    let io = |source: io::Error| Error::io(path, &source);
    write(&destination.temporary)?;
    // Renaming before the bytes are on disk could leave an empty file behind after a power failure.
    File::options().write(true).open(&destination.temporary).and_then(|file| file.sync_all()).map_err(io)?;
    if let Some(permissions) = destination.permissions {
        fs::set_permissions(&destination.temporary, permissions).map_err(io)?;
    }
    destination.temporary.persist(&destination.target).map_err(|failed| io(failed.error))
}

/// The temporary files of all writes under way.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the temporary files of all writes under way: for a process that is about to end in the midst of them.
pub fn discard_unfinished() {
    for path in unfinished().drain(..) {
        // Whatever it is, nobody can be told.
        let _ = fs::remove_file(path);
    }
}

/// A write under way, for as long as this lives.
struct Unfinished(PathBuf);

impl Unfinished {
    fn new(temporary: &Path) -> Self {
        unfinished().push(temporary.to_path_buf());
        Self(temporary.to_path_buf())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        unfinished().retain(|path| *path != self.0);
    }
}

/// Finds out, without touching it, whether [`write_atomically`] could write `path`.
///
/// # Errors
/// As [`write_atomically`].
pub(crate) fn check(path: &Path) -> Result<()> {
    Destination::of(path).map(drop)
}

/// A path that can be written: a temporary file lies beside it.
struct Destination {
    /// `path` with symbolic links followed.
    target: PathBuf,
    /// The mode of the file that is there already.
    permissions: Option<Permissions>,
    temporary: TempPath,
}

impl Destination {
    fn of(path: &Path) -> Result<Self> {
        let refused = |problem: &str| Error::Io { path: path.display().to_string(), problem: problem.into() };
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let existing = fs::metadata(&target).ok();
        if let Some(existing) = &existing {
            if existing.is_dir() {
                return Err(Error::io(path, &io::ErrorKind::IsADirectory.into()));
            }
            if !existing.is_file() {
                return Err(refused("exists and is not a regular file; choose another name"));
            }
            if existing.permissions().readonly() {
                return Err(refused("exists and is read-only; make it writable or choose another name"));
            }
        }
        let folder = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let suffix = target.extension().and_then(OsStr::to_str).map_or_else(String::new, |ext| format!(".{ext}"));
        let mut builder = tempfile::Builder::new();
        builder.prefix(".cagey-").suffix(&suffix);
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let temporary = builder.tempfile_in(folder).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => refused("the folder does not exist; create it first"),
            _ => Error::io(path, &source),
        })?;
        let permissions = existing.map(|existing| existing.permissions());
        Ok(Self { target, permissions, temporary: temporary.into_temp_path() })
    }
}
