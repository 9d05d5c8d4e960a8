//! Splitting rows into training rows and test rows.
//!
//! Random splits use xoshiro256++ seeded through SplitMix64, so that a seed gives the same split on every
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

    /// Random groups of rows for testing, until they contain a share `fraction` of all rows. `groups [n]` is the group
    /// of each row.
    ///
    /// # Errors
    /// [`Error::Usage`] if no row is left to train or to test on.
    pub fn groups(groups: &[usize], fraction: f64, seed: u64) -> Result<Self> {
        let n = groups.len();
        let wanted = test_count(n, fraction)?;
        let mut test: Vec<usize> = Vec::new();
        for members in members(groups, seed) {
            if test.len() < wanted && test.len() + members.len() < n {
                test.extend(members);
            }
        }
        if test.is_empty() {
            return Err(Error::Usage("all rows are in one group: none can be held out without the others".into()));
        }
        Ok(Self::from_test(n, &test))
    }

    /// `k` splits whose test sets are disjoint, cover all rows, consist of whole groups and are about equal in size.
    ///
    /// # Errors
    /// [`Error::Usage`] unless there are at least `k` groups and at least two folds.
    pub fn group_folds(groups: &[usize], k: usize, seed: u64) -> Result<Vec<Self>> {
        let mut members = members(groups, seed);
        if k < 2 || k > members.len() {
            let count = members.len();
            return Err(Error::Usage(format!("{k} folds of {count} groups: choose from 2 up to the number of groups")));
        }
        // Take the largest groups first. Each goes to the fold that is smallest so far.
        members.sort_by_key(|rows| std::cmp::Reverse(rows.len()));
        let mut tests: Vec<Vec<usize>> = vec![Vec::new(); k];
        for rows in members {
            if let Some(smallest) = tests.iter_mut().min_by_key(|test| test.len()) {
                smallest.extend(rows);
            }
        }
        Ok(tests.iter().map(|test| Self::from_test(groups.len(), test)).collect())
    }

    /// `k` forecasts. The second half of `n` rows is divided into `k` parts; each part is forecast from all rows before
    /// it.
    ///
    /// # Errors
    /// [`Error::Usage`] unless `1 ≤ k ≤ n/2`.
    pub fn rolling(n: usize, k: usize) -> Result<Vec<Self>> {
        let first = n - n / 2;
        if k < 1 || k > n / 2 {
            return Err(Error::Usage(format!(
                "{k} forecasts from {n} rows: choose from 1 up to half the number of rows"
            )));
        }
        let end = |fold: usize| first + fold * (n - first) / k;
        Ok((0..k).map(|f| Self { train: (0..end(f)).collect(), test: (end(f)..end(f + 1)).collect() }).collect())
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

/// The rows of each group, with the groups in random order.
fn members(groups: &[usize], seed: u64) -> Vec<Vec<usize>> {
    let mut rows: std::collections::BTreeMap<usize, Vec<usize>> = std::collections::BTreeMap::new();
    groups.iter().enumerate().for_each(|(row, group)| rows.entry(*group).or_default().push(row));
    let mut all: Vec<Vec<usize>> = rows.into_values().collect();
    all.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
    all
}

/// How many of `n` rows a share `fraction` of them is.
pub(crate) fn test_count(n: usize, fraction: f64) -> Result<usize> {
    let count = (n as f64 * fraction).round();
    if count >= 1.0 && count < n as f64 {
        return Ok(count as usize);
    }
    Err(Error::Usage(format!(
        "a test share of {fraction} of {n} rows leaves no row on one side; choose another fraction between 0 and 1"
    )))
}

fn shuffled(n: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    order.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
    order
}
