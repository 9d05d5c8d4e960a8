//! What residuals of a right model look like: drawn by the model itself.

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

use crate::threads;

/// Standardised residuals as a model draws them, `[COUNT]` times one for each row.
#[derive(Debug, Clone)]
pub struct Draws(Vec<Vec<f64>>);

/// How many there are.
const COUNT: usize = 400;
/// So many of them may be as far out as what is found to be strange: one half in a hundred.
const AS_FAR: usize = 1;

impl Draws {
    /// Of independent rows.
    pub fn independent(n: usize) -> Self {
        Self::of(n, |noise| noise)
    }

    /// Draws made of independent standard normal numbers `[n]`.
    pub fn of(n: usize, make: impl Fn(Vec<f64>) -> Vec<f64> + Sync) -> Self {
        let draw = |seed: usize| {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed as u64);
            make((0..n).map(|_| StandardNormal.sample(&mut rng)).collect())
        };
        Self(threads::map((0..COUNT).into_par_iter(), draw))
    }

    /// Draws made all at once of independent standard normal numbers, row-major `[n, count]`, into the same.
    ///
    /// # Errors
    /// What making them reports.
    pub fn together(n: usize, make: impl FnOnce(Vec<f64>, usize) -> crate::Result<Vec<f64>>) -> crate::Result<Self> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(0);
        let noise = (0..n * COUNT).map(|_| StandardNormal.sample(&mut rng)).collect();
        let made = make(noise, COUNT)?;
        Ok(Self((0..COUNT).map(|k| made[k..].iter().step_by(COUNT).copied().collect()).collect()))
    }

    /// Those of some rows.
    pub fn subset(&self, rows: &[usize]) -> Self {
        Self(self.0.iter().map(|draw| rows.iter().map(|row| draw[*row]).collect()).collect())
    }

    /// What a statistic exceeds in one of a hundred draws.
    pub(super) fn rare(&self, statistic: impl Fn(&[f64]) -> f64 + Sync) -> f64 {
        let mut drawn = threads::map(self.0.par_iter(), |draw| statistic(draw));
        *drawn.select_nth_unstable_by(COUNT - COUNT / 100, f64::total_cmp).1
    }

    /// Whether a statistic is beyond nearly all of those of the draws.
    pub(super) fn exceeds(&self, observed: f64, statistic: impl Fn(&[f64]) -> f64 + Sync) -> bool {
        let drawn = threads::map(self.0.par_iter(), |draw| statistic(draw) >= observed);
        drawn.into_iter().filter(|far| *far).count() <= AS_FAR
    }
}
