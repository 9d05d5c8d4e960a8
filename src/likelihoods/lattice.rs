//! Sums of `softmax(f)` and `ln Σ exp(f)` over many correlated Gaussian `f`, on the points of lattices.

use std::sync::OnceLock;

use cagey_base::likelihoods::correlated::{Averaged, LARGEST, normals};

use super::correlated::Difficulty;
use crate::arithmetic::Arithmetic;
use crate::products::lanes::{Chains, Lanes, Number, Work};

/// A lattice. Each of its points is also used with its mirror image.
struct Size {
    /// The number of points; they fill whole vectors.
    points: usize,
    /// The generator with the smallest worst-case error for ten dimensions with weights that decrease by a factor of
    /// 0.7: among all of them, or among three hundred for the largest lattice.
    generator: usize,
    /// The [`Difficulty`] from which on larger lattices begin to take over, and up to which they have done so.
    enough: [f64; 2],
}

/// For ten classes, 183 random averages with difficulties up to 1 erred by at most 8.5e-4 nats, 1.4e-4 in the root mean
/// square, and 51 with larger ones by at most 5.7e-3, 1.2e-3 in the root mean square. Two thirds of them were
/// covariances that softmax curvatures leave of prior variances up to 15: at most 1.2e-3, 2.2e-4 in the root mean
/// square.
const SIZES: [Size; 4] = [
    Size { points: 1 << 8, generator: 35, enough: [0.06, 0.1] },
    Size { points: 1 << 10, generator: 227, enough: [0.15, 0.25] },
    Size { points: 1 << 12, generator: 2267, enough: [0.6, 1.0] },
    Size { points: LARGEST.0, generator: LARGEST.1, enough: [f64::INFINITY; 2] },
];

impl Size {
    /// The share of larger lattices, from 0 to 1, and its slope. Both are continuous, so that optimisers see a smooth
    /// function.
    fn left_over(&self, difficulty: f64) -> (f64, f64) {
        let [low, high] = self.enough;
        if difficulty <= low {
            return (0.0, 0.0);
        }
        let (along, width) = ((difficulty - low) / (high - low), high - low);
        if along >= 1.0 {
            (1.0, 0.0)
        } else {
            (along * along * (3.0 - 2.0 * along), 6.0 * along * (1.0 - along) / width)
        }
    }
}

/// Standard normal numbers in `L` dimensions on lattices of several sizes, computed when first needed.
#[derive(Debug, Default)]
pub(super) struct Lattice([OnceLock<Vec<f64>>; SIZES.len()]);

/// Averages over a lattice and its mirror image.
pub(super) struct Means {
    /// For `f = m + R z`.
    pub together: Side,
    /// For `f = m + diag(s) z`.
    pub apart: Side,
    /// Slopes of `together` in R, row-major `[L, L]`.
    pub in_root: Vec<f64>,
    /// Slopes of `apart` in s.
    pub in_sd: Vec<f64>,
}

impl Means {
    fn numbers(&mut self) -> impl Iterator<Item = &mut f64> {
        let Self { together, apart, in_root, in_sd } = self;
        let sides = [&mut together.log_sum, &mut apart.log_sum].into_iter();
        let shares = together.shares.iter_mut().chain(&mut apart.shares);
        sides.chain(shares).chain(in_root).chain(in_sd)
    }

    /// What correlations change in the average of `ln Σ exp(f)`.
    pub fn change(&self) -> f64 {
        self.together.log_sum - self.apart.log_sum
    }
}

/// Averages over one kind of `f`.
pub(super) struct Side {
    /// The average of `ln Σ exp(f)`.
    pub log_sum: f64,
    /// The average of `softmax(f)`.
    pub shares: Vec<f64>,
}

impl Lattice {
    /// The averages for means `[L]`, a root R `[L, L]` and standard deviations s `[L]`, on lattices as large as their
    /// difficulty needs, and the slope of their [`change`](Means::change) in the difficulty.
    pub fn means_at(&self, difficulty: &Difficulty, mean: &[f64], root: &[f64], sd: &[f64]) -> (Means, f64) {
        let x = difficulty.value;
        let size = SIZES.iter().position(|size| size.left_over(x).0 < 1.0).unwrap_or(SIZES.len() - 1);
        let mut means = self.on(size, mean, root, sd);
        let (share, slope) = SIZES[size].left_over(x);
        if share == 0.0 {
            return (means, 0.0);
        }
        let mut larger = self.on(size + 1, mean, root, sd);
        let in_difficulty = slope * (larger.change() - means.change());
        means.numbers().zip(larger.numbers()).for_each(|(small, large)| *small += share * (*large - *small));
        (means, in_difficulty)
    }

    fn on(&self, size: usize, mean: &[f64], root: &[f64], sd: &[f64]) -> Means {
        let points = self.0[size].get_or_init(|| {
            let Size { points, generator, .. } = SIZES[size];
            normals((points, generator), mean.len())
        });
        f64::vectorised(Visit { mean, root, sd, points, count: SIZES[size].points })
    }
}

impl Averaged for Lattice {
    fn shares(&self, mean: &[f64], root: &[f64], sd: &[f64]) -> [Vec<f64>; 2] {
        let Means { together, apart, .. } = self.on(SIZES.len() - 1, mean, root, sd);
        [together.shares, apart.shares]
    }
}

struct Visit<'a> {
    mean: &'a [f64],
    root: &'a [f64],
    sd: &'a [f64],
    points: &'a [f64],
    count: usize,
}

impl Work<f64> for Visit<'_> {
    type Output = Means;

    fn run<L: Lanes<Element = f64>>(self) -> Means {
        L::enter(
            #[inline(always)]
            || self.sums::<L>(),
        )
    }
}

impl Visit<'_> {
    #[inline(always)]
    fn sums<L: Lanes<Element = f64>>(self) -> Means {
        let (n, mut sums) = (self.mean.len(), [Running::<L>::new(self.mean), Running::new(self.mean)]);
        let zeros = vec![L::zero(); n];
        let (mut z, mut step) = (zeros.clone(), zeros.clone());
        let (mut in_root, mut in_sd) = (vec![L::zero(); n * n], zeros);
        for first in (0..self.count).step_by(L::N) {
            for (z, row) in z.iter_mut().zip(self.points.chunks_exact(self.count)) {
                *z = L::load(&row[first..]);
            }
            for (step, row) in step.iter_mut().zip(self.root.chunks_exact(n)) {
                *step = L::zero();
                for (r, z) in row.iter().zip(&z) {
                    *step = z.mul_add(L::splat(*r), *step);
                }
            }
            sums[0].add(&step);
            for (row, turn) in in_root.chunks_exact_mut(n).zip(&sums[0].turn) {
                row.iter_mut().zip(&z).for_each(
                    #[inline(always)]
                    |(sum, z)| *sum = z.mul_add(*turn, *sum),
                );
            }
            for (step, (z, sd)) in step.iter_mut().zip(z.iter().zip(self.sd)) {
                *step = z.mul(L::splat(*sd));
            }
            sums[1].add(&step);
            for (sum, (z, turn)) in in_sd.iter_mut().zip(z.iter().zip(&sums[1].turn)) {
                *sum = z.mul_add(*turn, *sum);
            }
        }
        let average = |sum: L| sum.sum() / (2 * self.count) as f64;
        let [together, apart] = sums.map(|Running { log_sum, shares, .. }| Side {
            log_sum: average(log_sum),
            shares: shares.into_iter().map(average).collect(),
        });
        let [in_root, in_sd] = [in_root, in_sd].map(|sums| sums.into_iter().map(average).collect());
        Means { together, apart, in_root, in_sd }
    }
}

/// Running sums over points and their mirror images.
struct Running<'a, L> {
    mean: &'a [f64],
    log_sum: L,
    shares: Vec<L>,
    /// The shares at the last point minus those at its mirror image.
    turn: Vec<L>,
    f: Vec<L>,
}

impl<'a, L: Lanes<Element = f64>> Running<'a, L> {
    #[inline(always)]
    fn new(mean: &'a [f64]) -> Self {
        let zeros = vec![L::zero(); mean.len()];
        Self { mean, log_sum: L::zero(), shares: zeros.clone(), turn: zeros.clone(), f: zeros }
    }

    /// Adds `f = m ± step`.
    #[inline(always)]
    fn add(&mut self, step: &[L]) {
        for sign in [1.0, -1.0] {
            for (f, (m, step)) in self.f.iter_mut().zip(self.mean.iter().zip(step)) {
                *f = step.mul_add(L::splat(sign), L::splat(*m));
            }
            self.log_sum = self.log_sum.add(normalise(&mut self.f));
            for ((sum, turn), share) in self.shares.iter_mut().zip(&mut self.turn).zip(&self.f) {
                *sum = sum.add(*share);
                *turn = if sign > 0.0 { *share } else { turn.sub(*share) };
            }
        }
    }
}

/// Replaces `f` by the class probabilities and returns `ln Σ exp(f)`.
#[inline(always)]
fn normalise<L: Lanes<Element = f64>>(f: &mut [L]) -> L {
    let mut top = f[0];
    for f in &f[1..] {
        top = top.max(*f);
    }
    let mut sum = L::zero();
    for f in f.iter_mut() {
        let Chains([[power]]) = Chains([[f.sub(top)]]).exp();
        *f = power;
        sum = sum.add(power);
    }
    let scale = L::splat(1.0).div(sum);
    for f in f.iter_mut() {
        *f = f.mul(scale);
    }
    let Chains([[log]]) = Chains([[sum]]).ln();
    top.add(log)
}
