//! Posteriors as functions: random functions of kernels, joint distributions and fantasies, and sample paths.

#[path = "common/mod.rs"]
mod common;

use burn::tensor::{DType, Tensor, TensorData};
use cagey::Result;
use cagey::fitted::{Fit, Registry};
use cagey::kernels::Kernel;
use cagey::kernels::features::RandomFunctions;
use cagey::likelihoods::{Gaussian, Poisson, RateLink};
use cagey::means::Mean;
use cagey::models::Observations;
use cagey::models::cagp::{Actions, Cagp, CagpOptions, IterativeCagp};
use cagey::models::exact::ExactGp;
use cagey::models::functions::PathOptions;
use cagey::models::gp_model::GpModel;
use cagey::models::minibatch::Rows;
use cagey::models::posterior::Posterior;
use cagey::models::sgpr::Sgpr;
use cagey::models::svgp::{Svgp, SvgpOptions};
use cagey::scope::{Scope, to_f64};
use common::{F64, data};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

/// Points `[r, d]` of which gradients are recorded.
fn tracked(x: &[f64], d: usize) -> Tensor<2> {
    let device = F64.device().unwrap().autodiff();
    Tensor::<2>::from_data(TensorData::new(x.to_vec(), [x.len() / d, d]), (&device, DType::F64)).require_grad()
}

/// Compares a gradient in the points with central differences.
fn gradient_is_right(name: &str, x: &[f64], d: usize, value: impl Fn(&Tensor<2>) -> Result<Tensor<1>>) {
    let points = tracked(x, d);
    let slopes = to_f64(points.grad(&value(&points).unwrap().backward()).unwrap()).unwrap();
    let size = slopes.iter().fold(0.0_f64, |most, slope| most.max(slope.abs()));
    assert!(size > 1e-3, "{name}: a gradient of {size} shows nothing");
    for (i, slope) in slopes.iter().enumerate() {
        let at = |h: f64| {
            let mut x = x.to_vec();
            x[i] += h;
            to_f64(value(&tracked(&x, d)).unwrap()).unwrap()[0]
        };
        let numeric = (at(1e-5) - at(-1e-5)) / 2e-5;
        assert!((slope - numeric).abs() <= 1e-6 * size, "{name}: {i}: {slope}, {numeric} expected");
    }
}

#[test]
fn the_second_moments_of_random_functions_are_the_kernel() {
    let (scope, count) = (Scope::new(F64).unwrap(), 200_000);
    let check = |text: &str, d: usize| {
        let kernel = Kernel::parse(text, d).unwrap();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(4);
        let functions = RandomFunctions::draw(&kernel, &scope, d, count, &mut rng).unwrap();
        let x = [0.1, 0.9, -0.4, 1.2, 0.3, -0.5, 1.1, 0.2];
        let x = scope.matrix(&x, 8 / d, d);
        let values = to_f64(functions.at(&kernel, &scope, &x).unwrap()).unwrap();
        let gram = to_f64(kernel.gram(&scope, &x).unwrap()).unwrap();
        let rows: Vec<&[f64]> = values.chunks(count).collect();
        for (e, want) in gram.iter().enumerate() {
            let products: Vec<f64> =
                rows[e / rows.len()].iter().zip(rows[e % rows.len()]).map(|(a, b)| a * b).collect();
            let mean = products.iter().sum::<f64>() / count as f64;
            let variance = products.iter().map(|p| (p - mean).powi(2)).sum::<f64>() / count as f64;
            let error = (variance / count as f64).sqrt();
            assert!((mean - want).abs() < 4.5 * error, "{text}: {mean} ± {error}, {want} expected");
            assert!(error < 0.03 * want.abs().max(1.0), "{text}: an error of {error} shows nothing");
        }
        // Of sums, the parts are independent.
        let sum: f64 = values.iter().sum();
        assert!((sum / values.len() as f64).abs() < 0.02, "{text}: mean {sum}");
    };
    for text in [
        "rbf(lengthscale=0.7, variance=1.3)",
        "matern12(ard)",
        "matern32(dims=[1])",
        "matern52",
        "rq(alpha=0.8)",
        "periodic",
        "cosine_sum",
        "spectral_mixture(components=2)",
        "linear(ard)",
        "constant(variance=0.6)",
        "polynomial(power=2)",
        "projection(rbf, dim=1)",
        "rbf * linear + constant * periodic",
    ] {
        check(text, 2);
    }
    for text in ["periodic_norm(lengthscale=0.8)", "cosine_norm", "rbf * cosine_norm"] {
        check(text, 1);
    }
    for text in ["rbf + white", "wiener", "rbf * periodic_norm"] {
        let name = text.split(' ').next_back().unwrap();
        let kernel = Kernel::parse(text, 2).unwrap();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(4);
        let told = RandomFunctions::draw(&kernel, &scope, 2, 3, &mut rng).unwrap_err().to_string();
        assert!(
            told.contains(&format!("`{name}` has no random functions")) && told.contains("joint samples"),
            "{told}"
        );
    }
}

const TEXT: &str = "matern52(lengthscale=0.9) + linear(variance=0.2) * periodic(period=2.5)";

/// Posteriors of all models with paths, of rows with a known noise each.
fn posteriors(text: &str) -> Vec<(&'static str, Box<dyn Posterior>)> {
    let rows = data(24, 2);
    let known = (0..24).map(|i| 0.02 * f64::from(i % 3)).collect();
    let rows = Observations::new(rows.x.clone(), 2, rows.y.clone(), Some(known)).unwrap();
    let kernel = || Kernel::parse(text, 2).unwrap();
    let z: Vec<f64> = (0..12).map(|i| 1.7 * (f64::from(i) * 2.4).sin()).collect();
    let mut exact = ExactGp::new(kernel());
    exact.prior.mean = Mean::named("linear", 2).unwrap();
    let sgpr = Sgpr::new(kernel(), &z, 2).unwrap();
    let mut svgp = Svgp::new(kernel(), &z, 2, Gaussian::new(0.2)).unwrap();
    svgp.natural_step(F64, &rows.batch(&Scope::new(F64).unwrap()), 0.8).unwrap();
    let cagp = Cagp::new(kernel(), Actions::random(24, 8, 3).unwrap());
    let counts = rows.y.iter().map(|y| (2.0 * y).exp().round()).collect();
    let counts = Observations::new(rows.x.clone(), 2, counts, None).unwrap();
    let newton = IterativeCagp::newton(kernel(), Poisson { link: RateLink::Exp }, 9).posterior(F64, counts).unwrap().0;
    vec![
        ("cagp of counts", Box::new(newton)),
        ("exact", Box::new(exact.posterior(F64, rows.clone()).unwrap())),
        ("sgpr", Box::new(sgpr.posterior(F64, rows.clone()).unwrap())),
        ("svgp", Box::new(svgp.posterior(F64).unwrap())),
        ("cagp", Box::new(cagp.posterior(F64, rows).unwrap())),
    ]
}

const POINTS: [f64; 8] = [0.3, -0.7, 1.6, 0.4, -1.1, 0.9, 2.6, -1.4];

#[test]
fn paths_have_the_mean_and_the_covariance_of_the_posterior() {
    let count = 10_000;
    for (name, posterior) in posteriors(TEXT) {
        let joint = posterior.predict_joint(&POINTS).unwrap();
        let paths = posterior.paths(PathOptions::new(count, 5).functions(24)).unwrap();
        let values = paths.values(&POINTS).unwrap();
        let rows: Vec<&[f64]> = values.chunks(count).collect();
        let c = |i: usize, j: usize| joint.covariance[i * 4 + j];
        for i in 0..4 {
            let mean = rows[i].iter().sum::<f64>() / count as f64;
            let error = (c(i, i) / count as f64).sqrt();
            assert!((mean - joint.mean[i]).abs() < 4.5 * error, "{name}: mean {mean} ± {error}, {}", joint.mean[i]);
            for j in 0..4 {
                let of = |(a, b): (&f64, &f64)| (a - joint.mean[i]) * (b - joint.mean[j]);
                let found = rows[i].iter().zip(rows[j]).map(of).sum::<f64>() / count as f64;
                let error = ((c(i, i) * c(j, j) + c(i, j).powi(2)) / count as f64).sqrt();
                assert!((found - c(i, j)).abs() < 4.5 * error, "{name}: {found} ± {error}, {} expected", c(i, j));
            }
        }
    }
}

#[test]
fn paths_are_functions_with_gradients() {
    for (name, posterior) in posteriors(TEXT) {
        let paths = posterior.paths(PathOptions::new(3, 2)).unwrap();
        let all = to_f64(paths.at(&tracked(&POINTS, 2)).unwrap()).unwrap();
        for (got, want) in all.iter().zip(paths.values(&POINTS).unwrap()) {
            assert!((got - want).abs() < 1e-10, "{name}: {got} {want}");
        }
        let second = paths.only(1).unwrap();
        for (got, want) in all.chunks(3).zip(second.values(&POINTS).unwrap()) {
            assert!((got[1] - want).abs() < 1e-10, "{name}: {got:?} {want}");
        }
        gradient_is_right(name, &POINTS, 2, |x| Ok((second.at(x)? * second.at(x)?).sum()));
        let again = posterior.paths(PathOptions::new(3, 2)).unwrap().values(&POINTS).unwrap();
        assert_eq!(again, paths.values(&POINTS).unwrap());
        assert!(paths.only(3).unwrap_err().to_string().contains("no path 3"));
        assert!(paths.at(&tracked(&POINTS, 1)).unwrap_err().to_string().contains("2 columns"));
    }
    for (name, posterior) in posteriors("rbf + white(variance=0.1)") {
        let told = posterior.paths(PathOptions::new(3, 2)).unwrap_err().to_string();
        assert!(told.contains("`white` has no random functions"), "{name}: {told}");
    }
}

#[test]
fn joint_distributions_give_samples_with_gradients() {
    let base: Vec<f64> = (0..12).map(|i| (1.3 * f64::from(i)).sin()).collect();
    for (name, posterior) in posteriors(TEXT) {
        let joint = posterior.predict_joint(&POINTS).unwrap();
        let normal = posterior.joint(tracked(&POINTS, 2)).unwrap().unwrap();
        // Of unit vectors, samples are the columns of L.
        let unit: Vec<f64> = (0..16).map(|e| f64::from(u8::from(e % 5 == 0))).collect();
        let samples = to_f64(normal.samples(&unit).unwrap()).unwrap();
        let lower = |i: usize, j: usize| samples[i * 4 + j] - joint.mean[i];
        for e in 0..16 {
            let (i, j) = (e / 4, e % 4);
            let product: f64 = (0..4).map(|k| lower(i, k) * lower(j, k)).sum();
            assert!((product - joint.covariance[e]).abs() < 1e-9, "{name}: {product} {}", joint.covariance[e]);
        }
        gradient_is_right(name, &POINTS, 2, |x| {
            let samples = posterior.joint(x.clone())?.unwrap().samples(&base)?;
            Ok((samples.clone() * samples).sum())
        });
        assert!(normal.samples(&base[..3]).unwrap_err().to_string().contains("one for each point"));
    }
}

/// Fantasies are what conditioning on the same values gives.
#[test]
fn fantasies_are_the_posterior_given_their_values() {
    let rows = data(15, 2);
    let model = ExactGp::new(Kernel::parse(TEXT, 2).unwrap());
    let posterior = model.posterior(F64, rows).unwrap();
    let noise = model.likelihood.noise.values()[0];
    let values = [0.4, -0.2, 1.1, 0.3];
    let y = Scope::new(F64).unwrap().matrix(&values, 2, 2);
    let fantasies = posterior.joint(tracked(&POINTS, 2)).unwrap().unwrap().given(&y, noise).unwrap();
    let (mean, covariance) = (to_f64(fantasies.mean).unwrap(), to_f64(fantasies.covariance).unwrap());
    for s in 0..2 {
        let more = Observations::new(POINTS[..4].to_vec(), 2, vec![values[s], values[2 + s]], None).unwrap();
        let want = posterior.condition(&more).unwrap().predict_joint(&POINTS[4..]).unwrap();
        for i in 0..2 {
            assert!((mean[i * 2 + s] - want.mean[i]).abs() < 1e-10);
        }
        covariance.iter().zip(want.covariance).for_each(|(got, want)| assert!((got - want).abs() < 1e-10));
    }
    // Values that depend on the points, as in a lookahead.
    gradient_is_right("fantasies", &POINTS, 2, |x| {
        let normal = posterior.joint(x.clone())?.unwrap();
        let fantasies = normal.given(&normal.part(0..2).samples(&[0.3, -0.8, 1.2, 0.1])?, noise)?;
        Ok(fantasies.mean.clone().powi_scalar(2).sum() + fantasies.covariance.sum())
    });
    let normal = posterior.joint(tracked(&POINTS, 2)).unwrap().unwrap();
    assert!(normal.given(&Tensor::cat(vec![y; 3], 0), noise).unwrap_err().to_string().contains("1 to 4 rows"));
}

/// Rows of a posterior, and rows that come later.
fn later() -> (Observations, Observations) {
    let rows = data(20, 2);
    (rows.gather(&(0..15).collect::<Vec<_>>()).unwrap(), rows.gather(&(15..20).collect::<Vec<_>>()).unwrap())
}

fn close(name: &str, got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len());
    for (got, want) in got.iter().zip(want) {
        assert!((got - want).abs() <= tolerance, "{name}: {got}, {want} expected");
    }
}

/// Actions that saw the first rows, conditioned on the others exactly.
#[test]
fn later_rows_condition_a_computation_aware_posterior() {
    let ((first, more), noise) = (later(), 0.1);
    let dense: Vec<f64> = (0..15 * 6).map(|e| (0.37 * f64::from(e * e)).sin()).collect();
    for actions in [Actions::dense(&dense, 6), Actions::averages(15, 6).unwrap()] {
        let model = Cagp::new(Kernel::parse("rbf", 2).unwrap(), actions);
        let posterior = model.posterior(F64, first.clone()).unwrap();
        let joint = posterior.joint(tracked(&[&more.x[..], &POINTS].concat(), 2)).unwrap().unwrap();
        let given = joint.given(&Scope::new(F64).unwrap().matrix(&more.y, 5, 1), noise).unwrap();
        let updated = posterior.updated(&more).unwrap().unwrap();
        let found = updated.predict_joint(&POINTS).unwrap();
        close("mean", &found.mean, &to_f64(given.mean).unwrap(), 1e-9);
        close("covariance", &found.covariance, &to_f64(given.covariance).unwrap(), 1e-9);
        // One after another, and from a file.
        let step = |at: std::ops::Range<usize>, before: &dyn Posterior| {
            before.updated(&more.gather(&at.collect::<Vec<_>>()).unwrap()).unwrap().unwrap()
        };
        let slowly = step(2..5, &*step(0..2, &posterior));
        close("slowly", &slowly.predict_joint(&POINTS).unwrap().mean, &found.mean, 1e-9);
        let all = first.extended(&more).unwrap();
        let restored = model.restore(F64, all, updated.saved(true).unwrap()).unwrap();
        close("restored", &restored.predict_joint(&POINTS).unwrap().covariance, &found.covariance, 1e-12);
    }
}

#[test]
fn later_rows_condition_a_variational_model() {
    let (first, more) = later();
    let (scope, kernel) = (Scope::new(F64).unwrap(), || Kernel::parse("matern32", 2).unwrap());
    // With all rows as inducing inputs, it is exact.
    let mut model = Svgp::new(kernel(), &first.x, 2, Gaussian::new(0.1)).unwrap();
    model.natural_step(F64, &first.batch(&scope), 1.0).unwrap();
    let updated = model.updated(F64, &more).unwrap();
    let mut exact = ExactGp::new(kernel());
    exact.likelihood.noise.set(&[0.1]).unwrap();
    let exact = exact.posterior(F64, first.extended(&more).unwrap()).unwrap().predict_joint(&POINTS).unwrap();
    let found = updated.posterior(F64).unwrap().predict_joint(&POINTS).unwrap();
    close("mean", &found.mean, &exact.mean, 1e-8);
    close("covariance", &found.covariance, &exact.covariance, 1e-8);
    // A row that is there twice is one inducing input.
    let twice = Observations::new([&more.x[..2], &more.x[..2]].concat(), 2, vec![0.3, 0.5], None).unwrap();
    assert_eq!(model.updated(F64, &twice).unwrap().processes[0].len(), 16);
    // Of counts, rows that are far from all others have the optimum of a model of them alone.
    let far = Observations::new(vec![90.0, 90.0, 91.0, 90.5, 90.4, 89.6], 2, vec![3.0, 1.0, 6.0], None).unwrap();
    let points = [90.2, 90.1, 91.0, 89.5];
    let counts = |z: &[f64]| Svgp::boxed(kernel(), z, 2, common::likelihood("poisson(exp)")).unwrap();
    let found = counts(&first.x).updated(F64, &far).unwrap().posterior(F64).unwrap().predict_joint(&points).unwrap();
    let mut alone = counts(&far.x);
    for _ in 0..60 {
        alone.natural_step(F64, &far.batch(&scope), 0.5).unwrap();
    }
    let want = alone.posterior(F64).unwrap().predict_joint(&points).unwrap();
    close("counts", &found.mean, &want.mean, 1e-8);
    close("counts", &found.covariance, &want.covariance, 1e-8);
    let diagonal = counts(&first.x).covariance(cagey::models::variational::Covariance::Diagonal);
    assert!(diagonal.updated(F64, &far).unwrap_err().to_string().contains("full covariance"));
}

#[test]
fn updated_models_are_saved() {
    let rows = data(40, 2);
    let table = |range: std::ops::Range<usize>| {
        let x = rows.x[2 * range.start..2 * range.end].iter().map(|x| 3.0 * x + 1.0).collect();
        let y = rows.y[range].iter().map(|y| 500.0 + 40.0 * y).collect();
        cagey::data::Dataset::new(["a", "b"], x).unwrap().with_target("y", y).unwrap()
    };
    let (first, more) = (table(0..30), table(30..40));
    let choices: [cagey::models::options::ModelChoice; 2] =
        [CagpOptions::default().actions(8).into(), SvgpOptions::default().inducing(10).into()];
    for model in choices {
        let fitted = Fit::new(&first).kernel("rbf(ard)").model(model).steps(20).run().unwrap();
        let updated = fitted.update(&more).unwrap();
        let error = |fitted: &cagey::fitted::Fitted| {
            let all = fitted.predict_latent(&more).unwrap();
            all.iter().zip(more.y.as_ref().unwrap()).map(|(p, y)| (p.mean() - y).powi(2)).sum::<f64>()
        };
        assert!(error(&updated) < 0.9 * error(&fitted), "{} {}", error(&updated), error(&fitted));
        let loaded =
            cagey::fitted::Fitted::from_bytes(&updated.to_bytes().unwrap(), &Registry::default(), None).unwrap();
        let [again, want] = [&loaded, &updated].map(|fitted| fitted.predict_latent(&first).unwrap());
        for (again, want) in again.iter().zip(want) {
            assert!((again.mean() - want.mean()).abs() < 1e-5 && (again.sd() - want.sd()).abs() < 1e-5);
        }
    }
}

#[test]
fn fitted_models_are_functions_in_the_users_units() {
    let rows = data(30, 2);
    let x: Vec<f64> = rows.x.iter().enumerate().map(|(i, x)| if i % 2 == 0 { 20.0 + 3.0 * x } else { *x }).collect();
    let y = rows.y.iter().map(|y| 500.0 + 40.0 * y).collect();
    let table = cagey::data::Dataset::new(["a", "b"], x.clone()).unwrap().with_target("y", y).unwrap();
    let fitted = Fit::new(&table).kernel("rbf(ard)").steps(20).run().unwrap();
    let at = &x[..8];
    let joint = fitted.predict_joint(&fitted.table(at).unwrap()).unwrap();
    let normal = fitted.joint(fitted.points(at).unwrap()).unwrap();
    let covariance = to_f64(normal.covariance).unwrap();
    to_f64(normal.mean).unwrap().iter().zip(&joint.mean).for_each(|(got, want)| assert!((got - want).abs() < 1e-8));
    covariance.iter().zip(&joint.covariance).for_each(|(got, want)| assert!((got - want).abs() < 1e-6));
    let paths = fitted.paths(PathOptions::new(2000, 3).functions(64)).unwrap();
    let values = to_f64(paths.at(fitted.points(at).unwrap()).unwrap()).unwrap();
    for (row, values) in values.chunks(2000).enumerate() {
        let mean = values.iter().sum::<f64>() / 2000.0;
        let error = (joint.covariance[row * 5] / 2000.0).sqrt();
        assert!((mean - joint.mean[row]).abs() < 4.5 * error, "{mean} ± {error}, {}", joint.mean[row]);
    }
    gradient_is_right("a fitted path", at, 2, |x| Ok(paths.only(4)?.at(x.clone())?.sum()));
}
