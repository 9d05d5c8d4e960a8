//! Rules that combine the predictions of many experts into one.
//! Means are deviations from the prior mean, and matrices over experts are row-major `[M, t]`.

mod covariances;
mod nested;
mod poe;
mod rule;

pub use covariances::{Covariances, weighted};
pub use nested::{Nested, nested};
pub use rule::{Form, Needs, Rule};

use crate::error::{Error, Result};
use crate::serving::VARIANCE_FLOOR;

/// The experts that predict a row by the rule `near`.
const NEAR: usize = 8;

/// The experts nearest to each of `t` rows `[t, k]`: those with the largest of the numbers `most` `[M][t]`.
pub fn nearest_experts(most: &[Vec<f64>], t: usize) -> Vec<usize> {
    let mut chosen = Vec::with_capacity(t * NEAR.min(most.len()));
    let mut order: Vec<usize> = (0..most.len()).collect();
    (0..t).for_each(|row| {
        order.sort_unstable_by(|&a, &b| most[b][row].total_cmp(&most[a][row]).then(a.cmp(&b)));
        chosen.extend(order.iter().take(NEAR));
    });
    chosen
}

/// Means and variances of f at `t` rows by several experts.
#[derive(Debug, Clone, Copy)]
pub struct LocalPredictions<'a> {
    /// Means less the prior mean, row-major `[M, t]`.
    pub mean: &'a [f64],
    /// Variances, row-major `[M, t]`.
    pub variance: &'a [f64],
}

/// The input of grBCM.
#[derive(Debug, Clone, Copy)]
pub struct Augmented<'a> {
    /// The communication expert `[1, t]`.
    pub communication: LocalPredictions<'a>,
    /// Experts on their own rows and the rows of the communication expert, `[M', t]`. Empty if there are no other
    /// parts.
    pub experts: LocalPredictions<'a>,
}

/// One prediction for each row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Aggregated {
    /// Means less the prior mean `[t]`.
    pub mean: Vec<f64>,
    /// Variances of f `[t]`, at least [`VARIANCE_FLOOR`] of the prior variance.
    pub variance: Vec<f64>,
    /// What was changed in the inputs and the result.
    pub record: Record,
}

impl Aggregated {
    /// Room for so many rows.
    #[doc(hidden)]
    pub fn of(rows: usize) -> Self {
        let room = || Vec::with_capacity(rows);
        Self { mean: room(), variance: room(), record: Record { rows, ..Record::default() } }
    }

    /// Adds a row. Raises its variance to the smallest share of the prior variance if it is below.
    #[doc(hidden)]
    pub fn push(&mut self, mean: f64, variance: f64, prior: f64) {
        let floor = VARIANCE_FLOOR * prior;
        self.record.floored += usize::from(variance < floor);
        self.record.vague += usize::from(variance > prior * (1.0 + VAGUE));
        self.mean.push(mean);
        // NaN stays NaN.
        self.variance.push(if variance < floor { floor } else { variance });
    }
}

/// A variance above the prior's by more than this share is not a rounding error.
const VAGUE: f64 = 1e-9;

/// Aggregates by a rule that needs no covariances; none for others. With a single expert every rule returns its
/// prediction, because there is nothing to weigh.
///
/// # Errors
/// [`Shape`](crate::Error::Shape) when lengths disagree, or something that the rule [needs](Rule::needs) is missing.
pub fn aggregate(
    rule: Rule,
    local: LocalPredictions,
    prior: &[f64],
    augmented: Option<Augmented>,
) -> Result<Option<Aggregated>> {
    let none = !rule.needs().local && local.mean.is_empty() && local.variance.is_empty();
    let local = if none { Experts::none() } else { Experts::new("experts", local, prior)? };
    if local.count == 1 {
        return Ok(Some(nearest(&local)));
    }
    Ok(Some(match rule {
        Rule::Poe | Rule::Gpoe | Rule::GpoeEntropy | Rule::GpoeEntropyNormalised | Rule::Bcm | Rule::Rbcm => {
            poe::aggregate(rule, &local, None)
        }
        Rule::Grbcm | Rule::Near => {
            let Some(augmented) = augmented else { return Err(missing(rule, "augmented experts")) };
            let communication = Experts::new("the communication expert", augmented.communication, prior)?;
            if communication.count != 1 {
                return Err(Error::shape("the communication expert", "1", communication.count.to_string()));
            }
            if augmented.experts.mean.is_empty() && augmented.experts.variance.is_empty() {
                return Ok(Some(nearest(&communication)));
            }
            let experts = Experts::new("augmented experts", augmented.experts, prior)?;
            poe::aggregate(rule, &experts, Some(&communication))
        }
        Rule::Nearest => nearest(&local),
        Rule::Npae | Rule::Weights | Rule::WeightsNoise => return Ok(None),
    }))
}

/// Takes the expert of the least variance: the nearest one as the kernel measures distance.
fn nearest(experts: &Experts) -> Aggregated {
    let mut all = Aggregated::of(experts.rows);
    for row in 0..experts.rows {
        let (mean, variance) = experts.at(experts.knows_most(row), row, &mut all.record);
        all.push(mean, variance, experts.prior[row]);
    }
    all
}

/// The error for a rule without what it needs.
#[doc(hidden)]
pub fn missing(rule: Rule, what: &str) -> Error {
    Error::shape(format!("aggregation by {rule}"), what, "none")
}

/// Experts whose lengths have been checked.
#[doc(hidden)]
#[derive(Debug)]
pub struct Experts<'a> {
    /// Their number.
    pub count: usize,
    /// The number of rows.
    pub rows: usize,
    /// Their predictions.
    pub local: LocalPredictions<'a>,
    /// Prior variances.
    pub prior: &'a [f64],
}

impl<'a> Experts<'a> {
    /// No experts.
    pub fn none() -> Self {
        Self { count: 0, rows: 0, local: LocalPredictions { mean: &[], variance: &[] }, prior: &[] }
    }

    /// Checks the lengths.
    ///
    /// # Errors
    /// [`Error::Shape`] when they disagree.
    pub fn new(what: &str, local: LocalPredictions<'a>, prior: &'a [f64]) -> Result<Self> {
        let (rows, size) = (prior.len(), local.mean.len());
        if size != local.variance.len() || (rows > 0 && (size == 0 || !size.is_multiple_of(rows))) {
            let got = format!("{size} means and {} variances", local.variance.len());
            return Err(Error::shape(what, format!("[M, {rows}]"), got));
        }
        Ok(Self { count: size.checked_div(rows).unwrap_or(0), rows, local, prior })
    }

    /// The expert with the least variance at a row.
    pub fn knows_most(&self, row: usize) -> usize {
        let variance = |i: usize| self.local.variance[i * self.rows + row];
        (0..self.count).min_by(|&a, &b| variance(a).total_cmp(&variance(b))).unwrap_or(0)
    }

    /// Mean and variance of one expert at one row. Rounding or an approximation can make variances larger than the
    /// prior's: they are clipped to it and counted. The same holds for variances that are not above the floor.
    pub fn at(&self, expert: usize, row: usize, record: &mut Record) -> (f64, f64) {
        let (at, prior) = (expert * self.rows + row, self.prior[row]);
        let (mean, variance) = (self.local.mean[at], self.local.variance[at]);
        record.clipped += usize::from(variance > prior * (1.0 + VAGUE) || variance < VARIANCE_FLOOR * prior);
        // Not `clamp`, which panics if the prior is NaN, nor `min`, which drops NaN: NaN stays NaN.
        let variance = if variance > prior { prior } else { variance };
        let floor = VARIANCE_FLOOR * prior;
        (mean, if variance < floor { floor } else { variance })
    }
}

/// How much was clipped, floored or taken from elsewhere in a number of rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Record {
    /// The number of rows.
    pub rows: usize,
    /// Clipped variances of experts (above the prior's or below its smallest share) and clipped negative shares of
    /// experts. At most M for each row, or twice that.
    pub clipped: usize,
    /// Rows whose variance was below the smallest share of the prior's.
    pub floored: usize,
    /// Rows whose variance is above the prior's. It happens far from the data of most experts, where a product without
    /// a prior knows less than the prior.
    pub vague: usize,
    /// Rows that no expert knows anything about. The prior was taken for them.
    pub prior: usize,
    /// Rows where some experts repeat others and were left out of the solve.
    pub dependent: usize,
}

impl Record {
    /// Adds what happened in more rows.
    pub fn add(&mut self, more: Self) {
        self.rows += more.rows;
        self.clipped += more.clipped;
        self.floored += more.floored;
        self.vague += more.vague;
        self.prior += more.prior;
        self.dependent += more.dependent;
    }

    /// Messages for the user, one line for each kind of change.
    pub fn lines(&self) -> Vec<String> {
        let rows = self.rows;
        let all = [
            (self.clipped, "variances or shares of experts were outside of their range and were clipped"),
            (self.floored, "variances were below the smallest share of the prior's, and were raised to it"),
            (self.vague, "variances are above the prior's: this rule has no prior, or its weights do not fit there"),
            (self.prior, "rows are unknown to all experts; the prior was taken"),
            (self.dependent, "rows have experts that repeat others; these experts were left out there"),
        ];
        let said = all.into_iter().filter(|(count, _)| *count > 0);
        said.map(|(count, what)| format!("{count} {what} ({rows} rows)")).collect()
    }
}
