//! Drafts: files before they get their final name.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use tempfile::Builder;

use super::{folder, nameless};

/// How the names of unfinished files begin.
pub const PREFIX: &str = ".cagey-unfinished-";

/// The names of all files being written. Code that gives or removes such a name holds the lock meanwhile.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the temporary files of all writes in progress, for a process that is about to end. All later writes block
/// until it ends.
pub fn discard_unfinished() {
    let mut names = unfinished();
    for path in names.drain(..) {
        // An error cannot be reported to anyone.
        let _ = fs::remove_file(path);
    }
    std::mem::forget(names);
}

/// A file that is being written. It has the name of its target once it is finished, and goes if it is abandoned.
#[derive(Debug)]
pub struct Draft {
    /// What has been written.
    pub file: File,
    /// None if the file has no name yet.
    name: Option<Name>,
}

impl Draft {
    /// A draft without a name where the system has such files, else [`Self::named`].
    ///
    /// # Errors
    /// The system's error if no file can be made in the folder.
    pub fn beside(target: &Path) -> io::Result<Self> {
        match nameless::open(folder(target)) {
            Some(file) => {
                // Locked before it has a name. On systems without locks, nothing is swept either.
                let _ = file.try_lock();
                Ok(Self { file, name: None })
            }
            None => Self::named(target),
        }
    }

    /// A draft with a name of its own from the start, in the folder of its target.
    ///
    /// # Errors
    /// The system's error if no file can be made in the folder.
    pub fn named(target: &Path) -> io::Result<Self> {
        let suffix = suffix(target);
        loop {
            let mut names = unfinished();
            // Only its owner may read it until it is finished.
            let (file, name) = builder(&suffix).tempfile_in(folder(target))?.keep()?;
            names.push(name.clone());
            drop(names);
            let name = Name(name);
            // Until the file is locked, another process may think that it was left behind.
            if !matches!(file.try_lock(), Err(TryLockError::WouldBlock)) && name.0.exists() {
                return Ok(Self { file, name: Some(name) });
            }
        }
    }

    /// Gives the file the name of its target.
    pub fn finish(self, target: &Path) -> io::Result<File> {
        let Self { file, name } = self;
        match name {
            Some(name) => name.turn_into(target, unfinished())?,
            None => {
                let mut names = unfinished();
                match nameless::link(&file, target) {
                    Err(taken) if taken.kind() == io::ErrorKind::AlreadyExists => {
                        let suffix = suffix(target);
                        let linked = builder(&suffix).make_in(folder(target), |name| nameless::link(&file, name))?;
                        let name = linked.into_temp_path().keep()?;
                        names.push(name.clone());
                        Name(name).turn_into(target, names)?;
                    }
                    linked => linked?,
                }
            }
        }
        // Other code may want to lock it.
        let _ = file.unlock();
        Ok(file)
    }
}

/// The name of an unfinished file, which is removed unless it becomes that of a finished one.
#[derive(Debug)]
struct Name(PathBuf);

impl Name {
    fn turn_into(mut self, target: &Path, mut names: MutexGuard<'static, Vec<PathBuf>>) -> io::Result<()> {
        let renamed = fs::rename(&self.0, target);
        if renamed.is_ok() {
            let name = std::mem::take(&mut self.0);
            names.retain(|other| *other != name);
        }
        drop(names);
        renamed
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        if !self.0.as_os_str().is_empty() {
            let mut names = unfinished();
            // The file may be gone already, and an error cannot be reported to anyone.
            let _ = fs::remove_file(&self.0);
            names.retain(|other| *other != self.0);
        }
    }
}

/// The extension of an unfinished file is that of the file that it becomes.
fn suffix(target: &Path) -> String {
    target.extension().and_then(OsStr::to_str).map_or_else(String::new, |extension| format!(".{extension}"))
}

fn builder(suffix: &str) -> Builder<'_, '_> {
    let mut builder = Builder::new();
    builder.prefix(PREFIX).suffix(suffix);
    builder
}

/// Removes from a folder the files that killed processes left there; once in each process.
pub(super) fn sweep_once(folder: &Path) {
    static SWEPT: LazyLock<Mutex<HashSet<PathBuf>>> = LazyLock::new(Mutex::default);
    if SWEPT.lock().unwrap_or_else(PoisonError::into_inner).insert(folder.to_path_buf()) {
        sweep(folder);
    }
}

/// Removes unfinished files that nobody has locked. Files that cannot be opened or removed belong to others.
pub fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let unfinished = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if unfinished
            && entry.file_type().is_ok_and(|kind| kind.is_file())
            && let Ok(file) = File::open(entry.path())
            && file.try_lock().is_ok()
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}
