//! What the approximation of single rows by normal distributions leaves out of the evidence.
//!
//! With `t` a row's density, `t̃` its second-order expansion around the mode and `q` the approximate posterior, the
//! evidence is `q(y) E_q[Π t/t̃]`. The first-order correction replaces the average of the product by the product of the
//! rows' averages (Cseke and Heskes 2011, *Approximate marginals in latent Gaussian models*; Opper, Paquet and Winther
//! 2013, *Perturbative corrections for approximate inference in Gaussian latent variable models*). It is exact for rows
//! that are independent of each other. Without it, the evidence of rare classes is far too high where a large variance
//! and a short lengthscale make all rows independent.

use rayon::prelude::*;

use super::mode::Task;
use crate::likelihoods::{Density, Row};
use crate::threads;

/// Nodes of a row's integral, which is smooth and vanishes at both ends.
const NODES: usize = 160;

/// Rows that one task integrates.
const ROWS: usize = 16;

/// Where the integrand has fallen by this exponent, the integral ends.
const END: f64 = 34.0;

/// A row at its mode, with the marginal variance of q there.
struct Site<'a> {
    density: &'a dyn Density,
    row: Row,
    f: f64,
    variance: f64,
    value: f64,
    gradient: f64,
    curvature: f64,
}

/// `ln E_q[t/t̃]` of a row, with its slopes.
#[derive(Debug, Clone, Default)]
pub(super) struct Correction {
    pub value: f64,
    /// In the variance, while f stays.
    pub in_variance: f64,
    /// In f, while the variance stays.
    pub in_f: f64,
    /// In the likelihood's own parameters.
    pub own: Vec<f64>,
}

impl Site<'_> {
    /// `ln(t/t̃) + ln q` at a distance from the mode, without the normaliser of q.
    fn exponent(&self, by: f64) -> f64 {
        let rest = self.density.log_density(self.row, &[self.f + by]) - self.value - self.gradient * by;
        rest + 0.5 * (self.curvature - self.variance.recip()) * by * by
    }

    /// How far from the mode the integrand ends.
    fn end(&self, direction: f64) -> f64 {
        let mut by = direction * 4.0 * self.variance.sqrt();
        for _ in 0..40 {
            if self.exponent(by) < -END {
                break;
            }
            by *= 1.4;
        }
        by
    }

    /// The correction, and on request its slopes in `own` parameters.
    fn correction(&self, own: usize) -> Correction {
        let Self { density, row, f, variance, .. } = *self;
        let (low, high) = (self.end(-1.0), self.end(1.0));
        let step = (high - low) / NODES as f64;
        let nodes = (1..NODES).map(|node| low + node as f64 * step);
        let nodes: Vec<(f64, f64)> = nodes.map(|by| (by, self.exponent(by).exp())).collect();
        let total: f64 = nodes.iter().map(|(_, weight)| weight).sum();
        let value = (total * step).ln() - 0.5 * (std::f64::consts::TAU * variance).ln();
        let (mut bend, mut gradient, mut hessian) = ([0.0], [0.0], [0.0]);
        let mut own_bend = vec![0.0; own];
        density.add_curvature_slopes(row, &[f], &[1.0], &mut bend, &mut own_bend);
        let mut found = Correction { value, own: vec![0.0; own], ..Correction::default() };
        let (mut first, mut second) = (0.0, 0.0);
        for (by, weight) in nodes {
            let share = weight / total;
            (first, second) = (first + share * by, second + share * by * by);
            density.derivatives(row, &[f + by], &mut gradient, &mut hessian);
            found.in_f += share * gradient[0];
            if own > 0 {
                density.add_own_gradient(row, &[f + by], share, &mut found.own);
            }
        }
        found.in_f += self.curvature * first + 0.5 * bend[0] * second - self.gradient;
        found.in_variance = 0.5 * (second / variance - 1.0) / variance;
        if own > 0 {
            density.add_own_gradient(row, &[f], -1.0, &mut found.own);
            density.add_pull_slopes(row, &[f], &[-first], &mut found.own);
            found.own.iter_mut().zip(own_bend).for_each(|(own, bend)| *own += 0.5 * second * bend);
        }
        found
    }
}

impl Task<'_> {
    /// Whether evidence can be corrected: one latent function, and curvatures that are those of the density.
    pub fn is_corrected(&self) -> bool {
        self.density.latents() == 1 && self.density.is_log_concave()
    }

    /// The corrections of all rows at the mode `f` with marginal variances `[n]`, and their slopes in `own` parameters.
    pub fn corrections(&self, f: &[f64], variances: &[f64], own: usize) -> Vec<Correction> {
        let of = |((row, f), variance): ((&Row, &f64), &f64)| {
            let (mut gradient, mut hessian) = ([0.0], [0.0]);
            let value = self.density.derivatives(*row, &[*f], &mut gradient, &mut hessian);
            let [gradient, curvature] = [gradient[0], (-hessian[0]).max(0.0)];
            let site =
                Site { density: self.density, row: *row, f: *f, variance: *variance, value, gradient, curvature };
            site.correction(own)
        };
        let rows = self.rows.par_chunks(ROWS).zip(f.par_chunks(ROWS)).zip(variances.par_chunks(ROWS));
        let parts =
            threads::map(rows, |((rows, f), variances)| rows.iter().zip(f).zip(variances).map(of).collect::<Vec<_>>());
        parts.concat()
    }
}
