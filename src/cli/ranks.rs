//! The ranks of the job that this process belongs to: rank 0 runs the command, and the others serve it.

use cagey::distributed::Exchange;
use cagey::{Error, Result};

/// The other ranks of this process's job, if there are any.
///
/// # Errors
/// [`Error::Usage`] if this build cannot exchange messages with them.
pub fn join() -> Result<Option<Box<dyn Exchange>>> {
    #[cfg(feature = "mpi")]
    if let Some(mpi) = cagey::distributed::mpi::join()? {
        if mpi.size() == 1 {
            refuse_strangers(|name| std::env::var(name).ok())?;
        }
        return Ok(Some(Box::new(mpi)));
    }
    refuse_strangers(|name| std::env::var(name).ok())?;
    Ok(None)
}

/// Variables in which Open MPI, MVAPICH and MPICH (also Slurm's PMI) tell a process how many there are.
const SIZES: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "PMI_SIZE"];

/// Refuses to be one of several processes that cannot talk to each other: each would do the whole job, and write its
/// result to the same file.
pub fn refuse_strangers(variable: impl Fn(&str) -> Option<String>) -> Result<()> {
    let several = |name: &&str| variable(name).and_then(|size| size.parse::<usize>().ok()).filter(|size| *size > 1);
    let Some((name, size)) = SIZES.iter().find_map(|name| Some((name, several(name)?))) else { return Ok(()) };
    let (why, remedy) = match cfg!(feature = "mpi") {
        true => ("they belong to another MPI library than this build", "use the launcher of that library"),
        false => ("this build has no MPI", "build with `--features mpi`"),
    };
    Err(Error::Usage(format!(
        "a launcher started {size} processes ({name}={size}), but {why}, so each would do the whole job: {remedy}, or \
         start one process"
    )))
}

/// The arguments with which this process was started.
pub fn arguments() -> Vec<String> {
    std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect()
}

/// Threads for each of `size` ranks, if several share this machine's processors and this one may use `cores` of them.
pub fn threads(cores: usize, size: usize) -> Option<usize> {
    // Open MPI, MPICH and Slurm give the number of ranks on a node in these variables.
    let names = ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"];
    let local = names.iter().find_map(|name| std::env::var(name).ok()?.parse::<usize>().ok());
    shared(cores, size, local?, online().unwrap_or(cores))
}

/// The same, if `local` of the ranks are on this machine, which has `online` processors. A launcher that binds ranks to
/// cores has divided the cores already: `cores` are then this rank's own.
pub fn shared(cores: usize, size: usize, local: usize, online: usize) -> Option<usize> {
    (size > 1 && local > 1).then(|| cores.min((online / local).max(1)))
}

/// Processors of this machine, whether or not this process may use them.
#[cfg(unix)]
fn online() -> Option<usize> {
    // SAFETY: the call only returns a number.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(count).ok().filter(|count| *count > 0)
}

#[cfg(not(unix))]
fn online() -> Option<usize> {
    None
}
