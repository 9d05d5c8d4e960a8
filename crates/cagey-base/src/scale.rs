//! Scaling of inputs, affine or after an increasing function of single columns, and transform and scaling of targets.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::arithmetic::ends;
use crate::likelihoods::Auxiliary;
use crate::metrics::Predictive;
use crate::warp::{Warp, Warping};
use crate::{Error, Result};

/// A summary of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Moments {
    /// The number of values.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// The sum of squared deviations from it.
    pub square: f64,
    /// The smallest and the largest value.
    pub range: [f64; 2],
}

impl Moments {
    /// The moments of values, in two passes relative to the first value, so that large offsets cost no digits.
    pub fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let (first, count) = (values.clone().next().unwrap_or_default(), values.clone().count());
        let shift = values.clone().map(|x| x - first).sum::<f64>() / count.max(1) as f64;
        let square = values.clone().map(|x| (x - first - shift).powi(2)).sum();
        Self { count, mean: first + shift, square, range: ends(values).into() }
    }

    /// The moments of these and other values together (Chan, Golub and LeVeque 1983, *Algorithms for computing the
    /// sample variance*).
    pub fn with(&self, more: &Self) -> Self {
        let count = self.count + more.count;
        let (away, share) = (more.mean - self.mean, more.count as f64 / count.max(1) as f64);
        let [[l, h], [low, high]] = [self.range, more.range];
        Self {
            count,
            mean: self.mean + away * share,
            square: self.square + more.square + away * away * share * self.count as f64,
            range: [l.min(low), h.max(high)],
        }
    }

    /// The standard deviation (divisor `n`).
    pub fn sd(&self) -> f64 {
        (self.square / self.count.max(1) as f64).sqrt()
    }

    /// Whether all values are the same.
    fn is_constant(&self) -> bool {
        self.range[0] >= self.range[1]
    }

    /// Mean and standard deviation (divisor `n`), which is 1 for a constant; none if values differ by too little.
    fn scale(&self) -> Option<(f64, f64)> {
        let sd = self.sd();
        match (self.is_constant(), sd > SMALLEST) {
            (true, _) => Some((if self.count == 0 { 0.0 } else { self.range[0] }, 1.0)),
            (false, true) => Some((self.mean, sd)),
            (false, false) => None,
        }
    }
}

/// Standardisation of each feature: `(w(x) − mean) / sd`, where w is x itself or an increasing function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InputScale {
    /// The functions w `[d]`; empty if every one is x itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warps: Vec<Warp>,
    /// Means `[d]` of w(x).
    pub mean: Vec<f64>,
    /// Standard deviations `[d]` of w(x) (of the sample, divisor `n`); 1 for a constant feature.
    pub sd: Vec<f64>,
}

impl InputScale {
    /// The scale that gives each of the `d` columns of `x`, row-major `[n, d]`, mean 0 and variance 1.
    ///
    /// # Errors
    /// [`Error::Shape`] if `x` has no rows or its last row is incomplete, [`Error::Data`] if a feature varies too
    /// little to be squared.
    pub fn fit(x: &[f64], d: usize) -> Result<Self> {
        if x.is_empty() || d == 0 {
            return Err(Error::shape("inputs to scale", "one row or more", format!("{} values", x.len())));
        }
        check_rows(x, d)?;
        let columns: Vec<Moments> = (0..d).map(|at| Moments::of(x[at..].iter().step_by(d).copied())).collect();
        Self::of_moments(&columns)
    }

    /// As [`fit`](Self::fit), from the moments of the columns.
    ///
    /// # Errors
    /// [`Error::Data`] as [`fit`](Self::fit).
    pub fn of_moments(columns: &[Moments]) -> Result<Self> {
        let problem = |at: usize| Error::Data(format!("input column {} {TOO_SMALL}", at + 1));
        let scales = columns.iter().enumerate().map(|(at, column)| column.scale().ok_or_else(|| problem(at)));
        let (mean, sd) = scales.collect::<Result<Vec<_>>>()?.into_iter().unzip();
        Ok(Self::affine(mean, sd))
    }

    /// No scaling of `d` features: mean 0, standard deviation 1.
    pub fn identity(d: usize) -> Self {
        Self::affine(vec![0.0; d], vec![1.0; d])
    }

    /// The scale with these means and standard deviations.
    pub fn affine(mean: Vec<f64>, sd: Vec<f64>) -> Self {
        Self { warps: Vec::new(), mean, sd }
    }

    /// As [`fit`](Self::fit), after the functions that are asked for; with `standardise` false, these only. `classes`
    /// says whether the targets are.
    ///
    /// # Errors
    /// As [`fit`](Self::fit) and [`Warping::fit`].
    pub fn warped(asked: &Warping, x: &[f64], names: &[String], (classes, standardise): (bool, bool)) -> Result<Self> {
        let warps = Self { warps: asked.fit(x, names, classes)?, ..Self::identity(names.len()) };
        let scale = if standardise { Self::fit(&warps.apply(x)?, names.len())? } else { Self::identity(names.len()) };
        Ok(Self { warps: warps.warps, ..scale })
    }

    /// Scales inputs `[n, d]`.
    ///
    /// # Errors
    /// [`Error::Shape`] if the last row of `x` is incomplete.
    pub fn apply(&self, x: &[f64]) -> Result<Vec<f64>> {
        self.map(x, |x, warp, mean, sd| (warp.forward(x) - mean) / sd)
    }

    /// Undoes [`apply`](Self::apply).
    ///
    /// # Errors
    /// [`Error::Shape`] if the last row of `z` is incomplete.
    pub fn invert(&self, z: &[f64]) -> Result<Vec<f64>> {
        self.map(z, |z, warp, mean, sd| warp.inverse(z * sd + mean))
    }

    /// The problem that makes the scale invalid, if any. Files can contain anything.
    pub fn problem(&self) -> Option<String> {
        let Self { warps, mean, sd } = self;
        let warped = warps.is_empty() || (warps.len() == mean.len() && warps.iter().all(Warp::is_sound));
        let sound =
            warped && mean.len() == sd.len() && mean.iter().all(|mean| mean.is_finite()) && sd.iter().all(positive);
        (!sound).then(|| "the inputs' means and standard deviations are invalid".into())
    }

    /// The function of a column.
    pub fn warp(&self, column: usize) -> &Warp {
        self.warps.get(column).unwrap_or(&Warp::Identity)
    }

    /// A standardised value of a column in the data's units.
    pub fn value(&self, column: usize, z: f64) -> f64 {
        self.warp(column).inverse(z * self.sd[column] + self.mean[column])
    }

    fn map(&self, values: &[f64], f: impl Fn(f64, &Warp, f64, f64) -> f64) -> Result<Vec<f64>> {
        let d = self.mean.len();
        check_rows(values, d)?;
        let scaled = |(at, value): (usize, &f64)| f(*value, self.warp(at % d), self.mean[at % d], self.sd[at % d]);
        Ok(values.iter().enumerate().map(scaled).collect())
    }
}

/// A fixed, increasing function of the target, applied before scaling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
pub enum TargetTransform {
    /// The target as it is
    #[default]
    #[cfg_attr(feature = "command", value(name = "none"))]
    Identity,
    /// Its logarithm; the target must be positive
    Log,
    /// log(1 + target), above -1
    Log1p,
}

impl TargetTransform {
    /// The logarithm that some targets allow: of positive ones their own, of those that may also be 0, and of which
    /// some exceed 1, that of 1 + target. Below that it would hardly bend.
    pub fn logarithm(targets: &[f64]) -> Option<Self> {
        let (least, most) = ends(targets);
        match least {
            least if least > 0.0 && least <= most => Some(Self::Log),
            0.0 if most > 1.0 => Some(Self::Log1p),
            _ => None,
        }
    }

    /// Its name, as options have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Identity => "none",
            Self::Log => "log",
            Self::Log1p => "log1p",
        }
    }

    /// `g(y)`, or `None` outside the domain.
    pub fn forward(self, y: f64) -> Option<f64> {
        match self {
            Self::Identity => Some(y),
            Self::Log => (y > 0.0).then(|| y.ln()),
            Self::Log1p => (y > -1.0).then(|| y.ln_1p()),
        }
    }

    /// The `y` with `g(y) = g`.
    pub fn inverse(self, g: f64) -> f64 {
        match self {
            Self::Identity => g,
            Self::Log => g.exp(),
            Self::Log1p => g.exp_m1(),
        }
    }

    /// `ln g′(y)`.
    fn log_slope(self, y: f64) -> f64 {
        match self {
            Self::Identity => 0.0,
            Self::Log => -y.ln(),
            Self::Log1p => -y.ln_1p(),
        }
    }
}

/// A column of targets with its name.
pub trait TargetColumn {
    /// The name.
    fn target_name(&self) -> &str;

    /// The targets, if none is missing.
    fn targets(&self) -> Option<&[f64]>;

    /// The numbers of the rows in messages.
    fn row_numbers(&self) -> Cow<'_, [usize]>;
}

/// The map from targets `y` to the standardised `z = (g(y) − mean) / sd` that a model sees, and back.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TargetScale {
    /// The function `g`.
    pub transform: TargetTransform,
    /// Mean of `g(y)`.
    pub mean: f64,
    /// Standard deviation of `g(y)` (divisor `n`). For constant targets it is their size, as the only scale that is
    /// known: 1 for 0 and for the logarithm of a target.
    pub sd: f64,
}

impl TargetScale {
    /// The scale that gives the transformed targets of `data` mean 0 and variance 1.
    ///
    /// # Errors
    /// [`Error::Data`] if there are no targets, or for a target outside the transform's domain, with its row.
    pub fn fit(transform: TargetTransform, data: &impl TargetColumn) -> Result<Self> {
        let unscaled = Self { transform, mean: 0.0, sd: 1.0 };
        let g = unscaled.forward(data)?;
        if g.is_empty() {
            return Err(Error::shape("targets to scale", "one or more", "none"));
        }
        Self::of_moments(transform, data.target_name(), &Moments::of(g.iter().copied()))
    }

    /// As [`fit`](Self::fit), for a target `name` from its moments after the transform.
    ///
    /// # Errors
    /// [`Error::Data`] if the target varies too little to be squared.
    pub fn of_moments(transform: TargetTransform, name: &str, moments: &Moments) -> Result<Self> {
        let problem = || Error::Data(format!("target `{name}` {TOO_SMALL}"));
        let (mean, sd) = moments.scale().ok_or_else(problem)?;
        let size = mean.abs();
        let sized = moments.is_constant() && transform == TargetTransform::Identity && size > SMALLEST;
        Ok(Self { transform, mean, sd: if sized { size } else { sd } })
    }

    /// The problem that makes the scale invalid, if any. Files can contain anything.
    pub fn problem(&self) -> Option<String> {
        (!self.mean.is_finite() || !positive(&self.sd))
            .then(|| "the target's mean and standard deviation are invalid".into())
    }

    /// The standardised targets `z` of `data`.
    ///
    /// # Errors
    /// [`Error::Data`] if there are no targets, or for a target outside the transform's domain, with its row.
    pub fn forward(&self, data: &impl TargetColumn) -> Result<Vec<f64>> {
        let target = data.target_name();
        let Some(y) = data.targets() else {
            return Err(Error::Data(format!("the data have no complete target column `{target}`")));
        };
        let scaled = |(&y, row): (&f64, &usize)| match self.transform.forward(y) {
            Some(g) => Ok((g - self.mean) / self.sd),
            None => {
                let (name, bound) =
                    (self.transform.name(), if self.transform == TargetTransform::Log1p { "-1" } else { "0" });
                Err(Error::Data(format!(
                    "row {row}, target `{target}`: {y} has no {name} transform, which needs values above {bound}; drop \
                     such rows or choose another transform"
                )))
            }
        };
        y.iter().zip(&*data.row_numbers()).map(scaled).collect()
    }

    /// The target `y` for a standardised `z`.
    pub fn inverse(&self, z: f64) -> f64 {
        self.transform.inverse(z * self.sd + self.mean)
    }

    /// `ln |dz/dy|` at a `y` in the transform's domain. It turns a log density of `z` into one of `y`.
    pub fn log_jacobian(&self, y: f64) -> f64 {
        self.transform.log_slope(y) - self.sd.ln()
    }

    /// The distribution of `y` when `z` is normal with the given mean and standard deviation.
    pub fn predictive(&self, mean: f64, sd: f64) -> Predictive {
        let (mean, sd) = (mean * self.sd + self.mean, sd * self.sd);
        match self.transform {
            TargetTransform::Identity => Predictive::Normal { mean, sd },
            TargetTransform::Log => Predictive::LogNormal { mu: mean, sigma: sd, shift: 0.0 },
            TargetTransform::Log1p => Predictive::LogNormal { mu: mean, sigma: sd, shift: 1.0 },
        }
    }
}

/// The auxiliary values of rows as a model sees them: standard deviations become variances on the scale of its targets.
pub fn row_values(auxiliary: Auxiliary, values: Vec<f64>, scale: &TargetScale) -> Vec<f64> {
    match auxiliary {
        Auxiliary::NoiseVariance => values.iter().map(|sd| (sd / scale.sd).powi(2)).collect(),
        Auxiliary::None | Auxiliary::Exposure | Auxiliary::Trials => values,
    }
}

/// Standard deviations below this are refused: their squares underflow.
const SMALLEST: f64 = 1e-150;
const TOO_SMALL: &str = "varies by less than 1e-150; rescale it";

fn positive(sd: &f64) -> bool {
    sd.is_finite() && *sd > 0.0
}

fn check_rows(x: &[f64], d: usize) -> Result<()> {
    if d == 0 || !x.len().is_multiple_of(d) {
        return Err(Error::shape("inputs to scale", format!("rows of {d} features"), format!("{} values", x.len())));
    }
    Ok(())
}
