//! The log likelihoods of many small exact models as one operation.

use std::iter::once;
use std::ops::Range;
use std::sync::Arc;

use burn::tensor::{DType, Tensor, TensorData};

use super::apart::{Apart, Jitters, Place, along};
use super::{Found, Shared, lengths, level, ranges, rows_of, structure};
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::linalg::host::{HostOp, apply4};
use crate::linalg::mvn::MvnNll;
use crate::linalg::real::{narrowed, widened};
use crate::means::Mean;
use crate::params::{Parameter, Parameters};
use crate::products::engine::program::Program;
use crate::products::engine::sums::lock;
use crate::products::operations::dense::Dense;
use crate::scope::{Scope, to_f64};

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
    let ([features], coefficients) = (structure.features, structure.coefficients);
    let [p, c] = [&features, &coefficients].map(|x| x.dims()[1]);
    let place = |(k, rows): (usize, Range<usize>)| Place {
        inputs: [rows.start * p..rows.end * p, k * c..(k + 1) * c, k..k + 1, rows],
        output: once(k..k + 1).collect(),
    };
    let (places, jitters) = (ranges(&counts).into_iter().enumerate().map(place).collect(), Jitters::default());
    // Slopes are computed at once: a member's matrices do not stay in memory.
    let one = move |_, dtype, own: [&[f64]; 4]| {
        let (loss, slopes) = one(&structure.program, dtype, own)?;
        Ok((vec![loss], along(slopes)))
    };
    let op = Apart { places, jitters: jitters.clone(), one };
    let losses: Tensor<1> = apply4(op, features, coefficients, noise, residual)?;
    let found = to_f64(losses.clone().inner())?;
    let slopes = shared.slopes(&mut losses.sum().backward())?;
    let jitters = lock(&jitters).clone();
    let of_member = |(k, loss): (usize, f64)| Found {
        loss,
        slopes: shared.of_member(&slopes, k),
        jitter: jitters.get(k).copied().unwrap_or_default(),
    };
    Ok(found.into_iter().enumerate().map(of_member).collect())
}

/// The negative log likelihood of a member and its slopes in features, coefficients, noise and residuals, by the
/// operations of single models on numbers of a type.
fn one(
    program: &Program,
    dtype: DType,
    [x, coefficients, noise, residual]: [&[f64]; 4],
) -> Result<(f64, [Vec<f64>; 4])> {
    let (n, p) = (residual.len(), x.len() / residual.len().max(1));
    let of = |values: &[f64], shape: &[usize]| narrowed(values.to_vec(), shape, dtype);
    let (x, coefficients) = (of(x, &[n, p]), of(coefficients, &[coefficients.len()]));
    let matrix = Arc::new(Dense { program: program.clone(), same: true });
    let (matrix, pull) = HostOp::forward(matrix, [x.clone(), coefficients, x])?;
    let (noises, residual) = (of(&vec![noise[0]; n], &[n]), of(residual, &[n]));
    let (value, back) = HostOp::forward(Arc::new(MvnNll), [matrix, noises, residual])?;
    let [matrix, noises, residual] = back(of(&[1.0], &[1]), [true; 3])?;
    let none = || Error::Device("an adjoint gave nothing".into());
    let [x, coefficients, _] = pull(matrix.ok_or_else(none)?, [true; 3])?;
    let numbers = |data: Option<TensorData>| data.ok_or_else(none).and_then(widened);
    let noise = numbers(noises)?.iter().sum();
    Ok((widened(value)?[0], [numbers(x)?, numbers(coefficients)?, vec![noise], numbers(residual)?]))
}
