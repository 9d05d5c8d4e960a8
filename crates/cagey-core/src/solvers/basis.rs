//! Matrices `[L n, i]` that grow by columns: dense blocks next to each other, and block-sparse ones. The rows are those
//! of L latent functions, one function below the other.

use burn::tensor::{DType, Tensor};

use crate::error::{Error, Result};
use crate::products::BlockSparse;
use crate::scope::joined;

/// Columns next to each other, in groups. Growth copies a column at most twice, and in a graph the groups are shared.
#[derive(Debug, Clone, Default)]
pub struct Basis {
    groups: Vec<Group>,
}

/// Some columns next to each other.
#[doc(hidden)]
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "a basis has a few dozen groups; handles of tensors are what is large")]
pub enum Group {
    /// All numbers `[L n, i]`.
    Dense(Tensor<2>),
    /// The non-zeros of block-sparse columns.
    Sparse {
        /// `[n]` numbers for each latent function, in the same blocks.
        blocks: Vec<BlockSparse>,
        /// Whether every latent function has its own columns, function after function.
        apart: bool,
    },
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
        Self::of_functions(vec![blocks], false)
    }

    /// Block-sparse columns with numbers for each of some latent functions in the same blocks. Each column belongs to
    /// all functions, or with `apart` to one, function after function.
    pub fn of_functions(blocks: Vec<BlockSparse>, apart: bool) -> Self {
        Self { groups: vec![Group::Sparse { blocks, apart }] }
    }

    /// The same columns in another type.
    ///
    /// # Errors
    /// What making blocks reports.
    pub fn cast(&self, dtype: DType) -> Result<Self> {
        let cast =
            |blocks: &BlockSparse| BlockSparse::new(blocks.values().clone().cast(dtype), blocks.offsets().to_vec());
        let of = |group: &Group| match group {
            Group::Dense(columns) => Ok(Group::Dense(columns.clone().cast(dtype))),
            Group::Sparse { blocks, apart } => {
                Ok(Group::Sparse { blocks: blocks.iter().map(cast).collect::<Result<_>>()?, apart: *apart })
            }
        };
        Ok(Self { groups: self.groups.iter().map(of).collect::<Result<_>>()? })
    }

    /// Number of columns i.
    pub fn len(&self) -> usize {
        self.groups.iter().map(Group::len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The columns of one latent function for `more` further rows, which they leave out, and one unit column for each
    /// of these rows.
    ///
    /// # Errors
    /// What making blocks reports; [`Error::Shape`] when there are no columns.
    #[doc(hidden)]
    pub fn with_rows(&self, more: usize) -> Result<Self> {
        if let Some(Group::Sparse { blocks, apart: false }) = self.single()
            && let [own] = blocks.as_slice()
        {
            let values = own.values().clone();
            let ones = Tensor::ones([more], (&values.device(), values.dtype()));
            let n = values.dims()[0];
            let offsets = own.offsets().iter().copied().chain(n + 1..=n + more).collect();
            return Ok(Self::sparse(BlockSparse::new(Tensor::cat(vec![values, ones], 0), offsets)?));
        }
        let columns = self.clone().into_dense()?;
        let ([n, i], options) = (columns.dims(), (&columns.device(), columns.dtype()));
        let below = Tensor::zeros([more, i], options);
        let unit = Tensor::<2>::eye(more, &columns.device()).cast(columns.dtype());
        let units = Tensor::cat(vec![Tensor::zeros([n, more], options), unit], 0);
        Ok(Self::dense(Tensor::cat(vec![Tensor::cat(vec![columns, below], 0), units], 1)))
    }

    /// Adds dense columns `[n, t]`.
    pub fn push(&mut self, columns: Tensor<2>) {
        self.groups.push(Group::Dense(columns));
        let narrow = |group: &&Group| matches!(group, Group::Dense(c) if c.dims()[1] < WIDTH);
        let count = self.groups.iter().rev().take_while(narrow).count();
        let at = self.groups.len() - count;
        if self.groups[at..].iter().map(Group::len).sum::<usize>() >= WIDTH {
            let joined = self.groups.drain(at..).map(|group| group.columns(0, group.len()));
            let joined = Tensor::cat(joined.collect(), 1);
            self.groups.push(Group::Dense(joined));
        }
    }

    /// Adds the columns of another basis.
    pub fn extend(&mut self, other: &Self) {
        self.groups.extend(other.groups.iter().cloned());
    }

    /// These columns and those of another basis after them.
    pub(super) fn beside(&self, other: &Self) -> Self {
        Self { groups: self.groups.iter().chain(&other.groups).cloned().collect() }
    }

    /// Sᵀ Z `[i, t]` for `z [n, t]`, in the dtype of z.
    ///
    /// # Errors
    /// [`Error::Shape`] when there are no columns.
    pub fn transposed_times(&self, z: &Tensor<2>) -> Result<Tensor<2>> {
        self.transposed_times_in(z, z.dtype())
    }

    /// The same in another type.
    ///
    /// # Errors
    /// As [`transposed_times`](Self::transposed_times).
    #[doc(hidden)]
    pub fn transposed_times_in(&self, z: &Tensor<2>, dtype: DType) -> Result<Tensor<2>> {
        let parts = self.groups.iter().map(|group| group.transposed_times(z, dtype)).collect::<Result<Vec<_>>>()?;
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
        Ok(joined(parts, 1))
    }

    /// All columns as one matrix `[n, i]`. Block-sparse columns are filled with zeros.
    ///
    /// # Errors
    /// [`Error::Shape`] when there are none.
    pub fn into_dense(self) -> Result<Tensor<2>> {
        if self.is_empty() { Err(none()) } else { self.columns(0, self.len()) }
    }

    /// The only group, if there is exactly one.
    #[doc(hidden)]
    pub fn single(&self) -> Option<&Group> {
        if let [only] = self.groups() { Some(only) } else { None }
    }

    /// The groups in order.
    #[doc(hidden)]
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }
}

fn none() -> Error {
    Error::shape("a basis", "at least one column", "none")
}

impl Group {
    fn len(&self) -> usize {
        match self {
            Self::Dense(columns) => columns.dims()[1],
            Self::Sparse { blocks, apart } => blocks[0].len() * if *apart { blocks.len() } else { 1 },
        }
    }

    fn transposed_times(&self, z: &Tensor<2>, dtype: DType) -> Result<Tensor<2>> {
        let (blocks, apart) = match self {
            Self::Dense(columns) => return Ok(columns.clone().cast(dtype).transpose().matmul(z.clone().cast(dtype))),
            Self::Sparse { blocks, apart } => (blocks, *apart),
        };
        let n = z.dims()[0] / blocks.len();
        let part = |(l, own): (usize, &BlockSparse)| own.transposed_times(&z.clone().narrow(0, l * n, n), dtype);
        let mut parts = blocks.iter().enumerate().map(part).collect::<Result<Vec<_>>>()?;
        if apart {
            return Ok(Tensor::cat(parts, 0));
        }
        let first = parts.remove(0);
        Ok(parts.into_iter().fold(first, |sum, part| sum + part))
    }

    fn times(&self, u: Tensor<2>) -> Tensor<2> {
        let (blocks, apart) = match self {
            Self::Dense(columns) => return columns.clone().matmul(u.cast(columns.dtype())),
            Self::Sparse { blocks, apart } => (blocks, *apart),
        };
        let own_rows = |l: usize, i: usize| if apart { u.clone().narrow(0, l * i, i) } else { u.clone() };
        let part = |(l, own): (usize, &BlockSparse)| own.times(own_rows(l, own.len()));
        joined(blocks.iter().enumerate().map(part).collect(), 0)
    }

    /// Dense columns `first..first + count`, `[L n, count]`.
    fn columns(&self, first: usize, count: usize) -> Tensor<2> {
        match self {
            Self::Dense(columns) if count == columns.dims()[1] => columns.clone(),
            Self::Dense(columns) => columns.clone().narrow(1, first, count),
            Self::Sparse { blocks, .. } => {
                let values = blocks[0].values();
                let eye = Tensor::<2>::eye(self.len(), &values.device()).cast(values.dtype());
                self.times(eye.narrow(1, first, count))
            }
        }
    }
}
