//! Whether there is a standard output at all.

use std::sync::atomic::{AtomicBool, Ordering};

use cagey::{Error, Result};

static CLOSED: AtomicBool = AtomicBool::new(false);

/// Tells [`run`](super::run) that standard output was closed before the process began. Output would be lost without
/// notice, so commands that print refuse to.
pub fn without_output() {
    CLOSED.store(true, Ordering::Relaxed);
}

/// Refuses a standard output that is closed.
pub fn check() -> Result<()> {
    if CLOSED.load(Ordering::Relaxed) {
        let problem = "it is closed; redirect it, or name a file with `-o`".into();
        return Err(Error::Io { path: "standard output".into(), problem });
    }
    Ok(())
}
