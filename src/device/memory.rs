//! How much of a GPU's memory may be used.

use std::sync::atomic::{AtomicU64, Ordering};

use super::DeviceKind;

/// 0 is no limit.
static LIMIT: AtomicU64 = AtomicU64::new(0);

/// Limits the memory of GPUs that this process plans with, before it computes anything.
pub fn limit_memory(bytes: u64) {
    LIMIT.store(bytes, Ordering::Relaxed);
}

impl DeviceKind {
    /// Bytes of memory that a device of its own memory may use: the [limit](limit_memory), else what it reports. None
    /// for the CPU and where neither is known.
    pub fn memory(self) -> Option<u64> {
        if self.is_cpu() {
            return None;
        }
        match LIMIT.load(Ordering::Relaxed) {
            0 => reported(self),
            limit => Some(limit),
        }
    }
}

/// What a GPU says it has; where it says nothing, the most that it gives at once.
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
