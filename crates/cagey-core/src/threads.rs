//! Shares work among the threads of rayon's pool; threads that wait stay awake.
//!
//! A training step is a sequence of short parallel pieces. If a thread falls asleep between two of them, the operating
//! system has to wake it. On a virtual machine, the host gives an idle processor to others; if the host is busy, a step
//! then takes half as long again. Rayon's own waits sleep after some twenty microseconds. So joins and loops here wait
//! in their own way, and the threads that [`start`] begins look for work themselves.
//!
//! What waits, and what rayon is asked for, takes `dyn` functions: a copy of rayon's job for each of some two hundred
//! closures was a fifth of the code that this crate makes a compiler translate.

use std::hint::spin_loop;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rayon::iter::plumbing::{Producer, ProducerCallback};
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder, Yield};

use crate::{Error, Result};

/// How many numbers justify a thread of their own.
#[doc(hidden)]
pub const GRAIN: usize = 1 << 14;

/// How long a thread without work stays awake.
const AWAKE: Duration = Duration::from_millis(2);

/// How long a thread sleeps before it looks for work again, once it had no work for longer than `AWAKE`: the first
/// time, and after many looks without success.
const NAPS: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(5)];

/// Pauses of the processor between two looks for work.
const PAUSES: usize = 8;

/// Looks for work between two looks at the clock.
const LOOKS: usize = 64;

/// Parts for each thread: enough that one slow thread does not hold up the others.
const PARTS_PER_THREAD: usize = 4;

/// The number of parts into which work is cut for all threads.
pub(crate) fn parts() -> usize {
    PARTS_PER_THREAD * rayon::current_num_threads()
}

/// Starts the process's pool of `count` threads (by default as `RAYON_NUM_THREADS` says, or one per processor). The
/// calling thread is one of them; the others stay awake for work.
///
/// Programs call this once at their start, on the thread that trains and predicts. If other threads ask the pool for
/// work, the calling thread does not help. So if `count` is 1, the pool has a separate thread for such requests: the
/// calling thread may never come. A library must not take this decision for programs. Everything works without this
/// call, on rayon's own pool, whose threads fall asleep sooner. So a service that predicts on many threads does not
/// call it.
///
/// # Errors
/// [`Error::Usage`] if the threads cannot be started, or if a pool exists already. If they could not be started,
/// nothing that needs them works afterwards.
pub fn start(count: Option<usize>) -> Result<()> {
    let asked = || std::env::var("RAYON_NUM_THREADS").ok()?.parse().ok();
    let given = count.filter(|count| *count > 0).or_else(|| asked().filter(|count| *count > 0));
    let count = given.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    let pool = ThreadPoolBuilder::new().num_threads(count);
    let pool = if count == 1 { pool } else { pool.use_current_thread().start_handler(|_| attend()) };
    pool.build_global().map_err(|e| Error::Usage(format!("the threads did not start: {e}")))
}

/// Runs work that itself asks rayon for help (as burn does with large tensors) where such help can come.
///
/// The only thread of a pool may be waiting for the caller, without doing anything for the pool. So work from outside
/// the pool runs on a pool of one thread of our own, which does respond. There are as many such pools as are needed at
/// a time.
///
/// # Errors
/// Errors of the work; [`Error::Device`] if the system has no thread for it.
#[doc(hidden)]
pub fn helped<R: Send>(work: impl FnOnce() -> Result<R> + Send) -> Result<R> {
    if rayon::current_thread_index().is_some() || rayon::current_num_threads() > 1 {
        return work();
    }
    let pool = single()?;
    let (mut work, mut result) = (Some(work), None);
    install(&pool, &mut || result = work.take().map(|work| work()));
    SINGLES.lock().unwrap_or_else(PoisonError::into_inner).push(pool);
    result.unwrap_or_else(|| unreachable!("{RETURNED}"))
}

/// Calls `work` on a thread of `pool`.
fn install(pool: &ThreadPool, work: &mut (dyn FnMut() + Send)) {
    pool.install(work);
}

/// Does the pool's work for as long as the process lives.
fn attend() {
    loop {
        wait(&|| false);
        let [mut nap, longest] = NAPS;
        while rayon::yield_now() != Some(Yield::Executed) {
            thread::sleep(nap);
            nap = longest.min(2 * nap);
        }
    }
}

/// Does other work of the pool until `done`, or until there has been none for a while.
fn wait(done: &dyn Fn() -> bool) {
    let mut idle = Instant::now();
    loop {
        for _ in 0..LOOKS {
            if done() {
                return;
            }
            if rayon::yield_now() == Some(Yield::Executed) {
                idle = Instant::now();
            } else {
                (0..PAUSES).for_each(|_| spin_loop());
            }
        }
        if idle.elapsed() > AWAKE {
            return;
        }
        // Other programs may need the processor more.
        thread::yield_now();
    }
}

/// Sets its flag when it is dropped, also by a panic.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Why a result is there: a call either returned one, or its panic went on to the caller.
const RETURNED: &str = "a call that returned left its result";

/// Calls both functions, in parallel if another thread is free. Never asks a pool of one thread: that thread may be
/// waiting for this one.
#[doc(hidden)]
pub fn join<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
    let (mut a, mut b) = (Some(a), Some(b));
    let (mut first, mut second) = (None, None);
    both(&mut || first = a.take().map(|a| a()), &mut || second = b.take().map(|b| b()));
    first.zip(second).unwrap_or_else(|| unreachable!("{RETURNED}"))
}

fn both(a: &mut (dyn FnMut() + Send), b: &mut (dyn FnMut() + Send)) {
    if rayon::current_num_threads() == 1 {
        a();
        b();
    } else if rayon::current_thread_index().is_none() {
        rayon::join(a, b);
    } else {
        let done = AtomicBool::new(false);
        rayon::in_place_scope(|scope| {
            scope.spawn(|_| {
                let _done = Done(&done);
                b();
            });
            a();
            wait(&|| done.load(Ordering::Acquire));
        });
    }
}

/// Calls `f` for every number of a range, in parallel.
fn each(numbers: Range<usize>, f: &(dyn Fn(usize) + Sync)) {
    match numbers.len() {
        0 => {}
        1 => f(numbers.start),
        count => {
            let middle = numbers.start + count / 2;
            both(&mut || each(numbers.start..middle, f), &mut || each(middle..numbers.end, f));
        }
    }
}

/// Calls `f` for every item, in parallel.
#[doc(hidden)]
pub fn for_each<I: IndexedParallelIterator>(items: I, f: impl Fn(I::Item) + Sync) {
    struct Parts<F> {
        len: usize,
        f: F,
    }
    impl<T, F: Fn(T) + Sync> ProducerCallback<T> for Parts<F> {
        type Output = ();
        fn callback<P: Producer<Item = T>>(self, producer: P) {
            let count = parts().min(self.len / producer.min_len().max(1)).max(1);
            // Half of the pieces are half of the items, also if items are few.
            let end = |place: usize| place * self.len / count;
            let mut pieces = Vec::with_capacity(count);
            let mut rest = producer;
            for place in 1..count {
                let piece;
                (piece, rest) = rest.split_at(end(place) - end(place - 1));
                pieces.push(Mutex::new(Some(piece)));
            }
            pieces.push(Mutex::new(Some(rest)));
            each(0..count, &|place| {
                if let Some(piece) = pieces[place].lock().unwrap_or_else(PoisonError::into_inner).take() {
                    piece.into_iter().for_each(&self.f);
                }
            });
        }
    }
    let len = items.len();
    items.with_producer(Parts { len, f });
}

/// The results of `f` for all items, in the items' order. Runs in parallel.
#[doc(hidden)]
pub fn map<I: IndexedParallelIterator, R: Send>(items: I, f: impl Fn(I::Item) -> R + Sync) -> Vec<R> {
    let len = items.len();
    let mut results = Vec::with_capacity(len);
    for_each(items.zip(results.spare_capacity_mut()[..len].par_iter_mut()), |(item, slot)| {
        slot.write(f(item));
    });
    // SAFETY: each slot had an item, and so has a result; a panic would have left the length at zero.
    unsafe { results.set_len(len) };
    results
}

/// The results of `work` for each of `0..count`, in this order. One thread computes each piece without help; as many
/// threads as the pool has run at a time. So the result of a piece does not depend on the number of threads, and at
/// most one piece per thread takes memory at a time.
///
/// # Errors
/// The error of the first piece, in order, that fails; [`Error::Device`] if the system has no thread for it.
#[doc(hidden)]
pub fn apart<R: Send>(count: usize, work: impl Fn(usize) -> Result<R> + Sync) -> Result<Vec<R>> {
    apart_by(rayon::current_num_threads(), count, || {}, work)
}

/// As [`apart`], by another number of threads, while this thread does what `meanwhile` says.
///
/// # Errors
/// As [`apart`].
#[doc(hidden)]
pub fn apart_by<R: Send>(
    workers: usize,
    count: usize,
    meanwhile: impl FnOnce(),
    work: impl Fn(usize) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let results: Vec<_> = (0..count).map(|_| Mutex::new(None)).collect();
    let slot = |piece: usize| results[piece].lock().unwrap_or_else(PoisonError::into_inner);
    let mut meanwhile = Some(meanwhile);
    let mut besides = || {
        if let Some(work) = meanwhile.take() {
            work();
        }
    };
    share(workers, count, &mut besides, &|piece| {
        let result = work(piece);
        let succeeded = result.is_ok();
        *slot(piece) = Some(result);
        succeeded
    })?;
    // Pieces that nobody took come after the first failure.
    results.into_iter().map_while(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
}

/// Calls `work` for each of `0..count`, each time on one of `workers` threads, until it says that one failed.
fn share(
    workers: usize,
    count: usize,
    meanwhile: &mut dyn FnMut(),
    work: &(dyn Fn(usize) -> bool + Sync),
) -> Result<()> {
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let workers = workers.min(count).max(1);
    let pools: Vec<ThreadPool> = (0..workers).map(|_| single()).collect::<Result<_>>()?;
    let all = || loop {
        // This look comes before a piece is taken. So all pieces before the first failure are done.
        let over = failed.load(Ordering::Relaxed);
        let piece = if over { count } else { next.fetch_add(1, Ordering::Relaxed) };
        if piece >= count {
            return;
        }
        failed.fetch_or(!work(piece), Ordering::Relaxed);
    };
    thread::scope(|scope| {
        let workers: Vec<_> = pools.iter().map(|pool| scope.spawn(|| pool.install(all))).collect();
        meanwhile();
        workers.into_iter().for_each(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
    });
    SINGLES.lock().unwrap_or_else(PoisonError::into_inner).extend(pools);
    Ok(())
}

/// Pools of one thread that are not in use.
static SINGLES: Mutex<Vec<ThreadPool>> = Mutex::new(Vec::new());

fn single() -> Result<ThreadPool> {
    let known = SINGLES.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let new = || ThreadPoolBuilder::new().num_threads(1).build();
    known.map_or_else(new, Ok).map_err(|e| Error::Device(format!("no thread to compute on: {e}")))
}
