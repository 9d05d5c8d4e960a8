//! Whether there is a standard output at all.

use cagey::{Error, Result};

/// Refuses a standard output that was closed before the process began: output would be lost without notice.
pub fn check() -> Result<()> {
    if at_start::closed() {
        let problem = "it is closed; redirect it, or name a file with `-o`".into();
        return Err(Error::Io { path: "standard output".into(), problem });
    }
    Ok(())
}

/// Rust replaces a closed standard output by `/dev/null` before `main`, so this looks at it earlier.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
mod at_start {
    use std::sync::atomic::{AtomicBool, Ordering};

    static CLOSED: AtomicBool = AtomicBool::new(false);

    /// Called by the system's loader with all other constructors.
    // SAFETY: the section holds pointers to functions of this form, which the loader calls once each.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static LOOK: extern "C" fn() = {
        extern "C" fn look() {
            // SAFETY: a query that changes nothing.
            CLOSED.store(unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } == -1, Ordering::Relaxed);
        }
        look
    };

    pub fn closed() -> bool {
        CLOSED.load(Ordering::Relaxed)
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
mod at_start {
    pub fn closed() -> bool {
        false
    }
}
