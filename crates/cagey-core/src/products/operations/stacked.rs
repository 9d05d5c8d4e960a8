//! The log likelihoods of many small Gaussian processes as one operation: one graph, and one pass over all of them.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::{Tensor, TensorData};
use cagey_base::kernels as base;
use rayon::prelude::*;

use crate::device::Compute;
use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::kernels::form::{Lowered, Term};
use crate::kernels::stacked::Stacked;
use crate::linalg::host::{HostOp, Vjp, apply4};
use crate::linalg::jitter::watch;
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

/// What one evaluation finds for a member.
#[derive(Debug, Clone)]
pub struct Found {
    /// The negative log likelihood; NaN if its matrix has no factor.
    pub loss: f64,
    /// Its slopes in the internal values of each parameter: of kernel and mean, then of the noise.
    pub slopes: Vec<Vec<f64>>,
    /// The relative jitter that its factorisation needed.
    pub jitter: f64,
}

/// The negative log likelihoods of members whose kernels have one [layout](Kernel::layout) that
/// [stacks](Kernel::stacks), with one kind of mean and `d` input columns.
///
/// # Errors
/// [`Error::Shape`] for members of different structures; [`Error::Device`] when the device cannot be read.
pub fn likelihoods(compute: Compute, members: &[Member], d: usize) -> Result<Vec<Found>> {
    let Some(first) = members.first() else { return Ok(Vec::new()) };
    let different = || Error::shape("models of a batch", "one kernel that stacks, and one mean", "others");
    let scope = Scope::training(compute)?;
    let all: Vec<Vec<&Parameter>> = members.iter().map(Member::parameters).collect();
    if all.iter().any(|own| own.len() != all[0].len() || own.iter().zip(&all[0]).any(|(a, b)| a.len() != b.len())) {
        return Err(different());
    }
    let leaf = |slot: usize| {
        let values: Vec<f64> = all.iter().flat_map(|own| own[slot].internal()).collect();
        scope.matrix_in(&values, members.len(), all[0][slot].len(), scope.wide()).require_grad()
    };
    let leaves: Vec<Tensor<2>> = (0..all[0].len()).map(leaf).collect();
    let mut values = leaves.iter().map(|leaf| leaf.clone().cast(scope.dtype()));
    let counts: Vec<usize> = members.iter().map(|member| member.y.len()).collect();
    let owners: Vec<usize> = counts.iter().enumerate().flat_map(|(k, n)| vec![k; *n]).collect();
    let owner = Arc::new(scope.indices(&owners));
    let x: Vec<f64> = members.iter().flat_map(|member| member.x).copied().collect();
    let x = Stacked { rows: scope.matrix(&x, owners.len(), d), owner };
    let lowered = first.kernel.stacked(&mut values, &x, &|dims| scope.indices(dims)).ok_or_else(different)?;
    let y: Vec<f64> = members.iter().flat_map(|member| member.y).copied().collect();
    let mut residual = scope.matrix(&y, owners.len(), 1);
    let mut of_rows = || values.next().ok_or_else(different).map(|each| each.select(0, (*x.owner).clone()));
    match first.mean {
        Mean::Zero => {}
        Mean::Constant(_) => residual = residual - of_rows()?,
        Mean::Linear { .. } => {
            let constant = of_rows()?;
            residual = residual - constant - (x.rows.clone() * of_rows()?).sum_dim(1);
        }
    }
    let noise = values.next().ok_or_else(different)?;
    let (one, mut coefficients, mut features) = (of_one(&lowered), Vec::new(), Vec::new());
    gather(lowered, &mut coefficients, &mut features);
    if coefficients.is_empty() {
        coefficients.push(noise.clone().detach() * 0.0 + 1.0);
    }
    let mut start = 0;
    let ranges = counts.iter().map(|n| {
        start += n;
        start - n..start
    });
    let jitters = Arc::new(Mutex::new(Vec::new()));
    let op = Likelihoods { program: Program::new(&one), ranges: ranges.collect(), jitters: jitters.clone() };
    let losses: Tensor<1> = apply4(op, Tensor::cat(features, 1), Tensor::cat(coefficients, 1), noise, residual)?;
    let found = to_f64(losses.clone().inner())?;
    let mut gradients = losses.sum().backward();
    let slopes = leaves.iter().map(|leaf| leaf.grad_remove(&mut gradients).map(to_f64).transpose());
    let slopes = slopes.collect::<Result<Vec<_>>>()?;
    let jitters = jitters.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let of_member = |(k, loss): (usize, f64)| Found {
        loss,
        slopes: slopes
            .iter()
            .zip(&all[0])
            .map(|(slope, p)| slope.as_ref().map_or(vec![0.0; p.len()], |all| all[k * p.len()..][..p.len()].to_vec()))
            .collect(),
        jitter: jitters.get(k).copied().unwrap_or_default(),
    };
    Ok(found.into_iter().enumerate().map(of_member).collect())
}

/// The structure alone, with the numbers of the first member.
fn of_one(lowered: &base::Lowered<Stacked>) -> Lowered {
    let all = |parts: &[base::Lowered<Stacked>]| parts.iter().map(of_one).collect();
    match lowered {
        base::Lowered::Term(term) => {
            let first = |values: &Tensor<2>| values.clone().narrow(0, 0, 1).squeeze_dim::<1>(0);
            Lowered::Term(Box::new(Term {
                metric: term.metric,
                profile: term.profile,
                features: term.features.rows.clone(),
                shape: term.shape.as_ref().map(|each| first(&each.values)),
                variance: term.variance.as_ref().map(|each| first(&each.values)),
            }))
        }
        base::Lowered::Sum(parts) => Lowered::Sum(all(parts)),
        base::Lowered::Product(parts) => Lowered::Product(all(parts)),
    }
}

/// The coefficients `[models, 1]` and the features `[rows, p]` of all terms, in the order of [`Program`].
fn gather(lowered: base::Lowered<Stacked>, coefficients: &mut Vec<Tensor<2>>, features: &mut Vec<Tensor<2>>) {
    match lowered {
        base::Lowered::Term(term) => {
            coefficients.extend(term.variance.into_iter().chain(term.shape).map(|each| each.values));
            features.push(term.features.rows);
        }
        base::Lowered::Sum(parts) | base::Lowered::Product(parts) => {
            parts.into_iter().for_each(|part| gather(part, coefficients, features));
        }
    }
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
        let matrix: Arc<Dense> = Arc::new(Dense { program: self.program.clone() });
        let (matrix, pull) = HostOp::<2>::forward(matrix, [own, of(coefficients[k * c..][..c].to_vec(), &[c])])?;
        let noises = of(vec![noise[k]; n], &[n]);
        let (value, back) = Arc::new(MvnNll).forward([matrix, noises, of(residual[rows].to_vec(), &[n])])?;
        let [matrix, noises, residual] = back(of(vec![1.0], &[1]), [true; 3])?;
        let none = || Error::Device("an adjoint gave nothing".into());
        let [x, coefficients] = pull(matrix.ok_or_else(none)?, [true; 2])?;
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
            let (one, jitter) = watch(|| self.one(k, &inputs, &host));
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
