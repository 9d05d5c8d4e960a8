//! Says in words whether intervals hold, and which options predict better.

use std::time::Duration;

use cagey::Result;
use cagey::data::Dataset;
use cagey::fitted::{Alternative, Copies, Fitted, Outside};
use cagey::metrics::diagnosis::{Along, Diagnosis, Finding, Verdict};
use cagey::metrics::{Calibration, Source, Temperature};
use serde_json::{Value, json};

use super::{report, settings};

/// What a diagnosis found about a model's intervals on some rows; printed below the scores.
#[derive(Default)]
pub struct Trust {
    /// The sentences; the first says whether intervals hold.
    pub lines: Vec<String>,
    /// The same as JSON, for programs.
    pub json: Value,
    /// What was found; none if nothing was looked at.
    pub diagnosis: Option<Diagnosis>,
}

impl Trust {
    /// Diagnoses intervals on the rows of a table with known targets.
    ///
    /// # Errors
    /// As [`Fitted::diagnose`].
    pub fn of(fitted: &Fitted, data: &Dataset, what: &str) -> Result<Self> {
        if !fitted.is_gaussian() || data.n == 0 {
            return Ok(Self::default());
        }
        let y = data.y.as_deref().unwrap_or_default();
        let diagnosis = fitted.diagnose(data, y, &fitted.predict(data)?)?;
        Ok(Self::worded(fitted, diagnosis, what, verdict_in_words))
    }

    /// Nothing was looked at, for a reason that the user is told.
    pub fn untested(why: &str) -> Self {
        Self { lines: vec![why.into()], json: json!({ "words": [why] }), diagnosis: None }
    }

    /// Diagnoses intervals on the training rows, each predicted from all others. Empty if the model has no closed form
    /// for that. It claims less if `other` rows, held-out ones, are there to contradict it, or if a forecast is another
    /// matter.
    ///
    /// # Errors
    /// As [`Fitted::diagnose_left_out`].
    pub fn of_training(fitted: &Fitted, other: Option<Verdict>) -> Result<Self> {
        let Some(left) = fitted.left_out()? else { return Ok(Self::default()) };
        let series = fitted.series().is_some();
        let words = |verdict| match (verdict, other) {
            (Verdict::Hold, Some(Verdict::Hold)) => "they hold",
            (Verdict::Hold, Some(_)) => "as it should be, but see the held-out rows",
            (Verdict::Hold, None) if series => "right between these rows; --holdout-last tests a forecast",
            _ => verdict_in_words(verdict),
        };
        let mut trust = Self::worded(fitted, fitted.diagnose_left_out(&left)?, "rows left out in turn", words);
        let part = left.unknown.map(|why| format!("a row left out still has its part in the training: {why}"));
        trust.lines.extend(part);
        trust.json["words"] = json!(trust.lines);
        Ok(trust)
    }

    /// The diagnosis; if it failed, an empty one and a warning, since scores are valid without it.
    pub fn or_warn(found: Result<Self>) -> Self {
        found.unwrap_or_else(|error| {
            report::warn(&format!("it is not known whether error bars hold: {}", settings::error(&error)));
            Self::default()
        })
    }

    fn worded(fitted: &Fitted, diagnosis: Diagnosis, what: &str, words: impl Fn(Verdict) -> &'static str) -> Self {
        let [half, most] = diagnosis.held;
        let range = |low: f64, high: f64| format!("{:.1}–{:.1}", 100.0 * low, 100.0 * high);
        let mut lines = vec![match diagnosis.n {
            0 => "no row is without a copy: whether intervals hold cannot be told".to_string(),
            n => format!(
                "50 % intervals hold {} and 95 % intervals {} of {n} {what} (expected: {}, {}): {}",
                report::percent(half.share),
                report::percent(most.share),
                range(half.low, half.high),
                range(most.low, most.high),
                words(diagnosis.verdict)
            ),
        }];
        let names = fitted.input_names();
        lines.extend(diagnosis.findings.iter().map(|found| found_in_words(found, &names)));
        let json = json!({
            "intervals_hold": diagnosis.verdict.holds(),
            "verdict": diagnosis.verdict,
            "held": diagnosis.held,
            "findings": diagnosis.findings,
            "remedies": [],
            "advice": [],
            "words": lines,
        });
        Self { lines, json, diagnosis: Some(diagnosis) }
    }

    /// Whether rows lie beyond the training rows.
    pub fn is_of_forecast(&self) -> bool {
        let mut found = self.diagnosis.iter().flat_map(|diagnosis| &diagnosis.findings);
        found.any(|found| matches!(found, Finding::Beyond { .. }))
    }

    /// Adds the settings that predict better: those that were tried and gain, in this time if it is limited. Failures
    /// are no loss.
    pub fn advise(&mut self, fitted: &Fitted, time: Option<Duration>) {
        let Some(diagnosis) = &self.diagnosis else { return };
        // The training may have been brief, and trials of likelihoods are not.
        let longest = Duration::from_secs_f64((4.0 * fitted.summary.seconds).clamp(SHORTEST, LONGEST));
        let time = time.map_or(longest, |time| time.min(longest));
        let found = fitted.alternatives(&diagnosis.findings, Some(time), super::registry()).unwrap_or_default();
        let told = || found.iter().take(MOST_ADVISED);
        self.lines.extend(told().map(advice_in_words));
        if !diagnosis.is_well() && !fitted.members().is_empty() && found.is_empty() {
            self.lines.push(NONE_FOR_AVERAGE.into());
        }
        self.json["words"] = self.lines.clone().into();
        self.json["remedies"] = told().map(|one| json!(one.remedy)).collect();
        let advice = |one: &Alternative| {
            let (options, words) = (options(one), advice_in_words(one));
            json!({ "options": options, "remedy": one.remedy, "gain": one.gain, "words": words })
        };
        self.json["advice"] = told().map(advice).collect();
    }

    /// As rows below a table.
    pub fn text(&self) -> String {
        self.lines.iter().map(|line| format!("  {line}\n")).collect()
    }
}

/// Seconds for trials, at least and at most; in between four times those of the training.
const SHORTEST: f64 = 5.0;
const LONGEST: f64 = 20.0;

/// Why nothing is advised for an average.
const NONE_FOR_AVERAGE: &str =
    "no advice: the members were weighed by the same rows, and nothing else that was tried gains";

/// Most settings that are advised at once.
const MOST_ADVISED: usize = 3;

/// The options of a setting.
fn options(found: &Alternative) -> Vec<String> {
    found.advice.settings.iter().map(settings::option).collect()
}

/// A setting that predicts better, and by how much.
fn advice_in_words(found: &Alternative) -> String {
    let text = &found.advice.text;
    match found.numbered {
        true => format!(
            "the number of the row, or its time, as an input {text}; --features keeps a column that numbers the rows; \
             score with --holdout-last, because random rows look too good"
        ),
        false => format!("{} {text}", options(found).join(" ")),
    }
}

fn verdict_in_words(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Hold => "they hold",
        Verdict::TooNarrow => "they are too narrow",
        Verdict::TooWide => "they are too wide",
        Verdict::WrongShape => "they have the wrong shape",
        Verdict::TooFew => "too few independent rows to tell",
        Verdict::Noiseless => "the noise is at its floor, so new rows may differ: --holdout tests them",
        Verdict::Worse => "as wide as the errors, but predictions are of no use",
    }
}

fn found_in_words(finding: &Finding, names: &[String]) -> String {
    let name = |column: &usize| names.get(*column).map_or("", |name| name);
    match finding {
        Finding::Drift { along: Along::Input(column) } => format!("errors drift along `{}`", name(column)),
        Finding::Drift { .. } => "errors drift along the rows".into(),
        Finding::Beyond { input, share } => {
            format!("{:.0} % of these rows lie beyond the training rows in `{}`", 100.0 * share, name(input))
        }
        Finding::BelowMean { r2, below_training } => {
            let also = if *below_training { ", and than the mean of the training rows" } else { "" };
            format!("predictions are worse than the mean of these rows (R² {r2:.2}){also}")
        }
        Finding::NoiseVaries { along, ratio } => {
            let with = match along {
                Along::Input(column) => format!("`{}`", name(column)),
                _ => "the predicted value".into(),
            };
            match ratio {
                0.8..1.25 => format!("errors change in size with {with}"),
                _ => {
                    format!("errors change in size with {with} ({ratio:.1} times from its lowest to its highest third)")
                }
            }
        }
        Finding::HeavyTails { df } if df.is_finite() => {
            format!("errors have heavy tails (Student-t with {df:.1} degrees of freedom)")
        }
        Finding::HeavyTails { .. } => "errors have heavy tails".into(),
        Finding::Scale { ratio } if *ratio > 1.0 => format!("errors are {ratio:.2} times as large as intervals say"),
        Finding::Scale { ratio } => format!("errors are only {ratio:.2} times as large as intervals say"),
    }
}

/// Says how many rows are copies of training rows; none if no row is. In a table of `categories` that is no fault.
pub fn copies_in_words(copies: &Copies, rows: usize, what: &str, categories: bool) -> Option<String> {
    let (count, whole) = (copies.inputs.len(), copies.whole.len());
    if count == 0 {
        return None;
    }
    if whole == rows {
        return Some(format!("all {rows} rows are training rows: these are not scores of held-out rows"));
    }
    let targets = match whole {
        0 => String::new(),
        whole if whole == count => ", and their targets".into(),
        whole => format!(", and {whole} of them their target"),
    };
    let advice = if !categories && 2 * whole >= count && 20 * whole >= rows {
        "; --distinct keeps copies on one side of the split"
    } else {
        ""
    };
    Some(format!("{count} of {rows} {what} have the inputs of a training row{targets}{advice}"))
}

/// Says which rows lie outside the training data's range; none if no row does.
pub fn outside_in_words(outside: &Outside, rows: usize) -> Option<String> {
    let inputs = outside.inputs.iter().map(|(name, count, [low, high])| {
        let number = |value: &f64| cagey::params::shown(*value);
        format!("{count} in `{name}` (trained on {} to {})", number(low), number(high))
    });
    let mut inputs: Vec<String> = inputs.collect();
    if inputs.len() > MOST_NAMED {
        let more = inputs.len() - MOST_NAMED;
        inputs.truncate(MOST_NAMED);
        inputs.push(format!("and in {more} more inputs"));
    }
    (outside.rows > 0).then(|| {
        let are = if outside.rows == 1 { "lies" } else { "lie" };
        format!(
            "{} of {} {are} outside the range of the training data: {}",
            outside.rows,
            report::count(rows, "row"),
            inputs.join(", ")
        )
    })
}

/// Most inputs that are named.
const MOST_NAMED: usize = 5;

/// Describes a calibration in words.
pub fn calibration_in_words(calibration: &Calibration) -> String {
    let [part, wide] = calibration.shape.parts;
    let law = match part.df {
        Some(df) => format!("Student-t with {df:.1} degrees of freedom"),
        None => "normal".into(),
    };
    // Of rows without noise, left-out residuals are a millionth of what the model says.
    let scale = |of: f64| if of < 0.01 { format!("{of:.1e}") } else { format!("{of:.3}") };
    let shape = match calibration.shape.share {
        0.0 => format!("{law}, scale {}", scale(part.scale)),
        share => {
            let [near, far] = [part, wide].map(|part| scale(part.scale));
            format!("{law}, scale {near} for {:.0} % and {far} for the others", 100.0 * (1.0 - share))
        }
    };
    if calibration.source == Source::FewRows {
        let rows = report::count(calibration.rows, "row");
        return format!("{shape}; from {rows}, too few to know the size of errors better (--calibrate no: normal)");
    }
    let rows = report::count(calibration.rows, "residual");
    let from = match calibration.bound(0.95) {
        None => format!("{rows} of rows left out in turn"),
        Some(bound) => format!(
            "{rows} of rows set apart: with 95 % confidence intervals hold within {:.1} points of their level",
            100.0 * (bound + calibration.gap)
        ),
    };
    let beyond = calibration.reach.map_or(String::new(), |reach| {
        format!("; of a standard deviation above {} the rest is as the model says", cagey::params::shown(reach))
    });
    format!("{shape}; from {from}{beyond}")
}

/// Describes in words what a temperature does.
pub fn temperature_in_words(temperature: &Temperature) -> String {
    let does = match temperature.exponent {
        e if e > 1.0 => format!("sharper, to the power {e:.2}"),
        e if e < 1.0 => format!("flatter, to the power {e:.2}"),
        _ => "as the model says".into(),
    };
    let rows = report::count(temperature.rows, "row");
    match temperature.source {
        Source::LeaveOneOut => format!("{does}; from {rows}, each left out in turn"),
        _ => format!("{does}; from {rows} set apart"),
    }
}
