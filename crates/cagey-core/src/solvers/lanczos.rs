//! Lanczos tridiagonalisation with full re-orthogonalisation.

use rayon::prelude::*;

use super::{LinearOperator, Tridiagonal, blocks};
use crate::error::{Error, Result};
use crate::threads;

/// `Qᵀ A Q = T` on the Krylov space of one start vector.
#[derive(Debug, Clone, PartialEq)]
pub struct Krylov {
    /// `T`, of order `m`.
    pub tridiagonal: Tridiagonal,
    /// `Qᵀ`: the orthonormal basis in rows, row-major `[m, n]`. Its first row is the start vector over its norm.
    pub basis: Vec<f64>,
    /// The norm of the start vector.
    pub norm: f64,
    /// Whether the space is invariant under `A`, so that more steps would add nothing.
    pub invariant: bool,
}

/// Up to `steps` steps of the Lanczos iteration from each column of `starts [n, t]`, with common products.
///
/// Each new vector is orthogonalised twice against all earlier ones. A run ends early, with a smaller `T`, when its
/// Krylov space is invariant up to rounding.
///
/// # Errors
/// [`Error::Usage`] when a start vector is zero, [`Error::Shape`], [`Error::NotFinite`] when a start vector or a
/// product is not finite.
pub fn lanczos(a: &dyn LinearOperator, starts: &[f64], steps: usize) -> Result<Vec<Krylov>> {
    let n = a.order();
    let t = blocks::columns("start vectors", starts, n)?;
    let norms = blocks::norms(starts, t);
    for (c, norm) in norms.iter().enumerate() {
        if *norm == 0.0 {
            return Err(Error::Usage(format!("start vector {c} of the Lanczos iteration is zero")));
        }
        if !norm.is_finite() {
            return Err(Error::NotFinite(format!("start vector {c} of the Lanczos iteration")));
        }
    }
    let mut runs: Vec<Run> = (0..t)
        .map(|c| Run {
            krylov: Krylov { tridiagonal: Tridiagonal::default(), basis: Vec::new(), norm: norms[c], invariant: false },
            next: starts.iter().skip(c).step_by(t).map(|x| x / norms[c]).collect(),
            beta: None,
            size: 0.0,
        })
        .collect();
    let rounding = n as f64 * a.epsilon();
    for step in 0..steps.min(n) {
        let mut running: Vec<&mut Run> = runs.iter_mut().filter(|run| !run.krylov.invariant).collect();
        if running.is_empty() {
            break;
        }
        let block: Vec<f64> = (0..n).flat_map(|i| running.iter().map(move |run| run.next[i])).collect();
        let product = blocks::transposed(&blocks::apply(a, &block)?, running.len());
        let columns = product.par_chunks_exact(n);
        threads::for_each(running.par_iter_mut().zip(columns), |(run, w)| run.advance(w, rounding, step + 1 == n));
    }
    Ok(runs.into_iter().map(|run| run.krylov).collect())
}

struct Run {
    krylov: Krylov,
    /// The unit vector for the next product.
    next: Vec<f64>,
    /// The entry of `T` that connects `next` to the basis.
    beta: Option<f64>,
    /// A lower bound on ‖A‖.
    size: f64,
}

impl Run {
    fn advance(&mut self, product: &[f64], rounding: f64, last: bool) {
        let n = product.len();
        let Krylov { tridiagonal, basis, invariant, .. } = &mut self.krylov;
        let alpha = dot(&self.next, product);
        tridiagonal.off_diagonal.extend(self.beta);
        tridiagonal.diagonal.push(alpha);
        basis.append(&mut self.next);
        self.size = self.size.max(dot(product, product).sqrt());
        let mut w = product.to_vec();
        for _ in 0..2 {
            for q in basis.chunks_exact(n) {
                let share = dot(q, &w);
                w.iter_mut().zip(q).for_each(|(w, q)| *w -= share * q);
            }
        }
        let beta = dot(&w, &w).sqrt();
        *invariant = last || beta <= rounding * self.size;
        self.beta = Some(beta);
        self.next = w.into_iter().map(|w| w / beta).collect();
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    blocks::dots(a, b, 1)[0]
}
