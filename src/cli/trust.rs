//! Says in words whether intervals hold, with the options that correct them.

use cagey::Result;
use cagey::data::{Dataset, TargetTransform};
use cagey::fitted::{Copies, Fitted, Outside, is_enough_for_slopes};
use cagey::metrics::diagnosis::{Along, Diagnosis, Finding, Remedy};
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
        Ok(Self::told(fitted, &diagnosis, what))
    }

    /// Diagnoses intervals on the training rows, each predicted from all others. Empty if the model has no closed form
    /// for that.
    ///
    /// # Errors
    /// As [`Fitted::diagnose_left_out`].
    pub fn of_training(fitted: &Fitted) -> Result<Self> {
        match fitted.left_out()? {
            None => Ok(Self::default()),
            Some(left) => Ok(Self::told(fitted, &fitted.diagnose_left_out(&left)?, "rows left out in turn")),
        }
    }

    /// The diagnosis; if it failed, an empty one and a warning, since scores are valid without it.
    pub fn or_warn(found: Result<Self>) -> Self {
        found.unwrap_or_else(|error| {
            report::warn(&format!("it is not known whether error bars hold: {}", settings::error(&error)));
            Self::default()
        })
    }

    fn told(fitted: &Fitted, diagnosis: &Diagnosis, what: &str) -> Self {
        let positive = is_positive(fitted);
        let [half, most] = diagnosis.held;
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        let verdict = match (half.holds, most.holds) {
            (true, true) => "they hold",
            _ if (half.holds || half.share < half.level) && (most.holds || most.share < most.level) => {
                "they are too narrow"
            }
            _ if (half.holds || half.share > half.level) && (most.holds || most.share > most.level) => {
                "they are too wide"
            }
            _ => "they have the wrong shape",
        };
        let range = |low: f64, high: f64| format!("{:.1}–{:.1}", 100.0 * low, 100.0 * high);
        let mut lines = vec![format!(
            "50 % intervals hold {} and 95 % intervals {} of {} {what} (expected: {}, {}): {verdict}",
            percent(half.share),
            percent(most.share),
            diagnosis.n,
            range(half.low, half.high),
            range(most.low, most.high),
        )];
        let names = fitted.input_names();
        let told = diagnosis
            .findings
            .iter()
            .map(|found| format!("{}: {}", found_in_words(found, &names), advice(found, positive, fitted, &names)));
        lines.extend(told);
        let remedies: Vec<Remedy> = diagnosis.findings.iter().map(|found| found.remedy(positive)).collect();
        let json = json!({
            "intervals_hold": half.holds && most.holds,
            "held": diagnosis.held,
            "findings": diagnosis.findings,
            "remedies": remedies,
            "words": lines,
        });
        Self { lines, json }
    }

    /// As rows below a table.
    pub fn text(&self) -> String {
        self.lines.iter().map(|line| format!("  {line}\n")).collect()
    }
}

/// Whether the logarithm of the target could be modelled but is not.
fn is_positive(fitted: &Fitted) -> bool {
    let known = fitted.settings.auxiliary_column.is_some();
    let scale = &fitted.target_scale;
    // 0 comes back from its standardised value with a rounding error.
    let least = 1e-9 * scale.sd;
    scale.transform == TargetTransform::Identity && !known && fitted.data().y.iter().all(|z| scale.inverse(*z) > least)
}

fn found_in_words(finding: &Finding, names: &[String]) -> String {
    match finding {
        Finding::Drift { along: Along::Input(column) } => {
            format!("errors drift along `{}`", names.get(*column).map_or("", |name| name))
        }
        Finding::Drift { .. } => "errors drift along the rows".into(),
        Finding::Beyond { input, share } => {
            let name = names.get(*input).map_or("", |name| name);
            format!("{:.0} % of these rows lie beyond the training rows in `{name}`", 100.0 * share)
        }
        Finding::NoiseVaries { along, ratio } => {
            let with = match along {
                Along::Input(column) => format!("`{}`", names.get(*column).map_or("", |name| name)),
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

/// The options that correct what was found.
fn advice(finding: &Finding, positive: bool, fitted: &Fitted, names: &[String]) -> String {
    let calibrated = fitted.calibration.is_some();
    match finding.remedy(positive) {
        Remedy::Trend => {
            let column = match finding {
                Finding::Drift { along: Along::Input(column) } | Finding::Beyond { input: column, .. } => column,
                _ => &0,
            };
            let column = names.get(*column).map_or("", |name| name.as_str());
            let enough = is_enough_for_slopes(fitted.summary.rows, names.len());
            let mean = if enough { "--mean linear or " } else { "" };
            format!(
                "describe what goes on there: a trend, {mean}--kernel \"{} + linear(dims=[{column}])\", and a season, \
                 periodic(period=…, dims=[{column}])",
                fitted.settings.kernel
            )
        }
        Remedy::OrderAsInput => {
            "add a column with the time or number of the row as an input; score with --holdout-last, because random \
             rows look too good"
                .into()
        }
        Remedy::LogTarget => "--target-transform log, or --likelihood heteroscedastic".into(),
        Remedy::Heteroscedastic => "--likelihood heteroscedastic".into(),
        Remedy::HeavyTails if calibrated => "--likelihood student-t".into(),
        Remedy::HeavyTails => "--calibrate, or --likelihood student-t".into(),
        _ if calibrated => "the rows differ from those that intervals were calibrated on".into(),
        _ => "--calibrate".into(),
    }
}

/// Says how many rows are copies of training rows; none if no row is.
pub fn copies_in_words(copies: &Copies, rows: usize, what: &str) -> Option<String> {
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
    let advice = if 2 * whole >= count && 20 * whole >= rows {
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
    let shape = match calibration.shape.share {
        0.0 => format!("{law}, scale {:.3}", part.scale),
        share => format!(
            "{law}, scale {:.3} for {:.0} % and {:.3} for the others",
            part.scale,
            100.0 * (1.0 - share),
            wide.scale
        ),
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
    format!("{shape}; from {from}")
}

/// Describes in words what a temperature does.
pub fn temperature_in_words(temperature: &Temperature) -> String {
    let does = match temperature.exponent {
        e if e > 1.0 => format!("sharper, to the power {e:.2}"),
        e if e < 1.0 => format!("flatter, to the power {e:.2}"),
        _ => "as the model says".into(),
    };
    format!("{does}; from {} set apart", report::count(temperature.rows, "row"))
}
