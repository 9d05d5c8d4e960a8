//! Latent functions of classes from the means of their labels.

use std::collections::BTreeMap;

use super::LabelRegression;
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::models::Observations;
use crate::models::posterior::{self, Joint, Marginals, Posterior, SavedPosterior, several};
use crate::scope::{Scope, to_f64};
use crate::serving::{self, Described, Scores, Served};

/// The entries of files: weights `[n, L]` and levels `[L]`.
const WEIGHTS: &str = "posterior.weights";
const LEVELS: &str = "posterior.levels";

/// The posterior of a [`LabelRegression`]. Its observations are those conditioned on.
#[derive(Debug, Clone)]
pub struct LabelPosterior {
    pub(super) model: LabelRegression,
    pub(super) compute: Compute,
    pub(super) data: Observations,
    /// (K + σ²I)⁻¹ times the labels `[n, L]`.
    pub(super) weights: Vec<f64>,
    /// `[L]`.
    pub(super) levels: Vec<f64>,
}

/// Rows that are predicted at once.
const CHUNK: usize = 4096;

impl LabelPosterior {
    /// The posterior with saved weights, if there are any.
    pub(super) fn restored(
        model: &LabelRegression,
        compute: Compute,
        data: Observations,
        mut saved: SavedPosterior,
    ) -> Result<Option<Self>> {
        let (Some(weights), Some(levels)) = (saved.take(WEIGHTS), saved.take(LEVELS)) else { return Ok(None) };
        let latents = model.likelihood.latents();
        let finite = weights.iter().chain(&levels).all(|value| value.is_finite());
        if weights.len() != latents * data.n() || levels.len() != latents || !finite {
            let problem = format!("does not have finite weights of {} rows for each of {latents} labels", data.n());
            return Err(Error::Data(problem));
        }
        Ok(Some(Self { model: model.clone(), compute, data, weights, levels }))
    }

    fn scale(&self) -> f64 {
        self.model.scale.internal()[0]
    }

    /// The weights `[n, L]` of rows in the means of labels.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }
}

/// For a single latent function, except for [`marginals`](Posterior::marginals). Returns an error for several.
impl Posterior for LabelPosterior {
    fn predict(&self, x: &[f64]) -> Result<Marginals> {
        let mut all = self.marginals(x)?;
        if all.len() == 1 { Ok(all.swap_remove(0)) } else { several(all.len()) }
    }

    /// Their variances are 0 but for rounding.
    fn marginals(&self, x: &[f64]) -> Result<Vec<Marginals>> {
        posterior::rows(x, self.data.d)?;
        let (scope, latents) = (Scope::new(self.compute)?, self.levels.len());
        let train = scope.rows(&self.data.x, self.data.d);
        let weights = scope.matrix(&self.weights, self.data.n(), latents);
        let (mut all, scale) = (vec![Marginals::default(); latents], self.scale());
        for chunk in x.chunks(CHUNK * self.data.d) {
            let points = scope.rows(chunk, self.data.d);
            let means = to_f64(self.model.prior.cross(&scope, &points, &train).times(&weights)?)?;
            for row in means.chunks_exact(latents) {
                for ((own, mean), level) in all.iter_mut().zip(row).zip(&self.levels) {
                    own.mean.push(scale * mean + level);
                    own.variance.push(posterior::VARIANCE_FLOOR);
                }
            }
        }
        Ok(all)
    }

    fn is_joint(&self) -> bool {
        false
    }

    fn predict_joint(&self, x: &[f64]) -> Result<Joint> {
        if posterior::rows(x, self.data.d)? == 0 {
            return Ok(Joint::default());
        }
        let problem = "a regression of labels has no joint distribution of several rows: fit svgp or laplace for that";
        Err(Error::Usage(problem.into()))
    }

    fn served(&self, _factor: bool) -> Result<Served> {
        let kernel = match self.model.prior.kernel.numbers() {
            Ok(kernel) => kernel,
            Err(error) => return Ok(Served::refused(error.to_string())),
        };
        let mut arrays = BTreeMap::new();
        let points = serving::keep(&mut arrays, "points", self.data.x.clone());
        let (scale, levels) = (self.scale(), self.levels.clone());
        let scores = Scores { kernel, points, weights: WEIGHTS.into(), scale, levels };
        Ok(Served { posterior: Described::Scores(scores), arrays })
    }

    fn saved(&self, _factor: bool) -> Result<SavedPosterior> {
        let (n, latents) = (self.data.n(), self.levels.len());
        let mut saved = SavedPosterior::default();
        saved.put(WEIGHTS, &[n, latents], &*self.weights);
        saved.put(LEVELS, &[latents], &*self.levels);
        Ok(saved)
    }
}
