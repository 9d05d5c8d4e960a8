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

/// A vector for each chain, or the same one for all of them.
trait Operand<L> {
    /// The vector of a chain.
    fn at(&self, r: usize, v: usize) -> L;
}

impl<L: Lanes> Operand<L> for L {
    #[inline(always)]
    fn at(&self, _r: usize, _v: usize) -> L {
        *self
    }
}

impl<L: Lanes, const R: usize, const V: usize> Operand<L> for Chains<L, R, V> {
    #[inline(always)]
    fn at(&self, r: usize, v: usize) -> L {
        self.0[r][v]
    }
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
    fn with(mut self, other: impl Operand<L>, f: impl Fn(L, L) -> L) -> Self {
        for r in 0..R {
            for v in 0..V {
                self.0[r][v] = f(self.0[r][v], other.at(r, v));
            }
        }
        self
    }

    /// f of each vector and two operands.
    #[inline(always)]
    fn fused(mut self, factor: impl Operand<L>, term: impl Operand<L>, f: impl Fn(L, L, L) -> L) -> Self {
        for r in 0..R {
            for v in 0..V {
                self.0[r][v] = f(self.0[r][v], factor.at(r, v), term.at(r, v));
            }
        }
        self
    }

    /// self where `at` is below a bound, else 0.
    #[inline(always)]
    pub fn below(self, at: Self, bound: f64) -> Self {
        self.fused(at, constant::<L>(bound), L::below)
    }

    #[inline(always)]
    fn polynomial(self, coefficients: &[L::Element]) -> Self {
        let mut value = Self::all(L::splat(coefficients[0]));
        for &c in &coefficients[1..] {
            value = value.fused(self, L::splat(c), L::mul_add);
        }
        value
    }

    /// sin(self); with `quarters` = ½, sin(self + π/2) = cos(self).
    #[inline(always)]
    fn sine(self, quarters: f64) -> Self {
        let (half, one, two, minus_two) =
            (constant::<L>(0.5), constant::<L>(1.0), constant::<L>(2.0), constant::<L>(-2.0));
        let (pi, pi_rest) = (constant::<L>(std::f64::consts::PI), constant::<L>(L::Element::PI_REST));
        let (inverse, quarters) = (constant::<L>(std::f64::consts::FRAC_1_PI), constant::<L>(quarters));
        // self = (n − quarters) π + r; the sign alternates with n.
        let n = self.fused(inverse, quarters, L::mul_add).each(L::round);
        let turns = n.with(quarters, L::sub);
        let r = turns.fused(pi_rest, turns.fused(pi, self, L::neg_mul_add), L::neg_mul_add);
        let odd = n.with(half, L::mul).each(L::round).fused(minus_two, n, L::mul_add).each(L::abs);
        let sign = odd.fused(two, one, L::neg_mul_add);
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
        self.with(constant::<L>(factor), L::mul)
    }
    #[inline(always)]
    fn shift(self, by: f64) -> Self {
        self.with(constant::<L>(by), L::add)
    }
    /// As 2ⁿ 2ʳ, for exponents within the type's range (those of profiles are never positive).
    #[inline(always)]
    fn exp(self) -> Self {
        let (log2_e, magic) = (constant::<L>(std::f64::consts::LOG2_E), L::splat(L::Element::MAGIC));
        let x = self.with(L::splat(-L::Element::EXP_RANGE), L::max);
        let magic_n = x.fused(log2_e, magic, L::mul_add);
        let n = magic_n.with(magic, L::sub);
        let r = x.fused(log2_e, n, L::mul_sub);
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
        let t = m.with(one, L::sub).div(m.with(one, L::add));
        let p = t.with(t, L::mul).polynomial(L::Element::ATANH);
        let [high, rest] = L::Element::LN2;
        let low = e.fused(constant::<L>(rest), t.add(t).mul(p), L::mul_add);
        e.fused(constant::<L>(high), low, L::mul_add)
    }
    #[inline(always)]
    fn at_most(self, bound: f64) -> Self {
        self.with(constant::<L>(bound), L::min)
    }
    #[inline(always)]
    fn safe_sqrt(self) -> Self {
        let largest = largest_square(size_of::<L::Element>());
        self.with(constant::<L>(SMALLEST_SQUARE), L::max).with(constant::<L>(largest), L::min).each(L::sqrt)
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
