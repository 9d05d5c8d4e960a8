//! The posterior of Laplace's approximation.

use std::collections::BTreeMap;

use burn::tensor::Tensor;

use super::LaplaceGp;
use super::mode::Mode;
use super::system::System;
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::linalg::dense::columns::{combine, subtract_gram};
use crate::models::Observations;
use crate::models::posterior::{self, Correlated, Joint, Marginals, Posterior, SavedPosterior, several};
use crate::scope::{Scope, to_f64};
use crate::serving::{self, Change, Latent, Served, Weigh};

/// f at the mode `[L, n]`.
const MODE: &str = "posterior.mode";
/// The gradient of the log density there `[L, n]`.
const WEIGHTS: &str = "posterior.weights";

/// The posterior of a [`LaplaceGp`]. Its factorisations use f64 in any precision of the data.
#[derive(Debug, Clone)]
pub struct LaplacePosterior {
    model: LaplaceGp,
    compute: Compute,
    data: Observations,
    f: Vec<f64>,
    weights: Vec<f64>,
    system: System,
}

/// Bytes of cross-covariance that a chunk of predictions may hold.
const CHUNK_BYTES: usize = 64 << 20;

/// Some rows' latent functions.
struct Part {
    /// `[L][rows]`.
    means: Vec<Vec<f64>>,
    /// `[L][rows]`.
    prior: Vec<Vec<f64>>,
    /// The explained part of the prior covariances `[rows, L, L]`.
    explained: Vec<f64>,
}

impl LaplacePosterior {
    pub(super) fn new(model: LaplaceGp, compute: Compute, data: Observations, mode: Mode) -> Self {
        let Mode { f, weights, system, .. } = mode;
        Self { model, compute, data, f, weights, system }
    }

    /// The posterior with a saved mode, if there is one.
    pub(super) fn restored(
        model: &LaplaceGp,
        compute: Compute,
        data: &Observations,
        mut saved: SavedPosterior,
    ) -> Result<Option<Self>> {
        let (Some(f), Some(weights)) = (saved.take(MODE), saved.take(WEIGHTS)) else { return Ok(None) };
        let size = model.likelihood.latents() * data.n();
        if [f.len(), weights.len()] != [size; 2] || !f.iter().chain(&weights).all(|value| value.is_finite()) {
            return Err(Error::Data(format!("its mode does not have {size} finite latent values")));
        }
        let mode = model.on(compute, data, |task| task.at_mode(f, weights))?;
        Ok(Some(Self::new(model.clone(), compute, data.clone(), mode)))
    }

    /// The latent functions at the training rows `[L, n]`: the mode of their posterior.
    pub fn mode(&self) -> &[f64] {
        &self.f
    }

    /// The gradient of the log density at the mode `[L, n]`.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    fn latents(&self) -> usize {
        self.weights.len() / self.data.n()
    }

    /// Computes predictions in chunks.
    fn parts(&self, x: &[f64], mut take: impl FnMut(Part)) -> Result<()> {
        posterior::rows(x, self.data.d)?;
        let scope = Scope::new(self.compute)?;
        let (d, latents) = (self.data.d, self.latents());
        let rows = (CHUNK_BYTES / (8 * self.data.n() * latents)).clamp(1, 4096);
        for chunk in x.chunks(rows * d) {
            let rows = chunk.len() / d;
            let points = scope.matrix(chunk, rows, d);
            let [crosses, means] = self.crossed(&scope, &points)?;
            let variances = self.model.priors.iter().map(|prior| {
                let covariance = prior.covariance(&scope, &points);
                to_f64(covariance.diagonal_wide()?)
            });
            let variances = variances.collect::<Result<Vec<_>>>()?;
            let of = |latent: usize| latent.min(crosses.len() - 1);
            take(Part {
                means,
                prior: (0..latents).map(|latent| variances[of(latent)].clone()).collect(),
                explained: self.system.explained(|latent| &crosses[of(latent)], rows)?,
            });
        }
        Ok(())
    }

    /// k(X, points) `[n, rows]` of each prior, and the means `[L][rows]`.
    fn crossed(&self, scope: &Scope, points: &Tensor<2>) -> Result<[Vec<Vec<f64>>; 2]> {
        let train = scope.rows(&self.data.x, self.data.d);
        let (mut crosses, mut levels) = (Vec::new(), Vec::new());
        for prior in &self.model.priors {
            crosses.push(to_f64(prior.cross(scope, &train, points).matrix_wide()?)?);
            levels.push(to_f64(prior.mean.at(scope, points)?)?);
        }
        let mean = |(latent, weights): (usize, &[f64])| {
            let of = latent.min(crosses.len() - 1);
            levels[of].iter().zip(combine(&crosses[of], weights)).map(|(m, k)| m + k).collect()
        };
        let means = self.weights.chunks_exact(self.data.n()).enumerate().map(mean).collect();
        Ok([crosses, means])
    }
}

/// For a single latent function, except for [`marginals`](Posterior::marginals) and
/// [`correlated`](Posterior::correlated). Returns an error for several.
impl Posterior for LaplacePosterior {
    fn predict(&self, x: &[f64]) -> Result<Marginals> {
        let mut all = self.marginals(x)?;
        if all.len() == 1 { Ok(all.swap_remove(0)) } else { several(all.len()) }
    }

    fn marginals(&self, x: &[f64]) -> Result<Vec<Marginals>> {
        let latents = self.latents();
        let mut all = vec![Marginals::default(); latents];
        self.parts(x, |Part { means, prior, explained }| {
            for (latent, (all, (mean, prior))) in all.iter_mut().zip(means.into_iter().zip(&prior)).enumerate() {
                let places = explained.iter().skip(latent * (latents + 1)).step_by(latents * latents);
                all.extend(mean.into_iter(), prior, &places.copied().collect::<Vec<_>>());
            }
        })?;
        Ok(all)
    }

    fn correlated(&self, x: &[f64]) -> Result<Option<Correlated>> {
        if !self.model.likelihood.density().is_centred() {
            return Ok(None);
        }
        let latents = self.latents();
        let mut all = Correlated::default();
        self.parts(x, |Part { means, prior, explained }| {
            for (i, block) in explained.chunks_exact(latents * latents).enumerate() {
                all.mean.extend(means.iter().map(|mean| mean[i]));
                let of = |(place, e): (usize, &f64)| {
                    let (a, b) = (place / latents, place % latents);
                    if a == b { (prior[a][i] - e).max(posterior::VARIANCE_FLOOR * prior[a][i]) } else { -e }
                };
                all.covariance.extend(block.iter().enumerate().map(of));
            }
        })?;
        Ok(Some(all))
    }

    fn predict_joint(&self, x: &[f64]) -> Result<Joint> {
        let rows = posterior::rows(x, self.data.d)?;
        if self.latents() > 1 {
            return several(self.latents());
        }
        if rows == 0 {
            return Ok(Joint::default());
        }
        let scope = Scope::new(self.compute)?;
        let points = scope.matrix(x, rows, self.data.d);
        let [crosses, mut means] = self.crossed(&scope, &points)?;
        let mut covariance = to_f64(self.model.priors[0].covariance(&scope, &points).matrix_wide()?)?;
        subtract_gram(&mut covariance, &self.system.whiten(0, &crosses[0])?, rows);
        Ok(Joint { mean: means.swap_remove(0), covariance })
    }

    fn cavities(&self) -> Result<Option<Marginals>> {
        if self.latents() > 1 {
            return Ok(None);
        }
        let curvature: Vec<f64> = self.system.roots[0].iter().map(|root| root * root).collect();
        let variances = self.predict(&self.data.x)?.variance;
        Ok(Some(super::without_sites(&self.f, &variances, &self.weights, &curvature)))
    }

    fn served(&self, factor: bool) -> Result<Served> {
        if !factor {
            return Ok(Served::refused(posterior::NO_FACTOR));
        }
        let mut arrays = BTreeMap::new();
        let latent = |(l, weights): (usize, &[f64])| {
            let mut keep = |part: &str, values: Vec<f64>| serving::keep(&mut arrays, &format!("{l}.{part}"), values);
            let names = ["x".into(), keep("weights", weights.to_vec()), keep("lower", self.system.factors[l].packed())];
            let roots = keep("roots", self.system.roots[l].clone());
            let prior = &self.model.priors[l.min(self.model.priors.len() - 1)];
            Ok(Latent { change: Change::Times(roots), ..prior.latent(names, Weigh::Covariances)? })
        };
        let latents = self.weights.chunks_exact(self.data.n()).enumerate().map(latent).collect();
        let Some(shared) = &self.system.shared else { return Ok(Served::latents(latents, arrays)) };
        let shared = serving::keep(&mut arrays, "shared", shared.packed());
        Ok(Served::classes(latents, Some(shared), arrays))
    }

    fn saved(&self, _factor: bool) -> Result<SavedPosterior> {
        let (shape, mut saved) = ([self.latents(), self.data.n()], SavedPosterior::default());
        saved.put(MODE, &shape, &*self.f);
        saved.put(WEIGHTS, &shape, &*self.weights);
        Ok(saved)
    }
}
