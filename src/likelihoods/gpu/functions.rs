//! Functions of one variable inside GPU kernels, with the digits of f32 also where results are small.

use burn::cubecl;
use burn::cubecl::frontend::{max, select};
use burn::cubecl::prelude::*;

/// `|x|`.
#[cube]
pub fn size<F: Float>(x: F) -> F {
    max(x, F::new(0.0) - x)
}

/// `ln(1 + x)`.
#[cube]
pub fn ln_1p<F: Float>(x: F) -> F {
    let s = x / (F::new(2.0) + x);
    let q = s * s;
    let rest = F::new(0.2) + q * (F::new(1.0 / 7.0) + q * (F::new(1.0 / 9.0) + q * F::new(1.0 / 11.0)));
    let series = F::new(2.0) * s * (F::new(1.0) + q * (F::new(1.0 / 3.0) + q * rest));
    select(size::<F>(x) < F::new(0.25), series, (F::new(1.0) + x).ln())
}

/// `1 − exp(−x)` for `x ≥ 0`.
#[cube]
pub fn rise<F: Float>(x: F) -> F {
    let rest = F::new(1.0) - x * F::new(0.25) * (F::new(1.0) - x * F::new(0.2) * (F::new(1.0) - x * F::new(1.0 / 6.0)));
    let series = x * (F::new(1.0) - x * F::new(0.5) * (F::new(1.0) - x * F::new(1.0 / 3.0) * rest));
    select(x < F::new(0.125), series, F::new(1.0) - (F::new(0.0) - x).exp())
}

/// `ln(1 + exp(x))`.
#[cube]
pub fn softplus<F: Float>(x: F) -> F {
    max(x, F::new(0.0)) + ln_1p::<F>((F::new(0.0) - size::<F>(x)).exp())
}

/// `1/(1 + exp(−x))`.
#[cube]
pub fn logistic<F: Float>(x: F) -> F {
    let e = (F::new(0.0) - size::<F>(x)).exp();
    select(x < F::new(0.0), e, F::new(1.0)) / (F::new(1.0) + e)
}

/// The slope of [`logistic`].
#[cube]
pub fn logistic_slope<F: Float>(x: F) -> F {
    let e = (F::new(0.0) - size::<F>(x)).exp();
    e / ((F::new(1.0) + e) * (F::new(1.0) + e))
}

/// `½ exp(x²) erfc(x)` for `x ≥ 0`, with a relative error of 1.2e-7 (Press et al. 2007, *Numerical Recipes*, 6.2.2).
#[cube]
fn scaled_tail<F: Float>(x: F) -> F {
    let t = F::new(1.0) / (F::new(1.0) + F::new(0.5) * x);
    let low = F::new(-0.18628806)
        + t * (F::new(0.27886807)
            + t * (F::new(-1.135_204)
                + t * (F::new(1.488_515_9) + t * (F::new(-0.82215223) + t * F::new(0.17087277)))));
    let all = F::new(-1.265_512_2)
        + t * (F::new(1.000_023_7) + t * (F::new(0.37409196) + t * (F::new(0.09678418) + t * low)));
    F::new(0.5) * t * all.exp()
}

/// `Φ(z)`.
#[cube]
pub fn normal_cdf<F: Float>(z: F) -> F {
    let other = scaled_tail::<F>(size::<F>(z) * F::new(0.707_106_77)) * (F::new(-0.5) * z * z).exp();
    select(z < F::new(0.0), other, F::new(1.0) - other)
}

/// Writes `ln Φ(z)`, its slope and its second derivative.
#[cube]
pub fn log_normal_cdf<F: Float>(z: F, out: &mut Array<F>) {
    let scaled = scaled_tail::<F>(size::<F>(z) * F::new(0.707_106_77));
    let exponent = F::new(-0.5) * z * z;
    let density = exponent.exp();
    let other = scaled * density;
    let root = F::new(0.398_942_3);
    let mut value = ln_1p::<F>(F::new(0.0) - other);
    let mut ratio = root * density / (F::new(1.0) - other);
    if z < F::new(0.0) {
        value = scaled.ln() + exponent;
        ratio = root / scaled;
    }
    out[0] = value;
    out[1] = ratio;
    out[2] = F::new(0.0) - ratio * (z + ratio);
}

/// Writes `ln ln(1 + exp(f))`, its slope and its second derivative.
#[cube]
pub fn log_softplus<F: Float>(f: F, out: &mut Array<F>) {
    let one = F::new(1.0);
    let plus = softplus::<F>(f);
    let mut value = plus.ln();
    let mut ratio = logistic::<F>(f) / plus;
    let mut slope = ratio * (logistic::<F>(F::new(0.0) - f) - ratio);
    if f < F::new(-4.0) {
        // Series in e = exp(f), where differences would cancel.
        let e = f.exp();
        value = f - e * (F::new(0.5) - e * F::new(5.0 / 24.0));
        ratio = one - e * (F::new(0.5) - e * (F::new(5.0 / 12.0) - e * F::new(0.375)));
        slope = F::new(0.0) - e * (F::new(0.5) - e * (F::new(5.0 / 6.0) - e * F::new(1.125)));
    }
    out[0] = value;
    out[1] = ratio;
    out[2] = slope;
}

/// The distance by which arguments of gamma functions are moved up, to where Stirling's series is exact.
pub const UP: f32 = 6.0;

/// The error of Stirling's formula for `ln Γ(x)`, for `x ≥ 6`.
#[cube]
fn stirling_error<F: Float>(x: F) -> F {
    let q = F::new(1.0) / (x * x);
    (F::new(1.0 / 12.0) - q * (F::new(1.0 / 360.0) - q * F::new(1.0 / 1260.0))) / x
}

/// `Σ_{j<6} ln(1 + y/(x + j))`.
#[cube]
fn steps<F: Float>(x: F, y: F) -> F {
    let mut sum = F::new(0.0);
    for j in 0..6u32 {
        sum += ln_1p::<F>(y / (x + F::cast_from(j)));
    }
    sum
}

/// `ln y! − y ln(y + 7) + y` for `y ≥ 0`. The rest would cancel in differences.
#[cube]
pub fn ln_factorial_rest<F: Float>(y: F) -> F {
    let base = F::new(UP + 1.0);
    let change = stirling_error::<F>(base + y) - stirling_error::<F>(base);
    F::new(UP + 0.5) * ln_1p::<F>(y / base) + change - steps::<F>(F::new(1.0), y)
}

/// `ln [Γ(r + y)/(Γ(r) y!)]`.
#[cube]
pub fn ln_rising_over_factorial<F: Float>(r: F, y: F) -> F {
    let base = r + F::new(UP);
    let change = stirling_error::<F>(base + y) - stirling_error::<F>(base);
    let rest = y * ln_1p::<F>((r - F::new(1.0)) / (y + F::new(UP + 1.0))) + change - steps::<F>(r, y);
    (base - F::new(0.5)) * ln_1p::<F>(y / base) + rest - ln_factorial_rest::<F>(y)
}

/// `ψ(r + y) − ψ(r)`.
#[cube]
pub fn digamma_rise<F: Float>(r: F, y: F) -> F {
    let base = r + F::new(UP);
    let a = F::new(1.0) / (base + y);
    let b = F::new(1.0) / base;
    let fourth = (a * a * a * a - b * b * b * b) * F::new(1.0 / 120.0);
    let mut sum = ln_1p::<F>(y / base) - F::new(0.5) * (a - b) - (a * a - b * b) * F::new(1.0 / 12.0) + fourth;
    for j in 0..6u32 {
        let x = r + F::cast_from(j);
        sum += y / (x * (x + y));
    }
    sum
}

/// Writes `−ln Γ(x) + (x + 6)(ln(x + 6) − 1) + ½ ln 2π`, `ψ(x)` and `ψ'(x)`.
#[cube]
pub fn gamma_parts<F: Float>(x: F, out: &mut Array<F>) {
    let (one, half) = (F::new(1.0), F::new(0.5));
    let base = x + F::new(UP);
    let a = one / base;
    let q = a * a;
    let mut product = one;
    let mut first = base.ln() - half * a - q * (F::new(1.0 / 12.0) - q * F::new(1.0 / 120.0));
    let mut second = a + half * q + a * q * (F::new(1.0 / 6.0) - q * F::new(1.0 / 30.0));
    for j in 0..6u32 {
        let step = x + F::cast_from(j);
        product *= step;
        first -= one / step;
        second += one / (step * step);
    }
    out[0] = product.ln() + half * base.ln() - stirling_error::<F>(base);
    out[1] = first;
    out[2] = second;
}
