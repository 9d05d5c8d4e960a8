//! Inducing inputs chosen from data: k-means++ centres, greedy variance, or random rows. The same seed gives the same
//! choice.

use std::str::FromStr;

use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::index;
use rand::{RngExt, SeedableRng};
use rayon::prelude::*;

use crate::device::Compute;
use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::scope::Scope;
use crate::solvers::covariance::NoisyCovariance;
use crate::solvers::pivoted_cholesky::pivoted_cholesky;
use crate::threads;

/// How inducing inputs are chosen from the rows of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Choice {
    /// Centres of k-means clusters from k-means++ seeds (Arthur and Vassilvitskii 2007).
    Kmeans,
    /// The rows of largest conditional prior variance, one after another (Burt et al. 2020, *Convergence of sparse
    /// variational inference*, section 7). These are the pivots of a pivoted Cholesky factorisation of K.
    Greedy,
    /// Random rows without repetition.
    Random,
}

impl FromStr for Choice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "kmeans" => Ok(Self::Kmeans),
            "greedy" => Ok(Self::Greedy),
            "random" => Ok(Self::Random),
            _ => Err(Error::Usage(format!("unknown choice of inducing inputs `{text}`; use kmeans, greedy or random"))),
        }
    }
}

/// The most rows that a choice looks at. More would cost more without changing much.
const SAMPLE: usize = 20_000;

/// The number of rounds of Lloyd's algorithm.
const ROUNDS: usize = 10;

/// At most `m` inducing inputs for `x`, both row-major with `d` columns. There are fewer if the data have fewer
/// distinct rows (k-means, greedy) or fewer rows. Of more than 20,000 rows, k-means and greedy see a random sample.
///
/// # Errors
/// [`Error::Usage`] when `m` is 0, [`Error::Shape`] when `x` is empty or its last row is incomplete, and errors of the
/// kernel.
pub fn choose(choice: Choice, kernel: &Kernel, x: &[f64], d: usize, m: usize, seed: u64) -> Result<Vec<f64>> {
    let (sample, mut rng) = sample(choice, x, d, m, seed)?;
    match choice {
        Choice::Random => Ok(sample),
        Choice::Kmeans => Ok(kmeans(&sample, d, m, &mut rng)),
        Choice::Greedy => greedy(kernel, &sample, d, m),
    }
}

/// The rows that a choice looks at, and the state of the random numbers after that.
fn sample(choice: Choice, x: &[f64], d: usize, m: usize, seed: u64) -> Result<(Vec<f64>, Xoshiro256PlusPlus)> {
    if m == 0 {
        return Err(Error::Usage("there must be at least one inducing input".into()));
    }
    if d == 0 || x.is_empty() || !x.len().is_multiple_of(d) {
        return Err(Error::shape("inputs", format!("rows of {d} columns"), format!("{} values", x.len())));
    }
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let n = x.len() / d;
    let most = if choice == Choice::Random { m } else { SAMPLE.max(m) };
    let mut rows = index::sample(&mut rng, n, most.min(n)).into_vec();
    rows.sort_unstable();
    let sample: Vec<f64> = rows.iter().flat_map(|&i| &x[i * d..][..d]).copied().collect();
    Ok((sample, rng))
}

/// The centres of at most `count` k-means clusters of the rows of `x`, as [`choose`] finds them.
///
/// # Errors
/// As [`choose`].
pub fn centres(x: &[f64], d: usize, count: usize, seed: u64) -> Result<Vec<f64>> {
    let (sample, mut rng) = sample(Choice::Kmeans, x, d, count, seed)?;
    Ok(kmeans(&sample, d, count, &mut rng))
}

fn greedy(kernel: &Kernel, x: &[f64], d: usize, m: usize) -> Result<Vec<f64>> {
    let (scope, n) = (Scope::new(Compute::default())?, x.len() / d);
    let covariance = NoisyCovariance::new(kernel, &scope, scope.matrix(x, n, d), scope.vector(&vec![0.0; n]))?;
    let pivots = pivoted_cholesky(&covariance, m, 0.0)?.pivots;
    Ok(pivots.into_iter().flat_map(|i| &x[i * d..][..d]).copied().collect())
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// The nearest centre of a row and its squared distance.
pub(in crate::models) fn nearest(row: &[f64], centres: &[f64]) -> (usize, f64) {
    let distances = centres.chunks_exact(row.len()).map(|centre| distance(row, centre)).enumerate();
    distances.fold((0, f64::INFINITY), |best, other| if other.1 < best.1 { other } else { best })
}

fn kmeans(x: &[f64], d: usize, m: usize, rng: &mut Xoshiro256PlusPlus) -> Vec<f64> {
    let n = x.len() / d;
    let mut centres = x[rng.random_range(0..n) * d..][..d].to_vec();
    let mut squares: Vec<f64> = threads::map(x.par_chunks(d), |row| distance(row, &centres));
    while centres.len() < m * d {
        let total: f64 = squares.iter().sum();
        if total <= 0.0 {
            break;
        }
        let mut left = rng.random::<f64>() * total;
        let taken = |square: &f64| {
            left -= square;
            left < 0.0
        };
        // Rounding may leave a remainder after the last row. Then take the farthest row.
        let next = squares
            .iter()
            .position(taken)
            .filter(|&i| squares[i] > 0.0)
            .unwrap_or_else(|| (0..n).fold(0, |far, i| if squares[i] > squares[far] { i } else { far }));
        let centre = &x[next * d..][..d];
        threads::for_each(squares.par_iter_mut().zip(x.par_chunks(d)), |(s, row)| *s = s.min(distance(row, centre)));
        centres.extend_from_slice(centre);
    }
    for _ in 0..ROUNDS {
        let owners = threads::map(x.par_chunks(d), |row| nearest(row, &centres).0);
        let mut sums = vec![0.0; centres.len()];
        let mut counts = vec![0usize; centres.len() / d];
        for (row, &owner) in x.chunks_exact(d).zip(&owners) {
            counts[owner] += 1;
            sums[owner * d..][..d].iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        }
        for ((centre, sum), &count) in centres.chunks_exact_mut(d).zip(sums.chunks_exact(d)).zip(&counts) {
            if count > 0 {
                centre.iter_mut().zip(sum).for_each(|(c, s)| *c = s / count as f64);
            }
        }
    }
    centres
}
