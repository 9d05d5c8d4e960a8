//! Ranks that are processes, by MPI: `mpirun -n 4 cagey fit …`.

use std::fmt::{Debug, Formatter};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mpi::Threading;
use mpi::environment::Universe;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, Destination, Root, Source};

use super::Exchange;
use crate::error::{Error, Result};

/// Bytes of one message of MPI, whose counts are 32-bit: longer ones go in parts.
const PART: usize = 1 << 30;

/// What Open MPI, MPICH, PMI and PMIx tell the processes that they start: a job of one process is one, too.
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

// SAFETY: handles of MPI may be used by any thread where it was initialised for calls of one thread at a time, which
// `join` makes sure of and the mutex around them keeps to.
unsafe impl Send for Joined {}

impl Debug for Mpi {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mpi").field("rank", &self.rank).field("size", &self.size).finish()
    }
}

/// Joins the job that this process was started in; nothing where it is alone.
///
/// Processes that use it keep a [`Guard`](super::Guard) meanwhile: without, those that are left would wait for ever for
/// one that panics.
///
/// # Errors
/// [`Error::Device`] when MPI was joined before, or is not for several threads.
pub fn join() -> Result<Option<Mpi>> {
    // Without a launcher MPI would start one, for nothing.
    if !LAUNCHERS.iter().any(|name| std::env::var_os(name).is_some()) {
        return Ok(None);
    }
    let started = mpi::initialize_with_threading(Threading::Serialized);
    let (universe, threading) =
        started.ok_or_else(|| Error::Device("MPI is there already: it is joined once".into()))?;
    if threading < Threading::Serialized {
        return Err(Error::Device("this MPI library is not for programs of several threads; use another build".into()));
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
        // Not behind the mutex, which another thread may hold while it waits for a message.
        SimpleCommunicator::world().abort(101);
    }
}
