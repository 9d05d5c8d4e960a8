//! Error bars beyond the rows, and of few rows.

use cagey::data::{Dataset, Schema, TargetTransform};
use cagey::fitted::{Calibrate, Fitted, Registry, Settings};
use cagey::metrics::{Predictive, Source};
use cagey::train::TrainConfig;

fn fitted(columns: &[&str], x: Vec<f64>, y: Vec<f64>, settings: Settings) -> Fitted {
    let data = Dataset::new(columns.iter().copied(), x).unwrap().with_target("y", y).unwrap();
    let config = TrainConfig::while_it_pays();
    Fitted::fit(Schema::numeric(&data), &data, settings, &config, &Registry::default(), &mut []).unwrap()
}

fn kernel(text: &str) -> Settings {
    Settings { kernel: text.into(), ..Settings::default() }
}

fn evenly(low: f64, high: f64, n: usize) -> Vec<f64> {
    (0..n).map(|i| low + (high - low) * i as f64 / (n - 1) as f64).collect()
}

/// The share of 95 % intervals that hold.
fn held(predictions: &[Predictive], truth: impl Iterator<Item = f64>) -> f64 {
    let held = predictions.iter().zip(truth).filter(|(p, y)| (p.cdf(*y) - 0.5).abs() <= 0.475);
    held.count() as f64 / predictions.len() as f64
}

#[test]
fn beyond_noiseless_rows_error_bars_are_the_models_own() {
    let functions: [fn(f64) -> f64; 3] = [f64::sin, |x| (-x * x).exp() + 0.3 * x, |x| 1.0 / (1.0 + 4.0 * x * x)];
    for (k, f) in functions.into_iter().enumerate() {
        let x = evenly(-3.1, 3.1, 200);
        let model = fitted(&["x"], x.clone(), x.into_iter().map(f).collect(), kernel("rbf"));
        assert!(model.calibration.is_some_and(|calibration| calibration.shape.sd() < 0.5), "{:?}", model.calibration);
        let far: Vec<f64> = (1..40).flat_map(|i| [3.1 + 0.08 * f64::from(i), -3.1 - 0.08 * f64::from(i)]).collect();
        let (found, own) = (model.predict_rows(&far).unwrap(), model.uncalibrated().predict_rows(&far).unwrap());
        let [share, of_own] = [&found, &own].map(|all| held(all, far.iter().map(|x| f(*x))));
        assert!(share >= of_own - 0.03 && share > 0.68, "function {k}: {share} {of_own}");
        for ((x, found), own) in far.iter().zip(&found).zip(&own) {
            let z = (f(*x) - found.mean()) / found.sd();
            assert!(z.abs() < 4.0, "function {k} at {x}: {z}");
            assert!(found.mean() == own.mean() && found.sd() <= own.sd() * (1.0 + 1e-9));
        }
    }
}

#[test]
fn between_the_rows_of_a_grid_and_far_from_a_plane_intervals_hold() {
    let axis = evenly(-1.0, 1.0, 16);
    let grid: Vec<f64> = axis.iter().flat_map(|a| axis.iter().flat_map(move |b| [*a, *b])).collect();
    let f = |row: &[f64]| (2.0 * row[0]).sin() + (3.0 * row[1]).cos();
    let model = fitted(&["a", "b"], grid.clone(), grid.chunks(2).map(f).collect(), kernel("rbf(ard)"));
    let between: Vec<f64> = (0..600).map(|i| (0.37 * f64::from(i)).sin()).collect();
    assert!(held(&model.predict_rows(&between).unwrap(), between.chunks(2).map(f)) >= 0.9);

    let rows: Vec<f64> = (0..160).map(|i| (1.3 * f64::from(i * i)).sin()).collect();
    let f = |row: &[f64]| row[0] + row[1];
    let model = fitted(&["a", "b"], rows.clone(), rows.chunks(2).map(f).collect(), kernel("rbf"));
    let far: Vec<f64> = (0..160).map(|i| 2.0 + (0.7 * f64::from(i)).sin()).collect();
    assert!(held(&model.predict_rows(&far).unwrap(), far.chunks(2).map(f)) >= 0.9);
}

#[test]
fn a_scale_that_no_row_tells_is_that_of_the_target() {
    let cases = [
        (vec![0.3], vec![2.5], 2.5),
        (vec![0.3], vec![-400.0], 400.0),
        (vec![0.3], vec![0.0], 1.0),
        (vec![0.3; 3], vec![2.5; 3], 2.5),
    ];
    for (x, y, size) in cases {
        let (value, rows) = (y[0], y.len());
        let model = fitted(&["x"], x, y, Settings::default());
        assert!(model.calibration.is_none());
        for (x, least) in [(0.3, 0.2), (100.0, 0.9)] {
            let Predictive::Normal { mean, sd } = model.predict_rows(&[x]).unwrap()[0] else { panic!() };
            assert!((mean - value).abs() < 1e-9 * size, "{mean}");
            assert!(sd > least * size && sd < 1.2 * size, "{rows} rows of {value} at {x}: {sd}");
        }
        let average = fitted(&["x"], model.data().x.clone(), vec![value; rows], kernel("average"));
        let far = &average.predict_rows(&[300.0]).unwrap()[0];
        assert!((far.sd() - size).abs() < 0.2 * size, "an average far away: {far:?}");
        assert!(model.caution().unwrap().contains("no scale of the target is known"));
        assert!(model.summary.warnings.iter().any(|warning| warning.text.contains("no scale of the target")));
    }
}

#[test]
fn few_rows_of_a_transformed_target_are_student_t_on_its_scale() {
    let x: Vec<f64> = (0..6).map(f64::from).collect();
    let y = [1.0, 3.0, 2.0, 9.0, 5.0, 14.0];
    let log = Settings { target_transform: TargetTransform::Log, ..Settings::default() };
    let logged = fitted(&["x"], x.clone(), y.iter().map(|y: &f64| y.ln()).collect(), Settings::default());
    let model = fitted(&["x"], x, y.to_vec(), log);
    let new = [2.5, 6.0, 20.0];
    for (p, by_hand) in model.predict_rows(&new).unwrap().iter().zip(logged.predict_rows(&new).unwrap()) {
        assert!(matches!(by_hand, Predictive::Student { df: 5.0, .. }));
        for share in [0.025, 0.1, 0.5, 0.9, 0.975] {
            assert!((p.quantile(share).ln() - by_hand.quantile(share)).abs() < 1e-9, "{share}");
        }
        assert!((p.log_density(3.0) - by_hand.log_density(3f64.ln()) + 3f64.ln()).abs() < 1e-9);
    }
    let own = model.uncalibrated();
    for (p, own) in model.predict_rows(&new).unwrap().iter().zip(own.predict_rows(&new).unwrap()) {
        assert_eq!(p.mean(), own.mean());
        assert!(!p.has_sd() && p.sd().is_finite());
    }
}

#[test]
fn two_and_three_rows_have_intervals_and_no_standard_deviation() {
    for n in [2, 3] {
        let (x, y) = ([0.0, 1.0, 3.0][..n].to_vec(), [1.0, 2.0, 1.5][..n].to_vec());
        let model = fitted(&["x"], x, y, Settings::default());
        let calibration = model.calibration.unwrap();
        assert_eq!((calibration.source, calibration.shape.parts[0].df), (Source::FewRows, Some(n as f64 - 1.0)));
        let own = model.uncalibrated().predict_rows(&[50.0]).unwrap()[0].sd();
        let p = model.predict_rows(&[50.0]).unwrap().remove(0);
        let scale = ((n as f64 + 1.0) / (n as f64 - 1.0)).sqrt();
        assert!(!p.has_sd() && (p.sd() / own - scale).abs() < 1e-9);
        // Tables: P(|T| ≤ t) = 0.95.
        let t = [12.706_204_736, 4.302_652_730][n - 2];
        assert!(((p.quantile(0.975) - p.mean()) / own - scale * t).abs() < 1e-6);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("few.cagey");
        model.save(&path).unwrap();
        assert_eq!(Fitted::load(&path).unwrap().predict_rows(&[50.0]).unwrap(), [p]);
    }
}

#[test]
fn between_two_pairs_of_rows_the_prediction_is_between_them() {
    let x = [25.0, 25.0, 150.0, 150.0];
    let y = [820.0, 750.0, 1390.0, 1320.0];
    let model = fitted(&["x"], x.to_vec(), y.to_vec(), Settings::default());
    let shifted =
        fitted(&["x"], x.map(|x| x * 1000.0 + 7.0).to_vec(), y.map(|y| y / 1000.0 + 1e6).to_vec(), Settings::default());
    let at = [25.0, 56.25, 87.5, 118.75, 150.0];
    let found = model.predict_rows(&at).unwrap();
    assert!((840.0..1010.0).contains(&found[1].mean()), "{}", found[1].mean());
    let other = shifted.predict_rows(&at.map(|x| x * 1000.0 + 7.0)).unwrap();
    for (a, b) in found.iter().zip(other) {
        assert!((a.mean() / 1000.0 + 1e6 - b.mean()).abs() < 1e-6 * b.sd(), "{} {}", a.mean(), b.mean());
        assert!((a.sd() / 1000.0 / b.sd() - 1.0).abs() < 1e-6);
    }
}

#[test]
fn a_calibration_of_the_logarithm_never_moves_the_point_prediction() {
    let mut state = 1u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / 2f64.powi(31)
    };
    let x: Vec<f64> = (0..120).map(|_| uniform()).collect();
    // Errors of two sizes.
    let y = x.iter().map(|x| (3.0 * x + (uniform() - 0.5) * if uniform() < 0.1 { 4.0 } else { 0.2 }).exp()).collect();
    let settings =
        Settings { target_transform: TargetTransform::Log, calibrate: Calibrate::Yes, ..Settings::default() };
    let model = fitted(&["x"], x, y, settings);
    assert_eq!(model.calibration.unwrap().source, Source::LeaveOneOut);
    let (found, own) =
        (model.predict_rows(&[0.2, 0.9, 5.0]).unwrap(), model.uncalibrated().predict_rows(&[0.2, 0.9, 5.0]).unwrap());
    for (found, own) in found.iter().zip(own) {
        assert_eq!(found.mean(), own.mean());
        assert!(found.has_sd() && found.crps(1.0).is_finite());
    }
    assert!(found[0].quantile(0.75) / found[0].quantile(0.25) < 0.8 * own_ratio(&model), "a narrower middle");
}

fn own_ratio(model: &Fitted) -> f64 {
    let own = model.uncalibrated().predict_rows(&[0.2]).unwrap().remove(0);
    own.quantile(0.75) / own.quantile(0.25)
}

/// Two rows are on a line whatever the function: no member may be certain of it.
#[test]
fn intervals_of_an_average_of_two_rows_hold() {
    let noise = |i: usize| ((12.9898 * (i + 1) as f64).sin() * 43758.5453).rem_euclid(1.0) - 0.5;
    let (mut held, tables) = (0.0, 60);
    for table in 0..tables {
        let x: Vec<f64> = (0..12).map(|i| 0.5 + noise(100 * table + i)).collect();
        let y: Vec<f64> = x.iter().enumerate().map(|(i, x)| 1.0 + 0.8 * x + noise(7000 + 100 * table + i)).collect();
        let model = fitted(&["x"], x[..2].to_vec(), y[..2].to_vec(), kernel("average"));
        assert!(model.members().iter().all(|member| !member.fitted.settings.kernel.contains("linear")));
        let predictions = model.predict_rows(&x[2..]).unwrap();
        held += predictions.iter().zip(&y[2..]).filter(|(p, y)| (p.cdf(**y) - 0.5).abs() <= 0.25).count() as f64;
    }
    let share = held / (10 * tables) as f64;
    assert!((0.4..0.62).contains(&share), "50 % intervals hold {share}");
}

/// Members that follow a smooth function without noise far less closely do not blur it.
#[test]
fn an_average_of_noiseless_rows_is_as_exact_as_its_best_member() {
    let x = evenly(0.0, 1.0, 10);
    let y = x.iter().map(|x| x.exp()).collect();
    let model = fitted(&["x"], x, y, kernel("average"));
    let points = evenly(0.05, 0.95, 10);
    for (p, x) in model.predict_rows(&points).unwrap().iter().zip(&points) {
        assert!((p.mean() - x.exp()).abs() < 1e-3, "{} at {x}, for {}", p.mean(), x.exp());
    }
}
