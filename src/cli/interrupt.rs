//! Ctrl-C: a training ends after its step and what it found is saved; everything else ends at once, and nothing half-written stays.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use cagey::data::discard_unfinished;
use cagey::train::{Observer, Report};

use super::report;

static TRAINING: AtomicBool = AtomicBool::new(false);
static STOP: AtomicBool = AtomicBool::new(false);

/// The exit code of a process that was interrupted.
const INTERRUPTED: i32 = 130;

/// Takes over Ctrl-C and the signal to terminate.
pub fn install() {
    let handled = ctrlc::set_handler(|| {
        if TRAINING.load(Ordering::SeqCst) && !STOP.swap(true, Ordering::SeqCst) {
            report::say("stopping after this step; Ctrl-C again stops at once");
            return;
        }
        discard_unfinished();
        std::process::exit(INTERRUPTED);
    });
    // Without a handler the process just ends.
    drop(handled);
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
