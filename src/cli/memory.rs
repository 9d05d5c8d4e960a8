//! Whether a training fits into the memory of the machine.

use cagey::fitted::Plan;
use cagey::{Error, Result};
use sysinfo::{MemoryRefreshKind, RefreshKind, System};

/// Refuses a training that the machine's memory cannot hold, instead of being killed in it.
pub fn check(plan: &Plan) -> Result<()> {
    if !plan.settings().compute.kind.is_cpu() {
        return Ok(());
    }
    let (needed, there) = (plan.bytes(), machine());
    // Where it cannot be told the answer is 0.
    if there == 0.0 || needed <= there {
        return Ok(());
    }
    let less = plan.options().smaller();
    Err(Error::Usage(format!(
        "{}: a step takes about {:.1} GB of memory and this machine has {:.1} GB; {less}",
        plan.model().title(),
        needed / 1e9,
        there / 1e9
    )))
}

/// Bytes of memory, of the container where there is one.
fn machine() -> f64 {
    let system =
        System::new_with_specifics(RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram()));
    let limit = system.cgroup_limits().map_or(u64::MAX, |limits| limits.total_memory);
    system.total_memory().min(limit) as f64
}
