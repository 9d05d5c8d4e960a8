//! Leaves rows out of a posterior through actions. The actions of the other rows stay as they are.
//!
//! Let s be row i of S, h = SᵀK̂eᵢ and k = K̂ᵢᵢ. Without row i, the Gram matrix is M̂ − s hᵀ − h sᵀ + k s sᵀ, the
//! projected data are Sᵀr − s rᵢ and the projected covariances with row i are w = h − k s. This is a change of rank
//! two, so it costs O(i²) a row (Woodbury). If a combination of actions uses row i only, the Gram matrix becomes
//! singular. Noise of ε k, which carries no information, replaces the row then.

use super::CagpPosterior;
use crate::error::Result;
use crate::linalg::real::dot;
use crate::models::Observations;
use crate::models::leave_one_out::LeaveOneOut;
use crate::models::posterior::Marginals;
use crate::scope::{Scope, to_f64};
use crate::solvers::blocks::transposed;

/// Rows processed at once.
const CHUNK: usize = 1024;
/// The noise that replaces a row, as a share of the row's variance.
const NOTHING: f64 = 1e-9;

impl LeaveOneOut for CagpPosterior {
    fn left_out(&self, data: &Observations) -> Result<Marginals> {
        let scope = Scope::new(self.compute)?;
        let (n, d, i) = (data.n(), data.d, self.actions());
        let (noise, actions) = (to_f64(self.noise(&scope, data)?)?, self.numbers()?);
        let mut projected = self.small.projected.clone();
        self.small.factor.solve_lower(&mut projected)?;
        let mut all = Marginals::default();
        for (first, chunk) in (0..n).step_by(CHUNK).zip(data.x.chunks(CHUNK * d)) {
            let rows = chunk.len() / d;
            let points = scope.matrix(chunk, rows, d);
            let [mut crosses, mut means] = self.project(&scope, &points)?;
            let (cross, prior_mean) = (crosses.swap_remove(0), means.swap_remove(0));
            let prior = to_f64(self.prior().covariance(&scope, &points).diagonal_wide()?)?;
            // L⁻¹h and L⁻¹s for each row.
            let own: Vec<f64> =
                (first..first + rows).flat_map(|row| actions.iter().flat_map(move |part| part.row(row))).collect();
            let mut s = transposed(&own, i);
            let mut h: Vec<f64> =
                cross.iter().zip(&s).enumerate().map(|(e, (k, s))| k + noise[first + e % rows] * s).collect();
            self.small.factor.solve_lower(&mut h)?;
            self.small.factor.solve_lower(&mut s)?;
            let (h, s) = (transposed(&h, rows), transposed(&s, rows));
            for (r, (h, s)) in h.chunks_exact(i).zip(s.chunks_exact(i)).enumerate() {
                let (k, residual) = (prior[r] + noise[first + r], data.y[first + r] - prior_mean[r]);
                let (ss, sh, hh) = (dot(s, s), dot(s, h), dot(h, h));
                let (sp, hp) = (dot(s, &projected), dot(h, &projected));
                let of_w = [sh - k * ss, hh - k * sh];
                let of_data = [sp - ss * residual, hp - sh * residual];
                let inner = [[ss, sh - 1.0], [sh - 1.0, hh - k * (1.0 + NOTHING)]];
                let determinant = inner[0][0] * inner[1][1] - inner[0][1] * inner[1][0];
                let solved = |v: [f64; 2]| {
                    [
                        (inner[1][1] * v[0] - inner[0][1] * v[1]) / determinant,
                        (inner[0][0] * v[1] - inner[1][0] * v[0]) / determinant,
                    ]
                };
                let lowered = |v: [f64; 2]| dot(&of_w, &solved(v));
                // A row that no action uses changes nothing.
                let (square, shift) = if ss > 0.0 { (lowered(of_w), lowered(of_data)) } else { (0.0, 0.0) };
                let explained = hh - 2.0 * k * sh + k * k * ss - square;
                all.mean.push(prior_mean[r] + hp - k * sp - (sh - k * ss) * residual - shift);
                let variance = k - explained;
                all.floored += usize::from(variance < noise[first + r]);
                all.variance.push(if variance < noise[first + r] { noise[first + r] } else { variance });
            }
        }
        Ok(all)
    }

    /// Block actions have sorted the rows.
    fn in_order(&self) -> bool {
        false
    }
}
