//! The data and the prior, for which Newton's method finds the posterior mode.

use super::system::Gram;
use crate::likelihoods::{Density, Row};

/// The problem of finding a posterior mode.
#[derive(Debug, Clone, Copy)]
pub(super) struct Task<'a> {
    pub density: &'a dyn Density,
    pub rows: &'a [Row],
    pub gram: Gram<'a>,
    /// Prior means `[P, n]`, for all latent functions or for each.
    pub means: &'a [f64],
}

impl<'a> Task<'a> {
    pub fn n(&self) -> usize {
        self.rows.len()
    }

    /// The prior mean of a latent function.
    pub fn mean(&self, latent: usize) -> &'a [f64] {
        let place = latent.min(self.means.len() / self.n() - 1);
        &self.means[place * self.n()..][..self.n()]
    }

    /// The rows with their latent values.
    pub fn at<'b>(&'b self, f: &'b [f64]) -> impl Iterator<Item = (Row, Vec<f64>)> + 'b {
        let values = |i: usize| f.iter().skip(i).step_by(self.n()).copied().collect();
        self.rows.iter().enumerate().map(move |(i, row)| (*row, values(i)))
    }
}
