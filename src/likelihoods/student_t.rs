//! y = f(x) + σ t, where t has Student's distribution: outliers have little influence.

use std::sync::Arc;

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use statrs::function::gamma::digamma;

use super::density::{Density, Marginal, Support};
use super::special::{beta_cdf, ln_rising, normal_cdf};
use super::targets::{Row, Targets};
use super::{Likelihood, level, spread};
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
        let (noise, df) = (self.noise.internal()[0], self.df.internal()[0]);
        let constant = ln_rising(0.5 * df, 0.5) - 0.5 * (df * std::f64::consts::PI * noise).ln();
        let slope = 0.5 * (digamma(0.5 * (df + 1.0)) - digamma(0.5 * df) - 1.0 / df);
        Arc::new(Student { noise, df, constant, slope })
    }

    fn boxed(&self) -> Box<dyn Likelihood> {
        Box::new(self.clone())
    }
}

#[derive(Debug)]
struct Student {
    noise: f64,
    df: f64,
    /// The log density at the centre.
    constant: f64,
    /// The slope of `constant` in the degrees of freedom.
    slope: f64,
}

impl Density for Student {
    fn support(&self, _auxiliary: f64) -> Support {
        Support::Real
    }

    fn log_density(&self, row: Row, f: &[f64]) -> f64 {
        let residual = row.y - f[0];
        self.constant - 0.5 * (self.df + 1.0) * (residual * residual / (self.df * self.noise)).ln_1p()
    }

    fn derivatives(&self, row: Row, f: &[f64], gradient: &mut [f64], hessian: &mut [f64]) -> f64 {
        let (residual, width) = (row.y - f[0], self.df * self.noise);
        let sum = width + residual * residual;
        gradient[0] = (self.df + 1.0) * residual / sum;
        hessian[0] = (self.df + 1.0) * (residual * residual - width) / (sum * sum);
        self.log_density(row, f)
    }

    fn add_own_gradient(&self, row: Row, f: &[f64], weight: f64, own: &mut [f64]) {
        let (square, width) = ((row.y - f[0]).powi(2), self.df * self.noise);
        let pull = (self.df + 1.0) * square / (width + square);
        own[0] += weight * 0.5 * (pull - 1.0) / self.noise;
        own[1] += weight * (self.slope + 0.5 * (pull / self.df - (square / width).ln_1p()));
    }

    fn is_log_concave(&self) -> bool {
        false
    }

    /// The Fisher information `(ν + 1)/((ν + 3) σ²)`.
    fn curvature(&self, _row: Row, _f: &[f64], d: &mut [f64]) {
        d[0] = (self.df + 1.0) / ((self.df + 3.0) * self.noise);
    }

    fn add_curvature_slopes(&self, _row: Row, _f: &[f64], weights: &[f64], _slopes: &mut [f64], own: &mut [f64]) {
        if let [noise, df] = own {
            *noise -= weights[0] * (self.df + 1.0) / ((self.df + 3.0) * self.noise * self.noise);
            *df += weights[0] * 2.0 / ((self.df + 3.0).powi(2) * self.noise);
        }
    }

    fn add_pull_slopes(&self, row: Row, f: &[f64], weights: &[f64], own: &mut [f64]) {
        let residual = row.y - f[0];
        let sum = self.df * self.noise + residual * residual;
        own[0] -= weights[0] * (self.df + 1.0) * residual * self.df / (sum * sum);
        own[1] += weights[0] * residual / sum * (1.0 - (self.df + 1.0) * self.noise / sum);
    }

    fn mean(&self, f: &[f64], _auxiliary: f64) -> f64 {
        f[0]
    }

    fn variance(&self, _f: &[f64], _auxiliary: f64) -> f64 {
        if self.df > 2.0 { self.noise * self.df / (self.df - 2.0) } else { f64::INFINITY }
    }

    fn cdf(&self, row: Row, f: &[f64]) -> f64 {
        let t = (row.y - f[0]) / self.noise.sqrt();
        if self.df > 1e6 {
            return normal_cdf(t);
        }
        let total = self.df + t * t;
        let tail = 0.5 * beta_cdf([0.5 * self.df, 0.5], self.df / total, t * t / total);
        if t > 0.0 { 1.0 - tail } else { tail }
    }

    fn sample(&self, f: &[f64], _auxiliary: f64, rng: &mut dyn Rng) -> f64 {
        let t = match rand_distr::StudentT::new(self.df) {
            Ok(student) => student.sample(rng),
            Err(_) => StandardNormal.sample(rng),
        };
        f[0] + t * self.noise.sqrt()
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
