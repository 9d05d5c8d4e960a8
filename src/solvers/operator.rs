//! The interface between iterative methods and their matrices.

use crate::error::Result;

/// A symmetric positive definite matrix, given only by its products with blocks of vectors.
pub trait LinearOperator {
    /// The order `n` of the matrix.
    fn order(&self) -> usize;

    /// `A V` for a row-major block `V [n, t]`.
    ///
    /// # Errors
    /// What the product reports; [`Shape`](crate::Error::Shape) when `v` does not have `n` rows.
    fn apply(&self, v: &[f64]) -> Result<Vec<f64>>;

    /// The relative rounding error of [`apply`](Self::apply). It limits the residuals that any solver can reach.
    fn epsilon(&self) -> f64 {
        f64::EPSILON
    }
}
