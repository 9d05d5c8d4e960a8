//! Tiles of a covariance matrix, the factors on their right, and sums over them.

use std::ops::Range;

use burn::tensor::{DType, Gradients, Int, Tensor};

use crate::device::Compute;
use crate::error::Result;
use crate::kernels::Kernel;
use crate::params::Parameters;
use crate::products::blocks::BlockSparse;
use crate::products::{Covariance, Cross};
use crate::scope::{Scope, indices};

/// A kernel, and the size of the part of its matrix that exists at once.
#[derive(Debug)]
pub(super) struct Tiles {
    pub(super) kernel: Kernel,
    pub(super) compute: Compute,
    /// The type in which gradients are summed.
    pub(super) wide: DType,
    /// Rows and columns of a tile.
    side: usize,
}

impl Tiles {
    pub(super) fn new(kernel: &Kernel, scope: &Scope, x: &Tensor<2>) -> Self {
        let fused = !scope.compute().kind.is_cpu() && matches!(crate::products::fused(kernel, scope, x), Ok(Some(_)));
        // A leaf's graph holds two matrices for each input column, and a dozen for its profile.
        let matrices = if fused { 4 } else { kernel.leaves() * (2 * x.dims()[1] + 12) };
        let pairs = scope.budget() / (matrices * scope.dtype().size());
        Self { kernel: kernel.clone(), compute: scope.compute(), wide: scope.wide(), side: pairs.isqrt().max(1) }
    }

    pub(super) fn ranges(&self, n: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let side = self.side;
        (0..n).step_by(side).map(move |start| start..(start + side).min(n))
    }

    /// The gradients in all parameters `[P, 1]`; none if there are no parameters.
    pub(super) fn slopes(&self, scope: &Scope, gradients: &mut Gradients) -> Option<Tensor<2>> {
        let slopes = self.kernel.parameters().into_iter().map(|(_, parameter)| {
            let leaf = scope.wide_value(parameter);
            leaf.grad_remove(gradients).unwrap_or_else(|| leaf.inner().zeros_like())
        });
        let slopes: Vec<Tensor<1>> = slopes.collect();
        (!slopes.is_empty()).then(|| Tensor::cat(slopes, 0).unsqueeze_dim(1))
    }

    /// The covariances of a tile; if `diagonal`, those of an input with itself.
    pub(super) fn covariance(
        &self,
        scope: &Scope,
        x1: &Tensor<2>,
        x2: &Tensor<2>,
        diagonal: bool,
    ) -> Result<Tensor<2>> {
        match (self.compute.kind.is_cpu(), diagonal) {
            (true, true) => self.kernel.gram(scope, x1),
            (true, false) => self.kernel.cross(scope, x1, x2),
            (false, true) => Covariance::new(&self.kernel, scope, x1).matrix(),
            (false, false) => Cross::new(&self.kernel, scope, x1, x2).matrix(),
        }
    }
}

/// The matrix by which a tile is multiplied on the right.
#[derive(Debug)]
pub(super) enum Columns {
    /// V as it is.
    Dense,
    /// Block-sparse: one value per row, in the column of its block.
    Blocks {
        /// Boundaries of the blocks `[i + 1]`.
        offsets: Vec<usize>,
        /// The same on the device.
        bounds: Box<Tensor<1, Int>>,
    },
}

impl Columns {
    pub(super) fn of(blocks: &BlockSparse, scope: &Scope) -> Self {
        let bounds = indices(blocks.offsets(), &scope.device().clone().inner());
        Self::Blocks { offsets: blocks.offsets().to_vec(), bounds: Box::new(bounds) }
    }

    /// Columns of the product.
    pub(super) fn width(&self, v: &Tensor<2>) -> usize {
        match self {
            Self::Dense => v.dims()[1],
            Self::Blocks { offsets, .. } => offsets.len() - 1,
        }
    }

    /// The columns of the product to which some rows of V contribute.
    pub(super) fn within(&self, v: &Tensor<2>, rows: &Range<usize>) -> Range<usize> {
        match self {
            Self::Dense => 0..v.dims()[1],
            Self::Blocks { offsets, .. } => {
                offsets.partition_point(|o| *o <= rows.start) - 1..offsets.partition_point(|o| *o < rows.end)
            }
        }
    }

    /// 1 if a row belongs to the block of a column, else 0; None for a dense V.
    pub(super) fn owned(&self, rows: &Range<usize>, columns: &Range<usize>, dtype: DType) -> Option<Tensor<2>> {
        let Self::Blocks { bounds, .. } = self else { return None };
        let bound = |first| bounds.clone().narrow(0, first, columns.len()).unsqueeze_dim::<2>(0);
        let shape = [rows.len(), columns.len()];
        let all = rows.start as i64..rows.end as i64;
        let row = Tensor::<1, Int>::arange(all, (&bounds.device(), bounds.dtype())).unsqueeze_dim::<2>(1).expand(shape);
        let from = row.clone().greater_equal(bound(columns.start).expand(shape));
        let until = row.lower(bound(columns.start + 1).expand(shape));
        Some(from.bool_and(until).float().cast(dtype))
    }
}

/// Rows of a matrix.
pub(super) fn rows(of: &Tensor<2>, range: &Range<usize>) -> Tensor<2> {
    of.clone().narrow(0, range.start, range.len())
}

pub(super) fn times(a: Tensor<2>, mask: &Option<Tensor<2>>) -> Tensor<2> {
    match mask {
        Some(mask) => a * mask.clone(),
        None => a,
    }
}

/// The sums over one or many tiles for each range of rows, in the wide type.
pub(super) struct Sums(pub(super) Vec<Option<Tensor<2>>>);

impl Sums {
    pub(super) fn new(tiles: &Tiles, like: &Tensor<2>) -> Self {
        Self(vec![None; tiles.ranges(like.dims()[0]).count()])
    }

    pub(super) fn add(&mut self, range: usize, part: Option<Tensor<2>>, wide: DType) {
        let Some(part) = part.map(|part| part.cast(wide)) else { return };
        self.0[range] = Some(match self.0[range].take() {
            None => part,
            Some(sum) => sum + part,
        });
    }

    /// The sums one after another, in the type and shape of the matrix to which they belong.
    pub(super) fn joined(self, tiles: &Tiles, like: &Tensor<2>) -> Tensor<2> {
        let zeros = |range| rows(like, &range).zeros_like();
        let parts = self.0.into_iter().zip(tiles.ranges(like.dims()[0]));
        Tensor::cat(parts.map(|(sum, r)| sum.map_or_else(|| zeros(r), |s| s.cast(like.dtype()))).collect(), 0)
    }
}
