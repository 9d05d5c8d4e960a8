//! The forward pass: states moved from row to row, and given each row's target.

use cagey_base::state_space::{Block, MOST, observed};

use super::chain::{Forward, Rows, SEGMENT, State};
use super::program::Blocks;
use crate::error::{Error, Result};

pub(super) type Matrix<const D: usize> = [[f64; D]; D];

/// Block-diagonal A and Q: in each row, the entries of its block.
#[derive(Debug, Clone)]
pub(super) struct Transition<const D: usize> {
    pub(super) a: [[f64; MOST]; D],
    /// Aᵀ.
    pub(super) transposed: [[f64; MOST]; D],
    pub(super) q: [[f64; MOST]; D],
    /// The times it was made for.
    pub(super) times: (f64, f64),
}

/// The states of blocks, filled up to `D`.
pub(super) struct Chain<'a, const D: usize> {
    pub(super) blocks: &'a [Block],
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
        let least = t.iter().copied().fold(f64::INFINITY, f64::min);
        let origins = all.blocks.iter().flat_map(|block| &block.rates).map(|rate| rate.origin);
        let steady =
            origins.fold(f64::NEG_INFINITY, f64::max) <= least && !all.blocks.iter().any(Block::depends_on_time);
        let rounding = 4.0 * f64::EPSILON * t.iter().fold(0.0, |most: f64, t| most.max(t.abs()));
        Self { blocks: &all.blocks, first, size, steady, rounding }
    }

    pub(super) fn transition(&self) -> Box<Transition<D>> {
        let none = [[0.0; MOST]; D];
        Box::new(Transition { a: none, transposed: none, q: none, times: (f64::NAN, f64::NAN) })
    }

    /// Makes the transition from `from` to `to`, if it is not there already. Returns whether it changed.
    #[inline(always)]
    pub(super) fn prepare(&self, transition: &mut Transition<D>, from: f64, to: f64) -> bool {
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
    pub(super) fn mixed(&self, rows: &[[f64; MOST]; D], m: &Matrix<D>, out: &mut Matrix<D>) {
        for (r, out) in out.iter_mut().enumerate() {
            let mut sums = [0.0; D];
            for (factor, m) in rows[r][..self.size[r]].iter().zip(&m[self.first[r]..]) {
                sums.iter_mut().zip(m).for_each(|(sum, m)| *sum += factor * m);
            }
            *out = sums;
        }
    }

    #[inline(always)]
    pub(super) fn mixed_vector(&self, rows: &[[f64; MOST]; D], v: &[f64; D]) -> [f64; D] {
        std::array::from_fn(|r| rows[r][..self.size[r]].iter().zip(&v[self.first[r]..]).map(|(a, v)| a * v).sum())
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

    pub(super) fn forward(&self, rows: Rows, from: Option<&State>) -> Result<Forward> {
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
            if rows.begins(i) {
                (*state, before) = (self.prior(t), t);
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

    pub(super) fn ahead(&self, from: &State, times: &[f64], mut visit: impl FnMut(usize, &[f64], &[f64])) {
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

    pub(super) fn carried(&self, rows: Rows, mut visit: impl FnMut(usize, &[f64], &mut Vec<f64>)) {
        let (mut transition, mut moved) = (self.transition(), Box::new([[0.0; D]; D]));
        let (mut h, mut vectors) = (Vec::new(), Vec::<f64>::new());
        let mut before = rows.t.first().copied().unwrap_or_default();
        let mut state = Box::new(self.prior(before));
        for (i, &t) in rows.t.iter().enumerate() {
            if rows.begins(i) {
                (*state, before) = (self.prior(t), t);
                // Nothing of another series is part of this one.
                vectors.fill(0.0);
            }
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
pub(super) fn dot<const D: usize>(a: &[f64; D], b: &[f64; D]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[inline(always)]
pub(super) fn transpose<const D: usize>(m: &Matrix<D>) -> Matrix<D> {
    std::array::from_fn(|i| std::array::from_fn(|j| m[j][i]))
}

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
