//! What residuals look like if the model is right: the model draws them itself.

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

use crate::threads;

/// Standardised residuals that a model draws: `[COUNT]` draws with one number for each row.
#[derive(Debug, Clone)]
pub struct Draws(Vec<Vec<f64>>);

/// Number of draws.
const COUNT: usize = 400;
/// A statistic is unusual if at most this many draws are as extreme: one half in a hundred.
const AS_FAR: usize = 1;

impl Draws {
    /// Draws of independent rows.
    pub fn independent(n: usize) -> Self {
        Self::of(n, |noise| noise)
    }

    /// Draws that `make` computes from independent standard normal numbers `[n]`.
    pub fn of(n: usize, make: impl Fn(Vec<f64>) -> Vec<f64> + Sync) -> Self {
        let draw = |seed: usize| {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed as u64);
            make((0..n).map(|_| StandardNormal.sample(&mut rng)).collect())
        };
        Self(threads::map((0..COUNT).into_par_iter(), draw))
    }

    /// All draws at once: `make` turns independent standard normal numbers, row-major `[n, count]`, into draws of the
    /// same form.
    ///
    /// # Errors
    /// As `make`.
    pub fn together(n: usize, make: impl FnOnce(Vec<f64>, usize) -> crate::Result<Vec<f64>>) -> crate::Result<Self> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(0);
        let noise = (0..n * COUNT).map(|_| StandardNormal.sample(&mut rng)).collect();
        let made = make(noise, COUNT)?;
        Ok(Self((0..COUNT).map(|k| made[k..].iter().step_by(COUNT).copied().collect()).collect()))
    }

    /// The draws of some rows.
    pub fn subset(&self, rows: &[usize]) -> Self {
        Self(self.0.iter().map(|draw| rows.iter().map(|row| draw[*row]).collect()).collect())
    }

    /// The value that a statistic exceeds in one of a hundred draws.
    pub(super) fn rare(&self, statistic: impl Fn(&[f64]) -> f64 + Sync) -> f64 {
        self.ranked(COUNT - COUNT / 100, statistic)
    }

    /// The largest value of a statistic that does not [exceed](Self::exceeds) that of nearly all draws.
    pub(super) fn widest(&self, statistic: impl Fn(&[f64]) -> f64 + Sync) -> f64 {
        self.ranked(COUNT - 1 - AS_FAR, statistic)
    }

    /// The value of a statistic at a place among those of all draws, the smallest first.
    fn ranked(&self, place: usize, statistic: impl Fn(&[f64]) -> f64 + Sync) -> f64 {
        let mut drawn = threads::map(self.0.par_iter(), |draw| statistic(draw));
        *drawn.select_nth_unstable_by(place, f64::total_cmp).1
    }

    /// Whether a statistic exceeds that of nearly all draws.
    pub(super) fn exceeds(&self, observed: f64, statistic: impl Fn(&[f64]) -> f64 + Sync) -> bool {
        observed > self.widest(statistic)
    }
}
