//! The common part of the vectors of all x86 instruction sets: the same operations, from intrinsics with different
//! names.
//!
//! The crate `pulp`, which lets the loops of dense algebra use these instruction sets, has no shifts of 64-bit lanes,
//! no approximate 1/√x and no conversion of signed integers. exp, log and √ are made of these here.

/// Intrinsics, as safe expressions.
macro_rules! intrinsics {
    ($($body:tt)*) => {
        // SAFETY: these vectors are only chosen if `is_x86_feature_detected!` found their features, and what an
        // intrinsic reads or writes through a pointer is a slice as long as the vector.
        unsafe { $($body)* }
    };
}

/// Implements [`Lanes`](super::Lanes) for a vector by its intrinsics, and by functions where no single intrinsic
/// exists.
macro_rules! vectors {
    ($name:ident, $t:ident, $n:literal, many registers: $many:literal, $enabled:ident,
     [$set1:ident, $loadu:ident, $storeu:ident],
     [$add:ident, $sub:ident, $mul:ident, $div:ident, $fmadd:ident, $fmsub:ident, $fnmadd:ident,
     $max:ident, $min:ident],
     [$below:ident, $abs:ident, $sqrt:ident, $power:ident, $split:ident] $(, sum: $reduce:ident)?) => {
        impl Lanes for $name {
            type Element = $t;
            const N: usize = $n;
            const MANY_REGISTERS: bool = $many;

            fn enter<R>(work: impl FnOnce() -> R) -> R {
                intrinsics!($enabled(work))
            }
            #[inline(always)]
            fn splat(value: $t) -> Self {
                Self(intrinsics!($set1(value)))
            }
            #[inline(always)]
            fn load(from: &[$t]) -> Self {
                let from = &from[..$n];
                Self(intrinsics!($loadu(from.as_ptr())))
            }
            #[inline(always)]
            fn store(self, to: &mut [$t]) {
                let to = &mut to[..$n];
                intrinsics!($storeu(to.as_mut_ptr(), self.0))
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                Self(intrinsics!($add(self.0, other.0)))
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                Self(intrinsics!($sub(self.0, other.0)))
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                Self(intrinsics!($mul(self.0, other.0)))
            }
            #[inline(always)]
            fn div(self, other: Self) -> Self {
                Self(intrinsics!($div(self.0, other.0)))
            }
            #[inline(always)]
            fn mul_add(self, factor: Self, term: Self) -> Self {
                Self(intrinsics!($fmadd(self.0, factor.0, term.0)))
            }
            #[inline(always)]
            fn mul_sub(self, factor: Self, term: Self) -> Self {
                Self(intrinsics!($fmsub(self.0, factor.0, term.0)))
            }
            #[inline(always)]
            fn neg_mul_add(self, factor: Self, term: Self) -> Self {
                Self(intrinsics!($fnmadd(self.0, factor.0, term.0)))
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                Self(intrinsics!($max(other.0, self.0)))
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                Self(intrinsics!($min(other.0, self.0)))
            }
            #[inline(always)]
            fn below(self, at: Self, bound: Self) -> Self {
                Self($below(self.0, at.0, bound.0))
            }
            #[inline(always)]
            fn abs(self) -> Self {
                Self($abs(self.0))
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
            $(
                #[inline(always)]
                fn sum(self) -> $t {
                    intrinsics!($reduce(self.0))
                }
            )?
        }
    };
}

pub(super) use {intrinsics, vectors};
