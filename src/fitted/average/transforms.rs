//! Transforms of the target and of the inputs of many rows, chosen by brief trainings on whole regions of the table.
//!
//! A sample of many rows does not show the detail that all of them show: cities on a map, for example, where ranks of
//! a column pay. So the rows of a trial are those of a few boxes of the table, each box an expert's. What is compared
//! is the evidence per row, in the target's units.

use crate::data::{Dataset, InputScale, TargetTransform, WarpKind, Warping};
use crate::error::Result;
use crate::fitted::plan::Table;
use crate::fitted::{Calibrate, Settings};
use crate::models::Observations;
use crate::models::experts::{ExpertsOptions, Partition};
use crate::threads;
use crate::train::{Optimizer, TrainConfig};

/// Rows of a region, number of regions, and steps of a trial.
const REGION: usize = 300;
const REGIONS: usize = 6;
const STEPS: usize = 25;
/// The least gain in evidence that is worth a transform, in nats a row.
const WORTH: f64 = 0.02;

/// What trials choose for many rows.
pub(in crate::fitted) struct Chosen {
    /// With the logarithm of the target, if that gains evidence.
    pub settings: Settings,
    /// The transform of the inputs that is worth a member of its own.
    pub inputs: Option<WarpKind>,
    /// What the logarithm gains, in words.
    pub said: Option<String>,
}

/// Tries transforms where none was asked for; the logarithm of a target without negative values with `log`. The rows of
/// a trial say whether the logarithm pays. Of the inputs they only propose: with all rows, a transform that gained here
/// may have broken what was linear.
///
/// # Errors
/// [`Error::Device`](crate::error::Error::Device) if the system has no threads.
pub(in crate::fitted) fn chosen(settings: &Settings, log: bool, table: Table) -> Result<Chosen> {
    let Table { schema, data, seed, .. } = table;
    let mut found = Chosen { settings: settings.clone(), inputs: None, said: None };
    let known = settings.auxiliary_column.is_some() || !settings.standardize;
    let open = log && settings.target_transform == TargetTransform::Identity;
    let logarithm = TargetTransform::logarithm(data.y.as_deref().unwrap_or_default()).filter(|_| open);
    let inputs = settings.input_transform.is_auto();
    if known || !(logarithm.is_some() || inputs) || data.n < 2 * REGION * REGIONS {
        return Ok(found);
    }
    // What is wrong with the columns, the plan says by name.
    let Ok(rows) = regions(data, seed) else { return Ok(found) };
    let sample = data.subset(&rows);
    let trial = Table { data: &sample, ..table };
    let mut all = vec![settings.clone()];
    all.extend(logarithm.map(|target_transform| Settings { target_transform, ..settings.clone() }));
    let of_target = evidence(trial, &all)?;
    let mut now = of_target[0];
    if !now.is_finite() {
        return Ok(found);
    }
    if let Some(gain) = of_target.get(1).map(|of_log| now - of_log).filter(|gain| *gain > WORTH) {
        now -= gain;
        found.settings = all.swap_remove(1);
        let (target, rows) = (&schema.target, rows.len());
        let of = if found.settings.target_transform == TargetTransform::Log1p { "1 + " } else { "" };
        found.said = Some(format!(
            "the logarithm of {of}`{target}` is modelled: it gains {gain:.2} nats a row on {rows} rows of {REGIONS} \
             regions"
        ));
    }
    if inputs {
        let kinds = [WarpKind::Asinh, WarpKind::Ranks];
        let of_inputs = evidence(trial, &kinds.map(|kind| warped(&found.settings, kind)))?;
        let best = if of_inputs[1] < of_inputs[0] { 1 } else { 0 };
        found.inputs = (of_inputs[best] < now).then_some(kinds[best]);
    }
    Ok(found)
}

/// The settings with a transform of all inputs.
pub(super) fn warped(settings: &Settings, kind: WarpKind) -> Settings {
    Settings { input_transform: Warping::all(kind), ..settings.clone() }
}

/// The rows of regions, boxes of about equal numbers of rows, evenly spaced among all boxes.
fn regions(data: &Dataset, seed: u64) -> Result<Vec<usize>> {
    let x = InputScale::fit(&data.x, data.d)?.apply(&data.x)?;
    let rows = Observations::unchecked(x, data.d, vec![0.0; data.n], None);
    let parts = Partition::Tree.split(&rows, &data.feature_names, data.n / REGION, seed)?;
    let mut all: Vec<usize> =
        (0..REGIONS).flat_map(|k| parts[parts.len() * (2 * k + 1) / (2 * REGIONS)].clone()).collect();
    all.sort_unstable();
    Ok(all)
}

/// Minus the log evidence per row of some settings, side by side; infinite if they cannot be trained.
fn evidence(trial: Table, all: &[Settings]) -> Result<Vec<f64>> {
    threads::apart(all.len(), |k| Ok(evidence_of(trial, &all[k]).unwrap_or(f64::INFINITY)))
}

/// Minus the log evidence per row, in the target's units; none if the settings cannot be trained, or if the mean far
/// from the data is useless.
fn evidence_of(trial: Table, settings: &Settings) -> Option<f64> {
    let model = ExpertsOptions::default().experts(Some(REGIONS)).into();
    let kernel = Settings::default().kernel;
    let settings = Settings { model, kernel, calibrate: Calibrate::No, store_factor: false, ..settings.clone() };
    let plan = trial.single(settings).ok()?;
    let config = TrainConfig::new(Optimizer::default(), STEPS).seed(trial.seed);
    let fitted = plan.alone(&config, &mut []).ok()?;
    let evidence = fitted.evidence(trial.data.y.as_deref().unwrap_or_default());
    (evidence.is_finite() && !fitted.explodes().ok()?).then_some(evidence)
}
