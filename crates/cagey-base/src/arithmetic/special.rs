//! Functions of one variable that keep their digits in the tails.

use std::f64::consts::{FRAC_1_SQRT_2, SQRT_2};

use libm::erfc;
use statrs::function::erf::erfc_inv;
use statrs::function::gamma::{checked_gamma_lr, checked_gamma_ur, digamma, ln_gamma};

use super::Real;

/// `ln 2π`.
pub const LN_TAU: f64 = 1.837_877_066_409_345_6;

/// `1/√2π`.
pub const FRAC_1_SQRT_TAU: f64 = 0.398_942_280_401_432_7;

/// `ln(1 + eˣ)`.
pub fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// The inverse of [`softplus`], for `y > 0`.
pub fn softplus_inverse(y: f64) -> f64 {
    y + (-(-y).exp_m1()).ln()
}

/// `1 / (1 + e⁻ˣ)`.
pub fn logistic(x: f64) -> f64 {
    let e = (-x.abs()).exp();
    if x >= 0.0 { 1.0 / (1.0 + e) } else { e / (1.0 + e) }
}

/// `logistic(x) logistic(−x)`, the slope of the logistic function.
pub fn logistic_slope(x: f64) -> f64 {
    let e = (-x.abs()).exp();
    e / ((1.0 + e) * (1.0 + e))
}

/// `ln(p / (1 − p))`.
pub fn logit(p: f64) -> f64 {
    p.ln() - (-p).ln_1p()
}

/// The standard normal distribution function.
pub fn normal_cdf(z: f64) -> f64 {
    0.5 * erfc(-z * FRAC_1_SQRT_2)
}

/// The inverse of [`normal_cdf`].
pub fn normal_quantile(p: f64) -> f64 {
    -SQRT_2 * erfc_inv(2.0 * p)
}

/// `ln N(r; 0, variance)`.
pub fn log_normal_density(r: f64, variance: f64) -> f64 {
    -0.5 * (LN_TAU + variance.ln() + r * r / variance)
}

/// `exp(x²) erfc(x)` for x ≥ 0, which neither underflows nor cancels.
pub fn scaled_erfc(x: f64) -> f64 {
    if x < 25.0 {
        // The square of the leading digits is exact, so that the exponential keeps its digits.
        let lead = f64::from(x as f32);
        return (lead * lead).exp() * ((x - lead) * (x + lead)).exp() * erfc(x);
    }
    // The asymptotic series, whose next term is below 1e-17.
    let t = 0.5 / (x * x);
    let series = 1.0 - t * (1.0 - 3.0 * t * (1.0 - 5.0 * t * (1.0 - 7.0 * t * (1.0 - 9.0 * t))));
    series / (x * std::f64::consts::PI.sqrt())
}

/// `ln Φ(z)` and its slope `φ(z)/Φ(z)`.
pub fn log_normal_cdf(z: f64) -> (f64, f64) {
    // Φ(−|z|) = ½ erfcx(|z|/√2) exp(−z²/2). Its first factor neither underflows nor cancels.
    let scaled = 0.5 * scaled_erfc(z.abs() * FRAC_1_SQRT_2);
    let exponent = -0.5 * z * z;
    if z < 0.0 {
        return (scaled.ln() + exponent, FRAC_1_SQRT_TAU / scaled);
    }
    let density = exponent.exp();
    let other = scaled * density;
    ((-other).ln_1p(), FRAC_1_SQRT_TAU * density / (1.0 - other))
}

/// `ln Γ(a + y) − ln Γ(a)` for `a > 0`, `y ≥ 0`; value and slope by their series if the difference would cancel.
pub fn ln_rising<A: Real>(a: A, y: f64) -> A {
    a.smooth(|a, order| {
        let rise = |of: fn(f64) -> f64| of(a + y) - of(a);
        let value = match a < 1e4 {
            true => rise(ln_gamma),
            false => (a + y - 0.5) * (y / a).ln_1p() + y * a.ln() - y + (1.0 / (a + y) - 1.0 / a) / 12.0,
        };
        let slope = match order > 0 {
            false => 0.0,
            true if a < 1e3 => rise(digamma),
            true => {
                let [above, below] = [a + y, a].map(f64::recip);
                (y / a).ln_1p() - 0.5 * (above - below) - (above * above - below * below) / 12.0
            }
        };
        let higher = |at: usize, of: fn(f64) -> f64| if order >= at { rise(of) } else { 0.0 };
        [value, slope, higher(2, trigamma), higher(3, tetragamma)]
    })
}

/// `ψ'(x)` for `x > 0`, by the recurrence and then the asymptotic series (Abramowitz and Stegun 6.4.12).
pub fn trigamma(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < 15.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let s = 1.0 / (x * x);
    let series = s * (1.0 / 6.0 - s * (1.0 / 30.0 - s * (1.0 / 42.0 - s * (1.0 / 30.0 - s * 5.0 / 66.0))));
    sum + (1.0 + 0.5 / x + series) / x
}

/// `ψ''(x)` for `x > 0`, in the same way.
pub fn tetragamma(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < 15.0 {
        sum -= 2.0 / (x * x * x);
        x += 1.0;
    }
    let s = 1.0 / (x * x);
    let series = s * (0.5 - s * (1.0 / 6.0 - s * (1.0 / 6.0 - s * (0.3 - s * 5.0 / 6.0))));
    sum - s * (1.0 + 1.0 / x + series)
}

/// `P(G ≤ x)` for `G` with a gamma distribution of the given shape and scale 1. For large shapes it uses the
/// uniform expansion: nine digits.
pub fn gamma_cdf(shape: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if shape > LARGE_SHAPE {
        return gamma_expansion(shape, x)[0];
    }
    checked_gamma_lr(shape, x).unwrap_or(1.0)
}

/// `1 − gamma_cdf`, with all digits for small values.
pub fn gamma_tail(shape: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 1.0;
    }
    if shape > LARGE_SHAPE {
        return gamma_expansion(shape, x)[1];
    }
    checked_gamma_ur(shape, x).unwrap_or(0.0)
}

/// Above this shape a series or continued fraction needs hundreds of terms, and an expansion has nine digits.
const LARGE_SHAPE: f64 = 1e4;

/// The gamma distribution function and its complement (DLMF 8.12).
fn gamma_expansion(shape: f64, x: f64) -> [f64; 2] {
    let off = (x - shape) / shape;
    uniform(shape, off, gap(off), 1.0 / 3.0)
}

/// A distribution function and its complement by the first term of the expansion that is uniform in the distance from
/// the mean (Temme 1979 and 1982): `½ erfc(∓η √(n/2)) ± (1/η − 1/w) e^(−n h)/√(2πn)`, `η²/2 = h`. Here `w` is the
/// distance in standard deviations over `√n`, `h ≥ 0` the rate of large deviations there, and `centre` the limit of
/// `1/η − 1/w` at the mean.
fn uniform(n: f64, w: f64, h: f64, centre: f64) -> [f64; 2] {
    let eta = (2.0 * h).sqrt().copysign(w);
    // The difference cancels near the mean.
    let skew = if w.abs() * n.sqrt() < 1e-4 { centre } else { 1.0 / eta - 1.0 / w };
    let more = skew * (-n * h).exp() * FRAC_1_SQRT_TAU / n.sqrt();
    let z = eta * n.sqrt();
    [normal_cdf(z) + more, normal_cdf(-z) - more].map(|p| p.clamp(0.0, 1.0))
}

/// `t − ln(1 + t)`.
fn gap(t: f64) -> f64 {
    if t.abs() > 0.01 {
        return t - t.ln_1p();
    }
    // The series, because the difference would cancel.
    t * t * (2..10).rev().fold(0.0, |sum, k| 1.0 / f64::from(k) - t * sum)
}

/// `I_x(a, b)`, the regularised incomplete beta function, for `x` and `rest = 1 − x`. It uses the continued fraction
/// (DLMF 8.17.22) in Lentz's form, with about `√min(a, b)` terms. If one shape is far above the other, it uses the
/// limit, the gamma distribution (Wise 1950, error about `(min/max)²`). If both are large, it uses the
/// uniform expansion (DLMF 8.18(ii)): nine digits. The fraction in statrs stops after 140 terms, whether it has
/// converged or not.
pub fn beta_cdf([a, b]: [f64; 2], x: f64, rest: f64) -> f64 {
    if !(a + b + x + rest).is_finite() {
        return f64::NAN;
    }
    if x <= 0.0 || rest <= 0.0 {
        return f64::from(u8::from(x > 0.0));
    }
    if a.min(b) > LARGE_SHAPE {
        let (n, spread) = (a + b, (a * b).sqrt());
        // n times the distance of x from its mean a/n.
        let off = b * x - a * rest;
        let h = (a * gap(off / a) + b * gap(-off / b)) / n;
        return uniform(n, off / spread, h, (b - a) / (3.0 * spread))[0];
    }
    let ln = |part: f64, other: f64| if other < 0.5 { (-other).ln_1p() } else { part.ln() };
    if a < FAR * b {
        return gamma_cdf(a, -(b + 0.5 * (a - 1.0)) * ln(rest, x));
    }
    if b < FAR * a {
        return gamma_tail(b, -(a + 0.5 * (b - 1.0)) * ln(x, rest));
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta_fraction([b, a], rest, x);
    }
    beta_fraction([a, b], x, rest)
}

/// Shapes with a ratio below this count as far apart.
const FAR: f64 = 1e-7;

/// The continued fraction, for `x` up to about the mean.
fn beta_fraction([a, b]: [f64; 2], x: f64, rest: f64) -> f64 {
    let ln_beta = ln_gamma(a.min(b)) - ln_rising(a.max(b), a.min(b));
    // Logarithms of both: that of the smaller directly, that of the larger by `ln_1p` of minus the smaller.
    let (ln_x, ln_rest) = if x < rest { (x.ln(), (-x).ln_1p()) } else { ((-rest).ln_1p(), rest.ln()) };
    let away = |value: f64| if value.abs() < f64::MIN_POSITIVE { f64::MIN_POSITIVE } else { value };
    let mut d = 1.0 / away(1.0 - (a + b) * x / (a + 1.0));
    let (mut c, mut fraction) = (1.0, d);
    for m in (1..BETA_TERMS).map(f64::from) {
        let at = a + 2.0 * m;
        let even = m * (b - m) * x / ((at - 1.0) * at);
        let odd = -(a + m) * (a + b + m) * x / (at * (at + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            d = 1.0 / away(1.0 + term * d);
            c = away(1.0 + term / c);
            change *= c * d;
        }
        fraction *= change;
        if (change - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    ((a * ln_x + b * ln_rest - ln_beta).exp() * fraction / a).min(1.0)
}

/// The largest number of pairs of terms of the continued fraction; some hundreds are needed.
const BETA_TERMS: u32 = 20_000;

/// Above this size a sum of logarithms of factorials loses the digits of their difference.
pub const LARGE_COUNT: f64 = 1e5;

/// `ln [Γ(y + z + 1)/(Γ(y + 1) Γ(z + 1)) pʸ qᶻ]` for `p + q = 1`, given `ln p` and `ln q`.
pub fn ln_binomial([y, z]: [f64; 2], [ln_p, ln_q]: [f64; 2]) -> f64 {
    let n = y + z;
    let expected = [n * ln_p.exp(), n * ln_q.exp()];
    if n < LARGE_COUNT || y.min(z) <= 0.0 || expected.iter().any(|part| *part < f64::MIN_POSITIVE) {
        return ln_gamma(n + 1.0) - ln_gamma(y + 1.0) - ln_gamma(z + 1.0) + y * ln_p + z * ln_q;
    }
    let share = 0.5 * (n.ln() - y.ln() - z.ln() - LN_TAU) - surprise(y, expected[0]) - surprise(z, expected[1]);
    share + stirling_error(n) - stirling_error(y) - stirling_error(z)
}

/// `ln [e⁻ᵐ mʸ/y!]`, given `ln m`.
pub fn ln_poisson(y: f64, ln_mean: f64) -> f64 {
    let mean = ln_mean.exp();
    if y < LARGE_COUNT || mean < f64::MIN_POSITIVE {
        return y * ln_mean - mean - ln_factorial(y);
    }
    -surprise(y, mean) - 0.5 * (LN_TAU + y.ln()) - stirling_error(y)
}

/// `y ln(y/m) + m − y` (Loader 2000).
fn surprise(y: f64, mean: f64) -> f64 {
    let t = (mean - y) / y;
    if t < -0.5 { y * (y / mean).ln() + mean - y } else { y * (t - t.ln_1p()) }
}

/// The error of Stirling's formula for `ln y!`.
fn stirling_error(y: f64) -> f64 {
    if y < 20.0 {
        return ln_factorial(y) - (y + 0.5) * y.ln() + y - 0.5 * LN_TAU;
    }
    (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / (1260.0 * y * y)) / (y * y)) / y
}

/// `ln y!`.
pub fn ln_factorial(y: f64) -> f64 {
    ln_gamma(y + 1.0)
}
