//! Ends the command with an ordinary error when memory runs out, or with a warning if its model is already written.

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator. When it refuses a request, the process ends: with an error and exit code 1, but if the model
/// is written, with a warning and exit code 0.
struct Telling;

#[global_allocator]
static ALLOCATOR: Telling = Telling;

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Telling {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller guarantees what the system's allocator requires.
        given(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        given(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        given(unsafe { System.realloc(pointer, layout, size) }, size)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[inline]
fn given(pointer: *mut u8, size: usize) -> *mut u8 {
    if pointer.is_null() {
        end(size);
    }
    pointer
}

/// Prints the size that was asked for and ends the process. Uses no memory and no locks: another thread may hold these.
#[cold]
#[cfg(unix)]
fn end(size: usize) {
    use std::io::Write;

    let mut message = [0; 200];
    let mut rest = message.as_mut_slice();
    let (word, then, code) = match cagey::cli::is_written() {
        true => ("warning", "the model is written, but the rest of the report is missing", 0),
        false => ("error", "use fewer rows or columns, or another --model", 1),
    };
    let _ = writeln!(rest, "{word}: memory is exhausted: {:.1} MB more are not available; {then}", size as f64 / 1e6);
    let left = rest.len();
    let length = message.len() - left;
    // SAFETY: the bytes live until the call returns, and the process ends here.
    unsafe {
        libc::write(libc::STDERR_FILENO, message.as_ptr().cast(), length);
        libc::_exit(code);
    }
}

/// Does nothing: the standard library prints an error and aborts.
#[cold]
#[cfg(not(unix))]
fn end(_size: usize) {}
