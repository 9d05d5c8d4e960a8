//! Which experts are nearest to new rows, as the kernel measures distance.

use cagey_base::aggregation::nearest_experts;

use super::conditioned::Conditioned;
use crate::error::Result;
use crate::models::Observations;
use crate::models::gp_model::GpModel;
use crate::products;
use crate::scope::{Scope, to_f64};
use crate::threads;

/// The most rows of an expert that stand for all of its rows.
const SAMPLE: usize = 64;

/// Rows to predict, and which experts predict each.
pub(super) struct Asked<'a> {
    /// The rows, row-major `[t, d]`.
    pub(super) x: &'a [f64],
    d: usize,
    /// The experts of each row `[t, k]`; none if every expert predicts every row.
    experts: Option<&'a [f64]>,
}

impl<'a> Asked<'a> {
    /// What the numbers of a question mean: rows of `d` columns, then experts of each if only some predict it.
    pub(super) fn new(numbers: &'a [Vec<f64>], d: usize) -> Self {
        let x = numbers.first().map(Vec::as_slice).unwrap_or_default();
        Self { x, d, experts: numbers.get(1).map(Vec::as_slice) }
    }

    /// The rows that an expert predicts, ascending, unless it predicts all.
    pub(super) fn points(&self, expert: usize) -> Option<Vec<usize>> {
        let (experts, t) = (self.experts?, self.x.len() / self.d);
        let own = |chosen: &[f64]| chosen.contains(&(expert as f64));
        let of_rows = experts.chunks((experts.len() / t.max(1)).max(1)).enumerate();
        Some(of_rows.filter(|(_, chosen)| own(chosen)).map(|(row, _)| row).collect())
    }

    /// The inputs of some rows.
    pub(super) fn at(&self, points: &[usize]) -> Vec<f64> {
        points.iter().flat_map(|point| &self.x[point * self.d..(point + 1) * self.d]).copied().collect()
    }
}

impl Conditioned {
    /// The predictions of the experts nearest to each row, with the communication expert's rows: means less the prior
    /// mean, and variances, row-major `[k, t]`. An expert without other rows predicts what the communication expert
    /// does, which is given.
    ///
    /// # Errors
    /// As those of the experts.
    pub(super) fn near(&self, common: &[Vec<f64>; 2], prior: &[f64], x: &[f64]) -> Result<[Vec<f64>; 2]> {
        let (t, chosen) = (prior.len(), nearest(self, x)?);
        let k = chosen.len() / t;
        let said = self.asked(true, &[x.to_vec(), chosen.iter().map(|expert| *expert as f64).collect()])?;
        let mut said: Vec<_> = said.into_iter().map(|said| said.mean.into_iter().zip(said.variance)).collect();
        let mut slots = [common[0].repeat(k), common[1].repeat(k)];
        for (row, (experts, level)) in chosen.chunks(k).zip(prior).enumerate() {
            for (slot, expert) in experts.iter().enumerate() {
                if let Some((mean, variance)) = said[*expert].next() {
                    (slots[0][slot * t + row], slots[1][slot * t + row]) = (mean - level, variance);
                }
            }
        }
        Ok(slots)
    }
}

/// The nearest experts of each row of `x` `[t, k]`: those that have the rows with the largest correlations.
///
/// # Errors
/// Errors of the kernel and of reading rows.
fn nearest(experts: &Conditioned, x: &[f64]) -> Result<Vec<usize>> {
    let (model, d) = (experts.model(), experts.data().d());
    let t = x.len() / d;
    let most = threads::apart(model.len(), |expert| correlations(experts, &sample(experts, expert)?, x))?;
    Ok(nearest_experts(&most, t))
}

/// The rows that stand for all rows of an expert.
pub(super) fn sample(experts: &Conditioned, expert: usize) -> Result<Observations> {
    let rows = &experts.model().parts()[expert];
    let some: Vec<usize> = rows.iter().copied().step_by(rows.len().div_ceil(SAMPLE)).collect();
    experts.data().gather(&some)
}

/// The largest k(s, x)/√k(s, s) over the rows s of a sample, for each row of `x`.
fn correlations(experts: &Conditioned, sample: &Observations, x: &[f64]) -> Result<Vec<f64>> {
    let (kernel, scope) = (&experts.model().prior().kernel, Scope::new(experts.compute())?);
    let t = x.len() / sample.d;
    let (rows, points) = (scope.rows(&sample.x, sample.d), scope.matrix(x, t, sample.d));
    let cross = to_f64(products::Cross::new(kernel, &scope, &rows, &points).matrix()?)?;
    let mut most = vec![f64::NEG_INFINITY; t];
    for (row, variance) in cross.chunks(t).zip(to_f64(kernel.diag(&scope, &rows)?)?) {
        let scale = variance.max(f64::MIN_POSITIVE).sqrt();
        most.iter_mut().zip(row).for_each(|(most, value)| *most = most.max(value / scale));
    }
    Ok(most)
}
