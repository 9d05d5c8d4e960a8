//! The partial grids of a sparse grid.

use std::collections::BTreeMap;

use crate::error::{Error, Result};

/// The largest number of input columns.
pub const COLUMNS: usize = 5;

/// The largest number of points of all partial grids together.
pub const POINTS: usize = 8192;

/// One full grid: `{j/2^l : j = 1..2^l − 1}` along each input.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// l of each input `[d]`, from 1 up.
    pub levels: Vec<usize>,
    /// The coefficient of the grid in the combination technique, (−1)^{η+d−1−|l|₁} C(d − 1, |l|₁ − η).
    pub technique: f64,
    /// The indices of its points among the distinct points `[m]`.
    pub members: Vec<usize>,
}

impl Grid {
    /// The levels as text, such as `(1, 4)`.
    pub fn name(&self) -> String {
        let levels: Vec<String> = self.levels.iter().map(usize::to_string).collect();
        format!("({})", levels.join(", "))
    }
}

/// The partial grids of level η, η ≤ |l|₁ ≤ η + d − 1, in the unit cube (Chen and Tuo 2024, section 3). Every l starts
/// from 1 and j goes up to 2^l − 1, unlike eq. 19 as printed.
#[derive(Debug, Clone, PartialEq)]
pub struct Grids {
    /// Input columns d.
    pub d: usize,
    /// All grids, by rising |l|₁.
    pub all: Vec<Grid>,
    /// The distinct points, row-major `[u, d]`.
    pub points: Vec<f64>,
}

impl Grids {
    /// Makes all grids of a level.
    ///
    /// # Errors
    /// [`Error::Usage`] for no inputs or more than [`COLUMNS`], for level 0, and for more than [`POINTS`] points.
    pub fn new(level: usize, d: usize) -> Result<Self> {
        if d == 0 || d > COLUMNS {
            return Err(Error::Usage(format!(
                "a sparse grid is for 1 to {COLUMNS} input columns, but there are {d}: leave columns out, or choose \
                 another model"
            ))
            .about("ReadOptions::drop")
            .about("Settings::model"));
        }
        if level == 0 || points(level, d) > POINTS {
            let most = (1..).take_while(|level| points(*level, d) <= POINTS).last().unwrap_or(1);
            return Err(Error::Usage(format!(
                "a sparse grid of level {level} over {d} input columns: choose from 1 to {most}, which keeps all \
                 partial grids within {POINTS} points"
            ))
            .about("SparseGridOptions::level"));
        }
        let mut found: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
        let (mut all, mut places) = (Vec::new(), Vec::new());
        for levels in combined(level, d) {
            let technique = technique(level, &levels);
            let counts: Vec<usize> = levels.iter().map(|l| (1 << l) - 1).collect();
            let mut members = Vec::with_capacity(counts.iter().product());
            let mut at = vec![0; d];
            for _ in 0..counts.iter().product() {
                // Count in steps of the finest grid, where the same point has the same numbers in different grids.
                let steps = at.iter().zip(&levels).map(|(j, l)| (j + 1) << (level - l)).collect();
                let next = found.len();
                let index = *found.entry(steps).or_insert(next);
                if index == next {
                    places.extend(at.iter().zip(&levels).map(|(j, l)| (*j + 1) as f64 / (1 << l) as f64));
                }
                members.push(index);
                for (j, count) in at.iter_mut().zip(&counts).rev() {
                    *j += 1;
                    if *j < *count {
                        break;
                    }
                    *j = 0;
                }
            }
            all.push(Grid { levels, technique, members });
        }
        Ok(Self { d, all, points: places })
    }

    /// The number of distinct points u.
    pub fn distinct(&self) -> usize {
        self.points.len() / self.d
    }

    /// The number of points of all grids.
    pub fn total(&self) -> usize {
        self.all.iter().map(|grid| grid.members.len()).sum()
    }

    /// The points of a grid `[m, d]`, row-major.
    pub fn points_of(&self, grid: &Grid) -> Vec<f64> {
        grid.members.iter().flat_map(|&at| &self.points[at * self.d..][..self.d]).copied().collect()
    }
}

/// Every l of d inputs with entries from 1 up and η ≤ |l|₁ ≤ η + d − 1, by rising |l|₁.
fn combined(level: usize, d: usize) -> Vec<Vec<usize>> {
    (level.max(d)..level + d).flat_map(|sum| of_sum(sum, d)).collect()
}

/// Every l of `d` inputs with entries from 1 up and |l|₁ = `sum`.
fn of_sum(sum: usize, d: usize) -> Vec<Vec<usize>> {
    if d == 1 {
        return vec![vec![sum]];
    }
    let with = |first: usize| of_sum(sum - first, d - 1).into_iter().map(move |rest| [vec![first], rest].concat());
    (1..=sum + 1 - d).flat_map(with).collect()
}

fn technique(level: usize, levels: &[usize]) -> f64 {
    let (d, sum) = (levels.len(), levels.iter().sum::<usize>());
    let above = sum - level;
    let binomial = (0..above).fold(1.0, |product, k| product * (d - 1 - k) as f64 / (k + 1) as f64);
    if (level + d - 1 - sum).is_multiple_of(2) { binomial } else { -binomial }
}

/// The number of points of all grids of a level, without making the grids.
pub fn points(level: usize, d: usize) -> usize {
    if level > 30 {
        return usize::MAX;
    }
    // The sums over |l|₁ of products, extended by one input after another.
    let mut sums = vec![0usize; level + d];
    sums[0] = 1;
    for _ in 0..d {
        let mut next = vec![0usize; level + d];
        for (sum, count) in sums.iter().enumerate() {
            for l in 1..level + d - sum {
                next[sum + l] = next[sum + l].saturating_add(count.saturating_mul((1 << l) - 1));
            }
        }
        sums = next;
    }
    sums[level..].iter().fold(0, |total, count| total.saturating_add(*count))
}
