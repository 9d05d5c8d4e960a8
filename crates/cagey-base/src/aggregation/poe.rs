//! Products of experts: without a prior; and committees, which have the prior, or a communication expert in its place.

use super::{Aggregated, Experts, Record, Rule};

/// Precision Σ β_i/v_i, mean v Σ β_i μ_i/v_i (Hinton 2002; Cao and Fleet 2014; Deisenroth and Ng 2015, eqs. 6–10).
pub fn aggregate(rule: Rule, experts: &Experts) -> Aggregated {
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

/// Precision Σ 1/v_i + (1 − M)/v** (Tresp 2000).
pub fn bcm(experts: &Experts) -> Aggregated {
    committee(experts, |_, _, _| 1.0)
}

/// Precision Σ β_i/v_i + (1 − Σ β_i)/v**, β_i = ½ (log v** − log v_i) (Deisenroth and Ng 2015, eqs. 19–22).
pub fn rbcm(experts: &Experts) -> Aggregated {
    committee(experts, entropy)
}

fn committee(experts: &Experts, share: impl Fn(f64, f64, &mut Record) -> f64) -> Aggregated {
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

/// The communication expert c in the prior's place: β = 1 for the expert that leads, ½ (log v_c − log v_i) for the
/// others (Liu, Cai, Wang and Ong 2018, *Generalized robust Bayesian committee machine*, eqs. 13–14). There the first
/// augmented expert leads, which knows as much of a row as any if rows are shared out at random. Of experts of regions,
/// `near`, it is the one that knows most of the row.
pub fn grbcm(communication: &Experts, experts: &Experts, near: bool) -> Aggregated {
    let mut all = Aggregated::of(experts.rows);
    for row in 0..experts.rows {
        let prior = experts.prior[row];
        let (base, known) = communication.at(0, row, &mut all.record);
        let (mut sums, mut shares) = (Sums::default(), 0.0);
        let lead = if near { experts.knows_most(row) } else { 0 };
        for i in 0..experts.count {
            let (mean, mut variance) = experts.at(i, row, &mut all.record);
            // An expert with more rows cannot know less.
            all.record.clipped += usize::from(variance > known * (1.0 + super::VAGUE));
            variance = variance.min(known);
            let share = if i == lead { 1.0 } else { entropy(known, variance, &mut all.record) };
            shares += share;
            sums.add(share, mean, variance);
        }
        sums.add(1.0 - shares, base, known);
        all.push(sums.mean(), 1.0 / sums.precision, prior);
    }
    all
}
