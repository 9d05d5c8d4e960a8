//! Bayesian optimisation: chooses where to evaluate an expensive function next, to find its least value.
//!
//! The posterior's mean and variance are tensors, so the expected improvement has gradients in the inputs; L-BFGS
//! maximises it from several starts. Every new value joins the posterior without another training; after every few
//! values the model is trained again.
//!
//! ```sh
//! cargo run --release --example bayesian_optimisation
//! ```

use std::f64::consts::{PI, SQRT_2, TAU};

use cagey::Result;
use cagey::burn::tensor::{Tensor, activation};
use cagey::data::Dataset;
use cagey::fitted::{Fit, Fitted};
use cagey::scope::{scalar, to_f64};
use cagey::train::{self, Evaluation, Objective, Optimizer, Step, TrainConfig};

/// The box of the search.
const LOW: [f64; 2] = [-5.0, 0.0];
const HIGH: [f64; 2] = [10.0, 15.0];
/// Number of values at the beginning, and of those after it.
const FIRST: usize = 8;
const MORE: usize = 22;
/// Number of values between two trainings.
const TRAIN: usize = 6;
/// Number of places from which each search begins.
const STARTS: usize = 6;

/// Branin's function, whose least value is 0.397887, at three places.
fn branin([a, b]: [f64; 2]) -> f64 {
    (b - 5.1 / (4.0 * PI * PI) * a * a + 5.0 / PI * a - 6.0).powi(2) + 10.0 * (1.0 - 1.0 / (8.0 * PI)) * a.cos() + 10.0
}

/// Places that fill the box evenly.
fn place(i: usize) -> [f64; 2] {
    let share = [(0.5 + i as f64 * 0.754_877_666_246_693).fract(), (0.5 + i as f64 * 0.569_840_290_998_053).fract()];
    std::array::from_fn(|c| LOW[c] + (HIGH[c] - LOW[c]) * share[c])
}

fn table(places: &[[f64; 2]]) -> Result<Dataset> {
    let y = places.iter().map(|x| branin(*x)).collect();
    Dataset::new(["a", "b"], places.concat())?.with_target("y", y)
}

fn fit(data: &Dataset) -> Result<Fitted> {
    let config = TrainConfig::new(Optimizer::default(), 50);
    Fit::new(data).kernel("matern52(ard)").bounds("noise", 1e-4, 1.0).config(config).run()
}

/// The negative logarithm of the expected improvement over the best value, as a function of an unconstrained place: its
/// logistic image is the place in the box.
struct Improvement<'a> {
    model: &'a Fitted,
    best: f64,
}

impl Improvement<'_> {
    /// Maps a raw place to the place in the box, `[1, 2]`.
    fn place(&self, raw: Tensor<2>) -> Result<Tensor<2>> {
        let [low, high] = [self.model.points(&LOW)?, self.model.points(&HIGH)?];
        Ok(activation::sigmoid(raw) * (high - low.clone()) + low)
    }

    /// Returns −log of the expected improvement σ (z Φ(z) + φ(z)), with z = (best − μ)/σ.
    fn negative_log(&self, x: Tensor<2>) -> Result<Tensor<1>> {
        let [mean, variance] = self.model.moments(x)?;
        let sd = variance.sqrt();
        let z = (-mean + self.best) / sd.clone();
        let below = ((z.clone() / SQRT_2).erf() + 1.0) * 0.5;
        let density = (z.clone().powi_scalar(2) * -0.5).exp() / TAU.sqrt();
        Ok(-((sd * (z * below + density)).clamp_min(1e-200)).log())
    }
}

impl Objective for Improvement<'_> {
    fn dim(&self) -> usize {
        2
    }

    fn evaluate(&mut self, raw: &[f64], _step: Step) -> Result<Evaluation> {
        let raw = self.model.points(raw)?.require_grad();
        let loss = self.negative_log(self.place(raw.clone())?)?;
        let value = scalar(loss.clone())?;
        let gradient = raw.grad(&loss.backward()).map_or(Ok(vec![0.0; 2]), to_f64)?;
        Ok(Evaluation { loss: value, gradient })
    }
}

/// Returns the place with the largest expected improvement, searched from several starts.
fn next(model: &Fitted, best: f64, round: usize) -> Result<[f64; 2]> {
    let config = TrainConfig::new(Optimizer::default(), 40);
    let mut found: Option<(f64, Vec<f64>)> = None;
    for start in 0..STARTS {
        let share = place(1000 + round * STARTS + start);
        let raw: Vec<f64> =
            (0..2).map(|c| (share[c] - LOW[c]) / (HIGH[c] - LOW[c])).map(|s| (s / (1.0 - s)).ln()).collect();
        let outcome = train::minimise(&mut Improvement { model, best }, &raw, &config, &mut [])?;
        if found.as_ref().is_none_or(|(loss, _)| outcome.loss < *loss) {
            found = Some((outcome.loss, outcome.x));
        }
    }
    let raw = found.map_or(vec![0.0; 2], |(_, raw)| raw);
    Ok(std::array::from_fn(|c| LOW[c] + (HIGH[c] - LOW[c]) / (1.0 + (-raw[c]).exp())))
}

fn main() -> Result<()> {
    let mut places: Vec<[f64; 2]> = (0..FIRST).map(place).collect();
    let least = |places: &[[f64; 2]]| places.iter().map(|x| branin(*x)).fold(f64::INFINITY, f64::min);
    let mut model = fit(&table(&places)?)?;
    println!("value       at a        b      least so far");
    for round in 0..MORE {
        let x = next(&model, least(&places), round)?;
        places.push(x);
        println!("{:>9.4} {:>8.4} {:>8.4} {:>12.6}", branin(x), x[0], x[1], least(&places));
        model = match round % TRAIN {
            0 => fit(&table(&places)?)?,
            _ => model.update(&table(&[x])?)?,
        };
    }
    println!("\nafter {} values {:.6}; the true minimum: 0.397887", places.len(), least(&places));
    Ok(())
}
