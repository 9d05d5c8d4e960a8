//! Random vectors whose second moment is the identity, for stochastic trace estimates.

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution, StandardNormal, StandardUniform};
use serde::{Deserialize, Serialize};

/// Kinds of probe vectors `z` for which the mean of `z zᵀ` is the identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Probes {
    /// Entries ±1: the smallest variance of all independent entries.
    Rademacher,
    /// Standard normal entries.
    Gaussian,
    /// All `n` unit vectors times √n: the exact trace, without randomness.
    Unit,
}

impl Probes {
    /// A row-major block `[n, count]` of probes, which the seed determines; `n` columns for [`Unit`](Self::Unit).
    pub fn block(self, n: usize, count: usize, seed: u64) -> Vec<f64> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        match self {
            Self::Rademacher => (0..n * count)
                .map(|_| if Distribution::<bool>::sample(&StandardUniform, &mut rng) { 1.0 } else { -1.0 })
                .collect(),
            Self::Gaussian => (0..n * count).map(|_| StandardNormal.sample(&mut rng)).collect(),
            Self::Unit => {
                let mut block = vec![0.0; n * n];
                block.iter_mut().step_by(n + 1).for_each(|x| *x = (n as f64).sqrt());
                block
            }
        }
    }
}
