//! Where likelihoods and the levels of latent functions start.

use super::Observations;
use super::gp_model::UserUnits;
use crate::error::Result;
use crate::likelihoods::{Likelihood, Targets};
use crate::means::Mean;

/// Starts a likelihood, and constant means at the levels that fit the targets.
pub fn start<'a>(
    likelihood: &mut dyn Likelihood,
    means: impl Iterator<Item = &'a mut Mean>,
    data: &Observations,
    units: &UserUnits,
) {
    likelihood.set_units(units.target_sd);
    let targets = Targets { y: &data.y, extra: data.noise.as_deref() };
    for (mean, level) in means.zip(likelihood.initialise(targets)) {
        if let Mean::Constant(constant) | Mean::Linear { constant, .. } = mean {
            constant.set_internal(&[level]);
        }
    }
}

/// The prior mean for a likelihood: only the latent function of standardised targets has the level 0; those of several classes have no level
/// of their own.
pub fn levelled(mean: Mean, likelihood: &dyn Likelihood, classes: bool, d: usize) -> Result<Mean> {
    let several = likelihood.latents() > 1;
    let level = if several { !classes } else { !likelihood.scaled() };
    match mean {
        Mean::Zero if level => Mean::named("constant", d),
        mean => Ok(mean),
    }
}
