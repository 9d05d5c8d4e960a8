//! Training on minibatches. Seed and step determine the batches; losses and gradients are unbiased estimates of the
//! whole.

use std::time::{Duration, Instant};

pub use super::any_batches::{Batched, fit_any};
pub use super::batch_loss::BatchLoss;
use super::batch_loss::Source;
use super::batches::some_rows;
pub use super::batches::{Minibatches, NaturalSums, Rows, SumOverRows};
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::models::gp_model::Training;
use crate::train::{self, Objective, Observer, Optimizer, Outcome, Steps, Termination, TrainConfig};

/// Trains a model on minibatches of all rows.
///
/// # Errors
/// As [`fit`].
pub fn train<M: SumOverRows>(
    model: &mut M,
    training: Training,
    observers: &mut [&mut dyn Observer],
) -> Result<Outcome> {
    let usual = Minibatches::default();
    let Training { compute, rows, batches, config, spread, .. } = training;
    fit_over(model, Source { compute, data: rows, batches: batches.unwrap_or(&usual), spread }, config, observers)
}

/// Trains a model on minibatches and leaves it at the best point found. Losses are per datum, smoothed over an epoch.
///
/// Every epoch uses each row once, in an order of its own that the seed determines. With natural gradients, q ends with
/// steps at the best point: decreasing ones over an epoch, or over 100 batches of a longer one, or ten steps of a half
/// if a batch holds all rows. On minibatches their rate falls as the learning rate does. L-BFGS, for which a batch has
/// to hold all rows, moves q with all else, without them.
///
/// # Errors
/// As [`fit`](super::fit::fit); [`Error::Usage`] for a batch size of 0, and for natural gradients with L-BFGS on
/// parts of the rows or with a fixed q; [`Error::Data`] for a target that the likelihood does not accept.
pub fn fit<M: SumOverRows>(
    model: &mut M,
    compute: Compute,
    data: &dyn Rows,
    batches: &Minibatches,
    config: &TrainConfig,
    observers: &mut [&mut dyn Observer],
) -> Result<Outcome> {
    fit_over(model, Source { compute, data, batches, spread: None }, config, observers)
}

fn fit_over<M: SumOverRows>(
    model: &mut M,
    source: Source,
    config: &TrainConfig,
    observers: &mut [&mut dyn Observer],
) -> Result<Outcome> {
    let Source { data, batches, .. } = source;
    some_rows(data, batches.size)?;
    let natural = match (&config.optimizer, batches.natural) {
        (Optimizer::Lbfgs(_), Some(_)) if batches.size < data.count() => {
            let problem = "natural gradients move q between losses that L-BFGS compares: train by Adam";
            return Err(Error::Usage(problem.into()));
        }
        (Optimizer::Lbfgs(_), _) => None,
        (_, natural) => natural,
    };
    let source = Source { batches: &Minibatches { natural, ..batches.clone() }, ..source };
    let moves = |path: &str| natural.is_some() && model.is_variational(path);
    let before: Vec<(Vec<f64>, bool, bool)> =
        model.parameters().iter().map(|(path, p)| (p.raw().to_vec(), p.fixed, moves(path))).collect();
    if before.iter().any(|(_, fixed, moves)| *fixed && *moves) {
        return Err(Error::Usage(
            "natural gradients move all of q: train without them, or do not fix a part of it".into(),
        ));
    }
    for ((_, parameter), (_, _, moves)) in model.parameters_mut().into_iter().zip(&before) {
        parameter.fixed |= *moves;
    }
    let start = model.free_raw();
    let began = Instant::now();
    let scaled = config.clone().loss_scale(data.count() as f64);
    let config = TrainConfig { max_time: scaled.max_time.map(|time| time.mul_f64(1.0 - 2.0 * CLOSE)), ..scaled };
    let mut loss = BatchLoss::of(model, source);
    let outcome = train::minimise(&mut loss, &start, &config, observers);
    let ends = |outcome: &Outcome, share: f64| match outcome.termination {
        Termination::Interrupted => Some(Instant::now() + HURRIED),
        _ => scaled.max_time.and_then(|time| began.checked_add(time.mul_f64(share))),
    };
    let outcome = outcome.and_then(|outcome| {
        let over = natural.map(|rate| averaged(rate, &outcome));
        loss.close(&outcome.x, over, config.seed, ends(&outcome, 1.0 - CLOSE)).map(|()| outcome)
    });
    let whole = !loss.stochastic();
    for ((_, parameter), (raw, fixed, _)) in model.parameters_mut().into_iter().zip(&before) {
        parameter.fixed = *fixed;
        if outcome.is_err() {
            parameter.put_raw(raw);
        }
    }
    let mut outcome = outcome?;
    let cut_short = matches!(outcome.termination, Termination::Interrupted | Termination::MaxTime);
    if natural.is_some() && whole && !cut_short {
        polish(model, source, &config, &mut outcome, observers)?;
        let x = model.free_raw();
        BatchLoss::of(model, source).close(&x, Some(1.0), config.seed, None)?;
    }
    // Losses during training belong to earlier parameters and to parts of the rows.
    if let Ok(bound) = BatchLoss::of(model, source).bound(config.seed, ends(&outcome, 1.0)) {
        outcome.loss = bound / config.loss_scale;
        outcome.restarts[outcome.best_restart].loss = Some(outcome.loss);
    }
    Ok(outcome)
}

/// The number of batches that q is an average over after natural-gradient steps that began with this rate: 1/γ for a
/// last step of rate γ, but fewer after few steps, when q is still on its way.
fn averaged(rate: f64, outcome: &Outcome) -> f64 {
    let records = outcome.history.records.iter().filter(|record| record.restart == outcome.best_restart);
    let start = (0, 0.0, 0.0);
    let (steps, largest, last) =
        records.fold(start, |(_, largest, _), record| (record.iteration, record.rate.max(largest), record.rate));
    let share: f64 = if largest > 0.0 { last / largest } else { 1.0 };
    (rate * share).recip().min(rate * steps as f64)
}

/// Steps of L-BFGS on all rows after those of Adam.
const POLISH: usize = 50;

/// Moves hyperparameters and q together, for batches of all rows, whose losses can be compared.
fn polish<M: SumOverRows>(
    model: &mut M,
    source: Source,
    config: &TrainConfig,
    outcome: &mut Outcome,
    observers: &mut [&mut dyn Observer],
) -> Result<()> {
    let start = model.free_raw();
    let batches = Minibatches { natural: None, ..source.batches.clone() };
    let spent = Duration::from_secs_f64(outcome.seconds);
    let config = TrainConfig {
        max_time: config.max_time.map(|time| time.saturating_sub(spent)),
        loss_scale: config.loss_scale,
        seed: config.seed,
        ..match &config.cooling {
            // A training of no given number of steps.
            Some(cooling) if cooling.steps < config.steps => TrainConfig::while_it_pays(),
            _ => TrainConfig::new(Optimizer::default(), POLISH),
        }
    };
    let mut loss = BatchLoss::of(model, Source { batches: &batches, ..source });
    match train::minimise(&mut loss, &start, &config, &mut [&mut Steps(observers)]) {
        Ok(polished) => {
            outcome.iterations += polished.iterations;
            outcome.restarts[outcome.best_restart].iterations += polished.iterations;
            (outcome.termination, outcome.fall) = (polished.termination, polished.fall);
            outcome.evaluations += polished.evaluations;
            outcome.seconds += polished.seconds;
            model.set_free_raw(&polished.x)
        }
        // Keeps what Adam found.
        Err(_) => model.set_free_raw(&start),
    }
}

/// The shares of a time limit that are kept for these steps of q, and for the objective of the result.
const CLOSE: f64 = 0.05;

/// How long each of them takes at most after an interrupt, when the user waits for the model.
const HURRIED: Duration = Duration::from_secs(1);
