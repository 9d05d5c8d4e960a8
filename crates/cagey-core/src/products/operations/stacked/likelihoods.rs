//! The log likelihoods of many small exact models as one operation.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use super::{Found, Shared, lengths, level, ranges, rows_of, structure};
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::linalg::host::{HostOp, Vjp, apply4};
use crate::linalg::jitter::watch_apart;
use crate::linalg::mvn::MvnNll;
use crate::linalg::real::{into_vec, narrowed, widened};
use crate::means::Mean;
use crate::params::{Parameter, Parameters};
use crate::products::engine::program::Program;
use crate::products::operations::dense::Dense;
use crate::scope::{Scope, to_f64};
use crate::threads;

/// An exact Gaussian process with Gaussian noise, and its rows.
#[derive(Debug, Clone)]
pub struct Member<'a> {
    /// The prior covariance.
    pub kernel: &'a Kernel,
    /// The prior mean.
    pub mean: &'a Mean,
    /// The noise variance.
    pub noise: &'a Parameter,
    /// Inputs, row-major.
    pub x: &'a [f64],
    /// Targets.
    pub y: &'a [f64],
}

impl Member<'_> {
    /// The parameters of kernel and mean, then the noise.
    fn parameters(&self) -> Vec<&Parameter> {
        let own = self.kernel.parameters().into_iter().chain(self.mean.parameters()).map(|(_, p)| p);
        own.chain([self.noise]).collect()
    }
}

/// The negative log likelihoods of members whose kernels have one [layout](Kernel::layout) that
/// [stacks](Kernel::stacks), with one kind of mean and `d` input columns. Slopes are in the parameters of kernel and
/// mean, then in the noise.
///
/// # Errors
/// [`Error::Shape`] for members of different structures; [`Error::Device`] when the device cannot be read.
pub fn likelihoods(compute: Compute, members: &[Member], d: usize) -> Result<Vec<Found>> {
    let Some(first) = members.first() else { return Ok(Vec::new()) };
    let scope = Scope::training(compute)?;
    let shared = Shared::new(&scope, members.iter().map(Member::parameters).collect())?;
    let mut values = shared.values(scope.dtype());
    let counts = lengths(members.iter().map(|member| member.y));
    let x: Vec<f64> = members.iter().flat_map(|member| member.x).copied().collect();
    let x = rows_of(&scope, &x, &counts, d, scope.dtype());
    let structure = structure(&scope, first.kernel, members.len(), &mut values, [&x])?;
    let y: Vec<f64> = members.iter().flat_map(|member| member.y).copied().collect();
    let mut residual = scope.matrix(&y, y.len(), 1);
    if let Some(level) = level(first.mean, &mut values, &x)? {
        residual = residual - level;
    }
    let noise = values.next().ok_or_else(super::different)?;
    let jitters = Arc::new(Mutex::new(Vec::new()));
    let op = Likelihoods { program: structure.program, ranges: ranges(&counts), jitters: jitters.clone() };
    let [features] = structure.features;
    let losses: Tensor<1> = apply4(op, features, structure.coefficients, noise, residual)?;
    let found = to_f64(losses.clone().inner())?;
    let slopes = shared.slopes(&mut losses.sum().backward())?;
    let jitters = jitters.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let of_member = |(k, loss): (usize, f64)| Found {
        loss,
        slopes: shared.of_member(&slopes, k),
        jitter: jitters.get(k).copied().unwrap_or_default(),
    };
    Ok(found.into_iter().enumerate().map(of_member).collect())
}

/// The negative log likelihoods `[models]` from features `[rows, p]`, coefficients `[models, c]`, noise variances
/// `[models, 1]` and residuals `[rows, 1]`.
struct Likelihoods {
    program: Program,
    /// The rows of each model.
    ranges: Vec<Range<usize>>,
    /// The relative jitter of each model.
    jitters: Arc<Mutex<Vec<f64>>>,
}

/// A model's loss and its slopes in features, coefficients, noise and residuals.
type One = (f64, [Vec<f64>; 4]);

impl Likelihoods {
    /// The kernel matrix and its likelihood by the operations of single models.
    fn one(&self, k: usize, inputs: &[TensorData; 4], host: &[Vec<f64>; 4]) -> Result<One> {
        let (rows, [x, coefficients, noise, residual]) = (self.ranges[k].clone(), host);
        let (n, p, c) = (rows.len(), inputs[0].shape()[1], inputs[1].shape()[1]);
        let of = |values: Vec<f64>, shape: &[usize]| narrowed(values, shape, inputs[0].dtype());
        let own = of(x[rows.start * p..rows.end * p].to_vec(), &[n, p]);
        let matrix = Arc::new(Dense { program: self.program.clone(), same: true });
        let coefficients = of(coefficients[k * c..][..c].to_vec(), &[c]);
        let (matrix, pull) = HostOp::forward(matrix, [own.clone(), coefficients, own])?;
        let noises = of(vec![noise[k]; n], &[n]);
        let (value, back) = HostOp::forward(Arc::new(MvnNll), [matrix, noises, of(residual[rows].to_vec(), &[n])])?;
        let [matrix, noises, residual] = back(of(vec![1.0], &[1]), [true; 3])?;
        let none = || Error::Device("an adjoint gave nothing".into());
        let [x, coefficients, _] = pull(matrix.ok_or_else(none)?, [true; 3])?;
        let numbers = |data: Option<TensorData>| data.ok_or_else(none).and_then(widened);
        let noise = numbers(noises)?.iter().sum();
        Ok((widened(value)?[0], [numbers(x)?, numbers(coefficients)?, vec![noise], numbers(residual)?]))
    }
}

impl HostOp<4> for Likelihoods {
    fn forward(self: Arc<Self>, inputs: [TensorData; 4]) -> Result<(TensorData, Vjp<4>)> {
        let host = inputs.clone().map(widened);
        let [x, coefficients, noise, residual] = host;
        let host = [x?, coefficients?, noise?, residual?];
        let each = threads::map((0..self.ranges.len()).into_par_iter(), |k| {
            let (one, jitter) = watch_apart(|| self.one(k, &inputs, &host));
            // A model without a factor must not stop the others.
            let empty = || (f64::NAN, Default::default());
            (one.unwrap_or_else(|_| empty()), jitter)
        });
        let (each, jitters): (Vec<One>, Vec<f64>) = each.into_iter().unzip();
        *self.jitters.lock().unwrap_or_else(PoisonError::into_inner) = jitters;
        let losses = each.iter().map(|(loss, _)| *loss).collect();
        let (dtype, count) = (inputs[0].dtype(), self.ranges.len());
        let shapes = inputs.map(|input| input.shape().to_vec());
        let vjp = move |grad: TensorData, _needs: [bool; 4]| {
            let grad = into_vec::<f64>(grad.convert::<f64>())?;
            let of = |which: usize| {
                let mut all = Vec::with_capacity(shapes[which].iter().product());
                for (k, (grad, (_, slopes))) in grad.iter().zip(&each).enumerate() {
                    let (rows, width) = (self.ranges[k].len(), shapes[which][1]);
                    let size = if which == 0 || which == 3 { rows * width } else { width };
                    match slopes[which].is_empty() {
                        true => all.resize(all.len() + size, 0.0),
                        false => all.extend(slopes[which].iter().map(|slope| grad * slope)),
                    }
                }
                Some(narrowed(all, &shapes[which], dtype))
            };
            Ok([0, 1, 2, 3].map(of))
        };
        Ok((narrowed(losses, &[count], dtype), Box::new(vjp)))
    }
}
