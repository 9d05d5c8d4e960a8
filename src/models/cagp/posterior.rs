//! The posterior of computation-aware GPs, for any actions.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use burn::tensor::Tensor;

use super::enough::Added;
use super::numbers::{Numbers, Small};
use super::{SiteRule, products};
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::likelihoods::{Gaussian, Likelihood};
use crate::linalg::dense::columns::{column_squares, combine, subtract_gram};
use crate::linalg::real::dot;
use crate::models::Observations;
use crate::models::functions::{Located, Pathwise};
use crate::models::leave_one_out::LeaveOneOut;
use crate::models::posterior::{
    self, ComputationAware, Correlated, Joint, Marginals, Posterior, SavedPosterior, several,
};
use crate::models::prior::{Prior, repeated};
use crate::products::{Anchors, BlockSparse, pair_sums};
use crate::scope::{Scope, to_f64};
use crate::serving::{self, Change, Latent, Served, Weigh};
use crate::solvers::Group;
use crate::solvers::blocks::transposed;
use crate::solvers::itergp::{Basis, SolveReport};

/// What a posterior conditions on data.
#[derive(Debug, Clone)]
pub(super) struct LatentModel {
    /// The priors of the latent functions: one for all of them, or one for each.
    pub priors: Vec<Prior>,
    /// The likelihood of targets. If it is not Gaussian, the factor contains the noise of pseudo-targets.
    pub likelihood: Box<dyn Likelihood>,
    /// Number of latent functions L, and whether a row's are correlated.
    pub functions: (usize, bool),
    /// Where sites are taken.
    pub sites: SiteRule,
}

impl LatentModel {
    pub fn new(priors: &[Prior], likelihood: &dyn Likelihood, sites: SiteRule) -> Self {
        let functions = (likelihood.latents(), likelihood.density().is_centred());
        Self { priors: priors.to_vec(), likelihood: likelihood.boxed(), functions, sites }
    }

    /// The likelihood of Gaussian targets, by their noise; without noise for others.
    pub fn gaussian(&self) -> Gaussian {
        let mut likelihood = Gaussian::new(1.0);
        likelihood.noise.put_internal(&[self.likelihood.noise().unwrap_or_default()]);
        likelihood
    }
}

/// What predictions of few rows need, as numbers on the host. The first such prediction computes it. Threads that need
/// it at the same time each compute it: none waits for another.
#[derive(Debug, Clone, Default)]
pub(super) struct Prepared {
    /// The data's inputs.
    anchors: Anchors,
    actions: OnceLock<Arc<Vec<Numbers<'static>>>>,
    /// S ṽ `[n]`.
    spread: OnceLock<Arc<Vec<f64>>>,
}

impl Prepared {
    /// A copy for other actions.
    pub fn without_actions(&self) -> Self {
        Self { anchors: self.anchors.clone(), ..Self::default() }
    }
}

/// A posterior through actions: mathematical and computational uncertainty together.
#[derive(Debug, Clone)]
pub struct CagpPosterior {
    pub(super) of: LatentModel,
    pub(super) compute: Compute,
    pub(super) data: Observations,
    /// Unit columns of S `[L n, i]`.
    pub(super) actions: Basis,
    /// The norms of the columns before they were scaled to unit length.
    pub(super) norms: Vec<f64>,
    /// M̂ṽ = Sᵀ(y − m) with M̂ = SᵀK̂S.
    pub(super) small: Small,
    /// How far the solve that chose the actions went, if there was one.
    pub(super) report: Option<SolveReport>,
    pub(super) prepared: Prepared,
    /// Whether it has actions that its model does not know.
    pub(super) grown: bool,
    /// What added them after training, if it did.
    pub(super) added: Option<Added>,
}

/// Rows that are predicted at once.
const CHUNK: usize = 1024;
/// The most rows that are projected by dense actions one after another.
const FEW: usize = 8;

impl CagpPosterior {
    pub(super) fn new(
        of: LatentModel,
        compute: Compute,
        data: Observations,
        (actions, norms): (Basis, Vec<f64>),
        small: Small,
    ) -> Self {
        let (report, added, prepared, grown) = (None, None, Prepared::default(), false);
        Self { of, compute, data, actions, norms, small, report, prepared, grown, added }
    }

    /// The observations conditioned on.
    pub fn data(&self) -> &Observations {
        &self.data
    }

    /// Number of actions i.
    pub fn actions(&self) -> usize {
        self.small.weights.len()
    }

    /// ṽ, the weights of the projected data, for the actions before they were scaled to unit length.
    pub fn weights(&self) -> Vec<f64> {
        self.small.weights.iter().zip(&self.norms).map(|(weight, norm)| weight / norm).collect()
    }

    /// The noise variances `[n]` of targets with Gaussian noise, in the wide type.
    pub(super) fn noise(&self, scope: &Scope, data: &Observations) -> Result<Tensor<1>> {
        let known = data.batch(scope).auxiliary;
        let problem =
            || Error::Usage("only targets with Gaussian noise are the sites of a posterior themselves".into());
        self.of.likelihood.noise_of_rows(scope, data.n(), known.as_ref()).ok_or_else(problem)
    }

    /// S as numbers.
    pub(super) fn numbers(&self) -> Result<&[Numbers<'static>]> {
        let of = || Ok(Arc::new(self.actions.groups().iter().map(Numbers::of).collect::<Result<_>>()?));
        posterior::once(&self.prepared.actions, of).map(|known| &known[..])
    }

    /// S ṽ `[n]`: the weights of the covariances with the data.
    fn spread(&self, scope: &Scope) -> Result<&[f64]> {
        let weights = || scope.matrix(&self.small.weights, self.small.weights.len(), 1);
        let of = || Ok(Arc::new(to_f64(self.actions.times(&weights())?)?));
        posterior::once(&self.prepared.spread, of).map(|known| &known[..])
    }

    pub(super) fn train(&self, scope: &Scope) -> Tensor<2> {
        scope.rows(&self.data.x, self.data.d)
    }

    /// The prior of the first latent function.
    pub(super) fn prior(&self) -> &Prior {
        &self.of.priors[0]
    }

    /// Refuses a request about one latent function if there are several.
    fn single(&self) -> Result<()> {
        if self.of.functions.0 == 1 { Ok(()) } else { several(self.of.functions.0) }
    }

    /// k(points, X) `[rows, n]` of one latent function, if there are few points.
    fn few(&self, scope: &Scope, points: &Tensor<2>) -> Result<Option<Vec<f64>>> {
        // Dense actions are projected row by row, which pays for a few rows only.
        let dense = self.actions.groups().iter().any(|group| matches!(group, Group::Dense(_)));
        if self.of.functions.0 > 1 || (dense && points.dims()[0] > FEW) {
            return Ok(None);
        }
        self.prepared.anchors.cross(&self.prior().kernel, scope, (&self.data.x, self.data.d), points)
    }

    /// Sᵀ k(X, points) `[L][i, rows]` row-major, and prior means `[L][rows]`.
    pub(super) fn project(&self, scope: &Scope, points: &Tensor<2>) -> Result<[Vec<Vec<f64>>; 2]> {
        let (priors, latents) = (&self.of.priors, self.of.functions.0);
        let means = priors.iter().map(|prior| to_f64(prior.mean.at(scope, points)?));
        let means = repeated(means.collect::<Result<_>>()?, latents);
        if let Some(few) = self.few(scope, points)? {
            let parts = self.numbers()?;
            let rows = few.chunks_exact(self.data.n()).flat_map(|k| parts.iter().flat_map(|part| part.project(k)));
            return Ok([vec![transposed(&rows.collect::<Vec<_>>(), self.actions())], means]);
        }
        let (train, rows, i) = (self.train(scope), points.dims()[0], self.actions());
        // The scope may have another type than the training had.
        let s = self.actions.cast(points.dtype())?;
        let cross = |l: usize| priors[l.min(priors.len() - 1)].cross(scope, points, &train);
        let (dense, blocks) = (|l, s: &_| cross(l).times(s), |l, s: &_| cross(l).times_blocks(s));
        let columns = products::of_functions(&s, (latents, priors.len() == 1), dense, blocks)?;
        let columns = to_f64(columns.reshape([latents, rows, i]).swap_dims(1, 2))?;
        Ok([columns.chunks_exact(i * rows).map(<[f64]>::to_vec).collect(), means])
    }

    /// Computes predictions in chunks: means, prior variances and `L⁻¹Sᵀk` `[i, rows]` of every latent function.
    fn parts(&self, x: &[f64], mut take: impl FnMut([Vec<Vec<f64>>; 3])) -> Result<()> {
        self.rows(x)?;
        let (scope, d) = (Scope::new(self.compute)?, self.data.d);
        for chunk in x.chunks(CHUNK * d) {
            let points = scope.rows(chunk, d);
            let [mut projected, mut means] = self.project(&scope, &points)?;
            let variances = self.of.priors.iter().map(|prior| to_f64(prior.kernel.diag(&scope, &points)?));
            let variances = repeated(variances.collect::<Result<_>>()?, self.of.functions.0);
            for (projected, mean) in projected.iter_mut().zip(&mut means) {
                mean.iter_mut().zip(combine(projected, &self.small.weights)).for_each(|(m, k)| *m += k);
                self.small.factor.solve_lower(projected)?;
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
        let mut all = vec![Marginals::default(); self.of.functions.0];
        self.parts(x, |[means, variances, projected]| {
            let parts = means.into_iter().zip(variances.iter().zip(projected));
            for (all, (mean, (variance, projected))) in all.iter_mut().zip(parts) {
                all.extend(mean.into_iter(), variance, &column_squares(&projected, variance.len()));
            }
        })?;
        Ok(all)
    }

    fn correlated(&self, x: &[f64]) -> Result<Option<Correlated>> {
        let (i, (latents, centred)) = (self.actions(), self.of.functions);
        if !centred {
            return Ok(None);
        }
        let mut all = Correlated::default();
        self.parts(x, |[means, variances, projected]| {
            let rows = means[0].len();
            let explained = pair_sums(|a, l| &projected[l][a * rows..][..rows], (i, latents, rows));
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
        let (n, d, weights) = (self.data.n(), self.data.d, self.spread(&scope)?);
        let mut all = Vec::with_capacity(x.len() / d);
        for chunk in x.chunks(CHUNK * d) {
            let points = scope.rows(chunk, d);
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

    fn located(&self, x: Tensor<2>) -> Result<Option<Located>> {
        if self.of.functions.0 > 1 {
            return Ok(None);
        }
        let scope = Scope::beside(self.compute, &x)?;
        let (train, prior) = (self.train(&scope), self.prior().clone());
        let mut projected = Vec::new();
        for part in self.numbers()? {
            let cross = prior.cross(&scope, &x, &train);
            projected.push(match part {
                Numbers::Dense(values, n) => cross.times(&scope.matrix(values, part.len(), *n).transpose())?,
                Numbers::Blocks { values, columns } => {
                    let ends = columns.iter().flatten().map(|rows| rows.end);
                    cross.times_blocks(&BlockSparse::new(
                        scope.vector(values),
                        std::iter::once(0).chain(ends).collect(),
                    )?)?
                }
            });
        }
        let k = Tensor::cat(projected, 1).transpose();
        let (weights, explains) = (self.small.weights.clone(), Arc::new(self.small.factor.clone()));
        Ok(Some(Located { scope, prior, x, k, weights, explains }))
    }

    fn pathwise(&self) -> Result<Option<&dyn Pathwise>> {
        self.single()?;
        Ok(Some(self))
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
        let mean = prior_mean.iter().zip(combine(&projected, &self.small.weights)).map(|(m, k)| m + k).collect();
        let mut covariance = to_f64(self.prior().covariance(&scope, &points).matrix()?)?;
        self.small.factor.solve_lower(&mut projected)?;
        subtract_gram(&mut covariance, &projected, rows);
        Ok(Joint { mean, covariance })
    }

    fn updated(&self, more: &Observations) -> Result<Option<Box<dyn Posterior>>> {
        if self.of.functions.0 > 1 {
            return Ok(None);
        }
        Ok(Some(Box::new(self.with_rows(more)?)))
    }

    fn served(&self, _factor: bool) -> Result<Served> {
        let ((latents, centred), parts) = (self.of.functions, self.numbers()?);
        let mut arrays = BTreeMap::new();
        let (weights, lower) = (self.small.weights.clone(), self.small.factor.packed());
        let [weights, lower] = [("weights", weights), ("lower", lower)].map(|(n, v)| serving::keep(&mut arrays, n, v));
        let latent = |l: usize| {
            let mut change = |(k, part): (usize, &Numbers)| {
                let mut keep = |name: &str, values| serving::keep(&mut arrays, &format!("{l}.{name}{k}"), values);
                part.change((l, latents), &mut keep)
            };
            let change = match parts {
                [only] => change((0, only)),
                several => Change::Several(several.iter().enumerate().map(change).collect()),
            };
            let prior = &self.of.priors[l.min(self.of.priors.len() - 1)];
            Ok(Latent { change, ..prior.latent(["x".into(), weights.clone(), lower.clone()], Weigh::Changed)? })
        };
        let all = (0..latents).map(latent).collect();
        match centred && latents > 1 {
            true => Ok(Served::classes(all, None, arrays)),
            false => Ok(Served::latents(all, arrays)),
        }
    }

    fn saved(&self, _factor: bool) -> Result<SavedPosterior> {
        self.arrays()
    }

    fn solve(&self) -> Option<&SolveReport> {
        self.report.as_ref()
    }

    fn leave_one_out(&self) -> Option<&dyn LeaveOneOut> {
        self.of.likelihood.noise().is_some().then_some(self as &dyn LeaveOneOut)
    }

    fn computation_aware(&self) -> Option<&dyn ComputationAware> {
        Some(self)
    }
}
