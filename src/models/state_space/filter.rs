//! The forward pass: states moved from row to row, and given each row's target.

use cagey_base::state_space::{Block, MOST, observed};

use super::banded::{Banded, FEW};
use super::chain::{Forward, Seen, State, segment};
use super::program::Blocks;
use super::rows::Rows;
use crate::error::{Error, Result};

pub(super) type Matrix<const D: usize> = [[f64; D]; D];

/// Block-diagonal A and Q.
#[derive(Debug, Clone)]
pub(super) struct Transition<const D: usize> {
    pub(super) a: Banded<D>,
    /// Aᵀ.
    pub(super) transposed: Banded<D>,
    /// Q, as the rows of [`Banded`].
    q: [[f64; MOST]; D],
    /// A and Q of each block, one after another.
    pub(super) entries: Vec<f64>,
    /// The times it was made for.
    pub(super) times: (f64, f64),
}

/// The states of blocks, filled up to `D`.
pub(super) struct Chain<'a, const D: usize> {
    pub(super) blocks: &'a [Block],
    /// The first state of each state's block, or 0 if there are few.
    pub(super) first: [usize; D],
    /// The number of states of each state's block, or of all if there are few.
    pub(super) size: [usize; D],
    /// The outermost diagonal of the largest block.
    pub(super) reach: usize,
    /// Whether a step depends on its distance only.
    steady: bool,
    /// Distances that differ by less are the same to rounding.
    rounding: f64,
}

/// Predicted states of a row, and what its observation needs.
#[derive(Debug, Clone)]
pub(super) struct Predicted<const D: usize> {
    pub(super) a: [f64; D],
    pub(super) p: Matrix<D>,
}

/// A row's one-step prediction: the variance F, the error, P Hᵀ.
pub(super) struct Innovation<const D: usize> {
    pub(super) variance: f64,
    pub(super) error: f64,
    pub(super) ph: [f64; D],
}

impl<'a, const D: usize> Chain<'a, D> {
    pub(super) fn new(all: &'a Blocks, t: &[f64]) -> Self {
        let mut first = std::array::from_fn(|i| i);
        let mut size = [1; D];
        for block in &all.blocks {
            first[block.offset..block.offset + block.size].fill(block.offset);
            size[block.offset..block.offset + block.size].fill(block.size);
        }
        let reach = size.iter().max().map_or(0, |size| size - 1);
        if D <= FEW {
            (first, size) = ([0; D], [D; D]);
        }
        let least = t.iter().copied().fold(f64::INFINITY, f64::min);
        let origins = all.blocks.iter().flat_map(|block| &block.rates).map(|rate| rate.origin);
        let steady =
            origins.fold(f64::NEG_INFINITY, f64::max) <= least && !all.blocks.iter().any(Block::depends_on_time);
        let rounding = 4.0 * f64::EPSILON * t.iter().fold(0.0, |most: f64, t| most.max(t.abs()));
        Self { blocks: &all.blocks, first, size, reach, steady, rounding }
    }

    pub(super) fn transition(&self) -> Box<Transition<D>> {
        let (entries, times) = (Vec::new(), (f64::NAN, f64::NAN));
        let mut all = Transition { a: Banded::zero(), transposed: Banded::zero(), q: [[0.0; MOST]; D], entries, times };
        let used = self.blocks.last().map_or(0, |block| block.offset + block.size);
        for row in used..D {
            self.set(&mut all.a, row, row, 1.0);
            self.set(&mut all.transposed, row, row, 1.0);
        }
        Box::new(all)
    }

    /// Whether a transition is that from `from` to `to`.
    #[inline(always)]
    pub(super) fn is(&self, transition: &Transition<D>, from: f64, to: f64) -> bool {
        let (a, b) = transition.times;
        (a, b) == (from, to) || self.steady && ((b - a) - (to - from)).abs() <= self.rounding
    }

    /// Makes the transition from `from` to `to`, if it is not there already.
    #[inline(always)]
    pub(super) fn prepare(&self, transition: &mut Transition<D>, from: f64, to: f64) {
        if self.is(transition, from, to) {
            return;
        }
        transition.entries.clear();
        for block in self.blocks {
            block.step(from, to, |[a, q, _]| {
                transition.entries.extend_from_slice(a);
                transition.entries.extend_from_slice(q);
            });
        }
        self.fill(transition, (from, to));
    }

    /// Makes a transition from its entries.
    #[inline(always)]
    pub(super) fn fill(&self, transition: &mut Transition<D>, times: (f64, f64)) {
        transition.times = times;
        let (entries, mut at) = (std::mem::take(&mut transition.entries), 0);
        for block in self.blocks {
            let n = block.size;
            let (a, q) = entries[at..at + 2 * n * n].split_at(n * n);
            at += 2 * n * n;
            for i in 0..n {
                let row = block.offset + i;
                for j in 0..n {
                    let column = block.offset + j;
                    self.set(&mut transition.a, row, column, a[i * n + j]);
                    self.set(&mut transition.transposed, row, column, a[j * n + i]);
                    transition.q[row][column - self.first[row]] = q[i * n + j];
                }
            }
        }
        transition.entries = entries;
    }

    pub(super) fn prior(&self, t: f64) -> Predicted<D> {
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
    pub(super) fn step(&self, transition: &Transition<D>, state: &mut Predicted<D>, carried: &mut Matrix<D>) {
        self.left(&transition.a, &state.p, carried);
        self.right(carried, &transition.a, &mut state.p);
        for r in 0..D {
            let (first, size) = self.columns(r);
            state.p[r][first..].iter_mut().zip(&transition.q[r][..size]).for_each(|(p, q)| *p += q);
        }
        state.a = self.times(&transition.a, &state.a);
    }

    /// The one-step prediction of a target.
    #[inline(always)]
    pub(super) fn innovation(&self, state: &Predicted<D>, h: &[(usize, f64)], y: f64, noise: f64) -> Innovation<D> {
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
    pub(super) fn update(state: &mut Predicted<D>, Innovation { variance, error, ph }: &Innovation<D>) {
        let (gain, inverse) = (error / variance, 1.0 / variance);
        for (i, row) in state.p.iter_mut().enumerate() {
            let own = ph[i];
            row.iter_mut().zip(ph).for_each(|(p, ph)| *p -= (own * ph) * inverse);
        }
        state.a.iter_mut().zip(ph).for_each(|(a, ph)| *a += ph * gain);
    }

    pub(super) fn forward(&self, rows: &Rows, from: Option<&State>, mut seen: Option<&mut Seen>) -> Result<Forward> {
        let mut transition = self.transition();
        let mut carried = Box::new([[0.0; D]; D]);
        let (mut starts, mut h) = (Vec::with_capacity(rows.t.len() / segment(D) + 1), Vec::new());
        let mut state = Box::new(match from {
            Some(state) => loaded(state),
            None => self.prior(rows.t.first().copied().unwrap_or_default()),
        });
        let (mut sum, mut logs, mut product, mut targets) = (0.0, 0.0, 1.0f64, 0usize);
        let mut before = from.map_or(rows.t.first().copied().unwrap_or_default(), |state| state.time);
        for (i, &t) in rows.t.iter().enumerate() {
            if i % segment(D) == 0 {
                symmetrise(&mut state.p);
                starts.push((i, saved(&state, before)));
            }
            if rows.begins(i) {
                (*state, before) = (self.prior(t), t);
            }
            if t != before {
                self.prepare(&mut transition, before, t);
                self.step(&transition, &mut state, &mut carried);
                before = t;
            }
            if let Some(seen) = &mut seen {
                seen(i, &state.a, state.p.as_flattened());
            }
            if rows.noise[i].is_finite() {
                observed(self.blocks, t, &mut h);
                let now = self.innovation(&state, &h, rows.y[i], rows.noise[i]);
                if !(now.variance > 0.0 && now.variance.is_finite()) {
                    return Err(Error::NotPositiveDefinite {
                        matrix: "K + σ²I".into(),
                        size: rows.t.len(),
                        dtype: "f64",
                        pivot: i,
                        jitter: 0.0,
                        finite: now.variance.is_finite(),
                    });
                }
                sum += now.error * now.error / now.variance;
                product *= now.variance;
                if !(1e-100..1e100).contains(&product) {
                    logs += product.ln();
                    product = 1.0;
                }
                targets += 1;
                Self::update(&mut state, &now);
            }
        }
        let value = 0.5 * (sum + logs + product.ln() + targets as f64 * std::f64::consts::TAU.ln());
        Ok(Forward { value, starts, rows: rows.t.len(), last: saved(&state, before) })
    }

    pub(super) fn carried(&self, rows: &Rows, mut visit: impl FnMut(usize, &[f64], &mut Vec<f64>)) {
        let (mut transition, mut moved) = (self.transition(), Box::new([[0.0; D]; D]));
        let (mut h, mut vectors) = (Vec::new(), Vec::<f64>::new());
        let mut before = rows.t.first().copied().unwrap_or_default();
        let mut state = Box::new(self.prior(before));
        for (i, &t) in rows.t.iter().enumerate() {
            if i % segment(D) == 0 {
                symmetrise(&mut state.p);
            }
            if rows.begins(i) {
                (*state, before) = (self.prior(t), t);
                // Nothing of another series is part of this one.
                vectors.fill(0.0);
            }
            if t != before {
                self.prepare(&mut transition, before, t);
                self.step(&transition, &mut state, &mut moved);
                for vector in vectors.as_chunks_mut::<D>().0 {
                    *vector = self.times(&transition.a, vector);
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

/// Σ a b, in a few independent sums.
#[inline(always)]
pub(super) fn dot<const D: usize>(a: &[f64; D], b: &[f64; D]) -> f64 {
    let mut sums = [0.0; 8];
    a.iter().zip(b).enumerate().for_each(|(i, (a, b))| sums[i % 8] += a * b);
    sums.iter().sum()
}

/// M v for symmetric M.
#[inline(always)]
pub(super) fn symmetric_times<const D: usize>(m: &Matrix<D>, v: &[f64; D]) -> [f64; D] {
    let mut all = [0.0; D];
    for (v, row) in v.iter().zip(m) {
        all.iter_mut().zip(row).for_each(|(all, m)| *all += v * m);
    }
    all
}

/// Mirrors what rounding has made of a symmetric matrix. Its asymmetry grows by one rounding a row: a
/// [segment](segment) of them is no more than that of one product.
#[inline(always)]
#[allow(clippy::needless_range_loop)]
pub(super) fn symmetrise<const D: usize>(m: &mut Matrix<D>) {
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
pub(super) fn loaded<const D: usize>(state: &State) -> Predicted<D> {
    let mut all = Predicted { a: [0.0; D], p: [[0.0; D]; D] };
    all.a.copy_from_slice(&state.mean);
    all.p.as_flattened_mut().copy_from_slice(&state.covariance);
    all
}
