//! Loops in the widest vectors of the processor.

/// Runs a loop compiled for the processor's widest vectors, with the same operations in the same order.
pub fn vectorised<R>(work: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(work)
}
