//! Whether a training fits into the memory of the machine, or of its GPU.

use cagey::device::DeviceKind;
use cagey::fitted::Plan;
use cagey::{Error, Result};
use sysinfo::{MemoryRefreshKind, RefreshKind, System};

/// Refuses a training that needs more memory than there is, so that the system does not kill it later.
pub fn check(plan: &Plan) -> Result<()> {
    let kind = plan.settings().compute.kind;
    let (needed, place, there) = match kind.is_cpu() {
        true => (plan.bytes(), "this machine", machine()),
        false => (plan.bytes(), "the device", kind.memory().unwrap_or_default() as f64),
    };
    // 0 means that the size of the memory is not known.
    if there == 0.0 || needed <= there {
        return Ok(());
    }
    let less = plan.options().smaller();
    // Vulkan names the largest allocation only.
    let more = match kind == DeviceKind::Wgpu {
        true => ", as far as its driver says; `--device-memory 16GB` tells of a card that has more",
        false => "",
    };
    Err(Error::Usage(format!(
        "{}: a step takes about {:.1} GB of memory and {place} has {:.1} GB{more}; {}",
        plan.model().title(),
        needed / 1e9,
        there / 1e9,
        less.text
    ))
    .advised(less.settings))
}

/// Whether half of the machine's memory has room for so many bytes, as far as its size is known.
pub fn has(bytes: f64) -> bool {
    let there = machine();
    there == 0.0 || bytes <= 0.5 * there
}

/// Bytes of memory of the machine, or of the container if there is one.
fn machine() -> f64 {
    let system =
        System::new_with_specifics(RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram()));
    let limit = system.cgroup_limits().map_or(u64::MAX, |limits| limits.total_memory);
    system.total_memory().min(limit) as f64
}
