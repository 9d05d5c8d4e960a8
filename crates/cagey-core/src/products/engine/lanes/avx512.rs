//! AVX-512: 512-bit vectors in 32 registers.

use std::arch::x86_64::*;

use super::Lanes;
use super::x86::{intrinsics, vectors};

/// Sixteen f32.
#[derive(Debug, Clone, Copy)]
pub struct F32x16(__m512);

/// Eight f64.
#[derive(Debug, Clone, Copy)]
pub struct F64x8(__m512d);

#[target_feature(enable = "avx512f,avx512dq,avx2,fma")]
fn enabled<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// One Newton step from y ≈ 1/√x (relative error 2⁻¹⁴, then 2⁻²⁷) directly to √x = t + ½t(1 − ty), t = xy.
#[inline(always)]
fn sqrt_f32(x: F32x16) -> F32x16 {
    let y = F32x16(intrinsics!(_mm512_rsqrt14_ps(x.0)));
    let t = x.mul(y);
    t.mul(F32x16::splat(0.5)).mul_add(t.neg_mul_add(y, F32x16::splat(1.0)), t)
}

/// Two Newton steps. The second uses the residual x − t², so that only its own rounding is left.
#[inline(always)]
fn sqrt_f64(x: F64x8) -> F64x8 {
    let y = F64x8(intrinsics!(_mm512_rsqrt14_pd(x.0)));
    let half = y.mul(F64x8::splat(0.5));
    let u = x.mul(y).neg_mul_add(half, F64x8::splat(0.5));
    let y = y.mul_add(u, y);
    let t = x.mul(y);
    t.neg_mul_add(t, x).mul_add(y.mul(F64x8::splat(0.5)), t)
}

#[inline(always)]
fn below_f32(x: __m512, at: __m512, bound: __m512) -> __m512 {
    intrinsics!(_mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(at, bound), x))
}

#[inline(always)]
fn below_f64(x: __m512d, at: __m512d, bound: __m512d) -> __m512d {
    intrinsics!(_mm512_maskz_mov_pd(_mm512_cmp_pd_mask::<_CMP_LT_OQ>(at, bound), x))
}

#[inline(always)]
fn abs_f32(x: __m512) -> __m512 {
    intrinsics!(_mm512_abs_ps(x))
}

#[inline(always)]
fn abs_f64(x: __m512d) -> __m512d {
    intrinsics!(_mm512_abs_pd(x))
}

#[inline(always)]
fn power_f32(x: F32x16, magic_n: F32x16) -> F32x16 {
    intrinsics! {
        let n = _mm512_slli_epi32::<23>(_mm512_castps_si512(magic_n.0));
        F32x16(_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x.0), n)))
    }
}

#[inline(always)]
fn power_f64(x: F64x8, magic_n: F64x8) -> F64x8 {
    intrinsics! {
        let n = _mm512_slli_epi64::<52>(_mm512_castpd_si512(magic_n.0));
        F64x8(_mm512_castsi512_pd(_mm512_add_epi64(_mm512_castpd_si512(x.0), n)))
    }
}

#[inline(always)]
fn split_f32(x: F32x16) -> (F32x16, F32x16) {
    const SQRT_HALF: i32 = std::f32::consts::FRAC_1_SQRT_2.to_bits().cast_signed();
    intrinsics! {
        let least = _mm512_set1_epi32(SQRT_HALF);
        let bits = _mm512_sub_epi32(_mm512_castps_si512(x.0), least);
        let mantissa = _mm512_add_epi32(_mm512_and_epi32(bits, _mm512_set1_epi32((1 << 23) - 1)), least);
        (F32x16(_mm512_castsi512_ps(mantissa)), F32x16(_mm512_cvtepi32_ps(_mm512_srai_epi32::<23>(bits))))
    }
}

#[inline(always)]
fn split_f64(x: F64x8) -> (F64x8, F64x8) {
    const SQRT_HALF: i64 = std::f64::consts::FRAC_1_SQRT_2.to_bits().cast_signed();
    intrinsics! {
        let least = _mm512_set1_epi64(SQRT_HALF);
        let bits = _mm512_sub_epi64(_mm512_castpd_si512(x.0), least);
        let mantissa = _mm512_add_epi64(_mm512_and_epi64(bits, _mm512_set1_epi64((1 << 52) - 1)), least);
        (F64x8(_mm512_castsi512_pd(mantissa)), F64x8(_mm512_cvtepi64_pd(_mm512_srai_epi64::<52>(bits))))
    }
}

vectors!(
    F32x16, f32, 16, many registers: true, enabled,
    [_mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps],
    [_mm512_add_ps, _mm512_sub_ps, _mm512_mul_ps, _mm512_div_ps,
     _mm512_fmadd_ps, _mm512_fmsub_ps, _mm512_fnmadd_ps, _mm512_max_ps, _mm512_min_ps],
    [below_f32, abs_f32, sqrt_f32, power_f32, split_f32], sum: _mm512_reduce_add_ps
);
vectors!(
    F64x8, f64, 8, many registers: true, enabled,
    [_mm512_set1_pd, _mm512_loadu_pd, _mm512_storeu_pd],
    [_mm512_add_pd, _mm512_sub_pd, _mm512_mul_pd, _mm512_div_pd,
     _mm512_fmadd_pd, _mm512_fmsub_pd, _mm512_fnmadd_pd, _mm512_max_pd, _mm512_min_pd],
    [below_f64, abs_f64, sqrt_f64, power_f64, split_f64], sum: _mm512_reduce_add_pd
);
