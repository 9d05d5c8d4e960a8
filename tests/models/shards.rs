//! Experts that each have their own table.

use std::path::Path;
use std::sync::Arc;

use cagey::Result;
use cagey::data::{InputScale, ReadOptions, Schema, TargetScale, TargetTransform, read_training};
use cagey::distributed::Ranks;
use cagey::fitted::{Fitted, Plan, Reading, Registry, Rows, Settings, Tables};
use cagey::likelihoods::Gaussian;
use cagey::model_file::ModelFile;
use cagey::models::exact::{ExactGp, ExactObjective};
use cagey::models::experts::aggregation::Rule;
use cagey::models::experts::{Algorithm, Experts, ExpertsOptions, Federation, Shared};
use cagey::models::minibatch::Minibatches;
use cagey::models::posterior::Posterior;
use cagey::models::svgp::SvgpOptions;
use cagey::models::variational::Covariance;
use cagey::models::{Observations, fit};
use cagey::params::Parameters;
use cagey::scope::Scope;
use cagey::train::TrainConfig;

use super::ranks::with_ranks;
use crate::common::{F64, assert_close};

/// Numbers of rows of four tables; the tables also lie in different places.
const SIZES: [usize; 4] = [12, 9, 17, 14];

fn row(shard: usize, i: usize) -> [f64; 4] {
    let t = i as f64 + 0.37 * shard as f64;
    let (a, b) = (100.0 + 3.0 * shard as f64 + 0.4 * t, (1.7 * t).cos());
    [a, b, 0.1 + 0.05 * (i % 3) as f64, 5.0 + (0.5 * a).sin() + 0.3 * b + 0.05 * (7.7 * t).sin()]
}

fn write(folder: &Path) -> Vec<String> {
    let write = |(shard, size): (usize, &usize)| {
        let path = folder.join(format!("site-{}.csv", shard + 1));
        let line = |i: usize| row(shard, i).map(|value| value.to_string()).join(",");
        let lines: Vec<String> = (0..*size).map(line).collect();
        std::fs::write(&path, format!("a,b,s,y\n{}\n", lines.join("\n"))).unwrap();
        path.to_str().unwrap().to_string()
    };
    SIZES.iter().enumerate().map(write).collect()
}

fn settings(options: ExpertsOptions) -> Settings {
    Settings {
        kernel: "1.3 * matern32(ard)".into(),
        mean: "constant".into(),
        auxiliary_column: Some("s".into()),
        model: options.into(),
        compute: F64,
        ..Settings::default()
    }
}

fn schema(paths: &[String]) -> Schema {
    read_training(&paths[0], &ReadOptions::default()).unwrap().0
}

fn registry(ranks: Option<&Arc<Ranks>>) -> Registry {
    ranks.map_or_else(Registry::default, |ranks| Registry::default().over(Arc::clone(ranks)))
}

fn open(paths: &[String], ranks: Option<&Arc<Ranks>>) -> Result<Tables> {
    let options = serde_json::to_value(ReadOptions::default()).unwrap();
    let (schema, transform, auxiliary_column) = (schema(paths), TargetTransform::Identity, Some("s".into()));
    let reading = Reading { schema, options, transform, auxiliary_column, unasked: false };
    Tables::open(paths, reading, &registry(ranks))
}

fn fitted(paths: &[String], options: ExpertsOptions, ranks: Option<&Arc<Ranks>>) -> Result<Fitted> {
    let registry = Registry::default();
    let plan = Plan::from_shards(open(paths, ranks)?, settings(options), 1, &registry)?;
    plan.train(&TrainConfig { steps: 7, ..TrainConfig::default() }, &mut [])
}

#[test]
fn any_number_of_ranks_writes_the_same_model() {
    let folder = tempfile::tempdir().unwrap();
    let paths = write(folder.path());
    let points = [101.0, 0.3, 0.1, 108.5, -0.5, 0.2, 120.0, 0.0, 0.1];
    for algorithm in [Algorithm::Fact, Algorithm::Fedavg, Algorithm::Pxadmm] {
        let options = || {
            ExpertsOptions::default().training(Federation {
                algorithm,
                share: if algorithm == Algorithm::Fedavg { 0.5 } else { 1.0 },
                ..Federation::default()
            })
        };
        let of = |mut fitted: Fitted| {
            let predicted = fitted.predict_rows(&points).unwrap();
            // The clock's time differs.
            fitted.summary.seconds = 0.0;
            fitted.summary.history = Default::default();
            (predicted, fitted.to_bytes().unwrap())
        };
        let alone = of(fitted(&paths, options(), None).unwrap());
        for size in 1..=4 {
            let spread = with_ranks(size, |ranks| of(fitted(&paths, options(), Some(ranks)).unwrap()));
            assert!(spread == alone, "{algorithm:?}: {size} ranks");
        }
    }
}

#[test]
fn shards_are_the_experts_of_one_table() {
    let folder = tempfile::tempdir().unwrap();
    let paths = write(folder.path());
    let fitted = with_ranks(3, |ranks| fitted(&paths, ExpertsOptions::default(), Some(ranks)).unwrap());
    let rows: Vec<[f64; 4]> = SIZES.iter().enumerate().flat_map(|(s, n)| (0..*n).map(move |i| row(s, i))).collect();
    let n = rows.len();
    let (x, y): (Vec<f64>, Vec<f64>) =
        (rows.iter().flat_map(|r| [r[0], r[1]]).collect(), rows.iter().map(|r| r[3]).collect());
    let scale = InputScale::fit(&x, 2).unwrap();
    assert_close("means", &fitted.input_scale.mean, &scale.mean, 1e-12);
    assert_close("sds", &fitted.input_scale.sd, &scale.sd, 1e-12);
    let mean = y.iter().sum::<f64>() / n as f64;
    let sd = (y.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / n as f64).sqrt();
    let TargetScale { mean: found, sd: width, .. } = fitted.target_scale;
    assert_close("target", &[found, width], &[mean, sd], 1e-12);
    assert_eq!(fitted.summary.rows, n);

    let y = y.iter().map(|y| (y - mean) / sd).collect();
    let noise = rows.iter().map(|r| (r[2] / sd).powi(2)).collect();
    let data = Observations::new(scale.apply(&x).unwrap(), 2, y, Some(noise)).unwrap();
    let mut start = 0;
    let parts = SIZES.iter().map(|n| {
        start += n;
        (start - n..start).collect()
    });
    let prior = fitted.model.prior().clone();
    let exact = ExactGp { prior, likelihood: Gaussian::new(0.1), objective: ExactObjective::MarginalLikelihood };
    let mut experts = Experts::new(Shared::Exact(exact), Rule::Rbcm, parts.collect(), vec![0]).unwrap();
    let raw: Vec<Vec<f64>> = fitted.model.parameters().into_iter().map(|(_, p)| p.raw().to_vec()).collect();
    experts.parameters_mut().into_iter().zip(&raw).for_each(|((_, p), raw)| p.set_raw(raw).unwrap());
    let whole = fit::evaluate(&experts, F64, &data.batch(&Scope::new(F64).unwrap())).unwrap();
    assert_close("loss", &[fitted.summary.loss * n as f64], &[whole.loss], 1e-10);

    let points = [101.0, 0.3, 0.1, 108.5, -0.5, 0.2, 104.0, 0.7, 0.1];
    let (inputs, _) = fitted.standardise(&fitted.table(&points).unwrap()).unwrap();
    let posterior = experts.posterior(F64, data).unwrap();
    for rule in ["poe", "gpoe", "gpoe-entropy", "gpoe-entropy-normalised", "bcm", "rbcm", "nearest"] {
        let rule = Rule::ALL.into_iter().find(|other| other.name() == rule).unwrap();
        let want = posterior.by_rule(rule).predict(&inputs).unwrap();
        let got = with_ranks(2, |ranks| {
            let plan = open(&paths, Some(ranks)).unwrap();
            let plan = Plan::from_shards(plan, settings(ExpertsOptions::default()), 1, &Registry::default()).unwrap();
            let mut again = plan.model().boxed();
            again.parameters_mut().into_iter().zip(&raw).for_each(|((_, p), raw)| p.set_raw(raw).unwrap());
            let posterior = again.condition(F64, plan.rows().clone()).unwrap();
            posterior.aggregates().unwrap().by(rule.name()).unwrap().predict(&inputs).unwrap()
        });
        assert_close(rule.name(), &got.mean, &want.mean, 1e-10);
        assert_close(rule.name(), &got.variance, &want.variance, 1e-10);
    }
}

#[test]
fn the_model_file_has_no_rows_and_finds_them_again() {
    let folder = tempfile::tempdir().unwrap();
    let paths = write(folder.path());
    let fitted = with_ranks(2, |ranks| fitted(&paths, ExpertsOptions::default(), Some(ranks)).unwrap());
    let file = folder.path().join("model.cagey");
    fitted.save(&file).unwrap();
    let arrays = ModelFile::load(&file).unwrap().arrays;
    assert!(arrays.values().all(|array| array.shape.contains(&0)), "{arrays:?}");
    let bytes = std::fs::read(&file).unwrap();
    for value in [row(0, 3)[3], row(2, 5)[3]] {
        let standardised = (value - fitted.target_scale.mean) / fitted.target_scale.sd;
        assert!(!bytes.windows(8).any(|window| window == standardised.to_le_bytes()));
    }

    // The tables are not below the working directory, so that somebody has to name them.
    let said = Fitted::load(&file).unwrap_err().to_string();
    assert!(said.contains("site-1.csv") && said.contains("working directory"), "{said}");
    let registry = Registry::default();
    let load = |paths: &[String]| Fitted::open(&file, &registry, None, Rows::Given(paths));
    assert!(load(&paths[1..]).unwrap_err().to_string().contains("3 tables are given"));
    let loaded = load(&paths).unwrap();
    let points = [101.0, 0.3, 0.1, 108.5, -0.5, 0.2];
    let predicted = loaded.predict_rows(&points).unwrap();
    loaded.save(folder.path().join("again.cagey")).unwrap();
    let again = Fitted::open(folder.path().join("again.cagey"), &registry, None, Rows::Given(&paths)).unwrap();
    assert_eq!(again.predict_rows(&points).unwrap(), predicted);
    assert_eq!(loaded.summary.rows, SIZES.iter().sum::<usize>());
    assert!(loaded.caution().is_none());
    let said = loaded.aggregated("npae").unwrap_err().to_string();
    assert!(said.contains("npae") && said.contains("stay where they are") && said.contains("rbcm"), "{said}");
    assert_eq!(loaded.aggregates().unwrap().rules().len(), 7);

    let closed = Fitted::open(&file, &registry, None, Rows::Closed).unwrap();
    assert_eq!((&closed.summary, &closed.schema), (&loaded.summary, &loaded.schema));
    assert!(closed.predict_rows(&points).unwrap_err().to_string().contains("not opened"));

    let text = std::fs::read_to_string(&paths[2]).unwrap();
    std::fs::write(&paths[2], text.replace("100", "101").replace("106", "107")).unwrap();
    let said = load(&paths).unwrap_err().to_string();
    assert!(said.contains("site-3.csv") && said.contains("not what the model was trained on"), "{said}");
    std::fs::remove_file(&paths[2]).unwrap();
    let said = load(&paths).unwrap_err().to_string();
    assert!(said.contains("site-3.csv: no such file"), "{said}");
}

#[test]
fn errors_name_rank_file_and_row() {
    let folder = tempfile::tempdir().unwrap();
    let paths = write(folder.path());
    let sound: Vec<String> = paths.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let said = |size: usize| {
        with_ranks(size, |ranks| fitted(&paths, ExpertsOptions::default(), Some(ranks)).unwrap_err().to_string())
    };
    // With three ranks, tables 3 and 4 belong to rank 2; with four ranks, the last table belongs to rank 3.
    std::fs::write(&paths[2], sound[2].replacen("\n1", "\n,1", 2)).unwrap();
    let problem = said(3);
    assert!(problem.starts_with("rank 2: ") && problem.contains("site-3.csv: row 2"), "{problem}");
    std::fs::write(&paths[2], sound[2].replace("a,b,s,y", "a,c,s,y")).unwrap();
    let problem = said(3);
    assert!(problem.starts_with("rank 2: ") && problem.contains("site-3.csv") && problem.contains("`b`"), "{problem}");
    std::fs::write(&paths[2], &sound[2]).unwrap();
    std::fs::write(&paths[3], sound[3].replace(",0.1,", ",-0.1,")).unwrap();
    let problem = said(4);
    assert!(problem.starts_with("rank 3: ") && problem.contains("site-4.csv: row 2"), "{problem}");
    std::fs::remove_file(&paths[3]).unwrap();
    let problem = said(2);
    assert!(problem.starts_with("rank 1: ") && problem.contains("site-4.csv: no such file"), "{problem}");
    std::fs::write(&paths[3], &sound[3]).unwrap();
    std::fs::write(&paths[0], sound[0].replacen(",0.1,", ",-0.1,", 1)).unwrap();
    let problem = said(2);
    assert!(problem.starts_with("rank 0: ") && problem.contains("site-1.csv: row 2"), "{problem}");
    std::fs::write(&paths[0], &sound[0]).unwrap();
    assert!(said(5).contains("5 ranks for 4 shards"));
}

#[test]
fn what_needs_all_rows_in_one_place_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let paths = write(folder.path());
    let refused = |settings: Settings| {
        let plan = Plan::from_shards(open(&paths, None).unwrap(), settings, 1, &Registry::default());
        plan.unwrap_err().to_string()
    };
    let usual = ExpertsOptions::default;
    for rule in [Rule::Grbcm, Rule::Near, Rule::Npae, Rule::Weights, Rule::WeightsNoise] {
        let said = refused(settings(usual().aggregation(Some(rule))));
        assert!(said.contains(rule.name()) && said.contains("nearest"), "{said}");
    }
    assert!(refused(settings(usual().experts(Some(3)))).contains("ExpertsOptions::experts"));
    let local = cagey::models::experts::LocalKind::Sgpr;
    assert!(refused(settings(usual().local(local))).contains("ExpertsOptions::local = exact"));
    let svgp = SvgpOptions::default().inducing(4).covariance(Covariance::Full).batches(Minibatches::default());
    let said = refused(Settings { model: svgp.into(), ..settings(usual()) });
    assert!(said.contains("svgp") && said.contains("one place"), "{said}");
}
