//! Products of experts, without a prior.

use super::{Aggregated, Experts, Record, Rule};

/// Precision Σ β_i/v_i, mean v Σ β_i μ_i/v_i (Hinton 2002; Cao and Fleet 2014; Deisenroth and Ng 2015, eqs. 6–10).
pub(super) fn aggregate(rule: Rule, experts: &Experts) -> Aggregated {
    let mut all = Aggregated::of(experts.rows);
    for row in 0..experts.rows {
        let prior = experts.prior[row];
        let mut sums = Sums::default();
        let mut shares = 0.0;
        for i in 0..experts.count {
            let (mean, variance) = experts.at(i, row, &mut all.record);
            let share = match rule {
                Rule::Poe => 1.0,
                Rule::Gpoe => 1.0 / experts.count as f64,
                _ => entropy(prior, variance, &mut all.record),
            };
            shares += share;
            sums.add(share, mean, variance);
        }
        // If no expert learned anything, there is nothing to divide by.
        if sums.precision < f64::MIN_POSITIVE {
            all.record.prior += 1;
            all.push(0.0, prior, prior);
            continue;
        }
        let total = if rule == Rule::GpoeEntropyNormalised { shares } else { 1.0 };
        all.push(sums.mean(), total / sums.precision, prior);
    }
    all
}

/// The entropy that the data removed, ½ (log v** − log v), at least 0.
pub(super) fn entropy(prior: f64, variance: f64, record: &mut Record) -> f64 {
    let share = 0.5 * (prior.ln() - variance.ln());
    record.clipped += usize::from(share < -super::VAGUE);
    share.max(0.0)
}

/// Sums over experts of one row.
#[derive(Debug, Default)]
pub(super) struct Sums {
    pub precision: f64,
    weighted: f64,
}

impl Sums {
    pub(super) fn add(&mut self, share: f64, mean: f64, variance: f64) {
        self.precision += share / variance;
        self.weighted += share * mean / variance;
    }

    /// The scale of the precisions cancels in the mean, however small they are.
    pub(super) fn mean(&self) -> f64 {
        self.weighted / self.precision
    }
}
