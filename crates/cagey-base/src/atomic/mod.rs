//! Files appear whole or not at all: each is written in the folder of its destination, then renamed to it.
//!
//! If the system allows it, the file has no name until it is complete, so that nothing is left of it if the process
//! ends early. On other systems, and for the moment in which a file replaces another, it is called
//! `.cagey-unfinished-…` and locked while a process writes it. The first write of a process to a folder removes such
//! files that no process has locked. Until it is complete, only its owner may read it.

pub mod draft;
#[doc(hidden)]
pub mod links;
mod nameless;

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::{Error, Result};
pub use draft::discard_unfinished;
use draft::{Draft, sweep_once};

/// Lets `write` fill a file in the folder of `path`, which becomes `path` once it is safely on disk. Returns the file,
/// open for reading and writing, and what `write` returned.
///
/// A symbolic link is followed, even if its target does not exist yet, and an existing file's mode is kept. If anything
/// fails, the previous content of `path` is still there, and no other file.
///
/// # Errors
/// [`Error::Io`] naming `path` if the folder is missing or not writable, the disk is full, or `path` is read-only or
/// not a regular file; any error of `write`.
#[doc(hidden)]
pub fn write_atomically<T>(path: &Path, write: impl FnOnce(&mut File) -> Result<T>) -> Result<(File, T)> {
    let Destination { target, permissions, mut draft } = Destination::of(path)?;
    let written = write(&mut draft.file)?;
    let io = |source: io::Error| Error::io(path, &source);
    if let Some(permissions) = permissions.or_else(usual) {
        draft.file.set_permissions(permissions).map_err(io)?;
    }
    // Renaming before the bytes are on disk could leave an empty file behind after a power failure.
    draft.file.sync_all().map_err(io)?;
    draft.finish(&target).map(|file| (file, written)).map_err(io)
}

/// [`write_atomically`] for a file whose bytes are known.
///
/// # Errors
/// As [`write_atomically`].
#[doc(hidden)]
pub fn write_bytes(path: &Path, bytes: &[u8]) -> Result<()> {
    write_atomically(path, |file| file.write_all(bytes).map_err(|source| Error::io(path, &source))).map(drop)
}

/// The mode of a new file, if the system has modes.
#[cfg(unix)]
fn usual() -> Option<Permissions> {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::{Mutex, PoisonError};

    static ONE: Mutex<()> = Mutex::new(());
    // Only a change of the mask tells it. Two at once could not both change it back.
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the calls only exchange the mask of this process.
    let mask = unsafe {
        let mask = libc::umask(0o077);
        libc::umask(mask);
        mask
    };
    // The type of masks differs between systems.
    #[allow(clippy::useless_conversion)]
    let mask = u32::from(mask);
    Some(Permissions::from_mode(0o666 & !mask))
}

#[cfg(not(unix))]
fn usual() -> Option<Permissions> {
    None
}

/// Checks, without changing `path`, whether [`write_atomically`] could write it.
///
/// # Errors
/// As [`write_atomically`].
#[doc(hidden)]
pub fn check(path: &Path) -> Result<()> {
    Destination::of(path).map(drop)
}

/// Longest chain of links, as in operating systems.
pub(crate) const MOST_LINKS: usize = 40;

/// Where writing to `path` leads: symbolic links are followed, even if the target does not exist yet.
///
/// # Errors
/// [`Error::Io`] for links that form a loop.
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

/// A path that can be written, with the draft that will become its file.
struct Destination {
    /// `path` with symbolic links followed.
    target: PathBuf,
    /// The mode of the existing file.
    permissions: Option<Permissions>,
    draft: Draft,
}

impl Destination {
    fn of(path: &Path) -> Result<Self> {
        let refused = |problem: &str| Error::Io { path: path.display().to_string(), problem: problem.into() };
        links::check(path)?;
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
