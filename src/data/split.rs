//! Which rows train and which test.
//!
//! Random splits come from xoshiro256++ seeded through SplitMix64, so that a seed gives the same split on every
//! machine.

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom;

use crate::{Error, Result};

/// Positions of training and test rows, ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Rows to train on.
    pub train: Vec<usize>,
    /// Rows to test on.
    pub test: Vec<usize>,
}

impl Split {
    /// A random share `fraction` of `n` rows for testing.
    ///
    /// # Errors
    /// [`Error::Usage`] if the fraction leaves no row to train or to test on.
    pub fn random(n: usize, fraction: f64, seed: u64) -> Result<Self> {
        let count = test_count(n, fraction)?;
        Ok(Self::from_test(n, &shuffled(n, seed)[..count]))
    }

    /// The last share `fraction` of `n` rows for testing, for data in order of time.
    ///
    /// # Errors
    /// [`Error::Usage`] if the fraction leaves no row to train or to test on.
    pub fn last(n: usize, fraction: f64) -> Result<Self> {
        let first = n - test_count(n, fraction)?;
        Ok(Self { train: (0..first).collect(), test: (first..n).collect() })
    }

    /// `k` splits of `n` rows whose test sets are disjoint, cover all rows and differ by at most one in size.
    ///
    /// # Errors
    /// [`Error::Usage`] unless `2 ≤ k ≤ n`.
    pub fn folds(n: usize, k: usize, seed: u64) -> Result<Vec<Self>> {
        if k < 2 || k > n {
            return Err(Error::Usage(format!("{k} folds of {n} rows: choose from 2 up to the number of rows")));
        }
        let order = shuffled(n, seed);
        Ok((0..k).map(|fold| Self::from_test(n, &order[fold * n / k..(fold + 1) * n / k])).collect())
    }

    /// Tests on the rows where the mask is true.
    ///
    /// # Errors
    /// [`Error::Usage`] if the mask leaves no row to train or to test on.
    pub fn from_mask(mask: &[bool]) -> Result<Self> {
        let (test, train): (Vec<usize>, Vec<usize>) = (0..mask.len()).partition(|&i| mask[i]);
        if train.is_empty() || test.is_empty() {
            return Err(Error::Usage(format!(
                "the mask marks {} of {} rows for testing; both a training and a test row are needed",
                test.len(),
                mask.len()
            )));
        }
        Ok(Self { train, test })
    }

    fn from_test(n: usize, test: &[usize]) -> Self {
        let mut mask = vec![false; n];
        for &i in test {
            mask[i] = true;
        }
        let (test, train) = (0..n).partition(|&i| mask[i]);
        Self { train, test }
    }
}

fn test_count(n: usize, fraction: f64) -> Result<usize> {
    let count = (n as f64 * fraction).round();
    if count >= 1.0 && count < n as f64 {
        return Ok(count as usize);
    }
    Err(Error::Usage(format!(
        "a test share of {fraction} of {n} rows leaves no row on one side; choose a fraction between 0 and 1 that does"
    )))
}

fn shuffled(n: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    order.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
    order
}
