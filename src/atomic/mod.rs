//! Files appear whole or not at all: written beside their destination, then renamed onto it.
//!
//! Where the system can, the file has no name until it is complete, so that nothing is left of it whatever ends the
//! process. Elsewhere, and for the moment in which a file takes the place of another, it is called
//! `.cagey-unfinished-…` and locked for as long as somebody writes it; the first write of a process to a folder removes
//! those that nobody holds.

mod draft;
mod nameless;

use std::fs::{self, File, Permissions};
use std::io;
use std::path::{Path, PathBuf};

use crate::{Error, Result};
pub use draft::discard_unfinished;
use draft::{Draft, sweep_once};

/// Lets `write` fill a file in the folder of `path` that becomes `path` once it is safely on disk. Gives the file, open
/// for reading and writing, and what `write` gave.
///
/// A symbolic link is followed, even to where there is nothing yet, and an existing file's mode is kept. When anything
/// fails, what `path` held before is still there, and nothing else.
///
/// # Errors
/// [`Error::Io`] naming `path` when the folder is missing or not writable, the disk is full, or `path` is read-only
/// or no regular file; whatever `write` returns.
pub(crate) fn write_atomically<T>(path: &Path, write: impl FnOnce(&mut File) -> Result<T>) -> Result<(File, T)> {
    let Destination { target, permissions, mut draft } = Destination::of(path)?;
    let written = write(&mut draft.file)?;
    let io = |source: io::Error| Error::io(path, &source);
    if let Some(permissions) = permissions {
        draft.file.set_permissions(permissions).map_err(io)?;
    }
    // Renaming before the bytes are on disk could leave an empty file behind after a power failure.
    draft.file.sync_all().map_err(io)?;
    draft.finish(&target).map(|file| (file, written)).map_err(io)
}

/// Finds out, without touching it, whether [`write_atomically`] could write `path`.
///
/// # Errors
/// As [`write_atomically`].
pub(crate) fn check(path: &Path) -> Result<()> {
    Destination::of(path).map(drop)
}

/// Most links that follow each other, as systems have it.
const MOST_LINKS: usize = 40;

/// Where writing to `path` leads: symbolic links are followed, also one to where there is nothing yet.
///
/// # Errors
/// [`Error::Io`] for links that lead to each other.
pub fn resolved(path: impl AsRef<Path>) -> Result<PathBuf> {
    let path = path.as_ref();
    if let Ok(target) = fs::canonicalize(path) {
        return Ok(target);
    }
    let mut target = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&target) {
            Ok(next) => target = folder(&target).join(next),
            Err(_) => {
                let whole = fs::canonicalize(folder(&target)).ok().zip(target.file_name());
                return Ok(whole.map_or(target.clone(), |(folder, name)| folder.join(name)));
            }
        }
    }
    Err(Error::Io { path: path.display().to_string(), problem: "the links lead to each other; remove one".into() })
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// A path that can be written: there is a file to become it.
struct Destination {
    /// `path` with symbolic links followed.
    target: PathBuf,
    /// The mode of the file that is there already.
    permissions: Option<Permissions>,
    draft: Draft,
}

impl Destination {
    fn of(path: &Path) -> Result<Self> {
        let refused = |problem: &str| Error::Io { path: path.display().to_string(), problem: problem.into() };
        let target = resolved(path)?;
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
        sweep_once(folder(&target));
        let draft = Draft::beside(&target).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => refused("the folder does not exist; create it first"),
            _ => Error::io(path, &source),
        })?;
        let permissions = existing.map(|existing| existing.permissions());
        Ok(Self { target, permissions, draft })
    }
}
