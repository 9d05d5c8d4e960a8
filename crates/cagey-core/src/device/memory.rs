//! How much of a GPU's memory may be used.

use std::sync::atomic::{AtomicU64, Ordering};

use super::DeviceKind;

/// 0 means no limit.
static LIMIT: AtomicU64 = AtomicU64::new(0);

/// Limits the GPU memory that this process plans with. Call it before the process computes anything.
pub fn limit_memory(bytes: u64) {
    LIMIT.store(bytes, Ordering::Relaxed);
}

/// The limit, if there is one.
pub(crate) fn memory_limit() -> Option<u64> {
    match LIMIT.load(Ordering::Relaxed) {
        0 => None,
        limit => Some(limit),
    }
}

impl DeviceKind {
    /// Bytes of its own memory that a device may use: the [limit](limit_memory), otherwise what the device reports.
    /// None for the CPU, and if neither is known.
    pub fn memory(self) -> Option<u64> {
        if self.is_cpu() { None } else { memory_limit().or_else(|| reported(self)) }
    }
}

/// The memory that a GPU reports; if it reports none, its largest single allocation.
#[cfg(feature = "gpu")]
fn reported(kind: DeviceKind) -> Option<u64> {
    use std::sync::OnceLock;

    use burn::backend::{BackendTensor, Cube, DispatchKindConversion, DispatchTensor};
    use burn::tensor::{DType, Tensor};

    static ANSWERS: [OnceLock<Option<u64>>; DeviceKind::ALL.len()] = [const { OnceLock::new() }; DeviceKind::ALL.len()];
    *ANSWERS[kind as usize].get_or_init(|| {
        let some = Tensor::<1>::zeros([1], (&kind.device().ok()?, DType::F32)).into_dispatch();
        let some = <DispatchTensor as DispatchKindConversion<Cube>>::try_into_backend(some).ok()?;
        let memory = BackendTensor::float(some).client.properties().memory.clone();
        Some(memory.max_memory().unwrap_or(memory.max_page_size))
    })
}

#[cfg(not(feature = "gpu"))]
fn reported(_kind: DeviceKind) -> Option<u64> {
    None
}
