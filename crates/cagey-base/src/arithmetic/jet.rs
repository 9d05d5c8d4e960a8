//! Numbers with a derivative.

use std::ops::{Add, Div, Mul, Neg, Sub};

use super::Real;

/// A number and its derivative along one direction: forward differentiation. Jets of jets have second derivatives, in
/// two directions that may differ, and so on up to the third.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Jet<T> {
    /// The number.
    pub value: T,
    /// Its derivative.
    pub slope: T,
}

impl<T: Real> Jet<T> {
    /// A number with a derivative.
    #[inline(always)]
    pub fn new(value: T, slope: T) -> Self {
        Self { value, slope }
    }
}

impl<T: Real> Add for Jet<T> {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self { value: self.value + other.value, slope: self.slope + other.slope }
    }
}

impl<T: Real> Sub for Jet<T> {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self { value: self.value - other.value, slope: self.slope - other.slope }
    }
}

impl<T: Real> Mul for Jet<T> {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        let slope = self.slope * other.value + self.value * other.slope;
        Self { value: self.value * other.value, slope }
    }
}

impl<T: Real> Div for Jet<T> {
    type Output = Self;
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        let value = self.value / other.value;
        Self { value, slope: (self.slope - value * other.slope) / other.value }
    }
}

impl<T: Real> Neg for Jet<T> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Self { value: -self.value, slope: -self.slope }
    }
}

impl<T: Real> Add<f64> for Jet<T> {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: f64) -> Self {
        Self { value: self.value + other, slope: self.slope }
    }
}

impl<T: Real> Sub<f64> for Jet<T> {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: f64) -> Self {
        Self { value: self.value - other, slope: self.slope }
    }
}

impl<T: Real> Mul<f64> for Jet<T> {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: f64) -> Self {
        Self { value: self.value * other, slope: self.slope * other }
    }
}

impl<T: Real> Div<f64> for Jet<T> {
    type Output = Self;
    #[inline(always)]
    fn div(self, other: f64) -> Self {
        Self { value: self.value / other, slope: self.slope / other }
    }
}

impl<T: Real> Real for Jet<T> {
    #[inline(always)]
    fn constant(value: f64) -> Self {
        Self { value: T::constant(value), slope: T::constant(0.0) }
    }

    #[inline(always)]
    fn number(self) -> f64 {
        self.value.number()
    }

    #[inline(always)]
    fn is_zero(self) -> bool {
        self.value.is_zero() && self.slope.is_zero()
    }

    #[inline(always)]
    fn order(self) -> usize {
        self.value.order() + usize::from(!self.slope.is_zero())
    }

    #[inline(always)]
    fn compose(self, derivatives: &[f64; 4], first: usize) -> Self {
        let value = self.value.compose(derivatives, first);
        Self { value, slope: self.value.compose(derivatives, first + 1) * self.slope }
    }

    #[inline(always)]
    fn with_number(self, number: f64) -> Self {
        Self { value: self.value.with_number(number), ..self }
    }
}
