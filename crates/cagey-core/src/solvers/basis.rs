//! Matrices `[n, i]` that grow by columns: dense blocks next to each other, and block-sparse ones.

use burn::tensor::Tensor;

use crate::error::{Error, Result};
use crate::products::BlockSparse;

/// Columns next to each other, in groups. Growth copies a column at most twice, and in a graph the groups are shared.
#[derive(Debug, Clone, Default)]
pub struct Basis {
    groups: Vec<Group>,
}

#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "a basis has a few dozen groups; handles of tensors are what is large")]
enum Group {
    Dense(Tensor<2>),
    Sparse(BlockSparse),
}

/// Narrower dense groups are joined once they have this many columns together.
const WIDTH: usize = 32;

impl Basis {
    /// Dense columns `[n, i]`.
    pub fn dense(columns: Tensor<2>) -> Self {
        Self { groups: vec![Group::Dense(columns)] }
    }

    /// Block-sparse columns.
    pub fn sparse(blocks: BlockSparse) -> Self {
        Self { groups: vec![Group::Sparse(blocks)] }
    }

    /// Number of columns i.
    pub fn len(&self) -> usize {
        self.groups.iter().map(Group::len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Adds dense columns `[n, t]`.
    pub fn push(&mut self, columns: Tensor<2>) {
        self.groups.push(Group::Dense(columns));
        let narrow = |group: &&Group| matches!(group, Group::Dense(c) if c.dims()[1] < WIDTH);
        let count = self.groups.iter().rev().take_while(narrow).count();
        let at = self.groups.len() - count;
        if self.groups[at..].iter().map(Group::len).sum::<usize>() >= WIDTH {
            let parts = self.groups.drain(at..).filter_map(|group| match group {
                Group::Dense(columns) => Some(columns),
                Group::Sparse(_) => None,
            });
            let joined = Tensor::cat(parts.collect(), 1);
            self.groups.push(Group::Dense(joined));
        }
    }

    /// Adds the columns of another basis.
    pub fn extend(&mut self, other: &Self) {
        self.groups.extend(other.groups.iter().cloned());
    }

    /// Sᵀ Z `[i, t]` for `z [n, t]`, in the dtype of z.
    ///
    /// # Errors
    /// [`Error::Shape`] when there are no columns.
    pub fn transposed_times(&self, z: &Tensor<2>) -> Result<Tensor<2>> {
        let parts: Vec<_> = self.groups.iter().map(|group| group.transposed_times(z)).collect();
        if parts.is_empty() { Err(none()) } else { Ok(Tensor::cat(parts, 0)) }
    }

    /// S U `[n, t]` for `u [i, t]`, in the dtype of S.
    ///
    /// # Errors
    /// [`Error::Shape`] when there are no columns.
    pub fn times(&self, u: &Tensor<2>) -> Result<Tensor<2>> {
        let mut at = 0;
        let mut total: Option<Tensor<2>> = None;
        for group in &self.groups {
            let part = group.times(u.clone().narrow(0, at, group.len()));
            at += group.len();
            total = Some(match total {
                Some(sum) => sum + part,
                None => part,
            });
        }
        total.ok_or_else(none)
    }

    /// Dense columns `first..first + count`, `[n, count]`.
    ///
    /// # Errors
    /// [`Error::Shape`] when there are not enough columns.
    pub fn columns(&self, first: usize, count: usize) -> Result<Tensor<2>> {
        if count == 0 || first + count > self.len() {
            return Err(Error::shape("columns of a basis", format!("some of {}", self.len()), format!("{count}")));
        }
        let (mut at, mut parts) = (0, Vec::new());
        for group in &self.groups {
            let (from, to) = (first.max(at), (first + count).min(at + group.len()));
            if from < to {
                parts.push(group.columns(from - at, to - from));
            }
            at += group.len();
        }
        Ok(if parts.len() == 1 { parts.swap_remove(0) } else { Tensor::cat(parts, 1) })
    }

    /// All columns as one matrix `[n, i]`. Block-sparse columns are filled with zeros.
    ///
    /// # Errors
    /// [`Error::Shape`] when there are none.
    pub fn into_dense(self) -> Result<Tensor<2>> {
        let mut parts: Vec<_> = self.groups.into_iter().map(Group::into_dense).collect();
        match parts.len() {
            0 => Err(none()),
            1 => Ok(parts.swap_remove(0)),
            _ => Ok(Tensor::cat(parts, 1)),
        }
    }

    /// The only group, dense columns or blocks, if there is exactly one.
    #[doc(hidden)]
    pub fn single(&self) -> Option<std::result::Result<&Tensor<2>, &BlockSparse>> {
        if self.groups.len() == 1 { self.parts().next() } else { None }
    }

    /// The groups in order: dense columns or blocks.
    #[doc(hidden)]
    pub fn parts(&self) -> impl Iterator<Item = std::result::Result<&Tensor<2>, &BlockSparse>> {
        self.groups.iter().map(|group| match group {
            Group::Dense(columns) => Ok(columns),
            Group::Sparse(blocks) => Err(blocks),
        })
    }
}

fn none() -> Error {
    Error::shape("a basis", "at least one column", "none")
}

impl Group {
    fn len(&self) -> usize {
        match self {
            Self::Dense(columns) => columns.dims()[1],
            Self::Sparse(blocks) => blocks.len(),
        }
    }

    fn transposed_times(&self, z: &Tensor<2>) -> Tensor<2> {
        match self {
            Self::Dense(columns) => columns.clone().cast(z.dtype()).transpose().matmul(z.clone()),
            Self::Sparse(blocks) => blocks.transposed_times(z),
        }
    }

    fn times(&self, u: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Dense(columns) => columns.clone().matmul(u.cast(columns.dtype())),
            Self::Sparse(blocks) => blocks.times(u),
        }
    }

    fn columns(&self, first: usize, count: usize) -> Tensor<2> {
        match self {
            Self::Dense(columns) if count == columns.dims()[1] => columns.clone(),
            Self::Dense(columns) => columns.clone().narrow(1, first, count),
            Self::Sparse(blocks) => {
                let eye = Tensor::<2>::eye(blocks.len(), &blocks.values().device()).cast(blocks.values().dtype());
                self.times(eye.narrow(1, first, count))
            }
        }
    }

    fn into_dense(self) -> Tensor<2> {
        match self {
            Self::Dense(columns) => columns,
            Self::Sparse(_) => self.columns(0, self.len()),
        }
    }
}
