//! Models with their data: from a table to predictions, and through a file.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};
use std::thread;
use std::time::Duration;

use burn::tensor::{DType, Tensor, TensorData};
use cagey::ErrorKind;
use cagey::data::{Classes, Dataset, ReadOptions, Schema, TargetTransform, Warp, WarpKind, Warping, read_training};
use cagey::device::{Compute, DeviceKind, Precision};
use cagey::fitted::{Calibrate, Fit, Fitted, Plan, Registry, Settings};
use cagey::kernels::Kernel;
use cagey::likelihoods::{Bernoulli, BernoulliLink};
use cagey::metrics::diagnosis::{Along, Finding};
use cagey::metrics::{Source, Temperature};
use cagey::model_file::{ArrayData, ModelFile};
use cagey::models::cagp::{ActionPolicy, CagpObjective, CagpOptions};
use cagey::models::cggp::CgGpOptions;
use cagey::models::laplace::LaplaceOptions;
use cagey::models::minibatch::Minibatches;
use cagey::models::options::{Context, ModelChoice, ModelOptions, Parts};
use cagey::models::ordering::RowOrder;
use cagey::models::race::Starts;
use cagey::models::sgpr::SgprOptions;
use cagey::models::svgp::SvgpOptions;
use cagey::models::swsgp::SwsgpOptions;
use cagey::models::variational::Covariance;
use cagey::models::{self, Observations};
use cagey::params::Prior;
use cagey::scope::{Scope, to_f64};
use cagey::train::{Adam, CheckpointPlan, Observer, Optimizer, Report, Termination, TrainConfig};

fn fit(table: &str, settings: Settings) -> (Fitted, Dataset) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.csv");
    std::fs::write(&path, table).unwrap();
    let (schema, data) = read_training(&path, &ReadOptions::default()).unwrap();
    let registry = Registry::default();
    let options = registry.models.options(&settings.model).unwrap();
    let minibatches = options.minibatches().is_some_and(|batches| batches.size < data.n);
    let optimizer = if minibatches { Optimizer::Adam(Adam::default()) } else { Optimizer::default() };
    let config = TrainConfig::new(optimizer, 10);
    let fitted = Fitted::fit(schema, &data, settings, &config, &registry, &mut []).unwrap();
    (fitted, data)
}

fn table() -> String {
    let row = |i: usize| {
        let (a, b) = (0.2 * i as f64, (1.3 * i as f64).cos());
        format!("{a},{b},0.1,{}\n", (a.sin() + 0.3 * b + 0.05 * (7.7 * i as f64).sin()).exp())
    };
    format!("a,b,s,y\n{}", (0..40).map(row).collect::<String>())
}

#[test]
fn a_loaded_model_predicts_bit_for_bit_the_same() {
    let settings = |kernel: &str| Settings { kernel: kernel.into(), ..Settings::default() };
    let cases = [
        settings("matern32(ard)"),
        Settings {
            mean: "linear".into(),
            auxiliary_column: Some("s".into()),
            ..settings("rbf + 2 * periodic(dims=[0]) * rbf")
        },
        Settings {
            target_transform: TargetTransform::Log,
            priors: vec![("noise".into(), "halfcauchy(1)".parse().unwrap())],
            bounds: vec![("lengthscale".into(), 0.01, 50.0)],
            fix: vec!["variance".into()],
            ..settings("projection(matern52, dim=2) + linear")
        },
        Settings { standardize: false, mean: "constant".into(), ..settings("rq(ard) + white") },
    ];
    for settings in cases {
        let (fitted, data) = fit(&table(), settings);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.cagey");
        fitted.save(&path).unwrap();
        let loaded = Fitted::load(&path).unwrap();
        assert_eq!(loaded.predict(&data).unwrap(), fitted.predict(&data).unwrap());
        assert_eq!(loaded.predict_latent(&data).unwrap(), fitted.predict_latent(&data).unwrap());
        assert_eq!(loaded.leave_one_out().unwrap(), fitted.leave_one_out().unwrap());
        assert_eq!(
            (loaded.settings, loaded.summary, loaded.schema),
            (fitted.settings.clone(), fitted.summary.clone(), fitted.schema.clone())
        );
    }
}

fn through_actions(policy: ActionPolicy) -> Settings {
    let (objective, order) = (CagpObjective::Elbo, RowOrder::Tree);
    let model = CagpOptions::default().actions(7).policy(policy).objective(objective).order(order).refresh(2).into();
    Settings { model, ..Settings::default() }
}

#[test]
fn posteriors_through_actions_are_read_not_solved_for_again() {
    for policy in [ActionPolicy::Learned, ActionPolicy::Cg, ActionPolicy::Random] {
        let (fitted, data) = fit(&table(), through_actions(policy));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.cagey");
        fitted.save(&path).unwrap();
        let loaded = Fitted::load(&path).unwrap();
        assert_eq!(loaded.predict(&data).unwrap(), fitted.predict(&data).unwrap(), "{policy:?}");
        assert_eq!(loaded.posterior().solve(), fitted.posterior().solve());
        assert_eq!(loaded.posterior().solve().is_none(), policy == ActionPolicy::Learned);

        let mut file = ModelFile::load(&path).unwrap();
        let Some(ArrayData::F64(projected)) = file.arrays.get_mut("posterior.projected").map(|array| &mut array.data)
        else {
            panic!("{policy:?}: {:?}", file.arrays.keys());
        };
        projected.iter_mut().for_each(|value| *value *= 2.0);
        file.save(&path).unwrap();
        let mean = |fitted: &Fitted| fitted.posterior().predict(&fitted.data().x).unwrap().mean;
        for (twice, once) in mean(&Fitted::load(&path).unwrap()).iter().zip(mean(&fitted)) {
            assert!((twice - 2.0 * once).abs() <= 1e-12 * once.abs(), "{policy:?}: {twice} {once}");
        }
    }
}

#[test]
fn a_missed_season_is_told_along_its_input_where_the_model_orders_the_rows() {
    let row =
        |i: usize| format!("{},{}\n", 0.1 * i as f64, (2.0 * 0.1 * i as f64).sin() + 0.1 * (7.7 * i as f64).sin());
    let table = format!("x,y\n{}", (0..100).map(row).collect::<String>());
    let rigid = Settings {
        kernel: "rbf".into(),
        init: vec![("lengthscale".into(), vec![60.0])],
        fix: vec!["lengthscale".into()],
        ..through_actions(ActionPolicy::Learned)
    };
    let (fitted, _) = fit(&table, rigid);
    let left = fitted.left_out().unwrap().unwrap();
    let findings = fitted.diagnose_left_out(&left).unwrap().findings;
    assert!(findings.contains(&Finding::Drift { along: Along::Input(0) }), "{findings:?}");
    let none = Dataset::new(vec!["x"], Vec::new()).unwrap().with_target("y", Vec::new()).unwrap();
    assert_eq!(fitted.diagnose(&none, &[], &[]).unwrap_err().kind(), ErrorKind::Request);
}

#[test]
fn a_tolerance_ends_the_solve() {
    for policy in [ActionPolicy::Cg, ActionPolicy::Lanczos] {
        let taken = |wanted| {
            let mut settings = through_actions(policy);
            let options = settings.model.of::<CagpOptions>().unwrap();
            settings.model = options.tolerance(wanted).into();
            let report = *fit(&table(), settings).0.posterior().solve().unwrap();
            (report.actions, report.residual / report.scale)
        };
        let ((least, residual), (most, _)) = (taken(Some(1.0)), taken(Some(0.0)));
        assert!(least < most && residual < 1.0, "{policy:?}: {least} and {most} actions, {residual}");
    }
}

#[test]
fn files_of_variational_models_hold_some_of_the_rows() {
    let rows: String = (0..4500).map(|i| format!("{},{}\n", 0.01 * i as f64, (0.05 * i as f64).sin())).collect();
    let batches = Minibatches { size: 100, ..Minibatches::default() };
    let model = SvgpOptions::default().inducing(5).covariance(Covariance::Diagonal).batches(batches).into();
    let (fitted, data) = fit(&format!("x,y\n{rows}"), Settings { model, ..Settings::default() });
    assert_eq!((fitted.summary.rows, fitted.data().n()), (4500, 1500));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.cagey");
    fitted.save(&path).unwrap();
    let loaded = Fitted::load(&path).unwrap();
    assert_eq!(loaded.predict(&data).unwrap(), fitted.predict(&data).unwrap());
}

#[test]
fn posteriors_of_other_sizes_are_refused() {
    let (fitted, _) = fit(&table(), through_actions(ActionPolicy::Cg));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.cagey");
    for name in ["posterior.actions", "posterior.factor", "posterior.projected"] {
        fitted.save(&path).unwrap();
        let mut file = ModelFile::load(&path).unwrap();
        let array = file.arrays.get_mut(name).unwrap();
        array.shape = vec![2];
        array.data = ArrayData::F64(vec![1.0, 2.0]);
        file.save(&path).unwrap();
        let problem = Fitted::load(&path).unwrap_err().to_string();
        assert!(problem.contains("model.cagey") && problem.contains("actions"), "{name}: {problem}");
    }
}

#[test]
fn targets_in_other_units_give_the_same_model() {
    let cells = |row: &str, factor: f64| {
        let (head, y) = row.rsplit_once(',').unwrap();
        format!("{head},{:?}", factor * y.parse::<f64>().unwrap())
    };
    let scaled = |factor: f64| {
        let text = table();
        let rows: Vec<String> = text.lines().skip(1).map(|row| cells(row, factor)).collect();
        format!("a,b,s,y\n{}\n", rows.join("\n"))
    };
    let (batches, covariance) = (Minibatches::default(), Covariance::Full);
    let models = [
        Settings::default().model,
        through_actions(ActionPolicy::Learned).model,
        SgprOptions::default().inducing(8).into(),
        SvgpOptions::default().inducing(8).covariance(covariance).batches(batches.clone()).into(),
        SwsgpOptions::default().inducing(8).neighbours(3).covariance(covariance).batches(batches).into(),
        CgGpOptions::default().into(),
    ];
    for model in models {
        let [(one, data), (other, far)] =
            [1.0, 1000.0].map(|factor| fit(&scaled(factor), Settings { model: model.clone(), ..Settings::default() }));
        for (a, b) in one.predict(&data).unwrap().iter().zip(&other.predict(&far).unwrap()) {
            for (a, b) in [(a.mean(), b.mean()), (a.sd(), b.sd())] {
                assert!((1000.0 * a - b).abs() <= 1e-4 * b.abs().max(100.0), "{model:?}: {a} {b}");
            }
        }
        assert!(one.summary.loss < 1.5, "{model:?}: {}", one.summary.loss);
    }
}

#[test]
fn many_inducing_inputs_with_few_neighbours_are_warned_of() {
    let warned = |inducing, neighbours, divergence| {
        let (batches, covariance) = (Minibatches::default(), Covariance::Diagonal);
        let model = SwsgpOptions::default()
            .inducing(inducing)
            .neighbours(neighbours)
            .divergence(divergence)
            .covariance(covariance)
            .batches(batches)
            .into();
        let (fitted, data) = fit(&table(), Settings { model, ..Settings::default() });
        assert!(data.n < 16 * 8, "{} rows", data.n);
        fitted.summary.warnings.iter().any(|warning| warning.text.contains("overconfident"))
    };
    assert!(warned(8, 3, 1.0));
    assert!(!warned(8, 3, 2.7), "each inducing value is held to its prior once");
    assert!(!warned(8, 8, 1.0), "with all neighbours it is SVGP");
    assert!(!warned(1, 1, 1.0));
}

#[test]
fn covariances_of_many_inducing_values_are_told_before_training() {
    let table: String = (0..2100).map(|i| format!("{i},{}\n", (0.01 * i as f64).sin())).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.csv");
    std::fs::write(&path, format!("a,y\n{table}")).unwrap();
    let (schema, data) = read_training(&path, &ReadOptions::default()).unwrap();
    let shorter = |inducing, covariance| {
        let batches = Minibatches::default();
        let model =
            SwsgpOptions::default().inducing(inducing).neighbours(3).covariance(covariance).batches(batches).into();
        let settings = Settings { model, ..Settings::default() };
        Plan::new(schema.clone(), &data, settings, 0, &Registry::default()).unwrap().shorter()
    };
    let told = shorter(5000, Covariance::Full).unwrap();
    let named = told.settings.iter().any(|setting| setting.field.ends_with("::covariance"));
    assert!(told.text.contains("2100 inducing values are 2.2 million numbers") && named, "{told}");
    assert_eq!(shorter(5000, Covariance::Diagonal), None);
    assert_eq!(shorter(64, Covariance::Full), None);
}

#[test]
fn single_precision_that_is_not_enough_is_told() {
    let rows = (0..120).map(|i| (0.05 * i as f64, (0.05 * i as f64).sin()));
    let table: String = rows.map(|(a, y)| format!("{a},{y}\n")).collect();
    let told = |precision, noise: f64| {
        let settings = Settings {
            kernel: "rbf(lengthscale=2, variance=10)".into(),
            init: vec![("noise".into(), vec![noise])],
            fix: vec!["noise".into()],
            compute: Compute { precision, ..Compute::default() },
            ..Settings::default()
        };
        let (fitted, _) = fit(&format!("a,y\n{table}"), settings);
        fitted.summary.warnings.iter().any(|warning| warning.to_string().contains("Compute::precision = f64"))
    };
    assert!(told(Precision::F32, 1e-6));
    assert!(!told(Precision::F32, 1e-2));
    assert!(!told(Precision::F64, 1e-6));
}

/// Counts with exposures, built in memory.
fn counts() -> (Schema, Dataset) {
    let x: Vec<f64> = (0..20).flat_map(|i| [0.3 * f64::from(i), 1.0 + f64::from(i % 3)]).collect();
    let y = (0..20).map(|i| f64::from(i % 4)).collect();
    let data = Dataset::new(["x", "hours"], x).unwrap().with_target("count", y).unwrap();
    (Schema::numeric(&data), data)
}

fn of_counts() -> Fitted {
    let (covariance, batches) = (Covariance::Full, Minibatches::default());
    of_counts_by(SvgpOptions::default().inducing(5).covariance(covariance).batches(batches).into())
}

fn of_counts_by(model: ModelChoice) -> Fitted {
    let (schema, data) = counts();
    let auxiliary_column = Some("hours".into());
    let settings = Settings { model, likelihood: "poisson".into(), auxiliary_column, ..Settings::default() };
    let config = TrainConfig::new(Optimizer::default(), 3);
    Fitted::fit(schema, &data, settings, &config, &Registry::default(), &mut []).unwrap()
}

#[test]
fn tables_that_are_not_those_of_the_model_are_refused() {
    let (fitted, data) = fit(&table(), Settings::default());
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let bad = [
        Dataset { n: data.n + 1, ..data.clone() },
        Dataset { n: usize::MAX, ..data.clone() },
        Dataset { d: 2, ..data.clone() },
        Dataset { x: data.x[1..].to_vec(), ..data.clone() },
        Dataset { feature_names: names(&["a", "c", "s"]), ..data.clone() },
        Dataset { feature_names: names(&["b", "a", "s"]), ..data.clone() },
        Dataset { y: data.y.clone().map(|y| y[1..].to_vec()), ..data.clone() },
    ];
    for (i, bad) in bad.iter().enumerate() {
        let refused = [
            fitted.predict(bad).map(drop),
            fitted.predict_latent(bad).map(drop),
            fitted.predict_targets(bad).map(drop),
            fitted.check_targets(bad),
            Plan::new(fitted.schema.clone(), bad, Settings::default(), 0, &Registry::default()).map(drop),
        ];
        for refused in refused {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Request, "{i}");
        }
    }
    let named = fitted.predict(&bad[4]).unwrap_err().to_string();
    assert!(named.contains("`a`, `b`, `s`") && named.contains("`a`, `c`, `s`"), "{named}");
    // Row numbers are only used in messages.
    let unnumbered = Dataset { rows: vec![], records: vec![], ..data.clone() };
    assert_eq!(fitted.predict(&unnumbered).unwrap(), fitted.predict(&data).unwrap());
    let far = fitted.predict_rows(&[f64::NAN, 0.0, 0.0]).unwrap_err();
    assert!(far.kind() == ErrorKind::Request && far.to_string().contains("row 1, input 1"), "{far}");
}

#[test]
fn auxiliary_values_are_checked_whatever_the_rows_are_called() {
    let (fitted, (_, data)) = (of_counts(), counts());
    for rows in [data.rows.clone(), vec![], vec![7]] {
        let mut bad = Dataset { rows, ..data.clone() };
        bad.x[2 * 4 + 1] = 0.0;
        for refused in [fitted.predict_targets(&bad).map(drop), fitted.check_targets(&bad)] {
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains("row 5") && refused.contains("exposure"), "{refused}");
        }
    }
    let x = [0.1, 0.2, 0.3];
    for auxiliary in [vec![], vec![1.0, 1.0], vec![1.0, -1.0, 1.0], vec![1.0, f64::NAN, 1.0]] {
        assert_eq!(fitted.targets_at(&x, Some(&auxiliary)).unwrap_err().kind(), ErrorKind::Request, "{auxiliary:?}");
    }
    let [one, two] = [1.0, 2.0].map(|hours| fitted.targets_at(&[0.1], Some(&[hours])).unwrap()[0].mean());
    assert!((two - 2.0 * one).abs() < 1e-12 * two, "{one} {two}");
}

#[test]
fn codes_that_are_no_classes_are_refused_by_every_training() {
    for (likelihood, code) in [("softmax(3)", 3.0), ("bernoulli", 2.0), ("ordinal(3)", -1.0), ("softmax(3)", 0.5)] {
        let y = (0..20).map(|i| if i == 11 { code } else { f64::from(i % 2) }).collect();
        let (_, data) = counts();
        let data = data.with_target("class", y).unwrap();
        let batches = |size| Minibatches { size, ..Minibatches::default() };
        for size in [7, 100] {
            let model = SvgpOptions::default().inducing(5).covariance(Covariance::Full).batches(batches(size)).into();
            let settings = Settings { model, likelihood: likelihood.into(), ..Settings::default() };
            let schema = Schema::numeric(&data);
            let refused = Plan::new(schema, &data, settings, 0, &Registry::default()).unwrap_err().to_string();
            assert!(refused.contains("row 12"), "{likelihood}: {refused}");
        }
    }
    // The same holds below the checks of tables.
    let observations = Observations::new(vec![0.1, 0.2, 0.3], 1, vec![0.0, 3.0, 1.0], None).unwrap();
    let (inducing, covariance, batches) = (2, Covariance::Full, Minibatches::default());
    let (neighbours, divergence, union) = (2, 1.0, false);
    let svgp = SvgpOptions::default().inducing(inducing).covariance(covariance).batches(batches.clone());
    let swsgp = SwsgpOptions::default()
        .inducing(inducing)
        .neighbours(neighbours)
        .divergence(divergence)
        .union(union)
        .covariance(covariance)
        .batches(batches);
    for options in [&svgp as &dyn ModelOptions, &swsgp] {
        let prior = Kernel::parse("rbf", 1).unwrap().into();
        let parts = Parts { likelihood: Box::new(Bernoulli { link: BernoulliLink::Logit }), prior };
        let mut model = options.build(parts, &Context::new(&observations, &[], 0)).unwrap();
        let scope = Scope::new(Compute::default()).unwrap();
        let refused = model.objective(&scope, &observations.batch(&scope)).unwrap_err();
        assert!(refused.kind() == ErrorKind::Request && refused.to_string().contains("row 2"), "{refused}");
        let config = TrainConfig::new(Optimizer::default(), 3);
        assert!(models::fit::fit(&mut *model, Compute::default(), &observations, &config, &mut []).is_err());
    }
    let (_, data) = counts();
    let data = data.with_target("class", (0..20).map(|i| f64::from(i % 2)).collect()).unwrap();
    let classes = Some(Classes::in_order(["no".to_string(), "yes".to_string()]).unwrap());
    let model = SvgpOptions::default().inducing(5).covariance(Covariance::Full).batches(Minibatches::default()).into();
    let settings = Settings { model, likelihood: "bernoulli".into(), ..Settings::default() };
    let schema = Schema { classes, ..Schema::numeric(&data) };
    let config = TrainConfig::new(Optimizer::default(), 3);
    let fitted = Fitted::fit(schema, &data, settings, &config, &Registry::default(), &mut []).unwrap();
    let probabilities = fitted.predict_targets(&data).unwrap()[0].probabilities().unwrap();
    assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-12);
}

#[test]
fn rows_of_numbers_are_predicted_in_the_users_units() {
    let log = Settings { target_transform: TargetTransform::Log, ..Settings::default() };
    let known = Settings { auxiliary_column: Some("s".into()), ..Settings::default() };
    for settings in [Settings::default(), log, known] {
        let (fitted, data) = fit(&table(), settings);
        let wanted = fitted.predict(&data).unwrap();
        assert_eq!(fitted.predict_rows(&data.x).unwrap(), wanted);
        for (got, wanted) in fitted.predict_mean(&data.x).unwrap().iter().zip(&wanted) {
            assert!((got - wanted.mean()).abs() < 1e-10, "{got} {wanted:?}");
        }
        assert_eq!(fitted.predict_rows(&[1.0]).unwrap_err().kind(), ErrorKind::Request);
    }
    let (fitted, (_, data)) = (of_counts(), counts());
    let wanted: Vec<f64> = fitted.predict_targets(&data).unwrap().iter().map(|p| p.mean()).collect();
    assert_eq!(fitted.predict_mean(&data.x).unwrap(), wanted);
}

#[test]
fn rows_join_a_model_without_another_training() {
    let sparse = Settings { model: SgprOptions::default().inducing(8).into(), ..Settings::default() };
    let known = Settings { auxiliary_column: Some("s".into()), ..Settings::default() };
    for settings in [Settings::default(), known, sparse] {
        let (fitted, data) = fit(&table(), settings);
        let few = data.subset(&[3, 17, 30]);
        let grown = fitted.update(&few).unwrap();
        assert_eq!((grown.summary.rows, grown.data().n()), (43, 43));
        let all = grown.model.condition(Compute::default(), grown.data().clone()).unwrap();
        let x = fitted.standardise(&data).unwrap().0;
        let (got, want) = (grown.posterior().predict(&x).unwrap(), all.predict(&x).unwrap());
        for (got, want) in got.mean.iter().chain(&got.variance).zip(want.mean.iter().chain(&want.variance)) {
            assert!((got - want).abs() < 1e-9, "{got} {want}");
        }
        let loaded = Fitted::from_bytes(&grown.to_bytes().unwrap(), &Registry::default(), None).unwrap();
        for (got, want) in loaded.predict(&data).unwrap().iter().zip(&grown.predict(&data).unwrap()) {
            assert!((got.mean() - want.mean()).abs() < 1e-9 && (got.sd() - want.sd()).abs() < 1e-9);
        }
        // After an update, the range includes the new rows.
        let mut far = few.clone();
        far.x[0] += 100.0;
        assert_eq!(fitted.outside(&far).unwrap().rows, 1);
        let joined = fitted.update(&far).unwrap();
        assert_eq!((joined.outside(&far).unwrap().rows, joined.outside(&data).unwrap().rows), (0, 0));
        let without = Dataset { y: None, ..few.clone() };
        assert_eq!(fitted.update(&without).unwrap_err().kind(), ErrorKind::Request);
    }
    let refused = of_counts_by(LaplaceOptions::default().into()).update(&counts().1).unwrap_err();
    assert!(refused.kind() == ErrorKind::Request && refused.to_string().contains("Laplace"), "{refused}");
}

#[test]
fn files_hold_factors_where_they_are_asked_to() {
    for model in [Settings::default().model, SgprOptions::default().inducing(8).into()] {
        let settings = Settings { model, store_factor: true, ..Settings::default() };
        let (fitted, data) = fit(&table(), settings);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.cagey");
        fitted.save(&path).unwrap();
        let loaded = Fitted::load(&path).unwrap();
        assert_eq!(loaded.predict(&data).unwrap(), fitted.predict(&data).unwrap());
        // The factors are read from the file, not computed again.
        let mut file = ModelFile::load(&path).unwrap();
        let stored: Vec<String> = file.arrays.keys().filter(|name| name.starts_with("posterior.")).cloned().collect();
        let Some(ArrayData::F64(values)) = file.arrays.get_mut(&stored[0]).map(|array| &mut array.data) else {
            panic!()
        };
        values.iter_mut().for_each(|value| *value *= 2.0);
        file.save(&path).unwrap();
        assert_ne!(Fitted::load(&path).unwrap().predict(&data).unwrap(), fitted.predict(&data).unwrap());
        for broken in [vec![1.0, 2.0], vec![f64::NAN; file.arrays[&stored[0]].data.len()]] {
            let array = file.arrays.get_mut(&stored[0]).unwrap();
            (array.shape, array.data) = (vec![broken.len()], ArrayData::F64(broken));
            file.save(&path).unwrap();
            assert!(Fitted::load(&path).is_err());
        }
        // The sums of sparse models are stored where they take no more room than the rows.
        if fitted.settings.model.kind() == "exact" {
            let mut without = fitted.clone();
            without.settings.store_factor = false;
            assert!(without.to_bytes().unwrap().len() < fitted.to_bytes().unwrap().len());
        }
    }
}

/// A table of two inputs for fits in code.
fn waves(shift: f64) -> Dataset {
    let x: Vec<f64> = (0..60).map(|i| (0.37 * f64::from(i) + shift).sin()).collect();
    let y = x.chunks(2).map(|x| (2.0 * x[0]).sin() + 0.3 * x[1]).collect();
    Dataset::new(["a", "b"], x).unwrap().with_target("y", y).unwrap()
}

#[test]
fn a_fit_in_steps_is_the_fit_of_its_parts() {
    let data = waves(0.0);
    let registry = Registry::default();
    let settings = Settings {
        kernel: "rbf(ard)".into(),
        mean: "constant".into(),
        model: SgprOptions::default().inducing(9).into(),
        bounds: vec![("noise".into(), 1e-4, 1.0)],
        init: vec![("lengthscale".into(), vec![0.7, 0.9])],
        ..Settings::default()
    };
    let config = TrainConfig::while_it_pays().seed(3);
    let config = TrainConfig { steps: 7, ..config };
    let whole = Fitted::fit(Schema::numeric(&data), &data, settings, &config, &registry, &mut []).unwrap();
    let fit = Fit::new(&data)
        .kernel("rbf(ard)")
        .mean("constant")
        .model(SgprOptions::default().inducing(9))
        .bounds("noise", 1e-4, 1.0)
        .init("lengthscale", &[0.7, 0.9])
        .steps(7)
        .seed(3);
    assert_eq!(fit.clone().run().unwrap().predict(&data).unwrap(), whole.predict(&data).unwrap());
    assert!(fit.kernel("rfb").run().unwrap_err().to_string().contains("rbf"));
}

#[test]
fn many_fits_are_each_what_they_are_alone() {
    let tables: Vec<Dataset> = (0..5).map(|i| waves(0.2 * f64::from(i))).collect();
    let fits = || tables.iter().map(|data| Fit::new(data).kernel("rbf").steps(5)).collect::<Vec<Fit>>();
    let mut asked = fits();
    asked[2] = asked[2].clone().kernel("no kernel");
    let many = Fitted::fit_many(asked);
    assert_eq!(many.len(), 5);
    for (i, (many, alone)) in many.into_iter().zip(fits()).enumerate() {
        match many {
            Ok(many) => {
                // Sums go in another order where several models share a graph.
                let [many, alone] = [many, alone.run().unwrap()].map(|fitted| fitted.summary.loss);
                assert!((many - alone).abs() < 1e-9 * alone.abs(), "fit {i}: {many} {alone}");
            }
            Err(error) => assert!(i == 2 && error.to_string().contains("no kernel"), "{error}"),
        }
    }
    assert!(Fitted::fit_many(Vec::new()).is_empty());
}

#[test]
fn points_carry_gradients_in_the_inputs() {
    let fitted = Fit::new(&waves(0.0)).kernel("rbf(ard)").steps(5).run().unwrap();
    let at = [0.2, -0.4, 0.9, 0.1];
    let x = fitted.points(&at).unwrap().require_grad();
    let [mean, variance] = fitted.moments(x.clone()).unwrap();
    let gradient = to_f64(x.grad(&(mean.sum() + variance.sum()).backward()).unwrap()).unwrap();
    let value = |at: &[f64]| {
        let [mean, variance] = fitted.moments(fitted.points(at).unwrap()).unwrap();
        to_f64(mean.sum() + variance.sum()).unwrap()[0]
    };
    for (i, slope) in gradient.iter().enumerate() {
        let moved = |h: f64| {
            let mut at = at;
            at[i] += h;
            value(&at)
        };
        let numeric = (moved(1e-5) - moved(-1e-5)) / 2e-5;
        assert!((slope - numeric).abs() < 1e-6 * numeric.abs().max(1.0), "{slope} {numeric}");
    }
    assert!(fitted.points(&[1.0]).is_err());
}

/// A table with a column `a` of heavy tails on the right, and a column `b` without any.
fn skewed() -> Dataset {
    let a = |i: usize| (2.5 * (1.7 * i as f64).sin()).exp();
    let x: Vec<f64> = (0..60).flat_map(|i| [a(i), (0.9 * i as f64).cos()]).collect();
    let y = x.chunks(2).map(|x| x[0].ln().sin() + 0.3 * x[1]).collect();
    Dataset::new(["a", "b"], x).unwrap().with_target("y", y).unwrap()
}

#[test]
fn ranks_put_no_row_far_away_that_is_a_little_beyond_the_others() {
    let data = Dataset::new(["a"], (0..60).map(f64::from).collect()).unwrap();
    let data = data.with_target("y", (0..60).map(|i| f64::from(i).sin()).collect()).unwrap();
    let fitted = Fit::new(&data).kernel("rbf").input_transform(Warping::all(WarpKind::Ranks)).steps(2).run().unwrap();
    let warp = fitted.input_scale.warp(0);
    for (end, beyond) in [(0.0, -9.0), (59.0, 68.0)] {
        let gone = (warp.forward(beyond) - warp.forward(end)).abs();
        assert!(gone > 0.0 && gone <= 9.0 + 1e-9, "{gone}");
        assert!((warp.inverse(warp.forward(beyond)) - beyond).abs() < 1e-9);
    }
}

#[test]
fn transformed_inputs_are_increasing_and_carry_gradients() {
    let data = skewed();
    let a: Vec<f64> = data.x.iter().step_by(2).copied().collect();
    let mut sorted = a.clone();
    sorted.sort_by(f64::total_cmp);
    let (least, most) = (sorted[0], sorted[59]);
    for kind in [WarpKind::Asinh, WarpKind::Ranks, WarpKind::Log] {
        let asked = Warping { all: None, columns: vec![("a".into(), Some(kind))] };
        let fitted = Fit::new(&data).kernel("rbf(ard)").input_transform(asked).steps(5).run().unwrap();
        let scale = &fitted.input_scale;
        assert_eq!((scale.warp(0).kind(), scale.warp(1)), (kind, &Warp::Identity));
        let z = scale.apply(&data.x).unwrap();
        let column: Vec<f64> = z.iter().step_by(2).copied().collect();
        let mean = column.iter().sum::<f64>() / 60.0;
        let variance = column.iter().map(|z| (z - mean).powi(2)).sum::<f64>() / 60.0;
        assert!(mean.abs() < 1e-12 && (variance - 1.0).abs() < 1e-12, "{kind}: {mean} {variance}");
        let warp = scale.warp(0);
        let points = [-1e9, -1.0, 0.0, 0.5 * least, least, 0.3, 1.0, 2.0, 7.0, most, 1.5 * most, 1e9];
        let warped = points.map(|x| warp.forward(x));
        assert!(warped.iter().all(|w| w.is_finite()) && warped.is_sorted_by(|a, b| a < b), "{kind}: {warped:?}");
        for (x, w) in points.iter().zip(warped) {
            assert!((warp.inverse(w) - x).abs() <= 1e-8 * x.abs().max(1.0), "{kind}: {x} {}", warp.inverse(w));
        }
        if let Warp::Asinh { centre, .. } | Warp::Log { centre, .. } = *warp {
            let slope = (warp.forward(centre + 1e-5) - warp.forward(centre - 1e-5)) / 2e-5;
            assert!((slope - 1.0).abs() < 1e-6 && warp.forward(centre) == centre, "{kind}: {slope}");
        }
        // Inside, below and above the training rows.
        let at = [0.41, -0.4, 3.3, 0.1, 0.5 * least, 0.2, 1.1 * most, -0.3];
        let x = fitted.points(&at).unwrap().require_grad();
        let [mean, variance] = fitted.moments(x.clone()).unwrap();
        for (p, mean) in
            fitted.predict_latent(&fitted.table(&at).unwrap()).unwrap().iter().zip(to_f64(mean.clone()).unwrap())
        {
            assert!((p.mean() - mean).abs() < 1e-9, "{kind}: {p:?} {mean}");
        }
        let gradient = to_f64(x.grad(&(mean.sum() + variance.sum()).backward()).unwrap()).unwrap();
        let value = |at: &[f64]| {
            let table = fitted.table(at).unwrap();
            fitted.predict_latent(&table).unwrap().iter().map(|p| p.mean() + p.sd().powi(2)).sum::<f64>()
        };
        for (i, slope) in gradient.iter().enumerate() {
            let step = 1e-6 * at[i].abs();
            let moved = |h: f64| {
                let mut at = at;
                at[i] += h;
                value(&at)
            };
            let numeric = (moved(step) - moved(-step)) / (2.0 * step);
            assert!((slope - numeric).abs() < 1e-5 * numeric.abs().max(1.0), "{kind}, {i}: {slope} {numeric}");
        }
        let again = Fitted::from_bytes(&fitted.to_bytes().unwrap(), &Registry::default(), None).unwrap();
        assert_eq!((&again.input_scale, again.predict(&data).unwrap()), (scale, fitted.predict(&data).unwrap()));
    }
}

#[test]
fn a_transformed_input_is_that_of_a_transformed_table() {
    let data = skewed();
    let asked = Warping { all: None, columns: vec![("a".into(), Some(WarpKind::Asinh))] };
    let inside = Fit::new(&data).kernel("matern32(ard)").input_transform(asked).steps(4).run().unwrap();
    let warp = inside.input_scale.warp(0);
    let x = data.x.chunks(2).flat_map(|row| [warp.forward(row[0]), row[1]]).collect();
    let before = Dataset::new(["a", "b"], x).unwrap().with_target("y", data.y.clone().unwrap()).unwrap();
    let outside = Fit::new(&before).kernel("matern32(ard)").steps(4).run().unwrap();
    assert_eq!(outside.input_scale.warps, []);
    assert_eq!(inside.predict(&data).unwrap(), outside.predict(&before).unwrap());
    let lengthscales = |fitted: &Fitted| fitted.kernel().to_string();
    assert_eq!(lengthscales(&inside), lengthscales(&outside));
}

#[test]
fn heavy_tails_are_transformed_for_classes_unless_something_else_is_asked() {
    // The farthest value of `a` is 11 standard deviations from its median, as the outer tenths give them.
    let x: Vec<f64> = (0..60).flat_map(|i| [(0.25 * f64::from(i)).exp(), (0.9 * f64::from(i)).cos()]).collect();
    let y: Vec<f64> = x.chunks(2).map(|x| x[0].ln().sin() + 0.3 * x[1]).collect();
    let table = |y: Vec<f64>| Dataset::new(["a", "b"], x.clone()).unwrap().with_target("y", y).unwrap();
    let classes = table(y.iter().map(|y| f64::from(*y > 0.0)).collect());
    let data = table(y);
    let fit = |asked: Warping| {
        let fit = Fit::new(&classes).likelihood("bernoulli").model(LaplaceOptions::default());
        fit.input_transform(asked).steps(2).run().unwrap()
    };
    let kinds = |fitted: &Fitted| (0..2).map(|column| fitted.input_scale.warp(column).kind()).collect::<Vec<_>>();
    assert_eq!(kinds(&fit(Warping::default())), [WarpKind::Asinh, WarpKind::None]);
    assert_eq!(kinds(&fit(Warping::all(WarpKind::None))), [WarpKind::None; 2]);
    assert_eq!(kinds(&fit(Warping::all(WarpKind::Ranks))), [WarpKind::Ranks; 2]);
    // Of numbers, nothing is transformed by itself.
    assert_eq!(kinds(&Fit::new(&data).steps(1).run().unwrap()), [WarpKind::None; 2]);
    let refused = |text: &str| {
        let mut asked = Warping::default();
        asked.add(text).and_then(|()| Fit::new(&data).input_transform(asked).run()).unwrap_err().to_string()
    };
    assert!(refused("b=log").contains("`b` has the value"));
    assert!(refused("aa=log").contains("did you mean `a`"));
    assert!(refused("a=logs").contains("asinh, ranks, log"));
}

#[test]
fn moments_are_in_the_users_units() {
    let (fitted, data) = fit(&table(), Settings::default());
    let (device, n) = (fitted.settings.compute.device().unwrap().autodiff(), data.n);
    let x = Tensor::<2>::from_data(TensorData::new(data.x.clone(), [n, 3]), (&device, DType::F64)).require_grad();
    let [mean, variance] = fitted.moments(x.clone()).unwrap();
    let found: Vec<_> = to_f64(mean.clone()).unwrap().into_iter().zip(to_f64(variance).unwrap()).collect();
    for (p, (mean, variance)) in fitted.predict_latent(&data).unwrap().iter().zip(found) {
        assert!((p.mean() - mean).abs() < 1e-9 && (p.sd() - variance.sqrt()).abs() < 1e-7, "{p:?} {mean} {variance}");
    }
    let gradient = to_f64(x.grad(&mean.sum().backward()).unwrap()).unwrap();
    let moved = |step: f64| {
        let mut x = data.row(7).to_vec();
        x[0] += step;
        fitted.predict_mean(&x).unwrap()[0]
    };
    let numeric = (moved(1e-5) - moved(-1e-5)) / 2e-5;
    assert!((gradient[7 * 3] - numeric).abs() < 1e-6 * numeric.abs(), "{} {numeric}", gradient[7 * 3]);
    assert_eq!(fitted.moments(x.narrow(1, 0, 2)).unwrap_err().kind(), ErrorKind::Request);
}

#[test]
fn a_model_of_another_device_is_loaded_on_this_one() {
    let (fitted, data) = fit(&table(), Settings::default());
    let bytes = fitted.to_bytes().unwrap();
    let registry = Registry::default();
    assert_eq!(
        Fitted::from_bytes(&bytes, &registry, None).unwrap().predict(&data).unwrap(),
        fitted.predict(&data).unwrap()
    );
    assert_eq!(Fitted::from_bytes(&bytes[..100], &registry, None).unwrap_err().kind(), ErrorKind::File);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.cagey");
    fitted.save(&path).unwrap();
    let mut file = ModelFile::load(&path).unwrap();
    file.document["settings"]["compute"] = serde_json::json!({ "kind": "cuda", "precision": "f32" });
    file.save(&path).unwrap();
    if !DeviceKind::Cuda.is_built() {
        assert_eq!(Fitted::load(&path).unwrap_err().kind(), ErrorKind::Device);
    }
    let here = Compute::default();
    let loaded = Fitted::load_on(&path, &registry, here).unwrap();
    assert_eq!((loaded.settings.compute, loaded.summary.warnings.len()), (here, fitted.summary.warnings.len()));
    assert_eq!(loaded.predict(&data).unwrap(), fitted.predict(&data).unwrap());
}

#[test]
fn too_little_precision_is_told_where_a_model_is_loaded() {
    let rows = (0..120).map(|i| (0.05 * i as f64, (0.05 * i as f64).sin()));
    let table: String = rows.map(|(a, y)| format!("{a},{y}\n")).collect();
    for (noise, told) in [(1e-6, true), (1e-2, false)] {
        let settings = Settings {
            kernel: "rbf(lengthscale=2, variance=10)".into(),
            init: vec![("noise".into(), vec![noise])],
            fix: vec!["noise".into()],
            ..Settings::default()
        };
        let (fitted, _) = fit(&format!("a,y\n{table}"), settings);
        let single = Compute { precision: Precision::F32, ..Compute::default() };
        let loaded = Fitted::from_bytes(&fitted.to_bytes().unwrap(), &Registry::default(), Some(single)).unwrap();
        let warned =
            loaded.summary.warnings.iter().any(|warning| warning.to_string().contains("Compute::precision = f64"));
        assert_eq!(warned, told, "{noise}");
    }
}

/// Six columns, two of which matter; each row twice with different noise. From the data's own start an ARD kernel ends
/// in a bad optimum.
fn repeated() -> String {
    let noise = |i: usize, k: usize| 0.4 * (12.9 * i as f64 + 78.2 * k as f64).sin();
    let row = |i: usize, k: usize| {
        let x: Vec<f64> = (0..6).map(|c| ((3.1 + 1.7 * c as f64) * i as f64 + 0.5 * c as f64).sin()).collect();
        let inputs: Vec<String> = x.iter().map(f64::to_string).collect();
        format!("{},{}\n", inputs.join(","), (2.0 * x[0]).sin() + x[1] + noise(i, k))
    };
    let rows = (0..40).flat_map(|i| [row(i, 0), row(i, 1)]);
    format!("a,b,c,d,e,f,y\n{}", rows.collect::<String>())
}

fn read(table: &str) -> (Schema, Dataset) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.csv");
    std::fs::write(&path, table).unwrap();
    read_training(&path, &ReadOptions::default()).unwrap()
}

fn trained(table: &str, settings: Settings) -> Fitted {
    let (schema, data) = read(table);
    let registry = Registry::default();
    let config = registry.models.options(&settings.model).unwrap().training(500);
    Fitted::fit(schema, &data, settings, &config, &registry, &mut []).unwrap()
}

#[test]
fn a_kernel_with_a_lengthscale_a_column_ends_at_or_below_the_one_with_a_single_one() {
    let settings = |kernel: &str| Settings { kernel: kernel.into(), weak_prior: false, ..Settings::default() };
    for kernel in ["matern32", "rbf"] {
        let isotropic = trained(&repeated(), settings(kernel));
        assert!(isotropic.summary.race.is_none(), "there is one start");
        let each = trained(&repeated(), settings(&format!("{kernel}(ard)")));
        assert!(each.summary.loss <= isotropic.summary.loss + 1e-9);
        let race = each.summary.race.clone().unwrap();
        assert_eq!((race.starts.len(), race.rows), (2, 80));
        let losses: Vec<f64> = race.starts.iter().map(|start| start.loss.unwrap()).collect();
        assert!(losses.is_sorted() && each.summary.loss <= losses[0]);
        assert!(
            race.sentence().unwrap().starts_with(&format!("{} (objective {:.3}; ", race.starts[0].name, losses[0]))
        );
        // The summary counts what was tried.
        let last = each.summary.history.records.last().unwrap();
        assert!(each.summary.iterations >= race.steps + last.iteration && race.evaluations > 30);
    }
}

#[test]
fn many_waves_along_a_single_input_are_not_taken_for_noise() {
    let target = |x: f64, e: f64| 2.0 * x + (2.0 * std::f64::consts::PI * 40.0 * x).sin() + 0.1 * e;
    let row = |i: usize| {
        let x = (0.618_034 * i as f64).fract();
        format!("{x},{}\n", target(x, (12.9 * i as f64).sin()))
    };
    let table = format!("x,y\n{}", (0..300).map(row).collect::<String>());
    let own = trained(&table, Settings { starts: Starts::Data, ..Settings::default() });
    let raced = trained(&table, Settings::default());
    assert!(raced.summary.loss < own.summary.loss - 0.5, "{} and {}", raced.summary.loss, own.summary.loss);
    assert_eq!(raced.summary.race.unwrap().starts[0].name, "short lengthscale");
    // No race for several lengthscales, for one that is given or bounded, and for few inputs.
    let raced = |table: &str, settings: Settings| trained(table, settings).summary.race.is_some();
    for kernel in ["matern32 + rbf", "matern32(lengthscale=0.3)"] {
        assert!(!raced(&table, Settings { kernel: kernel.into(), ..Settings::default() }));
    }
    let bounds = vec![("lengthscale".into(), 0.2, 2.0)];
    assert!(!raced(&table, Settings { bounds, ..Settings::default() }));
    let few = (0..30).map(|i| format!("{},{}\n", i % 3, (1.7 * i as f64).sin())).collect::<String>();
    assert!(!raced(&format!("x,y\n{few}"), Settings::default()));
}

#[test]
fn starts_that_are_given_are_not_raced() {
    let start = |change: fn(&mut Settings)| {
        let mut settings = Settings::default();
        change(&mut settings);
        trained(&repeated(), settings).summary.race
    };
    assert!(start(|_| {}).is_some());
    assert!(start(|settings| settings.starts = Starts::Data).is_none());
    assert!(start(|settings| settings.init = vec![("lengthscale".into(), vec![1.0])]).is_none());
    assert!(start(|settings| settings.fix = vec!["lengthscale".into()]).is_none());
    assert!(start(|settings| settings.model = SgprOptions::default().inducing(10).into()).is_some());
}

/// Asks to stop after so many steps, whichever training makes them.
struct StopAfter(usize);

impl Observer for StopAfter {
    fn step(&mut self, _report: &Report) -> ControlFlow<()> {
        self.0 = self.0.saturating_sub(1);
        if self.0 == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[test]
fn a_training_stopped_anywhere_goes_on_to_the_same_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let [path, state] = ["table.csv", "state"].map(|name| folder.path().join(name));
    std::fs::write(&path, repeated()).unwrap();
    let (schema, data) = read_training(&path, &ReadOptions::default()).unwrap();
    let registry = Registry::default();
    for model in [Settings::default().model, SgprOptions::default().inducing(10).into()] {
        let settings = Settings { model, ..Settings::default() };
        let config = TrainConfig::new(Optimizer::default(), 25).fingerprint("one");
        let train = |config: &TrainConfig, steps| {
            let mut stop = StopAfter(steps);
            Fitted::fit(schema.clone(), &data, settings.clone(), config, &registry, &mut [&mut stop]).unwrap()
        };
        let whole = train(&config, usize::MAX);
        assert!(whole.summary.race.is_some());
        let saved = config.clone().checkpoint(CheckpointPlan::every_steps(&state, 1));
        let ends_alike = || {
            let resumed = train(&config.clone().resume(&state), usize::MAX);
            assert_eq!(resumed.summary.loss, whole.summary.loss);
            assert_eq!(resumed.predict(&data).unwrap(), whole.predict(&data).unwrap());
            assert_eq!(resumed.summary.iterations, whole.summary.iterations);
        };
        let steps = whole.summary.iterations;
        for stop in [1, 3, steps / 4, steps / 2, steps - 26, steps - 24, steps - 10] {
            train(&saved, stop);
            ends_alike();
            // Stopped once more.
            train(&saved.clone().resume(&state), 4);
            ends_alike();
        }
        for micros in [0, 2_000, 10_000, 50_000] {
            train(&saved.clone().max_time(Duration::from_micros(micros)), usize::MAX);
            ends_alike();
        }
    }
}

#[test]
fn a_training_that_was_cut_short_says_so_and_its_rows_are_left_out_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.csv");
    std::fs::write(&path, wide()).unwrap();
    let (schema, data) = read_training(&path, &ReadOptions::default()).unwrap();
    let registry = Registry::default();
    let settings = Settings { starts: Starts::Data, calibrate: Calibrate::No, ..Settings::default() };
    let train = |config: &TrainConfig, steps| {
        let mut stop = StopAfter(steps);
        Fitted::fit(schema.clone(), &data, settings.clone(), config, &registry, &mut [&mut stop]).unwrap()
    };
    let config = TrainConfig::new(Optimizer::default(), 200);
    let told =
        |fitted: &Fitted, words: &str| fitted.summary.warnings.iter().any(|warning| warning.text.contains(words));
    let stopped = train(&config, 4);
    assert!(told(&stopped, "interrupted after 3 of at most 200 steps"), "{:?}", stopped.summary.warnings);
    assert!(told(&train(&config.clone().max_time(Duration::ZERO), usize::MAX), "the time was up after 0"));
    let ended = train(&config, usize::MAX);
    assert!(!told(&ended, "after"));

    // The same model, as if the time had been up.
    let mut cut = ended.clone();
    cut.summary.termination = Termination::MaxTime.to_string();
    let unknown = |fitted: &Fitted| fitted.left_out().unwrap().unwrap().unknown;
    assert_eq!(unknown(&ended), None);
    assert!(unknown(&cut).unwrap().contains("cut short") && unknown(&stopped).is_some());
    let means = |fitted: &Fitted| fitted.leave_one_out().unwrap().1.iter().map(|p| p.mean()).collect::<Vec<_>>();
    assert_ne!(means(&cut), means(&ended));
}

/// Fewer rows than the columns need.
fn wide() -> String {
    let row = |i: usize| {
        let x: Vec<f64> = (0..12).map(|c| 10.0 * (c + 1) as f64 * ((3.1 + 1.7 * c as f64) * i as f64).sin()).collect();
        let inputs: Vec<String> = x.iter().map(f64::to_string).collect();
        format!("{},{}\n", inputs.join(","), x[0] / 10.0 + 0.5 * (12.9 * i as f64).sin())
    };
    let names: Vec<String> = (0..12).map(|c| format!("x{c}")).collect();
    format!("{},y\n{}", names.join(","), (0..30).map(row).collect::<String>())
}

#[test]
fn slopes_need_rows() {
    let fitted = trained(&wide(), Settings { mean: "linear".into(), ..Settings::default() });
    assert!(
        fitted.summary.warnings.iter().any(|warning| warning.text.contains("each of 12 columns, too many for 30 rows"))
    );
    let fitted = trained(&repeated(), Settings { mean: "linear".into(), ..Settings::default() });
    assert!(!fitted.summary.warnings.iter().any(|warning| warning.text.contains("slope")));
}

#[test]
fn many_lengthscales_have_a_weak_prior_in_standard_deviations() {
    let lengths = |fitted: &Fitted| {
        let parameters = fitted.model.parameters();
        parameters.into_iter().find(|(path, _)| path.ends_with("lengthscale")).unwrap().1.clone()
    };
    let weak = trained(&wide(), Settings::default());
    assert!(weak.summary.weak_prior.as_ref().unwrap().contains("few rows a column"));
    let (parameter, sd) = (lengths(&weak), &weak.input_scale.sd);
    assert_eq!(parameter.priors().len(), 12);
    for (prior, sd) in parameter.priors().iter().zip(sd) {
        let Some(Prior::LogStudent(_, location, _)) = prior else { panic!("{prior:?}") };
        assert!((location - (0.5 * 12f64.ln() + sd.ln())).abs() < 1e-9, "{location} {sd}");
    }
    // The same without standardising, in units of the data.
    let plain = trained(&wide(), Settings { standardize: false, ..Settings::default() });
    let Some(Prior::LogStudent(_, location, _)) = lengths(&plain).priors()[3] else { panic!() };
    assert!((location - (0.5 * 12f64.ln() + sd[3].ln())).abs() < 1e-6);

    let none = trained(&wide(), Settings { weak_prior: false, ..Settings::default() });
    assert!(none.summary.weak_prior.is_none() && lengths(&none).priors().is_empty());
    let asked = |name: &str, prior: &str| {
        let settings = Settings { priors: vec![(name.into(), prior.parse().unwrap())], ..Settings::default() };
        lengths(&trained(&wide(), settings))
    };
    let sds = asked("lengthscale[x3]", "lognormal(0.5, 1) sd");
    let Some(Prior::LogNormal(location, _)) = sds.priors()[3] else { panic!() };
    assert!((location - (0.5 + sd[3].ln())).abs() < 1e-9);
    assert!(sds.priors().iter().enumerate().all(|(i, prior)| prior.is_some() == (i == 3)));
    assert_eq!(asked("lengthscale", "gamma(2, 1)").priors(), [Some(Prior::Gamma(2.0, 1.0)); 12]);
}

#[test]
fn variances_of_classes_have_a_weak_prior_where_evidence_would_have_them_large() {
    let row = |i: usize| {
        let x = (0.7 * i as f64).sin();
        format!("{x},{},{}\n", (1.3 * i as f64).cos(), u8::from(x > 0.1))
    };
    let table = format!("a,b,class\n{}", (0..40).map(row).collect::<String>());
    let with = |model: ModelChoice, change: fn(&mut Settings)| {
        let mut settings = Settings { model, likelihood: "bernoulli".into(), ..Settings::default() };
        change(&mut settings);
        let fitted = trained(&table, settings);
        let parameters = fitted.model.parameters();
        let variance = parameters.into_iter().find(|(path, _)| path.ends_with("variance")).unwrap().1.clone();
        (fitted.summary.weak_prior, variance.priors().to_vec(), variance.values()[0])
    };
    let cagp = || CagpOptions::default().actions(40).policy(ActionPolicy::Gradient).refresh(10);
    // With a corrected evidence, or sites tied to the latent distribution, variances are less large than without.
    for (model, larger) in [(ModelChoice::from(LaplaceOptions::default()), 2.0), (cagp().into(), 2.0)] {
        let (told, priors, variance) = with(model.clone(), |_| {});
        assert_eq!(priors, [Some(Prior::Gamma(1.0, 0.1))]);
        assert!(told.unwrap().contains("variance ~ gamma(1, 0.1)"));
        let (told, priors, free) = with(model.clone(), |settings| settings.weak_prior = false);
        assert!(told.is_none() && priors.is_empty() && free > larger * variance, "{free} {variance}");
        // A setting for the variance turns the weak prior off.
        let asked: [fn(&mut Settings); 4] = [
            |settings| settings.init = vec![("variance".into(), vec![2.0])],
            |settings| settings.bounds = vec![("variance".into(), 0.1, 10.0)],
            |settings| settings.fix = vec!["variance".into()],
            |settings| settings.kernel = "2 * matern32(ard)".into(),
        ];
        for change in asked {
            let (told, priors, _) = with(model.clone(), change);
            assert!(told.is_none() && priors.is_empty(), "{priors:?}");
        }
        let gamma = [("variance".to_string(), "gamma(2, 1)".parse().unwrap())];
        let settings = Settings { model, likelihood: "bernoulli".into(), priors: gamma.into(), ..Settings::default() };
        assert!(trained(&table, settings).summary.weak_prior.is_none());
    }
    let batches = Minibatches { natural: Some(0.1), ..Minibatches::default() };
    let svgp = SvgpOptions::default().inducing(10).covariance(Covariance::Full).batches(batches);
    assert!(with(svgp.into(), |_| {}).1.is_empty(), "a bound needs none");
    assert!(trained(&repeated(), Settings::default()).summary.weak_prior.is_none());
}

#[test]
fn the_scale_learned_from_few_rows_is_uncertain_unless_it_is_known() {
    let with = |change: fn(&mut Settings)| {
        let mut settings = Settings::default();
        change(&mut settings);
        trained(&table(), settings)
    };
    let fitted = with(|_| {});
    let calibration = fitted.calibration.unwrap();
    assert_eq!((calibration.source, calibration.rows), (Source::FewRows, 40));
    assert_eq!(calibration.shape.parts[0].df, Some(39.0));
    let sgpr: fn(&mut Settings) = |settings| settings.model = SgprOptions::default().inducing(10).into();
    assert_eq!(with(sgpr).calibration.unwrap().source, Source::FewRows);
    // More rows join the same parameters; more computation does not change what is known about the scale.
    let cagp: fn(&mut Settings) = |settings| {
        settings.model = CagpOptions::default().actions(10).policy(ActionPolicy::Gradient).into();
    };
    assert_eq!(with(cagp).refined(5).unwrap().calibration, Some(calibration));
    let known: [fn(&mut Settings); 4] = [
        |settings| settings.fix = vec!["noise".into()],
        |settings| settings.fix = vec!["variance".into()],
        |settings| settings.auxiliary_column = Some("s".into()),
        |settings| settings.calibrate = Calibrate::No,
    ];
    for change in known {
        assert!(with(change).calibration.is_none());
    }
    let asked = with(|settings| settings.calibrate = Calibrate::Yes).calibration.unwrap();
    assert_eq!(asked.source, Source::LeaveOneOut);
    assert!(trained(&repeated(), Settings::default()).calibration.is_none_or(|c| c.source != Source::FewRows));
}

#[test]
fn many_rows_of_classes_are_calibrated_by_default() {
    let with = |rows: usize, calibrate: Calibrate| {
        let row = |i: usize| format!("{},{}\n", (0.7 * i as f64).sin(), i % 3 / 2);
        let table = format!("x,y\n{}", (0..rows).map(row).collect::<String>());
        let batches = Minibatches { size: 100, ..Minibatches::default() };
        let model = SvgpOptions::default().inducing(5).covariance(Covariance::Diagonal).batches(batches).into();
        let settings = Settings { likelihood: "bernoulli".into(), model, calibrate, ..Settings::default() };
        let fitted = fit(&table, settings).0;
        (fitted.summary.rows, fitted.temperature.map(|temperature| temperature.rows))
    };
    assert_eq!(with(20_000, Calibrate::Auto), (19_000, Some(1000)));
    assert_eq!(with(5000, Calibrate::Auto), (4500, Some(500)));
    assert_eq!(with(4999, Calibrate::Auto), (4999, None));
    assert_eq!(with(5000, Calibrate::No), (5000, None));
    assert_eq!(with(200, Calibrate::Yes), (170, Some(30)));
}

#[test]
fn ranges_that_begin_at_zero_do() {
    let mut rounded = 0;
    for (count, unit) in [(25, 0.7), (30, 1.1), (36, 0.7), (51, 0.7)] {
        let row = |i: usize| format!("{},{}\n", unit * (i * i % count) as f64, i % 5);
        let fitted = trained(&format!("x,y\n{}", (0..count).map(row).collect::<String>()), Settings::default());
        rounded += usize::from(fitted.input_scale.value(0, fitted.ranges()[0][0]) != 0.0);
        assert_eq!(fitted.input_ranges()[0][0], 0.0);
    }
    assert!(rounded > 0, "no end comes back as a rounding error");
}

#[test]
fn classes_left_out_in_closed_form_determine_a_temperature() {
    let class = |i: usize| usize::from((0.37 * i as f64).sin() > if i.is_multiple_of(17) { 0.9 } else { 0.0 });
    let row = |i: usize| format!("{},{}\n", (0.37 * i as f64).sin(), class(i));
    let table = format!("x,y\n{}", (0..120).map(row).collect::<String>());
    let with = |calibrate: Calibrate| {
        let model = LaplaceOptions::default().into();
        trained(&table, Settings { likelihood: "bernoulli".into(), model, calibrate, ..Settings::default() })
    };
    let [plain, usual, asked] = [Calibrate::No, Calibrate::Auto, Calibrate::Yes].map(with);
    let (y, left) = plain.left_out_targets().unwrap();
    let codes: Vec<usize> = y.iter().map(|y| *y as usize).collect();
    let probabilities: Vec<Vec<f64>> = left.iter().map(|p| p.probabilities().unwrap()).collect();
    let found = Temperature::fit(&codes, &probabilities, Source::LeaveOneOut);
    assert!(found.exponent > 1.1 && found.rows == 120, "{found:?}");
    assert_eq!((usual.temperature, asked.temperature, plain.temperature), (Some(found), Some(found), None));
    assert_eq!(usual.uncalibrated().temperature, None);
}

#[test]
fn priors_of_columns_that_are_none_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.csv");
    std::fs::write(&path, table()).unwrap();
    let (schema, data) = read_training(&path, &ReadOptions::default()).unwrap();
    let refused = |kernel: &str, name: &str, prior: &str, words: &str| {
        let priors = vec![(name.into(), prior.parse().unwrap())];
        let settings = Settings { kernel: kernel.into(), priors, ..Settings::default() };
        let error = Plan::new(schema.clone(), &data, settings, 0, &Registry::default()).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    refused("rbf(ard)", "lengthscale[z]", "normal(0, 1)", "no input column `z`; there are a, b, s");
    refused("rbf", "lengthscale[a]", "normal(0, 1)", "`ard`");
    refused("rbf", "noise", "lognormal(0, 1) sd", "leave `sd` out");
    refused("rbf(ard)", "length", "normal(0, 1)", "did you mean `lengthscale`");
}

#[test]
fn predictions_that_are_no_numbers_are_refused() {
    let (fitted, _) = fit(&table(), Settings { kernel: "polynomial(power=3) + rbf".into(), ..Settings::default() });
    let far = [1e200, 1.0, 0.1];
    assert!(fitted.predict_rows(&[1e3, 1.0, 0.1]).is_ok());
    for refused in [fitted.predict_rows(&far).map(drop), fitted.predict_mean(&far).map(drop)] {
        let refused = refused.unwrap_err();
        assert!(refused.kind() == ErrorKind::Request && refused.to_string().contains("row 1"), "{refused}");
    }
    let targets = fitted.predict_targets(&fitted.table(&far).unwrap());
    assert_eq!(targets.unwrap_err().kind(), ErrorKind::Request);
}

#[test]
fn a_model_is_replaced_while_it_serves() {
    let sparse = Settings { model: SgprOptions::default().inducing(8).into(), ..Settings::default() };
    let models = [Settings::default(), sparse].map(|settings| fit(&table(), settings).0);
    let bytes = models.each_ref().map(|model| model.to_bytes().unwrap());
    let x = [1.5, 0.3, 0.1];
    let answers = models.each_ref().map(|model| model.predict_rows(&x).unwrap());
    let serving = RwLock::new(Arc::new(models[0].clone()));
    let left = AtomicUsize::new(2000);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
                    let model = Arc::clone(&serving.read().unwrap());
                    assert!(answers.contains(&model.predict_rows(&x).unwrap()));
                }
            });
        }
        for i in 0.. {
            if left.load(Ordering::Relaxed) == 0 {
                break;
            }
            let fresh = Fitted::from_bytes(&bytes[i % 2], &Registry::default(), None).unwrap();
            *serving.write().unwrap() = Arc::new(fresh);
        }
    });
}

/// A zero mean that is asked for is one; without asking, log odds and log rates have a level.
#[test]
fn a_zero_mean_is_zero_where_it_is_asked_for() {
    let rows = (0..40).map(|i| format!("{i},{}\n", u8::from(i % 8 == 0)));
    let table = format!("a,y\n{}", rows.collect::<String>());
    let levels = |likelihood: &str, mean: Option<&str>| {
        let mut settings =
            Settings { likelihood: likelihood.into(), model: LaplaceOptions::default().into(), ..Settings::default() };
        settings.mean = mean.map_or(settings.mean, String::from);
        let fitted = trained(&table, settings);
        let bytes = fitted.to_bytes().unwrap();
        let again = Fitted::from_bytes(&bytes, &Registry::default(), None).unwrap();
        assert_eq!(again.model.parameters().len(), fitted.model.parameters().len());
        fitted.model.parameters().iter().filter(|(path, _)| path.ends_with("constant")).count()
    };
    for likelihood in ["bernoulli", "poisson"] {
        assert_eq!(
            [None, Some("zero"), Some("constant")].map(|mean| levels(likelihood, mean)),
            [1, 0, 1],
            "{likelihood}"
        );
    }
}

/// Noise has a floor unless less is asked for; with next to none the posterior interpolates.
#[test]
fn less_noise_than_the_floor_can_be_asked_for() {
    let rows = [(1.0, 0.84), (3.0, 0.42), (5.0, -4.79), (6.0, -1.68), (7.0, 4.60), (8.0, 7.91)];
    let table = format!("a,y\n{}", rows.map(|(a, y)| format!("{a},{y}\n")).concat());
    let asked: [fn(&mut Settings); 3] = [
        |settings| settings.bounds = vec![("noise".into(), 1e-12, 1.0)],
        |settings| settings.init = vec![("noise".into(), vec![1e-11])],
        |settings| (settings.init, settings.fix) = (vec![("noise".into(), vec![1e-11])], vec!["noise".into()]),
    ];
    for (k, ask) in asked.into_iter().enumerate() {
        let mut settings = Settings { kernel: "rbf".into(), calibrate: Calibrate::No, ..Settings::default() };
        ask(&mut settings);
        let fitted = trained(&table, settings);
        let noise = fitted.model.parameters().iter().find(|(path, _)| path.ends_with("noise")).unwrap().1.values()[0];
        assert!(noise < 2e-6 && (k < 2 || (noise / 1e-11 - 1.0).abs() < 1e-9), "{k}: {noise:e}");
        for (a, y) in rows {
            let prediction = &fitted.predict_rows(&[a]).unwrap()[0];
            assert!((prediction.mean() - y).abs() < 1e-4, "{k}, {a}: {} {y}", prediction.mean());
        }
    }
    let mut settings = Settings { init: vec![("noise".into(), vec![0.0])], ..Settings::default() };
    settings.fix = vec!["noise".into()];
    let (schema, data) = read(&table);
    let error = Plan::new(schema, &data, settings, 0, &Registry::default()).unwrap_err().to_string();
    assert!(error.contains("noise") && error.contains("positive"), "{error}");
}

/// The objective of probes is an estimate, which says how far it may be off, and whose probes the seed chooses.
#[test]
fn estimated_objectives_have_an_error_and_move_with_the_seed() {
    let table = table();
    let fitted = |seed| {
        let options = CgGpOptions::default().rank(5);
        let settings = Settings { model: options.into(), kernel: "matern32".into(), ..Settings::default() };
        let (schema, data) = read(&table);
        let config = TrainConfig { seed, ..TrainConfig::new(Optimizer::default(), 0) };
        let plan = Plan::new(schema, &data, settings, seed, &Registry::default()).unwrap();
        plan.train(&config, &mut []).unwrap().summary
    };
    let [one, other] = [0, 1].map(fitted);
    let error = one.loss_error.unwrap();
    assert!(error > 0.0 && one.loss != other.loss && (one.loss - other.loss).abs() < 6.0 * error, "{one:?} {other:?}");
    assert_eq!(trained(&repeated(), Settings::default()).summary.loss_error, None);
}

/// A short series with a period and noise of its own.
fn series(k: usize, rows: usize) -> Dataset {
    let mut state = 11 + k as u64;
    let x: Vec<f64> = (0..rows).map(|i| 0.1 * i as f64).collect();
    let y = x.iter().map(|x| ((1.0 + 0.1 * (k % 7) as f64) * x).sin() + 0.2 * uniform(&mut state)).collect();
    Dataset::new(["t"], x).unwrap().with_target("y", y).unwrap()
}

fn uniform(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 11) as f64 / (1u64 << 53) as f64
}

#[test]
fn many_small_models_train_together_as_they_would_alone() {
    let tables: Vec<Dataset> = (0..9).map(|k| series(k, 30 + 3 * (k % 3))).collect();
    let kernels = ["matern52", "rbf + linear", "periodic * matern32", "rq + constant", "matern52 + white", "wiener"];
    for mean in ["zero", "linear"] {
        let fits =
            || tables.iter().enumerate().map(|(k, data)| Fit::new(data).kernel(kernels[k % 6]).mean(mean).steps(12));
        let together = Fitted::fit_many(fits().collect());
        for ((alone, together), data) in fits().map(Fit::run).zip(together).zip(&tables) {
            let (alone, together) = (alone.unwrap(), together.unwrap());
            assert!((alone.summary.loss - together.summary.loss).abs() < 1e-7 * (1.0 + alone.summary.loss.abs()));
            let pairs = alone.predict(data).unwrap().into_iter().zip(together.predict(data).unwrap());
            for (a, b) in pairs {
                assert!((a.mean() - b.mean()).abs() < 1e-5 && (a.sd() - b.sd()).abs() < 1e-5, "{a:?} {b:?}");
            }
        }
    }
    // Variational models, also of likelihoods with parameters of their own, and one that stands alone (`wiener`).
    for likelihood in ["poisson", "student-t", "bernoulli"] {
        let of = |k: usize, data: &Dataset| {
            let y = data.y.as_ref().unwrap().iter().map(|y| match likelihood {
                "poisson" => (2.0 * y.abs()).round(),
                "bernoulli" => f64::from(u8::from(*y > 0.0)),
                _ => *y,
            });
            let x: Vec<f64> = data.x.clone();
            (Dataset::new(["t"], x).unwrap().with_target("y", y.collect()).unwrap(), kernels[k % 6])
        };
        let tables: Vec<(Dataset, &str)> = tables.iter().enumerate().map(|(k, data)| of(k, data)).collect();
        let fits = || {
            // Line searches would amplify rounding.
            let batches = || Minibatches { natural: None, ..Minibatches::default() };
            let model = move || SvgpOptions::default().inducing(12).batches(batches());
            tables.iter().map(move |(data, kernel)| {
                let few = TrainConfig::new(Optimizer::Adam(Adam::default()), 12);
                Fit::new(data).kernel(*kernel).likelihood(likelihood).model(model()).config(few)
            })
        };
        let together = Fitted::fit_many(fits().collect());
        for (alone, together) in fits().map(Fit::run).zip(together) {
            let [a, b] = [alone, together].map(|fitted| fitted.unwrap().summary.loss);
            assert!((a - b).abs() < 1e-9 * (1.0 + a.abs()), "{likelihood}: {a} {b}");
        }
    }
    // A failure is that of its own fit.
    let mut fits: Vec<Fit> = tables.iter().map(|data| Fit::new(data).kernel("rbf").steps(3)).collect();
    fits[4] = fits[4].clone().kernel("rubbish");
    let found = Fitted::fit_many(fits);
    assert!(found.iter().enumerate().all(|(k, found)| found.is_err() == (k == 4)));
}
