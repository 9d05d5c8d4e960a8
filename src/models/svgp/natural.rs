//! Natural-gradient steps for a normal distribution of whitened inducing values, and more rows by such steps without
//! another training of hyperparameters.

use burn::tensor::Tensor;

#[cfg(feature = "gpu")]
use super::on_device;
use super::{Covariances, Svgp, matrices};
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::likelihoods::Likelihood;
use crate::likelihoods::expected::RowDensities;
use crate::linalg::dense::{inverse, product, transpose, view, view_mut};
use crate::linalg::{Factor, cholesky, solve_lower};
use crate::models::minibatch::{NaturalSums, SumOverRows};
use crate::models::variational::Variational;
use crate::models::{Batch, Observations};
use crate::scope::{Scope, to_f64};

/// Natural steps for targets that are not Gaussian, and their length. Errors halve with each.
const STEPS: usize = 50;
const RATE: f64 = 0.5;

/// The most that a mean still moves once it has settled, in units of the prior standard deviation.
const SETTLED: f64 = 1e-9;

impl Svgp {
    /// Takes a step of length `rate` in (0, 1] along the natural gradient of q, for all latent functions at once
    /// (Salimbeni et al. 2018, *Natural gradients in practice*): S⁻¹ ← (1 − γ)S⁻¹ + γ(I + 2A
    /// diag(v̄)Aᵀ), where v̄ is the loss's slope in the variances of f, and the mean changes accordingly. With a
    /// Gaussian likelihood, all data and γ = 1, the step ends at the optimum.
    ///
    /// # Errors
    /// [`Error::Usage`] for diagonal covariances or a rate outside of the range, [`Error::NotPositiveDefinite`] when
    /// the step leaves the positive definite matrices. This happens with likelihoods that are not log-concave. A
    /// smaller rate helps.
    pub fn natural_step(&mut self, compute: Compute, batch: &Batch, rate: f64) -> Result<()> {
        let sums = self.natural_sums(compute, batch)?;
        self.natural_move(compute, &sums, rate)
    }

    /// The model given more rows: q(u) so far is the prior of natural steps for these rows alone, so the earlier rows
    /// are not needed (as Bui et al. 2017, *Streaming sparse Gaussian process approximations*, with fixed
    /// hyperparameters). The new rows become inducing inputs themselves, so that nothing they say is lost; q of their
    /// values starts at what q says of them. With Gaussian targets the result is q conditioned on the rows. O(m³) for m
    /// inducing inputs, the new ones included.
    ///
    /// # Errors
    /// [`Error::Usage`] for diagonal covariances of q, [`Error::Shape`] for other columns,
    /// [`Error::Data`] for targets that the likelihood does not take; what factorisations report.
    pub fn updated(&self, compute: Compute, more: &Observations) -> Result<Self> {
        self.likelihood.check(more.targets(), None)?;
        let mut model = self.clone();
        let added = model.processes.iter_mut().map(|process| process.extend(&more.x, more.d));
        let added = added.collect::<Result<Vec<_>>>()?;
        for (l, q) in model.variational.iter_mut().enumerate() {
            q.extend(added[l.min(added.len() - 1)])?;
        }
        let prior = |q: &Variational| Ok(Natural::of(&q.mean.internal(), q.lower()?));
        let priors = model.variational.iter().map(prior).collect::<Result<Vec<_>>>()?;
        let batch = more.batch(&Scope::new(compute)?);
        let (steps, rate) = if self.likelihood.noise().is_some() { (1, 1.0) } else { (STEPS, RATE) };
        for _ in 0..steps {
            let sums = model.natural_sums(compute, &batch)?.numbers()?;
            let (stepped, mut farthest) = (model.stepped(&sums, rate, Some(&priors))?, 0.0_f64);
            for (q, (mean, root)) in model.variational.iter_mut().zip(stepped) {
                let moves = mean.iter().zip(q.mean.raw()).map(|(new, old)| (new - old).abs());
                farthest = moves.fold(farthest, f64::max);
                q.set(&mean, &root);
            }
            if farthest < SETTLED {
                break;
            }
        }
        Ok(model)
    }

    /// The mean and the lower root of each q after a step from the sums of all. The priors are N(0, I) if none are
    /// given.
    fn stepped(&self, sums: &[f64], rate: f64, priors: Option<&[Natural]>) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        let mut rest = sums;
        let of_latent = |(l, q): (usize, &Variational)| {
            let m = q.mean.len();
            let Some((own, others)) = rest.split_at_checked(m * m + m) else {
                return Err(Error::shape("sums over rows", (m * m + m).to_string(), rest.len().to_string()));
            };
            rest = others;
            step(own, (q.mean.internal(), q.lower()?), rate, priors.map(|priors| &priors[l]))
        };
        self.variational.iter().enumerate().map(of_latent).collect()
    }
}

impl SumOverRows for Svgp {
    fn natural_len(&self) -> usize {
        self.variational.iter().map(|q| q.mean.len() * (q.mean.len() + 1)).sum()
    }

    /// Those of one latent function after another.
    fn natural_sums(&self, compute: Compute, batch: &Batch) -> Result<NaturalSums> {
        if self.variational.iter().any(|q| q.is_diagonal() && q.mean.len() > 1) {
            return Err(Error::Usage("natural gradients need a full covariance of q, not a diagonal one".into()));
        }
        let scope = Scope::new(compute)?;
        let x = if batch.x.is_autodiff() { batch.x.clone().inner() } else { batch.x.clone() };
        let mut each = Vec::new();
        let latents = self.latents(&scope, &x, |process| {
            let (gram, cross) = matrices(process, &scope, &x)?;
            let a = solve_lower(cholesky(gram, "K_ZZ")?, cross)?;
            each.push(a.clone());
            Ok(Covariances::White(a))
        })?;
        let slopes = slopes(&*self.likelihood, latents.mean, latents.variance, batch)?;
        // On a GPU, these stay there.
        #[cfg(feature = "gpu")]
        if !compute.kind.is_cpu() {
            let of_latent = |(l, slopes)| on_device::sums(&scope, &each[usize::min(l, each.len() - 1)], slopes);
            return Ok(NaturalSums::Device(slopes.into_iter().enumerate().map(of_latent).collect()));
        }
        let each = each.into_iter().map(to_f64).collect::<Result<Vec<_>>>()?;
        let of_latent = |(l, slopes)| sums(&each[usize::min(l, each.len() - 1)], slopes);
        Ok(NaturalSums::Host(slopes.iter().enumerate().flat_map(of_latent).collect()))
    }

    fn natural_move(
        &mut self,
        #[cfg_attr(not(feature = "gpu"), expect(unused_variables))] compute: Compute,
        sums: &NaturalSums,
        rate: f64,
    ) -> Result<()> {
        if !(rate > 0.0 && rate <= 1.0) {
            return Err(Error::Usage(format!("the rate {rate} of natural gradients must lie in (0, 1]")));
        }
        #[cfg(feature = "gpu")]
        if let NaturalSums::Device(sums) = sums
            && let scope = Scope::new(compute)?
            && self.variational.iter().all(|q| on_device::factorises(&scope, q.mean.len()))
        {
            let moved = self.variational.iter().zip(sums).map(|(q, sums)| on_device::moved(&scope, sums, q, rate));
            let moved = moved.collect::<Result<Vec<_>>>()?;
            self.variational.iter_mut().zip(moved).for_each(|(q, (mean, root))| q.set_packed(&mean, &root));
            return Ok(());
        }
        let sums = match sums {
            NaturalSums::Host(sums) => sums,
            device => &device.clone().numbers()?,
        };
        let moved = self.stepped(sums, rate, None)?;
        self.variational.iter_mut().zip(moved).for_each(|(q, (mean, root))| q.set(&mean, &root));
        Ok(())
    }
}

/// Slopes of the data term of the loss in the means and in the variances of f, `[b]` each.
pub type LatentSlopes = (Vec<f64>, Vec<f64>);

/// The slopes of `−scale Σ E[ln p(y_i | f_i)]` at marginals `[L, b]`, one pair for each latent function.
fn slopes(
    likelihood: &dyn Likelihood,
    mean: Tensor<2>,
    variance: Tensor<2>,
    batch: &Batch,
) -> Result<Vec<LatentSlopes>> {
    let [latents, b] = mean.dims();
    let rows = RowDensities::new(likelihood, &batch.y, batch.auxiliary.as_ref())?;
    let records = rows.records(&to_f64(mean)?, &to_f64(variance)?);
    let record = |i: usize| &records[i * (1 + 2 * latents + rows.own)..];
    let column = |at: usize| (0..b).map(|i| -batch.scale * record(i)[at]).collect();
    Ok((0..latents).map(|l| (column(1 + l), column(1 + latents + l))).collect())
}

/// The sums over rows that a step needs: 2A diag(v̄)Aᵀ `[m, m]`, then A m̄ `[m]`, for A `[m, b]`.
fn sums(a: &[f64], (in_mean, in_variance): &LatentSlopes) -> Vec<f64> {
    let b = in_mean.len();
    let m = a.len() / b;
    let mut scaled = a.to_vec();
    for row in scaled.chunks_exact_mut(b) {
        row.iter_mut().zip(in_variance).for_each(|(x, v)| *x *= 2.0 * v);
    }
    let mut data = vec![0.0; m * m];
    product::add_lower(view_mut(&mut data, m), view(a, b), view(&scaled, b).transpose(), 1.0);
    transpose::mirror(view_mut(&mut data, m));
    data.extend(a.chunks_exact(b).map(|row| row.iter().zip(in_mean).map(|(x, g)| x * g).sum::<f64>()));
    data
}

/// A normal distribution N(μ, S) as S⁻¹ `[m, m]` and S⁻¹μ `[m]`.
#[derive(Debug)]
struct Natural {
    precision: Vec<f64>,
    shifted: Vec<f64>,
}

impl Natural {
    /// That of N(μ, R Rᵀ).
    fn of(mean: &[f64], mut root: Vec<f64>) -> Self {
        inverse::from_factor(view_mut(&mut root, mean.len()));
        let shifted = times(&root, mean);
        Self { precision: root, shifted }
    }
}

fn times(matrix: &[f64], x: &[f64]) -> Vec<f64> {
    matrix.chunks_exact(x.len()).map(|row| row.iter().zip(x).map(|(a, b)| a * b).sum()).collect()
}

/// The mean and the lower root of N(μ, R Rᵀ) after a step of length `rate`. `sums` are the [sums] over the rows; the
/// prior is N(0, I) if none is given.
fn step(
    sums: &[f64],
    (mean, root): (Vec<f64>, Vec<f64>),
    rate: f64,
    prior: Option<&Natural>,
) -> Result<(Vec<f64>, Vec<f64>)> {
    let m = mean.len();
    let (data, pushed) = sums.split_at(m * m);
    // S⁻¹.
    let mut old = root;
    inverse::from_factor(view_mut(&mut old, m));
    // θ₁ = S⁻¹μ moves to (1 − γ)S⁻¹μ + γ(2A diag(v̄)Aᵀμ − A m̄).
    let (kept, drawn) = (times(&old, &mean), times(data, &mean));
    let mut next: Vec<f64> =
        kept.iter().zip(drawn).zip(pushed).map(|((k, d), p)| (1.0 - rate) * k + rate * (d - p)).collect();
    let mut precision: Vec<f64> = old.iter().zip(data).map(|(o, d)| (1.0 - rate) * o + rate * d).collect();
    match prior {
        None => precision.iter_mut().step_by(m + 1).for_each(|d| *d += rate),
        Some(prior) => {
            precision.iter_mut().zip(&prior.precision).for_each(|(p, own)| *p += rate * own);
            next.iter_mut().zip(&prior.shifted).for_each(|(x, own)| *x += rate * own);
        }
    }
    let factor = Factor::new(precision, "the precision of q(u)")?;
    factor.solve(&mut next)?;
    let root = Factor::new(factor.inverse(), "the covariance of q(u)")?.lower();
    Ok((next, root))
}
