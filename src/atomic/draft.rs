//! Drafts: files before they get their final name.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use tempfile::Builder;

use super::{folder, nameless};

/// The prefix of the names of unfinished files.
const PREFIX: &str = ".cagey-unfinished-";

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

/// A file that will become another.
pub(super) struct Draft {
    pub(super) file: File,
    /// None if the file has no name yet.
    name: Option<Name>,
}

impl Draft {
    pub(super) fn beside(target: &Path) -> io::Result<Self> {
        match nameless::open(folder(target)) {
            Some(file) => {
                // Locked before it has a name. On systems without locks, nothing is swept either.
                let _ = file.try_lock();
                Ok(Self { file, name: None })
            }
            None => Self::named(target),
        }
    }

    /// A draft with a name from the start.
    fn named(target: &Path) -> io::Result<Self> {
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

    /// Gives the file its name.
    pub(super) fn finish(self, target: &Path) -> io::Result<File> {
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
fn sweep(folder: &Path) {
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

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::{Read, Seek, Write};
    use std::path::Path;

    use super::{Draft, PREFIX, sweep};
    use crate::atomic::write_atomically;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Drafts of both kinds, if the system has both.
    fn drafts(target: &Path) -> [Draft; 2] {
        [Draft::beside(target).unwrap(), Draft::named(target).unwrap()]
    }

    #[test]
    fn drafts_take_the_name_of_their_target_and_stay_open() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("model.cagey");
        for round in 0..2 {
            for mut draft in drafts(&target) {
                draft.file.write_all(format!("round {round}").as_bytes()).unwrap();
                let mut file = draft.finish(&target).unwrap();
                assert_eq!(fs::read_to_string(&target).unwrap(), format!("round {round}"));
                file.rewind().unwrap();
                let mut text = String::new();
                file.read_to_string(&mut text).unwrap();
                assert_eq!(text, format!("round {round}"));
            }
        }
        assert_eq!(names(folder.path()), ["model.cagey"]);
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_may_read_a_draft() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        for draft in drafts(&folder.path().join("model.cagey")) {
            assert_eq!(draft.file.metadata().unwrap().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn abandoned_drafts_leave_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("model.cagey");
        drop(drafts(&target));
        assert!(names(folder.path()).is_empty());
        fs::create_dir(&target).unwrap();
        for draft in drafts(&target) {
            assert!(draft.finish(&target).is_err());
        }
        assert_eq!(names(folder.path()), ["model.cagey"]);
    }

    #[test]
    fn what_is_left_behind_goes_and_what_is_written_stays() {
        let folder = tempfile::tempdir().unwrap();
        let [left, mine] = ["left.png", "mine"].map(|name| folder.path().join(format!("{PREFIX}{name}")));
        fs::write(&left, "cut off").unwrap();
        fs::write(folder.path().join(".cagey-notes"), "kept").unwrap();
        let written = File::create(&mine).unwrap();
        written.lock().unwrap();
        sweep(folder.path());
        assert_eq!(names(folder.path()), [".cagey-notes".to_string(), format!("{PREFIX}mine")]);
        drop(written);
        write_atomically(&folder.path().join("out"), |file| {
            file.write_all(b"x").map_err(|e| crate::Error::io("out", &e))
        })
        .unwrap();
        assert_eq!(names(folder.path()), [".cagey-notes", "out"]);
    }
}
