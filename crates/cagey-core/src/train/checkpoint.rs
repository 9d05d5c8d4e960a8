//! Saves the state of a training. A continued training has bit for bit the numbers of an uninterrupted one.
//!
//! The file has the container format of model files, with the state as its document.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::observer::{History, Record};
use super::run::Run;
use super::{Objective, TrainConfig, exact};
use crate::atomic::write_bytes;
use crate::model_file::{CHECKPOINT, ModelFile};
use crate::{Error, Result};

/// Where and how often to save the state of a training. It is also saved at the start, so that a path that cannot be
/// written is noticed, and at the end. A crash leaves the previous file or the new one, never a partial file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckpointPlan {
    /// The file, replaced each time.
    pub path: PathBuf,
    /// Save after this many steps.
    pub every_steps: Option<usize>,
    /// Save after this much time.
    pub every_time: Option<Duration>,
}

impl CheckpointPlan {
    /// Saves to `path` every five minutes.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), every_steps: None, every_time: Some(Duration::from_secs(300)) }
    }

    /// Saves to `path` every `steps` steps.
    pub fn every_steps(path: impl Into<PathBuf>, steps: usize) -> Self {
        Self { path: path.into(), every_steps: Some(steps), every_time: None }
    }
}

/// The first bytes of files that earlier versions wrote.
const TEXT: &[u8] = b"{\"format\":\"cagey-checkpoint\"";

/// The state of a training.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TrainingState {
    fingerprint: String,
    signature: String,
    /// What came before the first step. Without runs, the first step is still to come.
    #[serde(default)]
    prelude: Value,
    #[serde(with = "exact::number")]
    pub(crate) seconds: f64,
    pub(crate) runs: Vec<Run>,
    #[serde(with = "columns")]
    pub(crate) history: History,
}

impl TrainingState {
    /// The state before the first step.
    pub(crate) fn new(runs: Vec<Run>, config: &TrainConfig) -> Self {
        let (fingerprint, signature) = (config.fingerprint.clone(), config.signature());
        let prelude = config.prelude.clone();
        Self { fingerprint, signature, prelude, seconds: 0.0, runs, history: History::default() }
    }

    /// Stores the state of the objective, apart from the parameters, in the run that made the last step.
    pub(crate) fn keep(&mut self, active: Option<usize>, objective: &dyn Objective) {
        if let Some(run) = active.and_then(|index| self.runs.get_mut(index)) {
            run.objective = objective.state();
        }
    }

    /// Writes the state to a temporary file next to `path` and renames it.
    pub(crate) fn save(&self, path: &Path) -> Result<()> {
        let document = serde_json::to_value(self).map_err(|problem| failure(path, &problem.to_string()))?;
        let bytes = ModelFile { document, ..ModelFile::default() }.bytes_as(&CHECKPOINT)?;
        write_bytes(path, &bytes)
    }

    /// Reads a state and checks that it can be continued with `dim` parameters under `config`; none if no step was
    /// made yet.
    pub(crate) fn load(path: &Path, dim: usize, config: &TrainConfig) -> Result<Option<Self>> {
        let state = Self::read(path)?;
        if state.runs.is_empty() {
            return Ok(None);
        }
        state.check(path, config, Some(&config.signature()))?;
        match state.runs.iter().find(|run| !run.fits(dim, &config.optimizer)) {
            Some(run) => differs(path, "other parameters", &run.point.x.len().to_string(), &dim.to_string()),
            None => Ok(Some(state)),
        }
    }

    fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|source| Error::io(path, &source))?;
        if bytes.starts_with(TEXT) {
            let problem = "the checkpoint is text, as older versions of cagey wrote it; resume it with the program \
                           that wrote it, or start afresh";
            return Err(failure(path, problem));
        }
        let file = ModelFile::from_bytes_as(&bytes, &CHECKPOINT).map_err(|problem| failure(path, &problem))?;
        serde_json::from_value(file.document)
            .map_err(|problem| failure(path, &format!("the checkpoint is damaged: {problem}; start afresh")))
    }

    /// Refuses the state of another training, or one with other `settings` where these are given.
    fn check(&self, path: &Path, config: &TrainConfig, settings: Option<&str>) -> Result<()> {
        if self.fingerprint != config.fingerprint {
            let what = "another model, data set or options";
            return differs(path, what, &self.fingerprint, &config.fingerprint);
        }
        match settings.filter(|settings| self.signature != *settings) {
            Some(settings) => differs(path, "other settings", &self.signature, settings),
            None => Ok(()),
        }
    }
}

/// What a saved state says about the time before the first step.
#[derive(Debug, Default)]
#[doc(hidden)]
pub struct Before {
    /// [`TrainConfig::prelude`] as it was saved.
    pub prelude: Value,
    /// Whether the first step has been made.
    pub over: bool,
}

impl Before {
    /// Reads it from the checkpoint that `config` names, if it names one.
    ///
    /// # Errors
    /// As those of a training that goes on from there.
    #[doc(hidden)]
    pub fn load(config: &TrainConfig) -> Result<Self> {
        let Some(path) = &config.resume else { return Ok(Self::default()) };
        let state = TrainingState::read(path)?;
        let over = !state.runs.is_empty();
        // A state with runs also has their settings, which are checked with its steps.
        state.check(path, config, (!over).then(|| unscaled(config).signature()).as_deref())?;
        Ok(Self { prelude: state.prelude, over })
    }

    /// Saves a prelude that is not over where `config` says, if it does.
    ///
    /// # Errors
    /// [`Error::Io`] naming the file.
    #[doc(hidden)]
    pub fn save(config: &TrainConfig, prelude: Value) -> Result<()> {
        let Some(plan) = &config.checkpoint else { return Ok(()) };
        TrainingState::new(Vec::new(), &TrainConfig { prelude, ..unscaled(config) }).save(&plan.path)
    }
}

/// The loss scale belongs to steps, and before the first one it is not known yet.
fn unscaled(config: &TrainConfig) -> TrainConfig {
    config.clone().loss_scale(1.0)
}

/// The refusal of a state that belongs to something else.
fn differs<T>(path: &Path, what: &str, saved: &str, given: &str) -> Result<T> {
    let difference = match differences(saved, given) {
        Some(entries) => entries.join(", "),
        None => format!("[{saved}], not [{given}]"),
    };
    let problem = format!("the checkpoint belongs to {what}: {difference}; make these the same or start afresh");
    Err(failure(path, &problem))
}

/// Most differing entries that a message names.
const MOST: usize = 5;

/// The entries in which two JSON objects differ.
fn differences(saved: &str, given: &str) -> Option<Vec<String>> {
    let [saved, given] = [saved, given].map(|text| serde_json::from_str::<Value>(text).ok().filter(Value::is_object));
    let (mut there, mut here) = (BTreeMap::new(), BTreeMap::new());
    flatten("", &saved?, &mut there);
    flatten("", &given?, &mut here);
    let names: BTreeSet<&String> = there.keys().chain(here.keys()).collect();
    let of = |values: &BTreeMap<String, String>, name: &String| values.get(name).cloned().unwrap_or("nothing".into());
    let differing = names.into_iter().filter(|name| there.get(*name) != here.get(*name));
    Some(
        differing
            .take(MOST)
            .map(|name| format!("{name} is {} there and {} here", of(&there, name), of(&here, name)))
            .collect(),
    )
}

/// The leaves of a JSON value with their paths.
fn flatten(path: &str, value: &Value, leaves: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(entries) => {
            for (name, value) in entries {
                flatten(&if path.is_empty() { name.clone() } else { format!("{path}.{name}") }, value, leaves);
            }
        }
        other => {
            leaves.insert(path.into(), other.to_string());
        }
    }
}

fn failure(path: &Path, problem: &str) -> Error {
    Error::ModelFile { path: path.display().to_string(), problem: problem.into() }
}

/// Saves a state when the plan says so.
pub(crate) struct Writer<'a> {
    plan: &'a CheckpointPlan,
    steps: usize,
    last: Instant,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(plan: &'a CheckpointPlan) -> Self {
        Self { plan, steps: 0, last: Instant::now() }
    }

    /// Counts a step and returns whether it is time to [save](Self::save).
    pub(crate) fn due(&mut self) -> bool {
        self.steps += 1;
        self.plan.every_steps.is_some_and(|every| self.steps >= every)
            || self.plan.every_time.is_some_and(|every| self.last.elapsed() >= every)
    }

    pub(crate) fn save(&mut self, state: &TrainingState) -> Result<()> {
        (self.steps, self.last) = (0, Instant::now());
        state.save(&self.plan.path)
    }
}

/// The history as exact numbers, six for each record.
mod columns {
    use serde::{Deserializer, Serializer, de::Error};

    use super::{History, Record, exact};

    pub(super) fn serialize<S: Serializer>(history: &History, serializer: S) -> Result<S::Ok, S::Error> {
        let row = |r: &Record| [r.restart as f64, r.iteration as f64, r.seconds, r.loss, r.gradient_norm, r.rate];
        exact::vector::serialize(&history.records.iter().flat_map(row).collect::<Vec<_>>(), serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<History, D::Error> {
        let numbers = exact::vector::deserialize(deserializer)?;
        let (rows, rest) = numbers.as_chunks::<6>();
        if !rest.is_empty() {
            return Err(D::Error::custom("the learning curve is cut off"));
        }
        let record = |&[restart, iteration, seconds, loss, gradient_norm, rate]: &[f64; 6]| Record {
            restart: restart as usize,
            iteration: iteration as usize,
            seconds,
            loss,
            gradient_norm,
            rate,
        };
        Ok(History { records: rows.iter().map(record).collect() })
    }
}
