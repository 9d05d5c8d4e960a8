//! Keeps freed memory for the next step of a training.

/// Makes the C library's allocator keep freed memory and never map large blocks one by one, for the whole process. Does
/// nothing on systems other than Linux with glibc.
///
/// Every step of a training frees and allocates the same matrices again. By default the allocator returns blocks of
/// megabytes to the system. When it takes them again, the system fills them with zeros page by page: up to half of a
/// step's time. Programs call this once at their start; a library must not decide it for them.
pub fn keep_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: mallopt only sets parameters of the allocator, and may be called at any time.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
        libc::mallopt(libc::M_MMAP_MAX, 0);
        libc::mallopt(libc::M_TOP_PAD, 64 << 20);
    }
}
