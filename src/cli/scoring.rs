//! Scores of a fitted model, by what its likelihood predicts.

use cagey::data::Dataset;
use cagey::fitted::Fitted;
use cagey::metrics::{ClassScores, Scores, TargetScores, confusion, score_classes, score_targets};
use cagey::{Error, Result};
use serde_json::Value;

use super::data::targets;
use super::report;

/// What a model's predictions are worth.
pub enum Scored {
    /// Of real targets with Gaussian noise.
    Gaussian(Scores),
    /// Of classes: scores, labels, and rows of true by columns of predicted classes.
    Classes(ClassScores, Vec<String>, Vec<Vec<usize>>),
    /// Of counts and other targets.
    Targets(TargetScores),
}

/// Seed of the randomisation of counts.
const SEED: u64 = 0;

/// Scores a model on a table with targets.
pub fn score(fitted: &Fitted, data: &Dataset) -> Result<Scored> {
    let y = targets(data, fitted.settings.target_transform)?;
    if fitted.is_gaussian() {
        return Ok(Scored::Gaussian(cagey::metrics::score(y, &fitted.predict(data)?)?));
    }
    fitted.check_targets(data)?;
    let predictions = fitted.predict_targets(data)?;
    let probabilities: Option<Vec<Vec<f64>>> = predictions.iter().map(|p| p.probabilities()).collect();
    let Some(probabilities) = probabilities else {
        return Ok(Scored::Targets(score_targets(y, &predictions, SEED)?));
    };
    let codes: Vec<usize> = y.iter().map(|y| *y as usize).collect();
    let labels = class_labels(fitted, probabilities.first().map_or(0, Vec::len));
    Ok(Scored::Classes(score_classes(&codes, &probabilities)?, labels, confusion(&codes, &probabilities)?))
}

/// The labels of the classes of a model, by code where they were numbers.
pub fn class_labels(fitted: &Fitted, count: usize) -> Vec<String> {
    match &fitted.schema.classes {
        Some(classes) => classes.labels().to_vec(),
        None => (0..count).map(|code| code.to_string()).collect(),
    }
}

impl Scored {
    /// The scores as JSON.
    pub fn json(&self) -> Result<Value> {
        let value = match self {
            Self::Gaussian(scores) => serde_json::to_value(scores),
            Self::Targets(scores) => serde_json::to_value(scores),
            Self::Classes(scores, labels, confusion) => serde_json::to_value(scores).map(|mut value| {
                value["labels"] = labels.clone().into();
                value["confusion"] = serde_json::json!(confusion);
                value
            }),
        };
        value.map_err(|e| Error::Data(e.to_string()))
    }

    /// The few scores that tell models apart, with their names.
    pub fn brief(&self) -> Vec<(&'static str, f64)> {
        match self {
            Self::Gaussian(s) => {
                vec![("RMSE", s.rmse), ("NLPD", s.nlpd), ("CRPS", s.crps), ("coverage 95", s.coverage_95)]
            }
            Self::Targets(s) => {
                vec![("RMSE", s.rmse), ("NLPD", s.nlpd), ("CRPS", s.crps), ("coverage 95", s.coverage_95)]
            }
            Self::Classes(s, ..) => {
                vec![("accuracy", s.accuracy), ("log loss", s.log_loss), ("Brier", s.brier), ("ECE", s.ece)]
            }
        }
    }

    /// The scores as a table.
    pub fn table(&self) -> String {
        match self {
            Self::Gaussian(scores) => report::scores(scores),
            Self::Targets(scores) => report::target_scores(scores),
            Self::Classes(scores, labels, confusion) => report::class_scores(scores, labels, confusion),
        }
    }
}
