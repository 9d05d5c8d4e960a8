//! The posterior of computation-aware GPs, for any actions.

use burn::tensor::Tensor;

use super::blocks;
use super::prepared::{HostActions, Prepared};
use super::site_rule::SiteRule;
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::likelihoods::{Gaussian, Likelihood};
use crate::linalg::Factor;
use crate::linalg::real::dot;
use crate::models::Observations;
use crate::models::moments::moments;
use crate::models::posterior::{
    self, ComputationAware, Correlated, Joint, LeaveOneOut, Marginals, Posterior, SavedPosterior, column_squares,
    combine, several, subtract_gram,
};
use crate::models::prior::{Prior, repeated};
use crate::products::{self, BlockSparse};
use crate::scope::{Scope, to_f64};
use crate::solvers::blocks::transposed;
use crate::solvers::itergp::{Basis, SolveReport};

/// What a posterior conditions on data.
#[derive(Debug, Clone)]
pub(super) struct LatentModel {
    /// The priors of the latent functions: one for all of them, or one for each.
    pub priors: Vec<Prior>,
    /// The likelihood of Gaussian targets. For other targets, the factor contains the noise of the pseudo-targets.
    pub likelihood: Option<Gaussian>,
    /// The likelihood of other targets, which Newton's method replaces by pseudo-targets.
    pub other: Option<Box<dyn Likelihood>>,
    /// Number of latent functions L.
    pub latents: usize,
    /// Whether a row's latent functions are correlated.
    pub centred: bool,
    /// Where the sites of other targets are taken.
    pub sites: SiteRule,
}

impl LatentModel {
    /// Latent functions with any likelihood, conditioned on its pseudo-targets.
    pub fn of(priors: &[Prior], likelihood: &dyn Likelihood, sites: SiteRule) -> Self {
        let (latents, centred) = (likelihood.latents(), likelihood.density().is_centred());
        Self { priors: priors.to_vec(), likelihood: None, other: Some(likelihood.boxed()), latents, centred, sites }
    }

    /// One latent function with Gaussian targets.
    pub fn gaussian(prior: &Prior, likelihood: &Gaussian) -> Self {
        let (priors, likelihood) = (vec![prior.clone()], Some(likelihood.clone()));
        Self { priors, likelihood, other: None, latents: 1, centred: false, sites: SiteRule::Mode }
    }
}

/// A posterior through actions: mathematical and computational uncertainty together.
#[derive(Debug, Clone)]
pub struct CagpPosterior {
    pub(super) of: LatentModel,
    pub(super) compute: Compute,
    pub(super) data: Observations,
    /// Unit columns of S `[n, L i]`. The columns of one latent function are consecutive.
    pub(super) actions: Basis,
    /// The norms of the columns before they were scaled to unit length.
    pub(super) norms: Vec<f64>,
    /// The factor of M̂ = SᵀK̂S.
    pub(super) factor: Factor<f64>,
    /// Sᵀ(y − m).
    pub(super) projected: Vec<f64>,
    /// ṽ = M̂⁻¹Sᵀ(y − m).
    pub(super) weights: Vec<f64>,
    /// How far the solve that chose the actions went, if there was one.
    pub(super) report: Option<SolveReport>,
    pub(super) prepared: Prepared,
}

/// Rows that are predicted at once.
const CHUNK: usize = 1024;

impl CagpPosterior {
    pub(super) fn new(
        of: LatentModel,
        compute: Compute,
        data: Observations,
        (actions, norms): (Basis, Vec<f64>),
        factor: Factor<f64>,
        projected: Vec<f64>,
    ) -> Result<Self> {
        let mut weights = projected.clone();
        factor.solve(&mut weights)?;
        let (report, prepared) = (None, Prepared::default());
        Ok(Self { of, compute, data, actions, norms, factor, projected, weights, report, prepared })
    }

    /// The observations conditioned on.
    pub fn data(&self) -> &Observations {
        &self.data
    }

    /// Number of actions i.
    pub fn actions(&self) -> usize {
        self.weights.len()
    }

    /// ṽ, the weights of the projected data, for the actions before they were scaled to unit length.
    pub fn weights(&self) -> Vec<f64> {
        self.weights.iter().zip(&self.norms).map(|(weight, norm)| weight / norm).collect()
    }

    pub(super) fn gaussian(&self) -> Result<&Gaussian> {
        let problem = || Error::Usage("more actions for a posterior that there is are for Gaussian targets".into());
        self.of.likelihood.as_ref().ok_or_else(problem)
    }

    fn train(&self, scope: &Scope) -> Tensor<2> {
        scope.matrix(&self.data.x, self.data.n(), self.data.d)
    }

    /// The prior of the first latent function.
    pub(super) fn prior(&self) -> &Prior {
        &self.of.priors[0]
    }

    /// Refuses a request about one latent function if there are several.
    fn single(&self) -> Result<()> {
        if self.of.latents == 1 { Ok(()) } else { several(self.of.latents) }
    }

    /// k(points, X) `[rows, n]` of one latent function, if there are few points.
    fn few(&self, scope: &Scope, points: &Tensor<2>) -> Result<Option<Vec<f64>>> {
        if self.of.latents > 1 {
            return Ok(None);
        }
        self.prepared.anchors.cross(&self.prior().kernel, scope, (&self.data.x, self.data.d), points)
    }

    /// Sᵀ k(X, points) `[L][i, rows]` row-major, and prior means `[L][rows]`.
    pub(super) fn project(&self, scope: &Scope, points: &Tensor<2>) -> Result<[Vec<Vec<f64>>; 2]> {
        let (priors, latents) = (&self.of.priors, self.of.latents);
        let means = priors.iter().map(|prior| to_f64(prior.mean.at(scope, points)?));
        let means = repeated(means.collect::<Result<_>>()?, latents);
        if let Some(few) = self.few(scope, points)? {
            let parts = self.prepared.actions(&self.actions)?;
            let rows = few.chunks_exact(self.data.n()).flat_map(|k| parts.iter().flat_map(|part| part.project(k)));
            return Ok([vec![transposed(&rows.collect::<Vec<_>>(), self.actions())], means]);
        }
        let (train, i) = (self.train(scope), self.actions());
        // The scope may have another type than the training had.
        let dtype = points.dtype();
        let mut projected = Vec::with_capacity(latents * i * points.dims()[0]);
        for part in self.actions.parts() {
            match part {
                Ok(s) => {
                    let share = s.dims()[1] / priors.len();
                    for (place, prior) in priors.iter().enumerate() {
                        let s = s.clone().narrow(1, place * share, share).cast(dtype);
                        projected.extend(to_f64(prior.cross(scope, points, &train).times(&s)?.transpose())?);
                    }
                }
                Err(blocks) => {
                    let blocks = BlockSparse::new(blocks.values().clone().cast(dtype), blocks.offsets().to_vec())?;
                    let columns = self.prior().cross(scope, points, &train).times_blocks(&blocks)?;
                    projected.extend(to_f64(columns.transpose())?);
                }
            }
        }
        if latents == 1 {
            return Ok([vec![projected], means]);
        }
        Ok([projected.chunks(i * points.dims()[0]).map(<[f64]>::to_vec).collect(), means])
    }

    /// Computes predictions in chunks: means, prior variances and `L⁻¹Sᵀk` `[i, rows]` of every latent function.
    fn parts(&self, x: &[f64], mut take: impl FnMut([Vec<Vec<f64>>; 3])) -> Result<()> {
        self.rows(x)?;
        let (scope, d) = (Scope::new(self.compute)?, self.data.d);
        for chunk in x.chunks(CHUNK * d) {
            let points = scope.matrix(chunk, chunk.len() / d, d);
            let [mut projected, mut means] = self.project(&scope, &points)?;
            let variances = self.of.priors.iter().map(|prior| to_f64(prior.kernel.diag(&scope, &points)?));
            let variances = repeated(variances.collect::<Result<_>>()?, self.of.latents);
            for (projected, mean) in projected.iter_mut().zip(&mut means) {
                mean.iter_mut().zip(combine(projected, &self.weights)).for_each(|(m, k)| *m += k);
                self.factor.solve_lower(projected)?;
            }
            take([means, variances, projected]);
        }
        Ok(())
    }

    fn rows(&self, x: &[f64]) -> Result<usize> {
        posterior::rows(x, self.data.d)
    }
}

impl Posterior for CagpPosterior {
    fn predict(&self, x: &[f64]) -> Result<Marginals> {
        self.single()?;
        Ok(self.marginals(x)?.swap_remove(0))
    }

    fn marginals(&self, x: &[f64]) -> Result<Vec<Marginals>> {
        let mut all = vec![Marginals::default(); self.of.latents];
        self.parts(x, |[means, variances, projected]| {
            let parts = means.into_iter().zip(variances.iter().zip(projected));
            for (all, (mean, (variance, projected))) in all.iter_mut().zip(parts) {
                all.extend(mean.into_iter(), variance, &column_squares(&projected, variance.len()));
            }
        })?;
        Ok(all)
    }

    fn correlated(&self, x: &[f64]) -> Result<Option<Correlated>> {
        if !self.of.centred {
            return Ok(None);
        }
        let (i, latents) = (self.actions(), self.of.latents);
        let mut all = Correlated::default();
        self.parts(x, |[means, variances, projected]| {
            let rows = means[0].len();
            let explained = blocks::sums(|a, l| &projected[l][a * rows..][..rows], (i, latents, rows));
            for row in 0..rows {
                all.mean.extend(means.iter().map(|mean| mean[row]));
                let of = |place: usize| {
                    let (l, k, e) = (place / latents, place % latents, explained[place * rows + row]);
                    let prior = variances[l][row];
                    if l == k { (prior - e).max(posterior::VARIANCE_FLOOR * prior) } else { -e }
                };
                all.covariance.extend((0..latents * latents).map(of));
            }
        })?;
        Ok(Some(all))
    }

    fn mean(&self, x: &[f64]) -> Result<Vec<f64>> {
        self.single()?;
        self.rows(x)?;
        let scope = Scope::new(self.compute)?;
        let (n, d, weights) = (self.data.n(), self.data.d, self.prepared.spread(&self.actions, &scope, &self.weights)?);
        let mut all = Vec::with_capacity(x.len() / d);
        for chunk in x.chunks(CHUNK * d) {
            let points = scope.matrix(chunk, chunk.len() / d, d);
            let shift = match self.few(&scope, &points)? {
                Some(few) => few.chunks_exact(n).map(|k| dot(k, weights)).collect(),
                None => {
                    let weights = scope.matrix(weights, n, 1);
                    to_f64(self.prior().cross(&scope, &points, &self.train(&scope)).times(&weights)?)?
                }
            };
            all.extend(to_f64(self.prior().mean.at(&scope, &points)?)?.iter().zip(shift).map(|(m, k)| m + k));
        }
        Ok(all)
    }

    fn moments(&self, x: Tensor<2>) -> Result<Option<[Tensor<1>; 2]>> {
        if self.of.latents > 1 {
            return Ok(None);
        }
        let scope = Scope::beside(self.compute, &x)?;
        let (kernel, train) = (&self.prior().kernel, self.train(&scope));
        let (n, mut projected) = (self.data.n(), Vec::new());
        for part in self.prepared.actions(&self.actions)? {
            projected.push(match part {
                HostActions::Dense(columns) => products::Cross::new(kernel, &scope, &x, &train)
                    .times(&scope.matrix(columns, n, columns.len() / n))?,
                HostActions::Blocks(values, offsets) => {
                    let blocks = BlockSparse::new(scope.vector(values), offsets.clone())?;
                    products::Cross::new(kernel, &scope, &x, &train).times_blocks(&blocks)?
                }
            });
        }
        let k = Tensor::cat(projected, 1).transpose();
        moments(&scope, self.prior(), &x, k, &self.weights, self.factor.clone()).map(Some)
    }

    fn predict_joint(&self, x: &[f64]) -> Result<Joint> {
        let rows = self.rows(x)?;
        self.single()?;
        if rows == 0 {
            return Ok(Joint::default());
        }
        let scope = Scope::new(self.compute)?.widened();
        let points = scope.matrix(x, rows, self.data.d);
        let [mut projected, prior_mean] = self.project(&scope, &points)?;
        let (mut projected, prior_mean) = (projected.swap_remove(0), &prior_mean[0]);
        let mean = prior_mean.iter().zip(combine(&projected, &self.weights)).map(|(m, k)| m + k).collect();
        let mut covariance = to_f64(self.prior().covariance(&scope, &points).matrix()?)?;
        self.factor.solve_lower(&mut projected)?;
        subtract_gram(&mut covariance, &projected, rows);
        Ok(Joint { mean, covariance })
    }

    fn saved(&self, _factor: bool) -> Result<SavedPosterior> {
        self.arrays()
    }

    fn solve(&self) -> Option<&SolveReport> {
        self.report.as_ref()
    }

    fn leave_one_out(&self) -> Option<&dyn LeaveOneOut> {
        self.of.likelihood.is_some().then_some(self as &dyn LeaveOneOut)
    }

    fn computation_aware(&self) -> Option<&dyn ComputationAware> {
        Some(self)
    }
}
