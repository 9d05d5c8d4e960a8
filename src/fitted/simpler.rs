//! A start from the trained model of a simpler likelihood: one number for the noise before a function for it.

use std::time::Duration;

use crate::error::Result;
use crate::models::gp_model::{GpModel, Training, UserUnits};
use crate::models::options::{Parts, Site};
use crate::models::race::{Race, Start, Track, race};
use crate::models::registry::usual_options;
use crate::train::{Observer, Steps, TrainConfig};

/// The share of the time for a training that this may take.
const SHARE: f64 = 0.25;

/// Trains the usual model with the simpler likelihood, if there is one, and takes its kernel, mean and noise over into
/// the model of all latent functions.
///
/// # Errors
/// What training reports.
pub fn begin(
    model: &mut dyn GpModel,
    units: &UserUnits,
    training: &Training,
    observers: &mut [&mut dyn Observer],
) -> Result<Option<Race>> {
    let Some(likelihood) = model.likelihood().simpler() else { return Ok(None) };
    let Training { data, config, compute, .. } = *training;
    let sample = crate::models::race::sample(data, config.seed)?;
    let shown = sample.as_ref().unwrap_or(data);
    let parts = Parts { likelihood, prior: model.prior().clone() };
    let mut simple = usual_options().build(parts, &Site { data: shown, names: &[], seed: config.seed, saved: None })?;
    simple.start(shown, units);
    let max_time = config.max_time.map(|time: Duration| time.mul_f64(SHARE));
    let config = TrainConfig { max_time, seed: config.seed, ..TrainConfig::while_it_pays() };
    let training = Training { compute, data: shown, rows: shown, batches: None, config: &config };
    let before = race(&mut simple, &Track { training, sampled: true }, observers)?.unwrap_or_default();
    // Where it cannot be trained, the model starts where it would have.
    let Ok(outcome) = simple.train(training, &mut [&mut Steps(observers)]) else { return Ok(None) };
    let mut places = model.parameters_mut();
    for (path, parameter) in simple.parameters() {
        let own = |(other, _): &&mut (String, &mut crate::params::Parameter)| {
            *other == path || other.strip_prefix("latent1.") == Some(path.as_str())
        };
        if let Some((_, place)) = places.iter_mut().find(own)
            && !place.fixed
            && !place.given
            && place.len() == parameter.len()
        {
            place.set_internal(&parameter.internal());
        }
    }
    Ok(Some(Race {
        starts: vec![Start { name: "trained model with one noise".into(), loss: Some(outcome.loss) }],
        rows: shown.n(),
        steps: before.steps + outcome.iterations,
        evaluations: before.evaluations + outcome.evaluations,
        seconds: before.seconds + outcome.seconds,
    }))
}
