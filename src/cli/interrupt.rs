//! Ctrl-C: a training ends after its current step, and its result is saved. Everything else ends at once, and no
//! unfinished file stays. A rank that does not lead passes a signal on to its leader.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use cagey::data::discard_unfinished;
use cagey::distributed;
use cagey::train::{Observer, Report};

use super::report;

static TRAINING: AtomicBool = AtomicBool::new(false);
static STOP: AtomicBool = AtomicBool::new(false);
/// Whether this process serves a leader.
static SERVING: AtomicBool = AtomicBool::new(false);

/// The exit code of a process that was interrupted.
const INTERRUPTED: i32 = 130;

/// Handles Ctrl-C and the termination signals, except those that the caller ignores (as `nohup` does).
pub fn install() {
    let ignored = signals::ignored();
    // If no handler can be set, a signal just ends the process.
    let _ = ctrlc::set_handler(signalled);
    distributed::on_signal(heard);
    signals::ignore(ignored);
}

fn signalled() {
    if TRAINING.load(Ordering::SeqCst) && !STOP.swap(true, Ordering::SeqCst) {
        match SERVING.load(Ordering::SeqCst) {
            true => pass_on(),
            false => report::say("stopping after this step; interrupt again to stop at once"),
        }
        return;
    }
    end();
}

/// What a leader does when another rank was asked to end: as if it had been asked itself. Often all ranks are asked at
/// once, which is not a second interrupt.
fn heard() {
    match TRAINING.load(Ordering::SeqCst) {
        true if !STOP.swap(true, Ordering::SeqCst) => {
            report::say("another rank was asked to end: stopping after this step")
        }
        true => {}
        false => end(),
    }
}

fn end() {
    discard_unfinished();
    std::process::exit(INTERRUPTED);
}

/// How long a signal may wait for a question of the leader.
const PATIENCE: Duration = Duration::from_secs(10);

/// Leaves it to the leader to end the job, if it asks anything at all; otherwise this rank ends, and so the job.
fn pass_on() {
    distributed::pass_on_signal();
    let waits = || {
        thread::sleep(PATIENCE);
        if distributed::signal_waits() {
            end();
        }
    };
    if thread::Builder::new().spawn(waits).is_err() {
        end();
    }
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

/// Ends a training at the first Ctrl-C, and says what a search has chosen.
pub struct Watch;

impl Watch {
    pub fn begin() -> Self {
        TRAINING.store(true, Ordering::SeqCst);
        Self
    }

    /// For a rank that serves a leader: it serves on until the leader has saved its result.
    pub fn serve() -> Self {
        SERVING.store(true, Ordering::SeqCst);
        Self::begin()
    }
}

impl Observer for Watch {
    fn step(&mut self, _report: &Report) -> ControlFlow<()> {
        if asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn chosen(&mut self, sentence: &str) {
        report::say(sentence);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        TRAINING.store(false, Ordering::SeqCst);
    }
}
