//! Actions as numbers on the host, and the small systems in their span.

use std::borrow::Cow;
use std::ops::Range;

use super::newton::Sites;
use crate::error::Result;
use crate::linalg::Factor;
use crate::linalg::dense::columns::combine;
use crate::linalg::dense::{product, view, view_mut};
use crate::linalg::real::dot;
use crate::scope::to_f64;
use crate::serving::Change;
use crate::solvers::Group;

/// Columns of S `[L n, i]`.
#[derive(Debug, Clone)]
pub(super) enum Numbers<'a> {
    /// One action after another, `[i, L n]`, and L n.
    Dense(Cow<'a, [f64]>, usize),
    /// Block-sparse actions.
    Blocks {
        /// One number for each row of each latent function `[L n]`.
        values: Vec<f64>,
        /// The ranges of these numbers that belong to each action.
        columns: Vec<Vec<Range<usize>>>,
    },
}

impl Numbers<'_> {
    /// The numbers of columns in tensors.
    ///
    /// # Errors
    /// What reading them from their device reports.
    pub fn of(group: &Group) -> Result<Self> {
        Ok(match group {
            Group::Dense(dense) => Self::Dense(to_f64(dense.clone().transpose())?.into(), dense.dims()[0]),
            Group::Sparse { blocks, apart } => {
                let each = blocks.iter().map(|own| to_f64(own.values().clone()));
                let values = each.collect::<Result<Vec<_>>>()?.concat();
                let n = values.len() / blocks.len();
                let of = |l: usize, w: &[usize]| l * n + w[0]..l * n + w[1];
                let pieces = || blocks[0].offsets().windows(2);
                let columns = match apart {
                    true => (0..blocks.len()).flat_map(|l| pieces().map(move |w| vec![of(l, w)])).collect(),
                    false => pieces().map(|w| (0..blocks.len()).map(|l| of(l, w)).collect()).collect(),
                };
                Self::Blocks { values, columns }
            }
        })
    }

    /// Number of actions i.
    pub fn len(&self) -> usize {
        match self {
            Self::Dense(values, n) => values.len() / n,
            Self::Blocks { columns, .. } => columns.len(),
        }
    }

    /// Sᵀx `[i]` for x `[L n]`.
    pub fn project(&self, x: &[f64]) -> Vec<f64> {
        match self {
            Self::Dense(values, n) => values.chunks_exact(*n).map(|s| dot(s, x)).collect(),
            Self::Blocks { values, columns } => {
                let of = |rows: &Range<usize>| dot(&values[rows.clone()], &x[rows.clone()]);
                columns.iter().map(|ranges| ranges.iter().map(of).sum()).collect()
            }
        }
    }

    /// S a `[L n]` for weights a `[i]`.
    pub fn times(&self, a: &[f64]) -> Vec<f64> {
        match self {
            Self::Dense(_, n) if a.is_empty() => vec![0.0; *n],
            Self::Dense(values, _) => combine(values, a),
            Self::Blocks { values, columns } => {
                let mut all = values.clone();
                for (ranges, a) in columns.iter().zip(a) {
                    ranges.iter().for_each(|rows| all[rows.clone()].iter_mut().for_each(|s| *s *= a));
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
            Self::Blocks { values, columns } => {
                let noise = |rows: &Range<usize>| -> f64 {
                    values[rows.clone()].iter().zip(&curvature[rows.clone()]).map(|(s, d)| s * s / d).sum()
                };
                let noise = columns.iter().map(|ranges| ranges.iter().map(noise).sum::<f64>());
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
            Self::Blocks { values, columns } => {
                let n = values.len() / latents;
                let mut ends = vec![0];
                for ranges in columns {
                    // Blocks without rows stand for the columns of other functions.
                    let own = ranges.iter().find(|rows| rows.start / n == l).map(|rows| rows.end - l * n);
                    ends.push(own.unwrap_or(ends[ends.len() - 1]));
                }
                Change::Blocks(keep("actions", values[l * n..][..n].to_vec()), ends)
            }
        }
    }

    /// Row `row` of S `[i]`.
    pub fn row(&self, row: usize) -> Vec<f64> {
        match self {
            Self::Dense(values, n) => values.iter().skip(row).step_by(*n).copied().collect(),
            Self::Blocks { values, columns } => {
                let own = |ranges: &Vec<Range<usize>>| ranges.iter().any(|rows| rows.contains(&row));
                columns.iter().map(|ranges| if own(ranges) { values[row] } else { 0.0 }).collect()
            }
        }
    }
}

/// The small system of actions for targets with noise, or sites: `M a = Sᵀ(ŷ − m)` with `M = Sᵀ(K + W⁻¹)S`.
#[derive(Debug, Clone)]
pub(super) struct Small {
    /// The factor of M.
    pub factor: Factor<f64>,
    /// `Sᵀ(ŷ − m)`.
    pub projected: Vec<f64>,
    /// a.
    pub weights: Vec<f64>,
}

impl Small {
    pub fn new(factor: Factor<f64>, projected: Vec<f64>) -> Result<Self> {
        let mut weights = projected.clone();
        factor.solve(&mut weights)?;
        Ok(Self { factor, projected, weights })
    }

    /// From S, SᵀKS, and sites with their f − m `[L n]`.
    pub fn at(s: &Numbers, mut gram: Vec<f64>, sites: &Sites, above: &[f64]) -> Result<Self> {
        s.add_noise(&sites.curvature, &mut gram);
        Self::new(Factor::new(gram, "Sᵀ(K + W⁻¹)S")?, s.project(&sites.targets(above)))
    }

    /// The divergence of the posterior from the prior, for `N = SᵀW⁻¹S` `[i, i]`:
    /// `½ (aᵀ(M − N)a + ln|M| − ln|N| − i + tr M⁻¹N)`. NaN if rounding errors hide that N is positive definite.
    pub fn divergence(&self, noise: Vec<f64>) -> Result<f64> {
        let (i, a) = (self.weights.len(), &self.weights);
        let pulled =
            dot(&self.projected, a) - noise.chunks_exact(i).zip(a).map(|(row, own)| own * dot(row, a)).sum::<f64>();
        let Ok(root) = Factor::new(noise, "SᵀW⁻¹S") else { return Ok(f64::NAN) };
        let log_dets = self.factor.log_det() - root.log_det();
        let mut e = root.lower();
        self.factor.solve_lower(&mut e)?;
        Ok(0.5 * (pulled + log_dets - i as f64 + dot(&e, &e)))
    }
}
