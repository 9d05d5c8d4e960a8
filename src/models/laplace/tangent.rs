//! Solutions with the Hessian itself, for likelihoods whose curvature differs from it.

use super::mode::Task;
use super::system::System;
use crate::error::Result;
use crate::linalg::dense::decompositions;
use crate::linalg::real::dot;
use crate::solvers::blocks::{add_scaled, scale_add};

/// `I + H K` for the negative Hessian `H` of the log density in all latent values, which may have any sign. Its order
/// is Ln.
pub(super) struct Tangent<'a> {
    task: &'a Task<'a>,
    /// `[n, L, L]`.
    hessians: &'a [f64],
}

/// What conjugate gradients found.
pub(super) struct Solved {
    /// The solution, or the minimum over the directions before the end.
    pub x: Vec<f64>,
    /// The direction at which `K⁻¹ + H` is not positive, if there was one.
    pub bend: Option<Vec<f64>>,
    /// Whether x is the solution.
    pub whole: bool,
}

/// Most steps of conjugate gradients.
const STEPS: usize = 100;

impl<'a> Tangent<'a> {
    pub fn new(task: &'a Task, hessians: &'a [f64]) -> Self {
        Self { task, hessians }
    }

    /// `H h`.
    fn times(&self, h: &[f64]) -> Vec<f64> {
        let (n, latents) = (self.task.n(), self.task.density.latents());
        let entry = |place: usize| {
            let row = &self.hessians[(place % n * latents + place / n) * latents..][..latents];
            row.iter().enumerate().map(|(b, c)| c * h[b * n + place % n]).sum()
        };
        (0..h.len()).map(entry).collect()
    }

    /// `x = (I + H K)⁻¹ b` by conjugate gradients for `(K⁻¹ + H) K x = b`, preconditioned by `K⁻¹ + W` for the
    /// curvature W of a system. Each direction is kept with K⁻¹ of it, which is never applied. Ends when the error, in
    /// the norm of the preconditioner, is about this share of x; or after some steps, or at a direction in which
    /// `K⁻¹ + H` is not positive, as it is at a mode (Steihaug 1983).
    pub fn solve(&self, system: &System, b: &[f64], tolerance: f64) -> Result<Solved> {
        let (mut x, mut r) = (vec![0.0; b.len()], b.to_vec());
        // Directions p of K x, with K⁻¹p.
        let (mut p, mut weights) = (vec![0.0; b.len()], vec![0.0; b.len()]);
        let (mut first, mut size) = (None, 0.0);
        for _ in 0..STEPS {
            let q = system.solve(&r)?;
            let z = self.task.gram.apply(&q);
            let next = dot(&r, &z);
            if next <= tolerance * tolerance * *first.get_or_insert(next) {
                return Ok(Solved { x, bend: None, whole: true });
            }
            let beta = if size > 0.0 { next / size } else { 0.0 };
            size = next;
            scale_add(&mut weights, &[beta], &q);
            scale_add(&mut p, &[beta], &z);
            let pushed: Vec<f64> = self.times(&p).iter().zip(&weights).map(|(h, w)| h + w).collect();
            let bend = dot(&p, &pushed);
            if bend.is_nan() || bend <= 0.0 {
                return Ok(Solved { x, bend: Some(weights), whole: false });
            }
            add_scaled(&mut x, &[size / bend], &weights);
            add_scaled(&mut r, &[-size / bend], &pushed);
        }
        Ok(Solved { x, bend: None, whole: false })
    }

    /// The same by a factorisation, whatever the signs are.
    pub fn solve_directly(&self, b: &[f64]) -> Vec<f64> {
        let (n, latents) = (self.task.n(), self.task.density.latents());
        let entry = |row: usize, column: usize| {
            let ((a, i), (b, j)) = ((row / n, row % n), (column / n, column % n));
            let h = self.hessians[(i * latents + a) * latents + b];
            f64::from(u8::from(row == column)) + h * self.task.gram.of(b)[i * n + j]
        };
        let (order, mut x) = (latents * n, b.to_vec());
        let matrix: Vec<f64> = (0..order * order).map(|e| entry(e / order, e % order)).collect();
        decompositions::solve(&matrix, &mut x, 1);
        x
    }
}
