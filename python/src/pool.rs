//! Where calls compute: on pools of their own, without the interpreter's lock, and without panics that leave the
//! module.

use std::any::Any;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use std::{env, process, ptr, thread};

use cagey::Result;
use cagey::train::{Observer, Report};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::errors::raised;

/// The pools of a process, by their number of threads. A forked process has none of its parent's threads, and starts
/// anew; the parent's pools are never freed there, because nobody could end their threads.
struct Pools {
    process: u32,
    all: Mutex<HashMap<usize, Arc<ThreadPool>>>,
}

static POOLS: AtomicPtr<Pools> = AtomicPtr::new(ptr::null_mut());

fn pools() -> &'static Pools {
    let process = process::id();
    loop {
        let known = POOLS.load(Ordering::Acquire);
        // SAFETY: a pointer that was stored is never freed.
        if let Some(pools) = unsafe { known.as_ref() }.filter(|pools| pools.process == process) {
            return pools;
        }
        let own = Box::into_raw(Box::new(Pools { process, all: Mutex::default() }));
        if POOLS.compare_exchange(known, own, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: nobody else has seen it.
            drop(unsafe { Box::from_raw(own) });
        }
    }
}

/// Stack of a thread: as large as that of a program's first thread.
const STACK: usize = 8 << 20;

fn pool(threads: usize) -> PyResult<Arc<ThreadPool>> {
    let mut all = pools().all.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = all.get(&threads) {
        return Ok(Arc::clone(known));
    }
    let pool = ThreadPoolBuilder::new().num_threads(threads).stack_size(STACK).build();
    let pool = Arc::new(pool.map_err(|e| PyRuntimeError::new_err(format!("no threads to compute with: {e}")))?);
    all.insert(threads, Arc::clone(&pool));
    Ok(pool)
}

/// How many threads compute without `threads`: `CAGEY_THREADS`, or what joblib sets in its workers, or all cores.
pub fn usual() -> usize {
    let asked = ["CAGEY_THREADS", "RAYON_NUM_THREADS", "OMP_NUM_THREADS"].into_iter();
    let asked = asked.filter_map(|name| env::var(name).ok()?.parse().ok()).find(|count| *count > 0);
    let cores = thread::available_parallelism().map_or(1, usize::from);
    asked.map_or(cores, |asked: usize| asked.min(cores))
}

/// The error for a panic, which is a fault of this library.
fn fault(panic: &(dyn Any + Send)) -> PyErr {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    PyRuntimeError::new_err(format!("a fault in cagey, please report it: {}", text.unwrap_or("a panic")))
}

fn caught<R>(work: impl FnOnce() -> R) -> PyResult<R> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| fault(&*panic))
}

/// Computes in a pool.
pub fn compute<R: Send>(py: Python, threads: Option<usize>, work: impl FnOnce() -> Result<R> + Send) -> PyResult<R> {
    let pool = pool(threads.unwrap_or_else(usual))?;
    py.detach(|| caught(|| pool.install(work)))?.map_err(|error| raised(&error))
}

/// The process that loaded the module.
static LOADED_BY: OnceLock<u32> = OnceLock::new();

/// Notes which process this is; returns whether it was forked from the one that noted it first. The libraries below
/// have pools of their own, whose threads are missing there.
pub fn is_forked() -> bool {
    *LOADED_BY.get_or_init(process::id) != process::id()
}

/// Computes in this thread: for work so short that no other thread would help.
pub fn briefly<R: Send>(py: Python, work: impl FnOnce() -> Result<R> + Send) -> PyResult<R> {
    py.detach(|| caught(work))?.map_err(|error| raised(&error))
}

/// Sees the steps of a training and ends it when it is asked to.
#[derive(Default)]
pub struct Watch {
    stop: AtomicBool,
    last: Mutex<Option<(usize, usize, f64)>>,
}

/// The observer of a training.
pub struct Watching<'a>(pub &'a Watch);

impl Observer for Watching<'_> {
    fn step(&mut self, report: &Report) -> ControlFlow<()> {
        *self.0.last.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((report.iteration, report.limit, report.smoothed));
        if self.0.stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// How often a waiting call looks for Ctrl-C and shows its progress.
const LOOK: Duration = Duration::from_millis(50);

/// Computes in a pool, while this thread looks for Ctrl-C. Returns the result of the work, and the exception if there
/// was one: the work then ended early. `progress` is called with the step, its limit and the loss.
pub fn watched<R: Send>(
    py: Python,
    threads: Option<usize>,
    progress: Option<&Bound<PyAny>>,
    work: impl FnOnce(&Watch) -> Result<R> + Send,
) -> PyResult<(R, Option<PyErr>)> {
    let pool = pool(threads.unwrap_or_else(usual))?;
    let (watch, progress) = (Watch::default(), progress.map(|progress| progress.clone().unbind()));
    let mut interrupt = None;
    let result = py.detach(|| {
        thread::scope(|scope| {
            let (done, result) = mpsc::channel();
            let (pool, watch) = (&pool, &watch);
            thread::Builder::new().stack_size(STACK).spawn_scoped(scope, move || {
                let _ = done.send(caught(|| pool.install(|| work(watch))));
            })?;
            loop {
                match result.recv_timeout(LOOK) {
                    Err(RecvTimeoutError::Timeout) => Python::attach(|py| {
                        let step = watch.last.lock().unwrap_or_else(PoisonError::into_inner).take();
                        let shown = || match (&progress, step) {
                            (Some(progress), Some(step)) => progress.call1(py, step).map(drop),
                            _ => Ok(()),
                        };
                        if let Err(error) = py.check_signals().and_then(|()| shown()) {
                            watch.stop.store(true, Ordering::Relaxed);
                            interrupt.get_or_insert(error);
                        }
                    }),
                    Err(RecvTimeoutError::Disconnected) => return Err(PyRuntimeError::new_err("a thread ended early")),
                    Ok(result) => return result,
                }
            }
        })
    })?;
    match (result, interrupt) {
        (Ok(result), interrupt) => Ok((result, interrupt)),
        (Err(_), Some(interrupt)) => Err(interrupt),
        (Err(error), None) => Err(raised(&error)),
    }
}
