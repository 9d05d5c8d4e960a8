//! The seam between iterative methods and the matrices they work on.

use crate::error::Result;

/// A symmetric positive definite matrix, known only by its products with blocks of vectors.
pub trait LinearOperator {
    /// The order `n` of the matrix.
    fn order(&self) -> usize;

    /// `A V` for a row-major block `V [n, t]`.
    ///
    /// # Errors
    /// What the product reports; [`Shape`](crate::Error::Shape) when `v` has not `n` rows.
    fn apply(&self, v: &[f64]) -> Result<Vec<f64>>;

    /// The relative rounding error of [`apply`](Self::apply): no solver can reach smaller residuals than this allows.
    fn epsilon(&self) -> f64 {
        f64::EPSILON
    }
}
