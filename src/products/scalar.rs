//! Scalar arithmetic without branches or library calls where it can be, so that loops over it become vector code.

use crate::kernels::profile::{Arithmetic, SMALLEST_SQUARE};
use crate::linalg::real::Real;

/// A number in profile arithmetic.
#[derive(Debug, Clone, Copy)]
pub struct Scalar<T>(pub T);

/// Elementary functions as polynomials on reduced arguments; relative error of a few units in the last place.
pub trait Elementary: Real {
    /// eˣ; arguments beyond the normal range give the smallest or largest normal number.
    fn fast_exp(self) -> Self;
    /// ln x for positive normal x.
    fn fast_ln(self) -> Self;
}

macro_rules! elementary {
    ($t:ident, $bits:ty, $signed:ty, $mantissa:expr, $bias:expr, $low:expr, $high:expr, $ln2_hi:expr, $ln2_lo:expr, $exp:expr, $atanh:expr) => {
        impl Elementary for $t {
            #[inline(always)]
            fn fast_exp(self) -> Self {
                // Adding 1.5·2^mantissa rounds to an integer and leaves it in the low bits.
                const MAGIC: $t = 1.5 * (1u64 << $mantissa) as $t;
                let x = self.max($low).min($high);
                let shifted = x.mul_add(std::$t::consts::LOG2_E, MAGIC);
                let n = shifted - MAGIC;
                let r = n.mul_add(-$ln2_lo, n.mul_add(-$ln2_hi, x));
                let mut p: $t = 0.0;
                for c in $exp {
                    p = p.mul_add(r, c);
                }
                let exponent = shifted.to_bits().wrapping_add($bias).wrapping_shl($mantissa);
                p * <$t>::from_bits(exponent)
            }

            #[inline(always)]
            fn fast_ln(self) -> Self {
                // x = 2^e m with m in [√½, √2); ln m = 2 atanh((m − 1)/(m + 1)).
                const SQRT_HALF: $bits = std::$t::consts::FRAC_1_SQRT_2.to_bits();
                let bits = self.to_bits().wrapping_sub(SQRT_HALF);
                let e = (bits as $signed >> $mantissa) as $t;
                let m = <$t>::from_bits((bits & ((1 << $mantissa) - 1)).wrapping_add(SQRT_HALF));
                let t = (m - 1.0) / (m + 1.0);
                let t2 = t * t;
                let mut p: $t = 0.0;
                for c in $atanh {
                    p = p.mul_add(t2, c);
                }
                e.mul_add($ln2_hi, (2.0 * t).mul_add(p, e * $ln2_lo))
            }
        }
    };
}

elementary!(
    f64,
    u64,
    i64,
    52,
    1023,
    -708.0,
    709.0,
    0.693_147_180_369_123_8,
    1.908_214_929_270_587_7e-10,
    [
        1.0 / 6227020800.0,
        1.0 / 479001600.0,
        1.0 / 39916800.0,
        1.0 / 3628800.0,
        1.0 / 362880.0,
        1.0 / 40320.0,
        1.0 / 5040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        1.0 / 2.0,
        1.0,
        1.0
    ],
    [
        1.0 / 23.0,
        1.0 / 21.0,
        1.0 / 19.0,
        1.0 / 17.0,
        1.0 / 15.0,
        1.0 / 13.0,
        1.0 / 11.0,
        1.0 / 9.0,
        1.0 / 7.0,
        1.0 / 5.0,
        1.0 / 3.0,
        1.0
    ]
);
elementary!(
    f32,
    u32,
    i32,
    23,
    127,
    -87.0,
    88.0,
    0.693_359_4,
    -2.121_944_4e-4,
    [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 1.0 / 2.0, 1.0, 1.0],
    [1.0 / 9.0, 1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0, 1.0]
);

impl<T: Elementary> Arithmetic for Scalar<T> {
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self(self.0 * other.0)
    }
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        Self(self.0 / other.0)
    }
    #[inline(always)]
    fn scale(self, factor: f64) -> Self {
        Self(self.0 * T::of(factor))
    }
    #[inline(always)]
    fn shift(self, constant: f64) -> Self {
        Self(self.0 + T::of(constant))
    }
    #[inline(always)]
    fn exp(self) -> Self {
        Self(self.0.fast_exp())
    }
    #[inline(always)]
    fn ln(self) -> Self {
        Self(self.0.fast_ln())
    }
    #[inline(always)]
    fn safe_sqrt(self) -> Self {
        Self(num_traits::Float::sqrt(num_traits::Float::max(self.0, T::of(SMALLEST_SQUARE))))
    }
    #[inline(always)]
    fn sin(self) -> Self {
        Self(num_traits::Float::sin(self.0))
    }
    #[inline(always)]
    fn cos(self) -> Self {
        Self(num_traits::Float::cos(self.0))
    }
}
