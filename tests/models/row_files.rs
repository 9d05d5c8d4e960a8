//! Rows that every process reads from a file by itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cagey::data::{ReadOptions, RowFile, read_training};
use cagey::distributed::{FileRows, Ranks};
use cagey::fitted::{Fitted, Plan, Registry, Settings};
use cagey::kernels::Kernel;
use cagey::models::experts::aggregation::Rule;
use cagey::models::experts::{Algorithm, Experts, ExpertsOptions, Federation, LocalKind, Partition, Shared};
use cagey::models::gp_model::GpModel;
use cagey::models::minibatch::Minibatches;
use cagey::models::options::ModelChoice;
use cagey::models::posterior::Posterior;
use cagey::models::sgpr::{Pooled, Sgpr, SgprOptions};
use cagey::models::svgp::SvgpOptions;
use cagey::models::variational::Covariance;
use cagey::models::{Observations, exact, fit};
use cagey::params::Parameters;
use cagey::scope::Scope;
use cagey::train::{Adam, Optimizer, TrainConfig};

use super::ranks::{crew, with_ranks};
use crate::common::{F64, assert_close};

const ROWS: usize = 90;

/// A table with a column of few values, with known noise if `noise` is set; and its file of rows.
fn write(folder: &Path, noise: bool) -> (PathBuf, PathBuf) {
    let line = |i: usize| {
        let t = i as f64;
        let (a, b) = ((0.61 * t).sin(), i % 4);
        let y = (3.0 * a).sin() + 0.3 * b as f64 + 0.05 * (7.7 * t).sin();
        if noise { format!("{a},{b},{},{y}", 0.1 + 0.05 * (i % 3) as f64) } else { format!("{a},{b},{y}") }
    };
    let lines: Vec<String> = (0..ROWS).map(line).collect();
    let (table, file) = (folder.join("table.csv"), folder.join("rows.bin"));
    let names = if noise { "a,b,s,y" } else { "a,b,y" };
    std::fs::write(&table, format!("{names}\n{}\n", lines.join("\n"))).unwrap();
    RowFile::create(&table, &ReadOptions::default(), &file).unwrap();
    (table, file)
}

fn settings(model: impl Into<ModelChoice>, noise: bool) -> Settings {
    Settings {
        kernel: "1.3 * matern32(ard)".into(),
        mean: "constant".into(),
        auxiliary_column: noise.then(|| "s".into()),
        model: model.into(),
        compute: F64,
        ..Settings::default()
    }
}

/// A plan for `rows` of the file.
fn of_file(file: &Path, rows: Vec<usize>, settings: &Settings) -> Plan {
    let file = RowFile::open(file).unwrap().into();
    Plan::from_file(file, rows, settings.clone(), 5, &Registry::default()).unwrap()
}

fn raw(fitted: &Fitted) -> Vec<f64> {
    fitted.model.parameters().into_iter().flat_map(|(_, p)| p.raw().to_vec()).collect()
}

#[test]
fn a_model_of_a_file_is_that_of_its_table() {
    let folder = tempfile::tempdir().unwrap();
    for noise in [false, true] {
        let (table, file) = write(folder.path(), noise);
        let (schema, data) = read_training(&table, &ReadOptions::default()).unwrap();
        // Some rows in the middle are held out.
        let rows: Vec<usize> = (0..ROWS).filter(|row| !(20..30).contains(row)).collect();
        let options = |partition| ExpertsOptions::default().experts(Some(5)).partition(partition);
        let of = |algorithm| Federation { algorithm, ..Federation::default() };
        let all = [
            options(Partition::Random),
            options(Partition::Tree).training(of(Algorithm::Fedavg)),
            options(Partition::Kmeans).local(LocalKind::Sgpr).inducing(12),
            options(Partition::Column("b".into())).experts(None),
        ];
        let config = TrainConfig { steps: 5, ..TrainConfig::default() };
        for options in all {
            let what = format!("{options:?}, noise {noise}");
            let settings = settings(options, noise);
            let memory = Plan::new(schema.clone(), &data.subset(&rows), settings.clone(), 5, &Registry::default());
            let memory = memory.unwrap().train(&config, &mut []).unwrap();
            let found = of_file(&file, rows.clone(), &settings).train(&config, &mut []).unwrap();
            assert_eq!(found.summary.loss, memory.summary.loss, "{what}");
            assert_eq!(raw(&found), raw(&memory), "{what}");
            for rule in Rule::ALL {
                let [memory, found] = [&memory, &found].map(|fitted| {
                    let fitted = fitted.aggregated(rule.name()).unwrap();
                    fitted.predict(&data).unwrap()
                });
                assert_eq!(found, memory, "{what}, {rule}");
            }
            // The model takes its rows along.
            let read = Fitted::from_bytes(&found.to_bytes().unwrap(), &Registry::default(), None).unwrap();
            assert_eq!(read.predict(&data).unwrap(), found.predict(&data).unwrap(), "{what}");
        }
        let settings = settings(SgprOptions::default().inducing(11), noise);
        let memory = Plan::new(schema.clone(), &data.subset(&rows), settings.clone(), 5, &Registry::default());
        let memory = memory.unwrap().train(&config, &mut []).unwrap();
        let found = of_file(&file, rows, &settings).train(&config, &mut []).unwrap();
        assert_close("sgpr", &raw(&found), &raw(&memory), 1e-8);
        assert!((found.summary.loss - memory.summary.loss).abs() < 1e-10, "sgpr");
    }
}

/// The rows of a file in the units of a model, and the source to read them from.
fn source(file: &Path, noise: bool) -> (Observations, Arc<FileRows>) {
    let plan = of_file(file, (0..ROWS).collect(), &settings(SgprOptions::default().inducing(3), noise));
    (plan.rows().clone(), plan.source().unwrap())
}

fn shared(sparse: bool, data: &Observations) -> Shared {
    let kernel = Kernel::parse("1.3 * rbf(lengthscale=[0.8, 1.1])", 2).unwrap();
    match sparse {
        true => Shared::Sparse(Sgpr::new(kernel, &data.x[..14], 2).unwrap()),
        false => Shared::Exact(exact::ExactGp::new(kernel)),
    }
}

#[test]
fn ranks_that_read_their_rows_give_the_bits_of_those_that_are_sent_them() {
    let folder = tempfile::tempdir().unwrap();
    let config = TrainConfig { steps: 5, ..TrainConfig::default() };
    for (noise, sparse) in [(true, false), (false, true)] {
        let (_, file) = write(folder.path(), noise);
        let (data, source) = source(&file, noise);
        let parts = Partition::Random.split(&data, &[], 5, 3).unwrap();
        let experts = || Experts::new(shared(sparse, &data), Rule::Grbcm, parts.clone(), vec![1, 4, 9, 16]).unwrap();
        let run = |mut model: Experts| {
            let outcome = fit::fit(&mut model, F64, &data, &config, &mut []).unwrap();
            let posterior = model.posterior(F64, data.clone()).unwrap();
            let predicted = [Rule::Rbcm, Rule::Grbcm, Rule::Npae, Rule::Weights, Rule::WeightsNoise]
                .map(|rule| posterior.by_rule(rule).predict(&data.x[..30]).unwrap());
            (outcome.loss, model.free_raw(), predicted)
        };
        let alone = run(experts());
        assert!(run(experts().reading(Arc::clone(&source)).unwrap()) == alone, "one process, sparse {sparse}");
        for size in [1, 2, 4, 7] {
            let found =
                with_ranks(size, |ranks| run(experts().over(crew(ranks)).reading(Arc::clone(&source)).unwrap()));
            assert!(found == alone, "{size} ranks, sparse {sparse}");
        }
    }
}

#[test]
fn sums_over_parts_that_ranks_read_are_those_of_parts_that_are_sent() {
    let folder = tempfile::tempdir().unwrap();
    let (_, file) = write(folder.path(), false);
    let (data, source) = source(&file, false);
    let Shared::Sparse(model) = shared(true, &data) else { return };
    let batch = data.batch(&Scope::new(F64).unwrap());
    let run = |pooled: Pooled| {
        let found = fit::evaluate(&pooled, F64, &batch).unwrap();
        let predicted = pooled.condition(F64, data.clone()).unwrap().predict(&data.x[..30]).unwrap();
        (found, predicted)
    };
    let first = with_ranks(1, |ranks| run(Pooled::new(model.clone(), ROWS).over(crew(ranks))));
    let pooled = |ranks| Pooled::new(model.clone(), ROWS).over(ranks).reading(Arc::clone(&source)).unwrap();
    assert!(run(pooled(None)) == first, "one process");
    for size in [1, 2, 3, 4, 17] {
        let found = with_ranks(size, |ranks| run(pooled(crew(ranks))));
        assert!(found == first, "{size} ranks");
    }
}

#[test]
fn batches_that_ranks_read_are_those_that_are_sent() {
    let folder = tempfile::tempdir().unwrap();
    let (table, file) = write(folder.path(), false);
    let (schema, data) = read_training(&table, &ReadOptions::default()).unwrap();
    for natural in [None, Some(0.2)] {
        let batches = Minibatches { size: 20, natural, ..Minibatches::default() };
        let settings =
            settings(SvgpOptions::default().inducing(9).covariance(Covariance::Full).batches(batches), false);
        let config = TrainConfig::new(Optimizer::Adam(Adam { rate: 0.05, ..Adam::default() }), 9);
        let trained = |plan: Plan| {
            let fitted = plan.train(&config, &mut []).unwrap();
            (raw(&fitted), fitted.summary.loss)
        };
        let registry = |ranks: &Arc<Ranks>| Registry::default().over(Arc::clone(ranks));
        let first = with_ranks(1, |ranks| {
            trained(Plan::new(schema.clone(), &data, settings.clone(), 5, &registry(ranks)).unwrap())
        });
        for size in [1, 2, 3, 4, 6] {
            let found = with_ranks(size, |ranks| {
                let rows = RowFile::open(&file).unwrap().into();
                let plan = Plan::from_file(rows, (0..ROWS).collect(), settings.clone(), 5, &registry(ranks));
                trained(plan.unwrap())
            });
            assert!(found == first, "{size} ranks, {natural:?}");
        }
    }
}

#[test]
fn rows_that_are_sent_come_in_chunks() {
    // With so many columns, some thousand rows are several chunks.
    let (n, d) = (9000, 200);
    let x: Vec<f64> = (0..n * d).map(|i| (0.37 * i as f64).sin()).collect();
    let y = x.chunks(d).map(|row| row[..3].iter().sum()).collect();
    let data = Observations::new(x, d, y, None).unwrap();
    let parts = Partition::Random.split(&data, &[], 900, 3).unwrap();
    let shared = || Shared::Exact(exact::ExactGp::new(Kernel::parse("rbf(lengthscale=9.0)", d).unwrap()));
    let batch = data.batch(&Scope::new(F64).unwrap());
    let experts = || Experts::new(shared(), Rule::Grbcm, parts.clone(), vec![0]).unwrap();
    let alone = fit::evaluate(&experts(), F64, &batch).unwrap();
    for size in [2, 3] {
        let found = with_ranks(size, |ranks| fit::evaluate(&experts().over(crew(ranks)), F64, &batch).unwrap());
        assert_eq!(found, alone, "{size} ranks");
    }
}

#[test]
fn a_rank_that_reads_other_rows_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (_, file) = write(folder.path(), false);
    let (data, source) = source(&file, false);
    let parts = Partition::Random.split(&data, &[], 5, 3).unwrap();
    let of = |ranks| Experts::new(shared(false, &data), Rule::Grbcm, parts.clone(), vec![0]).unwrap().over(ranks);
    let batch = data.batch(&Scope::new(F64).unwrap());
    let problem = || {
        with_ranks(3, |ranks| {
            let experts = of(crew(ranks)).reading(Arc::clone(&source)).unwrap();
            fit::evaluate(&experts, F64, &batch).unwrap_err().to_string()
        })
    };
    // The leader still has the old file open.
    let other = folder.path().join("other");
    std::fs::create_dir(&other).unwrap();
    let (_, longer) = write(&other, true);
    let kept = folder.path().join("kept.bin");
    std::fs::rename(&file, &kept).unwrap();
    std::fs::rename(&longer, &file).unwrap();
    let said = problem();
    assert!(said.starts_with("rank 1: ") && said.contains("rows.bin: it is not the file of rows"), "{said}");
    std::fs::remove_file(&file).unwrap();
    let said = problem();
    assert!(said.starts_with("rank 1: ") && said.contains("rows.bin"), "{said}");
    // A damaged record, in a row that only the last rank has.
    let mut bytes = std::fs::read(&kept).unwrap();
    let row = parts[4][1];
    // A record has six numbers: two places, two inputs, a target, a checksum.
    bytes[row * 48 + 20] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let said = problem();
    let want = format!("rows.bin: record {} is damaged", row + 1);
    assert!(said.starts_with("rank 2: ") && said.contains(&want), "{said}");
}
