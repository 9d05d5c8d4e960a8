//! Loops in the widest vectors of the processor.

/// Runs a loop compiled for the processor's widest vectors, with the same operations in the same order. Without the
/// feature `vectors`, for those that the compiler may assume.
#[inline(always)]
pub fn vectorised<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(feature = "vectors")]
    return pulp::Arch::new().dispatch(work);
    #[cfg(not(feature = "vectors"))]
    return work();
}
