//! Averages of fitted models against their members: predictions, leaving rows out, new rows, files, threads.

use std::ops::ControlFlow;
use std::time::Duration;

use burn::tensor::{DType, Tensor, TensorData};
use cagey::ErrorKind;
use cagey::data::{Dataset, Schema, Split, TargetTransform, WarpKind, Warping};
use cagey::device::{Compute, DeviceKind, Precision};
use cagey::fitted::average::{AVERAGE, OF_MODELS, candidates};
use cagey::fitted::{Calibrate, Fitted, Member, Plan, Registry, Settings};
use cagey::metrics::{Predictive, TargetPrediction};
use cagey::models::experts::ExpertsOptions;
use cagey::models::functions::PathOptions;
use cagey::models::laplace::LaplaceOptions;
use cagey::models::minibatch::Minibatches;
use cagey::models::nearest::NearestOptions;
use cagey::models::options::ModelChoice;
use cagey::models::race::Starts;
use cagey::models::sgpr::SgprOptions;
use cagey::models::svgp::SvgpOptions;
use cagey::train::{CheckpointPlan, Observer, Report, TrainConfig};
use rayon::ThreadPoolBuilder;

/// Rows from `from` to below `to` of a smooth positive target with noise.
fn rows(from: usize, to: usize) -> Dataset {
    let row = |i: usize| [0.21 * (i * 7 % 50) as f64, (1.3 * i as f64).cos()];
    let y = |i: usize| {
        let [a, b] = row(i);
        (0.5 * a.sin() + 0.3 * b + 0.1 * (7.7 * i as f64).sin()).exp()
    };
    let x = (from..to).flat_map(row).collect();
    Dataset::new(["a", "b"], x).unwrap().with_target("y", (from..to).map(y).collect()).unwrap()
}

fn schema(data: &Dataset) -> Schema {
    Schema::numeric(data)
}

fn settings() -> Settings {
    Settings { kernel: AVERAGE.into(), ..Settings::default() }
}

fn fit(data: &Dataset, settings: Settings, config: &TrainConfig) -> Fitted {
    Fitted::fit(schema(data), data, settings, config, &Registry::default(), &mut []).unwrap()
}

fn steps(count: usize) -> TrainConfig {
    TrainConfig::new(cagey::train::Optimizer::default(), count)
}

fn close(a: f64, b: f64, tolerance: f64, what: &str) {
    assert!((a - b).abs() <= tolerance * (1.0 + b.abs()), "{what}: {a} for {b}");
}

/// Σ w f over what the members predict of one row.
fn weighted(members: &[Member], parts: &[Predictive], f: impl Fn(&Predictive) -> f64) -> f64 {
    members.iter().zip(parts).map(|(member, part)| member.weight * f(part)).sum()
}

#[test]
fn predictions_are_those_of_the_members_by_weight() {
    let (data, new) = (rows(0, 40), rows(40, 46));
    let fitted = fit(&data, settings(), &steps(8));
    let members = fitted.members();
    // Ranks break the sine of an even input.
    assert_eq!((members.len(), fitted.summary.unheard.len()), (7, 1));
    assert_eq!(members.iter().filter(|m| m.fitted.settings.target_transform == TargetTransform::Log).count(), 1);
    close(members.iter().map(|m| m.weight).sum(), 1.0, 1e-12, "weights");
    assert!(members.is_sorted_by(|a, b| a.weight >= b.weight));
    for pair in members.windows(2) {
        let score = |m: &Member| -40.0 * (m.evidence + m.left_out) / 32.0;
        close((pair[0].weight / pair[1].weight).ln(), score(&pair[0]) - score(&pair[1]), 1e-9, "ratio of weights");
    }
    for member in members {
        let (y, left) = member.fitted.uncalibrated().leave_one_out().unwrap();
        let density = y.iter().zip(&left).map(|(y, p)| -p.log_density(*y)).sum::<f64>() / 40.0;
        close(member.left_out, density, 1e-12, "left-out density");
    }
    let predictions = fitted.predict(&new).unwrap();
    let latent = fitted.predict_latent(&new).unwrap();
    let joint = fitted.predict_joint(&new).unwrap();
    let each: Vec<Vec<Predictive>> = members.iter().map(|m| m.fitted.predict(&new).unwrap()).collect();
    for (row, prediction) in predictions.iter().enumerate() {
        let parts: Vec<Predictive> = each.iter().map(|all| all[row].clone()).collect();
        let mean = weighted(members, &parts, Predictive::mean);
        close(prediction.mean(), mean, 1e-12, "mean");
        let square = weighted(members, &parts, |p| p.sd().powi(2) + (p.mean() - mean).powi(2));
        close(prediction.sd(), square.sqrt(), 1e-12, "sd");
        for p in [0.025, 0.5, 0.9] {
            let quantile = prediction.quantile(p);
            close(weighted(members, &parts, |part| part.cdf(quantile)), p, 1e-10, "quantile");
        }
        let y = new.y.as_ref().unwrap()[row];
        close(prediction.log_density(y).exp(), weighted(members, &parts, |p| p.log_density(y).exp()), 1e-12, "density");
        close(joint.mean[row], latent[row].mean(), 1e-9, "joint mean");
        close(joint.covariance[row * 7], latent[row].sd().powi(2), 1e-9, "joint variance");
    }
}

/// The model on other rows, with every parameter as it is.
fn refitted(fitted: &Fitted, data: &Dataset) -> Fitted {
    let init = fitted.model.parameters().into_iter().map(|(path, p)| (path, p.values())).collect();
    fit(data, Settings { init, ..fitted.settings.clone() }, &steps(0))
}

#[test]
fn rows_left_out_are_predicted_as_after_a_fit_without_them() {
    let data = rows(0, 25);
    let plain = Settings { standardize: false, calibrate: Calibrate::No, starts: Starts::Data, ..settings() };
    let fitted = fit(&data, plain, &steps(0));
    let (y, left) = fitted.leave_one_out().unwrap();
    for row in [0, 7, 24] {
        let others: Vec<usize> = (0..25).filter(|i| *i != row).collect();
        let own = data.subset(&[row]);
        let parts = fitted.members().iter().map(|m| {
            let alone = refitted(&m.fitted, &data.subset(&others));
            (m.weight, alone.predict(&own).unwrap().remove(0))
        });
        let refitted = Predictive::Average(parts.collect());
        close(left[row].mean(), refitted.mean(), 1e-9, "mean");
        close(left[row].sd(), refitted.sd(), 1e-9, "sd");
        close(left[row].quantile(0.9), refitted.quantile(0.9), 1e-8, "quantile");
        close(left[row].log_density(y[row]), refitted.log_density(y[row]), 1e-9, "density");
    }
}

#[test]
fn new_rows_move_the_weights_by_the_density_that_members_gave_them() {
    let (data, more) = (rows(0, 30), rows(30, 36));
    let fitted = fit(&data, Settings { calibrate: Calibrate::No, ..settings() }, &steps(5));
    let updated = fitted.update(&more).unwrap();
    assert_eq!(updated.summary.rows, 36);
    for member in fitted.members() {
        let after = updated.members().iter().find(|other| other.name() == member.name()).unwrap();
        // Minus the log evidence of 36 rows is that of 30 and the density of the others given these.
        let scale = &member.fitted.target_scale;
        let noise = member.fitted.noise().unwrap();
        let (x, _) = member.fitted.standardise(&more).unwrap();
        let joint = member.fitted.posterior().predict_joint(&x).unwrap();
        let z = scale.forward(&more).unwrap();
        let mut density = 0.0;
        for y in more.y.as_ref().unwrap() {
            density -= scale.log_jacobian(*y);
        }
        density += minus_log_normal(&z, &joint.mean, joint.covariance, noise);
        close(36.0 * after.evidence - 30.0 * member.evidence, density, 1e-7, &member.name());
        let direct = member.fitted.update(&more).unwrap().predict(&more).unwrap();
        let by_average = after.fitted.predict(&more).unwrap();
        assert_eq!(direct, by_average);
    }
    let weights = |fitted: &Fitted| {
        let mut all: Vec<_> = fitted.members().iter().map(|m| (m.name(), m.weight)).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    };
    assert_ne!(weights(&fitted), weights(&updated));
}

/// −ln N(z; mean, covariance + noise), by elimination.
fn minus_log_normal(z: &[f64], mean: &[f64], mut a: Vec<f64>, noise: f64) -> f64 {
    let n = z.len();
    let mut r: Vec<f64> = z.iter().zip(mean).map(|(z, m)| z - m).collect();
    a.iter_mut().step_by(n + 1).for_each(|diagonal| *diagonal += noise);
    let mut total = 0.5 * n as f64 * (2.0 * std::f64::consts::PI).ln();
    for i in 0..n {
        let pivot = a[i * n + i];
        total += 0.5 * (pivot.ln() + r[i] * r[i] / pivot);
        for j in i + 1..n {
            let factor = a[j * n + i] / pivot;
            for k in i..n {
                a[j * n + k] -= factor * a[i * n + k];
            }
            r[j] -= factor * r[i];
        }
    }
    total
}

#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    let (data, new) = (rows(0, 35), rows(35, 40));
    let run = |threads: usize| {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let fitted = fit(&data, settings(), &steps(6));
            let weights: Vec<(String, f64)> = fitted.members().iter().map(|m| (m.name(), m.weight)).collect();
            (weights, fitted.predict(&new).unwrap())
        })
    };
    assert_eq!(run(1), run(2));
}

#[test]
fn a_file_holds_every_member() {
    let (data, more, new) = (rows(0, 30), rows(30, 34), rows(40, 45));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("average.cagey");
    let fitted = fit(&data, settings(), &steps(5));
    fitted.save(&path).unwrap();
    let loaded = Fitted::load(&path).unwrap();
    assert_eq!(loaded.predict(&new).unwrap(), fitted.predict(&new).unwrap());
    assert_eq!(loaded.to_bytes().unwrap(), fitted.to_bytes().unwrap());
    assert_eq!(loaded.summary, fitted.summary);
    for (read, member) in loaded.members().iter().zip(fitted.members()) {
        let alone = folder.path().join("alone.cagey");
        read.fitted.save(&alone).unwrap();
        let alone = Fitted::load(&alone).unwrap();
        assert!(alone.members().is_empty());
        assert_eq!(alone.predict(&new).unwrap(), member.fitted.predict(&new).unwrap());
    }
    let updated = loaded.update(&more).unwrap();
    let again = Fitted::from_bytes(&updated.to_bytes().unwrap(), &Registry::default(), None).unwrap();
    // A file is conditioned on all rows at once, and an update on some after the others: they differ by rounding.
    let others = fitted.update(&more).unwrap().predict(&new).unwrap();
    for (a, b) in again.predict(&new).unwrap().iter().zip(&others) {
        assert!((a.mean() - b.mean()).abs() < 1e-9 && (a.sd() - b.sd()).abs() < 1e-9, "{a:?} {b:?}");
    }
}

#[test]
fn weights_survive_an_interrupted_training() {
    let data = rows(0, 30);
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let whole = fit(&data, settings(), &steps(12));
    // Within the first member, and within the third.
    for ended in [EndedAt(0, 4), EndedAt(2, 4)] {
        let saving = TrainConfig { checkpoint: Some(CheckpointPlan::every_steps(&state, 1)), ..steps(12) };
        let registry = Registry::default();
        Fitted::fit(schema(&data), &data, settings(), &saving, &registry, &mut [&mut { ended }]).unwrap();
        let resumed = fit(&data, settings(), &TrainConfig { resume: Some(state.clone()), ..steps(12) });
        for (a, b) in resumed.members().iter().zip(whole.members()) {
            assert_eq!((a.name(), a.weight), (b.name(), b.weight));
        }
    }
    let names = std::fs::read_dir(folder.path()).unwrap().count();
    assert!(names >= 3, "one state for each member that began");
}

#[test]
fn samples_have_the_moments_of_the_average() {
    let (data, new) = (rows(0, 30), rows(41, 43));
    let kernel = "average(log=false)".into();
    let fitted = fit(&data, Settings { kernel, ..settings() }, &steps(5));
    assert_eq!(fitted.members().len(), 6);
    let joint = fitted.predict_joint(&new).unwrap();
    let count = 4000;
    let samples = fitted.sample(&new, count, 3).unwrap();
    assert_eq!(samples, fitted.sample(&new, count, 3).unwrap());
    let mean = |f: &dyn Fn(&Vec<f64>) -> f64| samples.iter().map(f).sum::<f64>() / count as f64;
    for i in 0..2 {
        let sd = joint.covariance[3 * i].sqrt();
        assert!((mean(&|s| s[i]) - joint.mean[i]).abs() < 5.0 * sd / (count as f64).sqrt());
        for j in 0..2 {
            let found = mean(&|s| (s[i] - joint.mean[i]) * (s[j] - joint.mean[j]));
            let size = (joint.covariance[3 * i] * joint.covariance[3 * j]).sqrt();
            assert!((found - joint.covariance[2 * i + j]).abs() < 0.15 * size, "{found}");
        }
    }
}

#[test]
fn moments_are_differentiable() {
    let data = rows(0, 30);
    let fitted = fit(&data, settings(), &steps(5));
    let compute = Compute { kind: DeviceKind::Flex, precision: Precision::F64 };
    let device = compute.device().unwrap().autodiff();
    let at = [3.1, 0.2];
    let moments = |x: [f64; 2]| {
        let x = Tensor::<2>::from_data(TensorData::new(x.to_vec(), [1, 2]), (&device, DType::F64)).require_grad();
        let [mean, variance] = fitted.moments(x.clone()).unwrap();
        let gradient = x.grad(&mean.clone().sum().backward()).unwrap();
        let number = |t: Tensor<1>| t.into_data().iter::<f64>().next().unwrap();
        (number(mean), number(variance), gradient.into_data().iter::<f64>().collect::<Vec<f64>>())
    };
    let (mean, variance, gradient) = moments(at);
    let latent = fitted.predict_latent(&fitted.table(&at).unwrap()).unwrap().remove(0);
    close(mean, latent.mean(), 1e-9, "mean");
    close(variance, latent.sd().powi(2), 1e-8, "variance");
    for column in 0..2 {
        let mean = |step: f64| {
            let mut x = at;
            x[column] += step;
            fitted.predict_latent(&fitted.table(&x).unwrap()).unwrap()[0].mean()
        };
        close(gradient[column], (mean(1e-4) - mean(-1e-4)) / 2e-4, 1e-6, "gradient");
    }
}

/// Paths come from members in the shares of their weights, in the target's units.
#[test]
fn paths_are_those_of_the_members() {
    let fitted = fit(&rows(0, 30), settings(), &steps(5));
    let paths = fitted.paths(PathOptions::new(6000, 2).functions(16)).unwrap();
    assert_eq!(paths.count(), 6000);
    let at = [3.1, 0.2];
    let values = cagey::scope::to_f64(paths.at(fitted.points(&at).unwrap()).unwrap()).unwrap();
    let latent = fitted.predict_latent(&fitted.table(&at).unwrap()).unwrap().remove(0);
    let mean = values.iter().sum::<f64>() / 6000.0;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 6000.0;
    close(mean, latent.mean(), 5.0 * latent.sd() / 6000f64.sqrt(), "mean");
    close(variance.sqrt(), latent.sd(), 0.15 * latent.sd(), "sd");
    let last = cagey::scope::to_f64(paths.only(5999).unwrap().at(fitted.points(&at).unwrap()).unwrap()).unwrap();
    close(last[0], values[5999], 1e-9, "the last path");
    assert!(paths.only(6000).unwrap_err().to_string().contains("no path 6000"));
    assert!(fitted.joint(fitted.points(&at).unwrap()).unwrap_err().to_string().contains("sample paths"));
}

#[test]
fn members_without_time_are_left_out_and_named() {
    let data = rows(0, 30);
    let config = steps(5).max_time(Duration::ZERO);
    let fitted = fit(&data, Settings { kernel: "average(log=false)".into(), ..settings() }, &config);
    assert_eq!(fitted.members().len(), 1);
    let told = fitted.summary.warnings.iter().filter(|advice| advice.text.starts_with("the average is without"));
    assert_eq!(told.count(), 6);
    let again = Fitted::from_bytes(&fitted.to_bytes().unwrap(), &Registry::default(), None).unwrap();
    assert_eq!(again.summary.warnings, fitted.summary.warnings);
}

/// Ends the training of the member with this number at this step.
struct EndedAt(usize, usize);

impl Observer for EndedAt {
    fn step(&mut self, report: &Report) -> ControlFlow<()> {
        if report.restart == self.0 && report.iteration >= self.1 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

#[test]
fn models_cut_short_are_left_out_of_averages_with_others() {
    let (data, registry) = (rows(0, 30), Registry::default());
    let single = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let fit = |at: usize| {
        let mut ended = EndedAt(at, 0);
        let settings = Settings { kernel: "average(log=false)".into(), starts: Starts::Data, ..settings() };
        single.install(|| Fitted::fit(schema(&data), &data, settings, &steps(8), &registry, &mut [&mut ended])).unwrap()
    };
    let told = |fitted: &Fitted| fitted.summary.warnings.iter().any(|advice| advice.text.contains("was cut short"));
    let third = fit(2);
    assert_eq!(third.members().len(), 2, "{:?}", third.summary.warnings);
    assert!(third.members().iter().all(|member| !member.fitted.summary.is_cut_short()) && told(&third));
    // There is nothing better than the first.
    let first = fit(0);
    assert_eq!(first.members().len(), 1);
    assert!(first.members()[0].fitted.summary.is_cut_short() && !told(&first));
}

#[test]
fn calibration_can_be_taken_off_every_member() {
    let (data, new) = (rows(0, 30), rows(40, 43));
    let fitted = fit(&data, settings(), &steps(5));
    assert!(fitted.is_calibrated());
    let plain = fitted.uncalibrated();
    assert!(!plain.is_calibrated());
    let [a, b] = [&fitted, &plain].map(|fitted| fitted.predict(&new).unwrap()[0].sd());
    assert!(a > b, "{a} {b}");
    fitted.diagnose_left_out(&fitted.left_out().unwrap().unwrap()).unwrap();
}

/// Two classes along two inputs.
fn of_classes(from: usize, to: usize) -> Dataset {
    let data = rows(from, to);
    let class = |i: usize| f64::from(u8::from(data.row(i)[0] - data.row(i)[1] + (3.1 * i as f64).sin() > 5.0));
    let y = (0..data.n).map(class).collect();
    data.with_target("y", y).unwrap()
}

#[test]
fn classes_have_the_weights_of_left_out_densities() {
    let (data, new) = (of_classes(0, 60), of_classes(60, 66));
    let asked = Settings { likelihood: "bernoulli".into(), model: LaplaceOptions::default().into(), ..settings() };
    let fitted = fit(&data, asked.clone(), &steps(20));
    let members = fitted.members();
    assert_eq!(members.len(), 5);
    for pair in members.windows(2) {
        let ratio = (pair[0].weight / pair[1].weight).ln();
        close(ratio, 60.0 * (pair[1].left_out - pair[0].left_out) / 16.0, 1e-9, "ratio of weights");
    }
    for member in members {
        let (y, left) = member.fitted.left_out_targets().unwrap();
        let density = y.iter().zip(&left).map(|(y, p)| -p.log_density(*y)).sum::<f64>() / 60.0;
        close(member.left_out, density, 1e-12, "left-out density");
    }
    let of = |fitted: &Fitted| -> Vec<Vec<f64>> {
        let all = fitted.predict_targets(&new).unwrap();
        all.iter().map(|prediction| prediction.probabilities().unwrap()).collect()
    };
    let each: Vec<_> = members.iter().map(|member| of(&member.fitted)).collect();
    let latents: Vec<_> = members.iter().map(|m| m.fitted.marginals(&new).unwrap().remove(0)).collect();
    let latent = fitted.marginals(&new).unwrap().remove(0);
    for (row, p) in of(&fitted).iter().enumerate() {
        let expected = |of: &dyn Fn(usize) -> f64| -> f64 {
            members.iter().enumerate().map(|(k, member)| member.weight * of(k)).sum()
        };
        close(p[1], expected(&|k| each[k][row][1]), 1e-12, "probability");
        let mean = expected(&|k| latents[k].mean[row]);
        close(latent.mean[row], mean, 1e-12, "mean");
        let square = expected(&|k| latents[k].variance[row] + (latents[k].mean[row] - mean).powi(2));
        close(latent.variance[row], square, 1e-12, "variance");
        close(fitted.predict_mean(new.row(row)).unwrap()[0], p[1], 1e-12, "mean of codes");
    }
    let read = Fitted::from_bytes(&fitted.to_bytes().unwrap(), &Registry::default(), None).unwrap();
    assert_eq!(of(&read), of(&fitted));
    let (y, left) = fitted.left_out_targets().unwrap();
    assert_eq!(y, data.y.unwrap());
    let own = members.iter().map(|m| m.weight * m.fitted.left_out_targets().unwrap().1[7].mean()).sum::<f64>();
    close(left[7].mean(), own, 1e-12, "left-out probability");
    let several = Settings { likelihood: "softmax".into(), ..asked };
    let plan = Plan::new(schema(&of_classes(0, 60)), &of_classes(0, 60), several, 0, &Registry::default());
    assert!(plan.is_err(), "several functions have no closed form");
}

#[test]
fn what_cannot_be_averaged_is_refused() {
    let data = rows(0, 20);
    let registry = Registry::default();
    let plan = |settings: Settings| Plan::new(schema(&data), &data, settings, 0, &registry).unwrap_err();
    let counts = Settings { likelihood: "student-t(4)".into(), ..settings() };
    assert!(plan(counts).to_string().contains("leaving rows out in closed form"));
    assert!(plan(Settings { kernel: "average(rbf)".into(), ..settings() }).to_string().contains("average(log=false)"));
    assert_eq!(Fitted::average(Vec::new()).unwrap_err().kind(), ErrorKind::Request);
    let single = |rows| fit(&rows, Settings::default(), &steps(0));
    let other = Fitted::average(vec![single(rows(0, 20)), single(rows(1, 21))]).unwrap_err();
    assert!(other.to_string().contains("the same rows"), "{other}");
}

#[test]
fn candidates_of_the_logarithm_are_for_positive_targets_that_are_modelled_as_they_are() {
    let data = rows(0, 20);
    let count = |settings: &Settings, data: &Dataset| candidates(settings, data, true).len();
    assert_eq!(count(&settings(), &data), 8);
    let known = Settings { target_transform: TargetTransform::Log1p, ..settings() };
    assert_eq!(count(&known, &data), 7);
    let mut signed = data.clone();
    signed.y.as_mut().unwrap()[3] = -1.0;
    assert_eq!(count(&settings(), &signed), 7);
}

/// Independent numbers that look normal.
fn noise(i: usize) -> f64 {
    let uniform = |k: usize| ((k as f64 * 12.9898).sin() * 43_758.545_3).rem_euclid(1.0);
    (-2.0 * uniform(2 * i + 1).max(1e-9).ln()).sqrt() * (std::f64::consts::TAU * uniform(2 * i + 2)).cos()
}

#[test]
fn a_line_in_more_columns_than_rows_does_not_know_rows_that_it_leaves_out() {
    let (n, d) = (30, 60);
    let names: Vec<String> = (0..d).map(|k| format!("x{k}")).collect();
    let data = Dataset::new(names, (0..n * d).map(|i| noise(i + 1000)).collect()).unwrap();
    let data = data.with_target("y", (0..n).map(noise).collect()).unwrap();
    let line = candidates(&settings(), &data, true)
        .into_iter()
        .find(|one| one.kernel.starts_with("linear + constant"))
        .unwrap();
    let fitted = fit(&data, line, &steps(200));
    // Nothing is to be known: residuals are as large as the targets, and so are the errors that it expects.
    let (y, left) = fitted.uncalibrated().leave_one_out().unwrap();
    let error = |y: &f64, p: &Predictive| (y - p.mean()).powi(2);
    let residuals = y.iter().zip(&left).map(|(y, p)| error(y, p)).sum::<f64>() / n as f64;
    let square = y.iter().map(|y| y * y).sum::<f64>() / n as f64;
    assert!(residuals > 0.9 * square, "{residuals} of {square}");
    let density = y.iter().zip(&left).map(|(y, p)| p.log_density(*y)).sum::<f64>() / n as f64;
    assert!((-2.0..-1.2).contains(&density), "{density}");
}

#[test]
fn a_member_on_ranks_has_the_weight_where_an_input_is_spread_over_decades() {
    let row = |i: usize| [(2.0 * noise(i)).exp(), noise(i + 500)];
    let data = |from: usize, to: usize| {
        let y = |i: usize| (1.5 * row(i)[0].ln()).sin() + 0.3 * row(i)[1];
        let data = Dataset::new(["a", "b"], (from..to).flat_map(row).collect()).unwrap();
        data.with_target("y", (from..to).map(y).collect()).unwrap()
    };
    let (train, test) = (data(0, 60), data(60, 160));
    let fitted = fit(&train, settings(), &steps(100));
    assert_eq!(fitted.members()[0].fitted.settings.input_transform.all, Some(WarpKind::Ranks));
    let single = fit(&train, Settings::default(), &steps(100));
    let error = |fitted: &Fitted| {
        let predictions = fitted.predict(&test).unwrap();
        let squares = predictions.iter().zip(test.y.as_ref().unwrap()).map(|(p, y)| (p.mean() - y).powi(2));
        squares.sum::<f64>()
    };
    assert!(error(&fitted) < 0.5 * error(&single), "{} for {}", error(&fitted), error(&single));
    // Standardised rows are those of the heaviest member.
    let x = fitted.standardise(&test).unwrap().0;
    let close_all = |all: Vec<f64>, others: Vec<f64>| {
        assert_eq!(all.len(), others.len());
        all.iter().zip(others).for_each(|(a, b)| close(*a, b, 1e-9, "at"));
    };
    let means = |all: Vec<Predictive>| all.iter().map(Predictive::mean).collect::<Vec<f64>>();
    close_all(means(fitted.predict_at(&x, None).unwrap()), means(fitted.predict(&test).unwrap()));
    close_all(means(fitted.latent_at(&x).unwrap()), means(fitted.predict_latent(&test).unwrap()));
    let targets = |all: Vec<TargetPrediction>| all.iter().map(TargetPrediction::mean).collect::<Vec<f64>>();
    close_all(targets(fitted.targets_at(&x, None).unwrap()), targets(fitted.predict_targets(&test).unwrap()));
    // Rows are the same, whatever members make of them, also in a file and with more of them.
    let read = Fitted::from_bytes(&fitted.to_bytes().unwrap(), &Registry::default(), None).unwrap();
    assert_eq!(read.predict(&test).unwrap(), fitted.predict(&test).unwrap());
    assert_eq!(read.summary, fitted.summary);
    let updated = read.update(&data(160, 170)).unwrap();
    assert!(updated.members().iter().all(|member| member.fitted.summary.rows == 70));
    assert_eq!(updated.summary.evaluations, fitted.summary.evaluations);
    assert_eq!(updated.sample(&test, 3, 1).unwrap().len(), 3);
    let members = fitted.members().iter().map(|member| member.fitted.clone());
    assert!(Fitted::average(members.collect()).is_ok());
    let linear = |from: usize, to: usize| {
        let (data, row) = (data(from, to), |i: usize| row(i).iter().sum::<f64>() + 0.01 * noise(i + 900));
        data.with_target("y", (from..to).map(row).collect()).unwrap()
    };
    let sum = fit(&linear(0, 60), settings(), &steps(100));
    assert!(sum.members().iter().all(|m| m.fitted.input_scale.warps.is_empty()), "ranks break what is linear");
    let other = fit(&data(1, 61), fitted.members()[0].fitted.settings.clone(), &steps(0));
    assert!(Fitted::average(vec![single, other]).unwrap_err().to_string().contains("the same rows"));
}

#[test]
fn rows_are_set_apart_for_models_that_leave_none_out_in_closed_form() {
    let trained = |model: ModelChoice, rows: usize| {
        let settings = Settings { model, ..Settings::default() };
        settings.trained_rows(rows, &Registry::default()).unwrap()
    };
    let experts = || ExpertsOptions::default().into();
    assert_eq!(trained(experts(), 4999), 4999);
    assert_eq!(trained(experts(), 5000), 4500);
    assert_eq!(trained(experts(), 40_000), 39_000);
    assert_eq!(trained(SgprOptions::default().into(), 40_000), 40_000);
    for likelihood in ["softmax", "softmax(10)", "ordinal(3)", "bernoulli", "bernoulli(probit)"] {
        let settings = |model| Settings { model, likelihood: likelihood.into(), ..Settings::default() };
        let trained = |model| settings(model).trained_rows(5000, &Registry::default()).unwrap();
        assert_eq!(trained(SvgpOptions::default().into()), 4500, "{likelihood}");
        let one = likelihood.starts_with("bernoulli") || likelihood.starts_with("ordinal");
        assert_eq!(trained(LaplaceOptions::default().into()), if one { 5000 } else { 4500 }, "{likelihood}");
    }
}

#[test]
fn models_for_many_rows_have_the_weights_that_rows_set_apart_ask_for() {
    let data = rows(0, 400);
    // L-BFGS needs batches of all rows.
    let batches = Minibatches { size: 400, ..Minibatches::default() };
    let model = NearestOptions::default().neighbours(25).batches(batches).into();
    let asked = Settings { kernel: OF_MODELS.into(), model, ..settings() };
    let run = |threads: usize| {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| fit(&data, asked.clone(), &steps(30).seed(5)))
    };
    let fitted = run(2);
    let names: Vec<String> = fitted.members().iter().map(Member::name).collect();
    assert!(
        ["nearest", "experts"].iter().all(|kind| names.contains(&format!("{kind} with matern32(ard)"))),
        "{names:?}"
    );
    let split = Split::random(400, 0.1, 5).unwrap();
    assert!(fitted.members().iter().all(|member| member.fitted.summary.rows == split.train.len()));
    let apart = data.subset(&split.test);
    let densities: Vec<Vec<f64>> = fitted
        .members()
        .iter()
        .map(|member| {
            let predictions = member.fitted.predict(&apart).unwrap();
            predictions.iter().zip(apart.y.as_ref().unwrap()).map(|(p, y)| p.log_density(*y).exp()).collect()
        })
        .collect();
    // At the maximum, the mean of a member's share is 1 if it has weight, and no more than 1 otherwise.
    let mixed = |row: usize| fitted.members().iter().zip(&densities).map(|(m, own)| m.weight * own[row]).sum::<f64>();
    for (member, own) in fitted.members().iter().zip(&densities) {
        let share = own.iter().enumerate().map(|(row, p)| p / mixed(row)).sum::<f64>() / own.len() as f64;
        let most = if member.weight > 0.0 { (share - 1.0).abs() } else { share - 1.0 };
        assert!(most < 0.02, "{}: {} {share}", member.name(), member.weight);
    }
    let new = rows(400, 405);
    assert_eq!(run(1).predict(&new).unwrap(), fitted.predict(&new).unwrap());
    let again = Fitted::from_bytes(&fitted.to_bytes().unwrap(), &Registry::default(), None).unwrap();
    assert_eq!(again.predict(&new).unwrap(), fitted.predict(&new).unwrap());
    assert!(fitted.left_out().unwrap().is_none(), "experts leave no row out in closed form");
    // New rows join the experts that are nearest, and the rows that neighbours come from; weights stay.
    let updated = fitted.update(&new).unwrap();
    for (member, after) in fitted.members().iter().zip(updated.members()) {
        assert_eq!((after.weight, after.fitted.summary.rows), (member.weight, member.fitted.summary.rows + 5));
        let own = member.fitted.update(&new).unwrap();
        assert_eq!(own.predict(&new).unwrap(), after.fitted.predict(&new).unwrap(), "{}", member.name());
    }
    let near = names.iter().position(|name| name.starts_with("nearest")).unwrap();
    assert!(fitted.members()[1 - near].weight > 0.0);
    let problem = fitted.sample(&new, 3, 0).unwrap_err().to_string();
    assert!(problem.contains(&format!("number {} (nearest", near + 1)), "{problem}");
    assert_eq!(fitted.members()[near].fitted.sample(&new, 3, 0).unwrap().len(), 3);
    // A rule is for the member that has parts; the other predicts as before.
    let ruled = fitted.aggregated("grbcm").unwrap();
    let means = |member: &Member| member.fitted.predict(&new).unwrap().iter().map(|p| p.mean()).collect::<Vec<f64>>();
    let [before, after] = [&fitted, &ruled].map(|of| of.members().iter().map(means).collect::<Vec<_>>());
    assert_eq!(before[near], after[near]);
    let own = fitted.members()[1 - near].fitted.aggregated("grbcm").unwrap();
    assert_eq!(after[1 - near], own.predict(&new).unwrap().iter().map(|p| p.mean()).collect::<Vec<f64>>());
    assert!(fitted.aggregated("rbmc").unwrap_err().to_string().contains("rbcm"));
}

#[test]
fn of_few_rows_the_target_has_no_zero() {
    // Two pairs of rows; the same in other units and with another zero.
    let pairs = |scale: f64, zero: f64| {
        let y = [820.0, 750.0, 1390.0, 1320.0].map(|y| y / scale + zero);
        let x = [25.0, 25.0, 150.0, 150.0].map(|x| x * scale + zero);
        Dataset::new(["x"], x.to_vec()).unwrap().with_target("y", y.to_vec()).unwrap()
    };
    let of = |data: &Dataset| fit(data, settings(), &TrainConfig::while_it_pays());
    let at = |x: f64| Dataset::new(["x"], vec![x]).unwrap();
    let (own, moved) = (of(&pairs(1.0, 0.0)), of(&pairs(1000.0, 7000.0)));
    for x in [25.0, 56.25, 87.5, 118.75, 150.0, 200.0] {
        let own = own.predict(&at(x)).unwrap().remove(0);
        let moved = moved.predict(&at(1000.0 * x + 7000.0)).unwrap().remove(0);
        // In units of the target's standard deviation, 287.
        for p in [0.025, 0.5, 0.975] {
            let by = 1000.0 * (moved.quantile(p) - 7000.0) - own.quantile(p);
            assert!(by.abs() < 1e-5 * 287.0, "{x}: {by} at {p}");
        }
    }
    assert!((840.0..1010.0).contains(&own.predict(&at(56.25)).unwrap()[0].mean()));
}

#[test]
fn beyond_rows_without_noise_the_kernel_of_the_highest_evidence_is_heard() {
    let table = |x: Vec<f64>| {
        let y = x.iter().map(|x| (3.0 * x).sin()).collect();
        Dataset::new(["x"], x).unwrap().with_target("y", y).unwrap()
    };
    let data = table((0..120).map(|i| f64::from(i) / 59.5 - 1.0).collect());
    let fitted = fit(&data, settings(), &TrainConfig::while_it_pays());
    let evidence = |member: &Member| member.evidence;
    let least = fitted.members().iter().map(evidence).fold(f64::INFINITY, f64::min);
    assert!(fitted.members()[0].evidence < least + 0.01, "{:?}", fitted.members()[0].name());
    // Up to half of the span beyond either end.
    let far = table((1..=20).flat_map(|i| [-1.0, 1.0].map(|end| end * (1.0 + 0.05 * f64::from(i)))).collect());
    let predictions = fitted.predict(&far).unwrap();
    let held = |(p, y): (&Predictive, &f64)| {
        let (low, high) = (p.quantile(0.025), p.quantile(0.975));
        low <= *y && *y <= high
    };
    let share = predictions.iter().zip(far.y.as_deref().unwrap()).filter(|row| held(*row)).count();
    assert!(share >= 36, "{share} of 40");
}

#[test]
fn many_rows_of_classes_have_a_regression_of_labels_and_what_adds_to_it() {
    let share = |i: usize, step: f64| (i as f64 * step).fract();
    let x: Vec<f64> = (0..600).flat_map(|i| [share(i, 0.618_033_988_7), share(i, 0.754_877_666_2)]).collect();
    let of = |spread: f64| {
        let class = |(i, x): (usize, &[f64])| (4.0 * x[0] + spread * (share(i, 0.569_840_290_9) - 0.5)).floor();
        let y = x.chunks(2).enumerate().map(class).map(|class| class.clamp(0.0, 3.0)).collect();
        let data = Dataset::new(["a", "b"], x.clone()).unwrap().with_target("y", y).unwrap();
        let model = SvgpOptions::default().inducing(10).into();
        let asked =
            Settings { kernel: OF_MODELS.into(), likelihood: "softmax(4)".into(), model, ..Settings::default() };
        let config = TrainConfig::while_it_pays();
        (fit(&data, asked, &config), data)
    };
    // Classes that are apart need no other model.
    let (alone, data) = of(0.0);
    assert!(alone.members().is_empty() && alone.settings.model.kind() == "label-regression");
    assert!(alone.summary.chosen.as_ref().unwrap().contains("alone"));
    let right = |fitted: &Fitted, data: &Dataset| {
        let predicted = fitted.predict_targets(data).unwrap().into_iter().zip(data.y.as_ref().unwrap());
        predicted.map(|(p, y)| p.log_density(*y)).sum::<f64>() / data.n as f64
    };
    assert!(right(&alone, &data) > -0.2);
    let (mixed, data) = of(2.0);
    // One of them may say so little that it is left out.
    let names = mixed.members().iter().map(Member::name).chain(mixed.summary.unheard.clone());
    let mut kinds: Vec<String> = names.map(|name| name.split(' ').next().unwrap().to_string()).collect();
    kinds.sort();
    assert_eq!(kinds, ["label-regression", "svgp"]);
    assert!(mixed.summary.rows == 540 && right(&mixed, &data) > -1.2);
    // The 60 rows set apart are too few for a temperature.
    assert!(mixed.members().iter().all(|member| member.fitted.temperature.is_none()));
    let loaded = Fitted::from_bytes(&mixed.to_bytes().unwrap(), &Registry::default(), None).unwrap();
    assert_eq!(right(&loaded, &data), right(&mixed, &data));
}

/// What trials choose for many rows whose target is `of` a heavy-tailed input and another one, with noise: how many
/// models, and what is said.
fn many(asked: Settings, of: impl Fn(f64, f64, f64) -> f64) -> (usize, Option<String>) {
    let share = |i: usize, step: f64| (i as f64 * step).fract();
    let z = |i: usize| 6.0 * share(i, 0.618_033_988_7) - 3.0;
    let b = |i: usize| share(i, 0.754_877_666_2);
    let x = (0..3600).flat_map(|i| [(2.0 * z(i)).sinh(), b(i)]).collect();
    let noise = |i: usize| share(i, 0.569_840_290_9) - 0.5;
    let y = (0..3600).map(|i| of(z(i), b(i), noise(i))).collect();
    let data = Dataset::new(["a", "b"], x).unwrap().with_target("price", y).unwrap();
    let plan = Plan::new(schema(&data), &data, asked, 0, &Registry::default()).unwrap();
    (plan.models(), plan.said().map(str::to_string))
}

#[test]
fn trials_on_regions_choose_transforms_of_many_rows() {
    // Waves of equal width in asinh of the input, and errors in proportion to the target.
    let waves = |z: f64, b: f64, noise: f64| ((2.0 * z).sin() + b + noise).exp();
    let of = |kernel: &str| Settings { kernel: kernel.into(), ..Settings::default() };
    let (models, said) = many(of(OF_MODELS), waves);
    assert_eq!(models, 3);
    assert!(said.unwrap().starts_with("the logarithm of `price` is modelled: it gains"));
    let none = Settings { input_transform: Warping::all(WarpKind::None), ..of("average(models, log=false)") };
    assert_eq!(many(none, waves), (2, None));
    // Linear in the input as it is, with errors of one size.
    assert_eq!(many(of(OF_MODELS), |z, b, noise| 500.0 + (2.0 * z).sinh() + b + noise), (2, None));
}
