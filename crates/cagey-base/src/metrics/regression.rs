//! Predictive distributions of real targets.

use serde::{Deserialize, Serialize};
use statrs::function::erf::{erfc, erfc_inv};
use std::f64::consts::{FRAC_1_SQRT_2, PI, SQRT_2};

use super::average;
use super::mixture::Mixture;
use super::student::StudentT;

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
        self.place(self.shape().quantile(p))
    }

    /// `P(target ≤ y)`.
    pub fn cdf(&self, y: f64) -> f64 {
        match self {
            Self::Average(parts) => average::cdf(parts, y),
            _ => self.shape().cdf(self.unit(y)),
        }
    }

    /// `P(target > y)`, accurate to all digits where it is small.
    pub fn above(&self, y: f64) -> f64 {
        match self {
            Self::Average(parts) => average::above(parts, y),
            _ => self.shape().cdf(-self.unit(y)),
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
        match self {
            Self::Normal { .. } | Self::LogNormal { .. } => z,
            // The smaller tail is accurate to all digits.
            _ => (SQRT_2 * erfc_inv(2.0 * self.shape().cdf(-z.abs()))).min(MOST).copysign(z),
        }
    }

    /// The end of the support: all targets are larger.
    pub(super) fn least(&self) -> f64 {
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
        -self.spread().ln() - jacobian + self.shape().log_density(self.unit(y))
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

    /// The distribution of z, of which y is an increasing function.
    fn shape(&self) -> Mixture {
        match *self {
            Self::Normal { .. } | Self::LogNormal { .. } | Self::Average(_) => Mixture::of(StudentT::normal()),
            Self::Student { df, .. } => Mixture::of(StudentT { df: Some(df), scale: 1.0 }),
            Self::Mixed { shape, .. } | Self::LogMixed { shape, .. } => shape,
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
        if matches!(prediction, Predictive::Average(_)) {
            return prediction.quantile(p);
        }
        let shape = prediction.shape();
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
