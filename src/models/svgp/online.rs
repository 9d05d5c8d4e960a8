//! More rows for a variational GP without another training of its hyperparameters.

use super::Svgp;
use super::natural::Natural;
use crate::device::Compute;
use crate::error::Result;
use crate::likelihoods::Targets;
use crate::models::Observations;
use crate::models::minibatch::SumOverRows;
use crate::models::variational::Variational;
use crate::scope::Scope;

/// Natural steps for targets that are not Gaussian, and their length. Errors halve with each.
const STEPS: usize = 50;
const RATE: f64 = 0.5;

/// The most that a mean still moves once it has settled, in units of the prior standard deviation.
const SETTLED: f64 = 1e-9;

impl Svgp {
    /// The model given more rows: q(u) so far is the prior of natural steps for these rows alone, so the earlier rows
    /// are not needed (as Bui et al. 2017, *Streaming sparse Gaussian process approximations*, with fixed
    /// hyperparameters). The new rows become inducing inputs themselves, so that nothing they say is lost; q of their
    /// values starts at what q says of them. With Gaussian targets the result is q conditioned on the rows. O(m³) for m
    /// inducing inputs, the new ones included.
    ///
    /// # Errors
    /// [`Usage`](crate::Error::Usage) for diagonal covariances of q, [`Shape`](crate::Error::Shape) for other columns,
    /// [`Data`](crate::Error::Data) for targets that the likelihood does not take; what factorisations report.
    pub fn updated(&self, compute: Compute, more: &Observations) -> Result<Self> {
        self.likelihood.check(Targets { y: &more.y, auxiliary: more.auxiliary.as_deref() }, None)?;
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
}
