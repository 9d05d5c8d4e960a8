//! Rules that combine the predictions of many experts into one.
//!
//! Everything here is a function of plain numbers (f64, on the host) for a chunk of `t` test rows, so that the chunk
//! bounds the memory. No rule knows a model, a kernel or the training data: the caller brings the experts' predictions.
//!
//! # What goes in
//!
//! - **Means are deviations from the prior mean** m(x*): subtract it from the experts' predictions, and add it to the
//!   result. (Rules with a prior term pull towards 0.)
//! - **Variances are of f.** Add the noise to the result. The other convention (Liu et al. 2018) aggregates variances
//!   of y. For that, add the noise to the variances and the prior variances that go in.
//! - Matrices over experts are row-major `[M, t]`: expert i has the rows `i·t..(i+1)·t`.
//!
//! [`Rule::needs`] says what a rule needs beside the prior variances `[t]`:
//!
//! | needs | who | what |
//! |---|---|---|
//! | [`local`](Needs::local) | all but grBCM and near, which may have none | the experts' own predictions |
//! | [`augmented`](Needs::augmented) | grBCM, near | the communication expert `[1, t]`, and the experts with its rows added |
//! | [`covariances`](Needs::covariances) | NPAE, weights | [`Covariances`] of f, μ_i and μ_j |
//! | [`weights`](Needs::weights) | the weights | β from a [`WeightSystem`], solved once for all chunks |
//!
//! # How
//!
//! ```
//! use cagey::models::experts::aggregation::{Chunk, LocalPredictions, Rule, aggregate};
//!
//! // Two experts, one test row.
//! let local = LocalPredictions { mean: &[1.0, 2.0], variance: &[0.5, 0.25] };
//! let chunk = Chunk::new(local, &[1.0]);
//! let found = aggregate(Rule::Rbcm, &chunk)?;
//! assert!((found.mean[0] - 1.821).abs() < 1e-3 && (found.variance[0] - 0.292).abs() < 1e-3);
//! for line in found.record.lines() {
//!     eprintln!("{line}");
//! }
//! # cagey::Result::Ok(())
//! ```
//!
//! A [`Record`] says what was clipped, floored or taken from the prior. Records of chunks [add up](Record::add).
//!
//! **Covariances** for exact experts, with w_i = (K_i + σ²I)⁻¹ k(X_i, x*), are c_i = w_iᵀ k(X_i, x*) and C_ij = w_iᵀ
//! (K_ij + δ_ij σ²I) w_j. For SGPR experts w_i = σ⁻² K_iu M_i⁻¹ k_u* with M_i = K_uu + σ⁻² K_ui K_iu. Pass w_i
//! `[n_i, t]` and the product with w_j to [`Covariances::add_among`], one block of pairs of rows at a time: n = 20,000
//! with M = 20 takes 160 MB for the w of 1,000 test rows, 8 MB for a block K_ij and 3 MB for C.
//!
//! Sources: Deisenroth and Ng 2015 (PoE, gPoE, BCM, rBCM); Liu, Cai, Wang and Ong 2018 (grBCM); Rullière et al. 2018
//! (NPAE); Chen and Tuo 2024 (*Aggregation models with optimal weights*).

mod covariances;
mod nested;
mod poe;
mod rule;
mod weights;

pub use covariances::Covariances;
pub use rule::{Needs, Rule};
pub use weights::{Form, WeightSystem, Weights};

use crate::error::{Error, Result};
use crate::models::posterior::VARIANCE_FLOOR;

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

/// What is known about `t` test rows.
#[derive(Debug, Clone, Copy)]
pub struct Chunk<'a> {
    /// The experts' own predictions.
    pub local: LocalPredictions<'a>,
    /// Prior variances `[t]`.
    pub prior: &'a [f64],
    /// For grBCM only.
    pub augmented: Option<Augmented<'a>>,
    /// For NPAE and the weights.
    pub covariances: Option<&'a Covariances>,
    /// The weights β `[M]`, for the rules that have them.
    pub weights: Option<&'a [f64]>,
}

impl<'a> Chunk<'a> {
    /// Makes a chunk for the rules that need no more.
    pub fn new(local: LocalPredictions<'a>, prior: &'a [f64]) -> Self {
        Self { local, prior, augmented: None, covariances: None, weights: None }
    }
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
    fn of(rows: usize) -> Self {
        let room = || Vec::with_capacity(rows);
        Self { mean: room(), variance: room(), record: Record { rows, ..Record::default() } }
    }

    /// Adds a row. Raises its variance to the smallest share of the prior variance if it is below.
    fn push(&mut self, mean: f64, variance: f64, prior: f64) {
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

/// Aggregates by a rule. With a single expert every rule returns its prediction, because there is nothing to weigh.
///
/// # Errors
/// [`Shape`](crate::Error::Shape) when lengths disagree, or something that the rule [needs](Rule::needs) is missing.
pub fn aggregate(rule: Rule, chunk: &Chunk) -> Result<Aggregated> {
    let none = !rule.needs().local && chunk.local.mean.is_empty() && chunk.local.variance.is_empty();
    let local = if none { Experts::none() } else { Experts::new("experts", chunk.local, chunk.prior)? };
    if local.count == 1 {
        return Ok(nearest(&local));
    }
    match rule {
        Rule::Poe | Rule::Gpoe | Rule::GpoeEntropy | Rule::GpoeEntropyNormalised => Ok(poe::aggregate(rule, &local)),
        Rule::Bcm => Ok(poe::bcm(&local)),
        Rule::Rbcm => Ok(poe::rbcm(&local)),
        Rule::Grbcm | Rule::Near => {
            let Some(augmented) = chunk.augmented else { return Err(missing(rule, "augmented experts")) };
            let communication = Experts::new("the communication expert", augmented.communication, chunk.prior)?;
            if communication.count != 1 {
                return Err(Error::shape("the communication expert", "1", communication.count.to_string()));
            }
            if augmented.experts.mean.is_empty() && augmented.experts.variance.is_empty() {
                return Ok(nearest(&communication));
            }
            let experts = Experts::new("augmented experts", augmented.experts, chunk.prior)?;
            Ok(poe::grbcm(&communication, &experts, rule == Rule::Near))
        }
        Rule::Npae => nested::aggregate(&local, covariances(rule, chunk, &local)?),
        Rule::Weights | Rule::WeightsNoise => {
            let Some(weights) = chunk.weights else { return Err(missing(rule, "weights")) };
            if weights.len() != local.count {
                let got = weights.len().to_string();
                return Err(Error::shape("weights", format!("{} experts", local.count), got));
            }
            Ok(weights::aggregate(&local, weights, covariances(rule, chunk, &local)?))
        }
        Rule::Nearest => Ok(nearest(&local)),
    }
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

fn missing(rule: Rule, what: &str) -> Error {
    Error::shape(format!("aggregation by {rule}"), what, "none")
}

fn covariances<'a>(rule: Rule, chunk: &Chunk<'a>, local: &Experts) -> Result<&'a Covariances> {
    let Some(found) = chunk.covariances else { return Err(missing(rule, "covariances of experts")) };
    if (found.experts(), found.rows()) != (local.count, local.rows) {
        let (expected, got) = ((local.count, local.rows), (found.experts(), found.rows()));
        return Err(Error::shape("covariances of experts", format!("{expected:?}"), format!("{got:?}")));
    }
    Ok(found)
}

/// Experts whose lengths have been checked.
struct Experts<'a> {
    count: usize,
    rows: usize,
    local: LocalPredictions<'a>,
    prior: &'a [f64],
}

impl<'a> Experts<'a> {
    fn none() -> Self {
        Self { count: 0, rows: 0, local: LocalPredictions { mean: &[], variance: &[] }, prior: &[] }
    }

    fn new(what: &str, local: LocalPredictions<'a>, prior: &'a [f64]) -> Result<Self> {
        let (rows, size) = (prior.len(), local.mean.len());
        if size != local.variance.len() || (rows > 0 && (size == 0 || !size.is_multiple_of(rows))) {
            let got = format!("{size} means and {} variances", local.variance.len());
            return Err(Error::shape(what, format!("[M, {rows}]"), got));
        }
        Ok(Self { count: size.checked_div(rows).unwrap_or(0), rows, local, prior })
    }

    /// The expert with the least variance at a row.
    fn knows_most(&self, row: usize) -> usize {
        let variance = |i: usize| self.local.variance[i * self.rows + row];
        (0..self.count).min_by(|&a, &b| variance(a).total_cmp(&variance(b))).unwrap_or(0)
    }

    /// Mean and variance of one expert at one row. Rounding or an approximation can make variances larger than the
    /// prior's: they are clipped to it and counted. The same holds for variances that are not above the floor.
    fn at(&self, expert: usize, row: usize, record: &mut Record) -> (f64, f64) {
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
