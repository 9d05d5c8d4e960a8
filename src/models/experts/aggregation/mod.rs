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

mod weights;

use cagey_base::aggregation::{self as base, Experts, missing, nested, weighted};
pub use cagey_base::aggregation::{Aggregated, Augmented, Covariances, Form, LocalPredictions, Needs, Record, Rule};
use rayon::prelude::*;
pub use weights::{WeightSystem, Weights};

use crate::error::{Error, Result};
use crate::threads;

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

/// Aggregates by a rule. With a single expert every rule returns its prediction, because there is nothing to weigh.
///
/// # Errors
/// [`Shape`](crate::Error::Shape) when lengths disagree, or something that the rule [needs](Rule::needs) is missing.
pub fn aggregate(rule: Rule, chunk: &Chunk) -> Result<Aggregated> {
    if let Some(simple) = base::aggregate(rule, chunk.local, chunk.prior, chunk.augmented)? {
        return Ok(simple);
    }
    let local = Experts::new("experts", chunk.local, chunk.prior)?;
    if rule == Rule::Npae {
        let found = covariances(rule, chunk, &local)?;
        let rows = threads::map((0..local.rows).into_par_iter(), |row| nested(&local, found, row));
        return Ok(Aggregated::of_nested(&local, rows));
    }
    let Some(weights) = chunk.weights else { return Err(missing(rule, "weights")) };
    if weights.len() != local.count {
        let got = weights.len().to_string();
        return Err(Error::shape("weights", format!("{} experts", local.count), got));
    }
    Ok(weighted(&local, weights, covariances(rule, chunk, &local)?))
}

fn covariances<'a>(rule: Rule, chunk: &Chunk<'a>, local: &Experts) -> Result<&'a Covariances> {
    let Some(found) = chunk.covariances else { return Err(missing(rule, "covariances of experts")) };
    if (found.experts(), found.rows()) != (local.count, local.rows) {
        let (expected, got) = ((local.count, local.rows), (found.experts(), found.rows()));
        return Err(Error::shape("covariances of experts", format!("{expected:?}"), format!("{got:?}")));
    }
    Ok(found)
}
