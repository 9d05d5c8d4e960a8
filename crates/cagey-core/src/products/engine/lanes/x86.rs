//! The common part of the vectors of all x86 instruction sets: the same operations, from intrinsics with different
//! names.

// SAFETY of all intrinsics: these types are only chosen if `is_x86_feature_detected!` found the features.

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
                unsafe { $enabled(work) }
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
            $(
                #[inline(always)]
                fn sum(self) -> $t {
                    unsafe { $reduce(self.0) }
                }
            )?
        }
    };
}

pub(super) use vectors;
