//! Trials of settings: brief trainings, and log densities of rows that they did not see.

use std::cell::OnceCell;
use std::time::Instant;

use super::candidates::Candidate;
use crate::data::{Dataset, Schema, Split};
use crate::error::Result;
use crate::fitted::{Fitted, LeftOut, Plan, Registry, Settings};
use crate::metrics::Predictive;
use crate::models::laplace::LaplaceOptions;
use crate::models::options::ModelChoice;
use crate::models::race::Starts;
use crate::models::registry::usual;
use crate::train::{EarlyStopping, Optimizer, TrainConfig};

/// Most steps of a training.
const STEPS: usize = 60;
/// Most multiplications of one evaluation, roughly: those of a factorisation, and eight for each entry and column of a
/// covariance. About 300 rows of few columns, or 80 of a thousand.
const WORK: usize = 30_000_000;
/// The smallest gain that is worth a word, in nats a row: of rows left out in turn, and of a forecast, whose errors go
/// together.
const WORTH: f64 = 0.03;
const WORTH_OF_FORECAST: f64 = 0.1;
/// Standard errors that a gain exceeds.
const SURE: f64 = 2.0;
/// The least share of a gain that the rows have without the outer tenths: what a few rows gain is not found again.
const SHARED: f64 = 0.5;

/// Most rows of `d` columns that a trial takes: where time does not end the trials, a table gets the same advice on any
/// machine.
pub(super) fn most_rows(d: usize) -> usize {
    (1..).find(|n| n * n * (n + 8 * d) > WORK).unwrap_or(1) - 1
}

/// What settings are tried on.
pub(super) struct Trial<'a> {
    pub fitted: &'a Fitted,
    pub registry: &'a Registry,
    /// Training rows, in the data's units.
    pub data: Dataset,
    /// The rows that count when they are left out; none if only forecasts count.
    pub judged: Vec<usize>,
    pub forecasts: Vec<Split>,
    /// The settings of the other members of an average.
    pub beside: Vec<&'a Settings>,
    /// When trials end, if the user's time is limited.
    pub until: Option<Instant>,
    /// The scores of the present settings, in each way.
    pub before: [OnceCell<Option<Scores>>; 3],
}

/// How rows are predicted that were not trained on, and what their scores are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Each from all others, in closed form.
    LeftOut,
    /// Each half from the other half.
    Halves,
    /// The same for counts: the probability of the count, which under a density is that within a half of it.
    CountedHalves,
}

/// Log densities of rows.
#[derive(Clone)]
pub(super) struct Scores {
    /// Of each judged row.
    rows: Vec<f64>,
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
    /// The scores of the present settings, computed once for each way: those of the model itself, or of a brief
    /// training if that has better ones. Forecasts of an average are taken to be as good as the best of its members'.
    fn present(&self, way: Way) -> Option<&Scores> {
        self.before[way as usize].get_or_init(|| self.of_present(way)).as_ref()
    }

    fn of_present(&self, way: Way) -> Option<Scores> {
        let settings = &self.fitted.settings;
        let mut again = self.scores(settings, false, way)?;
        let beside = if self.forecasts.is_empty() { &[][..] } else { &self.beside };
        for other in beside.iter().filter_map(|other| self.of_forecasts(other, &self.data, way)) {
            again.forecasts.iter_mut().zip(other).for_each(|(best, other)| *best = best.max(other));
        }
        if way != Way::LeftOut || self.data.n != self.fitted.data.n() || settings.model != exact(settings) {
            return Some(again);
        }
        let own = self.fitted.left_out().ok().flatten().map(|left| self.of_judged(&left));
        match own.filter(|own| mean(own) > mean(&again.rows)) {
            Some(rows) => Some(Scores { rows, ..again }),
            None => Some(again),
        }
    }

    /// What a candidate gains, if it clearly does, and the model of the fit takes it.
    pub(super) fn gain(&self, candidate: &Candidate) -> Option<Gain> {
        let way = candidate.way();
        let before = self.present(way)?;
        let after = self.scores(&candidate.settings, candidate.numbered, way)?;
        before.gain(&after, way).filter(|_| self.is_taken(candidate))
    }

    /// The scores of settings; none if they cannot be trained, or if the time is over.
    fn scores(&self, settings: &Settings, numbered: bool, way: Way) -> Option<Scores> {
        let more = numbered.then(|| with_numbers(&self.data)).transpose().ok()?;
        let data = more.as_ref().unwrap_or(&self.data);
        let rows = match way {
            _ if self.judged.is_empty() => Vec::new(),
            Way::LeftOut => self.of_judged(&self.fit(settings, data)?.left_out().ok()??),
            Way::Halves | Way::CountedHalves => self.of_halves(settings, data, way)?,
        };
        let forecasts = self.of_forecasts(settings, data, way)?;
        let finite = rows.iter().chain(&forecasts).all(|density| density.is_finite());
        finite.then_some(Scores { rows, forecasts })
    }

    /// The mean log density of the rows of each forecast.
    fn of_forecasts(&self, settings: &Settings, data: &Dataset, way: Way) -> Option<Vec<f64>> {
        let one = |split: &Split| self.held_out(settings, data, split, way).map(|densities| mean(&densities));
        self.forecasts.iter().map(one).collect()
    }

    fn of_judged(&self, left: &LeftOut) -> Vec<f64> {
        let densities = left.log_densities();
        self.judged.iter().map(|row| densities[*row]).collect()
    }

    /// Log densities of judged rows, each half predicted from the other.
    fn of_halves(&self, settings: &Settings, data: &Dataset, way: Way) -> Option<Vec<f64>> {
        let Split { train, test } = Split::random(data.n, 0.5, 0).ok()?;
        let mut densities = vec![0.0; data.n];
        for (train, test) in [(&train, &test), (&test, &train)] {
            let split = Split { train: train.clone(), test: test.clone() };
            let found = self.held_out(settings, data, &split, way)?;
            test.iter().zip(found).for_each(|(row, density)| densities[*row] = density);
        }
        Some(self.judged.iter().map(|row| densities[*row]).collect())
    }

    /// Log densities of the held-out rows of a split.
    fn held_out(&self, settings: &Settings, data: &Dataset, split: &Split, way: Way) -> Option<Vec<f64>> {
        let (train, test) = (data.subset(&split.train), data.subset(&split.test));
        let (fitted, y) = (self.fit(settings, &train)?, test.y.iter().flatten());
        if fitted.is_gaussian() {
            let density: fn(&Predictive, f64) -> f64 = match way {
                Way::CountedHalves => of_count,
                _ => Predictive::log_density,
            };
            return Some(y.zip(fitted.predict(&test).ok()?).map(|(y, p)| density(&p, *y)).collect());
        }
        Some(y.zip(fitted.predict_targets(&test).ok()?).map(|(y, p)| p.log_density(*y)).collect())
    }

    /// A brief training: of the exact model, or of Laplace's approximation.
    fn fit(&self, settings: &Settings, data: &Dataset) -> Option<Fitted> {
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return None;
        }
        let model = if settings.is_gaussian() { exact(settings) } else { LaplaceOptions::default().into() };
        let settings = Settings { model, starts: Starts::Data, store_factor: false, ..settings.clone() };
        let rule = EarlyStopping { patience: 8, improvement: 1e-4 };
        let config = TrainConfig::new(Optimizer::default(), STEPS).early_stopping(rule);
        let config = left.map_or(config.clone(), |left| config.max_time(left));
        let schema = if data.d == self.data.d { self.fitted.schema.clone() } else { Schema::numeric(data) };
        let fitted = Plan::new(schema, data, settings, 0, self.registry).ok()?.train(&config, &mut []).ok()?;
        self.until.is_none_or(|until| Instant::now() < until).then_some(fitted)
    }

    /// Whether the model of the settings takes a candidate that another model took.
    fn is_taken(&self, Candidate { settings, numbered, .. }: &Candidate) -> bool {
        let schema = self.fitted.schema.clone();
        *numbered || Plan::new(schema, &self.data, settings.clone(), 0, self.registry).is_ok()
    }
}

impl Scores {
    /// What other settings gain: clearly on some rows, and no loss on others. None if they do not.
    fn gain(&self, after: &Self, way: Way) -> Option<Gain> {
        let differ = |before: &[f64], after: &[f64]| after.iter().zip(before).map(|(a, b)| a - b).collect::<Vec<f64>>();
        let rows = differ(&self.rows, &after.rows);
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
        let what = if way == Way::LeftOut { LEFT_OUT } else { HALVES };
        let clear = mean(&rows) > WORTH.max(SURE * error) && inner_mean(&rows) > WORTH.max(SHARED * mean(&rows));
        clear.then(|| gain(what, &self.rows, &after.rows))
    }
}

const LEFT_OUT: &str = "rows left out in turn";
const HALVES: &str = "each half of the rows, predicted from the other half";
const FORECASTS: &str = "forecasts of the last two fifths of the training rows";

/// The mean of values without their outer tenths.
fn inner_mean(values: &[f64]) -> f64 {
    let (mut sorted, outer) = (values.to_vec(), values.len() / 10);
    sorted.sort_unstable_by(f64::total_cmp);
    mean(&sorted[outer..sorted.len() - outer])
}

/// The mean of values; 0 of none.
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The log probability within a half of `y`.
fn of_count(prediction: &Predictive, y: f64) -> f64 {
    let probability = prediction.cdf(y + 0.5) - prediction.cdf(y - 0.5);
    // Far out in a tail, differences of probabilities have no digits left.
    if probability > 1e-9 { probability.ln() } else { prediction.log_density(y) }
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
