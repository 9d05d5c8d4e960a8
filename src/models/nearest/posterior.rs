//! Predictions of rows from their nearest rows.

use std::collections::BTreeMap;

use super::{Near, NearestGp};
use crate::device::Compute;
use crate::error::Result;
use crate::models::Observations;
use crate::models::exact::{ExactGp, ExactObjective, ExactPosterior};
use crate::models::minibatch::Rows;
use crate::models::neighbours::{nearest, union};
use crate::models::posterior::{self, Joint, Marginals, Posterior};
use crate::products::Neighbours;
use crate::scope::{Scope, to_f64};
use crate::serving::{self, Described, Served};

/// The posterior of a [`NearestGp`]. Marginals use the nearest rows of each row, joint distributions those of all.
#[derive(Debug, Clone)]
pub struct NearestPosterior {
    model: NearestGp,
    compute: Compute,
    data: Observations,
    /// The rows where distances are measured, and the number of their columns.
    places: (Vec<f64>, usize),
}

/// The most numbers in the small matrices of the rows that are predicted at once.
const NUMBERS: usize = 1 << 23;

/// The most rows that a joint distribution is conditioned on, unless it is of more rows itself.
const JOINT: usize = 8192;

impl NearestPosterior {
    pub(super) fn new(model: NearestGp, compute: Compute, data: Observations) -> Result<Self> {
        let places = model.places(compute, &data.x, data.d)?;
        Ok(Self { model, compute, data, places })
    }

    /// The rows nearest to each row of `x`.
    fn nearest(&self, x: &[f64], count: usize) -> Result<Neighbours> {
        let (points, p) = self.model.places(self.compute, x, self.data.d)?;
        Ok(nearest(&points, &self.places.0, p, count))
    }

    /// The exact posterior of the rows nearest to any row of `x`: of fewer for each where these would be too many.
    fn among(&self, x: &[f64]) -> Result<ExactPosterior> {
        let rows = x.len() / self.data.d;
        let (near, _) = union(&self.nearest(x, (JOINT / rows).clamp(1, self.model.neighbours))?);
        let near: Vec<usize> = near.into_iter().map(|row| row as usize).collect();
        let NearestGp { prior, likelihood, .. } = self.model.clone();
        let exact = ExactGp { prior, likelihood, objective: ExactObjective::MarginalLikelihood };
        exact.posterior(self.compute, self.data.gather(&near)?)
    }
}

impl Posterior for NearestPosterior {
    fn predict(&self, x: &[f64]) -> Result<Marginals> {
        posterior::rows(x, self.data.d)?;
        let (model, count, mut all) = (&self.model, self.model.neighbours.min(self.data.n()), Marginals::default());
        let rows = (NUMBERS / count.pow(2)).clamp(1, 1024);
        for chunk in x.chunks(rows * self.data.d) {
            let scope = Scope::new(self.compute)?;
            let near = Near::new(&self.data, self.nearest(chunk, count)?)?;
            let points = scope.rows(chunk, self.data.d);
            let prior = to_f64(model.prior.covariance(&scope, &points).diagonal_wide()?)?;
            let level = to_f64(model.prior.mean.at(&scope, &points)?)?;
            let [shift, change] = model.changes(&scope, &points, &near)?.map(to_f64);
            let explained: Vec<f64> = change?.into_iter().map(|change| -change).collect();
            all.extend(level.into_iter().zip(shift?).map(|(level, shift)| level + shift), &prior, &explained);
        }
        Ok(all)
    }

    fn updated(&self, more: &Observations) -> Result<Option<Box<dyn Posterior>>> {
        let data = self.data.extended(more)?;
        Ok(Some(Box::new(Self::new(self.model.clone(), self.compute, data)?)))
    }

    /// The neighbours of all rows together may be far more than the model ever solves for.
    fn is_joint(&self) -> bool {
        false
    }

    fn has_joint(&self) -> bool {
        true
    }

    fn predict_joint(&self, x: &[f64]) -> Result<Joint> {
        match posterior::rows(x, self.data.d)? {
            0 => Ok(Joint::default()),
            _ => self.among(x)?.predict_joint(x),
        }
    }

    fn served(&self, _factor: bool) -> Result<Served> {
        let NearestGp { prior, likelihood, neighbours, .. } = &self.model;
        let kernel = match prior.kernel.numbers() {
            Ok(kernel) => kernel,
            Err(error) => return Ok(Served::refused(error.to_string())),
        };
        let (scope, n) = (Scope::new(self.compute)?, self.data.n());
        let batch = self.data.batch(&scope);
        let residuals = to_f64(prior.residuals(&scope, &batch)?)?;
        let noise = self.data.noise(&scope, likelihood)?;
        let mut arrays = BTreeMap::new();
        let mut keep = |name: &str, values: Vec<f64>| serving::keep(&mut arrays, name, values);
        let (means, noise) = (keep("means", residuals), Some(keep("noise", noise)));
        let (mean, count) = (prior.mean.numbers(), (*neighbours).min(n));
        let (points, root, nugget) = ("x".into(), None, 0.0);
        let found = serving::Neighbours { kernel, mean, points, means, root, noise, count, nugget };
        Ok(Served { posterior: Described::Neighbours(Box::new(found)), arrays })
    }
}
