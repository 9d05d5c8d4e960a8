//! K(x1, x2): the covariances between two sets of inputs, and products with them.

use std::sync::Arc;

use burn::tensor::Tensor;

use super::operations::{actions, conditional, dense, local, local_graph, matvec, moments, tiled, whitened};
use super::{
    BlockSparse, Covariance, Neighbours, by_parts, fused, fused_blocks, fused_wide, lowered_wide, same_rows, wide,
};
use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::kernels::form::Lowered;
use crate::linalg::{Projected, marginals, unpack_lower, whiten};
use crate::scope::Scope;

/// K(x1, x2) for inputs `x1 [n, d]` and `x2 [m, d]`. It is not stored; the methods compute it as they need it.
#[derive(Debug, Clone, Copy)]
pub struct Cross<'a> {
    kernel: &'a Kernel,
    scope: &'a Scope,
    x1: &'a Tensor<2>,
    x2: &'a Tensor<2>,
}

impl<'a> Cross<'a> {
    /// The covariances of a kernel between two sets of inputs.
    pub fn new(kernel: &'a Kernel, scope: &'a Scope, x1: &'a Tensor<2>, x2: &'a Tensor<2>) -> Self {
        Self { kernel, scope, x1, x2 }
    }

    /// The matrix itself `[n, m]`: one fused operation with an analytic adjoint.
    ///
    /// # Errors
    /// Errors of a user's kernel form.
    pub fn matrix(&self) -> Result<Tensor<2>> {
        let Self { kernel, scope, x1, x2 } = *self;
        match self.both(fused)? {
            Some([a, b]) => dense::cross(&a, &b),
            None => by_parts(kernel, |kernel| Cross { kernel, scope, x1, x2 }.matrix(), || kernel.cross(scope, x1, x2)),
        }
    }

    /// [`matrix`](Self::matrix) in the scope's wide type, as [`Covariance::matrix_wide`].
    ///
    /// # Errors
    /// As [`matrix`](Self::matrix).
    pub fn matrix_wide(&self) -> Result<Tensor<2>> {
        match self.both(fused_wide)? {
            Some([a, b]) => dense::cross(&a, &b),
            None => Ok(self.matrix()?.cast(self.scope.wide())),
        }
    }

    /// K(x1, x2) V `[n, t]` for `v [m, t]`, without storing K.
    ///
    /// Fused; [`tiled`] for kernels that cannot be lowered, and on a GPU for more than 48 features.
    ///
    /// # Errors
    /// [`Shape`](Error::Shape) when rows do not match, and errors of a user's kernel form.
    pub fn times(&self, v: &Tensor<2>) -> Result<Tensor<2>> {
        let Self { kernel, scope, x1, x2 } = *self;
        same_rows("v", v.dims()[0], x2.dims()[0])?;
        match self.both(fused)? {
            Some([a, b]) => matvec::cross(&a, &b, v.clone()),
            None => tiled::kv(kernel, scope, x1, x2, v),
        }
    }

    /// K(x1, x2) S `[n, i]` for block-sparse S `[m, i]`: as much work as one right-hand side.
    ///
    /// # Errors
    /// As [`times`](Self::times).
    pub fn times_blocks(&self, blocks: &BlockSparse) -> Result<Tensor<2>> {
        let Self { kernel, scope, x1, x2 } = *self;
        same_rows("block-sparse values", blocks.values().dims()[0], x2.dims()[0])?;
        match self.both(fused_blocks)? {
            Some([a, b]) => actions::cross(&a, &b, blocks),
            None => tiled::k_s(kernel, scope, x1, x2, blocks),
        }
    }

    /// A Aᵀ `[n, n]` and A t `[n]` for A = L⁻¹ K(x1, x2) diag(s) with K(x1, x1) = L Lᵀ, in the scope's wide type: what
    /// collapsed bounds need of A. For few inputs x1 (inducing inputs), many x2 (rows) and `s`, `t` `[m]`.
    ///
    /// On the CPU this is one pass over chunks of rows that fit half of the scope's [budget](Scope::budget). The
    /// adjoint computes the chunks again, unless all of A fits the other half. As many threads sum up A Aᵀ as have room
    /// there for one each. On other devices, and for kernels that cannot be lowered, this is a graph that holds A.
    ///
    /// # Errors
    /// As [`times`](Self::times), and [`Error::NotPositiveDefinite`] for K(x1, x1).
    pub fn moments(&self, s: &Tensor<1>, t: &Tensor<1>) -> Result<(Tensor<2>, Tensor<1>)> {
        let (wide, [m, n]) = (self.scope.wide(), [self.x1, self.x2].map(|x| x.dims()[0]));
        same_rows("row weights", s.dims()[0], n)?;
        same_rows("row targets", t.dims()[0], n)?;
        if let Some([z, x]) = self.both(lowered_wide)? {
            let rows = Tensor::stack::<2>(vec![s.clone(), t.clone()], 1).cast(wide);
            let packed = moments::packed(&x, &z, &rows, self.scope.budget())?;
            return Ok((packed.clone().narrow(0, 0, m * m).reshape([m, m]), packed.narrow(0, m * m, m)));
        }
        let a = self.whitened_by_rows(self.matrix_wide()? * s.clone().cast(wide).unsqueeze::<2>())?;
        let projected = a.clone().matmul(t.clone().cast(wide).unsqueeze_dim::<2>(1));
        Ok((a.clone().matmul(a.transpose()), projected.squeeze_dim(1)))
    }

    /// A m_I, diag(A(S_I − K_I)Aᵀ) and KL(N(m_I, S_I) ‖ N(0, K_I)) of every row of `x2 [m, d]`, one after another,
    /// `[3m]`. Here A = k(x, Z_I) K_I⁻¹, and I are the row's neighbours among the inducing inputs `x1 [n, d]`. The
    /// diagonal of K_I is multiplied by 1 + `nugget`. `q`
    /// holds m `[n]`, then R `[n, C]` with S = R Rᵀ, or the root of a diagonal S `[n]`. The result is in the scope's
    /// wide type; on a GPU it comes from batches of small matrices.
    ///
    /// # Errors
    /// [`Error::Usage`] for kernels that cannot be lowered, [`Error::NotPositiveDefinite`] for a K_I or S_I that is not
    /// positive definite.
    pub fn local(&self, q: Tensor<1>, neighbours: Arc<Neighbours>, nugget: f64) -> Result<Tensor<1>> {
        let Some([z, x]) = self.both(wide)? else {
            return Err(Error::Usage("neighbours need a kernel of the built-in forms".into()));
        };
        match self.scope.compute().kind.is_cpu() {
            true => local::packed((&x, &z), q, neighbours, nugget),
            false => local_graph::packed((&x, &z), q, &neighbours, nugget),
        }
    }

    /// What rows' neighbours say of the function: αᵀr and −kᵀα of every row of `x2 [m, d]`, with α = (K + D)⁻¹k, one
    /// after another, `[2m]`: what they add to the prior mean and variance. Here k and K are the covariances of a row
    /// with its neighbours among the rows `x1 [n, d]` and among these; `residuals [n]` are observations less the prior
    /// mean, and D is of the variances of their `noise [n]`. The result is in the scope's wide type; on a GPU it comes
    /// from batches of small matrices, and for kernels that cannot be lowered from a graph for each row.
    ///
    /// # Errors
    /// [`Error::NotPositiveDefinite`] for a K + D that is not positive definite, and errors of a user's kernel form.
    pub fn conditional(
        &self,
        residuals: Tensor<1>,
        noise: Tensor<1>,
        neighbours: Arc<Neighbours>,
    ) -> Result<Tensor<1>> {
        let [residuals, noise] = [residuals, noise].map(|values| values.cast(self.scope.wide()));
        let Some([z, x]) = self.both(wide)? else {
            return self.conditional_by_rows(&residuals, &noise, &neighbours);
        };
        match self.scope.compute().kind.is_cpu() {
            true => conditional::packed((&x, &z), Tensor::cat(vec![residuals, noise], 0), neighbours),
            false => local_graph::conditional((&x, &z), residuals, noise, &neighbours),
        }
    }

    /// [`conditional`](Self::conditional), row by row.
    fn conditional_by_rows(
        &self,
        residuals: &Tensor<1>,
        noise: &Tensor<1>,
        neighbours: &Neighbours,
    ) -> Result<Tensor<1>> {
        let Self { kernel, scope, x1, x2 } = *self;
        let (h, wide) = (neighbours.each, scope.wide());
        let (mut shifts, mut changes) = (Vec::new(), Vec::new());
        for row in 0..x2.dims()[0] {
            let near: Vec<usize> = neighbours.of(row).iter().map(|&j| j as usize).collect();
            let near = scope.indices(&near);
            let z = x1.clone().select(0, near.clone());
            let own = noise.clone().select(0, near.clone()).unsqueeze_dim::<2>(1);
            let eye = Tensor::<2>::eye(h, scope.device()).cast(wide);
            let gram = Covariance::new(kernel, scope, &z).matrix_wide()? + eye * own;
            let k = Cross { x1: &z, x2: &x2.clone().narrow(0, row, 1), ..*self }.matrix_wide()?;
            let known = Tensor::cat(vec![k, residuals.clone().select(0, near).unsqueeze_dim(1)], 1);
            let solved = whiten(gram, known, "K + σ²I of a row's neighbours")?;
            let [a, u] = [0, 1].map(|column| solved.clone().narrow(1, column, 1));
            shifts.push((a.clone() * u).sum());
            changes.push(-a.powi_scalar(2).sum());
        }
        Ok(Tensor::cat([shifts, changes].concat(), 0))
    }

    /// The terms of both sets of inputs, if `terms` gives them.
    fn both(
        &self,
        terms: impl Fn(&Kernel, &Scope, &Tensor<2>) -> Result<Option<Lowered>>,
    ) -> Result<Option<[Lowered; 2]>> {
        let of = |x| terms(self.kernel, self.scope, x);
        Ok(of(self.x1)?.zip(of(self.x2)?).map(|(a, b)| [a, b]))
    }

    /// The effect of v ~ N(μ, R Rᵀ) on the marginals of f − m at rows `x2 [m, d]`, where u = m(Z) + L v and K_ZZ = L Lᵀ
    /// for inducing inputs Z = `x1 [n, d]`. `mean` holds μ `[n]`; `root` holds R, its rows up to the diagonal
    /// `[n(n + 1)/2]` or only the diagonal `[n]`.
    ///
    /// L is in the scope's wide type. On the CPU this is one operation, with about 12n²m + 5n³ arithmetic operations
    /// including its adjoint.
    ///
    /// # Errors
    /// [`Error::Shape`] when shapes disagree, [`Error::NotPositiveDefinite`] for K_ZZ, and errors of a user's kernel
    /// form.
    pub fn whitened(&self, mean: Tensor<1>, root: Tensor<1>) -> Result<Projected> {
        let (wide, single) = (self.scope.wide(), self.scope.dtype() != self.scope.wide());
        if let Some([z, x]) = self.both(lowered_wide)? {
            return whitened::marginals(&z, &x, mean, root, single);
        }
        let a = self.whitened_by_rows(self.matrix_wide()?)?;
        let diagonal = root.dims() == mean.dims();
        let (mean, root) = (mean.cast(wide), root.cast(wide));
        if diagonal { marginals(a, mean, root, single) } else { marginals(a, mean, unpack_lower(root)?, single) }
    }

    /// L⁻¹B for K(x1, x1) = L Lᵀ.
    fn whitened_by_rows(&self, b: Tensor<2>) -> Result<Tensor<2>> {
        whiten(Covariance::new(self.kernel, self.scope, self.x1).matrix_wide()?, b, "K_ZZ")
    }
}
