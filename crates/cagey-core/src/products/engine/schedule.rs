//! The order in which blocks of the covariance matrix are visited. The tasks of a round share no rows and no columns.
//! So all threads add into one result without waiting for locks, without copies, and always in the same order.

use std::ops::Range;

use rayon::prelude::*;

use crate::threads;

/// Blocks of rows and of columns, in units of the caller, and the rounds of block pairs.
#[derive(Debug)]
pub struct Schedule {
    /// Row blocks.
    pub rows: Vec<Range<usize>>,
    /// Column blocks.
    pub columns: Vec<Range<usize>>,
    rounds: Vec<Vec<(usize, usize)>>,
}

/// The most columns of a block, so that they stay in the second-level cache.
const COLUMNS_PER_BLOCK: usize = 16;

fn parts(units: usize, count: usize) -> Vec<Range<usize>> {
    let count = count.clamp(1, units.max(1));
    (0..count).map(|i| units * i / count..units * (i + 1) / count).collect()
}

/// The number of blocks of a triangle. Each candidate gives every thread some pairs in each round; this one's rounds
/// end soonest.
fn triangle_blocks(columns: usize) -> usize {
    let least = (2 * threads::parts()).max(columns / COLUMNS_PER_BLOCK);
    let time = |&blocks: &usize| {
        let (largest, pairs) = (columns.div_ceil(blocks), blocks / 2);
        let rounds = blocks.div_ceil(2) * 2 - 1;
        rounds * pairs.div_ceil(rayon::current_num_threads()) * largest * largest
    };
    (least..=2 * least).min_by_key(time).unwrap_or(least)
}

impl Schedule {
    /// The pairs of blocks that are visited together, round by round.
    pub fn rounds(&self) -> &[Vec<(usize, usize)>] {
        &self.rounds
    }

    /// All columns for each block of rows, for results by rows only.
    pub fn by_rows(rows: usize, columns: usize) -> Self {
        let rows = parts(rows, threads::parts());
        let rounds = vec![(0..rows.len()).map(|r| (r, 0)).collect()];
        Self { rows, columns: parts(columns, 1), rounds }
    }

    /// All rows for each block of columns, for results by columns only.
    pub fn by_columns(rows: usize, columns: usize) -> Self {
        let columns = parts(columns, threads::parts());
        let rounds = vec![(0..columns.len()).map(|c| (0, c)).collect()];
        Self { rows: parts(rows, 1), columns, rounds }
    }

    /// A Latin square of blocks, for results by rows and by columns.
    pub fn latin(rows: usize, columns: usize) -> Self {
        let (rows, columns) = (parts(rows, threads::parts()), parts(columns, threads::parts()));
        let order = rows.len().max(columns.len());
        let pair = |round: usize, r: usize| (r, (r + round) % order);
        let rounds = (0..order)
            .map(|round| (0..rows.len()).map(|r| pair(round, r)).filter(|&(_, c)| c < columns.len()).collect())
            .collect();
        Self { rows, columns, rounds }
    }

    /// Each unordered pair of blocks of a symmetric matrix once: the diagonal, then a round-robin tournament. A unit of
    /// columns is `ratio` units of rows; there are `rows` units of rows.
    pub fn triangle(columns: usize, ratio: usize, rows: usize) -> Self {
        let blocks = parts(columns, triangle_blocks(columns));
        let count = blocks.len();
        // The circle method: all players but the last rotate; with an odd number, the last one is a bye.
        let ring = count.div_ceil(2) * 2 - 1;
        let mut rounds = vec![(0..count).map(|b| (b, b)).collect::<Vec<_>>()];
        for round in 0..ring {
            let opponent = |k: usize| ((round + k) % ring, (round + ring - k) % ring);
            let pairs = (1..=ring / 2).map(opponent).chain([(round, ring)]);
            rounds.push(pairs.filter(|&(a, b)| a < count && b < count).map(|(a, b)| (a.min(b), a.max(b))).collect());
        }
        let rows = blocks.iter().map(|b| b.start * ratio..(b.end * ratio).min(rows)).collect();
        Self { rows, columns: blocks, rounds }
    }

    /// The most columns of a block of [`triangle`](Self::triangle).
    pub fn most_columns(columns: usize) -> usize {
        columns.div_ceil(triangle_blocks(columns))
    }

    /// The results of `task(row block, column block)` for every pair, by rows, then by columns; the pairs of a round
    /// run in parallel.
    pub fn run<R: Send>(&self, task: impl Fn(usize, usize) -> R + Sync) -> Vec<R> {
        let each = |round: &Vec<_>| threads::map(round.par_iter(), |&(r, c)| ((r, c), task(r, c)));
        let mut all: Vec<_> = self.rounds.iter().flat_map(each).collect();
        all.sort_by_key(|&(pair, _)| pair);
        all.into_iter().map(|(_, result)| result).collect()
    }
}
