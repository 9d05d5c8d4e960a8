//! Laplace's approximation compared with reference values, its own definition, finite differences and other models.

use cagey::kernels::Kernel;
use cagey::likelihoods::registry::Likelihoods;
use cagey::likelihoods::{Auxiliary, Row, Softmax, Targets};
use cagey::means::Mean;
use cagey::models::exact::ExactGp;
use cagey::models::laplace::{LaplaceGp, LaplacePosterior};
use cagey::models::posterior::Posterior;
use cagey::models::{Model, Observations, fit};
use cagey::params::Parameters;
use cagey::products;
use cagey::scope::{Scope, scalar, to_f64};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use serde_json::Value;

use crate::common::{
    F32, F64, assert_close, check_posterior, columns, flat, golden, golden_likelihood, gradients, kernel,
    kernel_gradient, likelihood, noise,
};

/// Checks value and gradient of the evidence in a golden file.
fn check_evidence(name: &str, gp: &LaplaceGp, data: &Observations, expected: &Value, rest: &[f64]) {
    for (compute, tolerance) in [(F64, 1e-8), (F32, 2e-4)] {
        let scope = Scope::training(compute).unwrap();
        let loss = gp.objective(&scope, &data.batch(&scope)).unwrap();
        let value = scalar(loss.clone()).unwrap();
        assert_close(name, &[-value], &flat(&expected["log_marginal_likelihood"]), tolerance);
        let (_, raw) = scope.gradient(loss, gp).unwrap();
        let want =
            [kernel_gradient(&gp.priors[0].kernel, &expected["grad"]["kernel"]).concat(), rest.to_vec()].concat();
        let slopes: Vec<f64> = gp.parameters().iter().flat_map(|(_, p)| p.internal_slope()).collect();
        let got: Vec<f64> = raw.iter().zip(slopes).map(|(g, s)| -g / s).collect();
        assert_close(&format!("{name} gradient"), &got, &want, tolerance);
    }
}

/// The curvature `d` at the mode `[L, n]`.
fn curvature(gp: &LaplaceGp, data: &Observations, posterior: &LaplacePosterior) -> Vec<f64> {
    let (n, latents) = (data.n(), gp.likelihood.latents());
    let mut all = vec![0.0; latents * n];
    let targets = Targets { y: &data.y, auxiliary: data.auxiliary.as_deref() };
    for (i, row) in targets.rows(gp.likelihood.auxiliary()).enumerate() {
        let f: Vec<f64> = posterior.mode().iter().skip(i).step_by(n).copied().collect();
        let mut d = vec![0.0; latents];
        gp.likelihood.density().curvature(row, &f, &mut d);
        d.into_iter().enumerate().for_each(|(l, d)| all[l * n + i] = d);
    }
    all
}

#[test]
fn golden_one_latent_function() {
    for case in golden("laplace") {
        let name = case["case"].as_str().unwrap();
        let d = columns(&case["X"]);
        let likelihood = golden_likelihood(&case);
        let mut gp = LaplaceGp::boxed(kernel(&case["kernel"], d).into(), likelihood);
        gp.priors[0].mean = Mean::named("constant", d).unwrap();
        gp.find_mut("mean.constant").unwrap()[0].set(&flat(&case["mean"])).unwrap();
        let data = Observations::new(flat(&case["X"]), d, flat(&case["y"]), None).unwrap();
        let expected = &case["expected"];
        check_evidence(name, &gp, &data, expected, &flat(&expected["grad"]["mean"]));

        let posterior = gp.posterior(F64, data.clone()).unwrap();
        assert_close(&format!("{name} mode"), posterior.mode(), &flat(&expected["mode"]), 1e-8);
        assert_close(&format!("{name} weights"), posterior.weights(), &flat(&expected["grad_log_lik"]), 1e-8);
        assert_close(&format!("{name} W"), &curvature(&gp, &data, &posterior), &flat(&expected["W"]), 1e-8);
        let points = flat(&case["Xs"]);
        let joint = posterior.predict_joint(&points).unwrap();
        assert_close(&format!("{name} f_mean"), &joint.mean, &flat(&expected["f_mean"]), 1e-8);
        assert_close(&format!("{name} f_cov"), &joint.covariance, &flat(&expected["f_cov"]), 1e-8);
        check_posterior(name, &posterior, &points, d);
        if let Some(p) = expected.get("prob_y1") {
            let latent = posterior.predict(&points).unwrap();
            let one = |(m, v): (&f64, &f64)| gp.likelihood.predict(&[*m], &[*v], None).unwrap().mean();
            let got: Vec<f64> = latent.mean.iter().zip(&latent.variance).map(one).collect();
            assert_close(&format!("{name} prob_y1"), &got, &flat(p), 1e-8);
        }
    }
}

#[test]
fn golden_softmax() {
    for case in golden("laplace_softmax") {
        let name = case["case"].as_str().unwrap();
        let (d, classes) = (columns(&case["X"]), case["num_classes"].as_u64().unwrap() as usize);
        let mut gp = LaplaceGp::new(kernel(&case["kernel"], d), Softmax::new(classes));
        gp.priors[0].mean = Mean::Zero;
        let data = Observations::new(flat(&case["X"]), d, flat(&case["labels"]), None).unwrap();
        let expected = &case["expected"];
        check_evidence(name, &gp, &data, expected, &[]);

        let posterior = gp.posterior(F64, data.clone()).unwrap();
        assert_close(&format!("{name} mode"), posterior.mode(), &flat(&expected["mode"]), 1e-8);
        let p = curvature(&gp, &data, &posterior);
        assert_close(&format!("{name} probabilities at the mode"), &p, &flat(&expected["probs_at_mode"]), 1e-8);
        let points = flat(&case["Xs"]);
        let marginals = posterior.marginals(&points).unwrap();
        let means: Vec<f64> = marginals.iter().flat_map(|latent| latent.mean.clone()).collect();
        assert_close(&format!("{name} f_mean"), &means, &flat(&expected["f_mean"]), 1e-8);
        let joint = posterior.correlated(&points).unwrap().unwrap();
        assert_close(&format!("{name} f_cov"), &joint.covariance, &flat(&expected["f_cov"]), 1e-8);
        let blocks = joint.mean.chunks(classes).zip(joint.covariance.chunks(classes * classes));
        let p: Vec<f64> = blocks
            .flat_map(|(m, c)| gp.likelihood.predict_joint(m, c, None).unwrap().probabilities().unwrap())
            .collect();
        assert_close(&format!("{name} probs"), &p, &flat(&expected["probs"]), 1e-8);
        for (latent, marginals) in marginals.iter().enumerate() {
            let own = joint.covariance.iter().skip(latent * (classes + 1)).step_by(classes * classes);
            assert_close(&format!("{name} variances"), &marginals.variance, &own.copied().collect::<Vec<_>>(), 1e-12);
        }
        assert!(posterior.predict(&points).is_err() && posterior.predict_joint(&points).is_err(), "{name}");
    }
}

/// Rows drawn from a likelihood around a wave.
fn drawn(text: &str, n: usize, d: usize) -> (LaplaceGp, Observations) {
    let likelihood = crate::common::likelihood(text);
    let (density, latents) = (likelihood.density(), likelihood.latents());
    let (mut state, mut rng) = (3, Xoshiro256PlusPlus::seed_from_u64(5));
    let x: Vec<f64> = (0..n * d).map(|_| 4.0 * noise(&mut state)).collect();
    let auxiliary: Vec<f64> = (0..n).map(|i| 1.0 + (i % 3) as f64).collect();
    let wave = |i: usize, l: usize| (x[i * d] + 2.0 * l as f64).sin() + 0.4 * l as f64;
    let y =
        (0..n).map(|i| density.sample(&(0..latents).map(|l| wave(i, l)).collect::<Vec<_>>(), auxiliary[i], &mut rng));
    let y = y.collect();
    let data = Observations::new(x, d, y, Some(auxiliary)).unwrap();
    let mut gp = LaplaceGp::boxed(Kernel::parse("1.4 * matern52(ard)", d).unwrap().into(), likelihood);
    for (l, prior) in gp.priors.iter_mut().enumerate() {
        prior.mean = Mean::named("constant", d).unwrap();
        for (_, parameter) in prior.mean.parameters_mut() {
            parameter.set(&[0.1 - 0.3 * l as f64]).unwrap();
        }
    }
    (gp, data)
}

const LIKELIHOODS: [&str; 15] = [
    "gaussian(0.3)",
    "heteroscedastic(0.3)",
    "student-t(3.5)",
    "bernoulli(logit)",
    "bernoulli(probit)",
    "binomial",
    "softmax(2)",
    "softmax(4)",
    "ordinal(4)",
    "poisson(exp)",
    "poisson(softplus)",
    "negative-binomial(0.4)",
    "gamma(2.5)",
    "exponential",
    "beta(6)",
];

#[test]
fn every_likelihood_is_tried() {
    for name in Likelihoods::default().rows().iter().map(|row| row.name) {
        assert!(LIKELIHOODS.iter().any(|text| text.split('(').next() == Some(name)), "{name} is not tried");
    }
}

#[test]
fn gradients_match_finite_differences() {
    for text in LIKELIHOODS {
        let (mut gp, data) = drawn(text, 14, 2);
        for corrected in [false, true] {
            gp.corrected = corrected;
            let [gradient, numeric] = gradients(&gp, &data);
            assert_close(&format!("{text}, corrected: {corrected}"), &gradient, &numeric, 1e-6);
        }
    }
}

/// Rows far apart are independent: their evidence is a product of integrals over one latent value each.
#[test]
fn corrected_evidence_of_independent_rows_is_exact() {
    for text in ["bernoulli(logit)", "bernoulli(probit)", "poisson(exp)", "negative-binomial(0.4)", "gamma(2.5)"] {
        for variance in [0.5, 300.0] {
            let (mut gp, data) = drawn(text, 12, 1);
            let x = (0..12).map(|i| 1e6 * f64::from(i)).collect();
            let data = Observations::new(x, 1, data.y.clone(), data.auxiliary.clone()).unwrap();
            gp.priors[0].kernel = Kernel::parse(&format!("{variance} * matern52"), 1).unwrap();
            let targets = Targets { y: &data.y, auxiliary: data.auxiliary.as_deref() };
            let of = |row: Row| {
                let auxiliary = (gp.likelihood.auxiliary() != Auxiliary::None).then_some(row.auxiliary);
                gp.likelihood.predict(&[0.1], &[variance], auxiliary).unwrap().log_density(row.y)
            };
            let want: f64 = -targets.rows(gp.likelihood.auxiliary()).map(of).sum::<f64>();
            let batch = data.batch(&Scope::new(F64).unwrap());
            let mut loss = |corrected| {
                gp.corrected = corrected;
                fit::evaluate(&gp, F64, &batch).unwrap().loss
            };
            let [plain, corrected] = [false, true].map(&mut loss);
            assert!((corrected - want).abs() < 1e-5 * want, "{text} {variance}: {corrected} {want}");
            assert!(variance < 1.0 || (plain - want).abs() > 1e-3 * want, "{text}: {plain} {want}");
        }
    }
}

/// Where inputs say nothing of a rare class, no large variance looks better than none.
#[test]
fn rare_classes_do_not_prefer_large_variances() {
    let mut state = 4;
    let x: Vec<f64> = (0..400).map(|_| 3.0 * noise(&mut state)).collect();
    let y: Vec<f64> = (0..200).map(|i| f64::from(u8::from(i % 25 == 0))).collect();
    let data = Observations::new(x, 2, y, None).unwrap();
    let batch = data.batch(&Scope::new(F64).unwrap());
    // The level that is best for each variance.
    let loss = |kernel: &str, corrected: bool| {
        let mut gp = LaplaceGp::boxed(Kernel::parse(kernel, 2).unwrap().into(), likelihood("bernoulli"));
        gp.corrected = corrected;
        gp.priors[0].mean = Mean::named("constant", 2).unwrap();
        let levels = (6..90).filter_map(|level| {
            gp.find_mut("mean.constant").unwrap()[0].set(&[-0.5 * f64::from(level)]).unwrap();
            fit::evaluate(&gp, F64, &batch).ok().map(|evaluation| evaluation.loss)
        });
        levels.fold(f64::INFINITY, f64::min)
    };
    let [none, large] = ["1e-6 * matern32(1)", "300 * matern32(1e-6)"].map(|kernel| loss(kernel, true));
    assert!((large - none).abs() < 0.5, "{large} {none}");
    assert!(loss("300 * matern32(1e-6)", false) < none - 5.0);
}

/// The product of two dense row-major matrices of order `n`.
fn times(a: &[f64], b: &[f64], n: usize) -> Vec<f64> {
    (0..n * n).map(|e| (0..n).map(|k| a[e / n * n + k] * b[k * n + e % n]).sum()).collect()
}

/// The inverse and the log determinant, by Gauss–Jordan elimination.
fn inverse(mut a: Vec<f64>, n: usize) -> (Vec<f64>, f64) {
    let mut b: Vec<f64> = (0..n * n).map(|e| f64::from(u8::from(e % (n + 1) == 0))).collect();
    let mut log_det = 0.0;
    for k in 0..n {
        let pivot = (k..n).max_by(|i, j| a[i * n + k].abs().total_cmp(&a[j * n + k].abs())).unwrap();
        for matrix in [&mut a, &mut b] {
            (0..n).for_each(|c| matrix.swap(k * n + c, pivot * n + c));
        }
        let p = a[k * n + k];
        log_det += p.abs().ln();
        for matrix in [&mut a, &mut b] {
            matrix[k * n..][..n].iter_mut().for_each(|x| *x /= p);
        }
        for i in (0..n).filter(|i| *i != k) {
            let factor = a[i * n + k];
            for matrix in [&mut a, &mut b] {
                (0..n).for_each(|c| matrix[i * n + c] -= factor * matrix[k * n + c]);
            }
        }
    }
    (b, log_det)
}

#[test]
fn every_likelihood_has_the_mode_evidence_and_covariance_of_its_definition() {
    for text in LIKELIHOODS {
        let (gp, data) = drawn(text, 12, 2);
        let (n, latents) = (data.n(), gp.likelihood.latents());
        let (density, size) = (gp.likelihood.density(), n * latents);
        let posterior = gp.posterior(F64, data.clone()).unwrap();
        let scope = Scope::new(F64).unwrap();
        let batch = data.batch(&scope);
        // K and W of all latent functions together.
        let (mut k, mut w, mut means) = (vec![0.0; size * size], vec![0.0; size * size], vec![0.0; size]);
        for l in 0..latents {
            let prior = &gp.priors[l.min(gp.priors.len() - 1)];
            let gram = to_f64(prior.covariance(&scope, &batch.x).matrix().unwrap()).unwrap();
            means[l * n..][..n].copy_from_slice(&to_f64(prior.mean.at(&scope, &batch.x).unwrap()).unwrap());
            (0..n * n).for_each(|e| k[(l * n + e / n) * size + l * n + e % n] = gram[e]);
        }
        let (f, mut gradient, mut log_density) = (posterior.mode(), vec![0.0; size], 0.0);
        let d = curvature(&gp, &data, &posterior);
        let targets = Targets { y: &data.y, auxiliary: data.auxiliary.as_deref() };
        for (i, row) in targets.rows(gp.likelihood.auxiliary()).enumerate() {
            let (mut g, mut h) = (vec![0.0; latents], vec![0.0; latents * latents]);
            let at: Vec<f64> = f.iter().skip(i).step_by(n).copied().collect();
            log_density += density.derivatives(row, &at, &mut g, &mut h);
            for a in 0..latents {
                gradient[a * n + i] = g[a];
                for b in 0..latents {
                    let own = if a == b { d[a * n + i] } else { 0.0 };
                    let shared = if density.is_centred() { d[a * n + i] * d[b * n + i] } else { 0.0 };
                    w[(a * n + i) * size + b * n + i] = own - shared;
                }
            }
        }
        assert_close(&format!("{text}: weights"), posterior.weights(), &gradient, 1e-9);
        let pulled: Vec<f64> =
            (0..size).map(|i| means[i] + (0..size).map(|j| k[i * size + j] * gradient[j]).sum::<f64>()).collect();
        assert_close(&format!("{text}: mode"), f, &pulled, 1e-9);
        let mut system = times(&w, &k, size);
        system.iter_mut().step_by(size + 1).for_each(|x| *x += 1.0);
        let (solved, log_det) = inverse(system, size);
        let quadratic: f64 = f.iter().zip(&means).zip(&gradient).map(|((f, m), g)| (f - m) * g).sum();
        let loss = scalar(gp.objective(&scope, &batch).unwrap()).unwrap();
        let want = 0.5 * (quadratic + log_det) - log_density;
        assert!((loss - want).abs() < 1e-9 * want.abs(), "{text}: {loss} {want}");
        // (K + W⁻¹)⁻¹ = (I + W K)⁻¹ W.
        let c = times(&solved, &w, size);
        let points = [0.3, -0.2, 1.5, 0.4];
        let marginals = posterior.marginals(&points).unwrap();
        for (l, marginals) in marginals.iter().enumerate() {
            let kernel = &gp.priors[l.min(gp.priors.len() - 1)].kernel;
            let cross = products::Cross::new(kernel, &scope, &batch.x, &scope.matrix(&points, 2, 2)).matrix().unwrap();
            let cross = to_f64(cross).unwrap();
            for t in 0..2 {
                let at = |i: usize| cross[i * 2 + t];
                let explained: f64 =
                    (0..n * n).map(|e| at(e / n) * c[(l * n + e / n) * size + l * n + e % n] * at(e % n)).sum();
                assert!((marginals.variance[t] - (1.4 - explained)).abs() < 1e-9, "{text}: variance of {l} at {t}");
            }
        }
    }
}

#[test]
fn gaussian_targets_have_the_exact_posterior() {
    let (mut laplace, data) = drawn("gaussian(0.3)", 20, 2);
    laplace.find_mut("mean.constant").unwrap()[0].set(&[0.2]).unwrap();
    let mut exact = ExactGp::new(laplace.priors[0].kernel.clone());
    exact.prior.mean = laplace.priors[0].mean.clone();
    exact.likelihood.noise.set(&[0.3]).unwrap();
    let batch = data.batch(&Scope::new(F64).unwrap());
    let [a, b] = [fit::evaluate(&laplace, F64, &batch), fit::evaluate(&exact, F64, &batch)].map(Result::unwrap);
    assert_close("loss", &[a.loss], &[b.loss], 1e-10);
    assert_close("gradient", &a.gradient, &b.gradient, 1e-10);
    let points = [0.3, -0.2, 1.0, 1.0, -2.0, 0.5];
    let (a, b) = (laplace.posterior(F64, data.clone()).unwrap(), exact.posterior(F64, data).unwrap());
    let (a, b) = (a.predict_joint(&points).unwrap(), b.predict_joint(&points).unwrap());
    assert_close("mean", &a.mean, &b.mean, 1e-10);
    assert_close("covariance", &a.covariance, &b.covariance, 1e-10);
}

/// The difference of two functions has twice their variance.
#[test]
fn two_classes_are_bernoulli() {
    let (softmax, data) = drawn("softmax(2)", 25, 2);
    let mut bernoulli = LaplaceGp::boxed(softmax.priors[0].clone(), likelihood("bernoulli"));
    bernoulli.priors[0].mean = Mean::Zero;
    bernoulli.find_mut("variance").unwrap()[0].set(&[2.8]).unwrap();
    let scope = Scope::new(F64).unwrap();
    let loss = |gp: &LaplaceGp| scalar(gp.objective(&scope, &data.batch(&scope)).unwrap()).unwrap();
    assert_close("loss", &[loss(&softmax)], &[loss(&bernoulli)], 1e-9);
    let points = [0.3, -0.2, 1.0, 1.0, -2.0, 0.5];
    let latent = bernoulli.posterior(F64, data.clone()).unwrap().predict(&points).unwrap();
    let joint = softmax.posterior(F64, data.clone()).unwrap().correlated(&points).unwrap().unwrap();
    for (i, (m, c)) in joint.mean.chunks(2).zip(joint.covariance.chunks(4)).enumerate() {
        assert_close("mean", &[m[1] - m[0]], &latent.mean[i..=i], 1e-8);
        assert_close("variance", &[c[0] + c[3] - 2.0 * c[1]], &latent.variance[i..=i], 1e-8);
    }
}

/// Checks that all numbers are finite for a model of `text` with a kernel, at all rows.
fn check_finite(what: &str, text: &str, kernel: &str, x: &[f64], y: &[f64]) -> LaplacePosterior {
    let likelihood = crate::common::likelihood(text);
    let data = Observations::new(x.to_vec(), 1, y.to_vec(), None).unwrap();
    let gp = LaplaceGp::boxed(Kernel::parse(kernel, 1).unwrap().into(), likelihood);
    let found = fit::evaluate(&gp, F64, &data.batch(&Scope::new(F64).unwrap())).unwrap();
    assert!(found.loss.is_finite() && found.gradient.iter().all(|g| g.is_finite()), "{what}: {found:?}");
    let posterior = gp.posterior(F64, data).unwrap();
    for latent in posterior.marginals(&[x, &[77.0]].concat()).unwrap() {
        assert!(latent.mean.iter().chain(&latent.variance).all(|v| v.is_finite()), "{what}: {latent:?}");
        assert!(latent.variance.iter().all(|v| *v > 0.0), "{what}");
    }
    posterior
}

#[test]
fn extremes_are_finite() {
    let x: Vec<f64> = (0..20).map(|i| 0.3 * f64::from(i)).collect();
    let half: Vec<f64> = (0..20).map(|i| f64::from(u8::from(i >= 10))).collect();
    let thirds: Vec<f64> = (0..20).map(|i| f64::from(i / 7)).collect();
    for kernel in ["rbf", "1e4 * rbf(3.0)"] {
        for text in ["bernoulli", "bernoulli(probit)", "softmax(2)", "ordinal(2)"] {
            check_finite("saturated classes", text, kernel, &x, &half);
            check_finite("one class", text, kernel, &x, &[1.0; 20]);
        }
        check_finite("saturated classes", "softmax(3)", kernel, &x, &thirds);
        for text in ["poisson", "poisson(softplus)", "negative-binomial(0.4)"] {
            check_finite("no counts", text, kernel, &x, &[0.0; 20]);
            let mut many = vec![3.0; 20];
            many[4] = 1e6;
            check_finite("a million", text, kernel, &x, &many);
            check_finite("millions", text, kernel, &x, &[1e6; 20]);
        }
        for text in LIKELIHOODS {
            // 1 is a valid target of every likelihood except the beta.
            let y = if text.starts_with("beta") { 0.5 } else { 1.0 };
            check_finite("one row", text, kernel, &[0.4], &[y]);
            check_finite("one place", text, kernel, &[0.4; 30], &[y; 30]);
        }
    }
}

/// Two rows at one place that contradict each other: the log posterior bends upwards between its two modes, where the
/// search begins.
#[test]
fn a_search_leaves_a_saddle() {
    let mut gp = LaplaceGp::boxed(Kernel::parse("1e4 * rbf", 1).unwrap().into(), likelihood("student-t"));
    gp.find_mut("noise").unwrap()[0].set(&[0.01]).unwrap();
    gp.find_mut("df").unwrap()[0].set(&[3.0]).unwrap();
    gp.priors[0].mean = Mean::Zero;
    for side in [-1.0, 1.0] {
        let y = vec![5.0 + 1e-6 * side, -5.0 + 1e-6 * side];
        let data = Observations::new(vec![0.0; 2], 1, y, None).unwrap();
        let posterior = gp.posterior(F64, data).unwrap();
        // The search begins beyond the saddle, on the other side of 0.
        let off = posterior.mode()[0] + 5.0 * side;
        assert!(off.abs() < 0.01, "{side}: {:?}", posterior.mode());
    }
}

/// Latent values of 50 and more, where probabilities and their curvature are below rounding errors.
#[test]
fn certain_classes_reach_far() {
    let x: Vec<f64> = (0..40).map(|i| f64::from(i / 20) * 10.0 + 0.01 * f64::from(i % 20)).collect();
    let y: Vec<f64> = (0..40).map(|i| f64::from(i / 20)).collect();
    let posterior = check_finite("certain", "bernoulli", "1e8 * rbf", &x, &y);
    let (far, prior) = (posterior.mode().iter().fold(0.0f64, |far, f| far.max(f.abs())), 1e8);
    assert!(far > 15.0, "{far}");
    assert!(posterior.predict(&x).unwrap().variance.iter().all(|v| *v < prior));
}

/// For an outlier, the Hessian of Student's distribution has the opposite sign.
#[test]
fn outliers_are_left_where_they_are() {
    let (gp, data) = drawn("student-t(3.5)", 14, 1);
    let mut targets = data.y.clone();
    for (place, y) in [(3, 40.0), (8, -25.0), (11, 9.0)] {
        targets[place] = y;
    }
    let data = data.with_targets(targets).unwrap();
    let [gradient, numeric] = gradients(&gp, &data);
    assert_close("gradient", &gradient, &numeric, 1e-6);
    let latent = gp.posterior(F64, data.clone()).unwrap().predict(&data.x).unwrap();
    assert!(latent.mean.iter().all(|f| f.abs() < 4.0), "{:?}", latent.mean);
}

/// Rows without errors: each has d ln p/dg = −1/2 in the logarithm g of its noise variance wherever g is, so the mode
/// is half the prior variance below the mean. The expected curvature there is 1/2, and the Hessian 0.
#[test]
fn the_noise_of_rows_without_errors_is_found() {
    let x: Vec<f64> = (0..20).map(|i| 0.3 * f64::from(i)).collect();
    let posterior = check_finite("no errors", "heteroscedastic(0.3)", "100 * rbf(0.001)", &x, &[0.0; 20]);
    let (mean, log_noise) = posterior.mode().split_at(20);
    assert!(mean.iter().all(|f| f.abs() < 1e-9), "{mean:?}");
    assert_close("log noise", log_noise, &[-50.0; 20], 1e-7);
}
