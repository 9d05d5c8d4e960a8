//! AVX2 with fused multiply-add: 256-bit vectors in 16 registers.

use std::arch::x86_64::*;

use super::Lanes;

/// Eight f32.
#[derive(Debug, Clone, Copy)]
pub struct F32x8(__m256);

/// Four f64.
#[derive(Debug, Clone, Copy)]
pub struct F64x4(__m256d);

// SAFETY of all intrinsics here: these types are only chosen where `is_x86_feature_detected!` found the features.

#[target_feature(enable = "avx2,fma")]
fn enabled<R>(work: impl FnOnce() -> R) -> R {
    work()
}

macro_rules! avx2 {
    ($name:ident, $t:ident, $n:expr, $set1:ident, $loadu:ident, $storeu:ident, $add:ident, $sub:ident, $mul:ident,
     $div:ident, $fmadd:ident, $fmsub:ident, $fnmadd:ident, $max:ident, $min:ident, $below:ident, $andnot:ident,
     $sqrt:ident, $power:expr, $split:expr) => {
        impl Lanes for $name {
            type Element = $t;
            const N: usize = $n;
            const MANY_REGISTERS: bool = false;

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
                Self(unsafe { $andnot($set1(-0.0), self.0) })
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                Self(unsafe { $sqrt(self.0) })
            }
            #[inline(always)]
            fn times_power(self, magic_n: Self) -> Self {
                $power(self, magic_n)
            }
            #[inline(always)]
            fn split(self) -> (Self, Self) {
                $split(self)
            }
        }
    };
}

#[inline(always)]
unsafe fn below_f32(x: __m256, at: __m256, bound: __m256) -> __m256 {
    unsafe { _mm256_and_ps(_mm256_cmp_ps::<_CMP_LT_OQ>(at, bound), x) }
}

#[inline(always)]
unsafe fn below_f64(x: __m256d, at: __m256d, bound: __m256d) -> __m256d {
    unsafe { _mm256_and_pd(_mm256_cmp_pd::<_CMP_LT_OQ>(at, bound), x) }
}

#[inline(always)]
fn power_f32(x: F32x8, magic_n: F32x8) -> F32x8 {
    unsafe {
        let n = _mm256_slli_epi32::<23>(_mm256_castps_si256(magic_n.0));
        F32x8(_mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x.0), n)))
    }
}

#[inline(always)]
fn power_f64(x: F64x4, magic_n: F64x4) -> F64x4 {
    unsafe {
        let n = _mm256_slli_epi64::<52>(_mm256_castpd_si256(magic_n.0));
        F64x4(_mm256_castsi256_pd(_mm256_add_epi64(_mm256_castpd_si256(x.0), n)))
    }
}

#[inline(always)]
fn split_f32(x: F32x8) -> (F32x8, F32x8) {
    const SQRT_HALF: i32 = std::f32::consts::FRAC_1_SQRT_2.to_bits().cast_signed();
    unsafe {
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
    unsafe {
        let least = _mm256_set1_epi64x(SQRT_HALF);
        let bits = _mm256_sub_epi64(_mm256_castpd_si256(x.0), least);
        let mantissa = _mm256_add_epi64(_mm256_and_si256(bits, _mm256_set1_epi64x((1 << 52) - 1)), least);
        // No arithmetic shift of 64 bits here: shift a positive number, e + 1024, and read it as the low bits of 2⁵² +
        // it.
        let positive = _mm256_srli_epi64::<52>(_mm256_add_epi64(bits, _mm256_set1_epi64x(1024 << 52)));
        let number = _mm256_castsi256_pd(_mm256_or_si256(positive, _mm256_castpd_si256(_mm256_set1_pd(TWO_52))));
        (F64x4(_mm256_castsi256_pd(mantissa)), F64x4(_mm256_sub_pd(number, _mm256_set1_pd(TWO_52 + 1024.0))))
    }
}

avx2!(
    F32x8,
    f32,
    8,
    _mm256_set1_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_add_ps,
    _mm256_sub_ps,
    _mm256_mul_ps,
    _mm256_div_ps,
    _mm256_fmadd_ps,
    _mm256_fmsub_ps,
    _mm256_fnmadd_ps,
    _mm256_max_ps,
    _mm256_min_ps,
    below_f32,
    _mm256_andnot_ps,
    _mm256_sqrt_ps,
    power_f32,
    split_f32
);
avx2!(
    F64x4,
    f64,
    4,
    _mm256_set1_pd,
    _mm256_loadu_pd,
    _mm256_storeu_pd,
    _mm256_add_pd,
    _mm256_sub_pd,
    _mm256_mul_pd,
    _mm256_div_pd,
    _mm256_fmadd_pd,
    _mm256_fmsub_pd,
    _mm256_fnmadd_pd,
    _mm256_max_pd,
    _mm256_min_pd,
    below_f64,
    _mm256_andnot_pd,
    _mm256_sqrt_pd,
    power_f64,
    split_f64
);
