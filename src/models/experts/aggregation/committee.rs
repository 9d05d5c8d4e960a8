//! Committees: products of experts with the prior, or with a communication expert in its place.

use super::poe::{Sums, entropy};
use super::{Aggregated, Experts, Record};

/// Precision Σ 1/v_i + (1 − M)/v** (Tresp 2000).
pub(super) fn bcm(experts: &Experts) -> Aggregated {
    aggregate(experts, |_, _, _| 1.0)
}

/// Precision Σ β_i/v_i + (1 − Σ β_i)/v**, β_i = ½ (log v** − log v_i) (Deisenroth and Ng 2015, eqs. 19–22).
pub(super) fn rbcm(experts: &Experts) -> Aggregated {
    aggregate(experts, entropy)
}

fn aggregate(experts: &Experts, share: impl Fn(f64, f64, &mut Record) -> f64) -> Aggregated {
    let mut all = Aggregated::of(experts.rows);
    for row in 0..experts.rows {
        let prior = experts.prior[row];
        let (mut sums, mut shares) = (Sums::default(), 0.0);
        for i in 0..experts.count {
            let (mean, variance) = experts.at(i, row, &mut all.record);
            let share = share(prior, variance, &mut all.record);
            shares += share;
            sums.add(share, mean, variance);
        }
        sums.add(1.0 - shares, 0.0, prior);
        all.push(sums.mean(), 1.0 / sums.precision, prior);
    }
    all
}

/// The communication expert c in the prior's place: β = 1 for the first augmented expert, ½ (log v_c − log v_i) for the
/// others (Liu, Cai, Wang and Ong 2018, *Generalized robust Bayesian committee machine*, eqs. 13–14).
pub(super) fn grbcm(communication: &Experts, experts: &Experts) -> Aggregated {
    let mut all = Aggregated::of(experts.rows);
    for row in 0..experts.rows {
        let prior = experts.prior[row];
        let (base, known) = communication.at(0, row, &mut all.record);
        let (mut sums, mut shares) = (Sums::default(), 0.0);
        for i in 0..experts.count {
            let (mean, mut variance) = experts.at(i, row, &mut all.record);
            // An expert with more rows cannot know less.
            all.record.clipped += usize::from(variance > known * (1.0 + super::VAGUE));
            variance = variance.min(known);
            let share = if i == 0 { 1.0 } else { entropy(known, variance, &mut all.record) };
            shares += share;
            sums.add(share, mean, variance);
        }
        sums.add(1.0 - shares, base, known);
        all.push(sums.mean(), 1.0 / sums.precision, prior);
    }
    all
}
