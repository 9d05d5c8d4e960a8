//! The error of a combination as a linear predictor of f, under the prior.
//!
//! The combined mean is wᵀt with targets t and `w = A φ`, where φ = (c_l B_l⁻¹ a_l(x*)) stacks all grids. Its error is
//! `k** − 2 wᵀk* + wᵀK̂w` with everything divided by σ_n. Beside k*, the error depends on the rows only through H = A
//! K̂ Aᵀ, which is computed once.

use burn::tensor::Tensor;

use super::basis::{Basis, Rows};
use crate::error::Result;
use crate::linalg::dense::{product, view, view_mut};
use crate::products::{Covariance, Cross};
use crate::scope::{Scope, to_f64};
use crate::solvers::blocks::{scale, scale_rows};

/// H = A (W^½ K W^½ + I) Aᵀ `[total, total]`: n² (total + 1) operations, memory of two panels of rows.
pub(super) fn products_of_rows(basis: &Basis, rows: &Rows) -> Result<Vec<f64>> {
    let (total, scope, panels) = (basis.total(), Scope::new(basis.compute)?, rows.panels(basis));
    let mut h = vec![0.0; total * total];
    for own in &panels {
        let a = rows.features(basis, own)?;
        let x = basis.tensor(&scope, rows.x(own));
        // A K̂ of these columns. It starts with A, the term of the noise.
        let mut ak = a.clone();
        for other in &panels {
            let b = if own == other { a.clone() } else { rows.features(basis, other)? };
            let mut k = covariance(basis, &scope, rows.x(other), &x, own == other)?;
            scale(&mut k, &rows.roots[other.clone()], &rows.roots[own.clone()]);
            product::add(view_mut(&mut ak, own.len()), view(&b, other.len()), view(&k, own.len()), 1.0);
        }
        product::add(view_mut(&mut h, total), view(&ak, own.len()), view(&a, own.len()).transpose(), 1.0);
    }
    // Both triangles are equal up to rounding. Make them exactly equal.
    for i in 0..total {
        for j in 0..i {
            let mean = 0.5 * (h[i * total + j] + h[j * total + i]);
            (h[i * total + j], h[j * total + i]) = (mean, mean);
        }
    }
    Ok(h)
}

/// A W^½ `[total, n]`.
pub(super) fn features_of_rows(basis: &Basis, rows: &Rows) -> Result<Vec<f64>> {
    let n = rows.roots.len();
    let mut all = vec![0.0; basis.total() * n];
    for panel in rows.panels(basis) {
        let mut a = rows.features(basis, &panel)?;
        scale(&mut a, &vec![1.0; basis.total()], &rows.roots[panel.clone()]);
        for (to, from) in all.chunks_exact_mut(n).zip(a.chunks_exact(panel.len())) {
            to[panel.clone()].copy_from_slice(from);
        }
    }
    Ok(all)
}

/// A W^½ k(X, x*) `[total, t]`.
pub(super) fn with_rows(basis: &Basis, rows: &Rows, x: &[f64]) -> Result<Vec<f64>> {
    let (scope, t) = (Scope::new(basis.compute)?, x.len() / basis.d());
    let points = basis.tensor(&scope, x);
    let mut sums = vec![0.0; basis.total() * t];
    for panel in rows.panels(basis) {
        let a = rows.features(basis, &panel)?;
        let mut k = covariance(basis, &scope, rows.x(&panel), &points, false)?;
        scale_rows(&mut k, &rows.roots[panel.clone()]);
        product::add(view_mut(&mut sums, t), view(&a, panel.len()), view(&k, t), 1.0);
    }
    Ok(sums)
}

/// Covariances of rows with others, or with themselves if `same`.
fn covariance(basis: &Basis, scope: &Scope, x: &[f64], others: &Tensor<2>, same: bool) -> Result<Vec<f64>> {
    let kernel = &basis.prior.kernel;
    match same {
        true => to_f64(Covariance::new(kernel, scope, others).matrix_wide()?),
        false => to_f64(Cross::new(kernel, scope, &basis.tensor(scope, x), others).matrix_wide()?),
    }
}
