//! Links that other users may have laid: in a folder where everybody may write but only owners may remove (`/tmp`), a
//! link of somebody else's would choose which of our files an output replaces. Linux follows no such link when it opens
//! a file (`fs.protected_symlinks`); a file that is renamed to its place needs the same rule.

#[cfg(unix)]
pub use unix::{check, distrusted};

#[cfg(unix)]
mod unix {
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    use crate::atomic::{MOST_LINKS, folder};
    use crate::{Error, Result};

    /// Refuses a path that leads over another user's link in a folder that everybody shares.
    ///
    /// # Errors
    /// [`Error::Io`] naming the path.
    pub fn check(path: &Path) -> Result<()> {
        if is_foreign(path, 0) {
            let problem = "leads over a link of another user in a folder that everybody may write to; name its target \
                           if you trust it";
            return Err(Error::Io { path: path.display().to_string(), problem: problem.into() });
        }
        Ok(())
    }

    fn is_foreign(path: &Path, links: usize) -> bool {
        let is_link = |part: &&Path| fs::symlink_metadata(part).is_ok_and(|found| found.is_symlink());
        path.ancestors().filter(|part| !part.as_os_str().is_empty()).filter(is_link).any(|link| {
            let (Ok(own), Ok(beside)) = (fs::symlink_metadata(link), fs::metadata(folder(link))) else { return false };
            let (owners, mode) = ([own.uid(), beside.uid()], beside.mode());
            // SAFETY: the call only returns a number.
            distrusted(owners, mode, unsafe { libc::geteuid() })
                || fs::read_link(link)
                    .is_ok_and(|to| links < MOST_LINKS && is_foreign(&folder(link).join(to), links + 1))
        })
    }

    /// Whether a link must not be followed, given its owner and that of its folder, whose mode is `mode`.
    pub fn distrusted([link, folder]: [u32; 2], mode: u32, own: u32) -> bool {
        let shared = mode & 0o1002 == 0o1002;
        shared && link != own && link != folder
    }
}

/// Only Unix has folders in which everybody may lay links.
#[cfg(not(unix))]
pub fn check(_path: &std::path::Path) -> crate::Result<()> {
    Ok(())
}
