//! The preconditioner "low rank plus diagonal" (Gardner, Pleiss, Bindel, Weinberger and Wilson 2018, section 4.1).

use super::{LinearOperator, blocks};
use crate::error::{Error, Result};
use crate::linalg::dense::decompositions::singular;
use crate::linalg::dense::{product, view, view_mut};

/// `P = L Lᵀ + D` with a positive diagonal `D`, applied as `P⁻¹`.
///
/// The singular values of `D^{-½} L = U diag(s) Vᵀ` give `P = C Cᵀ` with the root
/// `C = D^½ (I + U diag(√(1 + s²) − 1) Uᵀ)`. This is the Woodbury identity in the basis where the inner matrix is
/// diagonal. As a product of roots it stays positive definite. The textbook form becomes indefinite by cancellation if
/// the noise is small.
#[derive(Debug, Clone)]
pub struct Preconditioner {
    /// √D.
    root: Vec<f64>,
    /// `U`, row-major `[n, r]`.
    basis: Vec<f64>,
    /// `s² [r]`.
    squares: Vec<f64>,
}

impl Preconditioner {
    /// From `lower`, row-major `[n, r]`, and the diagonal `[n]`.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Usage`] when an entry of the diagonal is not positive, [`Error::NotFinite`] when the
    /// singular values cannot be computed.
    pub fn new(lower: &[f64], diagonal: &[f64]) -> Result<Self> {
        let n = diagonal.len();
        let rank = blocks::columns("low-rank factor of the preconditioner", lower, n)?;
        if let Some(i) = diagonal.iter().position(|d| !(*d > 0.0 && d.is_finite())) {
            let d = diagonal[i];
            return Err(Error::Usage(format!("noise variance {d} of row {i}: a preconditioner needs positive ones")));
        }
        let root: Vec<f64> = diagonal.iter().map(|d| d.sqrt()).collect();
        let mut scaled = lower.to_vec();
        blocks::scale_rows(&mut scaled, &root.iter().map(|d| 1.0 / d).collect::<Vec<_>>());
        if rank == 0 {
            return Ok(Self { root, basis: Vec::new(), squares: Vec::new() });
        }
        let failed = || Error::NotFinite(format!("the singular values of the preconditioner [{n}, {rank}]"));
        if !scaled.iter().all(|x| x.is_finite()) {
            return Err(failed());
        }
        let (basis, values) = singular(&scaled, rank).ok_or_else(failed)?;
        Ok(Self { root, basis, squares: values.iter().map(|s| s * s).collect() })
    }

    /// `log|P|`.
    pub fn log_det(&self) -> f64 {
        2.0 * self.root.iter().map(|d| d.ln()).sum::<f64>() + self.squares.iter().map(|s| s.ln_1p()).sum::<f64>()
    }

    /// The diagonal of `P⁻¹`.
    pub fn inverse_diagonal(&self) -> Vec<f64> {
        let shares: Vec<f64> = self.squares.iter().map(|s| s / (1.0 + s)).collect();
        let explained = |i: usize| -> f64 {
            let row = &self.basis[i * shares.len()..][..shares.len()];
            row.iter().zip(&shares).map(|(u, share)| u * u * share).sum()
        };
        self.root.iter().enumerate().map(|(i, d)| (1.0 - explained(i)) / (d * d)).collect()
    }

    /// `C V`, where `P = C Cᵀ`, for `v [n, t]`.
    ///
    /// # Errors
    /// [`Error::Shape`] when `v` does not have `n` rows.
    pub fn colour(&self, v: &[f64]) -> Result<Vec<f64>> {
        let mut out = self.stretched(v, |s| (1.0 + s).sqrt() - 1.0)?;
        blocks::scale_rows(&mut out, &self.root);
        Ok(out)
    }

    /// `C⁻¹ V`.
    ///
    /// # Errors
    /// As [`colour`](Self::colour).
    pub fn whiten(&self, v: &[f64]) -> Result<Vec<f64>> {
        let mut scaled = v.to_vec();
        blocks::columns("block of vectors", v, self.root.len())?;
        blocks::scale_rows(&mut scaled, &self.inverse_root());
        self.stretched(&scaled, shrinkage)
    }

    /// `C⁻ᵀ V`.
    ///
    /// # Errors
    /// As [`colour`](Self::colour).
    pub fn whiten_transposed(&self, v: &[f64]) -> Result<Vec<f64>> {
        let mut out = self.stretched(v, shrinkage)?;
        blocks::scale_rows(&mut out, &self.inverse_root());
        Ok(out)
    }

    fn inverse_root(&self) -> Vec<f64> {
        self.root.iter().map(|d| 1.0 / d).collect()
    }

    /// `(I + U diag(f(s²)) Uᵀ) V`.
    fn stretched(&self, v: &[f64], f: impl Fn(f64) -> f64) -> Result<Vec<f64>> {
        let t = blocks::columns("block of vectors", v, self.root.len())?;
        let rank = self.squares.len();
        let mut out = v.to_vec();
        if rank > 0 && t > 0 {
            let mut inner = vec![0.0; rank * t];
            let basis = view(&self.basis, rank);
            product::set(view_mut(&mut inner, t), basis.transpose(), view(v, t), 1.0);
            blocks::scale_rows(&mut inner, &self.squares.iter().map(|s| f(*s)).collect::<Vec<_>>());
            product::add(view_mut(&mut out, t), basis, view(&inner, t), 1.0);
        }
        Ok(out)
    }
}

/// `1/√(1 + s) − 1`.
fn shrinkage(s: f64) -> f64 {
    1.0 / (1.0 + s).sqrt() - 1.0
}

/// `V ↦ P⁻¹ V`.
impl LinearOperator for Preconditioner {
    fn order(&self) -> usize {
        self.root.len()
    }

    fn apply(&self, v: &[f64]) -> Result<Vec<f64>> {
        self.whiten_transposed(&self.whiten(v)?)
    }
}
