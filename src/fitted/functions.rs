//! Fitted models as differentiable functions of their inputs, in the user's units.

use burn::tensor::{Tensor, TensorData};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::Fitted;
use crate::data::{InputScale, TargetScale, TargetTransform, Warp};
use crate::device::transfers::upload;
use crate::error::{Error, Result};
use crate::models::functions::{self, Normal, PathOptions};

/// Sample paths of a fitted model: functions of rows in the user's units, with values in those of the target (for a
/// transformed target, in those of its transform; of an average, of the target itself). Paths of an average are those
/// of one member after another.
#[derive(Debug, Clone)]
pub struct Paths {
    parts: Vec<Part>,
}

/// The paths of one model.
#[derive(Debug, Clone)]
struct Part {
    standardised: functions::Paths,
    inputs: InputScale,
    target: TargetScale,
    /// Whether the target's transform is undone.
    undone: bool,
}

impl Part {
    fn at(&self, x: Tensor<2>) -> Result<Tensor<2>> {
        let values = self.standardised.at(&standardised(&self.inputs, x)?)?;
        let values = values * self.target.sd + self.target.mean;
        Ok(match self.target.transform {
            TargetTransform::Log if self.undone => values.exp(),
            TargetTransform::Log1p if self.undone => values.exp() - 1.0,
            _ => values,
        })
    }
}

impl Paths {
    /// Number of paths p.
    pub fn count(&self) -> usize {
        self.parts.iter().map(|part| part.standardised.count()).sum()
    }

    /// One of the paths, at the cost of one.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no such path.
    pub fn only(&self, path: usize) -> Result<Self> {
        let mut own = path;
        for part in &self.parts {
            let count = part.standardised.count();
            if own < count {
                return Ok(Self { parts: vec![Part { standardised: part.standardised.only(own)?, ..part.clone() }] });
            }
            own -= count;
        }
        Err(Error::Usage(format!("there are {} paths, counted from 0, and no path {path}", self.count())))
    }

    /// Values `[r, p]` at rows `x [r, d]`, which [`Fitted::points`] makes. They are differentiable in x.
    ///
    /// # Errors
    /// As [`Fitted::moments`].
    pub fn at(&self, x: Tensor<2>) -> Result<Tensor<2>> {
        Ok(Tensor::cat(self.parts.iter().map(|part| part.at(x.clone())).collect::<Result<_>>()?, 1))
    }
}

/// Rows in the user's units as the model sees them.
fn standardised(scale: &InputScale, x: Tensor<2>) -> Result<Tensor<2>> {
    let (d, device, dtype) = (scale.mean.len(), x.device(), x.dtype());
    if x.dims()[1] != d {
        return Err(Error::shape("inputs", format!("{d} columns"), x.dims()[1].to_string()));
    }
    let row = |values: &[f64]| upload::<2, _>(TensorData::new(values.to_vec(), [1, d]), &device, dtype);
    Ok((warped(&scale.warps, x) - row(&scale.mean)) / row(&scale.sd))
}

/// The columns of `x [r, d]`, each after its function; with no functions, as they are.
fn warped(warps: &[Warp], x: Tensor<2>) -> Tensor<2> {
    if warps.is_empty() {
        return x;
    }
    let column = |(at, warp): (usize, &Warp)| column(warp, x.clone().narrow(1, at, 1));
    Tensor::cat(warps.iter().enumerate().map(column).collect(), 1)
}

/// One column `[r, 1]`.
fn column(warp: &Warp, x: Tensor<2>) -> Tensor<2> {
    match warp {
        Warp::Identity => x,
        Warp::Asinh { centre, scale } => {
            let t = (x - *centre) / *scale;
            // The sign is a constant, and so the gradient at the centre is right too.
            let sign = t.clone().detach().lower_elem(0.0).float().cast(t.dtype()) * -2.0 + 1.0;
            let size = t * sign.clone();
            (size.clone() + (size.square() + 1.0).sqrt()).log() * sign * *scale + *centre
        }
        Warp::Log { centre, least } => {
            let inside = (x.clone().clamp_min(*least) / *centre).log() * *centre + *centre;
            inside + (x - *least).clamp_max(0.0) * (centre / least)
        }
        Warp::Ranks { from, to } => {
            let slopes: Vec<f64> =
                from.windows(2).zip(to.windows(2)).map(|(x, w)| (w[1] - w[0]) / (x[1] - x[0])).collect();
            // Every knot changes the slope above it.
            let before = std::iter::once(0.0).chain(slopes.iter().copied());
            let changes: Vec<f64> = slopes.iter().zip(before).map(|(slope, before)| slope - before).collect();
            let (device, dtype, knots) = (x.device(), x.dtype(), slopes.len());
            let row = |values: &[f64]| upload::<2, _>(TensorData::new(values.to_vec(), [1, knots]), &device, dtype);
            let above = (x.clone() - row(&from[..knots])).clamp_min(0.0);
            (above * row(&changes)).sum_dim(1) + (x - from[0]).clamp_max(0.0) * slopes[0] + to[0]
        }
    }
}

impl Fitted {
    /// Rows of numbers `x`, row-major, as a tensor `[r, d]` on the model's device, which records gradients: for
    /// [`moments`](Self::moments), [`joint`](Self::joint) and [`paths`](Self::paths). With `require_grad` it is a
    /// variable, and without it a constant.
    ///
    /// # Errors
    /// [`Error::Shape`] if they do not fill whole rows, [`Error::Device`] if the device is not available.
    pub fn points(&self, x: &[f64]) -> Result<Tensor<2>> {
        let (d, compute) = (self.data.d, self.settings.compute);
        if d == 0 || !x.len().is_multiple_of(d) {
            return Err(Error::shape("inputs", format!("rows of {d} columns"), format!("{} numbers", x.len())));
        }
        let data = TensorData::new(x.to_vec(), [x.len() / d, d]);
        Ok(upload(data, &compute.device()?.autodiff(), compute.precision.dtype()))
    }

    /// Mean and variance `[r]` of the latent function f at rows `x [r, d]`, all in the user's units (for a transformed
    /// target, in those of its transform; of an average, of the target itself). They are differentiable in x: on an
    /// autodiff device, gradients reach it. Parameters are constants.
    ///
    /// # Errors
    /// [`Error::Shape`] for other columns and for tensors of another device or type than the model's, [`Error::Usage`]
    /// for models without such a posterior.
    pub fn moments(&self, x: Tensor<2>) -> Result<[Tensor<1>; 2]> {
        if !self.members.is_empty() {
            return self.mixed_moments(&x);
        }
        let moments = self.posterior.moments(standardised(&self.input_scale, x)?)?;
        let [mean, variance] = moments.ok_or_else(|| self.no_tensors())?;
        let TargetScale { mean: origin, sd: unit, .. } = self.target_scale;
        Ok([mean * unit + origin, variance * (unit * unit)])
    }

    /// The joint distribution of the latent function at rows `x [r, d]`, in the units and with the gradients of
    /// [`moments`](Self::moments).
    ///
    /// # Errors
    /// As [`moments`](Self::moments); [`Error::Usage`] for an average of models, which is not normal.
    pub fn joint(&self, x: Tensor<2>) -> Result<Normal> {
        if !self.members.is_empty() {
            let problem = "the joint distribution of an average is not normal: take that of a member, or sample paths";
            return Err(Error::Usage(problem.into()));
        }
        let joint = self.posterior.joint(standardised(&self.input_scale, x)?)?;
        let Normal { mean, covariance } = joint.ok_or_else(|| self.no_tensors())?;
        let TargetScale { mean: origin, sd: unit, .. } = self.target_scale;
        Ok(Normal { mean: mean * unit + origin, covariance: covariance * (unit * unit) })
    }

    /// Samples of the latent function as functions of rows in the user's units. An average draws a member for each
    /// path.
    ///
    /// # Errors
    /// As [`Posterior::paths`](crate::models::posterior::Posterior::paths).
    pub fn paths(&self, options: PathOptions) -> Result<Paths> {
        if self.members.is_empty() {
            let (inputs, target, undone) = (self.input_scale.clone(), self.target_scale, false);
            return Ok(Paths {
                parts: vec![Part { standardised: self.posterior.paths(options)?, inputs, target, undone }],
            });
        }
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(options.seed);
        let mut counts = vec![0; self.members.len()];
        (0..options.count).for_each(|_| counts[self.drawn(rng.random())] += 1);
        let mut parts = Vec::new();
        for (k, (count, member)) in counts.into_iter().zip(self.members.iter()).enumerate() {
            if count > 0 {
                // A seed of its own: equal numbers would tie the members to each other.
                let own = PathOptions { count, seed: options.seed.wrapping_add(1 + k as u64), ..options };
                let paths = member.fitted.paths(own)?;
                parts.extend(paths.parts.into_iter().map(|part| Part { undone: true, ..part }));
            }
        }
        if parts.is_empty() { Err(Error::Usage("paths need at least one path".into())) } else { Ok(Paths { parts }) }
    }

    fn no_tensors(&self) -> Error {
        Error::Usage(format!("moments as tensors are not for this model: {}", self.model.title()))
    }
}
