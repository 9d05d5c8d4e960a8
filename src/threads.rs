//! Work shared among the threads of rayon's pool by threads that wait awake.
//!
//! A step of a training is a sequence of short parallel pieces. A thread that falls asleep between two of them has to
//! be woken through the system, and on a virtual machine its processor, once idle, is given to others by the host:
//! where that is busy, a step takes half as long again. Rayon's own waits sleep after some twenty microseconds, so
//! joins and loops here wait on their own, and the threads that [`start`] begins look for work on their own.

use std::hint::spin_loop;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rayon::iter::plumbing::{Producer, ProducerCallback};
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder, Yield};

use crate::{Error, Result};

/// Numbers that are worth a thread of their own.
pub(crate) const GRAIN: usize = 1 << 14;

/// How long a thread without work stays awake.
const AWAKE: Duration = Duration::from_millis(2);

/// How long a thread that was without work for longer sleeps before it looks again: at first, and after it has found
/// none many times.
const NAPS: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(5)];

/// Pauses of the processor between two looks for work.
const PAUSES: usize = 8;

/// Looks for work between two looks at the clock.
const LOOKS: usize = 64;

/// Parts for each thread: enough that one slow thread does not hold up the others.
const PARTS_PER_THREAD: usize = 4;

/// Parts into which work is cut for all threads.
pub(crate) fn parts() -> usize {
    PARTS_PER_THREAD * rayon::current_num_threads()
}

/// Begins the process's pool of `count` threads (one per processor where none is given), of which the calling thread is
/// one and the others keep awake for work.
///
/// Programs call this once at their start, on the thread that trains and predicts: what other threads ask of the pool
/// the others do alone. Where there is to be one thread only, the pool has one of its own, for what others ask: the
/// calling thread may never come. A library must not decide it for them. Without it everything works, on rayon's own
/// pool, whose threads fall asleep sooner; so a service, whose many threads predict, does without.
///
/// # Errors
/// [`Error::Usage`] if the threads cannot be started, or a pool exists already. Where they could not, nothing else
/// works that wants them.
pub fn start(count: Option<usize>) -> Result<()> {
    let asked = || std::env::var("RAYON_NUM_THREADS").ok()?.parse().ok();
    let given = count.filter(|count| *count > 0).or_else(|| asked().filter(|count| *count > 0));
    let count = given.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    let pool = ThreadPoolBuilder::new().num_threads(count);
    let pool = if count == 1 { pool } else { pool.use_current_thread().start_handler(|_| attend()) };
    pool.build_global().map_err(|e| Error::Usage(format!("the threads did not start: {e}")))
}

/// Does work that asks rayon for help by itself, as burn does with large tensors, where such help can come.
///
/// The only thread of a pool may be one that waits for the caller and does nothing for the pool meanwhile. Work of
/// other threads then goes to a thread of our own, which comes. There are as many of those as are needed at a time.
///
/// # Errors
/// What the work reports; [`Error::Device`] if the system has no thread for it.
pub(crate) fn helped<R: Send>(work: impl FnOnce() -> Result<R> + Send) -> Result<R> {
    if rayon::current_thread_index().is_some() || rayon::current_num_threads() > 1 {
        return work();
    }
    let pool = single()?;
    let result = pool.install(work);
    SINGLES.lock().unwrap_or_else(PoisonError::into_inner).push(pool);
    result
}

/// Does the pool's work for as long as the process lives.
fn attend() {
    loop {
        wait(|| false);
        let [mut nap, longest] = NAPS;
        while rayon::yield_now() != Some(Yield::Executed) {
            thread::sleep(nap);
            nap = longest.min(2 * nap);
        }
    }
}

/// Does other work of the pool until `done`, or until there was none for a while.
fn wait(done: impl Fn() -> bool) {
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

/// Sets its flag when it goes, however that happens.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Calls both, in parallel where another thread is free. A pool of one thread is never asked: it may be waiting for
/// this one.
pub(crate) fn join<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
    if rayon::current_num_threads() == 1 {
        return (a(), b());
    }
    if rayon::current_thread_index().is_none() {
        return rayon::join(a, b);
    }
    let done = AtomicBool::new(false);
    let mut second = None;
    let first = rayon::in_place_scope(|scope| {
        scope.spawn(|_| {
            let _done = Done(&done);
            second = Some(b());
        });
        let first = a();
        wait(|| done.load(Ordering::Acquire));
        first
    });
    (first, second.unwrap_or_else(|| unreachable!("a scope ends without a panic only when all that it spawned did")))
}

/// Calls `f` for every item, in parallel.
pub(crate) fn for_each<I: IndexedParallelIterator>(items: I, f: impl Fn(I::Item) + Sync) {
    struct Parts<F> {
        len: usize,
        f: F,
    }
    impl<T, F: Fn(T) + Sync> ProducerCallback<T> for Parts<F> {
        type Output = ();
        fn callback<P: Producer<Item = T>>(self, producer: P) {
            let most = self.len / producer.min_len().max(1);
            split(producer, self.len, most.min(parts()), &self.f);
        }
    }
    fn split<P: Producer>(producer: P, len: usize, parts: usize, f: &(impl Fn(P::Item) + Sync)) {
        if parts <= 1 || len <= 1 {
            return producer.into_iter().for_each(f);
        }
        let (first, second) = producer.split_at(len / 2);
        join(|| split(first, len / 2, parts / 2, f), || split(second, len - len / 2, parts - parts / 2, f));
    }
    let len = items.len();
    items.with_producer(Parts { len, f });
}

/// What `f` makes of every item, in their order, in parallel.
pub(crate) fn map<I: IndexedParallelIterator, R: Send>(items: I, f: impl Fn(I::Item) -> R + Sync) -> Vec<R> {
    let len = items.len();
    let mut results = Vec::with_capacity(len);
    for_each(items.zip(results.spare_capacity_mut()[..len].par_iter_mut()), |(item, slot)| {
        slot.write(f(item));
    });
    // SAFETY: there was an item, and so a result, for each of the slots; a panic would have left the length at zero.
    unsafe { results.set_len(len) };
    results
}

/// What `work` makes of each of `0..count`, in their order: each by one thread that has no help, on as many threads as
/// there are. What comes of a piece does so not depend on their number, and its memory is taken for one piece a thread.
///
/// # Errors
/// What the first piece in order reports; [`Error::Device`] if the system has no thread for it.
pub(crate) fn apart<R: Send>(count: usize, work: impl Fn(usize) -> Result<R> + Sync) -> Result<Vec<R>> {
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let workers = rayon::current_num_threads().min(count).max(1);
    let pools: Vec<ThreadPool> = (0..workers).map(|_| single()).collect::<Result<_>>()?;
    let take = || {
        let mut made = Vec::new();
        loop {
            // Looked at before a piece is taken: all before the first that failed are done.
            let over = failed.load(Ordering::Relaxed);
            let piece = if over { count } else { next.fetch_add(1, Ordering::Relaxed) };
            if piece >= count {
                return made;
            }
            let result = work(piece);
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            made.push((piece, result));
        }
    };
    let mut all: Vec<(usize, Result<R>)> = thread::scope(|scope| {
        let workers: Vec<_> = pools.iter().map(|pool| scope.spawn(|| pool.install(take))).collect();
        let joined = workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
        joined.flatten().collect()
    });
    SINGLES.lock().unwrap_or_else(PoisonError::into_inner).extend(pools);
    all.sort_by_key(|(piece, _)| *piece);
    all.into_iter().map(|(_, result)| result).collect()
}

/// Pools of one thread that nobody uses now.
static SINGLES: Mutex<Vec<ThreadPool>> = Mutex::new(Vec::new());

fn single() -> Result<ThreadPool> {
    let known = SINGLES.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let new = || ThreadPoolBuilder::new().num_threads(1).build();
    known.map_or_else(new, Ok).map_err(|e| Error::Device(format!("no thread to compute on: {e}")))
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use rayon::ThreadPoolBuilder;
    use rayon::prelude::*;

    use super::{apart, for_each, join, map};

    /// Runs `work` outside of any pool and in pools of several sizes.
    fn everywhere(work: impl Fn() + Sync) {
        work();
        for count in [1, 2, 5] {
            ThreadPoolBuilder::new().num_threads(count).build().unwrap().install(&work);
        }
    }

    fn sum(numbers: &[u64]) -> u64 {
        match numbers {
            [] => 0,
            [one] => *one,
            several => {
                let (left, right) = several.split_at(several.len() / 2);
                let (left, right) = join(|| sum(left), || sum(right));
                left + right
            }
        }
    }

    #[test]
    fn joins_within_joins_give_both_results() {
        let numbers: Vec<u64> = (0..1000).collect();
        everywhere(|| assert_eq!(sum(&numbers), 499_500));
    }

    #[test]
    fn a_panic_of_either_part_reaches_the_caller() {
        everywhere(|| {
            for which in [0, 1] {
                let part = |index: usize| assert_ne!(index, which);
                assert!(catch_unwind(AssertUnwindSafe(|| join(|| part(0), || part(1)))).is_err());
            }
        });
    }

    #[test]
    fn pieces_apart_are_in_order_each_on_a_pool_of_one_thread() {
        everywhere(|| {
            let alone = |piece: usize| {
                assert_eq!(rayon::current_num_threads(), 1);
                Ok(piece * piece)
            };
            assert_eq!(apart(7, alone).unwrap(), [0, 1, 4, 9, 16, 25, 36]);
            assert_eq!(apart(0, alone).unwrap(), [0; 0]);
            let refuse = |piece: usize| if piece > 2 { Err(crate::Error::Data(format!("{piece}"))) } else { Ok(piece) };
            assert_eq!(apart(9, refuse).unwrap_err().to_string(), crate::Error::Data("3".into()).to_string());
            let panics = || apart(3, |piece| if piece == 1 { panic!("one") } else { Ok(()) });
            assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        });
    }

    #[test]
    fn every_item_once_and_results_in_order() {
        everywhere(|| {
            for len in [0, 1, 2, 7, 1000] {
                let mut counts = vec![0; len];
                for_each(counts.par_iter_mut(), |count| *count += 1);
                assert_eq!(counts, vec![1; len]);
                for least in [1, 300] {
                    let squares = map((0..len).into_par_iter().with_min_len(least), |i| (i * i).to_string());
                    assert_eq!(squares, (0..len).map(|i| (i * i).to_string()).collect::<Vec<_>>());
                }
            }
        });
    }
}
