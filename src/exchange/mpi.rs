//! Ranks that are processes, by MPI: `mpirun -n 4 cagey fit …`.

use std::fmt::{Debug, Formatter};

use mpi::Threading;
use mpi::environment::Universe;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, Destination, Root, Source};

use super::Exchange;
use crate::error::{Error, Result};

/// Bytes of one message of MPI, whose counts are 32-bit: longer ones go in parts.
const PART: usize = 1 << 30;

/// This process's end. MPI ends with it.
pub struct Mpi {
    world: SimpleCommunicator,
    _universe: Universe,
}

impl Debug for Mpi {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mpi").field("rank", &self.rank()).field("size", &self.size()).finish()
    }
}

/// What Open MPI, MPICH and Slurm tell the processes that they start: a job of one process is one, too.
const LAUNCHERS: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_ID"];

/// Joins the job that this process was started in; nothing where it is alone.
///
/// A panic in one process ends all of them: the others would wait for it for ever.
///
/// # Errors
/// [`Error::Device`] when MPI was joined before.
pub fn join() -> Result<Option<Mpi>> {
    let started = mpi::initialize_with_threading(Threading::Serialized);
    let (universe, _) = started.ok_or_else(|| Error::Device("MPI is there already: it is joined once".into()))?;
    let world = universe.world();
    if world.size() == 1 && !LAUNCHERS.iter().any(|name| std::env::var_os(name).is_some()) {
        return Ok(None);
    }
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        usual(panic);
        SimpleCommunicator::world().abort(101);
    }));
    Ok(Some(Mpi { world, _universe: universe }))
}

impl Mpi {
    fn send(&self, rank: i32, message: &[u8]) {
        let to = self.world.process_at_rank(rank);
        to.send(&(message.len() as u64));
        message.chunks(PART).for_each(|part| to.send(part));
    }

    fn receive(&self, rank: i32) -> Vec<u8> {
        let from = self.world.process_at_rank(rank);
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
        self.world.rank() as usize
    }

    fn size(&self) -> usize {
        self.world.size() as usize
    }

    fn broadcast(&self, mut message: Vec<u8>) -> Result<Vec<u8>> {
        let root = self.world.process_at_rank(0);
        let mut length = message.len() as u64;
        root.broadcast_into(&mut length);
        message.resize(length as usize, 0);
        for part in message.chunks_mut(PART) {
            root.broadcast_into(part);
        }
        Ok(message)
    }

    fn scatter(&self, mut messages: Vec<Vec<u8>>) -> Result<Vec<u8>> {
        if self.rank() > 0 {
            return Ok(self.receive(0));
        }
        for (rank, message) in messages.iter().enumerate().skip(1) {
            self.send(rank as i32, message);
        }
        Ok(messages.swap_remove(0))
    }

    fn gather(&self, message: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        if self.rank() > 0 {
            self.send(0, &message);
            return Ok(Vec::new());
        }
        Ok(std::iter::once(message).chain((1..self.world.size()).map(|rank| self.receive(rank))).collect())
    }
}
