//! Trials of settings: brief trainings, and log densities of rows that they did not see.

use std::time::Instant;

use super::candidates::Candidate;
use crate::data::{Dataset, Schema, Split};
use crate::error::Result;
use crate::fitted::{Fitted, LeftOut, Plan, Registry, Settings};
use crate::models::options::ModelChoice;
use crate::models::race::Starts;
use crate::models::registry::usual;
use crate::train::{EarlyStopping, Optimizer, TrainConfig};

/// Most steps of a training.
const STEPS: usize = 60;
/// The smallest gain that is worth a word, in nats a row: of rows left out in turn, and of a forecast, whose errors go
/// together.
const WORTH: f64 = 0.03;
const WORTH_OF_FORECAST: f64 = 0.1;
/// Standard errors that a gain exceeds.
const SURE: f64 = 2.0;

/// What settings are tried on.
pub(super) struct Trial<'a> {
    pub fitted: &'a Fitted,
    pub registry: &'a Registry,
    /// Training rows, in the data's units.
    pub data: Dataset,
    /// The rows that count when they are left out; none if only forecasts count.
    pub judged: Vec<usize>,
    pub forecasts: Vec<Split>,
    pub until: Instant,
}

/// Log densities of rows.
pub(super) struct Scores {
    /// Of each judged row, predicted from all others.
    left_out: Vec<f64>,
    /// Of each forecast: the mean of its rows.
    forecasts: Vec<f64>,
}

/// By how much settings gain, on what, and the NLPD there before and after.
pub(super) struct Gain {
    pub nats: f64,
    pub what: &'static str,
    pub nlpd: [f64; 2],
}

impl Trial<'_> {
    /// The scores of the present settings: those of the model itself, or of a brief training if that has better ones.
    pub(super) fn present(&self) -> Option<Scores> {
        let again = self.scores(&self.fitted.settings, false)?;
        if self.data.n != self.fitted.data.n() || self.fitted.settings.model != exact(&self.fitted.settings) {
            return Some(again);
        }
        let own = self.fitted.left_out().ok().flatten().map(|left| self.of_judged(&left));
        match own.filter(|own| mean(own) > mean(&again.left_out)) {
            Some(left_out) => Some(Scores { left_out, ..again }),
            None => Some(again),
        }
    }

    /// The scores of settings; none if they cannot be trained, or if the time is over.
    pub(super) fn scores(&self, settings: &Settings, numbered: bool) -> Option<Scores> {
        let more = numbered.then(|| with_numbers(&self.data)).transpose().ok()?;
        let data = more.as_ref().unwrap_or(&self.data);
        let left_out = match self.judged.is_empty() {
            true => Vec::new(),
            false => self.of_judged(&self.fit(settings, data)?.left_out().ok()??),
        };
        let forecast = |split: &Split| {
            let (train, test) = (data.subset(&split.train), data.subset(&split.test));
            let predictions = self.fit(settings, &train)?.predict(&test).ok()?;
            let densities = test.y.iter().flatten().zip(predictions).map(|(y, p)| p.log_density(*y));
            Some(mean(&densities.collect::<Vec<_>>()))
        };
        let forecasts = self.forecasts.iter().map(forecast).collect::<Option<Vec<f64>>>()?;
        let finite = left_out.iter().chain(&forecasts).all(|density| density.is_finite());
        finite.then_some(Scores { left_out, forecasts })
    }

    fn of_judged(&self, left: &LeftOut) -> Vec<f64> {
        let densities = left.log_densities();
        self.judged.iter().map(|row| densities[*row]).collect()
    }

    /// A brief training of the exact model.
    fn fit(&self, settings: &Settings, data: &Dataset) -> Option<Fitted> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        let model = exact(settings);
        let settings = Settings { model, starts: Starts::Data, store_factor: false, ..settings.clone() };
        let rule = EarlyStopping { patience: 8, improvement: 1e-4 };
        let config = TrainConfig::new(Optimizer::default(), STEPS).early_stopping(rule).max_time(left);
        let schema = if data.d == self.data.d { self.fitted.schema.clone() } else { Schema::numeric(data) };
        let fitted = Plan::new(schema, data, settings, 0, self.registry).ok()?.train(&config, &mut []).ok()?;
        (Instant::now() < self.until).then_some(fitted)
    }

    /// Whether the model of the fit takes a candidate that the exact model took.
    pub(super) fn is_taken(&self, Candidate { settings, numbered, .. }: &Candidate) -> bool {
        let schema = self.fitted.schema.clone();
        let taken = || Plan::new(schema, &self.data, settings.clone(), 0, self.registry).is_ok();
        *numbered || settings.model == exact(settings) || taken()
    }
}

impl Scores {
    /// What other settings gain: clearly on some rows, and no loss on others. None if they do not.
    pub(super) fn gain(&self, after: &Self) -> Option<Gain> {
        let differ = |before: &[f64], after: &[f64]| after.iter().zip(before).map(|(a, b)| a - b).collect::<Vec<f64>>();
        let rows = differ(&self.left_out, &after.left_out);
        let forecasts = differ(&self.forecasts, &after.forecasts);
        let n = rows.len() as f64;
        let error = (rows.iter().map(|gain| (gain - mean(&rows)).powi(2)).sum::<f64>() / (n * n)).sqrt();
        if forecasts.iter().any(|gain| *gain < 0.0) || mean(&rows) < 0.0 {
            return None;
        }
        let gain = |what, before: &[f64], after: &[f64]| Gain {
            nats: mean(after) - mean(before),
            what,
            nlpd: [-mean(before), -mean(after)],
        };
        if mean(&forecasts) > WORTH_OF_FORECAST {
            return Some(gain(FORECASTS, &self.forecasts, &after.forecasts));
        }
        (mean(&rows) > WORTH.max(SURE * error)).then(|| gain(LEFT_OUT, &self.left_out, &after.left_out))
    }
}

const LEFT_OUT: &str = "rows left out in turn";
const FORECASTS: &str = "forecasts of the last two fifths of the training rows";

/// The mean of values; 0 of none.
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The exact model, or the one of the settings if it is exact.
fn exact(settings: &Settings) -> ModelChoice {
    if settings.model.kind() == usual().kind() { settings.model.clone() } else { usual() }
}

/// The rows with their numbers as one more input.
fn with_numbers(data: &Dataset) -> Result<Dataset> {
    let names: Vec<String> = data.feature_names.iter().cloned().chain(["row".to_string()]).collect();
    let x = (0..data.n).flat_map(|row| data.row(row).iter().copied().chain([data.records[row] as f64])).collect();
    Dataset::new(names, x)?.with_target(data.target_name.clone(), data.y.clone().unwrap_or_default())
}
