//! Real numbers, with or without derivatives, and the functions of them that log densities need.

use std::ops::{Add, Div, Mul, Neg, Sub};

use statrs::function::gamma::{digamma, ln_gamma};

use super::special::{log_normal_cdf, tetragamma, trigamma};
use super::{Arithmetic, SMALLEST_SQUARE, largest_square};

/// A real number: an `f64`, or a [`Jet`](super::Jet) of such. Log densities are written over it.
///
/// Further functions come from [`smooth`](Self::smooth).
pub trait Real:
    Arithmetic
    + Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + Add<f64, Output = Self>
    + Sub<f64, Output = Self>
    + Mul<f64, Output = Self>
    + Div<f64, Output = Self>
{
    /// A number whose derivatives are 0.
    fn constant(value: f64) -> Self;

    /// The number without its derivatives.
    fn number(self) -> f64;

    /// Whether it is 0 with all its derivatives.
    fn is_zero(self) -> bool;

    /// The highest derivative of a function of this number that counts. It is 0 for a constant.
    fn order(self) -> usize;

    /// The function with these derivatives at [`number`](Self::number), from the derivative `first` on.
    fn compose(self, derivatives: &[f64; 4], first: usize) -> Self;

    /// The same derivatives of another number, which has more digits than the formula of the derivatives gives.
    fn with_number(self, number: f64) -> Self;

    /// A function of one number. `g` takes the number and the [order](Self::order), and returns the function's value
    /// and its first three derivatives; those above the order are not used.
    #[inline(always)]
    fn smooth(self, g: impl FnOnce(f64, usize) -> [f64; 4]) -> Self {
        self.compose(&g(self.number(), self.order()), 0)
    }

    /// `√self`.
    #[inline(always)]
    fn sqrt(self) -> Self {
        self.smooth(|x, _| {
            let root = x.sqrt();
            let slope = 0.5 / root;
            [root, slope, -0.5 * slope / x, 0.75 * slope / (x * x)]
        })
    }

    /// `1/self`.
    #[inline(always)]
    fn recip(self) -> Self {
        Self::constant(1.0) / self
    }

    /// `ln(1 + exp(self))`.
    #[inline(always)]
    fn softplus(self) -> Self {
        self.smooth(|x, _| {
            let [one, slope, bend, _] = logistic(x);
            [super::special::softplus(x), one, slope, bend]
        })
    }

    /// `1/(1 + exp(−self))`.
    #[inline(always)]
    fn logistic(self) -> Self {
        self.smooth(|x, _| logistic(x))
    }

    /// `ln Γ(self)` for positive numbers.
    #[inline(always)]
    fn ln_gamma(self) -> Self {
        self.smooth(|x, order| up_to(order, x, [ln_gamma, digamma, trigamma, tetragamma]))
    }

    /// `ψ(self)`, the slope of [`ln_gamma`](Self::ln_gamma).
    #[inline(always)]
    fn digamma(self) -> Self {
        self.smooth(|x, order| up_to(order, x, [digamma, trigamma, tetragamma, |_| 0.0]))
    }

    /// `ψ'(self)`; only its first derivative is known.
    #[inline(always)]
    fn trigamma(self) -> Self {
        self.smooth(|x, order| up_to(order, x, [trigamma, tetragamma, |_| 0.0, |_| 0.0]))
    }

    /// `ln Φ(self)`, with Φ the standard normal distribution function.
    #[inline(always)]
    fn ln_normal_cdf(self) -> Self {
        self.smooth(|z, _| {
            let (value, r) = log_normal_cdf(z);
            [value, r, -r * (z + r), r * ((z + r) * (z + 2.0 * r) - 1.0)]
        })
    }
}

/// A function and those of its derivatives that count.
#[inline(always)]
fn up_to(order: usize, x: f64, of: [fn(f64) -> f64; 4]) -> [f64; 4] {
    std::array::from_fn(|at| if at <= order { of[at](x) } else { 0.0 })
}

/// The logistic function and its first three derivatives.
#[inline(always)]
fn logistic(x: f64) -> [f64; 4] {
    let e = (-x.abs()).exp();
    let scale = (1.0 + e).recip();
    let (larger, smaller) = (scale, e * scale);
    let slope = larger * smaller;
    let one = if x >= 0.0 { larger } else { smaller };
    [one, slope, slope * (1.0 - e) * scale * -x.signum(), slope * (1.0 - 6.0 * slope)]
}

impl Real for f64 {
    #[inline(always)]
    fn constant(value: f64) -> Self {
        value
    }
    #[inline(always)]
    fn number(self) -> f64 {
        self
    }
    #[inline(always)]
    fn is_zero(self) -> bool {
        self == 0.0
    }
    #[inline(always)]
    fn order(self) -> usize {
        0
    }
    #[inline(always)]
    fn compose(self, derivatives: &[f64; 4], first: usize) -> Self {
        derivatives[first]
    }
    #[inline(always)]
    fn with_number(self, number: f64) -> Self {
        number
    }
}

/// Formulas for tensors and SIMD vectors also take numbers, with and without derivatives.
impl<T: Real> Arithmetic for T {
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self + other
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self * other
    }
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        self / other
    }
    #[inline(always)]
    fn scale(self, factor: f64) -> Self {
        self * factor
    }
    #[inline(always)]
    fn shift(self, constant: f64) -> Self {
        self + constant
    }
    #[inline(always)]
    fn exp(self) -> Self {
        self.smooth(|x, _| [x.exp(); 4])
    }
    #[inline(always)]
    fn ln(self) -> Self {
        self.smooth(|x, _| {
            let r = x.recip();
            [x.ln(), r, -r * r, 2.0 * r * r * r]
        })
    }
    #[inline(always)]
    fn ln_1p(self) -> Self {
        self.smooth(|x, _| {
            let r = (1.0 + x).recip();
            [x.ln_1p(), r, -r * r, 2.0 * r * r * r]
        })
    }
    #[inline(always)]
    fn at_most(self, bound: f64) -> Self {
        if self.number() > bound { Self::constant(bound) } else { self }
    }
    #[inline(always)]
    fn safe_sqrt(self) -> Self {
        let square = self.at_most(largest_square(8));
        if square.number() < SMALLEST_SQUARE { Self::constant(SMALLEST_SQUARE.sqrt()) } else { square.sqrt() }
    }
    #[inline(always)]
    fn sin(self) -> Self {
        self.smooth(|x, _| {
            let (sine, cosine) = x.sin_cos();
            [sine, cosine, -sine, -cosine]
        })
    }
    #[inline(always)]
    fn cos(self) -> Self {
        self.smooth(|x, _| {
            let (sine, cosine) = x.sin_cos();
            [cosine, -sine, -cosine, sine]
        })
    }
}
