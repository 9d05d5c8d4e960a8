//! Newton's method in the span of actions, compared with reference values, dense definitions, quadrature and other
//! models.

use cagey::Error;
use cagey::kernels::Kernel;
use cagey::likelihoods::{Likelihood, Poisson, RateLink, Targets};
use cagey::means::Mean;
use cagey::models::cagp::{Actions, Cagp, Chosen, IterativeCagp, NewtonOptions, Sites};
use cagey::models::gp_model::GpModel;
use cagey::models::laplace::LaplaceGp;
use cagey::models::posterior::Posterior;
use cagey::models::prior::Prior;
use cagey::models::{Model, Observations, fit};
use cagey::params::Parameters;
use cagey::products;
use cagey::scope::{Scope, scalar, to_f64};
use cagey::solvers::Probes;
use cagey::solvers::itergp::{IterGpOptions, Stop};
use cagey::solvers::policies::{
    Eigenvector, Gradient, Lanczos, LanczosSeed, Mixed, Order, Pivots, Policy, Preconditioned, PseudoInput, Random,
    Residual, UnitVector,
};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::common::{
    F32, F64, assert_close, check_posterior, columns, flat, golden, golden_likelihood, kernel, likelihood, noise,
};

/// How Newton's method goes.
#[derive(Clone)]
pub struct Newton {
    pub policy: Box<dyn Policy>,
    pub actions: usize,
    pub relative: f64,
    pub per_step: usize,
    pub kept: Option<usize>,
    pub settled: f64,
    pub explain: bool,
}

impl Newton {
    /// The usual options for at most so many actions.
    pub fn budget(actions: usize) -> Self {
        let NewtonOptions { per_step, kept, settled, explain, .. } = NewtonOptions::spread(actions);
        Self { policy: Box::new(Gradient::default()), actions, relative: 1e-6, per_step, kept, settled, explain }
    }

    pub fn model(self, prior: Prior, likelihood: Box<dyn Likelihood>) -> IterativeCagp {
        let options = IterGpOptions::budget(self.actions);
        let mut model = IterativeCagp::boxed(prior, likelihood, self.policy.clone(), options);
        self.apply(&mut model);
        model
    }

    pub fn apply(self, gp: &mut IterativeCagp) {
        let Self { policy, actions, relative, per_step, kept, settled, explain } = self;
        gp.policy = policy;
        gp.options = IterGpOptions { relative, ..IterGpOptions::budget(actions) };
        gp.newton = NewtonOptions { per_step, kept, settled, explain, ..NewtonOptions::spread(actions) };
    }
}

/// Options for as many actions as possible, to the last digit.
pub fn whole(n: usize) -> Newton {
    Newton { per_step: 1, relative: 0.0, settled: 1e-9, ..Newton::budget(n) }
}

const LIKELIHOODS: [&str; 12] = [
    "gaussian(0.3)",
    "student-t(3.5)",
    "bernoulli(logit)",
    "bernoulli(probit)",
    "binomial",
    "ordinal(4)",
    "poisson(exp)",
    "poisson(softplus)",
    "negative-binomial(0.4)",
    "gamma(2.5)",
    "exponential",
    "beta(6)",
];

/// A model with rows drawn from its likelihood around a wave.
pub fn drawn(text: &str, n: usize, options: Newton, seed: u64) -> (IterativeCagp, Observations) {
    let likelihood = crate::common::likelihood(text);
    let density = likelihood.density();
    let (mut state, mut rng) = (3 + seed, Xoshiro256PlusPlus::seed_from_u64(5 + seed));
    let x: Vec<f64> = (0..2 * n).map(|_| 4.0 * noise(&mut state)).collect();
    let auxiliary: Vec<f64> = (0..n).map(|i| 1.0 + (i % 3) as f64).collect();
    let wave = |i: usize, l: usize| if l == 0 { x[2 * i].sin() } else { 0.7 * (x[2 * i] + 2.0 * l as f64).sin() };
    let f = |i: usize| (0..density.latents()).map(|l| wave(i, l)).collect::<Vec<_>>();
    let y = (0..n).map(|i| density.sample(&f(i), auxiliary[i], &mut rng)).collect();
    let data = Observations::new(x, 2, y, Some(auxiliary)).unwrap();
    let mut gp = options.model(Kernel::parse("1.4 * matern52(ard)", 2).unwrap().into(), likelihood);
    for prior in &mut gp.priors {
        prior.mean = Mean::named("constant", 2).unwrap();
        prior.mean.parameters_mut().into_iter().for_each(|(_, constant)| constant.set(&[0.1]).unwrap());
    }
    (gp, data)
}

/// Learned actions for the same prior and likelihood.
pub fn learned(gp: &IterativeCagp, data: &Observations, i: usize) -> Cagp {
    let actions = Actions::start(&*gp.likelihood, data, i).unwrap();
    Cagp { priors: gp.priors.clone(), ..Cagp::boxed(gp.priors[0].clone(), gp.likelihood.clone(), actions) }
}

#[test]
fn golden_laplace_with_all_actions() {
    for case in golden("laplace") {
        let name = case["case"].as_str().unwrap();
        let d = columns(&case["X"]);
        let likelihood = golden_likelihood(&case);
        let data = Observations::new(flat(&case["X"]), d, flat(&case["y"]), None).unwrap();
        for per_step in [1, 7, 30] {
            let options = Newton { per_step, ..whole(data.n()) };
            let prior = kernel(&case["kernel"], d).into();
            let mut gp = options.model(prior, likelihood.clone());
            gp.priors[0].mean = Mean::named("constant", d).unwrap();
            gp.find_mut("mean.constant").unwrap()[0].set(&flat(&case["mean"])).unwrap();
            let expected = &case["expected"];
            let (posterior, report) = gp.posterior(F64, data.clone()).unwrap();
            let name = format!("{name}, {report}");
            assert_eq!(report.actions, data.n(), "{name}");
            let mode = posterior.predict(&data.x).unwrap().mean;
            assert_close(&format!("{name} mode"), &mode, &flat(&expected["mode"]), 1e-8);
            let joint = posterior.predict_joint(&flat(&case["Xs"])).unwrap();
            assert_close(&format!("{name} f_mean"), &joint.mean, &flat(&expected["f_mean"]), 1e-8);
            assert_close(&format!("{name} f_cov"), &joint.covariance, &flat(&expected["f_cov"]), 1e-8);
            check_posterior(&name, &posterior, &flat(&case["Xs"]), d);
        }
    }
}

#[test]
fn gaussian_targets_are_the_one_step_case() {
    let (newton, data) = drawn("gaussian(0.3)", 24, whole(9), 0);
    let mut classic = IterativeCagp::cg(newton.priors[0].kernel.clone(), 9);
    classic.priors = newton.priors.clone();
    classic.find_mut("likelihood.noise").unwrap()[0].set(&[0.3]).unwrap();
    classic.options.relative = 0.0;
    // Gradients are residuals if there is one noise for all rows.
    let data = data.with_auxiliary(None).unwrap();
    let points = [0.3, -0.2, 1.0, 1.0, -2.0, 0.5];
    let (a, report) = newton.posterior(F64, data.clone()).unwrap();
    let b = classic.posterior(F64, data.clone()).unwrap().0;
    assert_eq!((report.actions, report.stop), (9, Stop::Budget));
    let (a, b) = (a.predict_joint(&points).unwrap(), b.predict_joint(&points).unwrap());
    assert_close("mean", &a.mean, &b.mean, 1e-10);
    assert_close("covariance", &a.covariance, &b.covariance, 1e-10);

    let scope = Scope::training(F64).unwrap();
    let batch = data.batch(&scope);
    let s = classic.chosen(&scope, &batch).unwrap().actions;
    let sites = sites_at(&newton, &data, vec![0.7; 24]);
    let bound = newton.objective_at(&scope, &batch, &s, Some(&sites)).unwrap();
    let mut a = scope.gradient(bound, &newton).unwrap();
    let scope = Scope::training(F64).unwrap();
    let elbo = classic.objective_at(&scope, &data.batch(&scope), &s, None).unwrap();
    let mut b = scope.gradient(elbo, &classic).unwrap();
    assert_close("loss", &[a.0], &[b.0], 1e-10);
    // Explicit sites are numbers, which do not follow the noise.
    for (_, gradient) in [&mut a, &mut b] {
        gradient.pop();
    }
    assert_close("gradient", &a.1, &b.1, 1e-10);
}

/// Rows by pivoted Cholesky, whose columns precondition.
pub fn preconditioned(rank: usize) -> Box<dyn Policy> {
    Box::new(Preconditioned::new(rows(), rank, Box::new(Residual)))
}

pub fn gradient() -> Box<dyn Policy> {
    Box::new(Gradient::default())
}

pub fn per_class() -> Box<dyn Policy> {
    Box::new(Gradient { per_class: true })
}

fn rows() -> Box<dyn Policy> {
    Box::new(UnitVector { pivots: Pivots::Largest })
}

/// All policies, for rows at `x`.
fn policies(x: &[f64]) -> Vec<Box<dyn Policy>> {
    vec![
        gradient(),
        per_class(),
        preconditioned(5),
        Box::new(Residual),
        rows(),
        Box::new(UnitVector { pivots: Pivots::Gradient }),
        Box::new(Lanczos { seed: LanczosSeed::Targets }),
        Box::new(Random { probes: Probes::Gaussian, seed: 3 }),
        Box::new(Eigenvector),
        Box::new(PseudoInput::new(x, 2).unwrap()),
        Box::new(Mixed::new(vec![rows(), Box::new(Residual)], Order::Switch(vec![4])).unwrap()),
    ]
}

/// With all actions, the result does not depend on which actions they are.
#[test]
fn policies_end_where_there_are_no_more_actions() {
    for text in LIKELIHOODS.into_iter().chain(["softmax(2)", "softmax(3)", "heteroscedastic"]) {
        let (latents, centred) = (likelihood(text).latents(), likelihood(text).density().is_centred());
        let most = 14 * (latents - usize::from(centred));
        let (mut gp, data) = drawn(text, 14, whole(most), 1);
        let dense = LaplaceGp { priors: gp.priors.clone(), likelihood: gp.likelihood.clone(), corrected: false };
        let dense = dense.posterior(F64, data.clone()).unwrap().marginals(&data.x).unwrap();
        for policy in policies(&data.x) {
            // Mean and noise do not mix in Fisher's information: a chain from the targets stays with the mean.
            if text == "heteroscedastic" && policy.name() == "lanczos" {
                continue;
            }
            gp.policy = policy;
            let (posterior, report) = gp.posterior(F64, data.clone()).unwrap();
            for (got, want) in posterior.marginals(&data.x).unwrap().iter().zip(&dense) {
                let name = format!("{text} {:?}, {report}", gp.policy);
                // Fisher's information in place of the curvature converges linearly.
                let tolerance = if text == "heteroscedastic" { 1e-4 } else { 1e-5 };
                assert_close(&format!("{name} mean"), &got.mean, &want.mean, tolerance);
                assert_close(&format!("{name} variance"), &got.variance, &want.variance, 10.0 * tolerance);
            }
        }
    }
}

#[test]
fn known_noise_is_that_of_the_exact_model() {
    let (newton, data) = drawn("gaussian(0.3)", 20, whole(20), 0);
    let mut exact = cagey::models::exact::ExactGp::new(newton.priors[0].kernel.clone());
    exact.prior.mean = newton.priors[0].mean.clone();
    exact.likelihood.noise.set(&[0.3]).unwrap();
    let points = [0.3, -0.2, 1.0, 1.0, -2.0, 0.5];
    let a = newton.posterior(F64, data.clone()).unwrap().0.predict_joint(&points).unwrap();
    let b = exact.posterior(F64, data).unwrap().predict_joint(&points).unwrap();
    assert_close("mean", &a.mean, &b.mean, 1e-10);
    assert_close("covariance", &a.covariance, &b.covariance, 1e-10);
}

/// Dense K and the curvature-conditioned variances of f at the training rows: `diag(K − K (K + W⁻¹)⁻¹K)`.
fn dense_variances(gp: &IterativeCagp, data: &Observations, sites: &Sites) -> Vec<f64> {
    let (scope, n) = (Scope::new(F64).unwrap(), data.n());
    let k = to_f64(gp.priors[0].covariance(&scope, &data.batch(&scope).x).matrix().unwrap()).unwrap();
    let mut system = k.clone();
    system.iter_mut().step_by(n + 1).zip(&sites.curvature).for_each(|(k, d)| *k += 1.0 / d);
    let factor = cagey::linalg::Factor::new(system, "K + W⁻¹").unwrap();
    let mut white = k.clone();
    factor.solve_lower(&mut white).unwrap();
    (0..n).map(|j| k[j * n + j] - (0..n).map(|i| white[i * n + j].powi(2)).sum::<f64>()).collect()
}

#[test]
fn variances_are_never_below_those_of_the_dense_solve() {
    for text in LIKELIHOODS {
        for seed in 0..75 {
            let actions = 1 + seed as usize % 7;
            let options = Newton { kept: (seed % 3 == 2).then_some(3), ..whole(actions) };
            let (gp, data) = drawn(text, 9, options, seed);
            let (posterior, report) = gp.posterior(F64, data.clone()).unwrap();
            let variances = posterior.predict(&data.x).unwrap().variance;
            let (_, sites) = held(&gp, &data);
            for (got, dense) in variances.iter().zip(dense_variances(&gp, &data, &sites)) {
                assert!(*got > dense * (1.0 - 1e-9) - 1e-12, "{text} {seed}, {report}: {got} {dense}");
            }
        }
    }
}

/// The sites at latent values `[L, n]`.
pub fn sites_at(gp: &IterativeCagp, data: &Observations, f: Vec<f64>) -> Sites {
    let targets = Targets { y: &data.y, auxiliary: data.auxiliary.as_deref() };
    let rows: Vec<_> = targets.rows(gp.likelihood.auxiliary()).collect();
    Sites::at(&*gp.likelihood.density(), &rows, f)
}

/// The actions `[L n, i]` and sites that a training holds. Targets with Gaussian noise are sites at any latent value.
pub fn held(gp: &IterativeCagp, data: &Observations) -> (Vec<f64>, Sites) {
    let scope = Scope::new(F64).unwrap();
    let batch = data.batch(&scope);
    let Chosen { actions, sites } = gp.chosen(&scope, &batch).unwrap();
    assert_eq!(actions.dims()[0], gp.likelihood.latents() * data.n());
    let known = || sites_at(gp, data, vec![0.1; data.n()]);
    (to_f64(actions).unwrap(), sites.unwrap_or_else(known))
}

/// Products kept from step to step equal those computed again.
#[test]
fn recycled_solves_are_those_from_scratch() {
    for text in LIKELIHOODS {
        let (gp, data) = drawn(text, 16, whole(6), 1);
        let scope = Scope::new(F64).unwrap();
        let (n, batch) = (data.n(), data.batch(&scope));
        let (s, sites) = held(&gp, &data);
        let at = sites_at(&gp, &data, sites.f.clone());
        assert_eq!(at, sites, "{text}: sites are those of the latent values");
        let k = to_f64(gp.priors[0].covariance(&scope, &batch.x).matrix().unwrap()).unwrap();
        let i = s.len() / n;
        let ks: Vec<f64> = (0..n * i).map(|e| (0..n).map(|l| k[e / i * n + l] * s[l * i + e % i]).sum()).collect();
        let entry = |a: usize, b: usize| {
            (0..n).map(|l| s[l * i + a] * (ks[l * i + b] + s[l * i + b] / sites.curvature[l])).sum::<f64>()
        };
        let factor = cagey::linalg::Factor::new((0..i * i).map(|e| entry(e / i, e % i)).collect(), "M").unwrap();
        let target = |l: usize| sites.f[l] - 0.1 + sites.gradient[l] / sites.curvature[l];
        let mut a: Vec<f64> = (0..i).map(|c| (0..n).map(|l| s[l * i + c] * target(l)).sum()).collect();
        factor.solve(&mut a).unwrap();
        let mut white: Vec<f64> = (0..n * i).map(|e| ks[e % n * i + e / n]).collect();
        factor.solve_lower(&mut white).unwrap();
        let mean: Vec<f64> = (0..n).map(|l| 0.1 + (0..i).map(|c| ks[l * i + c] * a[c]).sum::<f64>()).collect();
        let variance: Vec<f64> = (0..n).map(|l| 1.4 - (0..i).map(|c| white[c * n + l].powi(2)).sum::<f64>()).collect();
        let (posterior, report) = gp.posterior(F64, data.clone()).unwrap();
        let got = posterior.predict(&data.x).unwrap();
        assert_close(&format!("{text} mean"), &got.mean, &mean, 1e-9);
        assert_close(&format!("{text} variance"), &got.variance, &variance, 1e-9);
        let steps = if gp.likelihood.noise().is_some() { 1 } else { report.actions };
        assert!(report.products <= report.actions + 1 && report.steps >= steps, "{text}: {report:?}");
    }
}

/// The gradient of the bound with the actions and sites that a training holds, and its central differences.
pub fn held_gradients(gp: &(impl Model + Clone), data: &Observations) -> [Vec<f64>; 2] {
    const STEP: f64 = 1e-5;
    let plain = Scope::new(F64).unwrap();
    let chosen = gp.choose(&plain, &data.batch(&plain)).unwrap();
    let loss = |gp: &dyn Model, scope: &Scope| match &chosen {
        Some(chosen) => gp.objective_for(scope, &data.batch(scope), chosen).unwrap(),
        None => gp.objective(scope, &data.batch(scope)).unwrap(),
    };
    let scope = Scope::training(F64).unwrap();
    let gradient = scope.gradient(loss(gp, &scope), gp).unwrap().1;
    let start = gp.free_raw();
    let difference = |at: usize| {
        let moved = |step: f64| {
            let (mut model, mut x) = (gp.clone(), start.clone());
            x[at] += step;
            model.set_free_raw(&x).unwrap();
            scalar(loss(&model, &plain)).unwrap()
        };
        (moved(STEP) - moved(-STEP)) / (2.0 * STEP)
    };
    [gradient, (0..start.len()).map(difference).collect()]
}

#[test]
fn gradients_of_held_bounds_match_finite_differences() {
    for text in LIKELIHOODS {
        let (gp, data) = drawn(text, 14, whole(5), 2);
        let [gradient, numeric] = held_gradients(&gp, &data);
        assert_close(text, &gradient, &numeric, 1e-6);
    }
}

/// `ln ∫ p(y | f) N(f; m, K) df` for three rows, by the trapezoidal rule in whitened coordinates.
fn log_evidence(gp: &IterativeCagp, data: &Observations) -> f64 {
    let scope = Scope::new(F64).unwrap();
    let batch = data.batch(&scope);
    let k = to_f64(gp.priors[0].covariance(&scope, &batch.x).matrix().unwrap()).unwrap();
    let lower = cagey::linalg::Factor::new(k, "K").unwrap().lower();
    let mean = to_f64(gp.priors[0].mean.at(&scope, &batch.x).unwrap()).unwrap();
    let density = gp.likelihood.density();
    let targets = Targets { y: &data.y, auxiliary: data.auxiliary.as_deref() };
    let rows: Vec<_> = targets.rows(gp.likelihood.auxiliary()).collect();
    let (step, half) = (0.3, 27);
    let mut logs = Vec::new();
    for a in -half..=half {
        for b in -half..=half {
            for c in -half..=half {
                let z = [a, b, c].map(|k| step * f64::from(k));
                let f = |i: usize| mean[i] + (0..=i).map(|j| lower[3 * i + j] * z[j]).sum::<f64>();
                let prior: f64 = z.iter().map(|z| -0.5 * (z * z + (2.0 * std::f64::consts::PI).ln())).sum();
                let data: f64 = rows.iter().enumerate().map(|(i, row)| density.log_density(*row, &[f(i)])).sum();
                logs.push(prior + data + 3.0 * f64::ln(step));
            }
        }
    }
    let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    top + logs.iter().map(|log| (log - top).exp()).sum::<f64>().ln()
}

#[test]
fn bounds_are_bounds_for_any_actions_and_sites() {
    for text in LIKELIHOODS {
        let (gp, data) = drawn(text, 3, whole(3), 4);
        let evidence = log_evidence(&gp, &data);
        let scope = Scope::new(F64).unwrap();
        let batch = data.batch(&scope);
        let loss = |s: &[f64], i: usize, sites: &Sites| {
            scalar(gp.objective_at(&scope, &batch, &scope.matrix(s, 3, i), Some(sites)).unwrap()).unwrap()
        };
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(9);
        // Expectations by 20 nodes: for Student's density they have two digits.
        let slack = if text.starts_with("student") { 2e-2 } else { 1e-5 };
        for _ in 0..200 {
            let i = rng.random_range(1..=3);
            let mut draw = |scale: f64| scale * (rng.random::<f64>() - 0.5);
            let s: Vec<f64> = (0..3 * i).map(|_| draw(2.0)).collect();
            let sites = Sites {
                f: (0..3).map(|_| draw(3.0)).collect(),
                gradient: (0..3).map(|_| draw(3.0)).collect(),
                curvature: (0..3).map(|_| draw(3.0).exp()).collect(),
                rows: 3,
                centred: false,
            };
            let bound = loss(&s, i, &sites);
            assert!(bound > -evidence - slack, "{text}: {bound} is below {}", -evidence);
            // Only the span of the actions matters.
            let v: Vec<f64> = (0..i * i).map(|e| draw(1.0) + if e % (i + 1) == 0 { 1.5 } else { 0.0 }).collect();
            let turned: Vec<f64> =
                (0..3 * i).map(|e| (0..i).map(|k| s[e / i * i + k] * v[k * i + e % i]).sum()).collect();
            let again = loss(&turned, i, &sites);
            assert!((again - bound).abs() < 1e-7 * bound.abs().max(1.0), "{text}: {bound} {again}");
        }
        // With all actions and sites at the mode the bound is near the evidence.
        let found = scalar(gp.objective(&scope, &batch).unwrap()).unwrap();
        assert!(found + evidence < 0.3, "{text}: {found} {evidence}");
    }
}

/// For classes, no log density is above 0 and no divergence below 0, even if sites saturate far on either side.
#[test]
fn bounds_of_classes_are_not_above_what_a_density_can_be() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(17);
    for text in ["bernoulli(logit)", "bernoulli(probit)", "ordinal(4)", "binomial"] {
        let mut told = 0;
        for (variance, reach) in [(1.0, 30.0), (400.0, 30.0), (1e6, 100.0)] {
            for seed in 0..10 {
                let (mut gp, data) = drawn(text, 12, whole(1), seed);
                gp.priors[0].kernel = Kernel::parse(&format!("{variance} * rbf(3.0)"), 2).unwrap();
                let scope = Scope::new(F64).unwrap();
                let batch = data.batch(&scope);
                let mut draw = |scale: f64| scale * (2.0 * rng.random::<f64>() - 1.0);
                let sites = sites_at(&gp, &data, (0..12).map(|_| draw(reach)).collect());
                let s: Vec<f64> = (0..12 * 5).map(|e| draw(1.0) * sites.curvature[e / 5].sqrt()).collect();
                match gp.objective_at(&scope, &batch, &scope.matrix(&s, 12, 5), Some(&sites)).and_then(scalar) {
                    Ok(loss) => {
                        assert!(loss >= -12e-5, "{text}, variance {variance}, {seed}: {loss}");
                        told += 1;
                    }
                    Err(problem) => assert!(matches!(problem, Error::NotFinite(_)), "{text}: {problem}"),
                }
            }
        }
        assert!(told > 5, "{text}: {told} bounds of 30");
    }
}

#[test]
fn as_many_directions_as_actions_are_no_compression() {
    let (gp, data) = drawn("poisson(exp)", 30, whole(12), 3);
    let mut kept = gp.clone();
    kept.newton.kept = Some(12);
    let predict = |gp: &IterativeCagp| gp.posterior(F64, data.clone()).unwrap().0.predict(&data.x).unwrap();
    assert_eq!(predict(&gp), predict(&kept));
    let mut few = gp.clone();
    Newton { kept: Some(4), ..whole(30) }.apply(&mut few);
    let (posterior, report) = few.posterior(F64, data.clone()).unwrap();
    assert!(posterior.actions() <= 5 && report.actions == 30, "{report}");
    let dense = LaplaceGp { priors: few.priors.clone(), likelihood: few.likelihood.clone(), corrected: false };
    let (few, all) = (posterior.predict(&data.x).unwrap(), dense.posterior(F64, data.clone()).unwrap());
    let all = all.predict(&data.x).unwrap();
    let far = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(far(&few.mean, &all.mean) < 0.05, "{:?} {:?}", few.mean, all.mean);
    assert!(few.variance.iter().zip(&all.variance).all(|(few, all)| *few > 0.99 * all));
}

/// The paper's first experiment: counts around a draw of a process with ℓ = 0.1 and variance 5.
fn counts(seed: u64) -> (Kernel, Observations, Observations) {
    let kernel = Kernel::parse("rbf(lengthscale=0.1, variance=5.0)", 1).unwrap();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let x: Vec<f64> = (0..200).map(|_| rng.random::<f64>()).collect();
    let scope = Scope::new(F64).unwrap();
    let mut k =
        to_f64(products::Covariance::new(&kernel, &scope, &scope.matrix(&x, 200, 1)).matrix().unwrap()).unwrap();
    k.iter_mut().step_by(201).for_each(|k| *k += 1e-8);
    let lower = cagey::linalg::Factor::new(k, "K").unwrap().lower();
    let mut normal = || -> f64 { (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0 };
    let z: Vec<f64> = (0..200).map(|_| normal()).collect();
    let density = Poisson { link: RateLink::Exp }.density();
    let y: Vec<f64> =
        (0..200).map(|i| density.sample(&[(0..=i).map(|j| lower[200 * i + j] * z[j]).sum()], 1.0, &mut rng)).collect();
    let part = |from: usize| Observations::new(x[from..from + 100].to_vec(), 1, y[from..from + 100].to_vec(), None);
    (kernel, part(0).unwrap(), part(100).unwrap())
}

fn test_nll(posterior: &dyn Posterior, likelihood: &dyn Likelihood, test: &Observations) -> f64 {
    let latent = posterior.predict(&test.x).unwrap();
    let rows = latent.mean.iter().zip(&latent.variance).zip(&test.y);
    -rows.map(|((m, v), y)| likelihood.predict(&[*m], &[*v], None).unwrap().log_density(*y)).sum::<f64>() / 100.0
}

#[test]
fn one_action_a_step_is_dense_after_twenty() {
    let poisson = Poisson { link: RateLink::Exp };
    let mut excess = Vec::new();
    for seed in 0..5 {
        let (kernel, train, test) = counts(seed);
        let dense = LaplaceGp::new(kernel.clone(), poisson.clone()).posterior(F64, train.clone()).unwrap();
        let dense = test_nll(&dense, &poisson, &test);
        for (steps, per_step, budget) in [(20, 1, 20), (10, 10, 100), (5, 20, 100), (100, 1, 100)] {
            let mut gp = IterativeCagp::newton(kernel.clone(), poisson.clone(), budget);
            gp.newton.per_step = per_step;
            let (posterior, report) = gp.posterior(F64, train.clone()).unwrap();
            let nll = test_nll(&posterior, &poisson, &test);
            assert!(nll.is_finite(), "{seed}, {steps} × {per_step}: {report}");
            match budget {
                20 => excess.push(nll - dense),
                _ => assert!((nll - dense).abs() < 1e-3, "{seed}, {steps} × {per_step}: {nll} {dense}, {report}"),
            }
        }
    }
    excess.sort_by(f64::total_cmp);
    assert!(excess[2] < 1e-3, "{excess:?}");
}

#[test]
fn extremes_are_finite_and_errors_have_names() {
    let x: Vec<f64> = (0..20).map(|i| 0.3 * f64::from(i)).collect();
    let half: Vec<f64> = (0..20).map(|i| f64::from(u8::from(i >= 10))).collect();
    let check = |what: &str, text: &str, kernel: &str, x: &[f64], y: &[f64]| {
        let data = Observations::new(x.to_vec(), 1, y.to_vec(), None).unwrap();
        let prior = Kernel::parse(kernel, 1).unwrap().into();
        let gp = Newton::budget(y.len().min(8)).model(prior, likelihood(text));
        let found = fit::evaluate(&gp, F64, &data.batch(&Scope::new(F64).unwrap()));
        // A rate of a million by a softplus is 50,000 standard deviations away: f64 may not resolve its pseudo-target.
        if what == "a million" && matches!(&found, Err(Error::NotFinite(what)) if what.contains("pseudo-targets")) {
            return;
        }
        let found = found.unwrap_or_else(|error| panic!("{what} {text} {kernel}: {error}"));
        assert!(found.loss.is_finite() && found.gradient.iter().all(|g| g.is_finite()), "{what} {text}: {found:?}");
        let (posterior, report) = gp.posterior(F64, data).unwrap();
        let latent = posterior.predict(&[x, &[77.0]].concat()).unwrap();
        assert!(latent.mean.iter().all(|m| m.is_finite()), "{what} {text}, {report}: {latent:?}");
        assert!(latent.variance.iter().all(|v| *v > 0.0), "{what} {text}, {report}: {latent:?}");
    };
    for kernel in ["rbf", "400 * rbf(3.0)"] {
        for text in ["bernoulli", "bernoulli(probit)", "ordinal(2)"] {
            check("saturated classes", text, kernel, &x, &half);
            check("one class", text, kernel, &x, &[1.0; 20]);
        }
        for text in ["poisson", "poisson(softplus)", "negative-binomial(0.4)"] {
            check("no counts", text, kernel, &x, &[0.0; 20]);
            let mut many = vec![3.0; 20];
            many[4] = 1e6;
            check("a million", text, kernel, &x, &many);
        }
        for text in LIKELIHOODS {
            // 1 is a valid target of every likelihood except the beta; for counts it is the prior mean.
            let y = if text.starts_with("beta") { 0.5 } else { 1.0 };
            check("one row", text, kernel, &[0.4], &[y]);
            check("one place", text, kernel, &[0.4; 12], &[y; 12]);
        }
    }
}

#[test]
fn saved_posteriors_come_back_and_single_precision_follows() {
    let (gp, data) = drawn("bernoulli(logit)", 30, Newton::budget(12), 6);
    let points = [0.3, -0.2, 1.0, 1.0, -2.0, 0.5];
    let posterior = gp.condition(F64, data.clone()).unwrap();
    let restored = gp.restore(F64, data.clone(), posterior.saved(false).unwrap()).unwrap();
    assert_eq!(restored.predict(&points).unwrap(), posterior.predict(&points).unwrap());
    assert_eq!(restored.solve(), posterior.solve());
    let single = gp.condition(F32, data.clone()).unwrap().predict(&points).unwrap();
    let double = posterior.predict(&points).unwrap();
    assert_close("means", &single.mean, &double.mean, 1e-3);
    assert_close("variances", &single.variance, &double.variance, 1e-3);
    let loss = |compute| {
        let scope = Scope::new(compute).unwrap();
        scalar(gp.objective(&scope, &data.batch(&scope)).unwrap()).unwrap()
    };
    assert_close("loss", &[loss(F32)], &[loss(F64)], 1e-4);
}

#[test]
fn more_counts_have_sites_at_the_mode_given_the_earlier_ones() {
    let poisson = Poisson { link: RateLink::Exp };
    let x: Vec<f64> = (0..30).map(|i| 0.2 * f64::from(i)).collect();
    let count = |x: &f64| (1.0 + x.sin()).exp().floor();
    let first = Observations::new(x.clone(), 1, x.iter().map(count).collect(), None).unwrap();
    let new = vec![2.05, 6.4, 7.1];
    let more = Observations::new(new.clone(), 1, vec![9.0, 0.0, 3.0], None).unwrap();
    let gp = IterativeCagp::newton(Kernel::parse("rbf(0.9)", 1).unwrap(), poisson.clone(), 12);
    let before = gp.posterior(F64, first).unwrap().0;
    let after = before.updated(&more).unwrap().unwrap();
    // The mode f of p(y | f) N(f; m, C) has f = m + C g, and the covariance is (C⁻¹ + W)⁻¹ there: (I + C W) Σ = C.
    let (prior, found) = (before.predict_joint(&new).unwrap(), after.predict_joint(&new).unwrap());
    let density = poisson.density();
    let (mut gradient, mut curvature) = (Vec::new(), Vec::new());
    for (f, y) in found.mean.iter().zip(&more.y) {
        let (mut g, mut h) = ([0.0], [0.0]);
        density.derivatives(cagey::likelihoods::Row { y: *y, auxiliary: 1.0 }, &[*f], &mut g, &mut h);
        gradient.push(g[0]);
        curvature.push(-h[0]);
    }
    for i in 0..3 {
        let row = &prior.covariance[3 * i..3 * i + 3];
        let climb: f64 = row.iter().zip(&gradient).map(|(c, g)| c * g).sum();
        assert!((found.mean[i] - prior.mean[i] - climb).abs() < 1e-6, "{found:?} {prior:?}");
        for j in 0..3 {
            let spread: f64 = (0..3).map(|k| row[k] * curvature[k] * found.covariance[3 * k + j]).sum();
            assert!((found.covariance[3 * i + j] + spread - row[j]).abs() < 1e-6, "{found:?} {prior:?}");
        }
    }
    assert!(before.updated(&Observations::new(vec![1.0], 1, vec![-1.0], None).unwrap()).is_err());
}
