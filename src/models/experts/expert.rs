//! The posterior of one expert, and the weights of its rows in it.

use std::collections::BTreeMap;

use burn::tensor::Tensor;

use super::Shared;
use crate::device::Compute;
use crate::error::Result;
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
use crate::serving::{self, Latent};

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

    /// The rows of a sparse expert in numbers, likewise.
    pub(super) fn rows(
        &self,
        compute: Compute,
        name: &str,
        arrays: &mut BTreeMap<String, Array>,
    ) -> Result<Option<serving::Rows>> {
        let Self::Sparse(sparse) = self else { return Ok(None) };
        let scope = Scope::new(compute)?.widened();
        let m = sparse.model.process.len();
        let mut identity = vec![0.0; m * m];
        identity.iter_mut().step_by(m + 1).for_each(|one| *one = 1.0);
        let lift = sparse.lifted(&scope, identity)?;
        let mut keep = |part: &str, values: Vec<f64>| serving::keep(arrays, &format!("{name}{part}"), values);
        let points = keep("rows", sparse.data.x.clone());
        let noise = keep("noise", sparse.data.noise(&scope, &sparse.model.likelihood)?);
        Ok(Some(serving::Rows { points, noise, lift: keep("lift", lift) }))
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
        let x = scope.rows(&data.x, data.d);
        let cross = to_f64(products::Cross::new(&prior.kernel, scope, &x, points).matrix()?)?;
        let weights = match self {
            Self::Exact(posterior) => {
                let mut weights = cross.clone();
                posterior.solved().0.solve(&mut weights)?;
                weights
            }
            Self::Sparse(sparse) => {
                let z = sparse.model.process.z(scope);
                let mut whitened = to_f64(products::Cross::new(&prior.kernel, scope, &z, points).matrix()?)?;
                let lower = view(sparse.posterior.lower(), sparse.model.process.len());
                solve::lower(lower, view_mut(&mut whitened, t));
                sparse.lifted(scope, whitened)?
            }
        };
        Ok(Dependence { weights, cross })
    }
}

impl Sparse {
    /// W K_XZ L⁻ᵀ B⁻¹ times the columns of `whitened` `[m, t]`, where B is the inner matrix: the weights of the rows
    /// `[n_i, t]` in means whose covariances with the inducing values are L times these.
    fn lifted(&self, scope: &Scope, mut whitened: Vec<f64>) -> Result<Vec<f64>> {
        let (process, data) = (&self.model.process, &self.data);
        let m = process.len();
        let t = whitened.len() / m;
        self.inner.solve(&mut whitened)?;
        solve::upper(view(self.posterior.lower(), m).transpose(), view_mut(&mut whitened, t));
        let (x, z) = (scope.rows(&data.x, data.d), process.z(scope));
        let cross = products::Cross::new(&process.prior.kernel, scope, &x, &z);
        let mut weights = to_f64(cross.times(&scope.matrix(&whitened, m, t))?)?;
        for (row, noise) in weights.chunks_mut(t).zip(data.noise(scope, &self.model.likelihood)?) {
            row.iter_mut().for_each(|w| *w /= noise);
        }
        Ok(weights)
    }
}
