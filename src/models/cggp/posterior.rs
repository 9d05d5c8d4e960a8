//! Predictions of the matrix-free GP: means from cached weights, variances from solves.

use super::CgGp;
use crate::device::Compute;
use crate::error::Result;
use crate::linalg::dense::{product, view, view_mut};
use crate::models::Observations;
use crate::models::posterior::{self, Joint, Marginals, Posterior};
use crate::scope::{Scope, to_f64};
use crate::serving::Served;
use crate::solvers::cg::{Effort, Solution, cg};
use crate::solvers::{NoisyCovariance, Preconditioner};

/// The posterior of a [`CgGp`].
///
/// The weights α = K̂⁻¹(y − m) come from one solve, and the means are as exact as this solve. The variances are never
/// below the exact ones, up to rounding: what is subtracted from the prior variance is a lower bound of k*ᵀK̂⁻¹k*.
#[derive(Debug, Clone)]
pub struct CgPosterior {
    model: CgGp,
    compute: Compute,
    data: Observations,
    noise: Vec<f64>,
    preconditioner: Preconditioner,
    weights: Vec<f64>,
    effort: Effort,
}

/// Bytes of right-hand sides that a chunk of predictions may hold, and most columns of a chunk.
const CHUNK_BYTES: usize = 8 << 20;
const CHUNK_COLUMNS: usize = 256;

impl CgGp {
    /// Conditions the prior on observations.
    ///
    /// # Errors
    /// As [`estimate`](Self::estimate).
    pub fn posterior(&self, compute: Compute, data: Observations) -> Result<CgPosterior> {
        let scope = Scope::new(compute)?;
        let system = self.system(&scope, &data.batch(&scope))?;
        let solver = &self.options.solver;
        let solution = cg(&system.covariance, Some(&system.preconditioner), &system.residual, solver)?;
        let solution = solution.converged("K̂⁻¹(y − m)", solver)?;
        let noise = data.noise(&scope, &self.likelihood)?;
        let (effort, preconditioner) = (solution.effort(), system.preconditioner);
        Ok(CgPosterior { model: self.clone(), compute, data, noise, preconditioner, weights: solution.x, effort })
    }
}

impl CgPosterior {
    /// The observations conditioned on.
    pub fn data(&self) -> &Observations {
        &self.data
    }

    /// The cost and the accuracy of the solve for the weights.
    pub fn effort(&self) -> Effort {
        self.effort
    }

    /// [`predict`](Posterior::predict), with the cost and the accuracy of its solves.
    ///
    /// # Errors
    /// As [`predict`](Posterior::predict), and [`Error::NotConverged`](crate::Error::NotConverged) when a solve misses
    /// the tolerance.
    pub fn predict_with_effort(&self, x: &[f64]) -> Result<(Marginals, Effort)> {
        let scope = Scope::new(self.compute)?;
        let (n, d) = (self.data.n(), self.data.d);
        let rows = (CHUNK_BYTES / (8 * n)).clamp(1, CHUNK_COLUMNS);
        let (mut all, mut effort) = (Marginals::default(), Effort::default());
        self.rows(x)?;
        for chunk in x.chunks(rows * d) {
            let (mean, cross) = self.means(&scope, chunk)?;
            let points = scope.rows(chunk, d);
            let prior = to_f64(self.model.prior.kernel.diag(&scope, &points)?)?;
            let solution = self.solve(&scope, &cross)?;
            effort = effort.and(solution.effort());
            all.extend(mean.into_iter(), &prior, &solution.quadratic_forms(&cross));
        }
        Ok((all, effort))
    }

    fn rows(&self, x: &[f64]) -> Result<usize> {
        posterior::rows(x, self.data.d)
    }

    /// Means at rows `x`, and k(X, x) `[n, rows]`.
    fn means(&self, scope: &Scope, x: &[f64]) -> Result<(Vec<f64>, Vec<f64>)> {
        let (n, d) = (self.data.n(), self.data.d);
        let points = scope.rows(x, d);
        let train = scope.matrix(&self.data.x, n, d);
        let cross = to_f64(self.model.prior.cross(scope, &train, &points).matrix()?)?;
        let mut mean = to_f64(self.model.prior.mean.at(scope, &points)?)?;
        let m = mean.len();
        product::add(view_mut(&mut mean, m), view(&self.weights, n), view(&cross, m), 1.0);
        Ok((mean, cross))
    }

    fn solve(&self, scope: &Scope, cross: &[f64]) -> Result<Solution> {
        let train = scope.rows(&self.data.x, self.data.d);
        let noise = scope.vector(&self.noise);
        let covariance = NoisyCovariance::new(&self.model.prior.kernel, scope, train, noise)?;
        let solver = &self.model.options.solver;
        cg(&covariance, Some(&self.preconditioner), cross, solver)?.converged("K̂⁻¹k(X, x*)", solver)
    }
}

impl Posterior for CgPosterior {
    fn predict(&self, x: &[f64]) -> Result<Marginals> {
        Ok(self.predict_with_effort(x)?.0)
    }

    fn served(&self, _factor: bool) -> Result<Served> {
        Ok(Served::refused(
            "each of its predictions solves with all rows by conjugate gradients, and what they give depends on where \
             they stop; fit `exact` with a stored factor, which has the same posterior, or `cagp` for many rows",
        ))
    }

    fn predict_joint(&self, x: &[f64]) -> Result<Joint> {
        let rows = self.rows(x)?;
        if rows == 0 {
            return Ok(Joint::default());
        }
        let scope = Scope::new(self.compute)?.widened();
        let (mean, cross) = self.means(&scope, x)?;
        let points = scope.matrix(x, rows, self.data.d);
        let mut covariance = to_f64(self.model.prior.covariance(&scope, &points).matrix()?)?;
        // Halves, so that adding the transpose makes every term exactly symmetric.
        let mut half = vec![0.0; rows * rows];
        // 2 BᵀX − XᵀK̂X = BᵀX + XᵀR, whose symmetric part is (B + R)ᵀX.
        let Solution { x, mut residual, .. } = self.solve(&scope, &cross)?;
        residual.iter_mut().zip(&cross).for_each(|(r, b)| *r += b);
        product::set(view_mut(&mut half, rows), view(&residual, rows).transpose(), view(&x, rows), 0.5);
        for i in 0..rows {
            for j in 0..rows {
                covariance[i * rows + j] -= half[i * rows + j] + half[j * rows + i];
            }
        }
        Ok(Joint { mean, covariance })
    }
}
