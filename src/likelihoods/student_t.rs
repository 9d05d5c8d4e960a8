//! y = f(x) + σ t, where t has Student's distribution: outliers have little influence.

use std::sync::Arc;

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use super::density::{Density, Marginal, Support};
use super::formula::Formula;
use super::targets::{Row, Targets};
use super::{Likelihood, level, spread};
use crate::arithmetic::Real;
use crate::arithmetic::special::{beta_cdf, ln_rising, normal_cdf};
use crate::params::{Constraint, Parameter, Unit, shown};

/// Student-t noise.
///
/// The log density is not concave: its second derivative is positive beyond `|y − f| = σ√ν`.
#[derive(Debug, Clone)]
pub struct StudentT {
    /// σ², the squared scale; the variance is `σ² ν/(ν − 2)`.
    pub noise: Parameter,
    /// Degrees of freedom ν, above 1.
    pub df: Parameter,
}

impl StudentT {
    /// Makes noise with an initial squared scale in user units and initial degrees of freedom.
    pub fn new(noise: f64, df: f64) -> Self {
        Self {
            noise: Parameter::new("noise", Unit::Variance, Constraint::Positive { floor: 1e-6 }, &[noise]),
            df: Parameter::new("df", Unit::None, Constraint::Positive { floor: 1.0 }, &[df]),
        }
    }
}

crate::parameters!(StudentT { "noise": noise, "df": df });

impl Likelihood for StudentT {
    fn text(&self) -> String {
        format!("student-t({})", shown(self.df.values()[0]))
    }

    fn scaled(&self) -> bool {
        true
    }

    fn set_units(&mut self, target_sd: f64) {
        self.noise.put_scale(vec![target_sd * target_sd], 0.0);
    }

    fn check_row(&self, _row: Row) -> Result<(), String> {
        Ok(())
    }

    fn initialise(&mut self, targets: Targets) -> Vec<f64> {
        if !self.noise.given {
            self.noise.put_internal(&[0.1 * spread(targets.y)]);
        }
        vec![level(targets.y)]
    }

    fn density(&self) -> Arc<dyn Density> {
        Arc::new(Student { own: [self.noise.internal()[0], self.df.internal()[0]] })
    }
}

#[derive(Debug)]
struct Student {
    /// Squared scale and degrees of freedom.
    own: [f64; 2],
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
