//! A posterior through actions as numbers: to have it again without the solve that found it.

use super::posterior::CagpPosterior;
use super::{Cagp, IterativeCagp, prior};
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::linalg::Factor;
use crate::models::Observations;
use crate::scope::{Scope, to_f64};
use crate::solvers::itergp::Basis;

/// What a posterior consists of beside its model and data.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedPosterior {
    /// Unit columns of S, row-major `[n, i]`; none for block-sparse ones, which the model itself holds.
    pub actions: Option<Vec<f64>>,
    /// The lengths of the columns as they were given `[i]`; none, as in older files, is those of the model's own actions or 1.
    pub norms: Option<Vec<f64>>,
    /// The lower Cholesky factor of SᵀK̂S, row-major `[i, i]`.
    pub factor: Vec<f64>,
    /// Sᵀ(y − m) `[i]`.
    pub projected: Vec<f64>,
}

impl SavedPosterior {
    /// The posterior of a model with this prior; `own` are the actions that the model holds.
    fn restore(
        self,
        prior: crate::models::exact::ExactGp,
        compute: Compute,
        data: Observations,
        own: Option<(Basis, Vec<f64>)>,
    ) -> Result<CagpPosterior> {
        let (n, i) = (data.n(), self.projected.len());
        let mut actions = match (self.actions, own) {
            (Some(columns), _) if columns.len() == n * i && i > 0 => {
                (Basis::dense(Scope::new(compute)?.matrix(&columns, n, i)), vec![1.0; i])
            }
            (None, Some(own)) if own.1.len() == i => own,
            _ => return Err(Error::Data(format!("lacks {i} actions for {n} rows"))),
        };
        match self.norms {
            Some(norms) if norms.len() == i => actions.1 = norms,
            Some(norms) => return Err(Error::Data(format!("has lengths of {} of {i} actions", norms.len()))),
            None => {}
        }
        if self.factor.len() != i * i {
            return Err(Error::Data(format!("has {} numbers of a factor for {i} actions", self.factor.len())));
        }
        CagpPosterior::new(prior, compute, data, actions, Factor::from_lower(self.factor)?, self.projected)
    }
}

impl Cagp {
    /// The posterior that was [saved](CagpPosterior::saved), given the parameters and observations it was made with.
    ///
    /// # Errors
    /// [`Error::Data`] when the sizes do not fit together.
    pub fn restore(&self, compute: Compute, data: Observations, saved: SavedPosterior) -> Result<CagpPosterior> {
        self.actions.check(data.n())?;
        let (basis, norms) = self.actions.unit(&Scope::new(compute)?)?;
        let own = Some((basis, to_f64(norms)?));
        saved.restore(prior(&self.kernel, &self.mean, &self.likelihood), compute, data, own)
    }
}

impl IterativeCagp {
    /// The posterior that was [saved](CagpPosterior::saved), given the parameters and observations it was made with.
    ///
    /// # Errors
    /// [`Error::Data`] when the sizes do not fit together.
    pub fn restore(&self, compute: Compute, data: Observations, saved: SavedPosterior) -> Result<CagpPosterior> {
        saved.restore(prior(&self.kernel, &self.mean, &self.likelihood), compute, data, None)
    }
}
