//! The ranks of a job that this command is one of: rank 0 does what it is asked, the others serve it.

use cagey::Result;
use cagey::exchange::Exchange;

/// The other ranks of this process's job, where there are some and this build knows how to speak with them.
pub fn join() -> Result<Option<Box<dyn Exchange>>> {
    #[cfg(feature = "mpi")]
    if let Some(mpi) = cagey::exchange::mpi::join()? {
        return Ok(Some(Box::new(mpi)));
    }
    Ok(None)
}

/// Threads for each rank, where so many share this machine's cores.
pub fn threads(cores: usize) -> Option<usize> {
    // As Open MPI, MPICH and Slurm say how many ranks are on a node.
    let names = ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"];
    let local = names.iter().find_map(|name| std::env::var(name).ok()?.parse::<usize>().ok())?;
    (local > 1).then(|| (cores / local).max(1))
}
