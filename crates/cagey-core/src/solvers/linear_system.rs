//! The linear system of a Gaussian process, K̂v = y, in the form that solvers use.

use std::fmt::Debug;

use burn::tensor::Tensor;

use super::covariance::NoisyCovariance;
use super::pivoted_cholesky::Columns;
use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::products::same_rows;
use crate::scope::Scope;

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

/// K̂v = y with K̂ = K + N: the covariance K of latent values at the data and the noise N. Both are given by their
/// products.
///
/// As a [`LinearOperator`] it is K̂ for conjugate gradients, Lanczos and log-determinants. [IterGP](mod@super::itergp)
/// and its [policies](super::policies) differentiate through its tensors. Latent values may belong to several
/// functions, one below the other, and N may couple the functions in one row.
pub trait LinearSystem: LinearOperator + Debug {
    /// The scope of all tensors.
    fn scope(&self) -> &Scope;

    /// KV `[n, t]` for `v [n, t]`.
    ///
    /// # Errors
    /// What the kernel reports.
    fn covariance_times(&self, v: &Tensor<2>) -> Result<Tensor<2>>;

    /// NV `[n, t]`.
    ///
    /// # Errors
    /// As [`product`](Self::product).
    fn noise_times(&self, v: &Tensor<2>) -> Result<Tensor<2>>;

    /// K̂V `[n, t]`.
    ///
    /// # Errors
    /// What the kernel reports.
    fn product(&self, v: &Tensor<2>) -> Result<Tensor<2>> {
        Ok(self.covariance_times(v)? + self.noise_times(v)?)
    }

    /// The part of actions `s [n, t]` that a solve may take: all of it, unless N has an inverse in a subspace only.
    ///
    /// # Errors
    /// What the device reports.
    fn within(&self, s: Tensor<2>) -> Result<Tensor<2>> {
        Ok(s)
    }

    /// A residual `r [n, 1]` without what no such action can see: NN⁻¹r.
    ///
    /// # Errors
    /// As [`within`](Self::within).
    fn visible(&self, r: Tensor<2>) -> Result<Tensor<2>> {
        Ok(r)
    }

    /// N⁻¹V `[n, t]`.
    ///
    /// # Errors
    /// As [`product`](Self::product), and an error if N has no inverse.
    fn noise_solve(&self, v: &Tensor<2>) -> Result<Tensor<2>>;

    /// K̂ itself `[n, n]`.
    ///
    /// # Errors
    /// As [`product`](Self::product).
    fn matrix(&self) -> Result<Tensor<2>> {
        let scope = self.scope();
        self.product(&Tensor::<2>::eye(self.order(), scope.device()).cast(scope.dtype()))
    }

    /// y `[n, 1]`.
    fn right_hand_side(&self) -> &Tensor<2>;

    /// K by its diagonal and single columns, if each costs O(n).
    fn columns(&self) -> Option<&dyn Columns> {
        None
    }

    /// The covariances `[n, L t]` of the latent values with those of all L latent functions at inputs `[t, d]`,
    /// function after function.
    ///
    /// # Errors
    /// [`Error::Usage`] if there are no inputs, [`Error::Shape`] for other columns.
    fn cross(&self, _inputs: &Tensor<2>) -> Result<Tensor<2>> {
        Err(Error::Usage("this linear system has no inputs to compare others with: choose another policy".into()))
    }
}

/// The system of one latent function with a noise variance for each row. White noise of the kernel belongs to K.
#[derive(Debug, Clone)]
pub struct System<'a> {
    matrix: NoisyCovariance<'a>,
    y: Tensor<2>,
}

impl<'a> System<'a> {
    /// From inputs `[n, d]`, noise variances `[n]` and the right-hand side `[n]`.
    ///
    /// # Errors
    /// [`Error::Shape`] when the rows do not match.
    pub fn new(kernel: &'a Kernel, scope: &'a Scope, x: Tensor<2>, noise: Tensor<1>, y: Tensor<1>) -> Result<Self> {
        let matrix = NoisyCovariance::new(kernel, scope, x, noise)?;
        same_rows("right-hand side", y.dims()[0], matrix.order())?;
        Ok(Self { matrix, y: y.unsqueeze_dim(1) })
    }
}

impl LinearOperator for System<'_> {
    fn order(&self) -> usize {
        self.matrix.order()
    }

    fn apply(&self, v: &[f64]) -> Result<Vec<f64>> {
        self.matrix.apply(v)
    }

    fn epsilon(&self) -> f64 {
        self.matrix.epsilon()
    }
}

impl LinearSystem for System<'_> {
    fn scope(&self) -> &Scope {
        self.matrix.scope()
    }

    fn covariance_times(&self, v: &Tensor<2>) -> Result<Tensor<2>> {
        self.matrix.covariance().times(v)
    }

    fn noise_times(&self, v: &Tensor<2>) -> Result<Tensor<2>> {
        Ok(self.matrix.noise().clone() * v.clone())
    }

    fn noise_solve(&self, v: &Tensor<2>) -> Result<Tensor<2>> {
        Ok(v.clone() / self.matrix.noise().clone())
    }

    fn matrix(&self) -> Result<Tensor<2>> {
        let eye = Tensor::<2>::eye(self.order(), self.scope().device()).cast(self.scope().dtype());
        Ok(self.matrix.covariance().matrix()? + eye * self.matrix.noise().clone())
    }

    fn right_hand_side(&self) -> &Tensor<2> {
        &self.y
    }

    fn columns(&self) -> Option<&dyn Columns> {
        Some(&self.matrix)
    }

    fn cross(&self, inputs: &Tensor<2>) -> Result<Tensor<2>> {
        self.matrix.cross(inputs)
    }
}
