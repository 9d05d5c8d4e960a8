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

/// Threads for each of `size` ranks, where several share this machine's processors and this one may use `cores`.
pub fn threads(cores: usize, size: usize) -> Option<usize> {
    if size < 2 {
        return None;
    }
    // As Open MPI, MPICH and Slurm say how many ranks are on a node.
    let names = ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"];
    let local = names.iter().find_map(|name| std::env::var(name).ok()?.parse::<usize>().ok())?;
    // A launcher that binds ranks to cores has shared them out already: `cores` are this rank's own.
    (local > 1).then(|| cores.min((online().unwrap_or(cores) / local).max(1)))
}

/// Processors of this machine, whoever may use them.
#[cfg(unix)]
fn online() -> Option<usize> {
    // SAFETY: it only asks for a number.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(count).ok().filter(|count| *count > 0)
}

#[cfg(not(unix))]
fn online() -> Option<usize> {
    None
}
