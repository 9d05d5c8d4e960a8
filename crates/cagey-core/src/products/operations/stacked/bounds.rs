//! The bounds of many small variational models as one graph.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use super::{Found, Shared, lengths, level, ranges, rows_of, stacked, structure};
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::kernels::stacked::variances;
use crate::linalg::host::{HostOp, Vjp, apply2, apply5};
use crate::linalg::jitter::watch_apart;
use crate::linalg::real::{into_vec, narrowed, widened};
use crate::means::Mean;
use crate::params::{Parameter, Parameters};
use crate::products::engine::program::Program;
use crate::products::operations::whitened::Whitened;
use crate::scope::{Scope, to_f64};
use crate::threads;

/// A variational Gaussian process with one latent function and whitened inducing values v ~ N(μ, R Rᵀ), and its rows.
#[derive(Debug, Clone)]
pub struct Sparse<'a> {
    /// The prior covariance.
    pub kernel: &'a Kernel,
    /// The prior mean.
    pub mean: &'a Mean,
    /// Z, row-major `[m, d]`.
    pub inducing: &'a Parameter,
    /// μ `[m]`.
    pub centre: &'a Parameter,
    /// The rows of R up to the diagonal `[m(m + 1)/2]`, or only the diagonal `[m]`.
    pub root: &'a Parameter,
    /// Inputs, row-major.
    pub x: &'a [f64],
}

impl Sparse<'_> {
    fn check(&self, d: usize) -> Result<()> {
        let (inducing, m, root) = (self.inducing.len(), self.centre.len(), self.root.len());
        if d == 0 || inducing != m * d || !self.x.len().is_multiple_of(d) || ![m, m * (m + 1) / 2].contains(&root) {
            let got = format!("{} of inputs, {inducing} of Z, {m} of μ, {root} of R", self.x.len());
            return Err(Error::shape("numbers of a variational model", format!("rows of {d} columns"), got));
        }
        Ok(())
    }

    fn parameters(&self) -> Vec<&Parameter> {
        self.kernel.parameters().into_iter().chain(self.mean.parameters()).map(|(_, p)| p).collect()
    }
}

/// The expected log density of a member's rows, and its slopes in their means and variances.
#[derive(Debug, Clone, Default)]
pub struct Expected {
    /// The sum over rows.
    pub value: f64,
    /// `[rows]`.
    pub in_means: Vec<f64>,
    /// `[rows]`.
    pub in_variances: Vec<f64>,
}

/// The negative bounds KL(q ‖ p) − E_q[ln p(y | f)] of members whose kernels have one [layout](Kernel::layout) that
/// [stacks](Kernel::stacks), with one kind of mean and `d` input columns. `expected` has the second term of a member at
/// the means and variances of f at its rows; variances are at least `floor` times those of the prior.
///
/// The slopes of what is [`Found`] are those in the parameters of kernel and mean, in Z, μ and R.
///
/// # Errors
/// [`Error::Shape`] for members of different structures; [`Error::Device`] when the device cannot be read.
pub fn bounds(
    compute: Compute,
    members: &[Sparse],
    d: usize,
    floor: f64,
    expected: impl Fn(usize, &[f64], &[f64]) -> Result<Expected> + Send + Sync + 'static,
) -> Result<Vec<Found>> {
    let Some(first) = members.first() else { return Ok(Vec::new()) };
    members.iter().try_for_each(|member| member.check(d))?;
    let scope = Scope::training(compute)?;
    let (wide, single) = (scope.wide(), scope.dtype() != scope.wide());
    let shared = Shared::new(&scope, members.iter().map(Sparse::parameters).collect())?;
    let mut values = shared.values(wide);
    let own = |which: fn(&Sparse) -> Vec<f64>, columns: usize| {
        let each: Vec<Vec<f64>> = members.iter().map(which).collect();
        let places = ranges(&lengths(each.iter().map(Vec::as_slice)));
        let all = each.concat();
        (scope.matrix_in(&all, all.len() / columns, columns, wide).require_grad(), places)
    };
    let (z, places) = own(|member| member.inducing.internal(), d);
    let (centre, centres) = own(|member| member.centre.internal(), 1);
    let (root, roots) = own(|member| member.root.internal(), 1);
    let counts: Vec<usize> = members.iter().map(|member| member.x.len() / d).collect();
    let orders: Vec<usize> = centres.iter().map(Range::len).collect();
    let x: Vec<f64> = members.iter().flat_map(|member| member.x).copied().collect();
    let x = rows_of(&scope, &x, &counts, d, wide);
    let inducing = stacked(&scope, z.clone(), &orders);
    let structure = structure(&scope, first.kernel, members.len(), &mut values, [&inducing, &x])?;
    let jitters = Arc::new(Mutex::new(Vec::new()));
    let (n, k) = (counts.iter().sum(), members.len());
    let op = Marginals {
        program: structure.program,
        single,
        inducing: centres.clone(),
        rows: ranges(&counts),
        roots: roots.clone(),
        jitters: jitters.clone(),
    };
    let [in_z, in_x] = structure.features;
    let (flat_centre, flat_root) = (centre.clone().squeeze_dim::<1>(1), root.clone().squeeze_dim::<1>(1));
    let packed: Tensor<1> = apply5(op, in_z, structure.coefficients, in_x, flat_centre, flat_root)?;
    let part = |start, count| packed.clone().narrow(0, start, count);
    let prior = variances(&structure.last)?.squeeze_dim::<1>(1);
    let mut mean = part(0, n);
    if let Some(level) = level(first.mean, &mut values, &x)? {
        mean = mean + level.squeeze_dim(1);
    }
    let variance = (prior.clone() + part(n, n)).max_pair(prior.detach() * floor);
    let expected: Tensor<1> = apply2(Densities { rows: ranges(&counts), expected }, mean, variance)?;
    let losses = part(2 * n, k) - expected;
    let found = to_f64(losses.clone().inner())?;
    let mut gradients = losses.sum().backward();
    let slopes = shared.slopes(&mut gradients)?;
    let mut of_leaf = |leaf: &Tensor<2>| leaf.grad_remove(&mut gradients).map(to_f64).transpose();
    let [in_z, in_centre, in_root] = [of_leaf(&z)?, of_leaf(&centre)?, of_leaf(&root)?];
    let jitters = jitters.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let of_member = |(k, loss): (usize, f64)| {
        let cut = |all: &Option<Vec<f64>>, place: &Range<usize>| {
            all.as_ref().map_or(vec![0.0; place.len()], |all| all[place.clone()].to_vec())
        };
        let mut slopes = shared.of_member(&slopes, k);
        slopes.extend([cut(&in_z, &places[k]), cut(&in_centre, &centres[k]), cut(&in_root, &roots[k])]);
        Found { loss, slopes, jitter: jitters.get(k).copied().unwrap_or_default() }
    };
    Ok(found.into_iter().enumerate().map(of_member).collect())
}

/// Marginals by [`Whitened`] of each member, from features of Z `[Σm, p]`, coefficients `[members, c]`, features of the
/// rows `[Σn, p]`, μ `[Σm]` and R: all shifts, all changes, then the divergence of each member.
struct Marginals {
    program: Program,
    single: bool,
    inducing: Vec<Range<usize>>,
    rows: Vec<Range<usize>>,
    roots: Vec<Range<usize>>,
    /// The relative jitter of each member.
    jitters: Arc<Mutex<Vec<f64>>>,
}

/// A member's marginals and their adjoint.
type One = (Vec<f64>, Vjp<5>);

impl Marginals {
    /// The places of a member's numbers in each input.
    fn places(&self, k: usize, [p, c]: [usize; 2]) -> [Range<usize>; 5] {
        let times = |range: &Range<usize>, width: usize| range.start * width..range.end * width;
        let (inducing, rows) = (&self.inducing[k], &self.rows[k]);
        [times(inducing, p), k * c..(k + 1) * c, times(rows, p), inducing.clone(), self.roots[k].clone()]
    }

    fn one(&self, k: usize, widths: [usize; 2], host: &[Vec<f64>; 5]) -> Result<One> {
        let [p, c] = widths;
        let (m, n) = (self.inducing[k].len(), self.rows[k].len());
        let shapes: [&[usize]; 5] = [&[m, p], &[c], &[n, p], &[m], &[self.roots[k].len()]];
        let places = self.places(k, widths);
        let inputs = [0, 1, 2, 3, 4].map(|at| TensorData::new(host[at][places[at].clone()].to_vec(), shapes[at]));
        let whitened = Arc::new(Whitened { program: self.program.clone(), single: self.single });
        let (value, vjp) = HostOp::<5>::forward(whitened, inputs)?;
        Ok((widened(value)?, vjp))
    }
}

impl HostOp<5> for Marginals {
    fn forward(self: Arc<Self>, inputs: [TensorData; 5]) -> Result<(TensorData, Vjp<5>)> {
        let (dtype, members) = (inputs[0].dtype(), self.rows.len());
        let shapes = inputs.each_ref().map(|input| input.shape().to_vec());
        let widths = [shapes[0][1], shapes[1][1]];
        let [z, coefficients, x, centre, root] = inputs.map(widened);
        let host = [z?, coefficients?, x?, centre?, root?];
        let each = threads::map((0..members).into_par_iter(), |k| {
            let (one, jitter) = watch_apart(|| self.one(k, widths, &host));
            (one.ok(), jitter)
        });
        let (each, jitters): (Vec<Option<One>>, Vec<f64>) = each.into_iter().unzip();
        *self.jitters.lock().unwrap_or_else(PoisonError::into_inner) = jitters;
        let n = self.rows.last().map_or(0, |rows| rows.end);
        // A member without a factor must not stop the others.
        let (mut out, mut adjoints) = (vec![f64::NAN; 2 * n + members], Vec::with_capacity(members));
        for (k, (one, rows)) in each.into_iter().zip(&self.rows).enumerate() {
            adjoints.push(one.map(|(values, adjoint)| {
                let (shift, rest) = values.split_at(rows.len());
                let (change, divergence) = rest.split_at(rows.len());
                out[rows.clone()].copy_from_slice(shift);
                out[n + rows.start..n + rows.end].copy_from_slice(change);
                out[2 * n + k] = divergence[0];
                adjoint
            }));
        }
        let vjp = move |grad: TensorData, needs: [bool; 5]| {
            let grad = widened(grad)?;
            let own = |(k, adjoint): (usize, Option<Vjp<5>>)| -> Result<Option<[Option<Vec<f64>>; 5]>> {
                let Some(adjoint) = adjoint else { return Ok(None) };
                let rows = &self.rows[k];
                let mut own = grad[rows.clone()].to_vec();
                own.extend(&grad[n + rows.start..n + rows.end]);
                own.push(grad[2 * n + k]);
                let count = own.len();
                let [z, coefficients, x, centre, root] =
                    adjoint(TensorData::new(own, [count]), needs)?.map(|data| data.map(into_vec::<f64>).transpose());
                Ok(Some([z?, coefficients?, x?, centre?, root?]))
            };
            let adjoints: Vec<_> = adjoints.into_iter().enumerate().collect();
            let found = threads::map(adjoints.into_par_iter(), own);
            let mut all = shapes.each_ref().map(|shape| vec![0.0; shape.iter().product()]);
            for (k, found) in found.into_iter().enumerate() {
                let places = self.places(k, widths);
                match found {
                    Ok(None) => {}
                    Ok(Some(found)) => {
                        for ((all, own), place) in all.iter_mut().zip(found).zip(places) {
                            if let Some(own) = own {
                                all[place].copy_from_slice(&own);
                            }
                        }
                    }
                    // Of this member alone.
                    Err(_) => all.iter_mut().zip(places).for_each(|(all, place)| all[place].fill(f64::NAN)),
                }
            }
            let mut shaped = [const { None }; 5];
            for ((to, from), shape) in shaped.iter_mut().zip(all).zip(&shapes) {
                *to = Some(narrowed(from, shape, dtype));
            }
            Ok(shaped)
        };
        Ok((narrowed(out, &[2 * n + members], dtype), Box::new(vjp)))
    }
}

/// The expected log densities `[members]` from the means and variances `[Σn]` of f.
struct Densities<F> {
    rows: Vec<Range<usize>>,
    expected: F,
}

impl<F: Fn(usize, &[f64], &[f64]) -> Result<Expected> + Send + Sync + 'static> HostOp<2> for Densities<F> {
    fn forward(self: Arc<Self>, inputs: [TensorData; 2]) -> Result<(TensorData, Vjp<2>)> {
        let (dtype, n) = (inputs[0].dtype(), inputs[0].shape()[0]);
        let [mean, variance] = inputs.map(widened);
        let (mean, variance) = (mean?, variance?);
        let each = threads::map((0..self.rows.len()).into_par_iter(), |k| {
            let rows = self.rows[k].clone();
            let (mean, variance) = (&mean[rows.clone()], &variance[rows]);
            // A density is not asked at marginals of a member without a factor.
            let finite = mean.iter().chain(variance).all(|x| x.is_finite());
            let found = finite.then(|| (self.expected)(k, mean, variance).ok()).flatten();
            found.unwrap_or_else(|| Expected { value: f64::NAN, ..Expected::default() })
        });
        let values = each.iter().map(|found| found.value).collect();
        let count = self.rows.len();
        let vjp = move |grad: TensorData, _needs: [bool; 2]| {
            let grad = widened(grad)?;
            let along = |which: fn(&Expected) -> &[f64]| {
                let mut all = vec![0.0; n];
                for ((found, rows), grad) in each.iter().zip(&self.rows).zip(&grad) {
                    all[rows.clone()].iter_mut().zip(which(found)).for_each(|(to, slope)| *to = grad * slope);
                }
                Some(narrowed(all, &[n], dtype))
            };
            Ok([along(|found| &found.in_means), along(|found| &found.in_variances)])
        };
        Ok((narrowed(values, &[count], dtype), Box::new(vjp)))
    }
}
