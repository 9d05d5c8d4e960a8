//! Actions as numbers on the host.

use std::borrow::Cow;

use burn::tensor::Tensor;

use crate::error::Result;
use crate::linalg::dense::columns::combine;
use crate::linalg::dense::{product, view, view_mut};
use crate::linalg::real::dot;
use crate::scope::to_f64;
use crate::serving::Change;
use crate::solvers::Sparse;

/// Columns of S `[L n, i]`.
#[derive(Debug, Clone)]
pub(super) enum Numbers<'a> {
    /// One action after another, `[i, L n]`, and L n.
    Dense(Cow<'a, [f64]>, usize),
    /// Block-sparse actions.
    Blocks {
        /// One number for each row of each latent function `[L n]`.
        values: Vec<f64>,
        /// The boundaries of the blocks of n rows.
        offsets: Vec<usize>,
        /// Whether every latent function has its own columns.
        apart: bool,
    },
}

impl Numbers<'_> {
    /// The numbers of columns in tensors.
    ///
    /// # Errors
    /// What reading them from their device reports.
    pub fn of(part: std::result::Result<&Tensor<2>, &Sparse>) -> Result<Self> {
        Ok(match part {
            Ok(dense) => Self::Dense(to_f64(dense.clone().transpose())?.into(), dense.dims()[0]),
            Err(Sparse { blocks, apart }) => {
                let each = blocks.iter().map(|own| to_f64(own.values().clone()));
                let values = each.collect::<Result<Vec<_>>>()?.concat();
                Self::Blocks { values, offsets: blocks[0].offsets().to_vec(), apart: *apart }
            }
        })
    }

    /// Number of actions i.
    pub fn len(&self) -> usize {
        match self {
            Self::Dense(values, n) => values.len() / n,
            Self::Blocks { offsets, .. } => self.owners() * (offsets.len() - 1),
        }
    }

    /// How many times the blocks have columns.
    fn owners(&self) -> usize {
        match self {
            Self::Blocks { values, offsets, apart: true } => values.len() / offsets[offsets.len() - 1],
            _ => 1,
        }
    }

    /// The ranges of numbers that belong to each block-sparse action.
    fn ranges(&self) -> impl Iterator<Item = impl Iterator<Item = std::ops::Range<usize>>> {
        let (all, offsets): (usize, &[usize]) = match self {
            Self::Blocks { values, offsets, .. } => (values.len(), offsets),
            Self::Dense(..) => (0, &[0]),
        };
        let (n, owners) = (offsets[offsets.len() - 1].max(1), self.owners());
        let shared = all / n / owners;
        (0..owners).flat_map(move |owner| {
            let functions = owner * shared..(owner + 1) * shared;
            offsets.windows(2).map(move |w| functions.clone().map(move |l| l * n + w[0]..l * n + w[1]))
        })
    }

    /// Sᵀx `[i]` for x `[L n]`.
    pub fn project(&self, x: &[f64]) -> Vec<f64> {
        match self {
            Self::Dense(values, n) => values.chunks_exact(*n).map(|s| dot(s, x)).collect(),
            Self::Blocks { values, .. } => {
                let of = |rows: std::ops::Range<usize>| dot(&values[rows.clone()], &x[rows]);
                self.ranges().map(|ranges| ranges.map(of).sum()).collect()
            }
        }
    }

    /// S a `[L n]` for weights a `[i]`.
    pub fn times(&self, a: &[f64]) -> Vec<f64> {
        match self {
            Self::Dense(_, n) if a.is_empty() => vec![0.0; *n],
            Self::Dense(values, _) => combine(values, a),
            Self::Blocks { values, .. } => {
                let mut all = values.clone();
                for (ranges, a) in self.ranges().zip(a) {
                    ranges.for_each(|rows| all[rows].iter_mut().for_each(|s| *s *= a));
                }
                all
            }
        }
    }

    /// Adds SᵀW⁻¹S to a matrix `[i, i]`, for the diagonal `[L n]` of the inverse of W⁻¹.
    pub fn add_noise(&self, curvature: &[f64], matrix: &mut [f64]) {
        match self {
            Self::Dense(values, n) => {
                let spread: Vec<f64> = values.iter().enumerate().map(|(e, s)| s / curvature[e % n]).collect();
                product::add(view_mut(matrix, self.len()), view(&spread, *n), view(values, *n).transpose(), 1.0);
            }
            Self::Blocks { values, .. } => {
                let noise = |rows: std::ops::Range<usize>| -> f64 {
                    values[rows.clone()].iter().zip(&curvature[rows]).map(|(s, d)| s * s / d).sum()
                };
                let noise = self.ranges().map(|ranges| ranges.map(noise).sum::<f64>());
                matrix.iter_mut().step_by(self.len() + 1).zip(noise).for_each(|(m, noise)| *m += noise);
            }
        }
    }

    /// The rows of S of latent function `l` of `latents`, for arrays with names that begin with `name`: dense ones
    /// row-major `[n, i]`.
    pub fn change(&self, (l, latents): (usize, usize), keep: &mut dyn FnMut(&str, Vec<f64>) -> String) -> Change {
        match self {
            Self::Dense(values, all) => {
                let n = all / latents;
                let row = |r: usize| values.iter().skip(l * n + r).step_by(*all).copied();
                Change::Dense(keep("actions", (0..n).flat_map(row).collect()))
            }
            Self::Blocks { values, offsets, apart } => {
                let (n, blocks) = (values.len() / latents, offsets.len() - 1);
                // Blocks without rows stand for the columns of other functions.
                let (before, after) = if *apart { (l * blocks, (latents - 1 - l) * blocks) } else { (0, 0) };
                let ends = vec![0; before].into_iter().chain(offsets.iter().copied()).chain(vec![n; after]);
                Change::Blocks(keep("actions", values[l * n..][..n].to_vec()), ends.collect())
            }
        }
    }

    /// Row `row` of S `[i]`.
    pub fn row(&self, row: usize) -> Vec<f64> {
        match self {
            Self::Dense(values, n) => values.iter().skip(row).step_by(*n).copied().collect(),
            Self::Blocks { values, .. } => {
                let of = |rows: std::ops::Range<usize>| if rows.contains(&row) { values[row] } else { 0.0 };
                self.ranges().map(|ranges| ranges.map(of).sum()).collect()
            }
        }
    }
}
