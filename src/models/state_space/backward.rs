//! The backward pass, and what else goes from the last row to the first.

use cagey_base::state_space::{observed, power};

use super::chain::{Pass, State, Visit, segment};
use super::filter::{Chain, Matrix, Predicted, Transition, dot, loaded, symmetric_times, symmetrise};
use super::gather::Gather;
use super::rows::Rows;

/// What a row of a segment keeps for the backward pass.
struct Kept<const D: usize> {
    predicted: Predicted<D>,
    /// A P of the step to this row, with the filtered P before it.
    carried: Matrix<D>,
    /// The filtered mean before the step.
    before: [f64; D],
    /// The entries of the step and its times, if it is another than that of the row before.
    entries: Vec<f64>,
    times: Option<(f64, f64)>,
}

impl<const D: usize> Default for Kept<D> {
    fn default() -> Self {
        let none = [[0.0; D]; D];
        Self {
            predicted: Predicted { a: [0.0; D], p: none },
            carried: none,
            before: [0.0; D],
            entries: Vec::new(),
            times: None,
        }
    }
}

impl<const D: usize> Chain<'_, D> {
    pub(super) fn backward(
        &self,
        Pass { rows, forward }: &Pass,
        slopes: Option<usize>,
        visit: &mut dyn FnMut(Visit),
    ) -> Vec<f64> {
        let mut transition = self.transition();
        let mut h = Vec::new();
        let (mut r, mut n) = ([0.0; D], Box::new([[0.0; D]; D]));
        let mut work = Box::new([[0.0; D]; D]);
        let mut gather = Gather::new(self.blocks);
        let mut kept: Vec<Kept<D>> = Vec::with_capacity(segment(D).min(rows.t.len()));
        for (first, range, start) in forward.segments() {
            self.replay(rows, range.clone(), start, &mut transition, &mut kept);
            symmetrise(&mut n);
            for i in range.rev() {
                let Kept { predicted, carried, before, entries, times } = &kept[i - first];
                observed(self.blocks, rows.t[i], &mut h);
                let mut residual = [0.0; 2];
                if rows.noise[i].is_finite() {
                    let seen = self.innovation(predicted, &h, rows.y[i], rows.noise[i]);
                    let inverse = 1.0 / seen.variance;
                    let gain: [f64; D] = std::array::from_fn(|k| seen.ph[k] * inverse);
                    let w = symmetric_times(&n, &gain);
                    let u = seen.error * inverse - dot(&gain, &r);
                    let m = inverse + dot(&gain, &w);
                    residual = [u, m];
                    let mut all = [0.0; D];
                    h.iter().for_each(|&(at, h)| all[at] = h);
                    r.iter_mut().zip(&all).for_each(|(r, h)| *r += h * u);
                    // N + m h hᵀ − h wᵀ − w hᵀ.
                    let along: [f64; D] = std::array::from_fn(|k| m * all[k] - w[k]);
                    for (i, row) in n.iter_mut().enumerate() {
                        for (j, n) in row.iter_mut().enumerate() {
                            *n += all[i] * along[j] - w[i] * all[j];
                        }
                    }
                    if slopes.is_some() {
                        let (smooth, left) = (symmetric_times(&predicted.p, &r), symmetric_times(&predicted.p, &w));
                        for (k, block) in self.blocks.iter().enumerate() {
                            let at = block.offset;
                            let slope = u * (predicted.a[at] + smooth[at]) - (m * seen.ph[at] - left[at]);
                            gather.amplitudes[k] += slope * power(rows.t[i], block.power);
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
                if i == 0 || rows.begins(i) {
                    if slopes.is_some() {
                        gather.start(self.blocks, rows.t[i], (&r, &n));
                    }
                    (r, *n) = ([0.0; D], [[0.0; D]; D]);
                    continue;
                }
                let earlier = rows.t[i - 1];
                if earlier == rows.t[i] {
                    continue;
                }
                match times {
                    Some(times) if *times == (earlier, rows.t[i]) => {
                        transition.entries.clone_from(entries);
                        self.fill(&mut transition, *times);
                    }
                    _ => self.prepare(&mut transition, earlier, rows.t[i]),
                }
                if slopes.is_some() {
                    gather.add(self.blocks, &transition, (&r, &n), (before, carried));
                }
                r = self.times(&transition.transposed, &r);
                self.left(&transition.transposed, &n, &mut work);
                self.right(&work, &transition.transposed, &mut n);
            }
        }
        let Some(count) = slopes else { return Vec::new() };
        gather.flush(self.blocks);
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
        let (mut state, mut h) = (Box::new(loaded::<D>(start)), Vec::new());
        let mut time = start.time;
        kept.resize_with(range.len().max(kept.len()), Kept::default);
        for (i, kept) in range.zip(kept) {
            let t = rows.t[i];
            if rows.begins(i) {
                (*state, time) = (self.prior(t), t);
            }
            (kept.before, kept.times) = (state.a, None);
            if t != time {
                if !self.is(transition, time, t) {
                    self.prepare(transition, time, t);
                    kept.entries.clone_from(&transition.entries);
                    kept.times = Some((time, t));
                }
                self.step(transition, &mut state, &mut kept.carried);
                time = t;
            }
            (kept.predicted.a, kept.predicted.p) = (state.a, state.p);
            if rows.noise[i].is_finite() {
                observed(self.blocks, t, &mut h);
                let seen = self.innovation(&state, &h, rows.y[i], rows.noise[i]);
                Self::update(&mut state, &seen);
            }
        }
    }

    pub(super) fn solve_transposed(&self, Pass { rows, forward }: &Pass, z: &mut [f64], count: usize) {
        let (mut transition, mut h) = (self.transition(), Vec::new());
        let mut r = vec![[0.0; D]; count];
        let mut kept: Vec<Kept<D>> = Vec::with_capacity(segment(D).min(rows.t.len()));
        for (first, range, start) in forward.segments() {
            self.replay(rows, range.clone(), start, &mut transition, &mut kept);
            for i in range.rev() {
                observed(self.blocks, rows.t[i], &mut h);
                let seen = self.innovation(&kept[i - first].predicted, &h, rows.y[i], rows.noise[i]);
                let own = &mut z[rows.place(i) * count..][..count];
                for (r, z) in r.iter_mut().zip(own) {
                    *z = *z / seen.variance.sqrt() - dot(&seen.ph, r) / seen.variance;
                    h.iter().for_each(|&(at, h)| r[at] += h * *z);
                }
                if rows.begins(i) {
                    r.fill([0.0; D]);
                } else if i > 0 && rows.t[i - 1] != rows.t[i] {
                    self.prepare(&mut transition, rows.t[i - 1], rows.t[i]);
                    r.iter_mut().for_each(|r| *r = self.times(&transition.transposed, r));
                }
            }
        }
    }
}
