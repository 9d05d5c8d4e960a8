//! Learned actions by Newton's method, compared with the Gaussian model, finite differences and reference values.

use cagey::models::cagp::{Cagp, Layout, SiteRule};
use cagey::models::exact::ExactGp;
use cagey::models::gp_model::GpModel;
use cagey::models::laplace::LaplaceGp;
use cagey::models::posterior::Posterior;
use cagey::models::{Model, Observations, fit};
use cagey::params::Parameters;
use cagey::scope::{Scope, scalar};

use crate::common::{F32, F64, assert_close, check_posterior, noise};
use crate::newton::{Newton, drawn, held_gradients, learned, sites_at};

const LIKELIHOODS: [&str; 8] = [
    "gaussian(0.3)",
    "student-t(3.5)",
    "bernoulli(logit)",
    "poisson(exp)",
    "negative-binomial(0.4)",
    "gamma(2.5)",
    "softmax(3)",
    "heteroscedastic",
];

const POINTS: [f64; 6] = [0.3, -0.2, 1.0, 1.0, -2.0, 0.5];

/// A model of drawn rows, with actions that are not at their start values.
fn moved(text: &str, n: usize, i: usize, seed: u64) -> (Cagp, Observations) {
    let (other, data) = drawn(text, n, Newton::budget(1), seed);
    let mut gp = learned(&other, &data, i);
    let mut state = 11;
    let values: Vec<f64> = gp.actions.values.raw().iter().map(|value| value + noise(&mut state)).collect();
    gp.actions.values.set_raw(&values).unwrap();
    (gp, data)
}

fn loss(gp: &impl Model, data: &Observations) -> f64 {
    let scope = Scope::new(F64).unwrap();
    scalar(gp.objective(&scope, &data.batch(&scope)).unwrap()).unwrap()
}

/// The closed form for Gaussian noise is the bound at explicit sites, whatever their latent values.
#[test]
fn gaussian_targets_are_known_sites() {
    let (known, data) = moved("gaussian(0.3)", 24, 7, 0);
    let (mut other, _) = drawn("gaussian(0.3)", 24, Newton::budget(1), 0);
    other.priors = known.priors.clone();
    for data in [data.clone(), data.with_auxiliary(None).unwrap()] {
        let scope = Scope::training(F64).unwrap();
        let batch = data.batch(&scope);
        let (values, i) = (known.actions.values.values(), known.actions.len());
        let Layout::Blocks(offsets) = &known.actions.layout else { panic!("learned actions are blocks") };
        let column = |row: usize| offsets.iter().rposition(|first| *first <= row).unwrap();
        let dense: Vec<f64> = (0..24 * i).map(|e| if column(e / i) == e % i { values[e / i] } else { 0.0 }).collect();
        let sites = sites_at(&other, &data, vec![0.7; 24]);
        let bound = other.objective_at(&scope, &batch, &scope.matrix(&dense, 24, i), Some(&sites)).unwrap();
        let (loss, mut gradient) = scope.gradient(bound, &other).unwrap();
        // Explicit sites are numbers, which do not follow the noise.
        gradient.pop();
        let found = fit::evaluate(&known, F64, &data.batch(&Scope::new(F64).unwrap())).unwrap();
        assert_close("loss", &[found.loss], &[loss], 1e-10);
        assert_close("gradient", &found.gradient[..gradient.len()], &gradient, 1e-10);
    }
}

/// With one action for each row, Gaussian noise gives the results of the exact model.
#[test]
fn noise_of_rows_is_that_of_the_exact_model() {
    let (newton, data) = moved("gaussian(0.3)", 20, 20, 0);
    let mut exact = ExactGp::new(newton.priors[0].kernel.clone());
    exact.prior.mean = newton.priors[0].mean.clone();
    exact.likelihood.noise.set(&[0.3]).unwrap();
    let a = newton.posterior(F64, data.clone()).unwrap().predict_joint(&POINTS).unwrap();
    let b = exact.posterior(F64, data.clone()).unwrap().predict_joint(&POINTS).unwrap();
    assert_close("mean", &a.mean, &b.mean, 1e-9);
    assert_close("covariance", &a.covariance, &b.covariance, 1e-9);
    assert_close("loss", &[loss(&newton, &data)], &[loss(&exact, &data)], 1e-9);
}

#[test]
fn all_actions_are_laplace() {
    for text in ["bernoulli(logit)", "poisson(exp)", "negative-binomial(0.4)", "gamma(2.5)"] {
        let (gp, data) = moved(text, 20, 20, 1);
        let dense = LaplaceGp { priors: gp.priors.clone(), likelihood: gp.likelihood.clone(), corrected: false };
        let a = gp.posterior(F64, data.clone()).unwrap().predict_joint(&POINTS).unwrap();
        let b = dense.posterior(F64, data.clone()).unwrap().predict_joint(&POINTS).unwrap();
        assert_close(&format!("{text} mean"), &a.mean, &b.mean, 1e-7);
        assert_close(&format!("{text} covariance"), &a.covariance, &b.covariance, 1e-7);
    }
}

#[test]
fn gradients_match_finite_differences_of_their_definition() {
    for text in LIKELIHOODS {
        for (sites, unrolled) in
            [(SiteRule::Mode, 0), (SiteRule::Expectation, 0), (SiteRule::Mode, 1), (SiteRule::Mode, 3)]
        {
            let (mut gp, data) = moved(text, 12, 4, 2);
            (gp.sites, gp.unrolled) = (sites, unrolled);
            // The model that holds the actions and sites also chooses them.
            let [gradient, numeric] = held_gradients(&gp, &data);
            assert_close(&format!("{text} {sites:?} {unrolled}"), &gradient, &numeric, 2e-6);
        }
    }
}

/// Held sites ignore how the latent mean changes them: for six actions and counts, the gradient is wrong by a quarter.
/// A Newton step for the equation of the latent mean has its total derivative, with few actions as with all of them.
/// (Three actions for the counts and six for the heteroscedastic likelihood do not settle at any mean.)
#[test]
fn one_step_is_the_total_derivative() {
    let few = [("bernoulli(logit)", 3), ("softmax(3)", 3), ("negative-binomial(0.4)", 3), ("heteroscedastic", 16)];
    let more = ["bernoulli(logit)", "poisson(exp)", "softmax(3)", "negative-binomial(0.4)", "student-t(3.5)"];
    for (text, i) in few.into_iter().chain(more.into_iter().flat_map(|text| [(text, 6), (text, 16)])) {
        let (mut gp, data) = moved(text, 16, i, 1);
        let start = gp.free_raw();
        let total: Vec<f64> = (0..start.len())
            .map(|at| {
                let moved = |step: f64| {
                    let (mut model, mut x) = (gp.clone(), start.clone());
                    x[at] += step;
                    model.set_free_raw(&x).unwrap();
                    loss(&model, &data)
                };
                (moved(1e-4) - moved(-1e-4)) / 2e-4
            })
            .collect();
        let far = |gradient: &[f64]| {
            let norm = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
            norm(&mut gradient.iter().zip(&total).map(|(g, t)| g - t)) / norm(&mut total.iter().copied())
        };
        let batch = data.batch(&Scope::new(F64).unwrap());
        let mut errors = Vec::new();
        for unrolled in [0, 1, 5] {
            gp.unrolled = unrolled;
            errors.push(far(&fit::evaluate(&gp, F64, &batch).unwrap().gradient));
        }
        assert!(errors[1..].iter().all(|error| *error < 1e-6), "{text}, {i} actions: {errors:?}");
    }
}

#[test]
fn expectations_make_bounds_tighter() {
    for text in ["bernoulli(logit)", "poisson(exp)"] {
        let (mut gp, data) = moved(text, 30, 30, 3);
        let mode = loss(&gp, &data);
        gp.sites = SiteRule::Expectation;
        let expectation = loss(&gp, &data);
        assert!(expectation < mode, "{text}: {expectation} {mode}");
    }
}

#[test]
fn saved_posteriors_come_back_and_single_precision_follows() {
    for text in LIKELIHOODS {
        let (gp, data) = moved(text, 30, 8, 6);
        let posterior = gp.condition(F64, data.clone()).unwrap();
        let restored = gp.restore(F64, data.clone(), posterior.saved(false).unwrap()).unwrap();
        let [a, b] = [&posterior, &restored].map(|posterior| posterior.marginals(&POINTS).unwrap());
        assert_eq!(a, b, "{text}");
        let single = gp.condition(F32, data.clone()).unwrap().marginals(&POINTS).unwrap();
        for (single, double) in single.iter().zip(&a) {
            assert_close(&format!("{text} means"), &single.mean, &double.mean, 2e-3);
            assert_close(&format!("{text} variances"), &single.variance, &double.variance, 2e-3);
        }
        if a.len() == 1 {
            check_posterior(text, &*posterior, &POINTS, 2);
        }
        let scope = Scope::new(F32).unwrap();
        let single = scalar(gp.objective(&scope, &data.batch(&scope)).unwrap()).unwrap();
        assert_close(&format!("{text} loss"), &[single], &[loss(&gp, &data)], 1e-3);
    }
}
