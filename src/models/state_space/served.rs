//! The states between all rows, for programs that only predict.

use std::collections::BTreeMap;

use super::posterior::StateSpacePosterior;
use super::rows::Times;
use crate::serving::{self, Described, Served, States};

impl StateSpacePosterior {
    /// The states given all rows up to each time, and what the rows from then on say about them.
    pub(super) fn states(&self) -> Served {
        let (rows, size, width) = (&self.pass.rows.t, self.blocks.states, self.blocks.width());
        let mut times = rows.clone();
        times.dedup();
        // A time at which nothing is seen comes after the rows at that time: there the states are those given these.
        let merged = self.pass.rows.with(&Times { t: times.clone(), series: Vec::new() });
        let Ok(pass) = self.blocks.pass(merged) else {
            return Served::refused("its states have no positive variance");
        };
        let none = || [vec![0.0; times.len() * size], vec![0.0; times.len() * size * size]];
        let (mut before, mut after) = (none(), none());
        let put = |to: &mut [Vec<f64>; 2], at: usize, vector: &[f64], matrix: &[f64]| {
            let [vectors, matrices] = to;
            vectors[at * size..][..size].copy_from_slice(&vector[..size]);
            let own = matrices[at * size * size..].chunks_exact_mut(size);
            own.zip(matrix.chunks_exact(width)).take(size).for_each(|(to, row)| to.copy_from_slice(&row[..size]));
        };
        let n = rows.len();
        pass.back(&self.blocks, None, |place, visit| match place.checked_sub(n) {
            Some(at) => put(&mut before, at, visit.mean, visit.covariance),
            // The first row at a time is visited last.
            None => {
                let at = times.partition_point(|time| *time < pass.rows.t[visit.row]);
                put(&mut after, at, visit.r, visit.n);
            }
        });
        let mut arrays = BTreeMap::new();
        let count = times.len();
        let mut keep = |name: &str, values: Vec<f64>| serving::keep(&mut arrays, name, values);
        let [[a, p], [r, n]] = [before, after];
        let before = [keep("before", a), keep("covariances", p)];
        let after = [keep("after", r), keep("curvatures", n)];
        let (blocks, white, times) = (self.blocks.blocks.clone(), self.blocks.noise(), keep("times", times));
        let found = States { blocks, white, mean: self.model.prior.mean.numbers(), count, times, before, after };
        Served { posterior: Described::States(Box::new(found)), arrays }
    }
}
