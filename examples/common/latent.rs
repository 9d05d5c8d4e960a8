//! Latent functions: draws from a prior, and the score of a posterior.
#![allow(dead_code)] // each example uses its own part

use cagey::Result;
use cagey::device::Compute;
use cagey::kernels::Kernel;
use cagey::likelihoods::Likelihood;
use cagey::linalg::Factor;
use cagey::models::Observations;
use cagey::models::posterior::Posterior;
use cagey::products;
use cagey::scope::{Scope, to_f64};
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution, StandardNormal};

/// A draw from N(0, K(X, X) + v I), with `v` added to the diagonal, at inputs `[n, d]`.
pub fn sample(kernel: &Kernel, x: &[f64], d: usize, v: f64, rng: &mut Xoshiro256PlusPlus) -> Result<Vec<f64>> {
    let (scope, n) = (Scope::new(Compute::default())?, x.len() / d);
    let mut covariance = to_f64(products::Covariance::new(kernel, &scope, &scope.matrix(x, n, d)).matrix()?)?;
    covariance.iter_mut().step_by(n + 1).for_each(|k| *k += v);
    let lower = Factor::new(covariance, "the covariance of a function to draw")?.lower();
    let z: Vec<f64> = (0..n).map(|_| StandardNormal.sample(rng)).collect();
    Ok(lower.chunks(n).map(|row| row.iter().zip(&z).map(|(l, z)| l * z).sum()).collect())
}

/// The negative log predictive probability of a row.
pub fn nll(posterior: &dyn Posterior, likelihood: &dyn Likelihood, test: &Observations) -> Result<f64> {
    let latent = posterior.predict(&test.x)?;
    let mut total = 0.0;
    for ((mean, variance), y) in latent.mean.iter().zip(&latent.variance).zip(&test.y) {
        total -= likelihood.predict(&[*mean], &[*variance], None)?.log_density(*y);
    }
    Ok(total / test.n() as f64)
}
