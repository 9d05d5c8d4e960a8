//! Nested pointwise aggregation: the best linear predictor of f from the means of experts.

use cagey_base::aggregation::{Nested, nested};
use rayon::prelude::*;

use super::{Aggregated, Covariances, Experts};
use crate::error::Result;
use crate::threads;

/// The [`nested`] predictor of each row.
pub(super) fn aggregate(experts: &Experts, covariances: &Covariances) -> Result<Aggregated> {
    let rows = threads::map((0..experts.rows).into_par_iter(), |row| {
        let means: Vec<f64> = (0..experts.count).map(|i| experts.local.mean[i * experts.rows + row]).collect();
        let with_f: Vec<f64> = (0..experts.count).map(|i| covariances.with_f(i, row)).collect();
        nested(covariances.among(row), &with_f, &means, experts.prior[row])
    });
    let mut all = Aggregated::of(experts.rows);
    for (Nested { mean, explained, left_out }, prior) in rows.into_iter().zip(experts.prior) {
        all.record.dependent += usize::from(left_out);
        all.push(mean, prior - explained, *prior);
    }
    Ok(all)
}
