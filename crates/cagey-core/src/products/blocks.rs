//! Block-sparse action matrices: one column per block, non-zero only on the rows of its block.

use std::sync::OnceLock;

use burn::tensor::{DType, IndexingUpdateOp, Int, Tensor};

use crate::device::is_host;
use crate::error::{Error, Result};
use crate::products::engine::lanes::{Lanes, Number};
use crate::products::engine::tile::{Few, GROUP, Tile, Wide, add_to_rows};
use crate::products::operations::block_sums::block_sums;
use crate::scope::indices;

/// S `[m, i]`, whose column a is non-zero only on rows `offsets[a]..offsets[a + 1]`; one number per row.
#[derive(Debug, Clone)]
pub struct BlockSparse {
    values: Tensor<1>,
    offsets: Vec<usize>,
    /// Each row's block, once it is needed on the device.
    owners: OnceLock<Tensor<1, Int>>,
}

impl BlockSparse {
    /// The non-zeros `values [m]` of consecutive blocks with boundaries `offsets [i + 1]` from 0 to m.
    ///
    /// # Errors
    /// [`Shape`](Error::Shape) when the boundaries do not ascend from 0 to m, or a block is empty.
    pub fn new(values: Tensor<1>, offsets: Vec<usize>) -> Result<Self> {
        let m = values.dims()[0];
        let ascending = offsets.len() > 1 && offsets.windows(2).all(|w| w[0] < w[1]);
        if ascending && offsets.first() == Some(&0) && offsets.last() == Some(&m) {
            Ok(Self { values, offsets, owners: OnceLock::new() })
        } else {
            Err(Error::shape("block boundaries", format!("ascending from 0 to {m}"), format!("{offsets:?}")))
        }
    }

    /// Boundaries of `blocks` consecutive blocks of m rows whose sizes differ by at most one.
    pub fn even(m: usize, blocks: usize) -> Vec<usize> {
        (0..=blocks).map(|a| m * a / blocks.max(1)).collect()
    }

    /// The non-zeros `[m]`.
    pub fn values(&self) -> &Tensor<1> {
        &self.values
    }

    /// The block boundaries `[i + 1]`.
    pub fn offsets(&self) -> &[usize] {
        &self.offsets
    }

    /// Number of columns i.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Always false: there is at least one block.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Sᵀ Z `[i, t]` for `z [m, t]`, in the given type, summed in f64 on the CPU without a product of Z's size.
    ///
    /// # Errors
    /// What reading tensors reports.
    pub fn transposed_times(&self, z: &Tensor<2>, dtype: DType) -> Result<Tensor<2>> {
        if is_host(&z.device()) {
            return block_sums(self.values.clone(), z.clone(), &self.offsets, dtype);
        }
        let rows = z.clone().cast(dtype) * self.column().cast(dtype);
        let zeros = Tensor::<2>::zeros([self.len(), z.dims()[1]], (&z.device(), dtype));
        Ok(zeros.select_assign(0, self.owners(), rows, IndexingUpdateOp::Add))
    }

    /// S U `[m, t]` for `u [i, t]`, in the dtype of S.
    pub fn times(&self, u: Tensor<2>) -> Tensor<2> {
        let dtype = self.values.dtype();
        u.cast(dtype).select(0, self.owners()) * self.column()
    }

    /// The non-zeros `[m, 1]`.
    pub(in crate::products) fn column(&self) -> Tensor<2> {
        self.values.clone().unsqueeze_dim(1)
    }

    fn owners(&self) -> Tensor<1, Int> {
        self.owners.get_or_init(|| indices(&owners(&self.offsets), &self.values.device())).clone()
    }
}

/// The index of each row's block.
pub fn owners(offsets: &[usize]) -> Vec<usize> {
    offsets.windows(2).enumerate().flat_map(|(a, w)| std::iter::repeat_n(a, w[1] - w[0])).collect()
}

/// The non-zeros, group by group. For each block that a group touches: its numbers, with zeros in the other rows.
/// Several functions have different numbers in the same blocks.
#[derive(Debug)]
pub struct Segments<T> {
    starts: Vec<usize>,
    /// The blocks.
    pub blocks: Vec<usize>,
    /// The numbers of all functions, segment by segment.
    values: Vec<Few<T>>,
    /// 1 in the rows of the block, else 0.
    masks: Vec<Few<T>>,
    /// Number of functions L.
    pub functions: usize,
}

impl<T: Number> Segments<T> {
    /// Cuts the non-zeros `[L n]` of blocks into groups.
    pub fn new(values: &[T], offsets: &[usize]) -> Self {
        let owners = owners(offsets);
        let (n, zeros) = (owners.len(), [T::of(0.0); GROUP]);
        let functions = values.len() / n.max(1);
        let mut all = Self { starts: vec![0], blocks: Vec::new(), values: Vec::new(), masks: Vec::new(), functions };
        for (row, &owner) in owners.iter().enumerate() {
            let q = row % GROUP;
            if q == 0 || all.blocks.last() != Some(&owner) {
                all.blocks.push(owner);
                all.values.resize(all.values.len() + functions, zeros);
                all.masks.push(zeros);
            }
            let last = all.blocks.len() - 1;
            all.masks[last][q] = T::of(1.0);
            let own = all.values[last * functions..].iter_mut().zip(values.chunks_exact(n));
            own.for_each(|(few, values)| few[q] = values[row]);
            if q + 1 == GROUP || row + 1 == n {
                all.starts.push(all.blocks.len());
            }
        }
        all
    }

    /// The segments of a group.
    #[inline(always)]
    pub fn of(&self, group: usize) -> std::ops::Range<usize> {
        self.starts[group]..self.starts[group + 1]
    }

    /// The numbers of some segments: for each of them, one entry for each function.
    #[inline(always)]
    pub fn values(&self, segments: std::ops::Range<usize>) -> &[Few<T>] {
        &self.values[segments.start * self.functions..segments.end * self.functions]
    }

    /// Adds tile · right to the functions' `sums`, for some segments and the vectors `rights` of their blocks and
    /// functions. Each segment changes only its block's own rows.
    #[inline(always)]
    pub fn add_to_rows<L: Lanes<Element = T>>(
        &self,
        segments: std::ops::Range<usize>,
        tile: &Tile<L>,
        rights: &[Wide<L>],
        sums: &mut [Few<L>],
    ) {
        for (rights, mask) in rights.chunks_exact(self.functions).zip(&self.masks[segments]) {
            for (right, sums) in rights.iter().zip(&mut *sums) {
                let mut own = [[L::zero(); GROUP]];
                add_to_rows(tile, std::slice::from_ref(right), &mut own);
                for q in 0..GROUP {
                    sums[q] = own[0][q].mul_add(L::splat(mask[q]), sums[q]);
                }
            }
        }
    }
}
