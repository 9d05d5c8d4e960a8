//! Two classes: y ∈ {0, 1}, P(y = 1 | f) = g(f).

use std::sync::Arc;

use rand::{Rng, RngExt};

use super::density::{Density, Marginal, Support};
use super::special::{
    log_normal_cdf, logistic, logistic_bend, logistic_slope, logit, normal_cdf, normal_quantile, softplus,
};
use super::targets::{Row, Targets};
use super::{Likelihood, class_problem, level};

/// The map from the latent function to the probability of class 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BernoulliLink {
    /// `1/(1 + e⁻ᶠ)`.
    Logit,
    /// `Φ(f)`.
    Probit,
}

/// Labels 0 and 1.
#[derive(Debug, Clone)]
pub struct Bernoulli {
    /// The map from the latent function to the probability.
    pub link: BernoulliLink,
}

crate::parameters!(Bernoulli {});

impl Likelihood for Bernoulli {
    fn text(&self) -> String {
        match self.link {
            BernoulliLink::Logit => "bernoulli(logit)".into(),
            BernoulliLink::Probit => "bernoulli(probit)".into(),
        }
    }

    fn check_row(&self, row: Row) -> Result<(), String> {
        class_problem(row.y, 2, "bernoulli")
    }

    fn warnings(&self, targets: Targets) -> Vec<String> {
        let ones = targets.y.iter().filter(|y| **y == 1.0).count();
        if ones != 0 && ones != targets.y.len() {
            return Vec::new();
        }
        vec!["all targets are of one class: there is nothing to learn; check the target column".into()]
    }

    fn initialise(&mut self, targets: Targets) -> Vec<f64> {
        let share = level(targets.y).clamp(0.01, 0.99);
        vec![match self.link {
            BernoulliLink::Logit => logit(share),
            BernoulliLink::Probit => normal_quantile(share),
        }]
    }

    fn density(&self) -> Arc<dyn Density> {
        match self.link {
            BernoulliLink::Logit => Arc::new(Logistic),
            BernoulliLink::Probit => Arc::new(Probit),
        }
    }

    fn boxed(&self) -> Box<dyn Likelihood> {
        Box::new(self.clone())
    }
}

/// +1 for class 1, −1 for class 0.
fn sign(y: f64) -> f64 {
    if y > 0.5 { 1.0 } else { -1.0 }
}

/// A value of `f` at which the row's class is nearly certain.
fn sure(row: Row) -> f64 {
    3.0 * sign(row.y)
}

fn cdf(y: f64, one: f64) -> f64 {
    match y {
        y if y < 0.0 => 0.0,
        y if y < 1.0 => 1.0 - one,
        _ => 1.0,
    }
}

fn draw(one: f64, rng: &mut dyn Rng) -> f64 {
    f64::from(u8::from(rng.random::<f64>() < one))
}

#[derive(Debug)]
struct Logistic;

impl Density for Logistic {
    fn support(&self, _auxiliary: f64) -> Support {
        Support::Classes(2)
    }

    fn log_density(&self, row: Row, f: &[f64]) -> f64 {
        -softplus(-sign(row.y) * f[0])
    }

    fn derivatives(&self, row: Row, f: &[f64], gradient: &mut [f64], hessian: &mut [f64]) -> f64 {
        let sign = sign(row.y);
        gradient[0] = sign * logistic(-sign * f[0]);
        hessian[0] = -logistic_slope(f[0]);
        self.log_density(row, f)
    }

    fn add_curvature_slopes(&self, _row: Row, f: &[f64], weights: &[f64], slopes: &mut [f64], _own: &mut [f64]) {
        slopes[0] += weights[0] * logistic_bend(f[0]);
    }

    fn mean(&self, f: &[f64], _auxiliary: f64) -> f64 {
        logistic(f[0])
    }

    fn variance(&self, f: &[f64], _auxiliary: f64) -> f64 {
        logistic_slope(f[0])
    }

    fn cdf(&self, row: Row, f: &[f64]) -> f64 {
        cdf(row.y, logistic(f[0]))
    }

    fn sample(&self, f: &[f64], _auxiliary: f64, rng: &mut dyn Rng) -> f64 {
        draw(logistic(f[0]), rng)
    }

    fn peak(&self, row: Row) -> f64 {
        sure(row)
    }

    fn predictive_variance(&self, at: Marginal, auxiliary: f64) -> f64 {
        let one = self.predictive_mean(at, auxiliary);
        one * (1.0 - one)
    }

    fn predictive_cdf(&self, row: Row, at: Marginal) -> f64 {
        cdf(row.y, self.predictive_mean(at, row.auxiliary))
    }
}

#[derive(Debug)]
struct Probit;

impl Density for Probit {
    fn support(&self, _auxiliary: f64) -> Support {
        Support::Classes(2)
    }

    fn log_density(&self, row: Row, f: &[f64]) -> f64 {
        log_normal_cdf(sign(row.y) * f[0]).0
    }

    fn derivatives(&self, row: Row, f: &[f64], gradient: &mut [f64], hessian: &mut [f64]) -> f64 {
        let z = sign(row.y) * f[0];
        let (value, ratio) = log_normal_cdf(z);
        gradient[0] = sign(row.y) * ratio;
        hessian[0] = -ratio * (z + ratio);
        value
    }

    fn add_curvature_slopes(&self, row: Row, f: &[f64], weights: &[f64], slopes: &mut [f64], _own: &mut [f64]) {
        let z = sign(row.y) * f[0];
        let ratio = log_normal_cdf(z).1;
        slopes[0] += weights[0] * sign(row.y) * ratio * (1.0 - (z + ratio) * (z + 2.0 * ratio));
    }

    fn mean(&self, f: &[f64], _auxiliary: f64) -> f64 {
        normal_cdf(f[0])
    }

    fn variance(&self, f: &[f64], _auxiliary: f64) -> f64 {
        normal_cdf(f[0]) * normal_cdf(-f[0])
    }

    fn cdf(&self, row: Row, f: &[f64]) -> f64 {
        cdf(row.y, normal_cdf(f[0]))
    }

    fn sample(&self, f: &[f64], _auxiliary: f64, rng: &mut dyn Rng) -> f64 {
        draw(normal_cdf(f[0]), rng)
    }

    fn peak(&self, row: Row) -> f64 {
        sure(row)
    }

    fn predictive_mean(&self, at: Marginal, _auxiliary: f64) -> f64 {
        normal_cdf(at.mean[0] / (1.0 + at.variance[0]).sqrt())
    }

    fn predictive_variance(&self, at: Marginal, auxiliary: f64) -> f64 {
        let one = self.predictive_mean(at, auxiliary);
        one * (1.0 - one)
    }

    /// `ln Φ(±m/√(1 + v))` (Rasmussen and Williams 2006, eq. 3.82).
    fn predictive_log_density(&self, row: Row, at: Marginal) -> f64 {
        log_normal_cdf(sign(row.y) * at.mean[0] / (1.0 + at.variance[0]).sqrt()).0
    }

    fn predictive_cdf(&self, row: Row, at: Marginal) -> f64 {
        cdf(row.y, self.predictive_mean(at, row.auxiliary))
    }
}
