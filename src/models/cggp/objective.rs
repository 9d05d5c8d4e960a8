//! The negative log marginal likelihood by solves and probes, and a surrogate whose gradient estimates the likelihood's
//! gradient.

use std::f64::consts::TAU;

use burn::tensor::Tensor;

use super::{Batch, CgGp, System};
use crate::device::Compute;
use crate::error::Result;
use crate::linalg::dense::{product, solve, view, view_mut};
use crate::models::Model;
use crate::scope::Scope;
use crate::solvers::cg::{Effort, cg};
use crate::solvers::covariance::nugget;
use crate::solvers::log_det::log_moment;
use crate::solvers::{LinearOperator, LogDet, blocks};

/// The objective at one point of the parameters, and the numbers that its gradient needs.
#[derive(Debug, Clone)]
pub struct Estimate {
    /// −log p(y), estimated.
    pub value: f64,
    /// The standard error of the value, due to the probes.
    pub standard_error: f64,
    /// log|K̂| with its samples.
    pub log_det: LogDet,
    /// The cost and the accuracy of the solves.
    pub effort: Effort,
    /// α = K̂⁻¹(y − m).
    alpha: Vec<f64>,
    /// U and W of the trace of Uᵀ K̂ W, row-major `[n, 1 + p]`.
    left: Vec<f64>,
    right: Vec<f64>,
    control: Control,
}

/// The weights of `tr(A P)`, `A = P⁻¹ − (1/p) Σ w wᵀ`: adds the preconditioner's exact gradient and subtracts its
/// estimate.
#[derive(Debug, Clone)]
struct Control {
    pivots: Vec<usize>,
    /// Weights of k(X, X_p), row-major `[n, r]`.
    cross: Vec<f64>,
    /// Weights of k(X_p, X_p), row-major `[r, r]`.
    pivotal: Vec<f64>,
    /// Weights of the diagonal `[n]`.
    diagonal: Vec<f64>,
    white: bool,
}

impl CgGp {
    /// The objective, its standard error and the effort it took.
    ///
    /// # Errors
    /// [`NotConverged`](crate::Error::NotConverged) when a solve misses the tolerance,
    /// [`NotFinite`](crate::Error::NotFinite) and [`NotPositiveDefinite`](crate::Error::NotPositiveDefinite) when K̂ is
    /// not finite or not positive definite.
    pub fn estimate(&self, compute: Compute, batch: &Batch) -> Result<Estimate> {
        let scope = Scope::new(compute)?;
        let rows = batch.rows()?;
        let (n, system) = (rows.n(), self.system(&scope, &rows.batch(&scope))?);
        let (options, preconditioner) = (&self.options, &system.preconditioner);
        let white = options.probes.block(n, options.count.max(1), options.seed);
        let p = white.len() / n;
        let joined = |first: &[f64], rest: &[f64], factor: f64| -> Vec<f64> {
            let rows = first.iter().zip(rest.chunks_exact(p));
            rows.flat_map(|(a, row)| std::iter::once(*a).chain(row.iter().map(move |x| factor * x))).collect()
        };
        let b = joined(&system.residual, &preconditioner.colour(&white)?, 1.0);
        let solution = cg(&system.covariance, Some(preconditioner), &b, &options.solver)?;
        let solution = solution.converged("K̂⁻¹(y − m) and probes", &options.solver)?;

        let quadratic = solution.quadratic_forms(&b)[0];
        let squares = blocks::dots(&white, &white, p);
        let moments = solution.columns[1..].iter().map(|c| log_moment(&c.tridiagonal));
        let samples = moments.zip(squares).map(|(m, square)| Ok(square * m?)).collect::<Result<_>>()?;
        let log_det = LogDet::new(preconditioner.log_det(), samples, options.probes);

        let w = preconditioner.whiten_transposed(&white)?;
        let alpha = blocks::gather(&solution.x, p + 1, &[0]);
        let u = blocks::gather(&solution.x, p + 1, &(1..=p).collect::<Vec<_>>());
        let negated: Vec<f64> = alpha.iter().map(|a| -a).collect();
        Ok(Estimate {
            value: 0.5 * (quadratic + log_det.value + n as f64 * TAU.ln()),
            standard_error: 0.5 * log_det.standard_error,
            effort: solution.effort(),
            left: joined(&negated, &u, 1.0 / p as f64),
            right: joined(&alpha, &w, 1.0),
            control: Control::new(&system, &w, p)?,
            alpha,
            log_det,
        })
    }

    /// A scalar whose gradient estimates that of the objective: (y − m)ᵀα + ½ tr(Uᵀ K̂ W) + ½ tr(A P). Everything
    /// except the mean, K̂ and P is fixed at the estimate's numbers.
    ///
    /// # Errors
    /// What the kernel reports.
    pub fn surrogate(&self, scope: &Scope, batch: &Batch, estimate: &Estimate) -> Result<Tensor<1>> {
        let n = batch.y.dims()[0];
        let t = estimate.left.len() / n;
        let (left, right) = (scope.matrix(&estimate.left, n, t), scope.matrix(&estimate.right, n, t));
        let residual = self.prior.residuals(scope, batch)?;
        let noise = batch.noise(scope, &self.likelihood);
        let rows = (left.clone() * right.clone()).sum_dim(1).squeeze_dim::<1>(1);
        let mut twice =
            (self.prior.covariance(scope, &batch.x).times(&right)? * left).sum() + (noise.clone() * rows).sum();

        let Control { pivots, cross, pivotal, diagonal, white } = &estimate.control;
        let diagonal = scope.vector(diagonal);
        twice = twice + (noise * diagonal.clone()).sum();
        if *white {
            twice = twice + (nugget(&self.prior.kernel, scope, &batch.x)? * diagonal).sum();
        }
        if !pivots.is_empty() {
            let r = pivots.len();
            let points = batch.x.clone().select(0, scope.indices(pivots));
            let whole = self.prior.cross(scope, &batch.x, &points).matrix()?;
            let corner = self.prior.cross(scope, &points, &points).matrix()?;
            twice =
                twice + (whole * scope.matrix(cross, n, r)).sum() * 2.0 - (corner * scope.matrix(pivotal, r, r)).sum();
        }
        Ok((residual * scope.vector(&estimate.alpha)).sum() + twice * 0.5)
    }
}

impl Model for CgGp {
    fn objective(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
        batch.check(scope)?;
        let estimate = self.estimate(scope.compute(), batch)?;
        let surrogate = self.surrogate(scope, batch, &estimate)?;
        Ok(surrogate.clone() - surrogate.detach() + estimate.value)
    }
}

impl Control {
    /// With `M = k(X, X_p) k(X_p, X_p)⁻¹ = L L_p⁻¹`, the derivative of `tr(A P)` is that of `2 tr((A M)ᵀ k(X, X_p)) −
    /// tr(MᵀA M k(X_p, X_p)) + tr(A D)`; `w` holds the `p` vectors `P⁻¹z`.
    fn new(system: &System, w: &[f64], p: usize) -> Result<Self> {
        let preconditioner = &system.preconditioner;
        let r = system.factor.rank();
        let rows = w.chunks_exact(p).map(|row| row.iter().map(|x| x * x).sum::<f64>() / p as f64);
        let diagonal = preconditioner.inverse_diagonal().into_iter().zip(rows).map(|(a, b)| a - b).collect();
        let (pivots, white) = (system.factor.pivots.clone(), system.white);
        if r == 0 {
            return Ok(Self { pivots, cross: Vec::new(), pivotal: Vec::new(), diagonal, white });
        }
        let lower = &system.factor.lower;
        let corner: Vec<f64> = pivots.iter().flat_map(|&i| lower[i * r..][..r].iter().copied()).collect();
        let mut m = lower.clone();
        solve::upper(view(&corner, r).transpose(), view_mut(&mut m, r).transpose_mut());
        let mut cross = preconditioner.apply(&m)?;
        let mut shares = vec![0.0; p * r];
        product::set(view_mut(&mut shares, r), view(w, p).transpose(), view(&m, r), 1.0);
        product::add(view_mut(&mut cross, r), view(w, p), view(&shares, r), -1.0 / p as f64);
        let mut pivotal = vec![0.0; r * r];
        product::set(view_mut(&mut pivotal, r), view(&m, r).transpose(), view(&cross, r), 1.0);
        Ok(Self { pivots, cross, pivotal, diagonal, white })
    }
}
