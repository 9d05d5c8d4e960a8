//! A low-rank approximation of K, from columns of K alone. It preconditions Newton steps, and it shows which directions
//! the data say most about.

use super::sites::Sites;
use crate::error::Result;
use crate::linalg::Factor;
use crate::linalg::dense::columns::combine;
use crate::linalg::dense::decompositions::Eigen;
use crate::linalg::dense::{product, view, view_mut};
use crate::models::cagp::evaluation::Evaluation;
use crate::solvers::blocks::scale_rows;
use crate::solvers::{NoisyCovariance, pivoted_cholesky};

/// Rows that are weighted at once.
const ROWS: usize = 4096;

/// The smallest eigenvalue of `LᵀWL` whose direction counts: data reduce the variance along it by this share.
const TOLD: f64 = 1e-4;

/// `K ≈ L Lᵀ` by partial Cholesky factorisation (Harbrecht, Peters and Schneider 2012), for each prior.
pub(super) struct LowRank {
    /// L, row-major `[n, r]`, and r: one for all latent functions, or one for each.
    factors: Vec<(Vec<f64>, usize)>,
    latents: usize,
}

impl LowRank {
    /// Of rank `rank` for each prior, or less if only rounding errors remain.
    ///
    /// # Errors
    /// What columns of K and their factorisation report.
    pub fn new(at: &Evaluation, rank: usize) -> Result<Self> {
        let of = |covariance: &NoisyCovariance| {
            let found = pivoted_cholesky(covariance, rank, 0.0)?;
            let rank = found.rank();
            Ok((found.lower, rank))
        };
        Ok(Self { factors: at.by_columns()?.iter().map(of).collect::<Result<_>>()?, latents: at.functions.0 })
    }

    fn of(&self, latent: usize) -> (&[f64], usize) {
        let (lower, rank) = &self.factors[latent.min(self.factors.len() - 1)];
        (lower, *rank)
    }

    /// `L_aᵀ diag(w) L_b` `[r, r]` of two latent functions.
    fn gram(&self, a: usize, b: usize, w: &[f64]) -> Vec<f64> {
        let ((left, rows), (right, columns)) = (self.of(a), self.of(b));
        let mut gram = vec![0.0; rows * columns];
        let parts = left.chunks(ROWS * rows.max(1)).zip(right.chunks(ROWS * columns.max(1))).zip(w.chunks(ROWS));
        for ((left, right), w) in parts {
            let mut weighted = right.to_vec();
            scale_rows(&mut weighted, w);
            product::add(view_mut(&mut gram, columns), view(left, rows).transpose(), view(&weighted, columns), 1.0);
        }
        gram
    }

    /// `I + LᵀWL` at sites, factorised: at most L r rows for L latent functions, with all that the curvature of sites
    /// says about pairs of latent functions: without it, classes take almost twice as many actions.
    ///
    /// # Errors
    /// What its factorisation reports.
    pub fn at(&self, sites: &Sites) -> Result<Factor<f64>> {
        let starts: Vec<usize> = (0..=self.latents).map(|l| (0..l).map(|k| self.of(k).1).sum()).collect();
        let order = starts[self.latents];
        let mut inner = vec![0.0; order * order];
        for a in 0..self.latents {
            for b in (0..=a).filter(|b| sites.centred || *b == a) {
                let (gram, columns) = (self.gram(a, b, &sites.coupling(a, b)), self.of(b).1);
                for (row, values) in gram.chunks_exact(columns.max(1)).enumerate() {
                    for (column, value) in values.iter().enumerate() {
                        let (i, j) = (starts[a] + row, starts[b] + column);
                        (inner[i * order + j], inner[j * order + i]) = (*value, *value);
                    }
                }
            }
        }
        inner.iter_mut().step_by(order + 1).for_each(|d| *d += 1.0);
        Factor::new(inner, "I + LᵀWL")
    }

    /// `(L Lᵀ + W⁻¹)⁻¹ W⁻¹ g = g − W L (I + LᵀWL)⁻¹ Lᵀ g`, which needs no `W⁻¹`.
    ///
    /// # Errors
    /// What the solve reports.
    pub fn preconditioned(&self, inner: &Factor<f64>, sites: &Sites, g: &[f64]) -> Result<Vec<f64>> {
        let n = sites.rows;
        let of = |l: usize| if self.of(l).1 == 0 { Vec::new() } else { combine(self.of(l).0, &g[l * n..][..n]) };
        let mut known: Vec<f64> = (0..self.latents).flat_map(of).collect();
        inner.solve(&mut known)?;
        let (mut spread, mut known) = (vec![0.0; g.len()], &known[..]);
        for (l, part) in spread.chunks_exact_mut(n).enumerate() {
            let (lower, rank) = self.of(l);
            let (own, rest) = known.split_at(rank);
            if rank > 0 {
                product::set(view_mut(part, 1), view(lower, rank), view(own, 1), 1.0);
            }
            known = rest;
        }
        Ok(g.iter().zip(sites.curved(&spread)).map(|(g, known)| g - known).collect())
    }

    /// For each prior, at most `count` directions x `[n]`, those first that the data say most about: `diag(w) L u` for
    /// the eigenvectors u of `Lᵀ diag(w) L` with the largest eigenvalues, where w is the sum of the curvatures of the
    /// prior's latent functions.
    ///
    /// # Errors
    /// [`Error::NotFinite`] if there are no eigenvalues.
    pub fn directions(&self, sites: &Sites, count: usize) -> Result<Vec<Vec<Vec<f64>>>> {
        let each = if self.factors.len() == 1 { self.latents } else { 1 };
        let of = |prior: usize| {
            let (lower, rank) = self.of(prior);
            let mut w = vec![0.0; sites.rows];
            for l in prior..prior + each {
                w.iter_mut().zip(sites.coupling(l, l)).for_each(|(sum, own)| *sum += own);
            }
            if rank == 0 {
                return Ok(Vec::new());
            }
            let gram = self.gram(prior, prior, &w);
            let eigen = Eigen::new(&gram, rank, "LᵀWL")?;
            let direction = |(_, u): (f64, &[f64])| {
                let mut x = vec![0.0; w.len()];
                product::set(view_mut(&mut x, 1), view(lower, rank), view(u, 1), 1.0);
                x.iter_mut().zip(&w).for_each(|(x, w)| *x *= w);
                x
            };
            Ok(eigen.pairs().rev().take(count).take_while(|(value, _)| *value > TOLD).map(direction).collect())
        };
        (0..self.factors.len()).map(of).collect()
    }
}
