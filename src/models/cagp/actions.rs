//! Learned actions: the layout of their non-zeros, and their initial values.

use std::ops::Range;

use burn::tensor::Tensor;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution, StandardNormal};

use crate::error::{Error, Result};
use crate::likelihoods::Likelihood;
use crate::models::Observations;
use crate::params::{Parameter, Unit};
use crate::products::BlockSparse;
use crate::scope::{Scope, to_f64};
use crate::solvers::itergp::Basis;

/// The layout of the actions' non-zeros.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub enum Layout {
    /// Column a has non-zeros only on rows `offsets[a]..offsets[a + 1]`: n numbers for each latent function.
    Blocks(Vec<usize>),
    /// `i` full columns, row-major `[L n, i]`.
    Dense(usize),
}

/// The actions S and the layout of their numbers.
///
/// A column's scale changes neither posterior nor loss. Models therefore use unit columns, whatever the numbers.
#[derive(Debug, Clone)]
pub struct Actions {
    /// The numbers.
    pub values: Parameter,
    /// Their layout.
    pub layout: Layout,
}

impl Actions {
    /// `i` block-sparse actions for `n` rows. Block sizes differ by at most one, and each action is the average of its
    /// block. If the rows of a block are near each other, a smooth function hardly varies in the block, and the average
    /// keeps most of it. From this start, training gets furthest in few steps.
    ///
    /// # Errors
    /// [`Error::Usage`] unless 1 ≤ i ≤ n.
    pub fn averages(n: usize, i: usize) -> Result<Self> {
        Self::by_block(n, i, |rows| alike(rows.len()))
    }

    /// Block-sparse actions whose numbers are those `of` the rows of each block.
    fn by_block(n: usize, i: usize, of: impl FnMut(Range<usize>) -> Vec<f64>) -> Result<Self> {
        let offsets = even(n, i)?;
        let values: Vec<f64> = offsets.windows(2).map(|w| w[0]..w[1]).flat_map(of).collect();
        Ok(Self::from_blocks(&values, offsets))
    }

    /// [`averages`](Self::averages) for each latent function of a likelihood. For classes, a block's action is what
    /// distinguishes the classes of its rows, because equal numbers for all classes would carry no information.
    ///
    /// # Errors
    /// [`Error::Usage`] unless 1 ≤ i ≤ n.
    pub fn start(likelihood: &dyn Likelihood, data: &Observations, i: usize) -> Result<Self> {
        let (latents, centred) = (likelihood.latents(), likelihood.density().is_centred());
        let averages = Self::averages(data.n(), i)?;
        let values: Vec<f64> = match centred {
            true => {
                (0..latents).flat_map(|l| data.y.iter().map(move |y| f64::from(u8::from(*y == l as f64)))).collect()
            }
            false if latents == 1 => return Ok(averages),
            false => averages.values.raw().repeat(latents),
        };
        Ok(Self::from_blocks(&values, even(data.n(), i)?))
    }

    /// The same blocks with random numbers from N(0, 1/size): the start of Wenger et al. (2024).
    ///
    /// # Errors
    /// [`Error::Usage`] unless 1 ≤ i ≤ n.
    pub fn random(n: usize, i: usize, seed: u64) -> Result<Self> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut normal = move || Distribution::<f64>::sample(&StandardNormal, &mut rng);
        Self::by_block(n, i, |rows| rows.clone().map(|_| normal() / (rows.len() as f64).sqrt()).collect())
    }

    /// `i` block-sparse actions. Each is its block's targets over their norm, or the block's average if the targets are
    /// zero.
    ///
    /// The projected data are then the norms of the blocks' targets. A first step of conjugate gradients within each
    /// block would project on the same actions.
    ///
    /// # Errors
    /// [`Error::Usage`] unless 1 ≤ i ≤ the number of targets.
    pub fn from_targets(y: &[f64], i: usize) -> Result<Self> {
        Self::by_block(y.len(), i, |rows| {
            let block = &y[rows];
            let norm = block.iter().map(|v| v * v).sum::<f64>().sqrt();
            if norm > 0.0 { block.iter().map(|v| v / norm).collect() } else { alike(block.len()) }
        })
    }

    /// Block-sparse actions with given non-zeros and boundaries. The number of non-zeros must be the last boundary, and
    /// there is one action less than boundaries. Other inputs are an error when the actions are used.
    pub fn from_blocks(values: &[f64], offsets: Vec<usize>) -> Self {
        Self { values: Parameter::real("actions", Unit::None, values), layout: Layout::Blocks(offsets) }
    }

    /// Full columns, row-major `[n, i]`.
    pub fn dense(values: &[f64], i: usize) -> Self {
        Self { values: Parameter::real("actions", Unit::None, values), layout: Layout::Dense(i) }
    }

    /// Number of actions i.
    pub fn len(&self) -> usize {
        match &self.layout {
            Layout::Blocks(offsets) => offsets.len().saturating_sub(1),
            Layout::Dense(i) => *i,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of latent values L n: one for each latent function and row.
    pub fn rows(&self) -> usize {
        match &self.layout {
            Layout::Blocks(_) => self.values.len(),
            Layout::Dense(i) => self.values.len() / i.max(&1),
        }
    }

    /// Checks that these are actions for `n` latent values.
    pub(super) fn check(&self, n: usize) -> Result<()> {
        let (rows, numbers) = (self.rows(), self.values.len());
        if rows != n || self.is_empty() {
            return Err(Error::shape(
                "actions",
                format!("at least one, for {n} rows"),
                format!("{} for {rows}", self.len()),
            ));
        }
        match self.layout {
            Layout::Dense(i) if i > n => {
                Err(Error::Usage(format!("{i} actions for {n} rows: need between 1 and the number of rows")))
            }
            Layout::Dense(i) if numbers != n * i => {
                Err(Error::shape("actions", format!("{n} rows of {i} numbers"), format!("{numbers} numbers")))
            }
            _ => Ok(()),
        }
    }

    /// The unit columns for some latent functions, and the norms `[i]` of the columns before the division. If a row's
    /// functions are correlated, the numbers of a row sum to 0 in each column.
    pub(super) fn unit(&self, scope: &Scope, (latents, centred): (usize, bool)) -> Result<(Basis, Tensor<1>)> {
        let (all, rows) = (self.values.len(), self.rows());
        let mut s = scope.value(&self.values);
        if centred {
            let functions = s.reshape([latents, all / latents]);
            s = (functions.clone() - functions.mean_dim(0)).reshape([all]);
        }
        let (basis, norms) = match &self.layout {
            Layout::Dense(i) => {
                let s = s.reshape([rows, *i]);
                let norms = s.clone().powi_scalar(2).sum_dim(0).sqrt();
                (Basis::dense(s / norms.clone()), norms.squeeze_dim(0))
            }
            Layout::Blocks(offsets) => {
                let n = rows / latents;
                let own = |s: &Tensor<1>, l: usize| BlockSparse::new(s.clone().narrow(0, l * n, n), offsets.clone());
                let blocks = |s: &Tensor<1>| -> Result<Basis> {
                    let each = (0..latents).map(|l| own(s, l)).collect::<Result<_>>()?;
                    Ok(Basis::of_functions(each, latents > 1 && !centred))
                };
                let norms = blocks(&s)?.transposed_times(&s.clone().unsqueeze_dim(1))?.sqrt();
                let spread = blocks(&s.ones_like())?.times(&norms)?.squeeze_dim(1);
                (blocks(&(s / spread))?, norms.squeeze_dim(1))
            }
        };
        let values = to_f64(norms.clone())?;
        match values.iter().position(|norm| !(norm.is_finite() && *norm > 0.0)) {
            None => Ok((basis, norms)),
            Some(a) => Err(Error::NotFinite(format!("action {a}, whose length is {}, divided by it,", values[a]))),
        }
    }
}

/// `size` equal numbers that form a unit vector.
fn alike(size: usize) -> Vec<f64> {
    vec![1.0 / (size as f64).sqrt(); size]
}

fn even(n: usize, i: usize) -> Result<Vec<usize>> {
    if i == 0 || i > n {
        return Err(Error::Usage(format!("{i} actions for {n} rows: need between 1 and the number of rows")));
    }
    Ok(BlockSparse::even(n, i))
}
