//! Exact Gaussian-process regression over one input in linear time, by a Kalman filter.
//!
//! Many kernels of one input are those of linear stochastic differential equations (Särkkä and Solin 2019, *Applied
//! stochastic differential equations*, chapter 12). Their functions are parts of a state, which is Markov: given the
//! state at a time, the past says nothing more about the future. So one pass over the rows in order of time has the
//! exact evidence, and a pass back its gradient, the posterior, and predictions that leave rows out. The numbers are
//! those of the [exact model](super::exact); only periodic kernels are cut off after as many harmonics as leave out
//! less than [`LEFT_OUT`] of their variance.
//!
//! Of several series, whose kernel is [within](Kernel::within) each, the filter begins anew at each.
//!
//! | file | contents |
//! |---|---|
//! | `program`, `rows` | from a kernel to blocks of states, whose steps `cagey-serve` has too; time and series |
//! | `chain`, `filter`, `backward`, `banded`, `gather` | the passes over the rows, and the gradient |
//! | `posterior`, `served` | predictions |
//! | `sites`, `evidence`, `laplace` | counts, classes and other targets about the mode |

mod backward;
mod banded;
mod chain;
mod evidence;
mod filter;
mod gather;
mod laplace;
mod options;
mod posterior;
mod program;
mod rows;
mod served;
mod sites;

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
pub use laplace::{StateSpaceLaplaceGp, StateSpaceLaplacePosterior};
pub use options::StateSpaceOptions;
pub use posterior::StateSpacePosterior;
pub use program::{LEFT_OUT, STATES};

use crate::device::Compute;
use crate::error::Result;
use crate::kernels::Kernel;
use crate::likelihoods::Gaussian;
use crate::linalg::host::{HostOp, Vjp, apply3};
use crate::linalg::real::{narrowed, widened};
use crate::models::gp_model::{GpModel, Size, gaussian_parts};
use crate::models::posterior::Posterior;
use crate::models::prior::Prior;
use crate::models::{Batch, Model, Observations};
use crate::params::Parameters;
use crate::scope::{Scope, to_f64};
use program::Program;
use rows::{Axes, Rows, Times};

/// A GP prior over one input with Gaussian noise, conditioned without approximation: n time, and n memory for the rows.
#[derive(Debug, Clone)]
pub struct StateSpaceGp {
    /// The prior of the latent function.
    pub prior: Prior,
    /// Observation noise.
    pub likelihood: Gaussian,
}

impl StateSpaceGp {
    /// A model with zero mean and a tenth of unit variance as noise.
    ///
    /// # Errors
    /// [`Error::Usage`](crate::Error::Usage) for a kernel that has no state-space form.
    pub fn new(kernel: Kernel) -> Result<Self> {
        Program::of(&kernel, Axes::needed(&kernel)?.d)?;
        Ok(Self { prior: kernel.into(), likelihood: Gaussian::new(0.1) })
    }

    /// Whether a kernel of `d` input columns has a state-space form.
    pub fn knows(kernel: &Kernel, d: usize) -> bool {
        Program::of(kernel, d).is_ok()
    }

    /// Conditions the prior on observations.
    ///
    /// # Errors
    /// [`Error::Usage`](crate::Error::Usage) for a kernel that has no state-space form,
    /// [`Error::NotPositiveDefinite`](crate::Error::NotPositiveDefinite) for rows at the same time without noise.
    pub fn posterior(&self, compute: Compute, data: Observations) -> Result<StateSpacePosterior> {
        StateSpacePosterior::new(self.clone(), compute, data)
    }
}

/// The parameters `[p]` of a prior's kernel, as tensors.
fn values(prior: &Prior, scope: &Scope) -> Tensor<1> {
    let values = prior.kernel.parameters().into_iter().map(|(_, parameter)| scope.wide_value(parameter));
    Tensor::cat(values.collect(), 0)
}

impl Model for StateSpaceGp {
    fn objective(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
        batch.check(scope)?;
        let program = Program::of(&self.prior.kernel, batch.x.dims()[1])?;
        let residual = self.prior.residuals(scope, batch)?.cast(scope.wide());
        let noise = batch.noise(&scope.widened(), &self.likelihood);
        let times = program.axes.times(&to_f64(batch.x.clone())?);
        let density = Density { program, times };
        Ok(apply3(density, values(&self.prior, scope), noise, residual)?.cast(scope.dtype()))
    }
}

/// Minus the log density of residuals `[n]`, given the parameters of the kernel `[p]` and noise variances `[n]`.
struct Density {
    program: Program,
    /// The time of each row.
    times: Times,
}

impl HostOp<3> for Density {
    fn forward(self: Arc<Self>, [values, noise, residual]: [TensorData; 3]) -> Result<(TensorData, Vjp<3>)> {
        let dtype = values.dtype();
        let values = widened(values)?;
        let blocks = self.program.at(&values)?;
        let white = blocks.noise();
        let noise = widened(noise)?.into_iter().map(|noise| noise + white).collect();
        let pass = blocks.pass(Rows::new(self.times.clone(), widened(residual)?, noise))?;
        let value = narrowed(vec![pass.forward.value], &[1], dtype);
        let (n, count) = (self.times.t.len(), self.program.parameters);
        let vjp = move |grad, _needs: [bool; 3]| {
            let factor: f64 = widened(grad)?.into_iter().sum();
            let (mut residual, mut noise) = (vec![0.0; n], vec![0.0; n]);
            let mut slopes = pass.back(&blocks, Some(count), |place, visit| {
                let [u, m] = visit.residual;
                residual[place] = factor * u;
                noise[place] = 0.5 * factor * (m - u * u);
            });
            slopes.iter_mut().for_each(|slope| *slope *= factor);
            blocks.add_noise_slopes(noise.iter().sum(), &mut slopes, &values);
            let all = [(slopes, count), (noise, n), (residual, n)];
            Ok(all.map(|(values, n)| Some(narrowed(values, &[n], dtype))))
        };
        Ok((value, Box::new(vjp)))
    }
}

impl GpModel for StateSpaceGp {
    fn title(&self) -> String {
        "Exact Gaussian process by its state space".into()
    }

    gaussian_parts!();

    fn bytes(&self, compute: Compute, size: Size) -> f64 {
        // Times, targets, noise and their gradients in f64; the states of a segment.
        size.data(compute) + 64.0 * size.rows as f64 + 1e6
    }

    fn is_comparable(&self) -> bool {
        true
    }

    fn condition(&self, compute: Compute, data: Observations) -> Result<Box<dyn Posterior>> {
        Ok(Box::new(self.posterior(compute, data)?))
    }
}

crate::parameters!(StateSpaceGp { ..prior, "likelihood": ..likelihood });
