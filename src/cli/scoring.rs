//! Scores of a fitted model, chosen by what its likelihood predicts.

use cagey::data::Dataset;
use cagey::fitted::Fitted;
use cagey::metrics::{
    ClassScores, Predictive, Scores, TargetPrediction, TargetScores, confusion, loss_of_shares, score_classes,
    score_targets,
};
use cagey::{Error, Result};
use serde_json::Value;

use super::data::targets;
use super::report;
use super::trust::{Trust, copies_in_words};

/// The scores of a model's predictions.
pub enum Scored {
    /// Of real targets with Gaussian noise.
    Gaussian(Scores),
    /// Of classes: scores, labels, and the confusion matrix with true classes in rows and predicted ones in columns.
    Classes(ClassScores, Vec<String>, Vec<Vec<usize>>),
    /// Of counts and other targets.
    Targets(TargetScores),
}

/// A score and how it is written.
#[derive(Debug, Clone, Copy)]
pub enum Brief {
    /// As it is.
    Number(f64),
    /// In percent.
    Share(f64),
}

impl Brief {
    /// As the tables of several models have it.
    pub fn text(self) -> String {
        match self {
            Self::Number(value) => report::fixed(value, 4),
            Self::Share(value) => report::percent(value),
        }
    }

    /// The same kind of score with another number.
    pub fn with(self, value: f64) -> Self {
        match self {
            Self::Number(_) => Self::Number(value),
            Self::Share(_) => Self::Share(value),
        }
    }

    /// The number.
    pub fn value(self) -> f64 {
        match self {
            Self::Number(value) | Self::Share(value) => value,
        }
    }
}

/// Scores of held-out rows, with remarks on how far to trust them.
pub struct HeldOut {
    /// Of all rows.
    pub scored: Scored,
    /// The same without the model's calibration, if it has one.
    plain: Option<Scored>,
    judged: Judged,
    /// Of the rows that do not copy training rows, if there are rows of both kinds.
    distinct: Option<Scored>,
}

/// Where no row can be tested.
const UNKNOWN: &str = "whether intervals hold was not tested: each of these rows copies a training row or has texts \
                       that the model was not trained with";

/// What to know about held-out rows before trusting their scores.
pub struct Judged {
    /// How many rows copy training rows, as a number and in words; none if no row does.
    copies: Option<(usize, String)>,
    /// Positions of the other rows.
    others: Vec<usize>,
    /// Whether intervals hold.
    trust: Trust,
}

impl Judged {
    /// Judges the rows of a table with targets. Copies of training rows test nothing, so only the other rows are
    /// tested, if there are any.
    pub fn of(fitted: &Fitted, data: &Dataset) -> Result<Self> {
        let copies = fitted.copies(data)?.unwrap_or_default();
        let words = copies_in_words(&copies, data.n, "held-out rows", fitted.is_of_categories());
        let others: Vec<usize> = (0..data.n).filter(|row| copies.inputs.binary_search(row).is_err()).collect();
        let mut tested = if others.is_empty() { (0..data.n).collect() } else { others.clone() };
        // A mixture over categories has no joint distribution with other rows.
        let unknown = fitted.with_unknown_categories(data);
        tested.retain(|row| unknown.binary_search(row).is_err());
        let what = if copies.whole.len() == data.n { "training rows" } else { "held-out rows" };
        let trust = match tested.is_empty() && data.n > 0 && fitted.is_gaussian() {
            true => Trust::untested(UNKNOWN),
            false => Trust::or_warn(Trust::of(fitted, &data.subset(&tested), what)),
        };
        Ok(Self { copies: words.map(|words| (copies.inputs.len(), words)), others, trust })
    }

    /// The remarks in one line.
    pub fn line(&self) -> String {
        let words = self.copies.iter().map(|(_, words)| words).chain(&self.trust.lines);
        words.map(String::as_str).collect::<Vec<_>>().join("; ")
    }
}

impl HeldOut {
    /// Scores a model on a table with targets.
    pub fn of(fitted: &Fitted, data: &Dataset) -> Result<Self> {
        let scored = score(fitted, data)?;
        let plain = fitted.is_calibrated().then(|| score(&fitted.uncalibrated(), data)).transpose()?;
        let judged = Judged::of(fitted, data)?;
        let both = judged.copies.is_some() && !judged.others.is_empty();
        let distinct = both.then(|| score(fitted, &data.subset(&judged.others))).transpose()?;
        Ok(Self { scored, plain, judged, distinct })
    }

    /// Whether intervals hold.
    pub fn trust(&mut self) -> &mut Trust {
        &mut self.judged.trust
    }

    /// As JSON: the scores, and beside them the remarks.
    pub fn json(&self) -> Result<Value> {
        let mut value = self.scored.json()?;
        if let Some(plain) = &self.plain {
            value["uncalibrated"] = plain.json()?;
        }
        if let Some((count, _)) = &self.judged.copies {
            value["copies"] = (*count).into();
            value["without_copies"] = self.distinct.as_ref().map_or(Ok(Value::Null), Scored::json)?;
        }
        if !self.judged.trust.json.is_null() {
            value["error_bars"] = self.judged.trust.json.clone();
        }
        Ok(value)
    }

    /// As tables and sentences.
    pub fn text(&self) -> String {
        let mut text = match &self.plain {
            Some(plain) => {
                let heads = ["calibrated (`predict` writes this)", "as the model says"];
                report::beside(&self.scored.rows(), &plain.rows(), heads) + &self.scored.details()
            }
            None => self.scored.table(),
        };
        text.extend(self.judged.copies.iter().map(|(_, words)| format!("  {words}\n")));
        if let Some(scored) = &self.distinct {
            text += "  Without those rows\n";
            text += &scored.table();
        }
        text + &self.judged.trust.text()
    }
}

/// Seed of the randomisation of counts.
pub const SEED: u64 = 0;

/// Scores of rows, with the contribution of each row to the score that models are chosen by.
pub struct RowScores {
    /// The scores.
    pub scored: Scored,
    /// Minus the log density or probability of each row's target.
    pub rows: Vec<f64>,
    /// The name of their mean.
    pub name: &'static str,
}

/// Scores a model on a table with targets.
pub fn score(fitted: &Fitted, data: &Dataset) -> Result<Scored> {
    Ok(score_rows(fitted, data)?.scored)
}

/// Scores a model on a table with targets, row by row.
pub fn score_rows(fitted: &Fitted, data: &Dataset) -> Result<RowScores> {
    let y = targets(data, fitted.target_transform())?;
    if fitted.is_gaussian() {
        return score_predictive(y, &fitted.predict(data)?);
    }
    fitted.check_targets(data)?;
    score_target_predictions(fitted, y, &fitted.predict_targets(data)?)
}

/// Scores distributions of targets that are not Gaussian.
pub fn score_target_predictions(fitted: &Fitted, y: &[f64], predictions: &[TargetPrediction]) -> Result<RowScores> {
    let Some(probabilities) = probabilities(predictions) else {
        let rows = y.iter().zip(predictions).map(|(y, p)| -p.log_density(*y)).collect();
        return Ok(RowScores { scored: Scored::Targets(score_targets(y, predictions, SEED)?), rows, name: "NLPD" });
    };
    let labels = class_labels(fitted, probabilities.first().map_or(0, Vec::len));
    score_probabilities(y, &probabilities, labels)
}

/// The probabilities of classes; none for other targets.
pub fn probabilities(predictions: &[TargetPrediction]) -> Option<Vec<Vec<f64>>> {
    predictions.iter().map(TargetPrediction::probabilities).collect()
}

/// Scores distributions of real targets.
pub fn score_predictive(y: &[f64], predictions: &[Predictive]) -> Result<RowScores> {
    let rows = y.iter().zip(predictions).map(|(y, p)| -p.log_density(*y)).collect();
    Ok(RowScores { scored: Scored::Gaussian(cagey::metrics::score(y, predictions)?), rows, name: "NLPD" })
}

/// Scores probabilities of classes, given as codes.
pub fn score_probabilities(y: &[f64], probabilities: &[Vec<f64>], labels: Vec<String>) -> Result<RowScores> {
    let codes: Vec<usize> = y.iter().map(|y| *y as usize).collect();
    let scores = score_classes(&codes, probabilities)?;
    let rows = codes.iter().zip(probabilities).map(|(code, p)| -p[*code].max(f64::MIN_POSITIVE).ln()).collect();
    let scored = Scored::Classes(scores, labels, confusion(&codes, probabilities)?);
    Ok(RowScores { scored, rows, name: "log loss" })
}

/// The labels of a model's classes, in the order of their probabilities; their codes if the classes were numbers.
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

    /// The main scores with their names; the first is the one that models are chosen by.
    pub fn brief(&self) -> Vec<(&'static str, Brief)> {
        use Brief::{Number, Share};
        let real = |nlpd, rmse, crps, half, most| {
            let numbers = [("NLPD", Number(nlpd)), ("RMSE", Number(rmse)), ("CRPS", Number(crps))];
            numbers.into_iter().chain([("in 50 %", Share(half)), ("in 95 %", Share(most))]).collect()
        };
        match self {
            Self::Gaussian(s) => real(s.nlpd, s.rmse, s.crps, s.coverage_50, s.coverage_95),
            Self::Targets(s) => real(s.nlpd, s.rmse, s.crps, s.coverage_50, s.coverage_95),
            Self::Classes(s, ..) => vec![
                ("log loss", Number(s.log_loss)),
                ("accuracy", Share(s.accuracy)),
                ("Brier", Number(s.brier)),
                ("ECE", Share(s.ece)),
            ],
        }
    }

    /// The scores by name.
    fn rows(&self) -> Vec<(String, String)> {
        match self {
            Self::Gaussian(scores) => report::score_rows(scores),
            Self::Targets(scores) => report::target_rows(scores),
            Self::Classes(scores, ..) => report::class_rows(scores),
        }
    }

    /// What follows the scores: the confusion matrix of classes, and first of all whether inputs helped.
    fn details(&self) -> String {
        match self {
            Self::Classes(scores, labels, confusion) => {
                let counts = confusion.iter().map(|row| row.iter().sum());
                let shares = loss_of_shares(counts);
                let useless = scores.log_loss >= shares && shares > 0.0;
                let told = useless.then(|| {
                    let shares = report::number(shares);
                    format!("  predictions are no better than the shares of these classes (log loss {shares})\n")
                });
                told.unwrap_or_default() + &report::confusion(labels, confusion)
            }
            _ => String::new(),
        }
    }

    /// The scores as a table.
    pub fn table(&self) -> String {
        report::table(&self.rows()) + &self.details()
    }
}
