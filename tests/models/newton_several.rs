//! Newton's method in the span of actions for several latent functions.

use cagey::kernels::Kernel;
use cagey::likelihoods::{Likelihood, Softmax, Targets};
use cagey::linalg::Factor;
use cagey::means::Mean;
use cagey::models::cagp::{IterativeCagp, SiteRule, Sites};
use cagey::models::gp_model::GpModel;
use cagey::models::posterior::{Correlated, Posterior};
use cagey::models::{Model, Observations, fit};
use cagey::scope::{Scope, scalar, to_f64};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};

use crate::common::{F32, F64, assert_close, columns, flat, golden, kernel, likelihood};
use crate::newton::{Newton, drawn, held, held_gradients, sites_at, whole};

const LIKELIHOODS: [&str; 4] = ["softmax(2)", "softmax(3)", "softmax(5)", "heteroscedastic"];

const POINTS: [f64; 6] = [0.3, -0.2, 1.0, 1.0, -2.0, 0.5];

/// Covariances `[n, L, L]` of each row's latent functions, also if these are independent.
fn blocks(posterior: &dyn Posterior, x: &[f64]) -> Correlated {
    if let Some(joint) = posterior.correlated(x).unwrap() {
        return joint;
    }
    let all = posterior.marginals(x).unwrap();
    let (rows, latents) = (all[0].mean.len(), all.len());
    let entry = |e: usize| {
        let (row, l, k) = (e / (latents * latents), e / latents % latents, e % latents);
        if l == k { all[l].variance[row] } else { 0.0 }
    };
    Correlated {
        mean: (0..rows * latents).map(|e| all[e % latents].mean[e / latents]).collect(),
        covariance: (0..rows * latents * latents).map(entry).collect(),
    }
}

fn probabilities(likelihood: &dyn Likelihood, Correlated { mean, covariance }: &Correlated) -> Vec<f64> {
    let latents = likelihood.latents();
    let rows = mean.chunks(latents).zip(covariance.chunks(latents * latents));
    rows.flat_map(|(m, c)| likelihood.predict_joint(m, c, None).unwrap().probabilities().unwrap()).collect()
}

#[test]
fn golden_softmax_with_all_actions() {
    for case in golden("laplace_softmax") {
        let name = case["case"].as_str().unwrap();
        let (d, classes) = (columns(&case["X"]), case["num_classes"].as_u64().unwrap() as usize);
        let data = Observations::new(flat(&case["X"]), d, flat(&case["labels"]), None).unwrap();
        let (expected, points) = (&case["expected"], flat(&case["Xs"]));
        for per_step in [1, 7, 30] {
            let options = Newton { per_step, ..whole(data.n() * (classes - 1)) };
            let prior = kernel(&case["kernel"], d).into();
            let gp = options.model(prior, Box::new(Softmax::new(classes)));
            let (posterior, report) = gp.posterior(F64, data.clone()).unwrap();
            let name = format!("{name}, {report}");
            assert_eq!(report.actions, data.n() * (classes - 1), "{name}");
            let of = |x: &[f64]| -> Vec<f64> {
                posterior.marginals(x).unwrap().into_iter().flat_map(|latent| latent.mean).collect()
            };
            assert_close(&format!("{name} mode"), &of(&data.x), &flat(&expected["mode"]), 1e-8);
            assert_close(&format!("{name} f_mean"), &of(&points), &flat(&expected["f_mean"]), 1e-8);
            let joint = posterior.correlated(&points).unwrap().unwrap();
            assert_close(&format!("{name} f_cov"), &joint.covariance, &flat(&expected["f_cov"]), 1e-8);
            let p = probabilities(&*gp.likelihood, &joint);
            assert_close(&format!("{name} probs"), &p, &flat(&expected["probs"]), 1e-8);
            assert!(posterior.predict(&points).is_err() && posterior.predict_joint(&points).is_err(), "{name}");
        }
    }
}

/// Two functions with kernel k act as one function, their difference, with kernel 2k.
#[test]
fn two_classes_are_bernoulli() {
    // Averages over one function use 20 nodes.
    for (rule, exact) in [(SiteRule::Mode, 1e-9), (SiteRule::Expectation, 1e-5)] {
        for actions in [3, 9, 20] {
            let (mut two, data) = drawn("softmax(2)", 20, whole(actions), 1);
            let mut one = whole(actions)
                .model(Kernel::parse("2.8 * matern52(ard)", 2).unwrap().into(), likelihood("bernoulli(logit)"));
            one.priors[0].mean = Mean::Zero;
            (one.sites, two.sites) = (rule, rule);
            let joint = two.posterior(F64, data.clone()).unwrap().0.correlated(&POINTS).unwrap().unwrap();
            let single = one.posterior(F64, data.clone()).unwrap().0.predict(&POINTS).unwrap();
            let mean: Vec<f64> = joint.mean.chunks(2).map(|f| f[1] - f[0]).collect();
            let variance: Vec<f64> = joint.covariance.chunks(4).map(|c| c[0] + c[3] - 2.0 * c[1]).collect();
            assert_close("means", &mean, &single.mean, exact);
            assert_close("variances", &variance, &single.variance, exact);
            let scope = Scope::new(F64).unwrap();
            let batch = data.batch(&scope);
            let [a, b] = [&two, &one].map(|gp| scalar(gp.objective(&scope, &batch).unwrap()).unwrap());
            assert_close("bound", &[a], &[b], 1e-5);
        }
    }
}

/// Gradient and trace of the curvature are averages over the latent distribution, compared with draws.
#[test]
fn averaged_sites_of_classes_are_averages() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
    for classes in [2, 3, 5] {
        let likelihood = likelihood(&format!("softmax({classes})"));
        let (density, class) = (likelihood.density(), 1.0);
        let row: Vec<_> = Targets { y: &[class], auxiliary: None }.rows(likelihood.auxiliary()).collect();
        let scope = Scope::new(F64).unwrap();
        let batch = Observations::new(vec![0.0], 1, vec![class], None).unwrap().batch(&scope);
        let prior = Kernel::parse("rbf", 1).unwrap().into();
        let gp = Newton::budget(1).model(prior, likelihood.boxed());
        for scale in [0.0, 0.5, 2.0] {
            let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
            let mean: Vec<f64> = (0..classes).map(|_| normal()).collect();
            let root: Vec<f64> = (0..classes * classes).map(|_| scale * normal()).collect();
            let rows = || root.chunks(classes);
            let products = rows().flat_map(|a| rows().map(move |b| a.iter().zip(b).map(|(a, b)| a * b).sum()));
            let products: Vec<f64> = products.collect();
            let sites = gp.averaged_sites(&scope, &batch, mean.clone(), &products).unwrap().0;
            let (mut gradient, mut trace, draws) = (vec![0.0; classes], 0.0, 200_000);
            let (mut slopes, mut hessian) = (vec![0.0; classes], vec![0.0; classes * classes]);
            for _ in 0..draws {
                let z: Vec<f64> = (0..classes).map(|_| normal()).collect();
                let moved = |(m, root): (&f64, &[f64])| m + root.iter().zip(&z).map(|(r, z)| r * z).sum::<f64>();
                let f: Vec<f64> = mean.iter().zip(rows()).map(moved).collect();
                density.derivatives(row[0], &f, &mut slopes, &mut hessian);
                gradient.iter_mut().zip(&slopes).for_each(|(sum, g)| *sum += g / f64::from(draws));
                trace -= hessian.iter().step_by(classes + 1).sum::<f64>() / f64::from(draws);
            }
            let what = format!("{classes} classes, {scale}");
            assert_close(&format!("{what}: gradient"), &sites.gradient, &gradient, 5e-3);
            let total: f64 = sites.curvature.iter().sum();
            let found: f64 = sites.curvature.iter().map(|d| d * (1.0 - d / total)).sum();
            assert_close(&format!("{what}: trace"), &[found], &[trace], 5e-3);
        }
    }
}

/// K of all latent functions `[L n, L n]`.
fn all_covariances(gp: &IterativeCagp, x: &[f64]) -> Vec<f64> {
    let (scope, n, latents) = (Scope::new(F64).unwrap(), x.len() / 2, gp.likelihood.latents());
    let x = scope.matrix(x, n, 2);
    let of = |l: usize| {
        let prior = &gp.priors[l.min(gp.priors.len() - 1)];
        to_f64(prior.covariance(&scope, &x).matrix().unwrap()).unwrap()
    };
    let each: Vec<Vec<f64>> = (0..latents).map(of).collect();
    let all = latents * n;
    let entry = |e: usize| {
        let (a, b) = (e / all, e % all);
        if a / n == b / n { each[a / n][a % n * n + b % n] } else { 0.0 }
    };
    (0..all * all).map(entry).collect()
}

/// Dense covariances `[n, L, L]` of a row's latent functions given sites: `K − K R (I + RᵀKR)⁻¹ RᵀK`.
fn dense_blocks(gp: &IterativeCagp, data: &Observations, sites: &Sites) -> Vec<f64> {
    let (n, latents, density) = (data.n(), gp.likelihood.latents(), gp.likelihood.density());
    let (all, k) = (n * latents, all_covariances(gp, &data.x));
    let targets = Targets { y: &data.y, auxiliary: data.auxiliary.as_deref() };
    // √d of the rows' curvatures: R = diag(√d), or for centred likelihoods diag(√d)(I − √d√dᵀ).
    let scales: Vec<Vec<f64>> = targets
        .rows(gp.likelihood.auxiliary())
        .enumerate()
        .map(|(i, row)| {
            let mut d = vec![0.0; latents];
            let f: Vec<f64> = sites.f.iter().skip(i).step_by(n).copied().collect();
            density.curvature(row, &f, &mut d);
            d.into_iter().map(f64::sqrt).collect()
        })
        .collect();
    // Rᵀ A, for the columns of A.
    let rooted = |a: &[f64]| {
        let mut out = a.to_vec();
        for column in 0..all {
            for (i, scale) in scales.iter().enumerate() {
                let x: Vec<f64> = (0..latents).map(|l| scale[l] * a[(l * n + i) * all + column]).collect();
                let along: f64 = if sites.centred { x.iter().zip(scale).map(|(x, s)| x * s).sum() } else { 0.0 };
                for (l, x) in x.iter().enumerate() {
                    out[(l * n + i) * all + column] = x - scale[l] * along;
                }
            }
        }
        out
    };
    let transposed = |a: &[f64]| (0..all * all).map(|e| a[e % all * all + e / all]).collect::<Vec<_>>();
    let mut white = rooted(&k);
    let mut b = rooted(&transposed(&white));
    b.iter_mut().step_by(all + 1).for_each(|b| *b += 1.0);
    Factor::new(b, "I + RᵀKR").unwrap().solve_lower(&mut white).unwrap();
    let entry = |e: usize| {
        let (i, l, k_) = (e / (latents * latents), e / latents % latents, e % latents);
        let (a, b) = (l * n + i, k_ * n + i);
        k[a * all + b] - (0..all).map(|r| white[r * all + a] * white[r * all + b]).sum::<f64>()
    };
    (0..n * latents * latents).map(entry).collect()
}

#[test]
fn covariances_are_never_below_those_of_the_dense_solve() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
    for text in LIKELIHOODS {
        for seed in 0..40 {
            let actions = 1 + seed as usize % 9;
            let options = Newton { kept: (seed % 3 == 2).then_some(3), ..whole(actions) };
            let (gp, data) = drawn(text, 7, options, seed);
            let (posterior, report) = gp.posterior(F64, data.clone()).unwrap();
            let got = blocks(&posterior, &data.x).covariance;
            let (_, sites) = held(&gp, &data);
            let (dense, latents) = (dense_blocks(&gp, &data, &sites), gp.likelihood.latents());
            for (got, dense) in got.chunks(latents * latents).zip(dense.chunks(latents * latents)) {
                for _ in 0..5 {
                    let u: Vec<f64> = (0..latents).map(|_| rng.random::<f64>() - 0.5).collect();
                    let form =
                        |c: &[f64]| (0..latents * latents).map(|e| u[e / latents] * c[e] * u[e % latents]).sum::<f64>();
                    let [got, dense] = [form(got), form(dense)];
                    assert!(got > dense * (1.0 - 1e-9) - 1e-12, "{text} {seed}, {report}: {got} {dense}");
                }
            }
        }
    }
}

/// Products kept from step to step equal those computed again.
#[test]
fn recycled_solves_are_those_from_scratch() {
    for text in LIKELIHOODS {
        let (gp, data) = drawn(text, 12, whole(8), 1);
        let (s, sites) = held(&gp, &data);
        assert_eq!(sites_at(&gp, &data, sites.f.clone()), sites, "{text}");
        let (all, i, k) = (sites.f.len(), s.len() / sites.f.len(), all_covariances(&gp, &data.x));
        let (n, latents) = (data.n(), all / data.n());
        for row in 0..if sites.centred { n } else { 0 } {
            let sum: f64 = (0..latents).map(|l| s[(l * n + row) * i]).sum();
            assert!(sum.abs() < 1e-12, "{text}: an action of row {row} sums to {sum}");
        }
        let ks: Vec<f64> =
            (0..all * i).map(|e| (0..all).map(|l| k[e / i * all + l] * s[l * i + e % i]).sum()).collect();
        let entry = |a: usize, b: usize| {
            (0..all).map(|l| s[l * i + a] * (ks[l * i + b] + s[l * i + b] / sites.curvature[l])).sum::<f64>()
        };
        let factor = Factor::new((0..i * i).map(|e| entry(e / i, e % i)).collect(), "M").unwrap();
        let target = |l: usize| sites.f[l] - 0.1 + sites.gradient[l] / sites.curvature[l];
        let mut a: Vec<f64> = (0..i).map(|c| (0..all).map(|l| s[l * i + c] * target(l)).sum()).collect();
        factor.solve(&mut a).unwrap();
        let mut white: Vec<f64> = (0..all * i).map(|e| ks[e % all * i + e / all]).collect();
        factor.solve_lower(&mut white).unwrap();
        let mean = |e: usize| 0.1 + (0..i).map(|c| ks[(e % latents * n + e / latents) * i + c] * a[c]).sum::<f64>();
        let covariance = |e: usize| {
            let (row, l, m) = (e / (latents * latents), e / latents % latents, e % latents);
            let [a, b] = [l, m].map(|l| l * n + row);
            k[a * all + b] - (0..i).map(|c| white[c * all + a] * white[c * all + b]).sum::<f64>()
        };
        let (posterior, report) = gp.posterior(F64, data.clone()).unwrap();
        let got = blocks(&posterior, &data.x);
        let want: Vec<f64> = (0..all).map(mean).collect();
        assert_close(&format!("{text} mean"), &got.mean, &want, 1e-9);
        let want: Vec<f64> = (0..all * latents).map(covariance).collect();
        assert_close(&format!("{text} covariance"), &got.covariance, &want, 1e-9);
        assert!(report.products <= report.actions + 1, "{text}: {report:?}");
    }
}

#[test]
fn gradients_of_held_bounds_match_finite_differences() {
    for text in LIKELIHOODS {
        let (gp, data) = drawn(text, 10, whole(6), 2);
        let [gradient, numeric] = held_gradients(&gp, &data);
        assert_close(text, &gradient, &numeric, 1e-6);
    }
}

/// Whitened nodes of a trapezoidal rule in `order` dimensions, with their log weights.
fn grid(order: usize, step: f64, half: i64) -> impl Iterator<Item = (Vec<f64>, f64)> {
    let width = 2 * half + 1;
    (0..width.pow(order as u32)).map(move |node| {
        let z: Vec<f64> = (0..order as u32).map(|k| step * (node / width.pow(k) % width - half) as f64).collect();
        let weight = z.iter().map(|z| step.ln() - 0.5 * (z * z + (2.0 * std::f64::consts::PI).ln())).sum();
        (z, weight)
    })
}

fn coloured(lower: &[f64], z: &[f64]) -> Vec<f64> {
    let order = z.len();
    (0..order).map(|i| (0..=i).map(|j| lower[order * i + j] * z[j]).sum()).collect()
}

/// `ln ∫ p(y | f) N(f; m, K) df` for classes, in the differences from the first class.
fn log_evidence_of_classes(gp: &IterativeCagp, data: &Observations) -> f64 {
    let (n, latents, k) = (data.n(), gp.likelihood.latents(), all_covariances(gp, &data.x));
    let (order, count) = (n * (latents - 1), latents - 1);
    let entry = |a: usize, b: usize| {
        let own = if a % count == b % count { 2.0 } else { 1.0 };
        own * k[a / count * n * latents + b / count]
    };
    let lower = Factor::new((0..order * order).map(|e| entry(e / order, e % order)).collect(), "K").unwrap().lower();
    let density = gp.likelihood.density();
    let mut sum = 0.0;
    for (z, weight) in grid(order, 0.4, 15) {
        let f = coloured(&lower, &z);
        let rows = Targets { y: &data.y, auxiliary: None }.rows(gp.likelihood.auxiliary());
        let log: f64 = rows.zip(f.chunks(count)).map(|(row, f)| density.log_density(row, &[&[0.0], f].concat())).sum();
        sum += (weight + log).exp();
    }
    sum.ln()
}

/// The same for a normal distribution whose noise varies: numerical over the second function, closed-form over the
/// first.
fn log_evidence_of_noise(gp: &IterativeCagp, data: &Observations) -> f64 {
    let (n, k) = (data.n(), all_covariances(gp, &data.x));
    let block = |l: usize| (0..n * n).map(|e| k[(l * n + e / n) * 2 * n + l * n + e % n]).collect::<Vec<f64>>();
    let (lower, density) = (Factor::new(block(1), "K").unwrap().lower(), gp.likelihood.density());
    let mut sum = 0.0;
    for (z, weight) in grid(n, 0.25, 28) {
        let mut covariance = block(0);
        for (i, f) in coloured(&lower, &z).iter().enumerate() {
            covariance[i * (n + 1)] += density.variance(&[0.0, 0.1 + f], 1.0);
        }
        let factor = Factor::new(covariance, "K + noise").unwrap();
        let mut white: Vec<f64> = data.y.iter().map(|y| y - 0.1).collect();
        factor.solve_lower(&mut white).unwrap();
        let square: f64 = white.iter().map(|w| w * w).sum();
        sum += (weight - 0.5 * (square + factor.log_det() + n as f64 * (2.0 * std::f64::consts::PI).ln())).exp();
    }
    sum.ln()
}

#[test]
fn bounds_are_bounds_for_any_actions_and_sites() {
    for (text, n) in [("softmax(2)", 3), ("softmax(3)", 2), ("heteroscedastic", 2)] {
        let (gp, data) = drawn(text, n, whole(n), 4);
        let centred = gp.likelihood.density().is_centred();
        let of = if centred { log_evidence_of_classes } else { log_evidence_of_noise };
        let (evidence, latents) = (of(&gp, &data), gp.likelihood.latents());
        let (scope, all) = (Scope::new(F64).unwrap(), n * latents);
        let batch = data.batch(&scope);
        let loss = |s: &[f64], i: usize, sites: &Sites| {
            scalar(gp.objective_at(&scope, &batch, &scope.matrix(s, all, i), Some(sites)).unwrap()).unwrap()
        };
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(9);
        for _ in 0..200 {
            let i = rng.random_range(1..=3);
            let mut draw = |scale: f64| scale * (rng.random::<f64>() - 0.5);
            let mut s: Vec<f64> = (0..all * i).map(|_| draw(2.0)).collect();
            let mut gradient: Vec<f64> = (0..all).map(|_| draw(3.0)).collect();
            let mut curvature: Vec<f64> = (0..all).map(|_| draw(3.0).exp()).collect();
            for row in 0..n {
                let across = |width: usize, column: usize| (0..latents).map(move |l| (l * n + row) * width + column);
                if centred {
                    for (values, width) in [(&mut s, i), (&mut gradient, 1)] {
                        for column in 0..width {
                            let mean: f64 = across(width, column).map(|at| values[at]).sum::<f64>() / latents as f64;
                            across(width, column).for_each(|at| values[at] -= mean);
                        }
                    }
                    let total: f64 = across(1, 0).map(|at| curvature[at]).sum();
                    across(1, 0).for_each(|at| curvature[at] /= total);
                } else {
                    // Actions of one latent function each: they must stay independent.
                    for column in 0..i {
                        across(i, column).enumerate().filter(|(l, _)| *l != column % 2).for_each(|(_, at)| s[at] = 0.0);
                    }
                }
            }
            let f = (0..all).map(|_| draw(3.0)).collect();
            let sites = Sites { f, gradient, curvature, rows: n, centred };
            let bound = loss(&s, i, &sites);
            assert!(bound > -evidence - 1e-5, "{text}: {bound} is below {}", -evidence);
            if centred {
                let v: Vec<f64> = (0..i * i).map(|e| draw(1.0) + if e % (i + 1) == 0 { 1.5 } else { 0.0 }).collect();
                let turned: Vec<f64> =
                    (0..all * i).map(|e| (0..i).map(|k| s[e / i * i + k] * v[k * i + e % i]).sum()).collect();
                let again = loss(&turned, i, &sites);
                assert!((again - bound).abs() < 1e-7 * bound.abs().max(1.0), "{text}: {bound} {again}");
            }
        }
        let mut gp = gp;
        whole(2 * n).apply(&mut gp);
        let found = scalar(gp.objective(&scope, &batch).unwrap()).unwrap();
        // The Fisher information of the noise is not the curvature of its density.
        let near = if centred { 0.4 } else { 1.0 };
        assert!(found > -evidence - 1e-5 && found + evidence < near, "{text}: {found} {evidence}");
        gp.sites = SiteRule::Expectation;
        let averaged = scalar(gp.objective(&scope, &batch).unwrap()).unwrap();
        assert!(averaged > -evidence - 1e-5 && averaged < found, "{text}: {averaged} {found} {evidence}");
    }
}

#[test]
fn extremes_are_finite() {
    let x: Vec<f64> = (0..20).map(|i| 0.3 * f64::from(i)).collect();
    let thirds: Vec<f64> = (0..20).map(|i| f64::from(i / 7)).collect();
    for kernel in ["rbf", "400 * rbf(3.0)"] {
        for (text, x, y) in [
            ("softmax(3)", &x[..], thirds.clone()),
            ("softmax(3)", &x, vec![1.0; 20]),
            ("softmax(3)", &[0.4; 12], vec![1.0; 12]),
            ("softmax(3)", &[0.4], vec![2.0]),
            ("heteroscedastic", &x, thirds.clone()),
            ("heteroscedastic", &x, vec![1e6; 20]),
            ("heteroscedastic", &[0.4], vec![0.0]),
            ("heteroscedastic", &[0.4; 12], vec![1.0; 12]),
        ] {
            let data = Observations::new(x.to_vec(), 1, y.clone(), None).unwrap();
            let prior = Kernel::parse(kernel, 1).unwrap().into();
            let gp = Newton::budget(8).model(prior, likelihood(text));
            let (posterior, report) = gp.posterior(F64, data.clone()).unwrap();
            let Correlated { mean, covariance } = blocks(&posterior, &[x, &[77.0]].concat());
            assert!(mean.iter().chain(&covariance).all(|m| m.is_finite()), "{text} {y:?}, {report}");
            let found = fit::evaluate(&gp, F64, &data.batch(&Scope::new(F64).unwrap())).unwrap();
            assert!(found.loss.is_finite() && found.gradient.iter().all(|g| g.is_finite()), "{text}: {found:?}");
        }
    }
}

#[test]
fn saved_posteriors_come_back_and_single_precision_follows() {
    for text in LIKELIHOODS {
        let (gp, data) = drawn(text, 30, Newton::budget(12), 6);
        let posterior = gp.condition(F64, data.clone()).unwrap();
        let restored = gp.restore(F64, data.clone(), posterior.saved(false).unwrap()).unwrap();
        let [a, b] = [&posterior, &restored].map(|posterior| blocks(&**posterior, &POINTS));
        assert_eq!(a, b, "{text}");
        assert_eq!(restored.solve(), posterior.solve());
        let rows: Vec<f64> = POINTS.chunks(2).flat_map(|x| blocks(&*posterior, x).mean).collect();
        assert_close(&format!("{text} row by row"), &rows, &a.mean, 1e-10);
        let single = blocks(&*gp.condition(F32, data.clone()).unwrap(), &POINTS);
        assert_close(&format!("{text} means"), &single.mean, &a.mean, 2e-3);
        assert_close(&format!("{text} covariances"), &single.covariance, &a.covariance, 2e-3);
        let loss = |compute| {
            let scope = Scope::new(compute).unwrap();
            scalar(gp.objective(&scope, &data.batch(&scope)).unwrap()).unwrap()
        };
        assert_close(&format!("{text} loss"), &[loss(F32)], &[loss(F64)], 1e-4);
    }
}

/// Further actions, added to a posterior, give the result of all actions at once.
#[test]
fn refined_posteriors_are_those_of_all_actions() {
    for text in ["bernoulli(logit)", "softmax(3)", "heteroscedastic"] {
        let rank = 12 * if text.starts_with("bern") { 1 } else { 2 };
        let (mut gp, data) = drawn(text, 12, whole(5), 1);
        let few = gp.posterior(F64, data.clone()).unwrap().0;
        let before = blocks(&few, &POINTS);
        whole(rank).apply(&mut gp);
        let all = blocks(&gp.posterior(F64, data.clone()).unwrap().0, &POINTS);
        let refined = few.computation_aware().unwrap().refined(rank - 5).unwrap();
        let refined = blocks(&*refined, &POINTS);
        assert_close(&format!("{text} mean"), &refined.mean, &all.mean, 1e-4);
        // Once the mean is within the tolerance, actions explain variances until little is left to explain.
        let latents = gp.likelihood.latents();
        let trace = |of: &Correlated| -> f64 {
            of.covariance.chunks(latents * latents).flat_map(|block| block.iter().step_by(latents + 1)).sum()
        };
        let [before, refined, all] = [&before, &refined, &all].map(trace);
        assert!(all * (1.0 - 1e-6) < refined && refined < before.min(1.01 * all), "{text}: {before} {refined} {all}");
    }
}
