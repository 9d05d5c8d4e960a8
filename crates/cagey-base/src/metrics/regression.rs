//! Predictive distributions of real targets, and how well they fit held-out targets.

use serde::{Deserialize, Serialize};
use statrs::function::erf::{erfc, erfc_inv};
use std::f64::consts::{FRAC_1_SQRT_2, PI, SQRT_2};

use super::average;
use super::mixture::Mixture;
use super::student::StudentT;
use crate::{Error, Result};

/// The predictive distribution of one target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Predictive {
    /// `y ~ N(mean, sd²)`.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        sd: f64,
    },
    /// `y = exp(g) − shift` with `g ~ N(mu, sigma²)`.
    LogNormal {
        /// Mean of `g`.
        mu: f64,
        /// Standard deviation of `g`.
        sigma: f64,
        /// 0 for targets modelled through `ln y`, 1 through `ln(1 + y)`.
        shift: f64,
    },
    /// `y = mean + scale T`, where T has Student's t distribution: a normal distribution after calibration.
    Student {
        /// Mean.
        mean: f64,
        /// The factor of T.
        scale: f64,
        /// Degrees of freedom.
        df: f64,
    },
    /// `y = mean + sd Z`, where Z is a mixture of two scales: also after calibration.
    Mixed {
        /// Mean.
        mean: f64,
        /// The unit of Z.
        sd: f64,
        /// The distribution of Z.
        shape: Mixture,
    },
    /// `p(y) = Σ w p(y)`: weights, which sum to 1, and the distributions that several models predict.
    Average(Vec<(f64, Predictive)>),
    /// `y = exp(mu + sigma Z) − shift`, with such a Z: a log-normal distribution after calibration.
    LogMixed {
        /// The centre of the logarithm.
        mu: f64,
        /// The unit of Z.
        sigma: f64,
        /// As of [`LogNormal`](Self::LogNormal).
        shift: f64,
        /// The distribution of Z.
        shape: Mixture,
        /// The log-normal distribution as the model says it has this sigma; its mean is the point prediction.
        own: f64,
    },
}

impl Predictive {
    /// The point prediction: `E[y]`. If the logarithm was calibrated, it is still that of the model's own log-normal
    /// distribution: the exponential of a heavy tail has no mean. With one degree of freedom, it is the median.
    pub fn mean(&self) -> f64 {
        match *self {
            Self::Normal { mean, .. } | Self::Student { mean, .. } | Self::Mixed { mean, .. } => mean,
            Self::Average(ref parts) => average::mean(parts),
            Self::LogNormal { mu, sigma, shift } | Self::LogMixed { mu, own: sigma, shift, .. } => {
                exp_minus(mu + 0.5 * sigma * sigma, shift)
            }
        }
    }

    /// The standard deviation of `y`. Where [there is none](Self::has_sd), the scale: of Student's t itself, or of the
    /// log-normal distribution with the scale of the logarithm.
    pub fn sd(&self) -> f64 {
        match *self {
            Self::Normal { sd, .. } => sd,
            Self::LogNormal { mu, sigma, .. } => {
                let variance = sigma * sigma;
                (mu + 0.5 * variance).exp() * variance.exp_m1().sqrt()
            }
            Self::Student { scale, .. } if !self.has_sd() => scale,
            Self::Student { scale, df, .. } => StudentT { df: Some(df), scale }.sd(),
            Self::Mixed { sd, shape, .. } => sd * shape.sd(),
            Self::Average(ref parts) => average::sd(parts),
            Self::LogMixed { mu, sigma, shape, .. } => {
                // Moments of exp(g − mu).
                let moment = |k: f64| shape.mean(|part| (0.5 * (k * sigma * part.scale).powi(2)).exp_m1());
                let (first, second) = (moment(1.0), moment(2.0));
                mu.exp() * (second - 2.0 * first - first * first).max(0.0).sqrt()
            }
        }
    }

    /// Whether `y` has a standard deviation. Student's t with at most two degrees of freedom has none, and its
    /// exponential never has one.
    pub fn has_sd(&self) -> bool {
        match self {
            Self::Student { df, .. } => *df > 2.0,
            Self::Average(parts) => parts.iter().all(|(_, part)| part.has_sd()),
            Self::LogMixed { shape, .. } => shape.parts.iter().all(|part| part.df.is_none()),
            _ => true,
        }
    }

    /// The median of `y`.
    pub fn median(&self) -> f64 {
        self.place(0.0)
    }

    /// The quantile `p` of `y`; infinite, or the end of the support, at `p` = 0 and 1.
    pub fn quantile(&self, p: f64) -> f64 {
        if let Self::Average(parts) = self {
            return average::quantile(parts, p);
        }
        self.place(match self.shape() {
            Some(shape) => shape.quantile(p),
            None => -SQRT_2 * erfc_inv(2.0 * p),
        })
    }

    /// `P(target ≤ y)`.
    pub fn cdf(&self, y: f64) -> f64 {
        match (self, self.shape()) {
            (Self::Average(parts), _) => average::cdf(parts, y),
            (_, Some(shape)) => shape.cdf(self.unit(y)),
            (_, None) => normal_cdf(self.unit(y)),
        }
    }

    /// `P(target > y)`, accurate to all digits where it is small.
    pub fn above(&self, y: f64) -> f64 {
        match self {
            Self::Average(parts) => average::above(parts, y),
            _ => self.shape().map_or_else(|| normal_cdf(-self.unit(y)), |shape| shape.cdf(-self.unit(y))),
        }
    }

    /// The standard normal quantile at the probability of at most `y`: (y − mean) / sd on the scale where the
    /// distribution is normal. Standard normal if predictions fit.
    pub fn standardised(&self, y: f64) -> f64 {
        if let Self::Average(parts) = self {
            let (below, above) = (average::cdf(parts, y), average::above(parts, y));
            let size = (SQRT_2 * erfc_inv(2.0 * below.min(above))).min(MOST);
            return if above < below { size } else { -size };
        }
        let z = self.unit(y);
        match self.shape() {
            // The smaller tail is accurate to all digits.
            Some(shape) => (SQRT_2 * erfc_inv(2.0 * shape.cdf(-z.abs()))).min(MOST).copysign(z),
            None => z,
        }
    }

    /// The end of the support: all targets are larger.
    fn least(&self) -> f64 {
        match self {
            Self::LogNormal { shift, .. } | Self::LogMixed { shift, .. } => 0.0 - shift,
            Self::Average(parts) => parts.iter().map(|(_, part)| part.least()).fold(f64::INFINITY, f64::min),
            _ => f64::NEG_INFINITY,
        }
    }

    /// One draw of y, from a number that is uniform on (0, 1).
    pub fn draw(&self, uniform: f64) -> f64 {
        self.quantile(uniform)
    }

    /// The log density at `y`; `−∞` outside the support.
    pub fn log_density(&self, y: f64) -> f64 {
        let jacobian = match *self {
            Self::LogNormal { shift, .. } | Self::LogMixed { shift, .. } if y + shift > 0.0 => (y + shift).ln(),
            Self::LogNormal { .. } | Self::LogMixed { .. } => return f64::NEG_INFINITY,
            Self::Average(ref parts) => return average::log_density(parts, y),
            _ => 0.0,
        };
        let z = self.unit(y);
        -self.spread().ln() - jacobian
            + self.shape().map_or_else(|| -0.5 * (2.0 * PI).ln() - 0.5 * z * z, |shape| shape.log_density(z))
    }

    /// The continuous ranked probability score `∫ (P(target ≤ t) − [y ≤ t])² dt` at `y`, in units of `y`; less is
    /// better.
    ///
    /// Closed forms: Gneiting and Raftery (2007) for the normal, Baran and Lerch (2015) for the log-normal. Infinite
    /// for the exponential of Student's t.
    pub fn crps(&self, y: f64) -> f64 {
        let z = self.unit(y);
        match *self {
            Self::Normal { sd, .. } => {
                sd * (z * (2.0 * normal_cdf(z) - 1.0) + 2.0 * normal_density(z) - 1.0 / PI.sqrt())
            }
            Self::LogNormal { mu, sigma, shift } => {
                let spread = normal_cdf(z - sigma) - normal_cdf(-sigma * FRAC_1_SQRT_2);
                (y + shift) * (2.0 * normal_cdf(z) - 1.0) - 2.0 * (mu + 0.5 * sigma * sigma).exp() * spread
            }
            Self::Student { scale, df, .. } => scale * StudentT { df: Some(df), scale: 1.0 }.crps(z),
            Self::Mixed { sd, shape, .. } => sd * shape.crps(z),
            Self::LogMixed { .. } if !self.has_sd() => f64::INFINITY,
            Self::LogMixed { mu, sigma, shift, shape, .. } => {
                let [narrow, wide] = shape.parts.map(|part| sigma * part.scale);
                let between = |s: f64, t: f64| 0.5 * (log_normal_gap(mu, s, t) + log_normal_gap(mu, t, s));
                // E|Y − y| − ½ E|Y − Y′|: each part's own score, and what the parts differ from each other.
                let of = |s: f64| Self::LogNormal { mu, sigma: s, shift }.crps(y);
                let apart = 2.0 * between(narrow, wide) - between(narrow, narrow) - between(wide, wide);
                let share = shape.share;
                (1.0 - share) * of(narrow) + share * of(wide) - share * (1.0 - share) * apart
            }
            Self::Average(ref parts) if parts.iter().any(|(_, part)| part.crps(y).is_infinite()) => f64::INFINITY,
            Self::Average(ref parts) => average::crps(parts, y),
        }
    }

    /// The unit of the distribution before calibration: the standard deviation of y or of its logarithm.
    pub fn spread(&self) -> f64 {
        match *self {
            Self::Normal { sd, .. } | Self::Student { scale: sd, .. } | Self::Mixed { sd, .. } => sd,
            Self::LogNormal { sigma, .. } | Self::LogMixed { sigma, .. } => sigma,
            Self::Average(_) => self.sd(),
        }
    }

    /// The distribution of z, of which y is an increasing function; none if it is the standard normal one.
    fn shape(&self) -> Option<Mixture> {
        match *self {
            Self::Normal { .. } | Self::LogNormal { .. } | Self::Average(_) => None,
            Self::Student { df, .. } => Some(Mixture::of(StudentT { df: Some(df), scale: 1.0 })),
            Self::Mixed { shape, .. } | Self::LogMixed { shape, .. } => Some(shape),
        }
    }

    /// The `y` at `z`.
    fn place(&self, z: f64) -> f64 {
        match *self {
            Self::Normal { mean, sd } | Self::Student { mean, scale: sd, .. } | Self::Mixed { mean, sd, .. } => {
                mean + sd * z
            }
            Self::LogNormal { mu, sigma, shift } | Self::LogMixed { mu, sigma, shift, .. } => {
                exp_minus(mu + sigma * z, shift)
            }
            Self::Average(_) => self.quantile(normal_cdf(z)),
        }
    }

    /// The `z` at `y`.
    fn unit(&self, y: f64) -> f64 {
        let off = match *self {
            Self::Normal { mean, .. } | Self::Student { mean, .. } | Self::Mixed { mean, .. } => y - mean,
            Self::LogNormal { mu, shift, .. } | Self::LogMixed { mu, shift, .. } => ln_plus(y, shift) - mu,
            Self::Average(_) => y - self.mean(),
        };
        off / self.spread()
    }
}

/// E[exp(g) sign(exp(g) − exp(h))] for independent g ~ N(mu, s²) and h ~ N(mu, t²).
fn log_normal_gap(mu: f64, s: f64, t: f64) -> f64 {
    (mu + 0.5 * s * s).exp() * (2.0 * normal_cdf(s * s / s.hypot(t)) - 1.0)
}

/// The [quantile](Predictive::quantile) `p` of each of many predictions. A quantile without a closed form is computed
/// once for neighbours with the same shape.
pub fn quantiles(predictions: &[Predictive], p: f64) -> Vec<f64> {
    let mut known: Option<(Mixture, f64)> = None;
    let of = |prediction: &Predictive| {
        let Some(shape) = prediction.shape() else { return prediction.quantile(p) };
        let z = match known {
            Some((same, z)) if same == shape => z,
            _ => shape.quantile(p),
        };
        known = Some((shape, z));
        prediction.place(z)
    };
    predictions.iter().map(of).collect()
}

/// Larger standardised values are cut to this: they are no more extreme.
const MOST: f64 = 38.0;

/// How well predictive distributions fit targets; the point prediction is the predictive mean.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// Number of targets.
    pub n: usize,
    /// Root mean squared error.
    pub rmse: f64,
    /// Mean absolute error.
    pub mae: f64,
    /// `1 − Σ(y − ŷ)² / Σ(y − ȳ)²`; `None` for constant targets.
    pub r2: Option<f64>,
    /// Mean negative log predictive density, in nats.
    pub nlpd: f64,
    /// Mean continuous ranked probability score; infinite if the logarithm of the target is Student-t.
    pub crps: f64,
    /// Share of targets in the central 50 % interval.
    pub coverage_50: f64,
    /// Share of targets in the central 80 % interval.
    pub coverage_80: f64,
    /// Share of targets in the central 90 % interval.
    pub coverage_90: f64,
    /// Share of targets in the central 95 % interval.
    pub coverage_95: f64,
    /// Mean width of the central 50 % interval.
    pub width_50: f64,
    /// Mean width of the central 95 % interval.
    pub width_95: f64,
    /// Mean over the levels 0.05, 0.10, …, 0.95 of `|share of targets in the central interval − level|`.
    pub calibration_error: f64,
}

/// Scores predictive distributions against targets `y [n]`.
///
/// # Errors
/// [`Error::Shape`] for no targets or different lengths, [`Error::Data`] for a target outside its distribution's
/// support, [`Error::NotFinite`] if a score is, for example because a standard deviation is 0.
pub fn score(y: &[f64], predictions: &[Predictive]) -> Result<Scores> {
    if y.is_empty() || y.len() != predictions.len() {
        return Err(Error::shape("predictions to score", format!("one for each of {} targets", y.len().max(1)), {
            format!("{} for {} targets", predictions.len(), y.len())
        }));
    }
    let pairs = || y.iter().copied().zip(predictions);
    for (i, (y, p)) in pairs().enumerate() {
        let least = p.least();
        if y <= least {
            return Err(Error::Data(format!(
                "target {} is {y}, but a log-normal prediction needs targets above {}; score such rows with an \
                 untransformed model",
                i + 1,
                least
            )));
        }
    }
    let n = y.len() as f64;
    let mean = |f: &dyn Fn(f64, &Predictive) -> f64| pairs().map(|(y, p)| f(y, p)).sum::<f64>() / n;
    let mse = mean(&|y, p| (y - p.mean()).powi(2));
    let centre = mean(&|y, _| y);
    let variance = mean(&|y, _| (y - centre).powi(2));
    let constant = y.iter().all(|value| *value == y[0]);
    let pit = central_levels(y, predictions);
    let curve = curve(&pit);
    let scores = Scores {
        n: y.len(),
        rmse: mse.sqrt(),
        mae: mean(&|y, p| (y - p.mean()).abs()),
        r2: (!constant).then_some(1.0 - mse / variance),
        nlpd: mean(&|y, p| -p.log_density(y)),
        crps: mean(&|y, p| p.crps(y)),
        coverage_50: share_within(&pit, 0.50),
        coverage_80: share_within(&pit, 0.80),
        coverage_90: share_within(&pit, 0.90),
        coverage_95: share_within(&pit, 0.95),
        width_50: width(predictions, 0.25),
        width_95: width(predictions, 0.025),
        calibration_error: curve.iter().map(|(level, seen)| (seen - level).abs()).sum::<f64>() / curve.len() as f64,
    };
    let named = [
        ("rmse", scores.rmse),
        ("mae", scores.mae),
        ("r2", scores.r2.unwrap_or(0.0)),
        ("nlpd", scores.nlpd),
        ("crps", if scores.crps == f64::INFINITY { 0.0 } else { scores.crps }),
        ("width_95", scores.width_95),
    ];
    match named.iter().find(|(_, value)| !value.is_finite()) {
        Some((name, _)) => Err(Error::NotFinite(format!("the score {name} of {} predictions", scores.n))),
        None => Ok(scores),
    }
}

/// The mean width of central intervals that leave out `tail` on each side.
fn width(predictions: &[Predictive], tail: f64) -> f64 {
    let ends = quantiles(predictions, 1.0 - tail).into_iter().zip(quantiles(predictions, tail));
    ends.map(|(upper, lower)| upper - lower).sum::<f64>() / predictions.len() as f64
}

/// For each level 0.05, 0.10, …, 0.95, the share of targets `y [n]` in the central interval of that probability:
/// `(level, observed)`. Calibrated predictions lie on the diagonal. Without targets, shares are 0.
pub fn calibration_curve(y: &[f64], predictions: &[Predictive]) -> Vec<(f64, f64)> {
    curve(&central_levels(y, predictions))
}

/// The same from the predictive probability of at most each target.
pub fn pit_curve(pit: &[f64]) -> Vec<(f64, f64)> {
    curve(&pit.iter().map(|u| (2.0 * u - 1.0).abs()).collect::<Vec<_>>())
}

fn curve(pit: &[f64]) -> Vec<(f64, f64)> {
    (1..20).map(|step| f64::from(step) / 20.0).map(|level| (level, share_within(pit, level))).collect()
}

/// For each target, the probability of the smallest central interval that holds it.
fn central_levels(y: &[f64], predictions: &[Predictive]) -> Vec<f64> {
    y.iter().zip(predictions).map(|(&y, p)| 1.0 - erfc(p.standardised(y).abs() * FRAC_1_SQRT_2)).collect()
}

fn share_within(levels: &[f64], level: f64) -> f64 {
    let inside = levels.iter().filter(|&&own| own <= level).count();
    inside as f64 / levels.len().max(1) as f64
}

/// `exp(g) − shift`; for a shift of 1, accurate to all digits if `g` is near 0.
fn exp_minus(g: f64, shift: f64) -> f64 {
    if shift == 1.0 { g.exp_m1() } else { g.exp() - shift }
}

/// `ln(y + shift)`, likewise; `−∞` where `y + shift ≤ 0`.
fn ln_plus(y: f64, shift: f64) -> f64 {
    let g = if shift == 1.0 { y.ln_1p() } else { (y + shift).ln() };
    if y + shift <= 0.0 { f64::NEG_INFINITY } else { g }
}

fn normal_cdf(z: f64) -> f64 {
    0.5 * erfc(-z * FRAC_1_SQRT_2)
}

fn normal_density(z: f64) -> f64 {
    (-0.5 * z * z).exp() / (2.0 * PI).sqrt()
}
