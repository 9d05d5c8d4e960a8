//! The prior of a latent function.

use burn::tensor::Tensor;

use crate::error::Result;
use crate::kernels::Kernel;
use crate::likelihoods::Likelihood;
use crate::means::Mean;
use crate::models::Batch;
use crate::params::{Parameter, Parameters, prefixed};
use crate::products::{Covariance, Cross};
use crate::scope::Scope;
use crate::serving::{Change, Latent, Weigh};

/// The belief about a latent function before any data: its covariance and its mean.
#[derive(Debug, Clone)]
pub struct Prior {
    /// Covariance.
    pub kernel: Kernel,
    /// Mean.
    pub mean: Mean,
}

impl Prior {
    /// Priors of a likelihood's latent functions: one if the functions are interchangeable, else one for each.
    pub(super) fn of_latents(self, likelihood: &dyn Likelihood) -> Vec<Self> {
        let count = if alike(likelihood) { 1 } else { likelihood.latents() };
        vec![self; count]
    }

    /// The parameters of the priors of latent functions and of a likelihood.
    pub(super) fn all_with<'a>(priors: &'a [Self], likelihood: &'a dyn Likelihood) -> Vec<(String, &'a Parameter)> {
        let several = priors.len() > 1;
        let named = |(l, own)| if several { prefixed(&format!("latent{}", l + 1), own) } else { own };
        let all = priors.iter().map(Parameters::parameters).enumerate().flat_map(named);
        all.chain(prefixed("likelihood", likelihood.parameters())).collect()
    }

    /// The same parameters, mutable.
    pub(super) fn all_with_mut<'a>(
        priors: &'a mut [Self],
        likelihood: &'a mut dyn Likelihood,
    ) -> Vec<(String, &'a mut Parameter)> {
        let several = priors.len() > 1;
        let named = |(l, own)| if several { prefixed(&format!("latent{}", l + 1), own) } else { own };
        let all = priors.iter_mut().map(Parameters::parameters_mut).enumerate().flat_map(named);
        all.chain(prefixed("likelihood", likelihood.parameters_mut())).collect()
    }

    /// A latent function with this prior in numbers, without change and root; none, with the reason, if a piece of its
    /// kernel does not come with the library.
    pub(super) fn latent(
        &self,
        [points, weights, lower]: [String; 3],
        weigh: Weigh,
    ) -> std::result::Result<Latent, String> {
        let kernel = self.kernel.numbers().map_err(|error| error.to_string())?;
        let (mean, change, root) = (self.mean.numbers(), Change::None, None);
        Ok(Latent { kernel, mean, points, weights, weigh, change, lower, root })
    }

    /// y − m `[n]`: the targets of a batch less the prior means at its rows.
    pub(super) fn residuals(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
        Ok(batch.y.clone() - self.mean.at(scope, &batch.x)?)
    }

    /// The covariances of the latent function's values at inputs `x [n, d]`.
    pub fn covariance<'a>(&'a self, scope: &'a Scope, x: &'a Tensor<2>) -> Covariance<'a> {
        Covariance::new(&self.kernel, scope, x)
    }

    /// The covariances between its values at inputs `x1 [n, d]` and at `x2 [m, d]`.
    pub fn cross<'a>(&'a self, scope: &'a Scope, x1: &'a Tensor<2>, x2: &'a Tensor<2>) -> Cross<'a> {
        Cross::new(&self.kernel, scope, x1, x2)
    }
}

/// A prior with zero mean.
impl From<Kernel> for Prior {
    fn from(kernel: Kernel) -> Self {
        Self { kernel, mean: Mean::Zero }
    }
}

crate::parameters!(Prior { "kernel": ..kernel, "mean": ..mean });

/// Whether all latent functions share one prior. Those of classes do, because they are interchangeable.
pub fn alike(likelihood: &dyn Likelihood) -> bool {
    likelihood.classes().is_some()
}

/// One value for each latent function, from one value for all or one for each.
pub(super) fn repeated<T: Clone>(each: Vec<T>, latents: usize) -> Vec<T> {
    match each.len() {
        1 => vec![each[0].clone(); latents],
        _ => each,
    }
}
