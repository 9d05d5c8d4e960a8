//! The Kalman filter of a kernel's states, and the backward pass that gives everything else.
//!
//! For rows in order of time with targets y = H s + noise: the forward pass gives the log density from one-step
//! predictions, in O(1) memory for each row. The backward pass (Koopman 1993, *Disturbance smoother for state space
//! models*; de Jong 1989, *Smoothing and interpolation with the state-space model*) needs no inverse of Q, which is
//! often singular. With r and N, minus the first and second derivatives of the log density of later rows in the state,
//! it has for each row u = (K̂⁻¹y)ᵢ and M = (K̂⁻¹)ᵢᵢ. They are the gradients in targets and noise, and the predictions
//! that leave the row out. The gradients in A, Q and H follow from r and N too.
//!
//! Of several series, one follows another: at its first row the states are those of the prior again.
//!
//! States are kept at the start of each [segment](segment) of rows only, and computed again from there.

// Closures that see states and vectors.
#![allow(clippy::type_complexity)]

use cagey_base::state_space::observed;

use super::filter::Chain;
use super::program::Blocks;
use super::rows::Rows;
use crate::error::Result;

/// Rows of a segment: so few that the caches of a core hold what the backward pass keeps of them.
pub(super) const fn segment(states: usize) -> usize {
    if states > 48 { 32 } else { 128 }
}

/// A distribution of the states at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// The time.
    pub time: f64,
    /// The mean `[D]`.
    pub mean: Vec<f64>,
    /// The covariance `[D, D]`.
    pub covariance: Vec<f64>,
}

/// What the forward pass leaves.
#[derive(Debug, Clone)]
pub struct Forward {
    /// Minus the log density of the targets.
    pub value: f64,
    /// The first row of each segment, and the filtered state before it.
    pub(super) starts: Vec<(usize, State)>,
    /// Rows.
    pub(super) rows: usize,
    /// The state after the last row, given all rows.
    pub last: State,
}

impl Forward {
    /// The segments, the last first: the first row, all rows, and the state before them.
    pub(super) fn segments(&self) -> impl Iterator<Item = (usize, std::ops::Range<usize>, &State)> {
        let ends = self.starts.iter().skip(1).map(|(row, _)| *row).chain([self.rows]);
        let all: Vec<_> =
            self.starts.iter().zip(ends).map(|((first, state), end)| (*first, *first..end, state)).collect();
        all.into_iter().rev()
    }
}

/// Numbers of states for which there is code; others are filled up. There are at most
/// [`STATES`](super::program::STATES).
macro_rules! with_states {
    ($count:expr, $D:ident => $body:expr) => {
        with_states!(@ $count, $D => $body; 1 2 3 4 6 8 12 16 24 32 48 64 96)
    };
    (@ $count:expr, $D:ident => $body:expr; $($most:literal)*) => {
        match $count {
            $(..=$most => {
                const $D: usize = $most;
                $body
            })*
            _ => {
                const $D: usize = 128;
                $body
            }
        }
    };
}

/// Rows, and what the forward pass over them left.
#[derive(Debug, Clone)]
pub struct Pass {
    /// The rows.
    pub rows: Rows,
    /// The pass over all of them from the prior.
    pub forward: Forward,
}

impl Pass {
    /// The pass over more rows too, of a single series and not earlier than these.
    ///
    /// # Errors
    /// As [`Blocks::forward`].
    pub fn extended(&self, blocks: &Blocks, more: Rows) -> Result<Self> {
        let Forward { value, starts, rows, last } = blocks.forward(&more, Some(&self.forward.last), None)?;
        let n = self.forward.rows;
        let starts = self.forward.starts.iter().cloned().chain(starts.into_iter().map(|(row, state)| (n + row, state)));
        let forward = Forward { value: self.forward.value + value, starts: starts.collect(), rows: n + rows, last };
        let mut rows = self.rows.clone();
        rows.extend(more);
        Ok(Self { rows, forward })
    }

    /// The backward pass. It tells `visit` of each row, the last first, with the place of the row before it was sorted,
    /// and gives the slopes, if `slopes` asks for them by the number of the kernel's parameters.
    pub fn back(&self, blocks: &Blocks, slopes: Option<usize>, mut visit: impl FnMut(usize, Visit)) -> Vec<f64> {
        let mut visit = |row: Visit| visit(self.rows.place(row.row), row);
        with_states!(blocks.states, D => Chain::<D>::new(blocks, &self.rows.t).backward(self, slopes, &mut visit))
    }

    /// (K̂⁻¹y)ᵢ and (K̂⁻¹)ᵢᵢ of each row.
    pub fn residuals(&self, blocks: &Blocks) -> Vec<[f64; 2]> {
        let mut all = vec![[0.0; 2]; self.forward.rows];
        self.back(blocks, None, |place, visit| all[place] = visit.residual);
        all
    }

    /// L⁻ᵀ of the Cholesky factor of K̂, in order of time, times the columns of `z` `[n, count]`.
    pub fn solve_transposed(&self, blocks: &Blocks, z: &mut [f64], count: usize) {
        with_states!(blocks.states, D => Chain::<D>::new(blocks, &self.rows.t).solve_transposed(self, z, count));
    }
}

/// What the backward pass tells of a row. States are those before the row's own target is seen.
#[derive(Debug)]
pub struct Visit<'a> {
    /// The number of the row.
    pub row: usize,
    /// (K̂⁻¹y)ᵢ and (K̂⁻¹)ᵢᵢ; zeros where there is no target.
    pub residual: [f64; 2],
    /// The mean of the states given earlier rows.
    pub mean: &'a [f64],
    /// Their covariance `[D, D]`.
    pub covariance: &'a [f64],
    /// r: the smoothed mean is mean + covariance · r.
    pub r: &'a [f64],
    /// N `[D, D]`: the smoothed covariance is P − P N P.
    pub n: &'a [f64],
}

/// Sees the number of a row, and the mean and covariance of the states there given earlier rows.
pub(super) type Seen<'a> = dyn FnMut(usize, &[f64], &[f64]) + 'a;

impl Blocks {
    /// The forward pass from the prior.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn pass(&self, rows: Rows) -> Result<Pass> {
        let forward = self.forward(&rows, None, None)?;
        Ok(Pass { rows, forward })
    }

    /// The forward pass, from a state or, without one, from the prior.
    ///
    /// # Errors
    /// [`NotPositiveDefinite`](crate::Error::NotPositiveDefinite) if a prediction has no positive variance.
    pub fn forward(&self, rows: &Rows, from: Option<&State>, seen: Option<&mut Seen>) -> Result<Forward> {
        with_states!(self.states, D => Chain::<D>::new(self, &rows.t).forward(rows, from, seen))
    }

    /// Moves vectors, as columns of the covariance, over the rows from `rows.t[0]` on: at each row, `visit` gets its
    /// number and all vectors so far (`[count, D]`), and may add one; after it they are moved by (A (I − K H)).
    pub fn carried(&self, rows: &Rows, visit: &mut dyn FnMut(usize, &[f64], &mut Vec<f64>)) {
        with_states!(self.states, D => Chain::<D>::new(self, &rows.t).carried(rows, visit))
    }

    /// The states for which there is code.
    pub fn width(&self) -> usize {
        with_states!(self.states, D => D)
    }

    /// What a row at time `t` observes: for each block, its first state and the factor.
    pub fn observed(&self, t: f64, h: &mut Vec<(usize, f64)>) {
        observed(&self.blocks, t, h);
    }
}
