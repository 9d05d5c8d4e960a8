//! K(x, x): the covariances of one set of inputs, and products with them.

use burn::tensor::Tensor;

use super::operations::explained::{self, Explained, Prepared};
use super::operations::{actions, dense, matvec, projected, tiled};
use super::{BlockSparse, by_parts, fused, fused_blocks, fused_wide, lowered, lowered_wide, same_rows};
use crate::device::{DeviceKind, memory_limit};
use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::scope::Scope;

/// K = K(x, x) for inputs `x [n, d]`, with white noise on the diagonal. It is not stored; the methods compute it as
/// they need it.
#[derive(Debug, Clone, Copy)]
pub struct Covariance<'a> {
    kernel: &'a Kernel,
    scope: &'a Scope,
    x: &'a Tensor<2>,
}

/// The most bytes of a product K S that is computed whole so that what follows from it can be whitened: 256 MB or a
/// 32nd of a GPU's memory, whichever is more; if the user limits that memory, a 32nd of the limit.
#[doc(hidden)]
pub fn whole(kind: DeviceKind) -> usize {
    let share = kind.memory().map(|memory| (memory / 32) as usize);
    let least = if memory_limit().is_some() && !kind.is_cpu() { 0 } else { 1 << 28 };
    share.unwrap_or(0).max(least)
}

impl<'a> Covariance<'a> {
    /// The covariance of a kernel at inputs.
    pub fn new(kernel: &'a Kernel, scope: &'a Scope, x: &'a Tensor<2>) -> Self {
        Self { kernel, scope, x }
    }

    /// The kernel.
    pub fn kernel(&self) -> &'a Kernel {
        self.kernel
    }

    /// The evaluation to which everything belongs.
    pub fn scope(&self) -> &'a Scope {
        self.scope
    }

    /// The inputs `[n, d]`.
    pub fn inputs(&self) -> &'a Tensor<2> {
        self.x
    }

    /// The order n.
    pub fn order(&self) -> usize {
        self.x.dims()[0]
    }

    /// K itself `[n, n]`: one fused operation with an analytic adjoint.
    ///
    /// # Errors
    /// Errors of a user's kernel form.
    pub fn matrix(&self) -> Result<Tensor<2>> {
        let Self { kernel, scope, x } = *self;
        match fused(kernel, scope, x)? {
            Some(lowered) => dense::gram(&lowered),
            None => by_parts(kernel, |kernel| Covariance { kernel, scope, x }.matrix(), || kernel.gram(scope, x)),
        }
    }

    /// [`matrix`](Self::matrix) in the scope's [wide](Scope::wide) type. If the kernel is fused, only the inputs are in
    /// the scope's own type. So whatever the precision of the data, the result is the covariance of *some* inputs, and
    /// as definite as such a matrix is.
    ///
    /// # Errors
    /// As [`matrix`](Self::matrix).
    pub fn matrix_wide(&self) -> Result<Tensor<2>> {
        match fused_wide(self.kernel, self.scope, self.x)? {
            Some(lowered) => dense::gram(&lowered),
            None => Ok(self.matrix()?.cast(self.scope.wide())),
        }
    }

    /// The diagonal of K `[n]`.
    ///
    /// # Errors
    /// As [`matrix`](Self::matrix).
    pub fn diagonal(&self) -> Result<Tensor<1>> {
        self.kernel.diag(self.scope, self.x)
    }

    /// [`diagonal`](Self::diagonal) in the scope's wide type, as [`matrix_wide`](Self::matrix_wide).
    ///
    /// # Errors
    /// As [`matrix`](Self::matrix).
    pub fn diagonal_wide(&self) -> Result<Tensor<1>> {
        match fused_wide(self.kernel, self.scope, self.x)? {
            Some(lowered) => lowered.diag(),
            None => Ok(self.diagonal()?.cast(self.scope.wide())),
        }
    }

    /// K V `[n, t]` for `v [n, t]` without storing K, at half the cost of the product for two sets of inputs.
    ///
    /// Fused; [`tiled`] for kernels that cannot be lowered, and on a GPU for more than 48 features.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) when rows do not match, and errors of a user's kernel form.
    pub fn times(&self, v: &Tensor<2>) -> Result<Tensor<2>> {
        same_rows("v", v.dims()[0], self.order())?;
        match fused(self.kernel, self.scope, self.x)? {
            Some(lowered) => matvec::gram(&lowered, v.clone()),
            None => tiled::kv_gram(self.kernel, self.scope, self.x, v),
        }
    }

    /// K S `[n, i]` for block-sparse S: as much work as one right-hand side.
    ///
    /// # Errors
    /// As [`times`](Self::times).
    pub fn times_blocks(&self, blocks: &BlockSparse) -> Result<Tensor<2>> {
        same_rows("block-sparse values", blocks.values().dims()[0], self.order())?;
        match fused_blocks(self.kernel, self.scope, self.x)? {
            Some(lowered) => actions::gram(&lowered, blocks),
            None => tiled::k_s_gram(self.kernel, self.scope, self.x, blocks),
        }
    }

    /// Sᵀ K S `[i, i]` for block-sparse S `[n, i]`, in the scope's wide type.
    ///
    /// Memory is O(n + i² + chunk · i). The scope's [budget](Scope::budget) sets the size of a chunk, and how many
    /// threads have their own i² numbers. The adjoint computes each chunk of K S again. If the budget has room for n ·
    /// i numbers, K S is kept and every pair of rows is visited once. Where products are not fused (on devices other
    /// than the CPU, and for kernels that cannot be lowered), K S is kept if it takes at most 256 MB or a 32nd of a
    /// GPU's memory.
    ///
    /// # Errors
    /// As [`times`](Self::times).
    pub fn projected(&self, blocks: &BlockSparse) -> Result<Tensor<2>> {
        same_rows("block-sparse values", blocks.values().dims()[0], self.order())?;
        if let Some(lowered) = lowered(self.kernel, self.scope, self.x)? {
            return projected::square(&lowered, blocks, self.scope.budget());
        }
        match self.stored(blocks)? {
            Some([gram, _]) => Ok(gram),
            None => tiled::projected(self.kernel, self.scope, self.x, blocks),
        }
    }

    /// What the block-sparse projections Sᵀt explain about the rows: everything that evidence lower bounds of
    /// computation-aware GPs need from K and S (Wenger et al. 2024, eq. 11). The targets `t [n]` have independent noise
    /// with variances `spread [n]`; both are in the scope's wide type. `prepared` holds products of the same numbers,
    /// if they exist already.
    ///
    /// Memory is that of [`projected`](Self::projected). If K S is not kept, the pairs of rows are visited two or three
    /// times more. Unlike results computed from (KS)ᵀ(KS), all results are accurate to rounding even when M = SᵀKS +
    /// SᵀΩS is nearly singular.
    ///
    /// # Errors
    /// As [`times`](Self::times), and [`NotPositiveDefinite`](crate::Error::NotPositiveDefinite) for M.
    pub fn explained(
        &self,
        blocks: &BlockSparse,
        [targets, spread]: [&Tensor<1>; 2],
        prepared: Option<Prepared>,
    ) -> Result<Explained> {
        for (what, got) in [("block-sparse values", blocks.values()), ("targets", targets), ("their noise", spread)] {
            same_rows(what, got.dims()[0], self.order())?;
        }
        let noisy = [targets, spread];
        if let Some(lowered) = lowered_wide(self.kernel, self.scope, self.x)? {
            let blocks = std::slice::from_ref(blocks);
            return explained::explained(&lowered, blocks, noisy, self.scope.budget(), prepared);
        }
        match self.stored(blocks)? {
            Some([gram, ks]) => explained::of_blocks(blocks, noisy, gram, |lower, weights| {
                explained::of_rows(ks.transpose(), lower, weights, (1, false))
            }),
            None => tiled::explained(self.kernel, self.scope, self.x, blocks, noisy),
        }
    }

    /// [`explained`](Self::explained) for latent functions that share K and have different numbers in the same blocks.
    /// Targets and noise are `[L n]`, function after function, and the explained covariances those of all pairs of a
    /// row's functions. None if products are not fused.
    ///
    /// # Errors
    /// As [`explained`](Self::explained).
    pub fn explained_together(
        &self,
        blocks: &[BlockSparse],
        noisy: [&Tensor<1>; 2],
        prepared: Option<Prepared>,
    ) -> Result<Option<Explained>> {
        self.check_blocks(blocks)?;
        let rows = blocks.len() * self.order();
        for (what, got) in ["targets", "their noise"].into_iter().zip(noisy) {
            same_rows(what, got.dims()[0], rows)?;
        }
        let fused = lowered_wide(self.kernel, self.scope, self.x)?;
        let explained = |lowered| explained::explained(&lowered, blocks, noisy, self.scope.budget(), prepared);
        fused.map(explained).transpose()
    }

    /// Block-sparse actions must have the same blocks of all rows.
    fn check_blocks(&self, blocks: &[BlockSparse]) -> Result<()> {
        let mut all = blocks.iter();
        let offsets = all.next().map(BlockSparse::offsets);
        if offsets.and_then(<[usize]>::last) == Some(&self.order()) && all.all(|own| Some(own.offsets()) == offsets) {
            return Ok(());
        }
        let got = blocks.iter().map(|own| own.offsets().len().to_string()).collect::<Vec<_>>().join(", ");
        Err(Error::shape("block boundaries", format!("the same, for {} rows", self.order()), got))
    }

    /// K S and SᵀKS at the current parameter values, on the host, for functions that have different numbers in the same
    /// blocks; None if products are not fused.
    ///
    /// # Errors
    /// As [`times`](Self::times).
    pub fn prepared(&self, blocks: &[BlockSparse]) -> Result<Option<Prepared>> {
        self.check_blocks(blocks)?;
        let fused = lowered_wide(self.kernel, self.scope, self.x)?;
        fused.map(|lowered| Prepared::new(&lowered, blocks, self.scope.budget())).transpose()
    }

    /// Sᵀ K S in the scope's wide type, and K S, for products that are not fused, if K S in that type takes at most 256
    /// MB or a 32nd of a GPU's memory.
    fn stored(&self, blocks: &BlockSparse) -> Result<Option<[Tensor<2>; 2]>> {
        let wide = self.scope.wide();
        let bytes = self.order().saturating_mul(blocks.len()).saturating_mul(wide.size());
        if bytes > whole(self.scope.compute().kind) {
            return Ok(None);
        }
        let ks = self.times_blocks(blocks)?;
        let gram = blocks.transposed_times(&ks, wide)?;
        Ok(Some([(gram.clone() + gram.transpose()) * 0.5, ks]))
    }
}
