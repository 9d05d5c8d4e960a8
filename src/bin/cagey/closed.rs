//! Whether standard output was closed before the process began. Rust replaces a closed one by `/dev/null` before
//! `main`, so this looks at it earlier.

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
pub use look::at_start;

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
mod look {
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

    pub fn at_start() -> bool {
        CLOSED.load(Ordering::Relaxed)
    }
}

/// Other systems are not looked at.
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
pub fn at_start() -> bool {
    false
}
