//! The candidates of a comparison: a model with a kernel, or a baseline, on every fold.

use cagey::Result;
use cagey::fitted::Fitted;
use cagey::fitted::average::AVERAGE;
use serde_json::{Map, Value, json};

use super::baseline::Baseline;
use crate::cli::scoring::RowScores;
use crate::cli::settings;

/// One model with one kernel, or a baseline, scored on every fold.
pub struct Candidate {
    pub name: String,
    pub runs: Vec<Trial>,
}

/// A fit on one fold.
pub struct Trial {
    pub scores: RowScores,
    pub seconds: f64,
    /// What was fitted; none for baselines.
    pub fit: Option<Fit>,
}

pub struct Fit {
    pub fitted: Fitted,
    pub bytes: f64,
    /// Whether its intervals hold, in one line.
    pub words: String,
}

/// The difference of two mean scores over the same rows, with its standard error by rows, and by folds if there are
/// several.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    pub mean: f64,
    pub by_rows: f64,
    pub by_folds: Option<f64>,
}

/// Mean and standard error of numbers; fewer than two have no standard error.
pub fn mean_and_error(values: &[f64]) -> (f64, Option<f64>) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let square = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, (values.len() > 1).then_some((square / n).sqrt()))
}

impl Candidate {
    pub fn is_baseline(&self) -> bool {
        self.runs.iter().all(|run| run.fit.is_none())
    }

    /// The log score of each held-out row of all folds: less is better.
    pub fn rows(&self) -> Vec<f64> {
        self.runs.iter().flat_map(|run| run.scores.rows.iter().copied()).collect()
    }

    /// The mean log score of all held-out rows.
    pub fn score(&self) -> f64 {
        mean_and_error(&self.rows()).0
    }

    /// By how much this is worse than another, on the same rows.
    pub fn difference(&self, best: &Self) -> Difference {
        let rows: Vec<f64> = self.rows().iter().zip(best.rows()).map(|(own, other)| own - other).collect();
        let folds: Vec<f64> = self
            .runs
            .iter()
            .zip(&best.runs)
            .map(|(own, other)| mean_and_error(&own.scores.rows).0 - mean_and_error(&other.scores.rows).0)
            .collect();
        let (mean, by_rows) = mean_and_error(&rows);
        Difference { mean, by_rows: by_rows.unwrap_or(f64::NAN), by_folds: mean_and_error(&folds).1 }
    }

    /// The mean of `f` over the folds.
    pub fn over_folds(&self, f: impl Fn(&Trial) -> f64) -> f64 {
        self.runs.iter().map(f).sum::<f64>() / self.runs.len() as f64
    }

    /// One minus the ratio of the RMSE to that of each baseline, if forecasts are among these.
    pub fn skill(&self, all: &[Self]) -> Vec<(String, f64)> {
        let rmse = |candidate: &Self| {
            let of = |run: &Trial| {
                run.scores.scored.brief().iter().find(|(name, _)| *name == "RMSE").map(|(_, s)| s.value())
            };
            candidate.over_folds(|run| of(run).unwrap_or(f64::NAN))
        };
        let baselines = || all.iter().filter(|other| other.is_baseline());
        if !baselines().any(|other| other.name == Baseline::Naive.name()) {
            return Vec::new();
        }
        let (own, not) = (rmse(self), Baseline::Ridge.name());
        let all =
            baselines().filter(|other| other.name != not).map(|other| (other.name.clone(), 1.0 - own / rmse(other)));
        all.collect()
    }

    pub fn json(&self, all: &[Self]) -> Result<Value> {
        let Some(best) = all.first() else { return Ok(Value::Null) };
        let folds = self.runs.iter().map(Trial::json).collect::<Result<Vec<Value>>>()?;
        let kernel = self.runs.first().and_then(|run| Some(run.fit.as_ref()?.kernel()));
        let Difference { mean, by_rows, by_folds } = self.difference(best);
        Ok(json!({
            "name": self.name,
            "kernel": kernel,
            "best": std::ptr::eq(self, best),
            "score": self.score(),
            "difference": { "mean": mean, "error_by_rows": by_rows, "error_by_folds": by_folds },
            "skill": self.skill(all).into_iter().collect::<std::collections::BTreeMap<String, f64>>(),
            "folds": folds,
        }))
    }
}

impl Fit {
    /// The text of its kernel; `average` for several.
    fn kernel(&self) -> String {
        let averaged = !self.fitted.members().is_empty();
        if averaged { AVERAGE.into() } else { self.fitted.settings.kernel.clone() }
    }
}

/// Longer parameters are variational parameters or actions, not hyperparameters.
const MOST_NUMBERS: usize = 100;

impl Trial {
    fn json(&self) -> Result<Value> {
        let mut value = json!({ "scores": self.scores.scored.json()?, "seconds": self.seconds });
        if let Some(Fit { fitted, bytes, words }) = &self.fit {
            let parameters = fitted.model.parameters().into_iter().filter(|(_, p)| p.len() <= MOST_NUMBERS);
            let parameters: Map<String, Value> = parameters.map(|(path, p)| (path, p.values().into())).collect();
            value["evaluations"] = fitted.summary.evaluations.into();
            value["step_bytes"] = (*bytes).into();
            value["loss"] = fitted.summary.loss.into();
            value["parameters"] = parameters.into();
            value["warnings"] = fitted.summary.warnings.iter().map(settings::words).collect();
            value["error_bars"] = words.clone().into();
        }
        Ok(value)
    }
}
