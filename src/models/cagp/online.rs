//! More rows for a computation-aware posterior.

use super::CagpPosterior;
use crate::error::Result;
use crate::models::Observations;
use crate::scope::{Scope, to_f64};
use crate::solvers::blocks::transposed;

impl CagpPosterior {
    /// The posterior given more rows, each with an action of its own: what was computed before is conditioned on them
    /// exactly. For targets with Gaussian noise and one latent function; O((n + i)(i + k)) for each of k rows.
    ///
    /// # Errors
    /// [`Usage`](crate::Error::Usage) for other likelihoods, [`Shape`](crate::Error::Shape) for other columns,
    /// [`NotPositiveDefinite`](crate::Error::NotPositiveDefinite) when the larger matrix is not positive definite.
    pub fn with_rows(&self, more: &Observations) -> Result<Self> {
        let data = self.data.extended(more)?;
        let (scope, k) = (Scope::new(self.compute)?.widened(), more.n());
        let new = more.batch(&scope);
        let noise = to_f64(self.noise(&scope, more)?)?;
        let [mut cross, means] = self.project(&scope, &new.x)?;
        let mut corner = to_f64(self.prior().covariance(&scope, &new.x).matrix()?)?;
        corner.iter_mut().step_by(k + 1).zip(&noise).for_each(|(value, noise)| *value += noise);
        let mut factor = self.factor.clone();
        factor.append_rows(transposed(&cross.swap_remove(0), k), corner, "SᵀK̂S with the new rows")?;
        let mut projected = self.projected.clone();
        projected.extend(more.y.iter().zip(&means[0]).map(|(y, mean)| y - mean));
        let norms = [&self.norms[..], &vec![1.0; k]].concat();
        let basis = self.actions.with_rows(k)?;
        let grown = Self::new(self.of.clone(), self.compute, data, (basis, norms), factor, projected)?;
        Ok(Self { report: self.report, grown: true, ..grown })
    }
}
