//! More rows for a computation-aware posterior.

use super::CagpPosterior;
use crate::error::Result;
use crate::likelihoods::{Row, Targets};
use crate::models::posterior::{Joint, Posterior};
use crate::models::{Observations, laplace};
use crate::scope::{Scope, to_f64};
use crate::solvers::blocks::transposed;

impl CagpPosterior {
    /// The posterior given more rows, each with an action of its own: what was computed before is conditioned on them
    /// exactly. Targets without Gaussian noise have sites at the mode of their posterior, for which the posterior so
    /// far is the prior; the sites of earlier rows stay. For one latent function; O((n + i)(i + k)) for each of k rows.
    ///
    /// # Errors
    /// [`Usage`](crate::Error::Usage) for several latent functions, [`Shape`](crate::Error::Shape) for other columns,
    /// [`Data`](crate::Error::Data) for targets that the likelihood does not take,
    /// [`NotPositiveDefinite`](crate::Error::NotPositiveDefinite) when the larger matrix is not positive definite,
    /// [`NotFinite`](crate::Error::NotFinite) if the new rows have no finite mode.
    pub fn with_rows(&self, more: &Observations) -> Result<Self> {
        let data = self.data.extended(more)?;
        let (scope, k) = (Scope::new(self.compute)?.widened(), more.n());
        let new = more.batch(&scope);
        let [targets, noise] = self.sites(&scope, more)?;
        let [mut cross, means] = self.project(&scope, &new.x)?;
        let mut corner = to_f64(self.prior().covariance(&scope, &new.x).matrix()?)?;
        corner.iter_mut().step_by(k + 1).zip(&noise).for_each(|(value, noise)| *value += noise);
        let mut factor = self.factor.clone();
        factor.append_rows(transposed(&cross.swap_remove(0), k), corner, "SᵀK̂S with the new rows")?;
        let mut projected = self.projected.clone();
        projected.extend(targets.iter().zip(&means[0]).map(|(y, mean)| y - mean));
        let norms = [&self.norms[..], &vec![1.0; k]].concat();
        let basis = self.actions.with_rows(k)?;
        let grown = Self::new(self.of.clone(), self.compute, data, (basis, norms), factor, projected)?;
        Ok(Self { report: self.report, grown: true, ..grown })
    }

    /// The targets of new rows and the variances of their noise: of a Gaussian likelihood, or of sites.
    fn sites(&self, scope: &Scope, more: &Observations) -> Result<[Vec<f64>; 2]> {
        let likelihood = &self.of.likelihood;
        if likelihood.noise().is_some() {
            return Ok([more.y.clone(), to_f64(self.noise(scope, more)?)?]);
        }
        let targets = Targets { y: &more.y, auxiliary: more.auxiliary.as_deref() };
        likelihood.check(targets, None)?;
        let rows: Vec<Row> = targets.rows(likelihood.auxiliary()).collect();
        let Joint { mean, covariance } = self.predict_joint(&more.x)?;
        laplace::sites(&*likelihood.density(), &rows, &mean, &covariance)
    }
}
