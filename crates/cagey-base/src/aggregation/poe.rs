//! Products of experts: without a prior; and committees, which have the prior, or a communication expert in its place.

use super::{Aggregated, Experts, Record, Rule};

/// Shares β_i, means μ_i and variances v_i of experts give the precision Σ β_i/v_i and the mean v Σ β_i μ_i/v_i. The
/// entropy that the data removed is ½ (log v** − log v_i), at least 0.
///
/// - **Products**: β_i is 1, 1/M or the entropy (Hinton 2002; Cao and Fleet 2014; Deisenroth and Ng 2015, eqs. 6–10).
/// - **Committees** add the share 1 − Σ β_i of the prior: β_i is 1 (Tresp 2000), or the entropy (Deisenroth and Ng
///   2015, eqs. 19–22).
/// - **Those with a communication expert** c in the prior's place have β = 1 for the expert that leads, ½ (log v_c −
///   log v_i) for the others (Liu, Cai, Wang and Ong 2018, *Generalized robust Bayesian committee machine*, eqs.
///   13–14). There the first augmented expert leads, which knows as much of a row as any if rows are shared out at
///   random. Of experts of regions, `near`, it is the one that knows most of the row.
pub fn aggregate(rule: Rule, experts: &Experts, communication: Option<&Experts>) -> Aggregated {
    let mut all = Aggregated::of(experts.rows);
    for row in 0..experts.rows {
        let prior = experts.prior[row];
        // What a committee knows without its experts.
        let base = match communication {
            Some(communication) => Some(communication.at(0, row, &mut all.record)),
            None => matches!(rule, Rule::Bcm | Rule::Rbcm).then_some((0.0, prior)),
        };
        let known = base.map_or(prior, |(_, variance)| variance);
        let lead = match rule {
            Rule::Grbcm => Some(0),
            Rule::Near => Some(experts.knows_most(row)),
            _ => None,
        };
        let (mut sums, mut shares) = (Sums::default(), 0.0);
        for i in 0..experts.count {
            let (mean, mut variance) = experts.at(i, row, &mut all.record);
            if communication.is_some() {
                // An expert with more rows cannot know less.
                all.record.clipped += usize::from(variance > known * (1.0 + super::VAGUE));
                variance = variance.min(known);
            }
            let share = match rule {
                Rule::Poe | Rule::Bcm => 1.0,
                Rule::Gpoe => 1.0 / experts.count as f64,
                _ if lead == Some(i) => 1.0,
                _ => entropy(known, variance, &mut all.record),
            };
            shares += share;
            sums.add(share, mean, variance);
        }
        let total = if rule == Rule::GpoeEntropyNormalised { shares } else { 1.0 };
        if let Some((mean, variance)) = base {
            sums.add(1.0 - shares, mean, variance);
        } else if sums.precision < f64::MIN_POSITIVE {
            // If no expert learned anything, there is nothing to divide by.
            all.record.prior += 1;
            all.push(0.0, prior, prior);
            continue;
        }
        all.push(sums.mean(), total / sums.precision, prior);
    }
    all
}

/// The entropy that the data removed.
fn entropy(prior: f64, variance: f64, record: &mut Record) -> f64 {
    let share = 0.5 * (prior.ln() - variance.ln());
    record.clipped += usize::from(share < -super::VAGUE);
    share.max(0.0)
}

/// Sums over experts of one row.
#[derive(Debug, Default)]
struct Sums {
    precision: f64,
    weighted: f64,
}

impl Sums {
    fn add(&mut self, share: f64, mean: f64, variance: f64) {
        self.precision += share / variance;
        self.weighted += share * mean / variance;
    }

    /// The scale of the precisions cancels in the mean, however small they are.
    fn mean(&self) -> f64 {
        self.weighted / self.precision
    }
}
