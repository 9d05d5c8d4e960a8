//! Minibatches over ranks that are threads: the same bits for any number of ranks, and the same numbers as without
//! ranks.

use cagey::data::{Classes, Dataset, Schema};
use cagey::fitted::{Plan, Registry, Settings};
use cagey::models::minibatch::Minibatches;
use cagey::models::svgp::SvgpOptions;
use cagey::models::variational::Covariance;
use cagey::train::{Adam, Optimizer, TrainConfig};

use super::ranks::with_ranks;
use crate::common::{F32, F64, assert_close, data};

/// Rows, with targets made by `target`, and their schema.
fn table(target: impl Fn(f64) -> f64) -> (Schema, Dataset) {
    let rows = data(70, 2);
    let y = rows.y.iter().map(|y| target(*y)).collect();
    let table = Dataset::new(["a", "b"], rows.x.clone()).unwrap().with_target("y", y).unwrap();
    (Schema::numeric(&table), table)
}

fn options(natural: Option<f64>, size: usize) -> SvgpOptions {
    let batches = Minibatches { size, natural, ..Minibatches::default() };
    SvgpOptions::default().inducing(9).covariance(Covariance::Full).batches(batches)
}

/// Parameters and loss after a training, by `ranks` ranks if it is set.
fn trained((schema, table): &(Schema, Dataset), settings: &Settings, ranks: Option<usize>) -> (Vec<f64>, f64) {
    let plan = |registry: &Registry| Plan::new(schema.clone(), table, settings.clone(), 5, registry).unwrap();
    let config = TrainConfig::new(Optimizer::Adam(Adam { rate: 0.05, ..Adam::default() }), 9);
    let fitted = match ranks {
        None => plan(&Registry::default()).train(&config, &mut []),
        Some(size) => with_ranks(size, |ranks| plan(&Registry::default().over(ranks.clone())).train(&config, &mut [])),
    };
    let fitted = fitted.unwrap();
    let raw = fitted.model.parameters().into_iter().flat_map(|(_, p)| p.raw().to_vec()).collect();
    (raw, fitted.summary.loss)
}

#[test]
fn batches_over_ranks_are_those_of_one_process() {
    let gaussian = table(|y| y);
    let mut classes = table(|y| f64::from(u8::from(y > 0.0)));
    classes.0.classes = Some(Classes::new(["no".to_string(), "yes".to_string()]));
    for (table, likelihood) in [(&gaussian, "gaussian"), (&gaussian, "heteroscedastic"), (&classes, "bernoulli")] {
        // Batches of 11 and 12 rows, and of all rows: the final L-BFGS steps also go over ranks.
        for (natural, size) in [(Some(0.2), 12), (None, 12), (Some(0.2), 70)] {
            let settings = Settings {
                kernel: "matern32(ard) + linear".into(),
                mean: "constant".into(),
                likelihood: likelihood.into(),
                model: options(natural, size).into(),
                compute: F64,
                ..Settings::default()
            };
            let what = format!("{likelihood}, {natural:?}, batches of {size}");
            let alone = trained(table, &settings, None);
            let first = trained(table, &settings, Some(1));
            // After many steps of L-BFGS, rounding errors are no longer small.
            let tolerance = if size == 70 { 1e-5 } else { 1e-9 };
            assert_close(&what, &first.0, &alone.0, tolerance);
            assert!((first.1 - alone.1).abs() < tolerance, "{what}: {} {}", first.1, alone.1);
            for ranks in [2, 3, 4, 5] {
                assert!(trained(table, &settings, Some(ranks)) == first, "{what}: {ranks} ranks");
            }
        }
    }
}

#[test]
fn single_precision_gives_the_same_bits_too() {
    let settings = Settings { model: options(Some(0.1), 20).into(), compute: F32, ..Settings::default() };
    let table = table(|y| y);
    let first = trained(&table, &settings, Some(1));
    for ranks in [2, 4] {
        assert!(trained(&table, &settings, Some(ranks)) == first, "{ranks} ranks");
    }
}
