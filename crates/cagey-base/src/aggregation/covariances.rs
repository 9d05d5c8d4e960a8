//! How the means of experts vary together under the prior.

use super::{Aggregated, Experts};
use crate::error::{Error, Result};

/// c `[M, t]` and C `[t, M, M]` of `M` experts at `t` rows, summed up block by block.
#[derive(Debug, Clone)]
pub struct Covariances {
    experts: usize,
    rows: usize,
    with_f: Vec<f64>,
    among: Vec<f64>,
}

impl Covariances {
    /// All zeros.
    pub fn new(experts: usize, rows: usize) -> Self {
        let (with_f, among) = (vec![0.0; experts * rows], vec![0.0; experts * experts * rows]);
        Self { experts, rows, with_f, among }
    }

    /// The bytes that covariances of this size take.
    pub fn bytes(experts: usize, rows: usize) -> usize {
        size_of::<f64>() * rows * experts * (experts + 1)
    }

    /// M.
    pub fn experts(&self) -> usize {
        self.experts
    }

    /// t.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Adds Σ_r left_r right_r to c_i = Cov(μ_i, f) at each test row. Both factors are row-major `[r, t]`: w_i and
    /// k(X_i, x*), or some of their rows.
    ///
    /// # Errors
    /// [`Error::Shape`] when lengths disagree.
    pub fn add_with_f(&mut self, expert: usize, left: &[f64], right: &[f64]) -> Result<()> {
        self.check(expert, left, right)?;
        let sums = &mut self.with_f[expert * self.rows..][..self.rows];
        for (left, right) in left.chunks_exact(sums.len().max(1)).zip(right.chunks_exact(sums.len().max(1))) {
            sums.iter_mut().zip(left).zip(right).for_each(|((sum, l), r)| *sum += l * r);
        }
        Ok(())
    }

    /// Adds Σ_r left_r right_r to C_ij = C_ji at each test row. Both factors are row-major `[r, t]`: w_i and (K_ij +
    /// δ_ij σ²I) w_j, or some of their rows. Add each pair of experts once.
    ///
    /// # Errors
    /// [`Error::Shape`] when lengths disagree.
    pub fn add_among(&mut self, i: usize, j: usize, left: &[f64], right: &[f64]) -> Result<()> {
        self.check(i.max(j), left, right)?;
        let mut sums = vec![0.0; self.rows];
        for (left, right) in left.chunks_exact(self.rows.max(1)).zip(right.chunks_exact(self.rows.max(1))) {
            sums.iter_mut().zip(left).zip(right).for_each(|((sum, l), r)| *sum += l * r);
        }
        let m = self.experts;
        for (matrix, sum) in self.among.chunks_exact_mut(m * m).zip(sums) {
            matrix[i * m + j] += sum;
            if i != j {
                matrix[j * m + i] += sum;
            }
        }
        Ok(())
    }

    /// c_i at a row.
    pub fn with_f(&self, expert: usize, row: usize) -> f64 {
        self.with_f[expert * self.rows + row]
    }

    /// C at a row, row-major `[M, M]`.
    pub fn among(&self, row: usize) -> &[f64] {
        &self.among[row * self.experts * self.experts..][..self.experts * self.experts]
    }

    fn check(&self, expert: usize, left: &[f64], right: &[f64]) -> Result<()> {
        let whole = if self.rows == 0 { left.is_empty() } else { left.len().is_multiple_of(self.rows) };
        if expert < self.experts && left.len() == right.len() && whole {
            return Ok(());
        }
        let expected = format!("two of [r, {}], experts below {}", self.rows, self.experts);
        let got = format!("{} and {} values, expert {expert}", left.len(), right.len());
        Err(Error::shape("covariances of experts", expected, got))
    }
}

/// Mean Σ β_i μ_i. The variance is its mean-squared error under the prior, k** − 2 Σ β_i c_i + ΣΣ β_i β_j C_ij: right
/// for weights that do not depend on the targets, and never negative. The paper's Σ β_i² v_i (eq. 45 with the variance
/// of eq. 12b) would be right if the experts' errors were independent.
#[doc(hidden)]
pub fn weighted(experts: &Experts, beta: &[f64], covariances: &Covariances) -> Aggregated {
    let mut all = Aggregated::of(experts.rows);
    for row in 0..experts.rows {
        let prior = experts.prior[row];
        let mut mean = 0.0;
        for (i, weight) in beta.iter().enumerate() {
            mean += weight * experts.at(i, row, &mut all.record).0;
        }
        let with_f: f64 = beta.iter().enumerate().map(|(i, weight)| weight * covariances.with_f(i, row)).sum();
        let among: f64 = (covariances.among(row).chunks_exact(beta.len()).zip(beta))
            .map(|(row, weight)| weight * row.iter().zip(beta).map(|(c, other)| c * other).sum::<f64>())
            .sum();
        let variance = prior - 2.0 * with_f + among;
        all.push(mean, variance, prior);
    }
    all
}
