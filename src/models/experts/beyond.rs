//! Exact experts given the communication expert: what their own rows add to it.
//!
//! With rows C of the communication expert, other rows R of an expert, K̂_CC = L_C L_Cᵀ and B = K_RC L_C⁻ᵀ, the factor
//! of the covariance of both is [L_C 0; B L_R], where L_R L_Rᵀ = K̂_RR − B Bᵀ. So all experts share the solve L_C⁻¹k(C,
//! x) of a prediction, and each adds the (r c + r²/2) operations of its own rows, in place of (c + r)²/2.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::linalg::Factor;
use crate::linalg::dense::columns::{column_squares, combine, subtract_gram};
use crate::linalg::dense::{product, view, view_mut};
use crate::model_file::Array;
use crate::models::Observations;
use crate::models::exact::{Crossed, ExactPosterior};
use crate::models::posterior::Marginals;
use crate::products::Anchors;
use crate::serving::{self, Own};
use crate::solvers::blocks::transposed;

/// An expert's own rows, given those of the communication expert.
#[derive(Debug)]
pub(super) struct Beyond {
    rows: Observations,
    anchors: Anchors,
    /// Bᵀ `[c, r]`.
    common: Vec<f64>,
    factor: Factor<f64>,
    /// L_R⁻¹(y_R − m − B L_C⁻¹(y_C − m)).
    whitened: Vec<f64>,
}

/// The communication expert at some points, for all experts.
pub(super) struct Common {
    /// L_C⁻¹k(C, x) `[c, t]`.
    solved: Vec<f64>,
    /// Its means of f.
    mean: Vec<f64>,
    /// Prior variances.
    prior: Vec<f64>,
    /// The part of these variances that it explains.
    explained: Vec<f64>,
}

impl Common {
    /// The communication expert at `x`, row-major.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub(super) fn new(posterior: &ExactPosterior, x: &[f64]) -> Result<Self> {
        let Crossed { mut cross, mean, prior } = posterior.crossed(x)?;
        posterior.solved().0.solve_lower(&mut cross)?;
        let explained = column_squares(&cross, prior.len());
        Ok(Self { solved: cross, mean, prior, explained })
    }

    /// The same at some of the points.
    pub(super) fn at(&self, points: &[usize]) -> Self {
        let some = |all: &[f64]| points.iter().map(|point| all[*point]).collect::<Vec<f64>>();
        Self {
            solved: self.solved.chunks(self.prior.len()).flat_map(some).collect(),
            mean: some(&self.mean),
            prior: some(&self.prior),
            explained: some(&self.explained),
        }
    }
}

impl Beyond {
    /// An expert's own rows beside those of the communication expert.
    ///
    /// # Errors
    /// [`Error::NotPositiveDefinite`](crate::Error::NotPositiveDefinite) if their covariance given the others has no
    /// factor.
    pub(super) fn new(common: &ExactPosterior, rows: Observations) -> Result<Self> {
        let r = rows.n();
        let Crossed { mut cross, mean, .. } = common.crossed(&rows.x)?;
        common.solved().0.solve_lower(&mut cross)?;
        let mut covariance = common.covariance(&rows)?;
        subtract_gram(&mut covariance, &cross, r);
        let factor = Factor::new(covariance, "K + σ²I given the communication expert")?;
        let mut whitened: Vec<f64> = rows.y.iter().zip(mean).map(|(y, mean)| y - mean).collect();
        factor.solve_lower(&mut whitened)?;
        Ok(Self { rows, anchors: Anchors::default(), common: cross, factor, whitened })
    }

    /// The rows and what they add in numbers, whose arrays have names that begin with `name`.
    pub(super) fn own(&self, name: &str, arrays: &mut BTreeMap<String, Array>) -> Own {
        let mut keep = |part: &str, values: Vec<f64>| serving::keep(arrays, &format!("{name}{part}"), values);
        Own::Beyond {
            points: keep("points", self.rows.x.clone()),
            common: keep("common", transposed(&self.common, self.rows.n())),
            lower: keep("lower", self.factor.packed()),
            weights: keep("weights", self.whitened.clone()),
        }
    }

    /// The predictions of the expert with the rows of both, at the points of `known`.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub(super) fn predict(&self, common: &ExactPosterior, known: &Common, x: &[f64]) -> Result<Marginals> {
        let Common { solved, mean, prior, explained } = known;
        let (r, t) = (self.rows.n(), prior.len());
        let mut own = common.cross_with(&self.rows, &self.anchors, x)?;
        product::add(view_mut(&mut own, t), view(&self.common, r).transpose(), view(solved, t), -1.0);
        self.factor.solve_lower(&mut own)?;
        let mean = mean.iter().zip(combine(&own, &self.whitened)).map(|(mean, more)| mean + more);
        let explained: Vec<f64> =
            explained.iter().zip(column_squares(&own, t)).map(|(explained, more)| explained + more).collect();
        let mut all = Marginals::default();
        all.extend(mean, prior, &explained);
        Ok(all)
    }
}
