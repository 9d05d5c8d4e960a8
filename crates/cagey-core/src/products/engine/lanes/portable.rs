//! Vectors as arrays: the compiler turns the loops into the vector instructions that it may assume.

use super::Lanes;
use crate::linalg::real::Real;

/// N numbers.
#[derive(Debug, Clone, Copy)]
pub struct Portable<T, const N: usize>([T; N]);

impl<T: Copy, const N: usize> Portable<T, N> {
    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(T, T) -> T) -> Self {
        Self(std::array::from_fn(
            #[inline(always)]
            |i| f(self.0[i], other.0[i]),
        ))
    }
}

/// a · b + c, rounded once if the machine can do that. Elsewhere a library call would cost a hundred times as much.
#[inline(always)]
fn fused<T: Real>(a: T, b: T, c: T) -> T {
    if cfg!(any(target_arch = "aarch64", target_feature = "fma")) {
        num_traits::Float::mul_add(a, b, c)
    } else {
        a * b + c
    }
}

macro_rules! portable {
    ($t:ident, $bits:ident, $signed:ident, $mantissa:expr) => {
        impl<const N: usize> Lanes for Portable<$t, N> {
            type Element = $t;
            const N: usize = N;
            const MANY_REGISTERS: bool = cfg!(target_arch = "aarch64");

            fn enter<R>(work: impl FnOnce() -> R) -> R {
                work()
            }
            #[inline(always)]
            fn splat(value: $t) -> Self {
                Self([value; N])
            }
            #[inline(always)]
            fn load(from: &[$t]) -> Self {
                Self(std::array::from_fn(
                    #[inline(always)]
                    |i| from[i],
                ))
            }
            #[inline(always)]
            fn store(self, to: &mut [$t]) {
                to[..N].copy_from_slice(&self.0);
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.zip(
                    other,
                    #[inline(always)]
                    |a, b| a + b,
                )
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self.zip(
                    other,
                    #[inline(always)]
                    |a, b| a - b,
                )
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self.zip(
                    other,
                    #[inline(always)]
                    |a, b| a * b,
                )
            }
            #[inline(always)]
            fn div(self, other: Self) -> Self {
                self.zip(
                    other,
                    #[inline(always)]
                    |a, b| a / b,
                )
            }
            #[inline(always)]
            fn mul_add(self, factor: Self, term: Self) -> Self {
                Self(std::array::from_fn(
                    #[inline(always)]
                    |i| fused(self.0[i], factor.0[i], term.0[i]),
                ))
            }
            #[inline(always)]
            fn mul_sub(self, factor: Self, term: Self) -> Self {
                Self(std::array::from_fn(
                    #[inline(always)]
                    |i| fused(self.0[i], factor.0[i], -term.0[i]),
                ))
            }
            #[inline(always)]
            fn neg_mul_add(self, factor: Self, term: Self) -> Self {
                Self(std::array::from_fn(
                    #[inline(always)]
                    |i| fused(-self.0[i], factor.0[i], term.0[i]),
                ))
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                self.zip(
                    other,
                    #[inline(always)]
                    |a, b| if b > a { b } else { a },
                )
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                self.zip(
                    other,
                    #[inline(always)]
                    |a, b| if b < a { b } else { a },
                )
            }
            #[inline(always)]
            fn below(self, at: Self, bound: Self) -> Self {
                let kept = at.zip(
                    bound,
                    #[inline(always)]
                    |a, b| if a < b { 1.0 } else { 0.0 },
                );
                self.mul(kept)
            }
            #[inline(always)]
            fn abs(self) -> Self {
                Self(self.0.map($t::abs))
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                Self(self.0.map($t::sqrt))
            }
            #[inline(always)]
            fn times_power(self, magic_n: Self) -> Self {
                let raised = |x: $t, n: $t| x.to_bits().wrapping_add(n.to_bits().wrapping_shl($mantissa));
                self.zip(
                    magic_n,
                    #[inline(always)]
                    |x, n| <$t>::from_bits(raised(x, n)),
                )
            }
            #[inline(always)]
            fn split(self) -> (Self, Self) {
                const SQRT_HALF: $bits = std::$t::consts::FRAC_1_SQRT_2.to_bits();
                const MASK: $bits = (1 << $mantissa) - 1;
                let bits = self.0.map(
                    #[inline(always)]
                    |x| x.to_bits().wrapping_sub(SQRT_HALF),
                );
                let mantissa = bits.map(
                    #[inline(always)]
                    |b| <$t>::from_bits((b & MASK).wrapping_add(SQRT_HALF)),
                );
                (
                    Self(mantissa),
                    Self(bits.map(
                        #[inline(always)]
                        |b| (b as $signed >> $mantissa) as $t,
                    )),
                )
            }
        }
    };
}

portable!(f32, u32, i32, 23);
portable!(f64, u64, i64, 52);
