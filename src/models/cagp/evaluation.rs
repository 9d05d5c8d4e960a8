//! A model at the rows of one evaluation: what actions explain about them, and the bound that follows.

use burn::tensor::Tensor;

use super::CagpObjective;
use super::newton::Sites;
use super::numbers::Small;
use super::products::{self, Ks};
use crate::error::{Error, Result};
use crate::likelihoods::Likelihood;
use crate::linalg::{Factor, cholesky, cholesky_solve, logdet_from_cholesky};
use crate::models::Batch;
use crate::models::posterior::VARIANCE_FLOOR;
use crate::models::prior::{Prior, repeated};
use crate::products::{Covariance, Explained, from_products, of_rows};
use crate::scope::{Scope, to_f64};
use crate::solvers::itergp::Basis;
use crate::solvers::{Group, NoisyCovariance};

/// Latent functions, and a batch of their targets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Evaluation<'a> {
    /// The priors of the latent functions: one for all of them, or one for each.
    pub priors: &'a [Prior],
    pub likelihood: &'a dyn Likelihood,
    pub scope: &'a Scope,
    pub batch: &'a Batch,
    /// The number L of latent functions, and whether those of a row are correlated.
    pub functions: (usize, bool),
}

impl<'a> Evaluation<'a> {
    pub fn new(priors: &'a [Prior], likelihood: &'a dyn Likelihood, scope: &'a Scope, batch: &'a Batch) -> Self {
        let functions = (likelihood.latents(), likelihood.density().is_centred());
        Self { priors, likelihood, scope, batch, functions }
    }

    /// Number of rows n.
    pub fn rows(&self) -> usize {
        self.batch.x.dims()[0]
    }

    /// The covariances of a latent function.
    pub fn covariance(&self, latent: usize) -> Covariance<'a> {
        self.priors[latent.min(self.priors.len() - 1)].covariance(self.scope, &self.batch.x)
    }

    /// The covariances of each prior, by single columns and their diagonal.
    pub fn by_columns(&self) -> Result<Vec<NoisyCovariance<'a>>> {
        let none = Tensor::<1>::zeros([self.rows()], (self.scope.device(), self.scope.dtype()));
        let of = |own: &'a Prior| NoisyCovariance::new(&own.kernel, self.scope, self.batch.x.clone(), none.clone());
        self.priors.iter().map(of).collect()
    }

    /// Prior means `[L n, 1]`.
    pub fn means(&self) -> Result<Tensor<2>> {
        let means =
            self.priors.iter().map(|prior| Ok(prior.mean.at(self.scope, &self.batch.x)?.cast(self.scope.wide())));
        Ok(Tensor::cat(repeated(means.collect::<Result<_>>()?, self.functions.0), 0).unsqueeze_dim(1))
    }

    /// Prior variances `[L, n]`.
    pub fn variances(&self) -> Result<Tensor<2>> {
        let each = self.priors.iter().enumerate().map(|(l, _)| self.covariance(l).diagonal_wide());
        Ok(Tensor::stack(repeated(each.collect::<Result<_>>()?, self.functions.0), 0))
    }

    /// The targets themselves with their noise, if that is Gaussian: sites that are known.
    pub fn known(&self) -> Option<Noisy> {
        let spread = self.likelihood.noise_of_rows(self.scope, self.rows(), self.batch.auxiliary.as_ref())?;
        let targets = self.batch.y.clone().cast(self.scope.wide()).unsqueeze_dim(1);
        Some(Noisy { targets, spread: spread.unsqueeze_dim(1), known: true })
    }

    /// What actions explain about the rows, from K S of the same numbers and the rows' pseudo-targets.
    pub fn explained(&self, s: &Basis, ks: Ks, noisy: &Noisy) -> Result<Explained> {
        let (n, targets) = (self.rows(), noisy.targets.clone() - self.means()?);
        let (prepared, ks) = match ks {
            Ks::Fused(each) => (each, None),
            Ks::Whole(ks) => (Vec::new(), Some(ks)),
            Ks::Anew => (Vec::new(), None),
        };
        if let (None, Some(Group::Sparse { blocks, apart })) = (&ks, s.single()) {
            let mut prepared = prepared.into_iter();
            let noisy = |from: usize, rows: usize| {
                [&targets, &noisy.spread].map(|all| all.clone().narrow(0, from, rows).squeeze_dim(1))
            };
            if *apart || blocks.len() == 1 {
                // The actions of one function carry no information about another.
                let of = |(l, own)| self.covariance(l).explained(own, noisy(l * n, n).each_ref(), prepared.next());
                return Ok(Explained::beside(blocks.iter().enumerate().map(of).collect::<Result<_>>()?));
            }
            if self.priors.len() == 1 {
                let noisy = noisy(0, blocks.len() * n);
                let told = self.covariance(0).explained_together(blocks, noisy.each_ref(), prepared.next())?;
                if let Some(told) = told {
                    return Ok(told);
                }
            }
        }
        let ks = match ks {
            Some(ks) => ks,
            None => products::times(self, s)?,
        };
        let gram = products::gram(s, &ks, targets.dtype())?;
        let (noise, projected) = (products::factored_noise(s, &noisy.spread)?, s.transposed_times(&targets)?);
        from_products(gram, noise, projected, self.functions.0, |lower, weights| {
            of_rows(ks.transpose(), lower, weights, self.functions)
        })
    }

    /// `M = Sᵀ(K + W⁻¹)S` `[i, i]` and Sᵀ(ŷ − m) `[i, 1]`, from K S if it exists.
    pub fn projected(&self, s: &Basis, ks: Option<Tensor<2>>, noisy: &Noisy) -> Result<[Tensor<2>; 2]> {
        let gram = match (s.single(), ks) {
            (_, Some(ks)) => products::gram(s, &ks, self.scope.wide())?,
            (Some(Group::Sparse { blocks, .. }), None) if blocks.len() == 1 => {
                self.covariance(0).projected(&blocks[0])?
            }
            (_, None) => products::gram(s, &products::times(self, s)?, self.scope.wide())?,
        };
        let noise = products::noise(s, &noisy.spread)?;
        Ok([gram + noise, s.transposed_times(&(noisy.targets.clone() - self.means()?))?])
    }

    /// The small system of actions, from K S if it exists.
    pub fn small(&self, s: &Basis, ks: Option<Tensor<2>>, noisy: &Noisy) -> Result<Small> {
        let [matrix, projected] = self.projected(s, ks, noisy)?;
        Small::new(Factor::new(to_f64(matrix)?, "SᵀK̂S")?, to_f64(projected)?)
    }

    /// The loss `[1]`. For sites it is the negative evidence lower bound.
    pub fn loss(&self, objective: CagpObjective, s: &Basis, ks: Ks, noisy: &Noisy) -> Result<Tensor<1>> {
        if objective == CagpObjective::Elbo || !noisy.known {
            return self.negative_elbo(self.explained(s, ks, noisy)?, noisy);
        }
        let ks = if let Ks::Whole(ks) = ks { Some(ks) } else { None };
        let [matrix, projected] = self.projected(s, ks, noisy)?;
        let [_, root] = products::factored_noise(s, &noisy.spread.ones_like())?;
        let factor = cholesky(matrix, "SᵀK̂S")?;
        let v = cholesky_solve(factor.clone(), projected.clone())?;
        let log_dets = logdet_from_cholesky(factor)? - logdet_from_cholesky(root)?;
        let constant = projected.dims()[0] as f64 * log_two_pi();
        Ok(((projected * v).sum() + log_dets + constant) * 0.5)
    }

    /// The negative evidence lower bound `KL(q ‖ p) − Σ E_q ln p(y_n | f_n)` `[1]`. It is a bound for any actions,
    /// pseudo-targets and positive curvatures. Expectations are over the joint distribution of a row's latent
    /// functions. For targets with Gaussian noise they have a closed form.
    fn negative_elbo(&self, explained: Explained, noisy: &Noisy) -> Result<Tensor<1>> {
        let Explained { divergence, magnitude, mean, variance } = explained;
        let ((latents, centred), n) = (self.functions, self.rows());
        let mean = self.means()?.reshape([latents, n]) + mean;
        let prior = self.variances()?;
        if noisy.known {
            let [targets, spread] = [&noisy.targets, &noisy.spread].map(|all| all.clone().reshape([1, n]));
            let error = (targets - mean).powi_scalar(2) + prior - variance;
            return Ok(((error / spread.clone() + spread.log() + log_two_pi()).sum() + divergence) * 0.5);
        }
        check_digits(magnitude, &divergence, n)?;
        let explained = |place: usize, count: usize| variance.clone().narrow(0, place, count);
        let floored = |variance: Tensor<2>, prior: Tensor<2>| variance.max_pair(prior.detach() * VARIANCE_FLOOR);
        let variance = if centred {
            let row = |place: usize| {
                let (l, k) = (place / latents, place % latents);
                let own = prior.clone().narrow(0, l, 1);
                let explained = explained(place, 1);
                if l == k { floored(own.clone() - explained, own) } else { -explained }
            };
            Tensor::cat((0..latents * latents).map(row).collect(), 0)
        } else {
            floored(prior.clone() - explained(0, latents), prior)
        };
        let Batch { y, auxiliary, .. } = self.batch;
        let expected = self.likelihood.expected_log_density(self.scope, mean, variance, y, auxiliary.as_ref())?;
        Ok(divergence * 0.5 - expected.sum())
    }
}

/// Pseudo-targets with independent noise: the targets of a Gaussian likelihood, or sites.
#[derive(Debug, Clone)]
pub(super) struct Noisy {
    /// Pseudo-targets `f + g/d` `[L n, 1]`.
    pub targets: Tensor<2>,
    /// Their noise `1/d` `[L n, 1]`.
    pub spread: Tensor<2>,
    /// Whether they are the targets themselves.
    pub known: bool,
}

impl Noisy {
    /// From plain numbers.
    pub fn of(scope: &Scope, sites: &Sites) -> Self {
        let count = sites.f.len();
        let both = [&sites.gradient[..], &sites.curvature].concat();
        let f = scope.matrix_in(&sites.f, 1, count, scope.wide()).squeeze_dim(0);
        Self::new(f, scope.matrix_in(&both, 2, count, scope.wide()))
    }

    /// From latent values `f` `[L n]`, and gradient and curvature `[2, L n]` there.
    pub fn new(f: Tensor<1>, derivatives: Tensor<2>) -> Self {
        let all = f.dims()[0];
        let part = |place: usize| derivatives.clone().narrow(0, place, 1).reshape([all, 1]);
        let spread = part(1).recip();
        Self { targets: f.unsqueeze_dim(1) + part(0) * spread.clone(), spread, known: false }
    }
}

/// The largest allowed rounding error of the divergence, for each row and relative to the divergence itself.
const LOST: f64 = 1e-5;

/// Refuses sites at which rounding could change the divergence too much; `size` is the sum of the sizes of its terms.
/// This happens for sites so far on the wrong side of their targets that f64 cannot resolve the pseudo-targets.
fn check_digits(size: Tensor<1>, divergence: &Tensor<1>, rows: usize) -> Result<()> {
    match to_f64(Tensor::cat(vec![size, divergence.clone().detach().abs()], 0))?[..] {
        [size, divergence] if f64::EPSILON * size <= LOST * (rows as f64 + divergence) => Ok(()),
        _ => Err(Error::NotFinite("the bound, which loses all digits to very large pseudo-targets,".into())),
    }
}

/// log 2π.
fn log_two_pi() -> f64 {
    (2.0 * std::f64::consts::PI).ln()
}
