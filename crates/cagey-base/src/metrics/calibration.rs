//! Calibration of intervals with residuals of rows that the model did not see.

use serde::{Deserialize, Serialize};

use super::Predictive;
use super::mixture::Mixture;
use super::student::StudentT;

/// Where residuals came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Source {
    /// Each training row predicted from all others.
    LeaveOneOut,
    /// Rows set apart before the training.
    Share,
    /// There are none, because the training had few rows; it learned the scale of the errors from these.
    FewRows,
}

/// The distribution of standardised residuals `(y − mean) / sd`, which replaces the standard normal one. The model's
/// own standard deviation says where intervals are wide; this distribution says how wide.
///
/// Residuals say nothing about rows of which the model knows less than of any of theirs, such as rows beyond the data.
/// There this distribution is only that of an error with the largest variance of those rows, their
/// [reach](Self::reach). The rest of the variance is added as the model says it, as an independent normal error; it
/// grows with the residuals, but does not shrink.
///
/// Let m rows be set apart that are exchangeable with the rows to come. With probability 1 − δ over the choice of these
/// rows, for the intervals of all levels at once: the probability that an interval holds is within √(ln(2/δ) / 2m) of
/// the share of the m rows that it holds (Dvoretzky, Kiefer and Wolfowitz 1956, with Massart's constant). That share is
/// within [`gap`](Self::gap) of its level. Leaving one out uses all rows and has no such bound.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The distribution.
    pub shape: Mixture,
    /// Number of residuals that it was fitted to; for few rows, of training rows.
    pub rows: usize,
    /// Where they came from.
    pub source: Source,
    /// The largest difference, over all central intervals, between the level and the share of those residuals within.
    pub gap: f64,
    /// Gain in the log likelihood of those residuals over the standard normal distribution, in nats. Each residual is
    /// judged by the distribution of the others, which is fitted without its fifth of the rows.
    pub gain: f64,
    /// The largest standard deviation of the rows of those residuals, in the unit of the predictions; none if there is
    /// no limit.
    pub reach: Option<f64>,
}

/// Parts of the residuals that are judged by distributions of the others.
const FOLDS: usize = 5;

impl Calibration {
    /// Fits the distribution to standardised residuals. Without `tails` it is normal, or a mixture of normal ones: with
    /// others, a transformed target has no moments.
    pub fn fit(z: &[f64], source: Source, tails: bool) -> Self {
        Self::fit_by(z, source, tails, |folds, of_fold| (0..folds).map(of_fold).collect())
    }

    /// As [`fit`](Self::fit); `each` computes the gains of so many parts of the residuals, if it can side by side.
    pub fn fit_by(
        z: &[f64],
        source: Source,
        tails: bool,
        each: impl FnOnce(usize, &(dyn Fn(usize) -> f64 + Sync)) -> Vec<f64>,
    ) -> Self {
        let shape = Mixture::fit(z, tails);
        let normal = StudentT::normal();
        let of_fold = |fold: usize| {
            let others: Vec<f64> = (0..z.len()).filter(|i| i % FOLDS != fold).map(|i| z[i]).collect();
            let shape = Mixture::fit(&others, tails);
            let (of_shape, of_normal) = (shape.log_densities(), normal.log_densities());
            let gain = |z: &f64| of_shape(*z) - of_normal(*z);
            z.iter().skip(fold).step_by(FOLDS).map(gain).sum::<f64>()
        };
        let gain = each(FOLDS, &of_fold).into_iter().sum();
        Self { shape, rows: z.len(), source, gap: gap(z, &shape), gain, reach: None }
    }

    /// The same for residuals of rows with these standard deviations.
    pub fn within(self, sd: impl Iterator<Item = f64>) -> Self {
        Self { reach: sd.reduce(f64::max), ..self }
    }

    /// The distribution for a scale that was learned from `n` rows; none for one row.
    ///
    /// If all covariances, noise included, have one unknown factor with the prior density 1/factor, and the mean is
    /// unknown too, predictions are Student-t with n − 1 degrees of freedom (O'Hagan 1978; Gramacy 2020, *Surrogates*,
    /// section 5.1). The scale √((n + 1)/(n − 1)) is exact if the model learned only the mean and the noise of n rows:
    /// it corrects the variance by n/(n − 1) and adds the variance 1/n of the mean. With two or three rows it has no
    /// standard deviation.
    pub fn of_few_rows(n: usize) -> Option<Self> {
        if n < 2 {
            return None;
        }
        let rows = n as f64;
        let shape = Mixture::of(StudentT { df: Some(rows - 1.0), scale: ((rows + 1.0) / (rows - 1.0)).sqrt() });
        Some(Self { shape, rows: n, source: Source::FewRows, gap: 0.0, gain: 0.0, reach: None })
    }

    /// What is wrong with the distribution, if anything is.
    pub fn problem(&self) -> Option<String> {
        let reach = self.reach.is_none_or(|reach| reach.is_finite() && reach > 0.0);
        self.shape.problem().or_else(|| (!reach).then(|| "the calibration has an invalid reach".into()))
    }

    /// A prediction with this distribution in place of the normal one; its mean stays.
    pub fn apply(&self, prediction: Predictive) -> Predictive {
        match prediction {
            Predictive::Normal { mean, sd } => {
                let (sd, shape) = self.at(sd);
                let Mixture { parts: [StudentT { df, scale }, _], share, .. } = shape;
                match df {
                    _ if share > 0.0 => Predictive::Mixed { mean, sd, shape },
                    Some(df) => Predictive::Student { mean, scale: sd * scale, df },
                    None => Predictive::Normal { mean, sd: sd * scale },
                }
            }
            Predictive::LogNormal { mu, sigma: own, shift } => {
                let (sigma, shape) = self.at(own);
                Predictive::LogMixed { mu, sigma, shift, shape, own }
            }
            other => other,
        }
    }

    /// The unit and the distribution that replace a normal one with this standard deviation.
    fn at(&self, sd: f64) -> (f64, Mixture) {
        match self.reach {
            Some(reach) if sd > reach => {
                let beyond = (sd / reach).powi(2) - 1.0;
                (reach, self.shape.plus(beyond * self.shape.sd().powi(2).max(1.0)))
            }
            _ => (sd, self.shape),
        }
    }

    /// How much the probability that an interval holds may differ from the share of the calibration rows within it, at
    /// this confidence; none if the residuals are not a sample.
    pub fn bound(&self, confidence: f64) -> Option<f64> {
        let delta = 1.0 - confidence;
        (self.source == Source::Share).then(|| ((2.0 / delta).ln() / (2.0 * self.rows as f64)).sqrt())
    }
}

fn gap(z: &[f64], shape: &Mixture) -> f64 {
    let mut sizes: Vec<f64> = z.iter().map(|z| z.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let n = sizes.len().max(1) as f64;
    let off = |(i, size): (usize, &f64)| {
        let level = 1.0 - 2.0 * shape.cdf(-size);
        (level - i as f64 / n).abs().max((level - (i + 1) as f64 / n).abs())
    };
    sizes.iter().enumerate().map(off).fold(0.0, f64::max)
}
