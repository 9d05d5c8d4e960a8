//! Ranks that are processes, through MPI: `mpirun -n 4 cagey fit …`.

use std::fmt::{Debug, Formatter};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mpi::Threading;
use mpi::environment::Universe;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, Destination, Root, Source};

use super::Exchange;
use crate::error::{Error, Result};

/// The most bytes in one message of MPI, whose counts have 32 bits. Longer messages go in parts.
const PART: usize = 1 << 30;

/// Environment variables that Open MPI, MPICH, PMI and PMIx set in the processes that they start. A job of one process
/// sets them, too.
const LAUNCHERS: [&str; 4] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK"];

/// This process's end. MPI ends when it leaves.
pub struct Mpi {
    rank: usize,
    size: usize,
    joined: Mutex<Joined>,
}

struct Joined {
    world: SimpleCommunicator,
    universe: Option<Universe>,
}

// SAFETY: any thread may use MPI's handles if MPI was initialised for calls from one thread at a time. `join` makes
// sure of that, and the mutex around the handles allows one thread at a time.
unsafe impl Send for Joined {}

impl Debug for Mpi {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mpi").field("rank", &self.rank).field("size", &self.size).finish()
    }
}

/// Joins the job that started this process; returns None if no launcher did.
///
/// Processes that use this keep a [`Guard`](super::Guard) meanwhile. Without it, if one process panics, the others wait
/// for it for ever.
///
/// # Errors
/// [`Error::Device`] when MPI was joined before, or does not support several threads.
pub fn join() -> Result<Option<Mpi>> {
    // Without a launcher, MPI would needlessly start one.
    if !LAUNCHERS.iter().any(|name| std::env::var_os(name).is_some()) {
        return Ok(None);
    }
    let started = mpi::initialize_with_threading(Threading::Serialized);
    let (universe, threading) =
        started.ok_or_else(|| Error::Device("MPI is running already: a process joins it only once".into()))?;
    if threading < Threading::Serialized {
        return Err(Error::Device("this MPI library does not support several threads; use another build".into()));
    }
    let world = universe.world();
    let (rank, size) = (world.rank() as usize, world.size() as usize);
    Ok(Some(Mpi { rank, size, joined: Mutex::new(Joined { world, universe: Some(universe) }) }))
}

impl Mpi {
    fn joined(&self) -> MutexGuard<'_, Joined> {
        self.joined.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Joined {
    fn send(&self, rank: usize, message: &[u8]) {
        let to = self.world.process_at_rank(rank as i32);
        to.send(&(message.len() as u64));
        message.chunks(PART).for_each(|part| to.send(part));
    }

    fn receive(&self, rank: usize) -> Vec<u8> {
        let from = self.world.process_at_rank(rank as i32);
        let (length, _) = from.receive::<u64>();
        let mut message = vec![0; length as usize];
        for part in message.chunks_mut(PART) {
            from.receive_into(part);
        }
        message
    }
}

impl Exchange for Mpi {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn broadcast(&self, mut message: Vec<u8>) -> Result<Vec<u8>> {
        let joined = self.joined();
        let root = joined.world.process_at_rank(0);
        let mut length = message.len() as u64;
        root.broadcast_into(&mut length);
        message.resize(length as usize, 0);
        for part in message.chunks_mut(PART) {
            root.broadcast_into(part);
        }
        Ok(message)
    }

    fn scatter(&self, mut messages: Vec<Vec<u8>>) -> Result<Vec<u8>> {
        let joined = self.joined();
        if self.rank > 0 {
            return Ok(joined.receive(0));
        }
        for (rank, message) in messages.iter().enumerate().skip(1) {
            joined.send(rank, message);
        }
        Ok(messages.swap_remove(0))
    }

    fn gather(&self, message: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        let joined = self.joined();
        if self.rank > 0 {
            joined.send(0, &message);
            return Ok(Vec::new());
        }
        Ok(std::iter::once(message).chain((1..self.size).map(|rank| joined.receive(rank))).collect())
    }

    fn leave(&self) {
        drop(self.joined().universe.take());
    }

    fn abort(&self) {
        // This does not take the mutex, because another thread may hold it while it waits for a message.
        SimpleCommunicator::world().abort(101);
    }
}
