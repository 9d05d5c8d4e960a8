//! Newton's method with few actions, where full steps lead astray.

use cagey::kernels::Kernel;
use cagey::likelihoods::{Likelihood, Row, Targets};
use cagey::linalg::Factor;
use cagey::models::cagp::SiteRule;
use cagey::models::posterior::Posterior;
use cagey::models::{Model, Observations, fit};
use cagey::scope::{Scope, to_f64};

use crate::common::F64;
use crate::newton::{Newton, drawn, gradient, learned, per_class, preconditioned};

/// The log density of all targets at the latent values `f(function, row)`.
fn log_density(likelihood: &dyn Likelihood, data: &Observations, f: impl Fn(usize, usize) -> f64) -> f64 {
    let density = likelihood.density();
    let targets = Targets { y: &data.y, auxiliary: data.auxiliary.as_deref() };
    let of = |(i, row): (usize, Row)| {
        let f: Vec<f64> = (0..density.latents()).map(|latent| f(latent, i)).collect();
        density.log_density(row, &f)
    };
    targets.rows(likelihood.auxiliary()).enumerate().map(of).sum()
}

/// Asserts that the log density at a posterior's means is not below that at the prior means, but for rounding.
fn check(what: &str, likelihood: &dyn Likelihood, data: &Observations, posterior: &dyn Posterior) {
    let latent = posterior.marginals(&data.x).unwrap();
    let before = log_density(likelihood, data, |_, _| 0.1);
    let after = log_density(likelihood, data, |function, row| latent[function].mean[row]);
    assert!(after >= before - 1e-9 * before.abs(), "{what}: {before} {after}");
}

/// A smooth prior with a large variance, so that the steps of few actions do not settle.
const KERNEL: &str = "20 * matern32(lengthscale=9)";

#[test]
fn means_keep_what_newtons_method_gained() {
    for policy in [gradient(), per_class(), preconditioned(6)] {
        for text in ["bernoulli(logit)", "poisson(exp)", "softmax(5)"] {
            for (actions, seed) in (1..=8).flat_map(|actions| (0..5).map(move |seed| (actions, seed))) {
                let options = Newton { per_step: 5, policy: policy.clone(), ..Newton::budget(actions) };
                let (mut gp, data) = drawn(text, 80, options, seed);
                gp.priors[0].kernel = Kernel::parse(KERNEL, 2).unwrap();
                let (posterior, report) = gp.posterior(F64, data.clone()).unwrap();
                check(&format!("{text} {policy:?}, seed {seed}, {report}"), &*gp.likelihood, &data, &posterior);
            }
        }
    }
}

/// Averages over the latent distribution replace the sites at the mode only where they raise the bound.
#[test]
fn averaged_sites_do_not_lower_the_bound() {
    let loss = |gp: &dyn Model, data: &Observations| {
        let batch = data.batch(&Scope::new(F64).unwrap());
        fit::evaluate(gp, F64, &batch).unwrap().loss
    };
    for text in ["bernoulli(logit)", "poisson(exp)", "softmax(5)"] {
        for (actions, seed) in (1..=8).flat_map(|actions| (0..5).map(move |seed| (actions, seed))) {
            let options = Newton { per_step: 5, ..Newton::budget(actions) };
            let (mut gp, data) = drawn(text, 80, options, seed);
            gp.priors[0].kernel = Kernel::parse(KERNEL, 2).unwrap();
            let mut learned = learned(&gp, &data, actions);
            let mode = [loss(&gp, &data), loss(&learned, &data)];
            (gp.sites, learned.sites) = (SiteRule::Expectation, SiteRule::Expectation);
            let averaged = [loss(&gp, &data), loss(&learned, &data)];
            for (mode, averaged) in mode.into_iter().zip(averaged) {
                assert!(
                    averaged <= mode + 1e-9 * mode.abs(),
                    "{text}, {actions} actions, seed {seed}: {mode} {averaged}"
                );
            }
        }
    }
}

#[test]
fn means_of_learned_actions_keep_it_too() {
    for text in ["bernoulli(logit)", "poisson(exp)", "softmax(5)"] {
        for (actions, seed) in (1..=8).flat_map(|actions| (0..5).map(move |seed| (actions, seed))) {
            let (other, data) = drawn(text, 80, Newton::budget(1), seed);
            let mut gp = learned(&other, &data, actions);
            gp.priors[0].kernel = Kernel::parse(KERNEL, 2).unwrap();
            let posterior = gp.posterior(F64, data.clone()).unwrap();
            check(&format!("{text}, {actions} actions, seed {seed}"), &*gp.likelihood, &data, &posterior);
        }
    }
}

/// Where the prior variance is large, averages over the latent distribution take many rounds to settle.
#[test]
fn sites_of_posteriors_have_settled() {
    let n = 40;
    for text in ["bernoulli(probit)", "bernoulli(logit)", "poisson(exp)"] {
        let (mut gp, data) = drawn(text, n, crate::newton::whole(n), 3);
        gp.sites = SiteRule::Expectation;
        gp.priors[0].kernel = Kernel::parse("9 * matern32(lengthscale=0.4)", 2).unwrap();
        let latent = gp.posterior(F64, data.clone()).unwrap().0.predict(&data.x).unwrap();
        let scope = Scope::new(F64).unwrap();
        let batch = data.batch(&scope);
        let (sites, _) = gp.averaged_sites(&scope, &batch, latent.mean.clone(), &latent.variance).unwrap();
        // K − K (K + W⁻¹)⁻¹ K and its mean, with the curvature W and the pseudo-targets of the posterior itself.
        let gram = to_f64(gp.priors[0].covariance(&scope, &batch.x).matrix().unwrap()).unwrap();
        let mut noisy = gram.clone();
        noisy.iter_mut().step_by(n + 1).zip(&sites.curvature).for_each(|(own, d)| *own += 1.0 / d);
        let factor = Factor::new(noisy, "K + W⁻¹").unwrap();
        let mut white = gram.clone();
        factor.solve_lower(&mut white).unwrap();
        let above = (0..n).map(|i| sites.f[i] - 0.1 + sites.gradient[i] / sites.curvature[i]);
        let mut weights: Vec<f64> = above.collect();
        factor.solve(&mut weights).unwrap();
        for i in 0..n {
            let explained: f64 = (0..n).map(|row| white[row * n + i].powi(2)).sum();
            let (variance, mean) =
                (gram[i * (n + 1)] - explained, 0.1 + (0..n).map(|j| gram[i * n + j] * weights[j]).sum::<f64>());
            assert!((latent.variance[i] / variance - 1.0).abs() < 1e-4, "{text}, row {i}: {latent:?} {variance}");
            assert!((latent.mean[i] - mean).abs() < 1e-4, "{text}, row {i}: {} {mean}", latent.mean[i]);
        }
    }
}
