//! Newton's method with the Hessian itself, for likelihoods whose curvature differs from it.

use faer::Mat;
use faer::linalg::solvers::{PartialPivLu, Solve};

use super::mode::Task;
use crate::linalg::dense::registers;

/// `I + H K` for the negative Hessian `H` of the log density in all latent values, which may have any sign. Its order
/// is Ln.
pub(super) struct Tangent {
    /// `[n, L, L]`.
    hessians: Vec<f64>,
    factor: PartialPivLu<f64>,
}

impl Tangent {
    pub fn new(task: &Task, f: &[f64]) -> Self {
        let (n, latents) = (task.rows.len(), task.density.latents());
        let mut hessians = vec![0.0; n * latents * latents];
        let mut gradient = vec![0.0; latents];
        for ((row, f), hessian) in task.at(f).zip(hessians.chunks_exact_mut(latents * latents)) {
            task.density.derivatives(row, &f, &mut gradient, hessian);
            hessian.iter_mut().for_each(|h| *h = -*h);
        }
        let entry = |row: usize, column: usize| {
            let ((a, i), (b, j)) = ((row / n, row % n), (column / n, column % n));
            f64::from(u8::from(row == column)) + hessians[(i * latents + a) * latents + b] * task.gram.of(b)[i * n + j]
        };
        let factor = Mat::from_fn(latents * n, latents * n, entry).partial_piv_lu();
        registers::clear();
        Self { hessians, factor }
    }

    /// `H h + g`.
    pub fn pseudo_target(&self, h: &[f64], gradient: &[f64]) -> Vec<f64> {
        let latents = (self.hessians.len() / h.len()).max(1);
        let n = h.len() / latents;
        let entry = |(place, g): (usize, &f64)| {
            let row = &self.hessians[(place % n * latents + place / n) * latents..][..latents];
            g + row.iter().enumerate().map(|(b, c)| c * h[b * n + place % n]).sum::<f64>()
        };
        gradient.iter().enumerate().map(entry).collect()
    }

    /// `(I + H K)⁻¹ b`.
    pub fn solve(&self, b: Vec<f64>) -> Vec<f64> {
        let mut b = Mat::from_fn(b.len(), 1, |row, _| b[row]);
        self.factor.solve_in_place(b.as_mut());
        registers::clear();
        b.col(0).iter().copied().collect()
    }
}
