//! Ctrl-C: a training ends after its current step, and its result is saved. Everything else ends at once, and no
//! unfinished file stays.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use cagey::data::discard_unfinished;
use cagey::train::{Observer, Report};

use super::report;

static TRAINING: AtomicBool = AtomicBool::new(false);
static STOP: AtomicBool = AtomicBool::new(false);

/// The exit code of a process that was interrupted.
const INTERRUPTED: i32 = 130;

/// Handles Ctrl-C and the termination signals, except those that the caller ignores (as `nohup` does).
pub fn install() {
    let ignored = signals::ignored();
    let handled = ctrlc::set_handler(|| {
        if TRAINING.load(Ordering::SeqCst) && !STOP.swap(true, Ordering::SeqCst) {
            report::say("stopping after this step; interrupt again to stop at once");
            return;
        }
        discard_unfinished();
        std::process::exit(INTERRUPTED);
    });
    // If no handler can be set, a signal just ends the process.
    drop(handled);
    signals::ignore(ignored);
}

/// The crate `ctrlc` handles signals even if they were ignored; this ignores them again.
#[cfg(unix)]
mod signals {
    use std::mem::MaybeUninit;

    const TAKEN: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

    /// The handled signals that are ignored now.
    pub fn ignored() -> Vec<libc::c_int> {
        let ignored = |signal: &libc::c_int| {
            let mut action = MaybeUninit::<libc::sigaction>::uninit();
            // SAFETY: the query fills in `action` if it succeeds, and changes nothing else.
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

/// Ends a training at the first Ctrl-C.
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
