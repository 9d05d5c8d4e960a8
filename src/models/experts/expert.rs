//! The posterior of one expert, and the weights of its rows in it.

use std::collections::BTreeMap;

use burn::tensor::Tensor;

use super::Shared;
use crate::device::Compute;
use crate::error::Result;
use crate::likelihoods::Gaussian;
use crate::linalg::Factor;
use crate::linalg::dense::{solve, view, view_mut};
use crate::model_file::Array;
use crate::models::Observations;
use crate::models::exact::ExactPosterior;
use crate::models::posterior::Posterior;
use crate::models::prior::Prior;
use crate::models::sgpr::{Sgpr, SgprPosterior};
use crate::products;
use crate::scope::{Scope, to_f64};
use crate::serving::Latent;

/// An expert conditioned on its rows.
#[derive(Debug)]
pub(super) enum Expert {
    Exact(Box<ExactPosterior>),
    Sparse(Box<Sparse>),
}

/// A sparse expert.
#[derive(Debug)]
pub(super) struct Sparse {
    model: Sgpr,
    posterior: SgprPosterior,
    data: Observations,
    /// I + L⁻¹K_ZX W K_XZ L⁻ᵀ.
    inner: Factor<f64>,
}

/// The parts of an expert's mean f_i = m + k(·, C) a.
pub(super) struct Mean {
    /// C, row-major `[c, d]`: the expert's rows, or the inducing inputs.
    pub(super) centres: Vec<f64>,
    /// a `[c]`.
    pub(super) coefficients: Vec<f64>,
}

/// How the mean of an expert at `t` points depends on its targets.
pub(super) struct Dependence {
    /// w `[n_i, t]`: Σ w y is the mean, less the prior's part.
    pub(super) weights: Vec<f64>,
    /// k(X_i, x) `[n_i, t]`.
    pub(super) cross: Vec<f64>,
}

impl Expert {
    pub(super) fn new(shared: &Shared, compute: Compute, data: Observations) -> Result<Self> {
        Ok(match shared {
            Shared::Exact(model) => Self::Exact(Box::new(model.posterior(compute, data)?)),
            Shared::Sparse(model) => {
                let posterior = model.posterior(compute, data.clone())?;
                let inner = posterior.inner()?;
                Self::Sparse(Box::new(Sparse { model: model.clone(), posterior, data, inner }))
            }
        })
    }

    pub(super) fn posterior(&self) -> &dyn Posterior {
        match self {
            Self::Exact(posterior) => &**posterior,
            Self::Sparse(sparse) => &sparse.posterior,
        }
    }

    /// The posterior of an exact expert.
    pub(super) fn exact(&self) -> Option<&ExactPosterior> {
        match self {
            Self::Exact(posterior) => Some(posterior),
            Self::Sparse(_) => None,
        }
    }

    /// The expert in numbers, whose arrays have names that begin with `name`.
    pub(super) fn latent(
        &self,
        name: &str,
        arrays: &mut BTreeMap<String, Array>,
    ) -> std::result::Result<Latent, String> {
        match self {
            Self::Exact(posterior) => posterior.latent(name, arrays),
            Self::Sparse(sparse) => sparse.posterior.whitened().latent(name, arrays),
        }
    }

    pub(super) fn data(&self) -> &Observations {
        match self {
            Self::Exact(posterior) => posterior.data(),
            Self::Sparse(sparse) => &sparse.data,
        }
    }

    pub(super) fn mean(&self) -> Result<Mean> {
        Ok(match self {
            Self::Exact(posterior) => {
                Mean { centres: posterior.data().x.clone(), coefficients: posterior.solved().1.to_vec() }
            }
            Self::Sparse(sparse) => {
                let whitened = sparse.posterior.whitened();
                Mean { centres: whitened.inducing().to_vec(), coefficients: whitened.weights() }
            }
        })
    }

    /// The dependence at `points [t, d]` of a scope. The weights are K̂_i⁻¹k(X_i, x) for exact experts, and W K_XZ
    /// M⁻¹k(Z, x) with M = K_ZZ + K_ZX W K_XZ for sparse ones.
    pub(super) fn dependence(&self, scope: &Scope, prior: &Prior, points: &Tensor<2>) -> Result<Dependence> {
        let (data, t) = (self.data(), points.dims()[0]);
        let x = scope.matrix(&data.x, data.n(), data.d);
        let cross = to_f64(products::Cross::new(&prior.kernel, scope, &x, points).matrix()?)?;
        let weights = match self {
            Self::Exact(posterior) => {
                let mut weights = cross.clone();
                posterior.solved().0.solve(&mut weights)?;
                weights
            }
            Self::Sparse(sparse) => {
                let z = sparse.model.process.z(scope);
                let mut inner = to_f64(products::Cross::new(&prior.kernel, scope, &z, points).matrix()?)?;
                let (lower, m) = (sparse.posterior.lower(), sparse.model.process.len());
                solve::lower(view(lower, m), view_mut(&mut inner, t));
                sparse.inner.solve(&mut inner)?;
                solve::upper(view(lower, m).transpose(), view_mut(&mut inner, t));
                let mut weights =
                    to_f64(products::Cross::new(&prior.kernel, scope, &x, &z).times(&scope.matrix(&inner, m, t))?)?;
                let noise = self.noise(scope, &sparse.model.likelihood)?;
                for (row, noise) in weights.chunks_mut(t).zip(noise) {
                    row.iter_mut().for_each(|w| *w /= noise);
                }
                weights
            }
        };
        Ok(Dependence { weights, cross })
    }

    /// Noise variances `[n_i]`.
    pub(super) fn noise(&self, scope: &Scope, likelihood: &Gaussian) -> Result<Vec<f64>> {
        let data = self.data();
        let known = data.auxiliary.as_ref().map(|values| scope.vector(values));
        to_f64(likelihood.variances(scope, data.n(), known.as_ref()))
    }
}
