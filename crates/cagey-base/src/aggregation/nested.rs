//! Nested pointwise aggregation: the best linear predictor of f from the means of experts.

use super::{Aggregated, Covariances, Experts};
use crate::serving::dot;

/// Smallest share of an expert's variance, given the experts before it, that still counts. Below it, C has only
/// rounding errors left.
const DEPENDENT: f64 = 1e-13;

impl Aggregated {
    /// The predictors of all rows.
    #[doc(hidden)]
    pub fn of_nested(experts: &Experts, rows: impl IntoIterator<Item = Nested>) -> Self {
        let mut all = Self::of(experts.rows);
        for (Nested { mean, explained, left_out }, prior) in rows.into_iter().zip(experts.prior) {
            all.record.dependent += usize::from(left_out);
            all.push(mean, prior - explained, *prior);
        }
        all
    }
}

/// The best linear predictor at a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Nested {
    /// cᵀC⁻¹μ.
    pub mean: f64,
    /// cᵀC⁻¹c, the part of the prior variance that it explains.
    pub explained: f64,
    /// Whether experts that repeat others were left out.
    pub left_out: bool,
}

/// Mean cᵀC⁻¹μ, variance v** − cᵀC⁻¹c (Rullière et al. 2018, *Nested Kriging predictions*; Chen and Tuo 2024, eqs.
/// 16–17) of one row, in about M³/3 operations: from C `[M, M]`, c and μ `[M]`, and v**.
///
/// C is factorised with pivots, as correlations: the expert with the largest remaining variance comes next, and experts
/// that add nothing new are left out (the same expert twice, or no data near). The result is the predictor of the
/// remaining experts. Beside the factor it keeps, for each expert, the rest of its mean and of its covariance with f,
/// given the experts before it.
pub fn nested(experts: &Experts, covariances: &Covariances, row: usize) -> Nested {
    let (m, among, prior) = (experts.count, covariances.among(row), experts.prior[row]);
    // An expert whose mean does not vary has no data near. It explains no more than ε² of the prior variance.
    let least = (f64::EPSILON * f64::EPSILON) * prior;
    let varies = |variance: f64| variance > least || variance.is_nan();
    let known: Vec<usize> = (0..m).filter(|i| varies(among[i * m + i])).collect();
    let scale: Vec<f64> = known.iter().map(|i| 1.0 / among[i * m + i].sqrt()).collect();
    let count = known.len();
    let mut left = vec![1.0f64; count];
    let mut mean: Vec<f64> =
        known.iter().zip(&scale).map(|(i, s)| experts.local.mean[*i * experts.rows + row] * s).collect();
    let mut with_f: Vec<f64> = known.iter().zip(&scale).map(|(i, s)| covariances.with_f(*i, row) * s).collect();
    // Rows of the factor, in the order of the experts. A column is added when an expert is taken.
    let mut factor = vec![0.0; count * count];
    let mut taken = vec![false; count];
    let mut found = Nested { mean: 0.0, explained: 0.0, left_out: false };
    for step in 0..count {
        let open = (0..count).filter(|i| !taken[*i]);
        let Some(next) = open.max_by(|&a, &b| left[a].total_cmp(&left[b])) else { break };
        if left[next] <= DEPENDENT * m as f64 {
            found.left_out = true;
            break;
        }
        taken[next] = true;
        let pivot = left[next].sqrt();
        let (z, c) = (mean[next] / pivot, with_f[next] / pivot);
        found.mean += c * z;
        found.explained += c * c;
        let pivotal = factor[next * count..][..step].to_vec();
        for i in (0..count).filter(|i| !taken[*i]) {
            let correlation = among[known[i] * m + known[next]] * scale[i] * scale[next];
            let l = (correlation - dot(&factor[i * count..][..step], &pivotal)) / pivot;
            factor[i * count + step] = l;
            left[i] -= l * l;
            mean[i] -= l * z;
            with_f[i] -= l * c;
        }
    }
    found
}
