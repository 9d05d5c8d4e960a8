//! AVX2 with fused multiply-add: 256-bit vectors in 16 registers.

use std::arch::x86_64::*;

use super::Lanes;
use super::x86::{intrinsics, vectors};

/// Eight f32.
#[derive(Debug, Clone, Copy)]
pub struct F32x8(__m256);

/// Four f64.
#[derive(Debug, Clone, Copy)]
pub struct F64x4(__m256d);

#[target_feature(enable = "avx2,fma")]
fn enabled<R>(work: impl FnOnce() -> R) -> R {
    work()
}

#[inline(always)]
fn below_f32(x: __m256, at: __m256, bound: __m256) -> __m256 {
    intrinsics!(_mm256_and_ps(_mm256_cmp_ps::<_CMP_LT_OQ>(at, bound), x))
}

#[inline(always)]
fn below_f64(x: __m256d, at: __m256d, bound: __m256d) -> __m256d {
    intrinsics!(_mm256_and_pd(_mm256_cmp_pd::<_CMP_LT_OQ>(at, bound), x))
}

#[inline(always)]
fn power_f32(x: F32x8, magic_n: F32x8) -> F32x8 {
    intrinsics! {
        let n = _mm256_slli_epi32::<23>(_mm256_castps_si256(magic_n.0));
        F32x8(_mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x.0), n)))
    }
}

#[inline(always)]
fn power_f64(x: F64x4, magic_n: F64x4) -> F64x4 {
    intrinsics! {
        let n = _mm256_slli_epi64::<52>(_mm256_castpd_si256(magic_n.0));
        F64x4(_mm256_castsi256_pd(_mm256_add_epi64(_mm256_castpd_si256(x.0), n)))
    }
}

#[inline(always)]
fn split_f32(x: F32x8) -> (F32x8, F32x8) {
    const SQRT_HALF: i32 = std::f32::consts::FRAC_1_SQRT_2.to_bits().cast_signed();
    intrinsics! {
        let least = _mm256_set1_epi32(SQRT_HALF);
        let bits = _mm256_sub_epi32(_mm256_castps_si256(x.0), least);
        let mantissa = _mm256_add_epi32(_mm256_and_si256(bits, _mm256_set1_epi32((1 << 23) - 1)), least);
        (F32x8(_mm256_castsi256_ps(mantissa)), F32x8(_mm256_cvtepi32_ps(_mm256_srai_epi32::<23>(bits))))
    }
}

#[inline(always)]
fn split_f64(x: F64x4) -> (F64x4, F64x4) {
    const SQRT_HALF: i64 = std::f64::consts::FRAC_1_SQRT_2.to_bits().cast_signed();
    const TWO_52: f64 = 4_503_599_627_370_496.0;
    intrinsics! {
        let least = _mm256_set1_epi64x(SQRT_HALF);
        let bits = _mm256_sub_epi64(_mm256_castpd_si256(x.0), least);
        let mantissa = _mm256_add_epi64(_mm256_and_si256(bits, _mm256_set1_epi64x((1 << 52) - 1)), least);
        // There is no arithmetic shift of 64 bits here. So shift a positive number, e + 1024, and read it as the low
        // bits of 2⁵² + that number.
        let positive = _mm256_srli_epi64::<52>(_mm256_add_epi64(bits, _mm256_set1_epi64x(1024 << 52)));
        let number = _mm256_castsi256_pd(_mm256_or_si256(positive, _mm256_castpd_si256(_mm256_set1_pd(TWO_52))));
        (F64x4(_mm256_castsi256_pd(mantissa)), F64x4(_mm256_sub_pd(number, _mm256_set1_pd(TWO_52 + 1024.0))))
    }
}

#[inline(always)]
fn abs_f32(x: __m256) -> __m256 {
    intrinsics!(_mm256_andnot_ps(_mm256_set1_ps(-0.0), x))
}

#[inline(always)]
fn abs_f64(x: __m256d) -> __m256d {
    intrinsics!(_mm256_andnot_pd(_mm256_set1_pd(-0.0), x))
}

#[inline(always)]
fn sqrt_f32(x: F32x8) -> F32x8 {
    F32x8(intrinsics!(_mm256_sqrt_ps(x.0)))
}

#[inline(always)]
fn sqrt_f64(x: F64x4) -> F64x4 {
    F64x4(intrinsics!(_mm256_sqrt_pd(x.0)))
}

vectors!(
    F32x8, f32, 8, many registers: false, enabled,
    [_mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps],
    [_mm256_add_ps, _mm256_sub_ps, _mm256_mul_ps, _mm256_div_ps,
     _mm256_fmadd_ps, _mm256_fmsub_ps, _mm256_fnmadd_ps, _mm256_max_ps, _mm256_min_ps],
    [below_f32, abs_f32, sqrt_f32, power_f32, split_f32]
);
vectors!(
    F64x4, f64, 4, many registers: false, enabled,
    [_mm256_set1_pd, _mm256_loadu_pd, _mm256_storeu_pd],
    [_mm256_add_pd, _mm256_sub_pd, _mm256_mul_pd, _mm256_div_pd,
     _mm256_fmadd_pd, _mm256_fmsub_pd, _mm256_fnmadd_pd, _mm256_max_pd, _mm256_min_pd],
    [below_f64, abs_f64, sqrt_f64, power_f64, split_f64]
);
