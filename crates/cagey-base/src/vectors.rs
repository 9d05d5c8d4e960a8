//! Loops in the widest vectors of the processor, and distances of points.

use std::cmp::Ordering;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub};

/// Runs a loop compiled for the processor's widest vectors, with the same operations in the same order. Without the
/// feature `vectors`, for those that the compiler may assume.
#[inline(always)]
pub fn vectorised<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(feature = "vectors")]
    return pulp::Arch::new().dispatch(work);
    #[cfg(not(feature = "vectors"))]
    return work();
}

/// Σ (a − b)², in a few independent sums.
pub fn squared_distance<T>(a: &[T], b: &[T]) -> T
where
    T: Copy + Default + Add<Output = T> + Sub<Output = T> + Mul<Output = T> + AddAssign + Sum,
{
    let b = &b[..a.len()];
    let mut sums = [T::default(); 8];
    let (left, right) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: T = left.remainder().iter().zip(right.remainder()).map(|(a, b)| (*a - *b) * (*a - *b)).sum();
    for (a, b) in left.zip(right) {
        (0..8).for_each(|l| sums[l] += (a[l] - b[l]) * (a[l] - b[l]));
    }
    sums.into_iter().sum::<T>() + rest
}

/// The least distances so far, with some more.
#[derive(Debug, Clone)]
pub struct Nearest {
    pairs: Vec<(f64, u32)>,
    count: usize,
    /// No distance from here on is among the least: later indices lose ties.
    bound: f64,
}

impl Nearest {
    /// For the `count` nearest.
    pub fn new(count: usize) -> Self {
        // The largest number in the total order.
        Self { pairs: Vec::with_capacity(2 * count), count, bound: f64::from_bits(i64::MAX as u64) }
    }

    /// Adds a distance; indices ascend.
    #[inline(always)]
    pub fn add(&mut self, distance: f64, index: u32) {
        if distance.total_cmp(&self.bound).is_lt() {
            self.keep(distance, index);
        }
    }

    fn keep(&mut self, distance: f64, index: u32) {
        self.pairs.push((distance, index));
        if self.pairs.len() == 2 * self.count {
            self.pairs.select_nth_unstable_by(self.count - 1, Self::order);
            self.pairs.truncate(self.count);
            self.bound = self.pairs[self.count - 1].0;
        }
    }

    /// The indices of the least distances, nearest first.
    pub fn first(mut self) -> impl Iterator<Item = u32> {
        self.pairs.sort_unstable_by(Self::order);
        self.pairs.into_iter().take(self.count).map(|(_, j)| j)
    }

    fn order(a: &(f64, u32), b: &(f64, u32)) -> Ordering {
        a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
    }
}
