//! Files without a name, which Linux supports on most file systems.

#[cfg(target_os = "linux")]
pub(super) use linux::{link, open};
#[cfg(not(target_os = "linux"))]
pub(super) use other::{link, open};

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::CString;
    use std::fs::{File, OpenOptions};
    use std::io;
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::OpenOptionsExt;
    use std::path::Path;

    /// The folder in which open files are found by their numbers.
    const OPEN: &str = "/proc/self/fd";

    /// A file without a name in a folder; none if the file system does not support such files.
    pub(in crate::atomic) fn open(folder: &Path) -> Option<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600).custom_flags(libc::O_TMPFILE);
        options.open(folder).ok().filter(|_| Path::new(OPEN).exists())
    }

    /// Gives the file a name that is not taken yet.
    pub(in crate::atomic) fn link(file: &File, name: &Path) -> io::Result<()> {
        let from = CString::new(format!("{OPEN}/{}", file.as_raw_fd()))?;
        let to = CString::new(name.as_os_str().as_bytes())?;
        // SAFETY: both are strings that end with a zero byte and live until the call returns.
        let linked = unsafe {
            libc::linkat(libc::AT_FDCWD, from.as_ptr(), libc::AT_FDCWD, to.as_ptr(), libc::AT_SYMLINK_FOLLOW)
        };
        if linked == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use std::fs::File;
    use std::io;
    use std::path::Path;

    pub(in crate::atomic) fn open(_folder: &Path) -> Option<File> {
        None
    }

    pub(in crate::atomic) fn link(_file: &File, _name: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
