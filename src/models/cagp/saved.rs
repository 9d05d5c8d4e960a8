//! A posterior through actions as arrays, which restore it without the solve that found it.

use super::numbers::Small;
use super::posterior::{CagpPosterior, LatentModel};
use crate::device::{Compute, Precision};
use crate::error::{Error, Result};
use crate::linalg::Factor;
use crate::model_file::{Array, ArrayData};
use crate::models::Observations;
use crate::models::posterior::SavedPosterior;
use crate::scope::{Scope, to_f64};
use crate::solvers::Group;
use crate::solvers::itergp::Basis;

/// Unit columns of S, `[n, L i]` for L latent functions with i columns each, in the precision of the model. None for
/// block-sparse actions, which the model itself holds.
const ACTIONS: &str = "posterior.actions";
/// The norms `[i]` of the columns before they were scaled to unit length.
const NORMS: &str = "posterior.norms";
/// The lower Cholesky factor of SᵀK̂S `[i, i]`.
const FACTOR: &str = "posterior.factor";
/// Sᵀ(y − m) `[i]`.
const PROJECTED: &str = "posterior.projected";

/// The relative change of a column's length by rounding.
const NEAR: f64 = 1e-4;

impl CagpPosterior {
    /// The arrays of this posterior.
    pub(super) fn arrays(&self) -> Result<SavedPosterior> {
        let (n, i, latents) = (self.data.n(), self.small.weights.len(), self.of.functions.0);
        let mut saved = SavedPosterior { solve: self.report, ..SavedPosterior::default() };
        if self.grown || !matches!(self.actions.single(), Some(Group::Sparse { .. })) {
            let columns = self.actions.clone().into_dense()?.reshape([latents, n, i]).swap_dims(0, 1);
            let columns = to_f64(columns)?;
            let data = match self.compute.precision {
                Precision::F32 => ArrayData::F32(columns.into_iter().map(|s| s as f32).collect()),
                Precision::F64 => ArrayData::F64(columns),
            };
            saved.arrays.insert(ACTIONS.into(), Array { shape: vec![n, latents * i], data });
        }
        saved.put(FACTOR, &[i, i], self.small.factor.clone().lower());
        saved.put(PROJECTED, &[i], &*self.small.projected);
        saved.put(NORMS, &[i], &*self.norms);
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
        let [factor, projected, norms] = [FACTOR, PROJECTED, NORMS].map(|name| saved.take(name));
        let (Some(factor), Some(projected), Some(norms)) = (factor, projected, norms) else { return Ok(None) };
        let (n, i, latents) = (data.n(), projected.len(), of.functions.0);
        if norms.len() != i {
            return Err(Error::Data(format!("has lengths of {} of {i} actions", norms.len())));
        }
        let columns = saved.take(ACTIONS);
        let grown = columns.is_some();
        let actions = match (columns, own) {
            (Some(columns), _) if columns.len() == n * latents * i && i > 0 => {
                let columns = Scope::new(compute)?.matrix(&columns, n, latents * i).reshape([n, latents, i]);
                let columns = columns.swap_dims(0, 1).reshape([latents * n, i]);
                (Basis::dense(columns), norms)
            }
            (None, Some((own, lengths))) if lengths.len() == i => {
                // Columns that were saved with another length than the model's own mean another factor.
                let near = |(a, b): (&f64, &f64)| (a / b - 1.0).abs() < NEAR;
                if !norms.iter().zip(&lengths).all(near) {
                    return Ok(None);
                }
                (own, lengths)
            }
            _ => return Err(Error::Data(format!("lacks {i} actions for {n} rows"))),
        };
        if factor.len() != i * i {
            return Err(Error::Data(format!("has {} numbers of a factor for {i} actions", factor.len())));
        }
        let small = Small::new(Factor::from_lower(factor)?, projected)?;
        let posterior = Self::new(of, compute, data, actions, small);
        Ok(Some(Self { report: saved.solve, grown, ..posterior }))
    }
}
