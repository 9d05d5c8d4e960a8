//! One expert for each row.

use super::{Aggregated, Experts};

/// Takes the expert of the least variance: the nearest one as the kernel measures distance.
pub(super) fn aggregate(experts: &Experts) -> Aggregated {
    let mut all = Aggregated::of(experts.rows);
    for row in 0..experts.rows {
        let variance = |i: usize| experts.local.variance[i * experts.rows + row];
        let best = (0..experts.count).min_by(|&a, &b| variance(a).total_cmp(&variance(b))).unwrap_or(0);
        let (mean, variance) = experts.at(best, row, &mut all.record);
        all.push(mean, variance, experts.prior[row]);
    }
    all
}
