//! Ordered classes: P(y ≤ k | f) = 1/(1 + exp(f − c_k)), the proportional-odds model (McCullagh 1980).

use super::density::{Density, Support};
use super::formula::Formula;
use super::targets::Row;
use crate::arithmetic::Real;
use crate::arithmetic::special::logistic;

/// Ordered classes.
#[derive(Debug)]
pub struct Ordered {
    /// The first cut point and the gaps.
    own: Vec<f64>,
    cuts: Vec<f64>,
}

impl Ordered {
    /// With the first cut point and the gaps that follow.
    pub fn new(own: Vec<f64>) -> Self {
        let mut cut = 0.0;
        let cuts = own.iter().map(|part| {
            cut += part;
            cut
        });
        Self { cuts: cuts.collect(), own }
    }
}

impl Formula for Ordered {
    fn support(&self, _auxiliary: f64) -> Support {
        Support::Classes(self.own.len() + 1)
    }

    /// `ln(σ(a) − σ(b)) = ln σ(a) + ln σ(−b) + ln(1 − exp(b − a))` for the distances `a` and `b` from `f` to the
    /// class's upper and lower cut points.
    fn log_density<A: Real>(&self, row: Row, f: &[A], own: &[A]) -> A {
        let (class, zero) = (row.y as usize, A::constant(0.0));
        let to = |cut: usize| own[..=cut].iter().fold(-f[0], |sum, part| sum + *part);
        let above = if class < own.len() { (-to(class)).softplus() } else { zero };
        let below = if class > 0 { to(class - 1).softplus() } else { zero };
        -above - below
    }

    /// The last term: `a − b` is a gap.
    fn rest<A: Real>(&self, row: Row, own: &[A]) -> A {
        let class = row.y as usize;
        if class == 0 || class >= own.len() {
            return A::constant(0.0);
        }
        own[class].smooth(|gap, _| [(-(-gap).exp_m1()).ln(), gap.exp_m1().recip(), 0.0, 0.0])
    }
}

impl Density for Ordered {
    fn built_in(&self) -> Option<String> {
        Some("ordinal".into())
    }

    fn own(&self) -> &[f64] {
        &self.own
    }

    fn mean(&self, f: &[f64], _auxiliary: f64) -> f64 {
        self.cuts.iter().map(|cut| logistic(f[0] - cut)).sum()
    }

    fn cdf(&self, row: Row, f: &[f64]) -> f64 {
        if row.y < 0.0 {
            return 0.0;
        }
        self.cuts.get(row.y as usize).map_or(1.0, |cut| logistic(cut - f[0]))
    }

    fn peak(&self, row: Row) -> f64 {
        let class = (row.y as usize).min(self.cuts.len());
        match (self.cuts.get(class), class.checked_sub(1).map(|below| self.cuts[below])) {
            (Some(upper), None) => upper - 3.0,
            (Some(upper), Some(lower)) => 0.5 * (upper + lower),
            (None, lower) => lower.unwrap_or_default() + 3.0,
        }
    }
}
