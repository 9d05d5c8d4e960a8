//! Held-out scores before and after following the advice.

use cagey::Result;
use cagey::data::{Dataset, Schema, TargetTransform};
use cagey::fitted::{Fitted, Registry, Settings};
use cagey::metrics::{score, score_targets};
use cagey::models::minibatch::Minibatches;
use cagey::models::svgp::SvgpOptions;
use cagey::models::variational::Covariance;
use clap::Args;

use crate::advised::numbered;
use crate::told::{Kind, generated, plain};

#[derive(Args)]
pub struct Mended {
    /// Draws of each kind of data
    #[arg(long, default_value_t = 20)]
    draws: u64,
    /// Rows
    #[arg(long, default_value_t = 500)]
    rows: usize,
    /// Kinds of data; all that have a remedy by default
    #[arg(long, value_enum, value_delimiter = ',')]
    kinds: Vec<Kind>,
}

const KINDS: [Kind; 7] =
    [Kind::Heavy, Kind::Outliers, Kind::VariesByInput, Kind::VariesByMean, Kind::Drift, Kind::Season, Kind::Trend];

/// Negative log density, and coverage of 50 and 95 % intervals.
type Row = [f64; 3];

impl Mended {
    pub fn run(&self) -> Result<()> {
        println!("{:<16} {:>24} {:>24}   medians", "", "NLPD, 50 %, 95 % before", "after");
        let kinds = if self.kinds.is_empty() { KINDS.to_vec() } else { self.kinds.clone() };
        for kind in kinds {
            let all = (0..self.draws).map(|seed| look(kind, self.rows, seed)).collect::<Result<Vec<[Row; 2]>>>()?;
            let median = |when: usize, score: usize| {
                let mut values: Vec<f64> = all.iter().map(|rows| rows[when][score]).collect();
                values.sort_by(f64::total_cmp);
                0.5 * (values[(values.len() - 1) / 2] + values[values.len() / 2])
            };
            let shown = |when| format!("{:>8.3} {:>7.3} {:>7.3}", median(when, 0), median(when, 1), median(when, 2));
            println!("{:<16} {} {}", format!("{kind:?}"), shown(0), shown(1));
        }
        Ok(())
    }
}

fn look(kind: Kind, rows: usize, seed: u64) -> Result<[Row; 2]> {
    let data = generated(kind, rows, seed)?;
    let before = fitted(kind, &data, seed, plain())?;
    let with = |settings: Settings| Ok(fitted(kind, &data, seed, settings)?.1);
    let along = |dims: usize| {
        let kernel = format!("matern32(ard) + linear(dims=[{dims}]) + periodic(period=0.0833, dims=[{dims}])");
        Settings { kernel, ..plain() }
    };
    let after = match kind {
        Kind::Heavy | Kind::Outliers => {
            let test = data.subset(&kind.split(rows, seed)?.test);
            scores(&before.0.calibrated_by_leaving_out()?, &test)?
        }
        Kind::VariesByInput => {
            let batches = Minibatches { natural: Some(0.1), ..Minibatches::default() };
            let model = SvgpOptions::default().inducing(100).covariance(Covariance::Full).batches(batches).into();
            with(Settings { model, likelihood: "heteroscedastic".into(), ..plain() })?
        }
        Kind::VariesByMean => with(Settings { target_transform: TargetTransform::Log, ..plain() })?,
        Kind::Drift => fitted(kind, &numbered(&data)?, seed, plain())?.1,
        Kind::Season => with(along(3))?,
        Kind::Trend => with(along(0))?,
        _ => before.1,
    };
    Ok([before.1, after])
}

fn fitted(kind: Kind, data: &Dataset, seed: u64, settings: Settings) -> Result<(Fitted, Row)> {
    let split = kind.split(data.n, seed)?;
    let registry = Registry::default();
    let train = data.subset(&split.train);
    let config = registry.models.options(&settings.model)?.training(train.n);
    let fitted = Fitted::fit(Schema::numeric(data), &train, settings, &config, &registry, &mut [])?;
    let row = scores(&fitted, &data.subset(&split.test))?;
    Ok((fitted, row))
}

fn scores(fitted: &Fitted, test: &Dataset) -> Result<Row> {
    let y = test.y.as_deref().unwrap_or_default();
    if fitted.is_gaussian() {
        let scores = score(y, &fitted.predict(test)?)?;
        return Ok([scores.nlpd, scores.coverage_50, scores.coverage_95]);
    }
    let scores = score_targets(y, &fitted.predict_targets(test)?, 0)?;
    Ok([scores.nlpd, scores.coverage_50, scores.coverage_95])
}
