//! `cagey inspect`

use cagey::Result;
use cagey::advice::Advice;
use cagey::data::{TargetTransform, WarpKind};
use cagey::device::Compute;
use cagey::fitted::{Fitted, Rows, Summary};
use cagey::models::posterior::InducingPart;
use clap::Args;
use serde_json::{Value, json};

use super::saved::{Saved, members_json, members_text};
use super::trust::{calibration_in_words, temperature_in_words};
use super::{parameters, report, settings};
use crate::data::listed;

/// Describe a model: parameters, data, training
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cagey inspect model.cagey
  cagey inspect model.cagey --json
  cagey inspect average.cagey --member 2")]
pub struct Inspect {
    #[command(flatten)]
    model: Saved,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Inspect {
    /// Loads and describes.
    pub fn run(self) -> Result<()> {
        // A description needs no tables, and whoever made the file chose their names.
        let fitted = self.model.chosen(Fitted::open(&self.model.path, super::registry(), None, Rows::Closed)?)?;
        match self.json {
            true => report::print_json(&json(&fitted)),
            false => report::print(&description(&fitted)),
        }
    }
}

/// Describes a model for programs, in the units of the data.
pub fn json(fitted: &Fitted) -> Value {
    let parameters: serde_json::Map<String, Value> = fitted
        .model
        .parameters()
        .into_iter()
        .map(|(path, p)| {
            let priors: Vec<_> = p.priors().iter().map(|prior| prior.map(|prior| prior.to_string())).collect();
            let prior = if priors.len() > 1 { json!(priors) } else { json!(priors.first()) };
            (path, json!({ "values": p.values(), "fixed": p.fixed, "constraint": p.constraint(), "prior": prior }))
        })
        .collect();
    let part = |part: InducingPart| {
        let (name, inputs) = (part.name, part.inputs.len() / fitted.data().d);
        json!({ "name": name, "inputs": inputs, "coefficient": part.coefficient, "usual": part.technique })
    };
    let parts: Vec<_> = fitted.posterior().inducing_parts().into_iter().map(part).collect();
    let mut training = json!(fitted.summary);
    training["warnings"] = fitted.summary.warnings.iter().map(settings::words).collect();
    json!({
        "kernel": fitted.kernel().to_string(),
        "average": members_json(fitted),
        "parameters": parameters,
        "settings": fitted.settings,
        "inputs": fitted.input_names(),
        "input_scale": fitted.input_scale,
        "target": fitted.schema.target,
        "series": fitted.schema.series().map(|(_, column)| {
            json!({ "column": column.name, "names": column.encoding.labels() })
        }),
        "classes": fitted.schema.classes,
        "target_scale": fitted.target_scale,
        "training": training,
        "calibration": fitted.calibration,
        "temperature": fitted.temperature,
        "solve": fitted.posterior().solve(),
        "parts": parts,
        "shards": fitted.whereabouts().map(|whereabouts| &whereabouts.shards),
    })
}

/// Describes a model in words and numbers, in the units of the data.
pub fn description(fitted: &Fitted) -> String {
    let (settings, summary, scale) = (&fitted.settings, &fitted.summary, &fitted.target_scale);
    let names = fitted.input_names();
    let mut text = members_text(fitted) + &fitted.model.title() + "\n";
    let (first, others) = summary.warnings.split_at(usize::from(summary.useless).min(summary.warnings.len()));
    let warned =
        |all: &[Advice]| all.iter().map(|one| format!("  warning: {}\n", settings::words(one))).collect::<String>();
    text += &warned(first);
    let inputs = if names.len() > 8 { format!("{} columns", names.len()) } else { names.join(", ") };
    let number = cagey::params::shown;
    let standardised = (scale.mean, scale.sd) != (0.0, 1.0);
    let target = match &fitted.schema.classes {
        Some(classes) => format!("{}, classes {}", fitted.schema.target, classes.labels().join(", ")),
        None => {
            let (name, mean, sd) = (&fitted.schema.target, number(scale.mean), number(scale.sd));
            let of = match scale.transform {
                TargetTransform::Identity => String::new(),
                TargetTransform::Log => format!(" of log({name})"),
                TargetTransform::Log1p => format!(" of log(1 + {name})"),
            };
            match standardised {
                true => format!("{name} (standardised by mean {mean} and sd {sd}{of})"),
                false => format!("{name} (not standardised)"),
            }
        }
    };
    let mut data =
        vec![("kernel".into(), settings.kernel.clone()), ("inputs".into(), inputs), ("target".into(), target)];
    data.extend(warped(fitted, &names).map(|columns| ("transformed inputs".into(), columns)));
    if let Some((_, column)) = fitted.schema.series() {
        let labels = column.encoding.labels().unwrap_or_default();
        let first = listed(labels, MOST_LISTED);
        data.push(("series".into(), format!("{} of `{}`: {first}", labels.len(), column.name)));
    }
    data.extend(settings.auxiliary_column.clone().map(|column| ("auxiliary column".into(), column)));
    data.push(("rows".into(), summary.rows.to_string()));
    if let Some(whereabouts) = fitted.whereabouts() {
        let paths: Vec<&str> = whereabouts.shards.iter().map(|shard| shard.path.as_str()).collect();
        data.push(("rows are in".into(), listed(&paths, MOST_LISTED)));
    }
    let Compute { kind, precision } = settings.compute;
    data.push(("computed on".into(), format!("{}, {}", kind.name(), precision.name())));
    text += &report::table(&data);
    text += "Parameters\n";
    text += &report::table(&parameters::rows(fitted));
    text += "Training\n";
    let mut rows: Vec<(String, String)> =
        summary.race.iter().filter_map(|race| Some(("start".into(), race.sentence()?))).collect();
    rows.extend(summary.chosen.clone().map(|chosen| ("chosen".into(), chosen)));
    rows.push(match (&fitted.calibration, &fitted.temperature) {
        (Some(calibration), _) => {
            ("intervals".into(), format!("calibrated, as `predict` writes them: {}", calibration_in_words(calibration)))
        }
        (_, Some(temperature)) => ("probabilities".into(), temperature_in_words(temperature)),
        _ => ("predictions".into(), "as the model says".into()),
    });
    rows.extend(
        summary.weak_prior.iter().map(|prior| ("weak prior".into(), format!("{prior}; `--prior none` leaves it out"))),
    );
    rows.extend([
        (
            "optimiser".into(),
            format!("{}, {} steps, {} evaluations", summary.optimizer, summary.iterations, summary.evaluations),
        ),
        ("ended".into(), summary.termination.clone()),
        (
            format!("objective per row{}", if standardised { ", of the standardised target" } else { "" }),
            objective_in_words(summary),
        ),
        ("time".into(), format!("{:.2} s", summary.seconds)),
    ]);
    text += &report::table(&rows);
    if let Some(solve) = fitted.posterior().solve() {
        text += &report::table(&[("last solve".into(), solve.to_string())]);
    }
    let parts = fitted.posterior().inducing_parts();
    if !parts.is_empty() {
        text += "Parts\n";
        let row = |part: InducingPart| {
            let (inputs, coefficient) = (part.inputs.len() / fitted.data().d, number(part.coefficient));
            let usual = number(part.technique);
            let text = format!("{inputs} inducing inputs, weight {coefficient} ({usual} in the classical combination)");
            (part.name, text)
        };
        text += &report::table(&parts.into_iter().map(row).collect::<Vec<_>>());
    }
    text + &warned(others)
}

/// The inputs that a function changes before they are standardised, by their functions.
fn warped(fitted: &Fitted, names: &[String]) -> Option<String> {
    let mut found: Vec<(WarpKind, Vec<&str>)> = Vec::new();
    for (warp, name) in fitted.input_scale.warps.iter().zip(names) {
        match found.iter_mut().find(|(kind, _)| *kind == warp.kind()) {
            _ if warp.kind() == WarpKind::None => {}
            Some((_, columns)) => columns.push(name),
            None => found.push((warp.kind(), vec![name])),
        }
    }
    let listed = |(kind, columns): (WarpKind, Vec<&str>)| match columns.len() {
        ..=8 => format!("{kind} of {}", columns.join(", ")),
        many => format!("{kind} of {many} columns"),
    };
    let text = found.into_iter().map(listed).collect::<Vec<_>>().join("; ");
    (!text.is_empty()).then(|| format!("{text} (lengthscales are in units of the data at the median)"))
}

/// The objective per row; of an estimate, its standard error as well.
fn objective_in_words(summary: &Summary) -> String {
    let error = |error| format!(", an estimate with standard error {error:.6} (--probes, --seed)");
    format!("{:.6}{}", summary.loss, summary.loss_error.map(error).unwrap_or_default())
}

/// Most files, or series, that are listed.
const MOST_LISTED: usize = 8;
