//! y = f(x) + σ t, where t has Student's distribution: outliers have little influence.

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use super::density::{Density, Marginal, Support};
use super::formula::Formula;
use super::targets::Row;
use crate::arithmetic::Real;
use crate::arithmetic::special::{beta_cdf, ln_rising, normal_cdf};

/// Student-t noise.
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
