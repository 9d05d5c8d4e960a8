//! Ctrl-C: a training ends after its step and what it found is saved; everything else ends at once, and nothing
//! half-written stays.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use cagey::data::discard_unfinished;
use cagey::train::{Observer, Report};

use super::report;

static TRAINING: AtomicBool = AtomicBool::new(false);
static STOP: AtomicBool = AtomicBool::new(false);

/// The exit code of a process that was interrupted.
const INTERRUPTED: i32 = 130;

/// Takes over Ctrl-C and the signals to terminate, except those that the caller ignores (as `nohup` does).
pub fn install() {
    let ignored = signals::ignored();
    let handled = ctrlc::set_handler(|| {
        if TRAINING.load(Ordering::SeqCst) && !STOP.swap(true, Ordering::SeqCst) {
            report::say("stopping after this step; asked once more, at once");
            return;
        }
        discard_unfinished();
        std::process::exit(INTERRUPTED);
    });
    // Without a handler the process just ends.
    drop(handled);
    signals::ignore(ignored);
}

/// The crate that takes signals over does so whether or not they are ignored.
#[cfg(unix)]
mod signals {
    use std::mem::MaybeUninit;

    const TAKEN: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

    /// Which of the signals that a handler takes over are ignored.
    pub fn ignored() -> Vec<libc::c_int> {
        let ignored = |signal: &libc::c_int| {
            let mut action = MaybeUninit::<libc::sigaction>::uninit();
            // SAFETY: a query fills the action in where it succeeds, and changes nothing.
            unsafe {
                libc::sigaction(*signal, std::ptr::null(), action.as_mut_ptr()) == 0
                    && action.assume_init().sa_sigaction == libc::SIG_IGN
            }
        };
        TAKEN.into_iter().filter(ignored).collect()
    }

    pub fn ignore(which: Vec<libc::c_int>) {
        for signal in which {
            // SAFETY: no handler of this process is involved.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
    }
}

#[cfg(not(unix))]
mod signals {
    pub fn ignored() -> Vec<i32> {
        Vec::new()
    }

    pub fn ignore(_: Vec<i32>) {}
}

/// Whether a training was asked to end.
pub fn asked() -> bool {
    STOP.load(Ordering::SeqCst)
}

/// Asks a training to end when the first Ctrl-C comes.
pub struct Watch;

impl Watch {
    pub fn begin() -> Self {
        TRAINING.store(true, Ordering::SeqCst);
        Self
    }
}

impl Observer for Watch {
    fn step(&mut self, _report: &Report) -> ControlFlow<()> {
        if asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        TRAINING.store(false, Ordering::SeqCst);
    }
}
