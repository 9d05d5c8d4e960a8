//! What vector code leaves in the registers.

/// Zeroes the upper parts of the vector registers, on processors that have them.
///
/// The product library's AVX kernels end without it. Until something else does it, every scalar operation of the thread
/// on Intel processors waits for the last one to the same register: `exp` or `ln` in a loop takes 15 times as long.
pub fn clear() {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = pulp::x86::V3::try_new() {
        simd.avx._mm256_zeroupper();
    }
}
