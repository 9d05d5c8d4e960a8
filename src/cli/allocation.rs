//! Memory that runs out ends the command as any other failure does.

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator; when it refuses a request the process says so and ends with exit code 1.
struct Telling;

#[global_allocator]
static ALLOCATOR: Telling = Telling;

// SAFETY: every call is handed to the system's allocator as it came.
unsafe impl GlobalAlloc for Telling {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that the system's allocator asks for.
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

/// Says what was asked for and ends the process, without memory and without locks: anybody may hold those.
#[cold]
#[cfg(unix)]
fn end(size: usize) {
    use std::io::Write;

    let mut message = [0; 160];
    let mut rest = message.as_mut_slice();
    let _ = writeln!(
        rest,
        "error: memory is exhausted: {:.1} MB more were not to be had; use fewer rows or columns, or another --model",
        size as f64 / 1e6
    );
    let left = rest.len();
    let length = message.len() - left;
    // SAFETY: the bytes live until the call returns, and the process ends here.
    unsafe {
        libc::write(libc::STDERR_FILENO, message.as_ptr().cast(), length);
        libc::_exit(1);
    }
}

/// Leaves it to the standard library, which says it and aborts.
#[cold]
#[cfg(not(unix))]
fn end(_size: usize) {}
