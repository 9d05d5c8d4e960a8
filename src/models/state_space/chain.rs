//! The Kalman filter of a kernel's states, and the backward pass that gives everything else.
//!
//! For rows in order of time with targets y = H s + noise: the forward pass gives the log density from one-step
//! predictions, in O(1) memory for each row. The backward pass (Koopman 1993, *Disturbance smoother for state space
//! models*; de Jong 1989, *Smoothing and interpolation with the state-space model*) needs no inverse of Q, which is
//! often singular. With r and N, minus the first and second derivatives of the log density of later rows in the state,
//! it has for each row u = (K̂⁻¹y)ᵢ and M = (K̂⁻¹)ᵢᵢ. They are the gradients in targets and noise, and the predictions that
//! leave the row out. The gradients in A, Q and H follow from r and N too.
//!
//! States are kept at the start of each [segment](SEGMENT) of rows only, and computed again from there.

// Closures that see states and vectors.
#![allow(clippy::type_complexity)]

use super::factor::MOST;
use super::gather::Gather;
use super::program::{Block, Blocks};
use crate::error::{Error, Result};

/// Rows of a segment.
const SEGMENT: usize = 128;

/// Rows in order of time.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// Times.
    pub t: &'a [f64],
    /// Targets minus their prior means; ignored where there is no target.
    pub y: &'a [f64],
    /// Noise variances; infinite where there is no target.
    pub noise: &'a [f64],
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
    starts: Vec<(usize, State)>,
    /// Rows.
    rows: usize,
    /// The state after the last row, given all rows.
    pub last: State,
}

impl Forward {
    /// The pass over more rows after these, which were `n`.
    pub fn extended(&self, more: Self, n: usize) -> Self {
        let starts = self.starts.iter().cloned().chain(more.starts.into_iter().map(|(row, state)| (n + row, state)));
        Self { value: self.value + more.value, starts: starts.collect(), rows: self.rows + more.rows, last: more.last }
    }

    /// The segments, the last first: the first row, all rows, and the state before them.
    fn segments(&self) -> impl Iterator<Item = (usize, std::ops::Range<usize>, &State)> {
        let ends = self.starts.iter().skip(1).map(|(row, _)| *row).chain([self.rows]);
        let all: Vec<_> =
            self.starts.iter().zip(ends).map(|((first, state), end)| (*first, *first..end, state)).collect();
        all.into_iter().rev()
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

/// Numbers of states for which there is code; others are filled up.
macro_rules! with_states {
    ($count:expr, $D:ident => $body:expr) => {
        match $count {
            0..=1 => {
                const $D: usize = 1;
                $body
            }
            2 => {
                const $D: usize = 2;
                $body
            }
            3 => {
                const $D: usize = 3;
                $body
            }
            4 => {
                const $D: usize = 4;
                $body
            }
            5..=6 => {
                const $D: usize = 6;
                $body
            }
            7..=8 => {
                const $D: usize = 8;
                $body
            }
            9..=12 => {
                const $D: usize = 12;
                $body
            }
            13..=16 => {
                const $D: usize = 16;
                $body
            }
            17..=24 => {
                const $D: usize = 24;
                $body
            }
            25..=32 => {
                const $D: usize = 32;
                $body
            }
            33..=48 => {
                const $D: usize = 48;
                $body
            }
            49..=64 => {
                const $D: usize = 64;
                $body
            }
            65..=96 => {
                const $D: usize = 96;
                $body
            }
            _ => {
                const $D: usize = 128;
                $body
            }
        }
    };
}

impl Blocks {
    /// The forward pass, from a state or, without one, from the prior.
    ///
    /// # Errors
    /// [`Error::NotPositiveDefinite`] if a prediction has no positive variance.
    pub fn forward(&self, rows: Rows, from: Option<&State>) -> Result<Forward> {
        with_states!(self.states, D => Chain::<D>::new(self, rows.t).forward(rows, from))
    }

    /// The backward pass over the rows of a forward pass. It tells `visit` of each row, the last first, and gives the
    /// slopes, if `slopes` asks for them; `count` is the number of the kernel's parameters.
    pub fn backward(
        &self,
        rows: Rows,
        forward: &Forward,
        slopes: Option<usize>,
        visit: &mut dyn FnMut(Visit),
    ) -> Vec<f64> {
        with_states!(self.states, D => Chain::<D>::new(self, rows.t).backward(rows, forward, slopes, visit))
    }

    /// Moves a state to later times, and tells `visit` of the state at each: its mean and covariance.
    pub fn ahead(&self, from: &State, times: &[f64], visit: &mut dyn FnMut(usize, &[f64], &[f64])) {
        with_states!(self.states, D => Chain::<D>::new(self, times).ahead(from, times, visit))
    }

    /// Moves vectors, as columns of the covariance, over the rows from `rows.t[0]` on: at each row, `visit` gets its
    /// number and all vectors so far (`[count, D]`), and may add one; after it they are moved by (A (I − K H)).
    pub fn carried(&self, rows: Rows, visit: &mut dyn FnMut(usize, &[f64], &mut Vec<f64>)) {
        with_states!(self.states, D => Chain::<D>::new(self, rows.t).carried(rows, visit))
    }

    /// L⁻ᵀ of the Cholesky factor of K̂, in order of time, times the columns of `z` `[n, count]`, whose rows are at `place`.
    pub fn solve_transposed(
        &self,
        rows: Rows,
        forward: &Forward,
        place: &dyn Fn(usize) -> usize,
        z: &mut [f64],
        count: usize,
    ) {
        with_states!(self.states, D => Chain::<D>::new(self, rows.t).solve_transposed(rows, forward, place, z, count));
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

pub type Matrix<const D: usize> = [[f64; D]; D];

/// Block-diagonal A and Q: in each row, the entries of its block.
#[derive(Debug, Clone)]
struct Transition<const D: usize> {
    a: [[f64; MOST]; D],
    /// Aᵀ.
    transposed: [[f64; MOST]; D],
    q: [[f64; MOST]; D],
    /// The times it was made for.
    times: (f64, f64),
}

/// The states of blocks, filled up to `D`.
struct Chain<'a, const D: usize> {
    blocks: &'a [Block],
    /// The first state of each state's block.
    first: [usize; D],
    /// The number of states of each state's block.
    size: [usize; D],
    /// Whether a step depends on its distance only.
    steady: bool,
    /// Distances that differ by less are the same to rounding.
    rounding: f64,
}

/// Predicted states of a row, and what its observation needs.
#[derive(Debug, Clone)]
struct Predicted<const D: usize> {
    a: [f64; D],
    p: Matrix<D>,
}

/// What a row of a segment keeps for the backward pass.
struct Kept<const D: usize> {
    predicted: Predicted<D>,
    /// A P of the step to this row, with the filtered P before it.
    carried: Matrix<D>,
    /// The filtered mean before the step.
    before: [f64; D],
}

/// A row's one-step prediction: the variance F, the error, P Hᵀ.
struct Innovation<const D: usize> {
    variance: f64,
    error: f64,
    ph: [f64; D],
}

impl<'a, const D: usize> Chain<'a, D> {
    fn new(all: &'a Blocks, t: &[f64]) -> Self {
        let mut first = std::array::from_fn(|i| i);
        let mut size = [1; D];
        for block in &all.blocks {
            first[block.offset..block.offset + block.size].fill(block.offset);
            size[block.offset..block.offset + block.size].fill(block.size);
        }
        let least = t.first().copied().unwrap_or_default();
        let origins = all.blocks.iter().flat_map(|block| &block.rates).map(|rate| rate.origin);
        let steady =
            origins.fold(f64::NEG_INFINITY, f64::max) <= least && !all.blocks.iter().any(Block::depends_on_time);
        let rounding = 4.0 * f64::EPSILON * t.iter().fold(0.0, |most: f64, t| most.max(t.abs()));
        Self { blocks: &all.blocks, first, size, steady, rounding }
    }

    fn transition(&self) -> Box<Transition<D>> {
        let none = [[0.0; MOST]; D];
        Box::new(Transition { a: none, transposed: none, q: none, times: (f64::NAN, f64::NAN) })
    }

    /// Makes the transition from `from` to `to`, if it is not there already. Returns whether it changed.
    #[inline(always)]
    fn prepare(&self, transition: &mut Transition<D>, from: f64, to: f64) -> bool {
        let (a, b) = transition.times;
        if (a, b) == (from, to) || self.steady && ((b - a) - (to - from)).abs() <= self.rounding {
            return false;
        }
        transition.times = (from, to);
        for block in self.blocks {
            let n = block.size;
            block.step(from, to, |[a, q, _]| {
                for i in 0..n {
                    let row = block.offset + i;
                    for j in 0..n {
                        transition.a[row][j] = a[i * n + j];
                        transition.transposed[row][j] = a[j * n + i];
                        transition.q[row][j] = q[i * n + j];
                    }
                }
            });
        }
        let used = self.blocks.last().map_or(0, |block| block.offset + block.size);
        for row in used..D {
            (transition.a[row][0], transition.transposed[row][0]) = (1.0, 1.0);
        }
        true
    }

    /// A M for block-diagonal A, given by rows.
    #[inline(always)]
    fn mixed(&self, rows: &[[f64; MOST]; D], m: &Matrix<D>, out: &mut Matrix<D>) {
        for (r, out) in out.iter_mut().enumerate() {
            let mut sums = [0.0; D];
            for (factor, m) in rows[r][..self.size[r]].iter().zip(&m[self.first[r]..]) {
                sums.iter_mut().zip(m).for_each(|(sum, m)| *sum += factor * m);
            }
            *out = sums;
        }
    }

    #[inline(always)]
    fn mixed_vector(&self, rows: &[[f64; MOST]; D], v: &[f64; D]) -> [f64; D] {
        std::array::from_fn(|r| rows[r][..self.size[r]].iter().zip(&v[self.first[r]..]).map(|(a, v)| a * v).sum())
    }

    fn prior(&self, t: f64) -> Predicted<D> {
        let mut state = Predicted { a: [0.0; D], p: [[0.0; D]; D] };
        for block in self.blocks {
            let n = block.size;
            block.step(t, t, |[_, _, p]| {
                for i in 0..n {
                    state.p[block.offset + i][block.offset..][..n].copy_from_slice(&p[i * n..][..n]);
                }
            });
        }
        state
    }

    /// Moves filtered states by a step; `carried` becomes A P.
    #[inline(always)]
    fn step(&self, transition: &Transition<D>, state: &mut Predicted<D>, carried: &mut Matrix<D>) {
        self.mixed(&transition.a, &state.p, carried);
        let turned = transpose(carried);
        self.mixed(&transition.a, &turned, &mut state.p);
        for r in 0..D {
            for (k, q) in transition.q[r][..self.size[r]].iter().enumerate() {
                state.p[r][self.first[r] + k] += q;
            }
        }
        symmetrise(&mut state.p);
        state.a = self.mixed_vector(&transition.a, &state.a);
    }

    /// The one-step prediction of a target.
    #[inline(always)]
    fn innovation(&self, state: &Predicted<D>, h: &[(usize, f64)], y: f64, noise: f64) -> Innovation<D> {
        let (mut ph, mut error) = ([0.0; D], y);
        for &(at, h) in h {
            ph.iter_mut().zip(&state.p[at]).for_each(|(ph, p)| *ph += h * p);
            error -= h * state.a[at];
        }
        let variance = noise + h.iter().map(|&(at, h)| h * ph[at]).sum::<f64>();
        Innovation { variance, error, ph }
    }

    /// The states given the target too.
    #[inline(always)]
    fn update(state: &mut Predicted<D>, Innovation { variance, error, ph }: &Innovation<D>) {
        let (gain, inverse) = (error / variance, 1.0 / variance);
        for (i, row) in state.p.iter_mut().enumerate() {
            let own = ph[i];
            row.iter_mut().zip(ph).for_each(|(p, ph)| *p -= (own * ph) * inverse);
        }
        state.a.iter_mut().zip(ph).for_each(|(a, ph)| *a += ph * gain);
    }

    fn forward(&self, rows: Rows, from: Option<&State>) -> Result<Forward> {
        let mut transition = self.transition();
        let mut carried = Box::new([[0.0; D]; D]);
        let (mut starts, mut h) = (Vec::with_capacity(rows.t.len() / SEGMENT + 1), Vec::new());
        let mut state = Box::new(match from {
            Some(state) => loaded(state),
            None => self.prior(rows.t.first().copied().unwrap_or_default()),
        });
        let (mut sum, mut logs, mut product, mut seen) = (0.0, 0.0, 1.0f64, 0usize);
        let mut before = from.map_or(rows.t.first().copied().unwrap_or_default(), |state| state.time);
        for (i, &t) in rows.t.iter().enumerate() {
            if i % SEGMENT == 0 {
                starts.push((i, saved(&state, before)));
            }
            if t != before {
                self.prepare(&mut transition, before, t);
                self.step(&transition, &mut state, &mut carried);
                before = t;
            }
            if rows.noise[i].is_finite() {
                observed(self.blocks, t, &mut h);
                let seen_now = self.innovation(&state, &h, rows.y[i], rows.noise[i]);
                if !(seen_now.variance > 0.0 && seen_now.variance.is_finite()) {
                    return Err(Error::NotPositiveDefinite {
                        matrix: "K + σ²I".into(),
                        size: rows.t.len(),
                        dtype: "f64",
                        pivot: i,
                        jitter: 0.0,
                        finite: seen_now.variance.is_finite(),
                    });
                }
                sum += seen_now.error * seen_now.error / seen_now.variance;
                product *= seen_now.variance;
                if !(1e-100..1e100).contains(&product) {
                    logs += product.ln();
                    product = 1.0;
                }
                seen += 1;
                Self::update(&mut state, &seen_now);
            }
        }
        let value = 0.5 * (sum + logs + product.ln() + seen as f64 * std::f64::consts::TAU.ln());
        Ok(Forward { value, starts, rows: rows.t.len(), last: saved(&state, before) })
    }

    fn backward(&self, rows: Rows, forward: &Forward, slopes: Option<usize>, visit: &mut dyn FnMut(Visit)) -> Vec<f64> {
        let mut transition = self.transition();
        let mut h = Vec::new();
        let (mut r, mut n) = ([0.0; D], Box::new([[0.0; D]; D]));
        let (mut work, mut other) = (Box::new([[0.0; D]; D]), Box::new([[0.0; D]; D]));
        let mut gather = Gather::new(self.blocks);
        let mut kept: Vec<Kept<D>> = Vec::with_capacity(SEGMENT.min(rows.t.len()));
        for (first, range, start) in forward.segments() {
            self.replay(&rows, range.clone(), start, &mut transition, &mut kept);
            for i in range.rev() {
                let Kept { predicted, carried, before } = &kept[i - first];
                observed(self.blocks, rows.t[i], &mut h);
                let mut residual = [0.0; 2];
                if rows.noise[i].is_finite() {
                    let seen = self.innovation(predicted, &h, rows.y[i], rows.noise[i]);
                    let inverse = 1.0 / seen.variance;
                    let gain: [f64; D] = std::array::from_fn(|k| seen.ph[k] * inverse);
                    // w = N K.
                    let w: [f64; D] = std::array::from_fn(|k| dot(&n[k], &gain));
                    let u = seen.error * inverse - dot(&gain, &r);
                    let m = inverse + dot(&gain, &w);
                    residual = [u, m];
                    for &(at, h) in &h {
                        r[at] += h * u;
                        n[at].iter_mut().zip(&w).for_each(|(n, w)| *n -= h * w);
                        n.iter_mut().zip(&w).for_each(|(row, w)| row[at] -= h * w);
                    }
                    for &(at, a) in &h {
                        for &(to, b) in &h {
                            n[at][to] += a * b * m;
                        }
                    }
                    if slopes.is_some() {
                        for (k, block) in self.blocks.iter().enumerate() {
                            let p = &predicted.p[block.offset];
                            let smooth = predicted.a[block.offset] + dot(p, &r);
                            let slope = u * smooth - (m * seen.ph[block.offset] - dot(p, &w));
                            gather.amplitudes[k] += slope * rows.t[i].powi(block.power);
                        }
                    }
                }
                visit(Visit {
                    row: i,
                    residual,
                    mean: &predicted.a,
                    covariance: predicted.p.as_flattened(),
                    r: &r,
                    n: n.as_flattened(),
                });
                let earlier = if i == 0 { rows.t[i] } else { rows.t[i - 1] };
                if i == 0 || earlier == rows.t[i] {
                    continue;
                }
                self.prepare(&mut transition, earlier, rows.t[i]);
                if slopes.is_some() {
                    gather.add(self.blocks, transition.times, (&r, &n), (before, carried));
                }
                r = self.mixed_vector(&transition.transposed, &r);
                self.mixed(&transition.transposed, &n, &mut work);
                *other = transpose(&work);
                self.mixed(&transition.transposed, &other, &mut n);
                symmetrise(&mut n);
            }
        }
        let Some(count) = slopes else { return Vec::new() };
        gather.flush(self.blocks);
        gather.start(self.blocks, rows.t.first().copied().unwrap_or_default(), (&r, &n));
        gather.slopes(self.blocks, count)
    }

    /// Computes the states of a segment again.
    fn replay(
        &self,
        rows: &Rows,
        range: std::ops::Range<usize>,
        start: &State,
        transition: &mut Transition<D>,
        kept: &mut Vec<Kept<D>>,
    ) {
        kept.clear();
        let (mut state, mut carried, mut h) = (Box::new(loaded::<D>(start)), Box::new([[0.0; D]; D]), Vec::new());
        let mut time = start.time;
        for i in range {
            let (before, t) = (state.a, rows.t[i]);
            if t != time {
                self.prepare(transition, time, t);
                self.step(transition, &mut state, &mut carried);
                time = t;
            }
            kept.push(Kept { predicted: (*state).clone(), carried: *carried, before });
            if rows.noise[i].is_finite() {
                observed(self.blocks, t, &mut h);
                let seen = self.innovation(&state, &h, rows.y[i], rows.noise[i]);
                Self::update(&mut state, &seen);
            }
        }
    }

    fn solve_transposed(
        &self,
        rows: Rows,
        forward: &Forward,
        place: &dyn Fn(usize) -> usize,
        z: &mut [f64],
        count: usize,
    ) {
        let (mut transition, mut h) = (self.transition(), Vec::new());
        let mut r = vec![[0.0; D]; count];
        let mut kept: Vec<Kept<D>> = Vec::with_capacity(SEGMENT.min(rows.t.len()));
        for (first, range, start) in forward.segments() {
            self.replay(&rows, range.clone(), start, &mut transition, &mut kept);
            for i in range.rev() {
                observed(self.blocks, rows.t[i], &mut h);
                let seen = self.innovation(&kept[i - first].predicted, &h, rows.y[i], rows.noise[i]);
                let own = &mut z[place(i) * count..][..count];
                for (r, z) in r.iter_mut().zip(own) {
                    *z = *z / seen.variance.sqrt() - dot(&seen.ph, r) / seen.variance;
                    h.iter().for_each(|&(at, h)| r[at] += h * *z);
                }
                if i > 0 && rows.t[i - 1] != rows.t[i] {
                    self.prepare(&mut transition, rows.t[i - 1], rows.t[i]);
                    r.iter_mut().for_each(|r| *r = self.mixed_vector(&transition.transposed, r));
                }
            }
        }
    }

    fn ahead(&self, from: &State, times: &[f64], visit: &mut dyn FnMut(usize, &[f64], &[f64])) {
        let (mut transition, mut carried) = (self.transition(), Box::new([[0.0; D]; D]));
        let (mut state, mut before) = (Box::new(loaded::<D>(from)), from.time);
        for (i, &t) in times.iter().enumerate() {
            if t != before {
                self.prepare(&mut transition, before, t);
                self.step(&transition, &mut state, &mut carried);
                before = t;
            }
            visit(i, &state.a, state.p.as_flattened());
        }
    }

    fn carried(&self, rows: Rows, visit: &mut dyn FnMut(usize, &[f64], &mut Vec<f64>)) {
        let (mut transition, mut moved) = (self.transition(), Box::new([[0.0; D]; D]));
        let (mut h, mut vectors) = (Vec::new(), Vec::<f64>::new());
        let mut before = rows.t.first().copied().unwrap_or_default();
        let mut state = Box::new(self.prior(before));
        for (i, &t) in rows.t.iter().enumerate() {
            if t != before {
                self.prepare(&mut transition, before, t);
                self.step(&transition, &mut state, &mut moved);
                for vector in vectors.as_chunks_mut::<D>().0 {
                    *vector = self.mixed_vector(&transition.a, vector);
                }
                before = t;
            }
            visit(i, state.p.as_flattened(), &mut vectors);
            if rows.noise[i].is_finite() {
                observed(self.blocks, t, &mut h);
                let seen = self.innovation(&state, &h, rows.y[i], rows.noise[i]);
                for vector in vectors.as_chunks_mut::<D>().0 {
                    let own = h.iter().map(|&(at, h)| h * vector[at]).sum::<f64>() / seen.variance;
                    vector.iter_mut().zip(&seen.ph).for_each(|(value, ph)| *value -= own * ph);
                }
                Self::update(&mut state, &seen);
            }
        }
    }
}

#[inline(always)]
fn observed(blocks: &[Block], t: f64, h: &mut Vec<(usize, f64)>) {
    h.clear();
    h.extend(blocks.iter().map(|block| (block.offset, block.amplitude * t.powi(block.power))));
}

#[inline(always)]
fn dot<const D: usize>(a: &[f64; D], b: &[f64; D]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[inline(always)]
fn transpose<const D: usize>(m: &Matrix<D>) -> Matrix<D> {
    std::array::from_fn(|i| std::array::from_fn(|j| m[j][i]))
}

#[inline(always)]
#[allow(clippy::needless_range_loop)]
fn symmetrise<const D: usize>(m: &mut Matrix<D>) {
    for i in 0..D {
        for j in 0..i {
            let mean = 0.5 * (m[i][j] + m[j][i]);
            (m[i][j], m[j][i]) = (mean, mean);
        }
    }
}

fn saved<const D: usize>(state: &Predicted<D>, time: f64) -> State {
    State { time, mean: state.a.to_vec(), covariance: state.p.as_flattened().to_vec() }
}

/// A state of this number of states.
fn loaded<const D: usize>(state: &State) -> Predicted<D> {
    let mut all = Predicted { a: [0.0; D], p: [[0.0; D]; D] };
    all.a.copy_from_slice(&state.mean);
    all.p.as_flattened_mut().copy_from_slice(&state.covariance);
    all
}
