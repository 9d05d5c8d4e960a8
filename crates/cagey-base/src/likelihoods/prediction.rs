//! The predictive distribution of one target.

use std::sync::Arc;

use rand::{Rng, RngExt};
use rand_distr::{Distribution, StandardNormal};

use super::density::{Density, Marginal, Support};
use super::softmax::{moments, up_to};
use super::targets::Row;
use crate::arithmetic::special::{logistic, logit, normal_quantile};

/// A map from an unbounded scale to a support, or back.
type Map = fn(f64) -> f64;

/// The zero of an increasing function to within `fine`, given places where its values have different signs. The method
/// is false position (Illinois), with a bisection every fourth time because the function may jump.
///
/// If two places of false position in a row are within a hundred times `fine`, the search has converged: the integrals
/// behind a function are not more exact.
fn root(f: &dyn Fn(f64) -> f64, mut low: (f64, f64), mut high: (f64, f64), fine: f64) -> f64 {
    let mut last = f64::NAN;
    let mut before = None;
    for round in 1..1000 {
        let between = (low.0 * high.1 - high.0 * low.1) / (high.1 - low.1);
        let middle = 0.5 * (low.0 + high.0);
        if (between - last).abs() <= 1e2 * fine {
            return between;
        }
        if high.0 - low.0 <= fine || middle <= low.0 || middle >= high.0 {
            return middle;
        }
        let inside = low.0 < between && between < high.0;
        let t = if inside && round % 4 != 0 { between } else { middle };
        last = between;
        let value = f(t);
        let above = Some(value >= 0.0);
        let (moved, kept) = if value >= 0.0 { (&mut high, &mut low) } else { (&mut low, &mut high) };
        *moved = (t, value);
        // An end that stays twice would hold back the next places.
        if above == before {
            kept.1 *= 0.5;
        }
        before = above;
    }
    last
}

/// The predictive distribution of a target whose latent functions are Gaussian:
/// `p(y) = ∫ p(y | f) N(f; mean, variance) df`.
///
/// In the units that the model sees.
#[derive(Debug, Clone)]
pub struct Prediction {
    density: Arc<dyn Density>,
    mean: Vec<f64>,
    variance: Vec<f64>,
    auxiliary: f64,
    /// The exponent of the class probabilities.
    exponent: Option<f64>,
    /// The distributions that this is a mixture of, with their weights; none if it is no mixture.
    parts: Vec<(f64, Prediction)>,
}

/// Raises probabilities to the power `exponent` and makes them sum to 1. Above 1 they become sharper.
pub fn tempered(p: &[f64], exponent: f64) -> Vec<f64> {
    let largest = p.iter().fold(0.0, |m: f64, p| m.max(*p));
    // Relative to the largest one, which stays 1.
    let powers: Vec<f64> = p.iter().map(|p| (p / largest).powf(exponent)).collect();
    let total: f64 = powers.iter().sum();
    powers.into_iter().map(|power| power / total).collect()
}

impl Prediction {
    /// The distribution for these means and variances of the latent functions, and this auxiliary value.
    pub fn new(density: Arc<dyn Density>, mean: Vec<f64>, variance: Vec<f64>, auxiliary: f64) -> Self {
        Self { density, mean, variance, auxiliary, exponent: None, parts: Vec::new() }
    }

    /// The distribution for latent functions with these means and covariances `[L, L]`; none if the likelihood does not
    /// take correlations into account.
    pub fn joint(density: Arc<dyn Density>, mean: &[f64], covariance: &[f64], auxiliary: f64) -> Option<Self> {
        // Latent functions without variance that have these probabilities.
        let mean: Vec<f64> = density.joint_probabilities(mean, covariance)?.into_iter().map(f64::ln).collect();
        let variance = vec![0.0; mean.len()];
        Some(Self::new(density, mean, variance, auxiliary))
    }

    /// The mixture of distributions of one target, with weights whose sum is 1.
    pub fn mixture(parts: Vec<(f64, Self)>) -> Self {
        let average = |of: &dyn Fn(&Self) -> &Vec<f64>| {
            let all = (0..of(&parts[0].1).len()).map(|k| average(&parts, |part| of(part)[k]));
            all.collect::<Vec<f64>>()
        };
        let (mean, variance) = (average(&|part| &part.mean), average(&|part| &part.variance));
        Self { mean, variance, parts: parts.clone(), ..parts[0].1.clone() }
    }

    /// The same with [`tempered`] probabilities, if targets are classes.
    pub fn tempered(self, exponent: f64) -> Self {
        let classes = matches!(self.support(), Support::Classes(_));
        let parts = self.parts.into_iter().map(|(weight, part)| (weight, part.tempered(exponent))).collect();
        Self { exponent: classes.then_some(exponent), parts, ..self }
    }

    /// The class probabilities, if they are tempered.
    fn sharpened(&self) -> Option<Vec<f64>> {
        self.exponent.and(self.probabilities())
    }

    fn at(&self) -> Marginal<'_> {
        Marginal { mean: &self.mean, variance: &self.variance }
    }

    fn row(&self, y: f64) -> Row {
        Row { y, auxiliary: self.auxiliary }
    }

    /// `E[y]`; for classes the mean of their codes.
    pub fn mean(&self) -> f64 {
        if !self.parts.is_empty() {
            return average(&self.parts, Self::mean);
        }
        match self.sharpened() {
            Some(p) => moments(&p).0,
            None => self.density.predictive_mean(self.at(), self.auxiliary),
        }
    }

    /// `Var[y]`; infinite if it does not exist.
    pub fn variance(&self) -> f64 {
        if !self.parts.is_empty() {
            let mean = self.mean();
            return average(&self.parts, |part| part.variance() + (part.mean() - mean).powi(2));
        }
        match self.sharpened() {
            Some(p) => moments(&p).1,
            None => self.density.predictive_variance(self.at(), self.auxiliary),
        }
    }

    /// `ln p(y)`; for a count or a class its log probability.
    pub fn log_density(&self, y: f64) -> f64 {
        if !self.parts.is_empty() {
            let each: Vec<f64> = self.parts.iter().map(|(weight, part)| weight.ln() + part.log_density(y)).collect();
            let most = each.iter().fold(f64::NEG_INFINITY, |most: f64, each| most.max(*each));
            if most == f64::NEG_INFINITY {
                return most;
            }
            return most + each.iter().map(|each| (each - most).exp()).sum::<f64>().ln();
        }
        match self.support() {
            Support::Classes(classes) if !(0.0..classes as f64).contains(&y) => f64::NEG_INFINITY,
            _ => match self.sharpened() {
                Some(p) => p[y as usize].ln(),
                None => self.density.predictive_log_density(self.row(y), self.at()),
            },
        }
    }

    /// The [deviance](Density::deviance) of a target about the mean, if the likelihood has one.
    pub fn deviance(&self, y: f64) -> Option<f64> {
        self.density.deviance(self.row(y), self.mean())
    }

    /// `P(target ≤ y)`.
    pub fn cdf(&self, y: f64) -> f64 {
        if !self.parts.is_empty() {
            return average(&self.parts, |part| part.cdf(y));
        }
        match self.sharpened() {
            Some(p) => up_to(&p, y),
            None => self.density.predictive_cdf(self.row(y), self.at()),
        }
    }

    /// The probability of each class; none if targets are not classes.
    pub fn probabilities(&self) -> Option<Vec<f64>> {
        if !self.parts.is_empty() {
            let each = self.parts.iter().map(|(weight, part)| Some((*weight, part.probabilities()?)));
            let each = each.collect::<Option<Vec<_>>>()?;
            return Some((0..each[0].1.len()).map(|code| average(&each, |p| p[code])).collect());
        }
        let p = self.density.probabilities(self.at())?;
        Some(match self.exponent {
            Some(exponent) => tempered(&p, exponent),
            None => p,
        })
    }

    /// The values that a target can take.
    pub fn support(&self) -> Support {
        self.density.support(self.auxiliary)
    }

    /// The quantile `p` of `E[y | f]`, for example of a rate or a probability. It is the uncertainty of the function
    /// without the scatter of observations. If there are several latent functions, it is over the first one. `E[y | f]`
    /// must increase with that function.
    pub fn response_quantile(&self, p: f64) -> f64 {
        if !self.parts.is_empty() {
            return self.mixed_response_quantile(p);
        }
        let mut f = self.mean.clone();
        f[0] += normal_quantile(p) * self.variance[0].max(0.0).sqrt();
        self.density.mean(&f, self.auxiliary)
    }

    /// The quantile of the response of a mixture lies between those of its parts.
    fn mixed_response_quantile(&self, p: f64) -> f64 {
        let all = || self.parts.iter().map(|(_, part)| part.response_quantile(p));
        let (mut low, mut high) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
        // The probability that the response of a part is at most r: the p with this quantile, by bisection.
        let below = |part: &Self, r: f64| {
            let (mut a, mut b) = (0.0, 1.0);
            for _ in 0..40 {
                let middle = 0.5 * (a + b);
                if part.response_quantile(middle) <= r { a = middle } else { b = middle }
            }
            0.5 * (a + b)
        };
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if high - low <= 1e-9 * middle.abs() || middle <= low || middle >= high {
                break;
            }
            if average(&self.parts, |part| below(part, middle)) >= p { high = middle } else { low = middle }
        }
        0.5 * (low + high)
    }

    /// The smallest `y` with `P(target ≤ y) ≥ p`. For `p` = 0 and 1, an end of the support or infinite.
    pub fn quantile(&self, p: f64) -> f64 {
        // The ends of the support, and maps from an unbounded scale and back.
        let ([low, high], to, from): ([f64; 2], Map, Map) = match self.support() {
            Support::Classes(_) | Support::Counts(_) => return self.whole_quantile(p, self.support().last()),
            Support::Real => ([f64::NEG_INFINITY, f64::INFINITY], |t| t, |t| t),
            Support::Positive => ([0.0, f64::INFINITY], f64::exp, f64::ln),
            Support::Unit => ([0.0, 1.0], logistic, logit),
        };
        if p <= 0.0 || p >= 1.0 {
            return if p <= 0.0 { low } else { high };
        }
        // Find a bracket from the centre, then refine it.
        let centre = from(self.mean()).clamp(-1e150, 1e150);
        let excess = |t: f64| self.cdf(to(t)) - p;
        let mut step = match self.support() {
            Support::Real if self.variance().is_finite() => self.variance().sqrt().clamp(1e-150, 1e150),
            // The step doubles until it is large enough. If the target has no variance, it may start from the
            // function's variance.
            Support::Real => self.variance[0].max(0.0).sqrt().clamp(1e-12 * centre.abs().max(1e-12), 1e150),
            _ => 1.0,
        };
        let fine = 1e-9 * step;
        let mut near = (centre, excess(centre));
        let direction = if near.1 < 0.0 { 1.0 } else { -1.0 };
        let mut far = near;
        for _ in 0..200 {
            let t = far.0 + direction * step;
            (near, far) = (far, (t, excess(t)));
            if (far.1 < 0.0) != (direction > 0.0) {
                break;
            }
            step *= 2.0;
        }
        let (low, high) = if direction > 0.0 { (near, far) } else { (far, near) };
        to(root(&excess, low, high, fine))
    }

    /// The quantile among 0, 1, … up to `last`.
    fn whole_quantile(&self, p: f64, last: f64) -> f64 {
        if p >= 1.0 {
            return last;
        }
        let enough = |y: f64| self.cdf(y) >= p;
        // The factor is squared each time, so that a few steps reach any number.
        let (mut low, mut high) = (-1.0, self.mean().ceil().clamp(1.0, 1e15).min(last));
        let mut factor = 2.0;
        while high < last && high < 1e300 && !enough(high) {
            (low, high) = (high, (factor * high).min(last).min(1e300));
            factor = f64::min(factor * factor, 1e100);
        }
        // Bisect between numbers of different size at their geometric mean. The integrals behind large numbers have
        // nine digits.
        while high - low > f64::max(1.0, 1e-9 * high) {
            let middle =
                if low >= 0.0 && high > 8.0 * (low + 1.0) { ((low + 1.0) * high).sqrt() } else { 0.5 * (low + high) };
            let middle = middle.floor();
            if middle <= low || middle >= high {
                break;
            }
            if enough(middle) { high = middle } else { low = middle }
        }
        high
    }

    /// Draws a target from the predictive distribution.
    pub fn sample(&self, rng: &mut dyn Rng) -> f64 {
        if !self.parts.is_empty() {
            return self.parts[drawn(self.parts.iter().map(|(weight, _)| *weight), rng)].1.sample(rng);
        }
        if let Some(p) = self.sharpened() {
            return drawn(p.into_iter(), rng) as f64;
        }
        let f: Vec<f64> = self
            .mean
            .iter()
            .zip(&self.variance)
            .map(|(mean, variance)| {
                let z: f64 = StandardNormal.sample(rng);
                mean + z * variance.max(0.0).sqrt()
            })
            .collect();
        self.density.sample(&f, self.auxiliary, rng)
    }
}

/// The place that a random number falls on, with these probabilities.
fn drawn(probabilities: impl ExactSizeIterator<Item = f64>, rng: &mut dyn Rng) -> usize {
    let (mut left, last) = (rng.random::<f64>(), probabilities.len() - 1);
    let mut beyond = |p: f64| {
        left -= p;
        left < 0.0
    };
    probabilities.enumerate().find(|(_, p)| beyond(*p)).map_or(last, |(place, _)| place)
}

/// The mean of a number over weighted parts.
fn average<T>(parts: &[(f64, T)], of: impl Fn(&T) -> f64) -> f64 {
    parts.iter().map(|(weight, part)| weight * of(part)).sum()
}
