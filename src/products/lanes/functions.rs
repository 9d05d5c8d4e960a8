//! Elementary functions of vectors as polynomials on reduced arguments; relative error of a few units in the last place.

use super::{Lanes, Number};
use crate::kernels::profile::{Arithmetic, SMALLEST_SQUARE};
use crate::linalg::real::Real;

/// A vector in profile arithmetic.
#[derive(Debug, Clone, Copy)]
pub struct Vector<L>(pub L);

#[inline(always)]
fn constant<L: Lanes>(value: f64) -> L {
    L::splat(L::Element::of(value))
}

#[inline(always)]
fn polynomial<L: Lanes>(coefficients: &[L::Element], x: L) -> L {
    let mut value = L::splat(coefficients[0]);
    for &c in &coefficients[1..] {
        value = value.mul_add(x, L::splat(c));
    }
    value
}

#[inline(always)]
fn exp<L: Lanes>(x: L) -> L {
    let log2_e = constant::<L>(std::f64::consts::LOG2_E);
    let x = x.max(L::splat(-L::Element::EXP_RANGE));
    let n = x.mul(log2_e).round();
    polynomial(L::Element::EXP2, x.mul_sub(log2_e, n)).times_power(n)
}

#[inline(always)]
fn ln<L: Lanes>(x: L) -> L {
    let (m, e) = x.split();
    let one = constant::<L>(1.0);
    let t = m.sub(one).div(m.add(one));
    let p = polynomial(L::Element::ATANH, t.mul(t));
    let [high, rest] = L::Element::LN2;
    e.mul_add(constant(high), t.add(t).mul_add(p, e.mul(constant(rest))))
}

/// sin(x), or with `quarters` = ½ sin(x + π/2) = cos(x).
#[inline(always)]
fn sin<L: Lanes>(x: L, quarters: f64) -> L {
    // x = (n − quarters) π + r, and the sign alternates with n.
    let n = x.mul_add(constant(std::f64::consts::FRAC_1_PI), constant(quarters)).round();
    let turns = n.sub(constant(quarters));
    let r = turns.neg_mul_add(constant(std::f64::consts::PI), x);
    let r = turns.neg_mul_add(constant(L::Element::PI_REST), r);
    let odd = n.mul(constant(0.5)).round().mul_add(constant(-2.0), n).abs();
    let sign = odd.neg_mul_add(constant(2.0), constant(1.0));
    polynomial(L::Element::SINE, r.mul(r)).mul(r).mul(sign)
}

impl<L: Lanes> Arithmetic for Vector<L> {
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(self.0.add(other.0))
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self(self.0.mul(other.0))
    }
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        Self(self.0.div(other.0))
    }
    #[inline(always)]
    fn scale(self, factor: f64) -> Self {
        Self(self.0.mul(constant(factor)))
    }
    #[inline(always)]
    fn shift(self, constant_: f64) -> Self {
        Self(self.0.add(constant(constant_)))
    }
    #[inline(always)]
    fn exp(self) -> Self {
        Self(exp(self.0))
    }
    #[inline(always)]
    fn ln(self) -> Self {
        Self(ln(self.0))
    }
    #[inline(always)]
    fn safe_sqrt(self) -> Self {
        Self(self.0.max(constant(SMALLEST_SQUARE)).sqrt())
    }
    #[inline(always)]
    fn sin(self) -> Self {
        Self(sin(self.0, 0.0))
    }
    #[inline(always)]
    fn cos(self) -> Self {
        Self(sin(self.0, 0.5))
    }
}
