//! Initial values of likelihoods and of the means of latent functions.

use crate::error::Result;
use crate::likelihoods::Likelihood;
use crate::means::Mean;
use crate::models::Observations;
use crate::models::gp_model::UserUnits;
use crate::models::prior::{Prior, alike};
use crate::params::{self, keeping_internal};

/// Sets the initial values of a likelihood, and sets constant means to the levels that fit the targets.
pub fn start<'a>(
    likelihood: &mut dyn Likelihood,
    means: impl Iterator<Item = &'a mut Mean>,
    data: &Observations,
    units: &UserUnits,
) {
    likelihood.set_units(units.target_sd);
    for (mean, level) in means.zip(likelihood.initialise(data.targets())) {
        if let Mean::Constant(constant) | Mean::Linear { constant, .. } = mean {
            constant.put_internal(&[level]);
        }
    }
}

/// Gives the priors of latent functions their units, and sets the initial values of them and of the likelihood.
pub fn start_all<'a>(
    likelihood: &mut dyn Likelihood,
    priors: impl Iterator<Item = &'a mut Prior>,
    data: &Observations,
    units: &UserUnits,
) {
    let mut means = Vec::new();
    for (latent, Prior { kernel, mean }) in priors.enumerate() {
        // Functions other than the first, such as the logarithm of a noise, have no units.
        let (level, sd) = if latent == 0 { (units.target_mean, units.target_sd) } else { (0.0, 1.0) };
        keeping_internal(kernel, |kernel| kernel.set_units(&units.input_sd, sd));
        mean.set_units(&units.input_sd, level, sd);
        means.push(mean);
    }
    start(likelihood, means.into_iter(), data, units);
}

/// The prior of kernel variances under likelihoods of classes, for approximations that would make them very large if
/// classes can be separated: exponential with mean 10. It allows the size that probabilities near 0 and 1 need, and
/// variances near 0 where inputs say nothing.
pub fn variance_of_classes(likelihood: &dyn Likelihood) -> Option<params::Prior> {
    alike(likelihood).then_some(params::Prior::Gamma(1.0, 0.1))
}

/// The prior mean with this name for a likelihood and `d` input columns. The name `auto` stands for a zero mean for the
/// latent function of standardised targets and for those of several classes, which have no level of their own; for
/// others it stands for a constant.
///
/// # Errors
/// As [`Mean::named`].
pub fn mean_for(name: &str, likelihood: &dyn Likelihood, d: usize) -> Result<Mean> {
    let level = if likelihood.latents() > 1 { !alike(likelihood) } else { !likelihood.scaled() };
    match name {
        Mean::AUTO => Mean::named(if level { "constant" } else { "zero" }, d),
        name => Mean::named(name, d),
    }
}
