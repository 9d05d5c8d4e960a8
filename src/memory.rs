//! Freed memory kept for the next step of a training.

/// Tells the C library's allocator to keep freed memory and never to map large blocks one by one, for the whole
/// process; does nothing on other systems than Linux with glibc.
///
/// Every step of a training frees and takes the same matrices again. By default the allocator returns those of
/// megabytes to the system, which fills them with zeros page by page when they come back: up to half of a step's time.
/// Programs call this once at their start; a library must not decide it for them.
pub fn keep_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: mallopt only sets parameters of the allocator, and may be called at any time.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
        libc::mallopt(libc::M_MMAP_MAX, 0);
        libc::mallopt(libc::M_TOP_PAD, 64 << 20);
    }
}
