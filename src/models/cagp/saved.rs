//! A posterior through actions as arrays, which restore it without the solve that found it.

use super::posterior::{CagpPosterior, LatentModel};
use super::{Cagp, IterativeCagp};
use crate::device::{Compute, Precision};
use crate::error::{Error, Result};
use crate::linalg::Factor;
use crate::model_file::{Array, ArrayData};
use crate::models::Observations;
use crate::models::posterior::SavedPosterior;
use crate::scope::{Scope, to_f64};
use crate::solvers::itergp::Basis;

/// Unit columns of S `[n, L i]` in the precision of the model. The columns of one latent function are consecutive. None
/// for block-sparse actions, which the model itself holds.
const ACTIONS: &str = "posterior.actions";
/// The norms `[i]` of the columns before they were scaled to unit length. Older files lack them: they mean the norms of
/// the model's own actions, or 1.
const NORMS: &str = "posterior.norms";
/// The lower Cholesky factor of SᵀK̂S `[i, i]`.
const FACTOR: &str = "posterior.factor";
/// Sᵀ(y − m) `[i]`.
const PROJECTED: &str = "posterior.projected";

impl CagpPosterior {
    /// The arrays of this posterior.
    pub(super) fn arrays(&self) -> Result<SavedPosterior> {
        let array =
            |values: &[f64], shape: &[usize]| Array { shape: shape.to_vec(), data: ArrayData::F64(values.into()) };
        let (n, i) = (self.data.n(), self.weights.len());
        let mut saved = SavedPosterior { solve: self.report, ..SavedPosterior::default() };
        if !matches!(self.actions.single(), Some(Err(_))) {
            let columns = to_f64(self.actions.clone().into_dense()?)?;
            let data = match self.compute.precision {
                Precision::F32 => ArrayData::F32(columns.into_iter().map(|s| s as f32).collect()),
                Precision::F64 => ArrayData::F64(columns),
            };
            saved.arrays.insert(ACTIONS.into(), Array { shape: vec![n, self.of.latents * i], data });
        }
        let rest = [
            (FACTOR, array(&self.factor.clone().lower(), &[i, i])),
            (PROJECTED, array(&self.projected, &[i])),
            (NORMS, array(&self.norms, &[i])),
        ];
        saved.arrays.extend(rest.map(|(name, array)| (name.into(), array)));
        Ok(saved)
    }

    /// The posterior of saved arrays, if present, for a model with this prior. `own` are the actions that the model
    /// holds.
    pub(super) fn from_arrays(
        of: LatentModel,
        compute: Compute,
        data: Observations,
        own: Option<(Basis, Vec<f64>)>,
        mut saved: SavedPosterior,
    ) -> Result<Option<Self>> {
        let (Some(factor), Some(projected)) = (saved.take(FACTOR), saved.take(PROJECTED)) else { return Ok(None) };
        let (n, i) = (data.n(), projected.len());
        let columns_of_all = of.latents * i;
        let mut actions = match (saved.take(ACTIONS), own) {
            (Some(columns), _) if columns.len() == n * columns_of_all && i > 0 => {
                (Basis::dense(Scope::new(compute)?.matrix(&columns, n, columns_of_all)), vec![1.0; i])
            }
            (None, Some(own)) if own.1.len() == i => own,
            _ => return Err(Error::Data(format!("lacks {i} actions for {n} rows"))),
        };
        match saved.take(NORMS) {
            Some(norms) if norms.len() == i => actions.1 = norms,
            Some(norms) => return Err(Error::Data(format!("has lengths of {} of {i} actions", norms.len()))),
            None => {}
        }
        if factor.len() != i * i {
            return Err(Error::Data(format!("has {} numbers of a factor for {i} actions", factor.len())));
        }
        let posterior = Self::new(of, compute, data, actions, Factor::from_lower(factor)?, projected)?;
        Ok(Some(Self { report: saved.solve, ..posterior }))
    }
}

impl Cagp {
    /// The posterior that was [saved](crate::models::posterior::Posterior::saved), given the parameters and
    /// observations of that time; none if nothing was saved.
    ///
    /// # Errors
    /// [`Error::Data`] when the sizes do not match.
    pub fn restored(
        &self,
        compute: Compute,
        data: Observations,
        saved: SavedPosterior,
    ) -> Result<Option<CagpPosterior>> {
        self.actions.check(data.n())?;
        let (basis, norms) = self.actions.unit(&Scope::new(compute)?)?;
        let own = Some((basis, to_f64(norms)?));
        CagpPosterior::from_arrays(LatentModel::gaussian(&self.prior, &self.likelihood), compute, data, own, saved)
    }
}

impl IterativeCagp {
    /// As [`Cagp::restored`].
    ///
    /// # Errors
    /// [`Error::Data`] when the sizes do not match.
    pub fn restored(
        &self,
        compute: Compute,
        data: Observations,
        saved: SavedPosterior,
    ) -> Result<Option<CagpPosterior>> {
        CagpPosterior::from_arrays(LatentModel::gaussian(&self.prior, &self.likelihood), compute, data, None, saved)
    }
}
