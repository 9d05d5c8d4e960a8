//! The mathematics of a likelihood at fixed parameter values, on the host in f64.

use rand::Rng;

use super::deviance;
use super::formula::{Along, Derivatives};
use super::targets::Row;
use super::{outcomes, predictive};

/// Independent Gaussian marginals of a row's latent functions.
#[derive(Debug, Clone, Copy)]
pub struct Marginal<'a> {
    /// Means `[L]`.
    pub mean: &'a [f64],
    /// Variances `[L]`.
    pub variance: &'a [f64],
}

/// Where to add the slopes of an expected log density. All of them start at zero.
#[derive(Debug)]
pub struct Slopes<'a> {
    /// In the means `[L]`.
    pub mean: &'a mut [f64],
    /// In the variances `[L]`, or the covariances `[L, L]`.
    pub variance: &'a mut [f64],
    /// In the likelihood's own parameters (internal values, in the order of its list).
    pub own: &'a mut [f64],
}

/// The values that a target can take.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Support {
    /// All numbers.
    Real,
    /// Numbers above 0.
    Positive,
    /// Numbers strictly between 0 and 1.
    Unit,
    /// Whole numbers from 0 to the given last one, or without end.
    Counts(Option<f64>),
    /// Codes 0, 1, … of this many classes.
    Classes(usize),
}

impl Support {
    /// Whether a target can take this value.
    pub fn contains(self, y: f64) -> bool {
        match self {
            Self::Real => true,
            Self::Positive => y > 0.0,
            Self::Unit => 0.0 < y && y < 1.0,
            Self::Counts(last) => y >= 0.0 && y.fract() == 0.0 && last.is_none_or(|last| y <= last),
            Self::Classes(classes) => y >= 0.0 && y.fract() == 0.0 && y < classes as f64,
        }
    }

    /// The largest of finitely many values.
    pub fn last(self) -> f64 {
        match self {
            Self::Counts(Some(last)) => last,
            Self::Classes(classes) => classes as f64 - 1.0,
            _ => f64::INFINITY,
        }
    }
}

/// `p(y | f)` of one row with `L` latent values `f`. This is a likelihood with plain numbers in place of
/// parameters.
///
/// Every function holds for all finite `f`, also in the tails.
pub trait Density: Derivatives {
    /// The text that [`named`](super::named) reads, for the densities that come with the library; none for others.
    fn built_in(&self) -> Option<String> {
        None
    }

    /// The values `[P]` of the likelihood's own parameters.
    fn own(&self) -> &[f64] {
        &[]
    }

    /// `ln p(y | f)`.
    fn log_density(&self, row: Row, f: &[f64]) -> f64 {
        self.value(row, f, self.own())
    }

    /// `ln p(y | f)`, with its gradient `[L]` and Hessian `[L, L]` in `f`.
    fn derivatives(&self, row: Row, f: &[f64], gradient: &mut [f64], hessian: &mut [f64]) -> f64 {
        let (latents, own) = (f.len(), self.own());
        let mut value = 0.0;
        for a in 0..latents {
            for b in 0..=a {
                let second;
                [value, gradient[a], _, second] = self.bend(row, f, own, [Along::Latent(a), Along::Latent(b)]);
                hessian[a * latents + b] = second;
                hessian[b * latents + a] = second;
            }
        }
        value + self.rest(row, own)
    }

    /// Whether the curvature is `W = diag(d) − d dᵀ` with `Σ d = 1`, as for class probabilities, and not `diag(d)`. The
    /// gradient is then a unit vector minus `d`.
    fn is_centred(&self) -> bool {
        false
    }

    /// The numbers `d` `[L]` of the curvature `W`, none negative. `W` is minus the Hessian in `f`, or its expectation
    /// over targets if the density is not log-concave.
    fn curvature(&self, row: Row, f: &[f64], d: &mut [f64]) {
        self.curved(row, f, self.own(), d);
        d.iter_mut().for_each(|d| *d = d.max(0.0));
    }

    /// The numbers `d` `[L]` of a curvature for the way to the mode. The best is one whose parabola, with the gradient
    /// at `f`, lies below the log density everywhere: such steps never overshoot. By default it is the
    /// [curvature](Self::curvature).
    fn climbing_curvature(&self, row: Row, f: &[f64], d: &mut [f64]) {
        self.curvature(row, f, d);
    }

    /// Adds the slopes of `tr(B W)` for symmetric `weights` `B` `[L, L]`: those in `f` to `slopes` `[L]`, those in the
    /// likelihood's own parameters (internal values, in the order of its list) to `own`, which may be empty.
    fn add_curvature_slopes(&self, row: Row, f: &[f64], weights: &[f64], slopes: &mut [f64], own: &mut [f64]) {
        let of = |along| self.curved_slope(row, f, self.own(), along, weights);
        slopes.iter_mut().enumerate().for_each(|(l, slope)| *slope += of(Along::Latent(l)));
        own.iter_mut().enumerate().for_each(|(k, slope)| *slope += of(Along::Own(k)));
    }

    /// Adds the slopes of `Σ_l weights_l ∂ ln p(y | f)/∂f_l` in the likelihood's own parameters.
    fn add_pull_slopes(&self, row: Row, f: &[f64], weights: &[f64], own: &mut [f64]) {
        for (k, own) in own.iter_mut().enumerate() {
            *own += self.bend(row, f, self.own(), [Along::Latents(weights), Along::Own(k)])[3];
        }
    }

    /// Adds `weight` times the gradient of `ln p(y | f)` in the likelihood's own parameters (internal values, in the
    /// order of its list).
    fn add_own_gradient(&self, row: Row, f: &[f64], weight: f64, own: &mut [f64]) {
        let at = self.own();
        for (k, own) in own.iter_mut().enumerate() {
            *own += weight * (self.slope(row, f, at, Along::Own(k))[1] + self.rest_slope(row, at, k));
        }
    }

    /// `E[ln p(y | f)]` under Gaussian marginals, with its slopes.
    ///
    /// The default is Gauss–Hermite quadrature with 20 nodes for each latent function, and the exact slopes of that
    /// rule. Likelihoods with a closed form override it, and those with more than two functions.
    fn expectation(&self, row: Row, at: Marginal, slopes: Slopes) -> f64 {
        self.average(row, at, self.own(), slopes)
    }

    /// `E[ln p(y | f)]` for latent functions with these means `[L]` and covariances `[L, L]`, with its slopes in the
    /// means, in the covariances (as symmetric matrices) and in the likelihood's own parameters. All slopes start at
    /// zero.
    ///
    /// The default is the [expectation](Self::expectation) under the marginals. That is right for a single function,
    /// and for several functions only if they are independent.
    fn joint_expectation(&self, row: Row, mean: &[f64], covariance: &[f64], slopes: Slopes) -> f64 {
        by_marginals(self, row, mean, covariance, slopes)
    }

    /// `E[y | f]`; by default summed or integrated over targets, as the next three are.
    fn mean(&self, f: &[f64], auxiliary: f64) -> f64 {
        outcomes::average(self, f, auxiliary, f64::INFINITY, &|y| y)
    }

    /// `Var[y | f]`.
    fn variance(&self, f: &[f64], auxiliary: f64) -> f64 {
        let mean = self.mean(f, auxiliary);
        outcomes::average(self, f, auxiliary, f64::INFINITY, &|y| (y - mean).powi(2))
    }

    /// `P(target ≤ y | f)`.
    fn cdf(&self, row: Row, f: &[f64]) -> f64 {
        outcomes::average(self, f, row.auxiliary, row.y, &|_| 1.0).clamp(0.0, 1.0)
    }

    /// Draws a target given `f`.
    fn sample(&self, f: &[f64], auxiliary: f64, rng: &mut dyn Rng) -> f64 {
        outcomes::draw(self, f, auxiliary, rng)
    }

    /// A place near the `f` at which the density of the row's target is largest, for one latent function; a finite
    /// value if the density grows without end. Integrals over `f` look for their mass there.
    fn peak(&self, _row: Row) -> f64 {
        0.0
    }

    /// `E[y]` under Gaussian marginals.
    fn predictive_mean(&self, at: Marginal, auxiliary: f64) -> f64 {
        predictive::average_of(at, 0.0, &|f| self.mean(f, auxiliary))
    }

    /// `Var[y]` under Gaussian marginals.
    fn predictive_variance(&self, at: Marginal, auxiliary: f64) -> f64 {
        let centre = self.predictive_mean(at, auxiliary);
        predictive::average_of(at, 0.0, &|f| self.variance(f, auxiliary) + (self.mean(f, auxiliary) - centre).powi(2))
    }

    /// `ln E[p(y | f)]` under Gaussian marginals.
    fn predictive_log_density(&self, row: Row, at: Marginal) -> f64 {
        predictive::log_density(self, row, at)
    }

    /// `P(target ≤ y)` under Gaussian marginals.
    fn predictive_cdf(&self, row: Row, at: Marginal) -> f64 {
        predictive::average_of(at, self.peak(row), &|f| self.cdf(row, f)).clamp(0.0, 1.0)
    }

    /// The deviance of a target about a predicted mean: twice what its log density lacks, compared with the mean that
    /// suits it best. None if the likelihood has no such score. By default that of Poisson's distribution for counts
    /// without end, and of the binomial distribution for other counts.
    fn deviance(&self, row: Row, mean: f64) -> Option<f64> {
        // A mean at an end of its range was rounded to it.
        match self.support(row.auxiliary) {
            Support::Counts(None) => Some(deviance::poisson(row.y, mean.max(f64::MIN_POSITIVE))),
            Support::Counts(Some(n)) => {
                Some(deviance::binomial(row.y, mean.clamp(f64::MIN_POSITIVE, n * (1.0 - f64::EPSILON)), n))
            }
            _ => None,
        }
    }

    /// The probability of each class under Gaussian marginals; none if targets are not classes.
    fn probabilities(&self, at: Marginal) -> Option<Vec<f64>> {
        let Support::Classes(classes) = self.support(1.0) else { return None };
        let of = |class| self.predictive_log_density(Row { y: class as f64, auxiliary: 1.0 }, at).exp();
        let all: Vec<f64> = (0..classes).map(of).collect();
        let total: f64 = all.iter().sum();
        Some(all.into_iter().map(|p| p / total).collect())
    }

    /// The probability of each class for latent functions with these means `[L]` and covariances `[L, L]`; none if
    /// targets are not classes with several functions.
    fn joint_probabilities(&self, _mean: &[f64], _covariance: &[f64]) -> Option<Vec<f64>> {
        None
    }
}

/// The [expectation](Density::expectation) under the marginals, in the form of [`Density::joint_expectation`].
pub(super) fn by_marginals<D: Density + ?Sized>(
    density: &D,
    row: Row,
    mean: &[f64],
    covariance: &[f64],
    slopes: Slopes,
) -> f64 {
    let latents = mean.len();
    let Slopes { mean: in_mean, variance: in_covariance, own } = slopes;
    let variance: Vec<f64> = covariance.iter().step_by(latents + 1).copied().collect();
    let mut in_variance = vec![0.0; latents];
    let slopes = Slopes { mean: in_mean, variance: &mut in_variance, own };
    let value = density.expectation(row, Marginal { mean, variance: &variance }, slopes);
    in_covariance.iter_mut().step_by(latents + 1).zip(in_variance).for_each(|(all, own)| *all = own);
    value
}
