//! Joint distributions of the function at several times.

use super::posterior::{StateSpacePosterior, along, carried, spread};
use crate::error::Result;
use crate::linalg::real::dot;
use crate::models::posterior::Joint;

impl StateSpacePosterior {
    /// The joint distribution at times `x`. The covariance of states at times i < j is Pᵢ Lᵢᵀ … Lⱼ₋₁ᵀ (I − Nⱼ Pⱼ), with
    /// L = A (I − K H) (de Jong and MacKinnon 1988, *Covariances for smoothed estimates in state space models*).
    pub(super) fn joint(&self, x: &[f64]) -> Result<Joint> {
        let (times, d, n) = (self.axes.times(x), self.blocks.width(), self.data().n());
        let (t, m) = (&times.t, times.t.len());
        let (mut mean, mut h) = (self.means(x)?, Vec::new());
        let pass = self.blocks.pass(self.pass.rows.with(&times))?;
        // (I − N P) h of each new row.
        let mut ends = vec![Vec::new(); m];
        pass.back(&self.blocks, None, |place, visit| {
            let Some(place) = place.checked_sub(n) else { return };
            self.blocks.observed(t[place], &mut h);
            let ph = carried(&h, visit.covariance, d);
            mean[place] += along(&h, visit.mean) + dot(&ph, visit.r);
            let back = visit.n.chunks(d).map(|row| dot(row, &ph));
            ends[place] = spread(&h, d).iter().zip(back).map(|(h, np)| h - np).collect();
        });
        let (mut covariance, mut seen) = (vec![0.0; m * m], Vec::new());
        self.blocks.carried(&pass.rows, &mut |row, states, vectors| {
            let Some(place) = pass.rows.place(row).checked_sub(n) else { return };
            self.blocks.observed(t[place], &mut h);
            vectors.extend(carried(&h, states, d));
            seen.push(place);
            for (vector, other) in vectors.chunks(d).zip(&seen) {
                let value = dot(vector, &ends[place]);
                covariance[place * m + other] = value;
                covariance[other * m + place] = value;
            }
        });
        let white = self.blocks.noise();
        covariance.iter_mut().step_by(m + 1).for_each(|value| *value += white);
        Ok(Joint { mean, covariance })
    }
}
