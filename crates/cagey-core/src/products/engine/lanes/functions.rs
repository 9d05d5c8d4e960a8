//! Elementary functions of vectors, as polynomials on reduced arguments. The relative error is a few units in the last
//! place.

use super::{Lanes, Number};
use crate::arithmetic::{Arithmetic, SMALLEST_SQUARE, largest_square};
use crate::linalg::real::Real;

/// R × V vectors in profile arithmetic, in step. A profile is one long chain of operations, each of which waits for the
/// previous one. So several chains are needed to keep a CPU busy.
#[derive(Debug, Clone, Copy)]
pub struct Chains<L, const R: usize, const V: usize>(pub [[L; V]; R]);

#[inline(always)]
fn constant<L: Lanes>(value: f64) -> L {
    L::splat(L::Element::of(value))
}

impl<L: Lanes, const R: usize, const V: usize> Chains<L, R, V> {
    /// The same vector everywhere.
    #[inline(always)]
    pub fn all(value: L) -> Self {
        Self([[value; V]; R])
    }

    #[inline(always)]
    fn each(mut self, f: impl Fn(L) -> L) -> Self {
        for r in 0..R {
            for v in 0..V {
                self.0[r][v] = f(self.0[r][v]);
            }
        }
        self
    }

    #[inline(always)]
    fn with(mut self, other: Self, f: impl Fn(L, L) -> L) -> Self {
        for r in 0..R {
            for v in 0..V {
                self.0[r][v] = f(self.0[r][v], other.0[r][v]);
            }
        }
        self
    }

    /// self where `at` is below a bound, else 0.
    #[inline(always)]
    pub fn below(self, at: Self, bound: f64) -> Self {
        self.with(
            at,
            #[inline(always)]
            |x, at| x.below(at, constant(bound)),
        )
    }

    #[inline(always)]
    fn polynomial(self, coefficients: &[L::Element]) -> Self {
        let mut value = Self::all(L::splat(coefficients[0]));
        for &c in &coefficients[1..] {
            value = value.with(
                self,
                #[inline(always)]
                |value, x| value.mul_add(x, L::splat(c)),
            );
        }
        value
    }

    /// sin(self); with `quarters` = ½, sin(self + π/2) = cos(self).
    #[inline(always)]
    fn sine(self, quarters: f64) -> Self {
        // self = (n − quarters) π + r; the sign alternates with n.
        let n = self.each(
            #[inline(always)]
            |x| x.mul_add(constant(std::f64::consts::FRAC_1_PI), constant(quarters)).round(),
        );
        let turns = n.each(
            #[inline(always)]
            |n| n.sub(constant(quarters)),
        );
        let r = turns.with(
            self,
            #[inline(always)]
            |turns, x| turns.neg_mul_add(constant(std::f64::consts::PI), x),
        );
        let r = turns.with(
            r,
            #[inline(always)]
            |turns, r| turns.neg_mul_add(constant(L::Element::PI_REST), r),
        );
        let sign = n.each(
            #[inline(always)]
            |n| {
                let odd = n.mul(constant(0.5)).round().mul_add(constant(-2.0), n).abs();
                odd.neg_mul_add(constant(2.0), constant(1.0))
            },
        );
        r.with(r, L::mul).polynomial(L::Element::SINE).with(r, L::mul).with(sign, L::mul)
    }
}

impl<L: Lanes, const R: usize, const V: usize> Arithmetic for Chains<L, R, V> {
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.with(other, L::add)
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.with(other, L::mul)
    }
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        self.with(other, L::div)
    }
    #[inline(always)]
    fn scale(self, factor: f64) -> Self {
        self.each(
            #[inline(always)]
            |x| x.mul(constant(factor)),
        )
    }
    #[inline(always)]
    fn shift(self, by: f64) -> Self {
        self.each(
            #[inline(always)]
            |x| x.add(constant(by)),
        )
    }
    /// As 2ⁿ 2ʳ, for exponents within the type's range (those of profiles are never positive).
    #[inline(always)]
    fn exp(self) -> Self {
        let (log2_e, magic) = (constant::<L>(std::f64::consts::LOG2_E), L::splat(L::Element::MAGIC));
        let x = self.each(
            #[inline(always)]
            |x| x.max(L::splat(-L::Element::EXP_RANGE)),
        );
        let magic_n = x.each(
            #[inline(always)]
            |x| x.mul_add(log2_e, magic),
        );
        let n = magic_n.each(
            #[inline(always)]
            |n| n.sub(magic),
        );
        let r = x.with(
            n,
            #[inline(always)]
            |x, n| x.mul_sub(log2_e, n),
        );
        r.polynomial(L::Element::EXP2).with(magic_n, L::times_power)
    }
    #[inline(always)]
    fn ln(self) -> Self {
        let one = constant::<L>(1.0);
        let (m, e) = (
            self.each(
                #[inline(always)]
                |x| x.split().0,
            ),
            self.each(
                #[inline(always)]
                |x| x.split().1,
            ),
        );
        let t = m.each(
            #[inline(always)]
            |m| m.sub(one).div(m.add(one)),
        );
        let p = t.with(t, L::mul).polynomial(L::Element::ATANH);
        let [high, rest] = L::Element::LN2;
        let rest = t
            .with(
                p,
                #[inline(always)]
                |t, p| t.add(t).mul(p),
            )
            .with(
                e,
                #[inline(always)]
                |s, e| e.mul_add(constant(rest), s),
            );
        rest.with(
            e,
            #[inline(always)]
            |s, e| e.mul_add(constant(high), s),
        )
    }
    #[inline(always)]
    fn at_most(self, bound: f64) -> Self {
        self.each(
            #[inline(always)]
            |x| x.min(constant(bound)),
        )
    }
    #[inline(always)]
    fn safe_sqrt(self) -> Self {
        let largest = largest_square(size_of::<L::Element>());
        self.each(
            #[inline(always)]
            |x| x.max(constant(SMALLEST_SQUARE)).min(constant(largest)).sqrt(),
        )
    }
    #[inline(always)]
    fn sin(self) -> Self {
        self.sine(0.0)
    }
    #[inline(always)]
    fn cos(self) -> Self {
        self.sine(0.5)
    }
}
