//! How actions are chosen.

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution, StandardNormal};

use super::sites::Sites;
use super::space::Space;

/// How the next action is chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NewtonPolicy {
    /// The gradient of the log posterior, `W r`: the direction of the solution, scaled by what the data say.
    #[default]
    Gradient,
    /// For classes, the gradient of each class as an action of its own. So one product with K, of as many columns as
    /// for the whole gradient, gives as many actions as there are classes, and the gradient is in their span. For other
    /// likelihoods it is the gradient.
    ClassGradients,
    /// `(K̃ + W⁻¹)⁻¹ r`, the solution of the step if K were its approximation K̃ of this rank by columns of K (pivoted
    /// Cholesky). K̃ takes no product with K and serves all steps.
    Preconditioned(usize),
    /// The residual `r = ŷ − m − (K + W⁻¹)v`, the choice of the paper: conjugate gradients on the pseudo-targets.
    Residual,
    /// Unit vectors: the row, and for classes also the class, at which the gradient is largest. This selects a subset
    /// of data.
    UnitVector,
    /// `(K + W⁻¹)` times the last action: Lanczos vectors that start at the gradient.
    Lanczos,
    /// Gaussian random vectors with this seed.
    Random(u64),
}

impl NewtonPolicy {
    /// The rank of the approximation of K that preconditions the actions.
    pub(super) fn rank(self) -> Option<usize> {
        if let Self::Preconditioned(rank) = self { Some(rank) } else { None }
    }

    /// The next action, given the gradient of the log posterior there.
    pub(super) fn action(self, gradient: Vec<f64>, space: &Space, sites: &Sites) -> Vec<f64> {
        let mut s = match self {
            Self::Gradient | Self::ClassGradients | Self::Preconditioned(_) => return gradient,
            Self::Residual => sites.spread(&gradient),
            Self::UnitVector => {
                let larger = |best: usize, i: usize| if gradient[i].abs() > gradient[best].abs() { i } else { best };
                let place = (0..gradient.len()).reduce(larger).unwrap_or(0);
                let mut unit = vec![0.0; gradient.len()];
                unit[place] = 1.0;
                sites.curved(&unit)
            }
            Self::Lanczos => match space.last() {
                None => return gradient,
                Some((s, t)) => t.iter().zip(sites.spread(s)).map(|(t, noise)| t + noise).collect(),
            },
            Self::Random(seed) => {
                let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed.wrapping_add(space.taken as u64));
                gradient.iter().map(|_| StandardNormal.sample(&mut rng)).collect()
            }
        };
        sites.centre(&mut s);
        s
    }
}
