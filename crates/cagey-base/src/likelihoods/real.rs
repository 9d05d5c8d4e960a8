//! Real targets that scatter about a function.

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use super::density::{Density, Marginal, Slopes, Support};
use super::formula::Formula;
use super::predictive;
use super::targets::Row;
use crate::arithmetic::Real;
use crate::arithmetic::special::{LN_TAU, beta_cdf, ln_rising, log_normal_density, normal_cdf};

/// y = f(x) + ε, ε ~ N(0, σ² + known variance of the row): Gaussian noise.
#[derive(Debug)]
pub struct Normal {
    /// σ².
    pub noise: f64,
}

impl Formula for Normal {
    fn support(&self, _auxiliary: f64) -> Support {
        Support::Real
    }

    fn log_density<A: Real>(&self, row: Row, f: &[A], own: &[A]) -> A {
        let (residual, variance) = (f[0] - row.y, own[0] + row.auxiliary);
        (variance.ln() + residual * residual / variance + LN_TAU) * -0.5
    }
}

impl Density for Normal {
    fn built_in(&self) -> Option<String> {
        Some("gaussian".into())
    }

    fn own(&self) -> &[f64] {
        std::slice::from_ref(&self.noise)
    }

    /// `ln N(y; m, σ²) − v / 2σ²`.
    fn expectation(&self, row: Row, at: Marginal, slopes: Slopes) -> f64 {
        let noise = self.noise + row.auxiliary;
        let (residual, variance) = (row.y - at.mean[0], at.variance[0]);
        slopes.mean[0] = residual / noise;
        slopes.variance[0] = -0.5 / noise;
        if let Some(own) = slopes.own.first_mut() {
            *own = 0.5 * ((residual * residual + variance) / noise - 1.0) / noise;
        }
        log_normal_density(residual, noise) - 0.5 * variance / noise
    }

    fn mean(&self, f: &[f64], _auxiliary: f64) -> f64 {
        f[0]
    }

    fn variance(&self, _f: &[f64], auxiliary: f64) -> f64 {
        self.noise + auxiliary
    }

    fn cdf(&self, row: Row, f: &[f64]) -> f64 {
        normal_cdf((row.y - f[0]) / (self.noise + row.auxiliary).sqrt())
    }

    fn sample(&self, f: &[f64], auxiliary: f64, rng: &mut dyn Rng) -> f64 {
        let z: f64 = StandardNormal.sample(rng);
        f[0] + z * (self.noise + auxiliary).sqrt()
    }

    fn peak(&self, row: Row) -> f64 {
        row.y
    }

    fn predictive_mean(&self, at: Marginal, _auxiliary: f64) -> f64 {
        at.mean[0]
    }

    fn predictive_variance(&self, at: Marginal, auxiliary: f64) -> f64 {
        at.variance[0] + self.noise + auxiliary
    }

    fn predictive_log_density(&self, row: Row, at: Marginal) -> f64 {
        log_normal_density(row.y - at.mean[0], self.predictive_variance(at, row.auxiliary))
    }

    fn predictive_cdf(&self, row: Row, at: Marginal) -> f64 {
        normal_cdf((row.y - at.mean[0]) / self.predictive_variance(at, row.auxiliary).sqrt())
    }
}

/// y = f₀(x) + ε, ε ~ N(0, σ² exp(f₁(x))): Gaussian noise with a variance that varies with the inputs.
#[derive(Debug)]
pub struct VaryingNormal {
    /// σ².
    pub noise: f64,
}

impl VaryingNormal {
    fn precision(&self, f: &[f64]) -> f64 {
        (-f[1]).exp() / self.noise
    }
}

impl Formula for VaryingNormal {
    fn support(&self, _auxiliary: f64) -> Support {
        Support::Real
    }

    fn latents(&self) -> usize {
        2
    }

    fn is_log_concave(&self) -> bool {
        false
    }

    fn log_density<A: Real>(&self, row: Row, f: &[A], own: &[A]) -> A {
        let residual = f[0] - row.y;
        (own[0].ln() + f[1] + residual * residual * (-f[1]).exp() / own[0] + LN_TAU) * -0.5
    }

    /// The Fisher information `diag(exp(−f₁)/σ², ½)`.
    fn curvature<A: Real>(&self, _row: Row, f: &[A], own: &[A], d: &mut [A]) {
        d[0] = (-f[1]).exp() / own[0];
        d[1] = A::constant(0.5);
    }
}

impl Density for VaryingNormal {
    fn built_in(&self) -> Option<String> {
        Some("heteroscedastic".into())
    }

    fn own(&self) -> &[f64] {
        std::slice::from_ref(&self.noise)
    }

    /// `−½ [ln 2πσ² + m₁ + ((y − m₀)² + v₀) exp(−m₁ + v₁/2)/σ²]`.
    fn expectation(&self, row: Row, at: Marginal, slopes: Slopes) -> f64 {
        let residual = row.y - at.mean[0];
        let precision = (0.5 * at.variance[1] - at.mean[1]).exp() / self.noise;
        let square = (residual * residual + at.variance[0]) * precision;
        slopes.mean.copy_from_slice(&[residual * precision, 0.5 * (square - 1.0)]);
        slopes.variance.copy_from_slice(&[-0.5 * precision, -0.25 * square]);
        if let Some(own) = slopes.own.first_mut() {
            *own = 0.5 * (square - 1.0) / self.noise;
        }
        -0.5 * (LN_TAU + self.noise.ln() + at.mean[1] + square)
    }

    fn mean(&self, f: &[f64], _auxiliary: f64) -> f64 {
        f[0]
    }

    fn variance(&self, f: &[f64], _auxiliary: f64) -> f64 {
        self.precision(f).recip()
    }

    fn cdf(&self, row: Row, f: &[f64]) -> f64 {
        normal_cdf((row.y - f[0]) * self.precision(f).sqrt())
    }

    fn sample(&self, f: &[f64], auxiliary: f64, rng: &mut dyn Rng) -> f64 {
        let z: f64 = StandardNormal.sample(rng);
        f[0] + z * self.variance(f, auxiliary).sqrt()
    }

    fn predictive_mean(&self, at: Marginal, _auxiliary: f64) -> f64 {
        at.mean[0]
    }

    fn predictive_variance(&self, at: Marginal, _auxiliary: f64) -> f64 {
        at.variance[0] + self.noise * (at.mean[1] + 0.5 * at.variance[1]).exp()
    }

    /// The first function is integrated in closed form, the second by quadrature. If a residual is far beyond what the
    /// first function explains, its density is largest where the noise is as large as the residual.
    fn predictive_log_density(&self, row: Row, at: Marginal) -> f64 {
        let square = (row.y - at.mean[0]).powi(2);
        let variance = |g: f64| at.variance[0] + self.noise * g.exp();
        let peak = if square > at.variance[0] { ((square - at.variance[0]) / self.noise).ln() } else { at.mean[1] };
        let slopes = |g: f64| {
            // The noise's share of the variance, and the squared residual over the variance.
            let (share, scaled) = (self.noise * g.exp() / variance(g), square / variance(g));
            [0.5 * share * (scaled - 1.0), 0.5 * share * ((1.0 - share) * (scaled - 1.0) - share * scaled)]
        };
        let log_density = |g: f64| log_normal_density(row.y - at.mean[0], variance(g));
        predictive::log_average(at.mean[1], at.variance[1], peak, &log_density, &slopes)
    }

    fn predictive_cdf(&self, row: Row, at: Marginal) -> f64 {
        predictive::average(at.mean[1], at.variance[1], at.mean[1], &|g| {
            normal_cdf((row.y - at.mean[0]) / (at.variance[0] + self.noise * g.exp()).sqrt())
        })
    }
}

/// y = f(x) + σ t, where t has Student's distribution: outliers have little influence.
#[derive(Debug)]
pub struct Student {
    /// Squared scale and degrees of freedom.
    pub own: [f64; 2],
}

impl Formula for Student {
    fn support(&self, _auxiliary: f64) -> Support {
        Support::Real
    }

    fn is_log_concave(&self) -> bool {
        false
    }

    fn log_density<A: Real>(&self, row: Row, f: &[A], own: &[A]) -> A {
        let (residual, noise, df) = (f[0] - row.y, own[0], own[1]);
        (residual * residual / (df * noise)).ln_1p() * (df + 1.0) * -0.5
    }

    fn rest<A: Real>(&self, _row: Row, own: &[A]) -> A {
        let (noise, df) = (own[0], own[1]);
        ln_rising(df * 0.5, 0.5) - (df * noise * std::f64::consts::PI).ln() * 0.5
    }

    /// The Fisher information `(ν + 1)/((ν + 3) σ²)`.
    fn curvature<A: Real>(&self, _row: Row, _f: &[A], own: &[A], d: &mut [A]) {
        let (noise, df) = (own[0], own[1]);
        d[0] = (df + 1.0) / ((df + 3.0) * noise);
    }
}

impl Density for Student {
    fn built_in(&self) -> Option<String> {
        Some("student-t".into())
    }

    fn own(&self) -> &[f64] {
        &self.own
    }

    /// `(ν + 1)/(ν σ² + r²)` for the residual r: the logarithm is concave in r². These are the steps of EM, which know
    /// at once that a row far away says little (Lange, Little and Taylor 1989). The Fisher information does not.
    fn climbing_curvature(&self, row: Row, f: &[f64], d: &mut [f64]) {
        let [noise, df] = self.own;
        d[0] = (df + 1.0) / (df * noise + (row.y - f[0]).powi(2));
    }

    fn mean(&self, f: &[f64], _auxiliary: f64) -> f64 {
        f[0]
    }

    fn variance(&self, _f: &[f64], _auxiliary: f64) -> f64 {
        let [noise, df] = self.own;
        if df > 2.0 { noise * df / (df - 2.0) } else { f64::INFINITY }
    }

    fn cdf(&self, row: Row, f: &[f64]) -> f64 {
        let [noise, df] = self.own;
        let t = (row.y - f[0]) / noise.sqrt();
        if df > 1e6 {
            return normal_cdf(t);
        }
        let total = df + t * t;
        let tail = 0.5 * beta_cdf([0.5 * df, 0.5], df / total, t * t / total);
        if t > 0.0 { 1.0 - tail } else { tail }
    }

    fn sample(&self, f: &[f64], _auxiliary: f64, rng: &mut dyn Rng) -> f64 {
        let [noise, df] = self.own;
        let t = match rand_distr::StudentT::new(df) {
            Ok(student) => student.sample(rng),
            Err(_) => StandardNormal.sample(rng),
        };
        f[0] + t * noise.sqrt()
    }

    fn peak(&self, row: Row) -> f64 {
        row.y
    }

    fn predictive_mean(&self, at: Marginal, _auxiliary: f64) -> f64 {
        at.mean[0]
    }

    fn predictive_variance(&self, at: Marginal, auxiliary: f64) -> f64 {
        at.variance[0] + self.variance(at.mean, auxiliary)
    }
}
