//! The backward pass, and what else goes from the last row to the first.

use cagey_base::state_space::observed;

use super::chain::{Forward, Rows, SEGMENT, State, Visit};
use super::filter::{Chain, Matrix, Predicted, Transition, dot, loaded, symmetrise, transpose};
use super::gather::Gather;

/// What a row of a segment keeps for the backward pass.
struct Kept<const D: usize> {
    predicted: Predicted<D>,
    /// A P of the step to this row, with the filtered P before it.
    carried: Matrix<D>,
    /// The filtered mean before the step.
    before: [f64; D],
}

impl<const D: usize> Chain<'_, D> {
    pub(super) fn backward(
        &self,
        rows: Rows,
        forward: &Forward,
        slopes: Option<usize>,
        visit: &mut dyn FnMut(Visit),
    ) -> Vec<f64> {
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
            let t = rows.t[i];
            if rows.begins(i) {
                (*state, time) = (self.prior(t), t);
            }
            let before = state.a;
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

    pub(super) fn solve_transposed(
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
                if rows.begins(i) {
                    r.fill([0.0; D]);
                } else if i > 0 && rows.t[i - 1] != rows.t[i] {
                    self.prepare(&mut transition, rows.t[i - 1], rows.t[i]);
                    r.iter_mut().for_each(|r| *r = self.mixed_vector(&transition.transposed, r));
                }
            }
        }
    }
}
