//! Optimisers, schedules, termination, restarts and checkpoints.

mod common;

use std::cell::Cell;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use cagey::train::{
    Adam, CheckpointPlan, Cooling, EarlyStopping, Evaluation, Group, History, Lbfgs, Log, Objective, Observer,
    Optimizer, Outcome, Progress, Report, Restarts, Schedule, Step, Termination, TrainConfig, Trainer, from_fn,
    minimise, penalised, proximal,
};
use cagey::{Error, Result};
use common::StopAt;
use proptest::prelude::*;

fn rosenbrock(x: &[f64]) -> Evaluation {
    let mut gradient = vec![0.0; x.len()];
    let mut loss = 0.0;
    for i in 0..x.len() - 1 {
        let (a, b) = (x[i + 1] - x[i] * x[i], 1.0 - x[i]);
        loss += 100.0 * a * a + b * b;
        gradient[i] += -400.0 * a * x[i] - 2.0 * b;
        gradient[i + 1] += 200.0 * a;
    }
    Evaluation { loss, gradient }
}

fn quadratic(scales: &[f64], x: &[f64]) -> Evaluation {
    let loss = scales.iter().zip(x).map(|(s, x)| 0.5 * s * (x - 1.0).powi(2)).sum();
    Evaluation { loss, gradient: scales.iter().zip(x).map(|(s, x)| s * (x - 1.0)).collect() }
}

/// `Σ x_i + x_i² / 2 − μ Σ ln x_i`, an error outside the positive orthant; minimum at `x² + x = μ`.
fn barrier(mu: f64, x: &[f64]) -> Result<Evaluation> {
    if x.iter().any(|x| *x <= 0.0) {
        return Err(Error::NotPositiveDefinite {
            matrix: "K".into(),
            size: x.len(),
            dtype: "f64",
            pivot: 0,
            jitter: 0.0,
            finite: true,
        });
    }
    let loss = x.iter().map(|x| x + 0.5 * x * x - mu * x.ln()).sum();
    Ok(Evaluation { loss, gradient: x.iter().map(|x| 1.0 + x - mu / x).collect() })
}

fn lbfgs(gradient_tolerance: f64, steps: usize) -> TrainConfig {
    TrainConfig::new(Optimizer::Lbfgs(Lbfgs { gradient_tolerance, ..Lbfgs::default() }), steps)
}

fn adam(rate: f64, steps: usize) -> TrainConfig {
    TrainConfig::new(Optimizer::Adam(Adam { rate, ..Adam::default() }), steps)
}

fn close_to_one(x: &[f64], tolerance: f64) {
    assert!(x.iter().all(|x| (x - 1.0).abs() < tolerance), "{x:?}");
}

/// Records every reported point and loss.
#[derive(Default)]
struct Points(Vec<(Vec<f64>, f64)>);

impl Observer for Points {
    fn step(&mut self, report: &Report) -> ControlFlow<()> {
        self.0.push((report.x.to_vec(), report.loss));
        ControlFlow::Continue(())
    }
}

#[test]
fn lbfgs_minimises_rosenbrock() {
    for (dim, budget) in [(2, 80), (20, 200)] {
        let x0: Vec<f64> = (0..dim).map(|i| if i % 2 == 0 { -1.2 } else { 1.0 }).collect();
        let outcome = minimise(&mut from_fn(dim, |x, _| Ok(rosenbrock(x))), &x0, &lbfgs(1e-9, 300), &mut []).unwrap();
        println!("rosenbrock {dim}: {} evaluations, {}", outcome.evaluations, outcome.termination);
        assert_eq!(outcome.termination, Termination::GradientTolerance);
        assert!(outcome.evaluations < budget, "{} evaluations", outcome.evaluations);
        // In twenty dimensions there is a second, local minimum near (−1, 1, …, 1).
        let x = if outcome.x[0] < 0.0 { &outcome.x[dim..] } else { &outcome.x[..] };
        close_to_one(x, 1e-8);
    }
}

#[test]
fn lbfgs_minimises_a_badly_scaled_quadratic() {
    let scales: Vec<f64> = (0..12).map(|i| 10f64.powf(-3.0 + 6.0 * i as f64 / 11.0)).collect();
    let mut objective = from_fn(12, |x, _| Ok(quadratic(&scales, x)));
    let outcome = minimise(&mut objective, &[-30.0; 12], &lbfgs(1e-12, 500), &mut []).unwrap();
    println!("quadratic: {} evaluations, {}", outcome.evaluations, outcome.termination);
    close_to_one(&outcome.x, 1e-8);
}

#[test]
fn the_line_search_retreats_from_errors() {
    for mu in [1e-8, 1e-3, 1.0, 100.0] {
        let mut refused = 0;
        let mut objective = from_fn(3, |x, _| barrier(mu, x).inspect_err(|_| refused += 1));
        let outcome = minimise(&mut objective, &[4.0, 0.5, 9.0], &lbfgs(1e-9, 200), &mut []).unwrap();
        let expected = 2.0 * mu / (1.0 + (1.0 + 4.0 * mu).sqrt());
        println!("barrier {mu}: {} evaluations, {refused} refused, {}", outcome.evaluations, outcome.termination);
        assert!(outcome.termination.converged(), "{}", outcome.termination);
        assert!(outcome.x.iter().all(|x| (x / expected - 1.0).abs() < 1e-5), "{mu}: {:?}", outcome.x);
        assert!(refused > 0 || mu > 10.0, "the test is to leave the domain");
    }
}

#[test]
fn the_line_search_retreats_from_nan_and_infinities() {
    for poison in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for in_gradient in [false, true] {
            // Every fourth evaluation is not finite, at any point.
            let mut count = 0;
            let mut objective = from_fn(2, |x, _| {
                count += 1;
                let mut found = rosenbrock(x);
                if count % 4 == 0 {
                    *(if in_gradient { &mut found.gradient[1] } else { &mut found.loss }) = poison;
                }
                Ok(found)
            });
            let outcome = minimise(&mut objective, &[-1.2, 1.0], &lbfgs(1e-8, 500), &mut []).unwrap();
            close_to_one(&outcome.x, 1e-7);
        }
    }
}

#[test]
fn adam_halves_steps_out_of_the_domain() {
    let mut objective = from_fn(2, |x, _| barrier(1e-3, x));
    let outcome = minimise(&mut objective, &[0.4, 0.3], &adam(0.2, 2000), &mut []).unwrap();
    assert!(outcome.x.iter().all(|x| (x - 0.000999).abs() < 1e-4), "{:?}", outcome.x);
}

#[test]
fn adam_is_the_algorithm_of_the_paper() {
    struct Grouped;
    impl Objective for Grouped {
        fn dim(&self) -> usize {
            3
        }
        fn evaluate(&mut self, x: &[f64], _: Step) -> Result<Evaluation> {
            Ok(rosenbrock(x))
        }
        fn groups(&self) -> Vec<Group> {
            vec![Group::new(1..2, 0.1)]
        }
    }
    let mut points = Points::default();
    let schedule = Schedule::Linear { final_fraction: 0.1 };
    let settings = Adam { rate: 0.05, schedule, clip: Some(100.0), ..Adam::default() };
    let config = TrainConfig::new(Optimizer::Adam(settings), 50).loss_scale(2.0);
    let x0 = [-1.0, 0.5, 2.0];
    minimise(&mut Grouped, &x0, &config, &mut [&mut points]).unwrap();

    let (mut x, mut m, mut v) = (x0, [0.0; 3], [0.0; 3]);
    let mut clipped = 0;
    for t in 0..=50 {
        let Evaluation { loss, mut gradient } = rosenbrock(&x);
        assert_eq!(points.0[t].1, loss / 2.0);
        for i in 0..3 {
            assert!((points.0[t].0[i] - x[i]).abs() < 1e-12, "step {t}: {:?} against {x:?}", points.0[t].0);
            gradient[i] /= 2.0;
        }
        let norm = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
        if norm > 100.0 {
            clipped += 1;
            gradient.iter_mut().for_each(|g| *g *= 100.0 / norm);
        }
        let alpha = 0.05 * (1.0 - 0.9 * t as f64 / 50.0);
        for i in 0..3 {
            m[i] = 0.9 * m[i] + (1.0 - 0.9) * gradient[i];
            v[i] = 0.999 * v[i] + (1.0 - 0.999) * gradient[i].powi(2);
            let m_hat = m[i] / (1.0 - 0.9f64.powi(t as i32 + 1));
            let v_hat = v[i] / (1.0 - 0.999f64.powi(t as i32 + 1));
            x[i] -= if i == 1 { 0.1 } else { 1.0 } * alpha * m_hat / (v_hat.sqrt() + 1e-8);
        }
        // The reports are the reference for the next step, so that rounding errors do not add up.
        if let Some((reported, _)) = points.0.get(t + 1) {
            assert!(x.iter().zip(reported).all(|(a, b)| (a - b).abs() < 1e-12));
            x.copy_from_slice(reported);
        }
    }
    assert!(clipped > 0 && clipped < 50, "{clipped} of 51 clipped");
}

#[test]
fn schedules_have_their_values() {
    let at = |schedule: &Schedule, expected: &[f64]| {
        for (k, expected) in [0, 25, 50, 100, 150].into_iter().zip(expected) {
            let factor = schedule.factor(k, 100);
            assert!((factor - expected).abs() < 1e-12, "{schedule:?} at {k}: {factor}");
        }
    };
    at(&Schedule::Constant, &[1.0; 5]);
    at(&Schedule::Linear { final_fraction: 0.2 }, &[1.0, 0.8, 0.6, 0.2, 0.2]);
    at(&Schedule::Exponential { final_fraction: 0.0625 }, &[1.0, 0.5, 0.25, 0.0625, 0.0625]);
    let quarter = 0.2 + 0.8 * 0.5 * (1.0 + 0.5f64.sqrt());
    at(&Schedule::Cosine { final_fraction: 0.2 }, &[1.0, quarter, 0.6, 0.2, 0.2]);
    let then = Box::new(Schedule::Linear { final_fraction: 0.0 });
    let warm = Schedule::WarmUp { steps: 50, then };
    at(&warm, &[0.02, 0.52, 1.0, 0.0, 0.0]);
    assert_eq!((warm.factor(49, 100), warm.factor(75, 100)), (1.0, 0.5));
}

#[test]
fn every_termination_is_reached() {
    let mut bowl = from_fn(2, |x, _| Ok(rosenbrock(x)));
    let x0 = [-1.2, 1.0];
    let mut reason = |config: &TrainConfig| minimise(&mut bowl, &x0, config, &mut []).unwrap().termination;
    assert_eq!(reason(&lbfgs(1e-6, 200)), Termination::GradientTolerance);
    assert_eq!(reason(&lbfgs(1e-6, 3)), Termination::Steps);
    assert_eq!(reason(&lbfgs(1e-6, 0)), Termination::Steps);
    assert_eq!(reason(&lbfgs(1e-6, 200).max_time(Duration::ZERO)), Termination::MaxTime);
    let slow = adam(1e-5, 500).early_stopping(EarlyStopping { patience: 7, improvement: 0.5 });
    assert_eq!(reason(&slow), Termination::EarlyStop { patience: 7 });
    let interrupted = minimise(&mut bowl, &x0, &lbfgs(1e-6, 200), &mut [&mut StopAt(4)]).unwrap();
    assert_eq!((interrupted.termination, interrupted.iterations), (Termination::Interrupted, 4));

    // The offset is so large that rounding hides the decrease.
    let mut offset =
        from_fn(1, |x, _| Ok(Evaluation { loss: 1e6 + 1e-5 * x[0].cosh(), gradient: vec![1e-5 * x[0].sinh()] }));
    let outcome = minimise(&mut offset, &[2.0], &lbfgs(0.0, 200), &mut []).unwrap();
    assert_eq!(outcome.termination, Termination::LossTolerance);

    // The gradient points uphill.
    let mut liar = from_fn(1, |x, _| Ok(Evaluation { loss: x[0] * x[0], gradient: vec![-2.0 * x[0]] }));
    let outcome = minimise(&mut liar, &[2.0], &lbfgs(1e-6, 200), &mut []).unwrap();
    assert_eq!(outcome.termination, Termination::LineSearchFailed);
    assert_eq!(outcome.x, [2.0]);

    for config in [lbfgs(1e-6, 200), adam(0.1, 200)] {
        let mut island =
            from_fn(
                1,
                |x, _| {
                    if x[0] == 2.0 { Ok(quadratic(&[1.0], x)) } else { Err(Error::Data("off the island".into())) }
                },
            );
        let outcome = minimise(&mut island, &[2.0], &config, &mut []).unwrap();
        assert_eq!(outcome.termination, Termination::Failed("off the island".into()));
        assert_eq!(outcome.termination.to_string(), "failed: off the island");
        assert_eq!(outcome.x, [2.0]);
    }
}

#[test]
fn the_result_is_the_best_point_seen() {
    // With a rate that is far too large, Adam jumps about.
    let mut objective = from_fn(2, |x, _| Ok(rosenbrock(x)));
    let mut not_last = 0;
    for steps in 20..30 {
        let mut points = Points::default();
        let outcome = minimise(&mut objective, &[-1.2, 1.0], &adam(1.0, steps), &mut [&mut points]).unwrap();
        let best = points.0.iter().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
        assert_eq!((&outcome.x, outcome.loss), (&best.0, best.1));
        not_last += usize::from(best != points.0.last().unwrap());
    }
    assert!(not_last > 0, "the test is to have a best point before the last");
}

#[test]
fn the_loss_scale_divides_what_is_seen() {
    let mut objective = from_fn(2, |x, _| Ok(rosenbrock(x)));
    let mut history = History::default();
    let config = lbfgs(1e-6, 5).loss_scale(8.0);
    let outcome = minimise(&mut objective, &[-1.2, 1.0], &config, &mut [&mut history]).unwrap();
    assert_eq!(history.records[0].loss, rosenbrock(&[-1.2, 1.0]).loss / 8.0);
    assert!((history.records[0].gradient_norm - 215.6 / 8.0).abs() < 1e-12);
    assert_eq!(outcome.total_loss(), rosenbrock(&outcome.x).loss, "a power of two scales exactly");
    assert_eq!(outcome.history, history);
}

/// A noisy objective: every minibatch has its own quadratic, determined by seed and iteration alone.
struct Minibatches;

impl Objective for Minibatches {
    fn dim(&self) -> usize {
        2
    }
    fn evaluate(&mut self, x: &[f64], step: Step) -> Result<Evaluation> {
        assert_eq!(step.epoch, step.iteration as f64 / 5.0);
        let noise = ((step.iteration as u64 * 7919 + step.seed * 104_729) % 101) as f64 / 50.0 - 1.0;
        let mut found = quadratic(&[1.0, 5.0], x);
        found.loss += noise;
        found.gradient[0] += 0.1 * noise;
        Ok(found)
    }
    fn steps_per_epoch(&self) -> usize {
        5
    }
    fn stochastic(&self) -> bool {
        true
    }
}

#[test]
fn noisy_losses_are_smoothed_before_they_are_compared() {
    let outcome = minimise(&mut Minibatches, &[3.0, -2.0], &adam(0.05, 600), &mut []).unwrap();
    let lowest = outcome.history.records.iter().map(|r| r.loss).fold(f64::INFINITY, f64::min);
    assert!(lowest < -0.9, "single batches look far better than they are");
    assert!(outcome.loss > -0.9);
    close_to_one(&outcome.x, 0.15);
}

#[test]
fn restarts_find_the_better_minimum() {
    // Minima near −1 (lower) and 1.
    let well = |x: &[f64]| Evaluation {
        loss: (x[0] * x[0] - 1.0).powi(2) + 0.3 * x[0],
        gradient: vec![4.0 * x[0] * (x[0] * x[0] - 1.0) + 0.3],
    };
    let mut objective = from_fn(1, |x, _| Ok(well(x)));
    let alone = minimise(&mut objective, &[1.2], &lbfgs(1e-8, 100), &mut []).unwrap();
    assert!(alone.x[0] > 0.0);
    for restarts in [Restarts::new(16, 1.5), Restarts::new(16, 1.5).race(2)] {
        let race = restarts.race.is_some();
        let config = lbfgs(1e-8, 100).restarts(restarts).seed(4);
        let outcome = minimise(&mut objective, &[1.2], &config, &mut []).unwrap();
        assert!((outcome.x[0] + 1.036).abs() < 1e-3, "{:?} {:?}", outcome.x, outcome.restarts);
        assert!(outcome.termination.converged());
        assert_eq!(outcome.restarts.len(), 16);
        let losses: Vec<f64> = outcome.restarts.iter().map(|r| r.loss.unwrap()).collect();
        assert_eq!(losses.iter().copied().fold(f64::INFINITY, f64::min), outcome.loss);
        assert_eq!(losses[outcome.best_restart], outcome.loss);
        let short = outcome.restarts.iter().filter(|r| r.iterations <= 2).count();
        assert_eq!(short == 15, race, "{:?}", outcome.restarts);
        assert_eq!(outcome.restarts.iter().any(|r| r.termination.is_none()), race);
        assert_eq!(
            outcome,
            Outcome {
                seconds: outcome.seconds,
                history: outcome.history.clone(),
                ..{ minimise(&mut objective, &[1.2], &config, &mut []).unwrap() }
            }
        );
    }
}

#[test]
fn a_restart_may_fail_but_not_all() {
    let calls = Cell::new(0);
    let mut objective = from_fn(2, |x, _| {
        calls.set(calls.get() + 1);
        if calls.get() == 1 { Err(Error::Data("first".into())) } else { Ok(rosenbrock(x)) }
    });
    let config = lbfgs(1e-8, 300).restarts(Restarts::new(2, 0.1));
    let outcome = minimise(&mut objective, &[-1.2, 1.0], &config, &mut []).unwrap();
    close_to_one(&outcome.x, 1e-6);
    assert_eq!((outcome.best_restart, outcome.restarts[0].loss), (1, None));
    assert_eq!(outcome.restarts[0].termination, Some(Termination::Failed("first".into())));

    let mut count = 0;
    let mut hopeless = from_fn(2, |_, _| {
        count += 1;
        Err(Error::Data(format!("failure {count}")))
    });
    let error = minimise(&mut hopeless, &[0.0, 0.0], &config, &mut []).unwrap_err();
    assert_eq!(error.to_string(), "failure 1");
}

#[test]
fn spread_of_a_group_limits_the_perturbation() {
    struct Held(Vec<Vec<f64>>);
    impl Objective for Held {
        fn dim(&self) -> usize {
            3
        }
        fn evaluate(&mut self, x: &[f64], step: Step) -> Result<Evaluation> {
            if step.iteration == 0 {
                self.0.push(x.to_vec());
            }
            Ok(quadratic(&[1.0; 3], x))
        }
        fn groups(&self) -> Vec<Group> {
            vec![Group::new(1..3, 0.5).spread(0.0)]
        }
    }
    let mut held = Held(Vec::new());
    let config = lbfgs(1e-6, 10).restarts(Restarts::new(4, 1.0));
    minimise(&mut held, &[5.0, 6.0, 7.0], &config, &mut []).unwrap();
    assert_eq!(held.0[0], [5.0, 6.0, 7.0]);
    assert!(held.0[1..].iter().all(|x| x[0] != 5.0 && x[1..] == [6.0, 7.0]));
}

#[test]
fn restarts_are_normal_perturbations() {
    let mut starts: Vec<Vec<f64>> = Vec::new();
    let mut objective = from_fn(4000, |x, _| {
        starts.push(x.to_vec());
        Ok(Evaluation { loss: 0.0, gradient: vec![0.0; 4000] })
    });
    minimise(&mut objective, &[5.0; 4000], &lbfgs(1e-6, 0).restarts(Restarts::new(3, 1.5)), &mut []).unwrap();
    assert_eq!(starts.len(), 3);
    assert_ne!(starts[1], starts[2]);
    for start in &starts[1..] {
        let mean = start.iter().sum::<f64>() / 4000.0;
        let variance = start.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 4000.0;
        // Five standard errors.
        assert!((mean - 5.0).abs() < 5.0 * 1.5 / 4000f64.sqrt(), "{mean}");
        assert!((variance / 2.25 - 1.0).abs() < 5.0 * (2.0 / 4000f64).sqrt(), "{variance}");
    }
}

/// Everything of an outcome that an interruption must not change.
fn numbers(outcome: &Outcome) -> (Vec<u64>, u64, Termination, Vec<[u64; 5]>, String) {
    let record = |r: &cagey::train::Record| {
        [r.restart as u64, r.iteration as u64, r.loss.to_bits(), r.gradient_norm.to_bits(), r.rate.to_bits()]
    };
    (
        outcome.x.iter().map(|x| x.to_bits()).collect(),
        outcome.loss.to_bits(),
        outcome.termination.clone(),
        outcome.history.records.iter().map(record).collect(),
        format!("{:?}", outcome.restarts),
    )
}

fn resumes_bit_for_bit(objective: &mut dyn Objective, x0: &[f64], config: &TrainConfig) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.ckpt");
    let whole = numbers(&minimise(objective, x0, config, &mut []).unwrap());
    let saved = config.clone().checkpoint(CheckpointPlan::new(&path));
    for stop in [0, 1, 2, 7, 12] {
        let first = minimise(objective, x0, &saved, &mut [&mut StopAt(stop)]).unwrap();
        assert!(first.termination == Termination::Interrupted || numbers(&first) == whole);
        let resumed = minimise(objective, x0, &config.clone().resume(&path), &mut []).unwrap();
        assert_eq!(numbers(&resumed), whole, "stopped at step {stop}");
    }
    // The training stops after every single step.
    let mut last = minimise(objective, x0, &saved, &mut [&mut StopAt(0)]).unwrap();
    while last.termination == Termination::Interrupted {
        last = minimise(objective, x0, &saved.clone().resume(&path), &mut [&mut StopAt(0)]).unwrap();
    }
    assert_eq!(numbers(&last), whole, "stopped at every step");
    // A finished training stays at its end.
    let again = minimise(objective, x0, &saved.clone().resume(&path), &mut []).unwrap();
    assert_eq!(numbers(&again), whole);
}

#[test]
fn resuming_gives_the_same_numbers() {
    let mut exact = from_fn(4, |x, _| Ok(rosenbrock(x)));
    let x0 = [-1.2, 1.0, 0.3, 0.1];
    resumes_bit_for_bit(&mut exact, &x0, &lbfgs(1e-9, 100).loss_scale(3.0));
    resumes_bit_for_bit(&mut exact, &x0, &lbfgs(1e-9, 100).restarts(Restarts::new(3, 0.3).race(15)).seed(5));
    let schedule = Schedule::Cosine { final_fraction: 0.1 };
    let settings = Adam { rate: 0.03, schedule, ..Adam::default() };
    let config = TrainConfig::new(Optimizer::Adam(settings), 40).early_stopping(EarlyStopping::default()).seed(9);
    resumes_bit_for_bit(&mut exact, &x0, &config);
    resumes_bit_for_bit(&mut Minibatches, &[3.0, -2.0], &config.clone().restarts(Restarts::new(2, 0.5)));
    resumes_bit_for_bit(
        &mut Minibatches,
        &[3.0, -2.0],
        &config.early_stopping(EarlyStopping { patience: 3, improvement: 0.1 }),
    );
}

#[test]
fn a_rate_that_cools_stays_while_it_pays_and_then_falls_to_a_tenth() {
    // From 3 down to 1 at a constant rate of .01, which takes 200 steps.
    let mut exact = from_fn(2, |x, _| Ok(quadratic(&[1.0, 1.0], x)));
    let config = adam(0.01, 2000).cooling(Cooling { steps: 40 });
    let outcome = minimise(&mut exact, &[3.0, -1.0], &config, &mut []).unwrap();
    assert_eq!(outcome.termination, Termination::LossTolerance);
    assert!(outcome.ending().starts_with("converged"), "{}", outcome.ending());
    let rates: Vec<f64> = outcome.history.records[1..].iter().map(|record| record.rate).collect();
    let falling = rates.iter().position(|rate| *rate < 0.01).unwrap();
    assert!((200..600).contains(&falling), "{falling}");
    assert!((falling..falling + 3).contains(&(rates.len() - 39)), "{falling} {}", rates.len());
    assert!(rates[falling..].windows(2).all(|pair| pair[1] < pair[0]));
    assert!((rates[rates.len() - 1] - 0.01 * (1.0 - 0.9 * 39.0 / 40.0)).abs() < 1e-12, "{:?}", rates.last());

    // Without enough steps it falls over the last ones.
    let cut = minimise(&mut exact, &[3.0, -1.0], &adam(0.01, 60).cooling(Cooling { steps: 40 }), &mut []).unwrap();
    let rates: Vec<f64> = cut.history.records.iter().map(|record| record.rate).collect();
    assert_eq!((cut.termination.clone(), rates[21], rates[22] < 0.01), (Termination::Steps, 0.01, true));
    assert!(cut.ending().contains("still lowered the objective by"), "{}", cut.ending());

    resumes_bit_for_bit(&mut exact, &[3.0, -1.0], &config);
    resumes_bit_for_bit(&mut Minibatches, &[3.0, -2.0], &adam(0.03, 150).cooling(Cooling { steps: 30 }).seed(4));
}

#[test]
fn the_ending_says_whether_more_steps_pay() {
    let mut bowl = from_fn(2, |x, _| Ok(quadratic(&[1.0, 1.0], x)));
    let mut ending = |config: &TrainConfig| minimise(&mut bowl, &[3.0, -1.0], config, &mut []).unwrap().ending();
    assert!(ending(&adam(0.01, 100)).starts_with("all 100 steps are made, and the last 50 still lowered"));
    assert!(ending(&adam(0.01, 2000)).starts_with("converged: the last 50 steps lowered the objective by "));
    assert!(ending(&adam(0.01, 0)).ends_with("too few to tell whether the training has converged"));
    assert_eq!(ending(&lbfgs(1e-6, 200)), Termination::GradientTolerance.to_string());
    // A rate that has almost vanished lowers the loss by little and proves nothing.
    let schedule = Schedule::Linear { final_fraction: 0.0 };
    let slow = TrainConfig::new(Optimizer::Adam(Adam { rate: 1e-3, schedule, ..Adam::default() }), 200);
    assert!(ending(&slow).contains("still lowered"), "{}", ending(&slow));
}

#[test]
fn time_running_out_within_a_line_search_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.ckpt");
    let x0 = [-1.2, 1.0];
    let mut quick = from_fn(2, |x, _| Ok(rosenbrock(x)));
    let whole = minimise(&mut quick, &x0, &lbfgs(1e-9, 100), &mut []).unwrap();
    let mut slow = from_fn(2, |x, _| {
        std::thread::sleep(Duration::from_millis(2));
        Ok(rosenbrock(x))
    });
    let saved = lbfgs(1e-9, 100).checkpoint(CheckpointPlan::every_steps(&path, 3)).max_time(Duration::from_millis(25));
    let mut last = minimise(&mut slow, &x0, &saved, &mut []).unwrap();
    assert_eq!(last.termination, Termination::MaxTime);
    assert!(last.iterations < whole.iterations);
    last = minimise(&mut quick, &x0, &lbfgs(1e-9, 100).resume(&path), &mut []).unwrap();
    assert_eq!((&last.x, last.loss, last.termination), (&whole.x, whole.loss, whole.termination));
}

/// ½Σ s (x − 1)² + ½‖x − c‖², with c = x at the last choice: minimal at 1 once c has followed.
struct Following {
    every: usize,
    c: Vec<f64>,
    chosen: usize,
}

impl Following {
    fn new(every: usize) -> Self {
        Self { every, c: Vec::new(), chosen: 0 }
    }
}

impl Objective for Following {
    fn dim(&self) -> usize {
        2
    }

    fn evaluate(&mut self, x: &[f64], _: Step) -> Result<Evaluation> {
        let Evaluation { mut loss, mut gradient } = quadratic(&[1.0, 5.0], x);
        for ((gradient, x), c) in gradient.iter_mut().zip(x).zip(&self.c) {
            loss += 0.5 * (x - c).powi(2);
            *gradient += x - c;
        }
        Ok(Evaluation { loss, gradient })
    }

    fn refresh(&self) -> Option<usize> {
        Some(self.every)
    }

    fn choose(&mut self, x: &[f64]) -> Result<()> {
        if x.iter().any(|x| x.abs() > 100.0) {
            return Err(Error::NotFinite("a choice".into()));
        }
        self.chosen += usize::from(self.c != x);
        self.c = x.to_vec();
        Ok(())
    }
}

#[test]
fn what_an_objective_chooses_is_held_and_chosen_again() {
    let x0 = [3.0, -2.0];
    for every in [1, 3, 1000] {
        // The end of L-BFGS for the held choice is not yet the end of the training.
        let mut objective = Following::new(every);
        let outcome = minimise(&mut objective, &x0, &lbfgs(1e-9, 500), &mut []).unwrap();
        assert_eq!(outcome.termination, Termination::GradientTolerance, "every {every}");
        close_to_one(&outcome.x, 1e-8);
        let mut objective = Following::new(every);
        let outcome = minimise(&mut objective, &x0, &adam(0.1, 30), &mut []).unwrap();
        let choices = 30usize.div_ceil(every);
        assert_eq!((objective.chosen, outcome.evaluations), (choices, 30 + choices), "every {every}");
    }
    for config in [lbfgs(1e-9, 60), adam(0.1, 60)] {
        resumes_bit_for_bit(&mut Following::new(4), &x0, &config);
        resumes_bit_for_bit(&mut Following::new(4), &x0, &config.restarts(Restarts::new(3, 0.3).race(6)).seed(5));
    }
    let failed = minimise(&mut Following::new(1), &[200.0, 0.0], &adam(0.1, 30), &mut []);
    assert!(failed.unwrap_err().to_string().contains("a choice"));
}

#[test]
fn a_choice_that_fails_leaves_the_best_point_of_those_before() {
    struct Refusing(Following, Vec<Vec<f64>>);
    impl Objective for Refusing {
        fn dim(&self) -> usize {
            2
        }
        fn evaluate(&mut self, x: &[f64], step: Step) -> Result<Evaluation> {
            self.0.evaluate(x, step)
        }
        fn refresh(&self) -> Option<usize> {
            Some(1)
        }
        fn choose(&mut self, x: &[f64]) -> Result<()> {
            if self.1.len() == 4 && !self.1.contains(&x.to_vec()) {
                return Err(Error::NotFinite("a choice".into()));
            }
            self.1.push(x.to_vec());
            self.1.dedup();
            self.0.choose(x)
        }
    }
    let mut objective = Refusing(Following::new(1), Vec::new());
    let outcome = minimise(&mut objective, &[3.0, -2.0], &adam(0.1, 30), &mut []).unwrap();
    assert!(matches!(outcome.termination, Termination::Failed(_)), "{}", outcome.termination);
    assert_eq!(objective.1.len(), 4);
    assert_eq!(outcome.x, objective.1[3], "the lowest of them, not one that nothing was chosen for");
}

/// ½‖x − c‖², with c next to x at the last choice, on alternating sides: no choice lowers the loss.
struct Fleeing {
    chosen: Vec<f64>,
    c: Vec<f64>,
    side: f64,
}

impl Objective for Fleeing {
    fn dim(&self) -> usize {
        2
    }

    fn evaluate(&mut self, x: &[f64], _: Step) -> Result<Evaluation> {
        let gradient: Vec<f64> = x.iter().zip(&self.c).map(|(x, c)| x - c).collect();
        Ok(Evaluation { loss: 0.5 * gradient.iter().map(|g| g * g).sum::<f64>(), gradient })
    }

    fn refresh(&self) -> Option<usize> {
        Some(1)
    }

    fn choose(&mut self, x: &[f64]) -> Result<()> {
        if self.chosen != x {
            self.side = -self.side;
            self.chosen = x.to_vec();
            self.c = x.iter().map(|x| x + self.side).collect();
        }
        Ok(())
    }
}

#[test]
fn choices_that_lower_nothing_end_a_training() {
    let mut objective = Fleeing { chosen: Vec::new(), c: Vec::new(), side: 1.0 };
    let outcome = minimise(&mut objective, &[0.0, 0.0], &lbfgs(1e-9, 500), &mut []).unwrap();
    assert_eq!(outcome.termination, Termination::LossTolerance);
    assert!(outcome.iterations < 20, "{}", outcome.iterations);
}

/// A bowl that rises at every evaluation; the rise is its state.
struct Rising(f64);

impl Objective for Rising {
    fn dim(&self) -> usize {
        2
    }

    fn evaluate(&mut self, x: &[f64], _: Step) -> Result<Evaluation> {
        self.0 += 1.0;
        let Evaluation { loss, gradient } = quadratic(&[1.0, 5.0], x);
        Ok(Evaluation { loss: loss + self.0, gradient })
    }

    fn groups(&self) -> Vec<Group> {
        vec![Group::new(0..2, 1.0).spread(0.0)]
    }

    fn state(&self) -> Vec<f64> {
        vec![self.0]
    }

    fn restore(&mut self, state: &[f64]) -> Result<()> {
        self.0 = state[0];
        Ok(())
    }
}

#[test]
fn every_restart_has_its_own_state_of_the_objective() {
    let x0 = [3.0, -2.0];
    for restarts in [Restarts::new(3, 1.0), Restarts::new(3, 1.0).race(4)] {
        let mut objective = Rising(0.0);
        let config = adam(0.1, 9).restarts(restarts);
        let outcome = minimise(&mut objective, &x0, &config, &mut []).unwrap();
        let steps = outcome.restarts.iter().map(|run| run.iterations).max().unwrap();
        // All runs begin alike, so the first is the best, and ends as if it were alone.
        assert_eq!((outcome.best_restart, steps, objective.0), (0, 9, 10.0));
        assert!(outcome.restarts.iter().all(|run| run.loss == outcome.restarts[0].loss || run.iterations == 4));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        for stop in [2, 7] {
            let part = config.clone().checkpoint(CheckpointPlan::new(&path));
            minimise(&mut Rising(0.0), &x0, &part, &mut [&mut StopAt(stop)]).unwrap();
            let resumed = minimise(&mut Rising(0.0), &x0, &config.clone().resume(&path), &mut []).unwrap();
            assert_eq!(numbers(&resumed), numbers(&outcome));
        }
    }
}

#[test]
fn minibatches_are_not_searched_along_lines() {
    struct Noisy;
    impl Objective for Noisy {
        fn dim(&self) -> usize {
            2
        }
        fn evaluate(&mut self, x: &[f64], _: Step) -> Result<Evaluation> {
            Ok(quadratic(&[1.0, 5.0], x))
        }
        fn stochastic(&self) -> bool {
            true
        }
    }
    let error = minimise(&mut Noisy, &[0.0, 0.0], &lbfgs(1e-9, 5), &mut []).unwrap_err();
    assert!(matches!(&error, Error::Usage(problem) if problem.contains("Adam")), "{error}");
    minimise(&mut Noisy, &[0.0, 0.0], &adam(0.1, 5), &mut []).unwrap();
}

#[test]
fn a_state_that_cannot_be_saved_any_more_does_not_end_a_training() {
    struct Removing(std::path::PathBuf);
    impl Observer for Removing {
        fn step(&mut self, report: &Report) -> ControlFlow<()> {
            if report.iteration == 2 {
                std::fs::remove_dir_all(&self.0).unwrap();
            }
            ControlFlow::Continue(())
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("states");
    std::fs::create_dir(&inner).unwrap();
    let config = adam(0.1, 6).checkpoint(CheckpointPlan::every_steps(inner.join("state"), 1));
    let mut objective = from_fn(2, |x, _| Ok(rosenbrock(x)));
    let outcome = minimise(&mut objective, &[-1.2, 1.0], &config, &mut [&mut Removing(inner)]).unwrap();
    assert_eq!((outcome.iterations, outcome.termination), (6, Termination::Steps));
    assert!(outcome.unsaved.unwrap().contains("states"));
}

#[test]
fn more_steps_continue_a_finished_training() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.ckpt");
    let mut objective = from_fn(2, |x, _| Ok(rosenbrock(x)));
    let whole = minimise(&mut objective, &[-1.2, 1.0], &adam(0.01, 60), &mut []).unwrap();
    let short = adam(0.01, 25).checkpoint(CheckpointPlan::every_steps(&path, 10));
    minimise(&mut objective, &[-1.2, 1.0], &short, &mut []).unwrap();
    let longer = minimise(&mut objective, &[-1.2, 1.0], &adam(0.01, 60).resume(&path), &mut []).unwrap();
    assert_eq!(numbers(&longer), numbers(&whole));
}

#[test]
fn a_trainer_goes_on_with_what_it_remembers() {
    let mut objective = from_fn(4, |x, _| Ok(rosenbrock(x)));
    let x0 = [-1.2, 1.0, 0.3, 0.1];
    let schedule = Schedule::Cosine { final_fraction: 0.1 };
    let settings = Adam { rate: 0.03, schedule, ..Adam::default() };
    let restarts = Restarts::new(3, 0.3).race(15);
    for config in [
        lbfgs(1e-9, 60).loss_scale(3.0),
        TrainConfig::new(Optimizer::Adam(settings), 40).seed(9),
        lbfgs(1e-9, 40).restarts(restarts).seed(5),
    ] {
        let whole = minimise(&mut objective, &x0, &config, &mut []).unwrap();
        for each in [1, 7, 25] {
            let mut trainer = Trainer::new(&objective, &x0, config.clone()).unwrap();
            let mut last = None;
            while trainer.steps() < config.steps {
                let before = trainer.steps();
                last = Some(trainer.go_on(&mut objective, each.min(config.steps - before), &mut []).unwrap());
                if trainer.steps() == before {
                    break;
                }
            }
            // A race ends when all runs have made its steps: only a single run is the same if it is done in parts.
            let last = last.unwrap();
            if config.restarts.count == 1 {
                assert_eq!(numbers(&last), numbers(&whole), "{each} at a time");
            } else {
                assert!(last.loss < 2.0 * rosenbrock(&x0).loss && last.restarts.len() == 3);
            }
        }
    }
    // An interruption by an observer is not an end either.
    let mut trainer = Trainer::new(&objective, &x0, lbfgs(1e-9, 60)).unwrap();
    let stopped = trainer.go_on(&mut objective, 60, &mut [&mut StopAt(3)]).unwrap();
    assert_eq!((stopped.termination, trainer.steps()), (Termination::Interrupted, 3));
    assert_eq!(trainer.point().len(), 4);
    let whole = minimise(&mut objective, &x0, &lbfgs(1e-9, 60), &mut []).unwrap();
    assert_eq!(numbers(&trainer.go_on(&mut objective, 57, &mut []).unwrap()), numbers(&whole));
}

#[test]
fn penalties_are_added() {
    let scales = [1.0, 10.0];
    let objective = from_fn(2, |x, _| Ok(quadratic(&scales, x)));
    // The minimum of ½ s (x − 1)² + ½ w (x − c)² is at (s + w c)/(s + w).
    let mut near = proximal(objective, vec![3.0, -2.0], 5.0);
    let outcome = minimise(&mut near, &[0.0; 2], &lbfgs(1e-10, 50), &mut []).unwrap();
    for (x, want) in outcome.x.iter().zip([(1.0 + 15.0) / 6.0, (10.0 - 10.0) / 15.0]) {
        assert!((x - want).abs() < 1e-7, "{x} {want}");
    }
    // Everything else comes from the objective itself.
    let mut same = penalised(Minibatches, |x| Ok(Evaluation { loss: 0.0, gradient: vec![0.0; x.len()] }));
    assert!(same.stochastic() && same.steps_per_epoch() == Minibatches.steps_per_epoch());
    let config = adam(0.05, 30).seed(3);
    let want = minimise(&mut Minibatches, &[3.0, -2.0], &config, &mut []).unwrap();
    assert_eq!(numbers(&minimise(&mut same, &[3.0, -2.0], &config, &mut []).unwrap()), numbers(&want));
    let mut short = penalised(Minibatches, |_| Ok(Evaluation { loss: 0.0, gradient: vec![] }));
    assert!(minimise(&mut short, &[3.0, -2.0], &config, &mut []).is_err(), "a gradient of another length");
}

#[test]
fn a_checkpoint_that_does_not_fit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.ckpt");
    let mut objective = from_fn(2, |x, _| Ok(rosenbrock(x)));
    let x0 = [-1.2, 1.0];
    let config = lbfgs(1e-9, 10).fingerprint("sgpr on boats");
    minimise(&mut objective, &x0, &config.clone().checkpoint(CheckpointPlan::new(&path)), &mut []).unwrap();
    let mut refusal = |config: TrainConfig, path: &Path| {
        let error = minimise(&mut objective, &x0, &config.resume(path), &mut []).unwrap_err().to_string();
        assert!(error.contains(&path.display().to_string()), "{error}");
        error
    };
    let error = refusal(config.clone().fingerprint("sgpr on cars"), &path);
    assert!(error.contains("sgpr on boats") && error.contains("sgpr on cars"), "{error}");
    assert!(refusal(config.clone().seed(1), &path).contains("other settings"));
    let other = TrainConfig { optimizer: adam(0.1, 1).optimizer, ..config.clone() };
    assert!(refusal(other, &path).contains("other settings"));
    refusal(config.clone(), &folder.path().join("missing"));

    let bytes = std::fs::read(&path).unwrap();
    let damaged = |bytes: &[u8]| {
        let path = folder.path().join("damaged");
        std::fs::write(&path, bytes).unwrap();
        path
    };
    for cut in [0, bytes.len() / 2, bytes.len() - 20] {
        assert!(refusal(config.clone(), &damaged(&bytes[..cut])).contains("damaged"));
    }
    let replaced = |from: &str, to: &str| {
        let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
        [&bytes[..at], to.as_bytes(), &bytes[at + from.len()..]].concat()
    };
    assert!(refusal(config.clone(), &damaged(&replaced("sgpr on boats", "sgpr on goats"))).contains("damaged"));
    assert!(
        refusal(config.clone(), &damaged(&replaced("\"version\":\"3\"", "\"version\":\"4\""))).contains("format 4")
    );
    for other in ["{}", "no JSON", "{\"format\":\"x\",\"version\":1,\"sha256\":\"\"}\n{}"] {
        assert!(refusal(config.clone(), &damaged(other.as_bytes())).contains("not a checkpoint"));
    }
    // Files of older versions, and a model.
    let older = "{\"format\":\"cagey-checkpoint\",\"version\":2,\"sha256\":\"\"}\n{}";
    assert!(refusal(config.clone(), &damaged(older.as_bytes())).contains("older versions"));
    let model = cagey::model_file::ModelFile::default().to_bytes().unwrap();
    assert!(refusal(config.clone(), &damaged(&model)).contains("not a checkpoint"));
    let mut wider = from_fn(3, |x, _| Ok(rosenbrock(x)));
    let error = minimise(&mut wider, &[0.0; 3], &config.resume(&path), &mut []).unwrap_err().to_string();
    assert!(error.contains("other parameters"), "{error}");
}

#[test]
fn a_checkpoint_that_cannot_be_written_is_noticed_before_the_training() {
    let folder = tempfile::tempdir().unwrap();
    let mut objective = from_fn(2, |_, _| -> Result<Evaluation> { unreachable!("no evaluation") });
    let config = lbfgs(1e-9, 10).checkpoint(CheckpointPlan::new(folder.path().join("no/such/folder")));
    assert!(matches!(minimise(&mut objective, &[0.0; 2], &config, &mut []), Err(Error::Io { .. })));
    // Only the checkpoint is left behind.
    let path = folder.path().join("run.ckpt");
    let mut objective = from_fn(2, |x, _| Ok(rosenbrock(x)));
    minimise(&mut objective, &[0.0; 2], &lbfgs(1e-9, 10).checkpoint(CheckpointPlan::every_steps(&path, 1)), &mut [])
        .unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn observers_are_told() {
    let mut objective = from_fn(2, |x, _| Ok(rosenbrock(x)));
    let mut lines = Vec::new();
    let mut log = Log::new(10, &mut lines);
    let mut progress = Progress::new();
    let mut observers: [&mut dyn Observer; 2] = [&mut log, &mut progress];
    let config = adam(0.01, 20).restarts(Restarts::new(2, 0.1));
    minimise(&mut objective, &[-1.2, 1.0], &config, &mut observers).unwrap();
    let lines = String::from_utf8(lines).unwrap();
    assert_eq!(lines.lines().count(), 1 + 2 * 3 + 1, "{lines}");
    assert!(lines.starts_with("Adam: 2 parameters, 20 steps, initial points: 2\n"), "{lines}");
    assert!(lines.contains("restart 1  step     10  loss "), "{lines}");
    assert!(lines.ends_with("more steps will lower it further\n"), "{lines}");
}

#[test]
fn progress_is_silent_without_a_terminal() {
    // The test runs again with standard error in a pipe, whatever it is now.
    if std::env::var_os("CAGEY_TEST_PIPED").is_some() {
        let mut progress = Progress::new();
        assert!(progress.is_silent());
        let mut objective = from_fn(2, |x, _| Ok(rosenbrock(x)));
        minimise(&mut objective, &[-1.2, 1.0], &lbfgs(1e-9, 50), &mut [&mut progress]).unwrap();
        return;
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "progress_is_silent_without_a_terminal", "--nocapture"])
        .env("CAGEY_TEST_PIPED", "1")
        .output()
        .unwrap();
    assert!(output.status.success());
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn invalid_settings_are_named() {
    let mut objective = from_fn(2, |x, _| Ok(rosenbrock(x)));
    let base = TrainConfig::default();
    let with = |settings: Adam| TrainConfig::new(Optimizer::Adam(settings), 1);
    let cases = [
        (base.clone().loss_scale(0.0), "loss scale 0"),
        (base.clone().restarts(Restarts::new(0, 1.0)), "initial points"),
        (base.clone().restarts(Restarts::new(1, -1.0)), "standard deviation -1"),
        (base.clone().early_stopping(EarlyStopping { patience: 0, improvement: 0.1 }), "patience"),
        (lbfgs(-1.0, 1), "gradient tolerance -1"),
        (TrainConfig::new(Optimizer::Lbfgs(Lbfgs { memory: 0, ..Lbfgs::default() }), 1), "memory"),
        (adam(f64::NAN, 1), "learning rate NaN"),
        (with(Adam { beta1: 1.0, ..Adam::default() }), "beta1"),
        (with(Adam { beta2: -0.1, ..Adam::default() }), "beta2"),
        (with(Adam { clip: Some(0.0), ..Adam::default() }), "clip"),
        (with(Adam { schedule: Schedule::Exponential { final_fraction: 0.0 }, ..Adam::default() }), "fraction 0"),
    ];
    for (config, expected) in cases {
        let error = minimise(&mut objective, &[0.0; 2], &config, &mut []).unwrap_err();
        assert!(matches!(&error, Error::Usage(text) if text.contains(expected)), "{expected}: {error}");
    }
    assert!(matches!(minimise(&mut objective, &[0.0; 3], &base, &mut []), Err(Error::Shape { .. })));
    assert!(matches!(minimise(&mut objective, &[0.0, f64::NAN], &base, &mut []), Err(Error::NotFinite(_))));
    let mut short = from_fn(2, |_, _| Ok(Evaluation { loss: 0.0, gradient: vec![0.0] }));
    assert!(matches!(minimise(&mut short, &[0.0; 2], &base, &mut []), Err(Error::Shape { .. })));
}

#[test]
fn settings_round_trip_through_json() {
    let config = adam(0.1, 7).max_time(Duration::from_secs(3)).restarts(Restarts::new(2, 0.5).race(3));
    let text = serde_json::to_string(&config).unwrap();
    assert_eq!(serde_json::from_str::<TrainConfig>(&text).unwrap(), config);
    assert_eq!(serde_json::from_str::<TrainConfig>("{}").unwrap(), TrainConfig::default());
}

proptest! {
    #[test]
    fn lbfgs_minimises_any_convex_quadratic(
        scales in prop::collection::vec(-2.0..3.0f64, 1..8),
        start in prop::collection::vec(-50.0..50.0f64, 8),
        wall in 1.5..20.0f64,
    ) {
        // Evaluations fail beyond `wall` times the start's largest coordinate, on either side.
        let scales: Vec<f64> = scales.into_iter().map(|s| 10f64.powf(s)).collect();
        let x0 = &start[..scales.len()];
        let radius = x0.iter().fold(1.0f64, |most, x| most.max(x.abs())) * wall;
        let mut objective = from_fn(scales.len(), |x, _| {
            if x.iter().any(|x| x.abs() > radius) { Err(Error::Data("wall".into())) } else { Ok(quadratic(&scales, x)) }
        });
        let outcome = minimise(&mut objective, x0, &lbfgs(1e-8, 500), &mut []).unwrap();
        prop_assert_eq!(outcome.termination, Termination::GradientTolerance);
        for (x, scale) in outcome.x.iter().zip(&scales) {
            prop_assert!((x - 1.0).abs() <= 1.01e-8 / scale);
        }
    }
}
