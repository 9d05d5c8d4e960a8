//! What an average knows of several rows at once: joint distributions, samples, and moments that are differentiable.

use burn::tensor::Tensor;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};

use super::Member;
use crate::data::{Dataset, TargetTransform};
use crate::error::{Error, Result};
use crate::fitted::Fitted;
use crate::models::posterior::Joint;

impl Fitted {
    /// Draws `count` joint samples of the latent function at the rows of a table, in the target's units. An average
    /// draws a member for each sample. The same seed gives the same samples.
    ///
    /// # Errors
    /// As [`standardise`](Self::standardise), or if the joint covariance cannot be factorised.
    pub fn sample(&self, data: &Dataset, count: usize, seed: u64) -> Result<Vec<Vec<f64>>> {
        self.drawings(data, count, seed, false)
    }

    /// The same for the target: each row has noise of its own. Calibration, which is of single rows, is not part of it.
    ///
    /// # Errors
    /// As [`sample`](Self::sample); [`Error::Usage`] for targets that are not Gaussian, and for known noise of rows.
    pub fn sample_targets(&self, data: &Dataset, count: usize, seed: u64) -> Result<Vec<Vec<f64>>> {
        if self.noise().is_none() || self.settings.auxiliary_column.is_some() {
            let problem = "samples of the target are for the gaussian likelihood with the same noise in all rows";
            return Err(Error::Usage(problem.into()));
        }
        self.drawings(data, count, seed, true)
    }

    fn drawings(&self, data: &Dataset, count: usize, seed: u64, noisy: bool) -> Result<Vec<Vec<f64>>> {
        if self.members.is_empty() {
            let (x, _) = self.standardise(data)?;
            let mut paths = self.posterior.sample(&x, count, seed)?;
            if let Some(noise) = self.noise().filter(|_| noisy) {
                // Other numbers than those of the function.
                let mut rng = Xoshiro256PlusPlus::seed_from_u64(!seed);
                let mut draw = || noise.sqrt() * Distribution::<f64>::sample(&StandardNormal, &mut rng);
                paths.iter_mut().flatten().for_each(|z| *z += draw());
            }
            let scaled = |path: Vec<f64>| path.into_iter().map(|z| self.target_scale.inverse(z)).collect();
            return Ok(paths.into_iter().map(scaled).collect());
        }
        self.check_joint()?;
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let chosen: Vec<usize> = (0..count).map(|_| self.drawn(rng.random::<f64>())).collect();
        let mut paths = Vec::new();
        for (k, Member { fitted, .. }) in self.members.iter().enumerate() {
            let own = chosen.iter().filter(|chosen| **chosen == k).count();
            // A seed of its own: equal numbers would tie the members to each other.
            let own = if own == 0 {
                Vec::new()
            } else {
                fitted.drawings(data, own, seed.wrapping_add(1 + k as u64), noisy)?
            };
            paths.push(own.into_iter());
        }
        Ok(chosen.into_iter().filter_map(|k| paths[k].next()).collect())
    }

    /// Refuses joint distributions of an average with a member that has none.
    fn check_joint(&self) -> Result<()> {
        let joint = |member: &Member| member.fitted.posterior.has_joint();
        let Some(without) = self.heard().find(|member| !joint(member)) else { return Ok(()) };
        let other = self.members.iter().position(joint);
        let instead = other.map_or("fit one model of all rows".into(), |k| {
            format!("take a member that has one: number {} ({})", k + 1, self.members[k].name())
        });
        let problem = format!("the member {} has no joint distribution of several rows; {instead}", without.name());
        Err(Error::Usage(problem))
    }

    /// The member at a share of the total weight.
    pub(in crate::fitted) fn drawn(&self, mut share: f64) -> usize {
        let beyond = |member: &Member| {
            share -= member.weight;
            share < 0.0
        };
        self.members.iter().position(beyond).unwrap_or(0)
    }

    /// Means `[n]` and covariances `[n, n]` of the latent function at the rows of a table, in the target's units; of an
    /// average, those of its members and between their means. Takes memory n².
    ///
    /// # Errors
    /// As [`standardise`](Self::standardise) and the posterior's.
    pub fn predict_joint(&self, data: &Dataset) -> Result<Joint> {
        if self.members.is_empty() {
            let (x, _) = self.standardise(data)?;
            return Ok(self.in_units(crate::threads::helped(|| self.posterior.predict_joint(&x))?));
        }
        self.check_joint()?;
        let mut each = Vec::new();
        for Member { weight, fitted, .. } in self.heard() {
            each.push((*weight, fitted.predict_joint(data)?));
        }
        let mut all = Joint { mean: vec![0.0; data.n], covariance: vec![0.0; data.n * data.n] };
        for (weight, part) in &each {
            all.mean.iter_mut().zip(&part.mean).for_each(|(sum, mean)| *sum += weight * mean);
        }
        for (weight, part) in &each {
            let off: Vec<f64> = part.mean.iter().zip(&all.mean).map(|(own, mean)| own - mean).collect();
            let rows = all.covariance.chunks_mut(data.n).zip(part.covariance.chunks(data.n));
            for ((sums, own), a) in rows.zip(&off) {
                sums.iter_mut().zip(own).zip(&off).for_each(|((sum, own), b)| *sum += weight * (own + a * b));
            }
        }
        Ok(all)
    }

    /// A standardised joint normal distribution in the target's units: of a transformed target, the moments of its
    /// inverse.
    fn in_units(&self, mut joint: Joint) -> Joint {
        let (scale, n) = (&self.target_scale, joint.mean.len());
        joint.mean.iter_mut().for_each(|mean| *mean = *mean * scale.sd + scale.mean);
        joint.covariance.iter_mut().for_each(|value| *value *= scale.sd * scale.sd);
        if scale.transform == TargetTransform::Identity {
            return joint;
        }
        let shift = if scale.transform == TargetTransform::Log1p { 1.0 } else { 0.0 };
        let variance = joint.covariance.iter().step_by(n + 1);
        let exponential: Vec<f64> = joint.mean.iter().zip(variance).map(|(m, v)| (m + 0.5 * v).exp()).collect();
        for (row, a) in joint.covariance.chunks_mut(n.max(1)).zip(&exponential) {
            row.iter_mut().zip(&exponential).for_each(|(value, b)| *value = a * b * value.exp_m1());
        }
        Joint { mean: exponential.into_iter().map(|mean| mean - shift).collect(), ..joint }
    }

    /// [`moments`](Self::moments) of an average: of f in the units of the target itself.
    pub(in crate::fitted) fn mixed_moments(&self, x: &Tensor<2>) -> Result<[Tensor<1>; 2]> {
        let [rows, _] = x.dims();
        let zeros = || Tensor::<1>::zeros([rows], (&x.device(), x.dtype()));
        let each = self.heard().map(|Member { weight, fitted, .. }| {
            let [mean, variance] = fitted.moments(x.clone())?;
            let shift = match fitted.target_scale.transform {
                TargetTransform::Identity => return Ok((*weight, mean, variance)),
                TargetTransform::Log => 0.0,
                TargetTransform::Log1p => 1.0,
            };
            let exponential = (mean + variance.clone() * 0.5).exp();
            let variance = exponential.clone().square() * (variance.exp() - 1.0);
            Ok((*weight, exponential - shift, variance))
        });
        let each: Vec<(f64, Tensor<1>, Tensor<1>)> = each.collect::<Result<_>>()?;
        let mean = each.iter().fold(zeros(), |sum, (weight, mean, _)| sum + mean.clone() * *weight);
        let within =
            |(weight, own, variance): (f64, Tensor<1>, Tensor<1>)| (variance + (own - mean.clone()).square()) * weight;
        let variance = each.into_iter().map(within).fold(zeros(), |sum, part| sum + part);
        Ok([mean, variance])
    }
}
