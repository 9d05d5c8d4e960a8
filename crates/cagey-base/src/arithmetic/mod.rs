//! The arithmetic in which formulas are written once: profiles of kernels and log densities of likelihoods.
//!
//! A formula over an [`Arithmetic`] serves numbers, SIMD vectors and tensors. One over [`Real`] numbers has their
//! operators and special functions, and gives its derivatives if it is computed with [`Jet`]s.

mod jet;
mod real;
#[doc(hidden)]
pub mod special;

use std::borrow::Borrow;

pub use jet::Jet;
pub use real::Real;

/// The arithmetic in which profiles are written. Numbers with and without derivatives, SIMD vectors and tensors
/// implement it.
pub trait Arithmetic: Clone {
    /// self + other.
    fn add(self, other: Self) -> Self;
    /// self · other.
    fn mul(self, other: Self) -> Self;
    /// self / other.
    fn div(self, other: Self) -> Self;
    /// factor · self.
    fn scale(self, factor: f64) -> Self;
    /// self + constant.
    fn shift(self, constant: f64) -> Self;
    /// eˣ.
    fn exp(self) -> Self;
    /// Natural logarithm.
    fn ln(self) -> Self;
    /// ln(1 + self) without the rounding of 1 + self.
    #[inline(always)]
    fn ln_1p(self) -> Self {
        let sum = self.clone().shift(1.0);
        let lost = self.add(sum.clone().shift(-1.0).scale(-1.0));
        sum.clone().ln().add(lost.div(sum))
    }
    /// The smaller of self and a bound; the derivative is 0 above the bound.
    fn at_most(self, bound: f64) -> Self;
    /// Square root of self, clamped between [`SMALLEST_SQUARE`] (so that the derivative is finite at coincident points)
    /// and [`largest_square`].
    fn safe_sqrt(self) -> Self;
    /// Sine.
    fn sin(self) -> Self;
    /// Cosine.
    fn cos(self) -> Self;
    /// Non-negative integer power.
    #[inline(always)]
    fn powi(self, power: u32) -> Self {
        let mut result = self.clone().scale(0.0).shift(1.0);
        let (mut square, mut left) = (self, power);
        while left > 0 {
            if left % 2 == 1 {
                result = result.mul(square.clone());
            }
            square = square.clone().mul(square);
            left /= 2;
        }
        result
    }
}

/// The least and the greatest of numbers; of none, ∞ and −∞.
#[doc(hidden)]
pub fn ends(numbers: impl IntoIterator<Item = impl Borrow<f64>>) -> (f64, f64) {
    let numbers = numbers.into_iter().map(|number| *number.borrow());
    numbers.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), number| (low.min(number), high.max(number)))
}

/// Squared distances below this count as zero: see [`Arithmetic::safe_sqrt`].
pub const SMALLEST_SQUARE: f64 = 1e-30;

/// Squared distances above this value, infinite ones included, count as this value; `bytes` is the size of a number. It
/// is far beyond the point where decaying covariances vanish, and at the limit up to which sines can be computed.
#[inline(always)]
pub const fn largest_square(bytes: usize) -> f64 {
    if bytes < 8 { 1e12 } else { 1e24 }
}
