//! AVX-512: 512-bit vectors in 32 registers.

use std::arch::x86_64::*;

use super::Lanes;

/// Sixteen f32.
#[derive(Debug, Clone, Copy)]
pub struct F32x16(__m512);

/// Eight f64.
#[derive(Debug, Clone, Copy)]
pub struct F64x8(__m512d);

// SAFETY of all intrinsics here: these types are only chosen where `is_x86_feature_detected!` found the features.

#[target_feature(enable = "avx512f,avx512dq,avx2,fma")]
fn enabled<R>(work: impl FnOnce() -> R) -> R {
    work()
}

macro_rules! avx512 {
    ($name:ident, $t:ident, $n:expr, $set1:ident, $loadu:ident, $storeu:ident, $add:ident, $sub:ident, $mul:ident,
     $div:ident, $fmadd:ident, $fmsub:ident, $fnmadd:ident, $max:ident, $min:ident, $below:ident, $abs:ident,
     $power:expr, $reduce:ident, $sqrt:expr, $split:expr) => {
        impl Lanes for $name {
            type Element = $t;
            const N: usize = $n;
            const MANY_REGISTERS: bool = true;

            fn enter<R>(work: impl FnOnce() -> R) -> R {
                unsafe { enabled(work) }
            }
            #[inline(always)]
            fn splat(value: $t) -> Self {
                Self(unsafe { $set1(value) })
            }
            #[inline(always)]
            fn load(from: &[$t]) -> Self {
                let from = &from[..$n];
                Self(unsafe { $loadu(from.as_ptr()) })
            }
            #[inline(always)]
            fn store(self, to: &mut [$t]) {
                let to = &mut to[..$n];
                unsafe { $storeu(to.as_mut_ptr(), self.0) }
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                Self(unsafe { $add(self.0, other.0) })
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                Self(unsafe { $sub(self.0, other.0) })
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                Self(unsafe { $mul(self.0, other.0) })
            }
            #[inline(always)]
            fn div(self, other: Self) -> Self {
                Self(unsafe { $div(self.0, other.0) })
            }
            #[inline(always)]
            fn mul_add(self, factor: Self, term: Self) -> Self {
                Self(unsafe { $fmadd(self.0, factor.0, term.0) })
            }
            #[inline(always)]
            fn mul_sub(self, factor: Self, term: Self) -> Self {
                Self(unsafe { $fmsub(self.0, factor.0, term.0) })
            }
            #[inline(always)]
            fn neg_mul_add(self, factor: Self, term: Self) -> Self {
                Self(unsafe { $fnmadd(self.0, factor.0, term.0) })
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                Self(unsafe { $max(other.0, self.0) })
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                Self(unsafe { $min(other.0, self.0) })
            }
            #[inline(always)]
            fn below(self, at: Self, bound: Self) -> Self {
                Self(unsafe { $below(self.0, at.0, bound.0) })
            }
            #[inline(always)]
            fn abs(self) -> Self {
                Self(unsafe { $abs(self.0) })
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                $sqrt(self)
            }
            #[inline(always)]
            fn times_power(self, magic_n: Self) -> Self {
                $power(self, magic_n)
            }
            #[inline(always)]
            fn split(self) -> (Self, Self) {
                $split(self)
            }
            #[inline(always)]
            fn sum(self) -> $t {
                unsafe { $reduce(self.0) }
            }
        }
    };
}

/// One Newton step from y ≈ 1/√x (relative error 2⁻¹⁴, then 2⁻²⁷) straight to √x = t + ½t(1 − ty), t = xy.
#[inline(always)]
fn sqrt_f32(x: F32x16) -> F32x16 {
    let y = F32x16(unsafe { _mm512_rsqrt14_ps(x.0) });
    let t = x.mul(y);
    t.mul(F32x16::splat(0.5)).mul_add(t.neg_mul_add(y, F32x16::splat(1.0)), t)
}

/// Two Newton steps, the second on the residual x − t², so that only its own rounding is left.
#[inline(always)]
fn sqrt_f64(x: F64x8) -> F64x8 {
    let y = F64x8(unsafe { _mm512_rsqrt14_pd(x.0) });
    let half = y.mul(F64x8::splat(0.5));
    let u = x.mul(y).neg_mul_add(half, F64x8::splat(0.5));
    let y = y.mul_add(u, y);
    let t = x.mul(y);
    t.neg_mul_add(t, x).mul_add(y.mul(F64x8::splat(0.5)), t)
}

#[inline(always)]
unsafe fn below_f32(x: __m512, at: __m512, bound: __m512) -> __m512 {
    unsafe { _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(at, bound), x) }
}

#[inline(always)]
unsafe fn below_f64(x: __m512d, at: __m512d, bound: __m512d) -> __m512d {
    unsafe { _mm512_maskz_mov_pd(_mm512_cmp_pd_mask::<_CMP_LT_OQ>(at, bound), x) }
}

#[inline(always)]
fn power_f32(x: F32x16, magic_n: F32x16) -> F32x16 {
    unsafe {
        let n = _mm512_slli_epi32::<23>(_mm512_castps_si512(magic_n.0));
        F32x16(_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x.0), n)))
    }
}

#[inline(always)]
fn power_f64(x: F64x8, magic_n: F64x8) -> F64x8 {
    unsafe {
        let n = _mm512_slli_epi64::<52>(_mm512_castpd_si512(magic_n.0));
        F64x8(_mm512_castsi512_pd(_mm512_add_epi64(_mm512_castpd_si512(x.0), n)))
    }
}

#[inline(always)]
fn split_f32(x: F32x16) -> (F32x16, F32x16) {
    const SQRT_HALF: i32 = std::f32::consts::FRAC_1_SQRT_2.to_bits().cast_signed();
    unsafe {
        let least = _mm512_set1_epi32(SQRT_HALF);
        let bits = _mm512_sub_epi32(_mm512_castps_si512(x.0), least);
        let mantissa = _mm512_add_epi32(_mm512_and_epi32(bits, _mm512_set1_epi32((1 << 23) - 1)), least);
        (F32x16(_mm512_castsi512_ps(mantissa)), F32x16(_mm512_cvtepi32_ps(_mm512_srai_epi32::<23>(bits))))
    }
}

#[inline(always)]
fn split_f64(x: F64x8) -> (F64x8, F64x8) {
    const SQRT_HALF: i64 = std::f64::consts::FRAC_1_SQRT_2.to_bits().cast_signed();
    unsafe {
        let least = _mm512_set1_epi64(SQRT_HALF);
        let bits = _mm512_sub_epi64(_mm512_castpd_si512(x.0), least);
        let mantissa = _mm512_add_epi64(_mm512_and_epi64(bits, _mm512_set1_epi64((1 << 52) - 1)), least);
        (F64x8(_mm512_castsi512_pd(mantissa)), F64x8(_mm512_cvtepi64_pd(_mm512_srai_epi64::<52>(bits))))
    }
}

avx512!(
    F32x16,
    f32,
    16,
    _mm512_set1_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_add_ps,
    _mm512_sub_ps,
    _mm512_mul_ps,
    _mm512_div_ps,
    _mm512_fmadd_ps,
    _mm512_fmsub_ps,
    _mm512_fnmadd_ps,
    _mm512_max_ps,
    _mm512_min_ps,
    below_f32,
    _mm512_abs_ps,
    power_f32,
    _mm512_reduce_add_ps,
    sqrt_f32,
    split_f32
);
avx512!(
    F64x8,
    f64,
    8,
    _mm512_set1_pd,
    _mm512_loadu_pd,
    _mm512_storeu_pd,
    _mm512_add_pd,
    _mm512_sub_pd,
    _mm512_mul_pd,
    _mm512_div_pd,
    _mm512_fmadd_pd,
    _mm512_fmsub_pd,
    _mm512_fnmadd_pd,
    _mm512_max_pd,
    _mm512_min_pd,
    below_f64,
    _mm512_abs_pd,
    power_f64,
    _mm512_reduce_add_pd,
    sqrt_f64,
    split_f64
);
