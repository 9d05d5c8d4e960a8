//! Bayesian optimisation: chooses where to evaluate an expensive function next, to find its least value. Three rules
//! choose: expected improvement of one place; expected improvement of a batch of places, from samples of the joint
//! posterior that are differentiated in all places; and Thompson sampling, which minimises sample paths, one for each
//! place of a batch.
//!
//! The model is computation-aware: it has fewer actions than rows, and its error bars know. New values join the
//! posterior without another training; after every few values the model is trained again. L-BFGS searches from several
//! starts.
//!
//! ```sh
//! cargo run --release --example bayesian_optimisation
//! ```

use std::f64::consts::{PI, SQRT_2, TAU};

use cagey::Result;
use cagey::burn::tensor::{Tensor, activation};
use cagey::data::Dataset;
use cagey::device::Precision;
use cagey::fitted::{Fit, Fitted, Paths};
use cagey::models::cagp::CagpOptions;
use cagey::models::functions::PathOptions;
use cagey::scope::{gradient_in, scalar};
use cagey::train::{self, Evaluation, Objective, Optimizer, Step, TrainConfig};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, StandardNormal};

/// The box of the search.
const LOW: [f64; 2] = [-5.0, 0.0];
const HIGH: [f64; 2] = [10.0, 15.0];
/// Number of values at the beginning, and of those after it.
const FIRST: usize = 8;
const MORE: usize = 24;
/// Number of values between two trainings, and most actions of the model.
const TRAIN: usize = 6;
const ACTIONS: usize = 20;
/// Places of a batch, samples of the joint posterior, and starts of a search.
const BATCH: usize = 3;
const SAMPLES: usize = 128;
const STARTS: usize = 6;

/// Branin's function, whose least value is 0.397887, at three places.
fn branin([a, b]: [f64; 2]) -> f64 {
    (b - 5.1 / (4.0 * PI * PI) * a * a + 5.0 / PI * a - 6.0).powi(2) + 10.0 * (1.0 - 1.0 / (8.0 * PI)) * a.cos() + 10.0
}

/// Places that fill the unit square evenly.
fn share(i: usize) -> [f64; 2] {
    [(0.5 + i as f64 * 0.754_877_666_246_693).fract(), (0.5 + i as f64 * 0.569_840_290_998_053).fract()]
}

/// The place in the box.
fn place(share: [f64; 2]) -> [f64; 2] {
    std::array::from_fn(|c| LOW[c] + (HIGH[c] - LOW[c]) * share[c])
}

fn table(places: &[[f64; 2]]) -> Result<Dataset> {
    let y = places.iter().map(|x| branin(*x)).collect();
    Dataset::new(["a", "b"], places.concat())?.with_target("y", y)
}

fn fit(places: &[[f64; 2]]) -> Result<Fitted> {
    let model = CagpOptions::default().actions(places.len().min(ACTIONS));
    let config = TrainConfig::new(Optimizer::default(), 50);
    Fit::new(&table(places)?)
        .model(model)
        .kernel("matern52(ard)")
        .bounds("noise", 1e-4, 1.0)
        .config(config)
        .compute(cagey_examples::asked(Precision::F64))
        .run()
}

/// What a rule minimises: a function of places `[q, 2]` in the box.
type Loss<'a> = &'a dyn Fn(Tensor<2>) -> Result<Tensor<1>>;

/// The same as a function of unconstrained numbers, whose logistic images are the places.
struct Search<'a> {
    model: &'a Fitted,
    loss: Loss<'a>,
    places: usize,
}

impl Objective for Search<'_> {
    fn dim(&self) -> usize {
        2 * self.places
    }

    fn evaluate(&mut self, raw: &[f64], _step: Step) -> Result<Evaluation> {
        let raw = self.model.points(raw)?.require_grad();
        let [low, high] = [self.model.points(&LOW)?, self.model.points(&HIGH)?];
        let loss = (self.loss)(activation::sigmoid(raw.clone()) * (high - low.clone()) + low)?;
        Ok(Evaluation { loss: scalar(loss.clone())?, gradient: gradient_in(loss, &raw)? })
    }
}

/// The best places of a search from several starts.
fn search(model: &Fitted, loss: Loss, places: usize, seed: usize) -> Result<Vec<[f64; 2]>> {
    let config = TrainConfig::new(Optimizer::default(), 40);
    let mut found: Option<(f64, Vec<f64>)> = None;
    for start in 0..STARTS {
        let first = 1000 + (seed * STARTS + start) * places;
        let raw: Vec<f64> = (first..first + places).flat_map(share).map(|s| (s / (1.0 - s)).ln()).collect();
        let outcome = train::minimise(&mut Search { model, loss, places }, &raw, &config, &mut [])?;
        if found.as_ref().is_none_or(|(least, _)| outcome.loss < *least) {
            found = Some((outcome.loss, outcome.x));
        }
    }
    let raw = found.map(|(_, raw)| raw).unwrap_or_default();
    Ok(raw.chunks(2).map(|raw| place([raw[0], raw[1]].map(|r| 1.0 / (1.0 + (-r).exp())))).collect())
}

/// The place with the largest expected improvement σ (z Φ(z) + φ(z)) over the best value, z = (best − μ)/σ.
fn improvement(model: &Fitted, best: f64, seed: usize) -> Result<Vec<[f64; 2]>> {
    let loss = |x: Tensor<2>| {
        let [mean, variance] = model.moments(x)?;
        let sd = variance.sqrt();
        let z = (-mean + best) / sd.clone();
        let below = ((z.clone() / SQRT_2).erf() + 1.0) * 0.5;
        let density = (z.clone().powi_scalar(2) * -0.5).exp() / TAU.sqrt();
        Ok(-((sd * (z * below + density)).clamp_min(1e-200)).log())
    };
    search(model, &loss, 1, seed)
}

/// The batch with the largest expected improvement of its least value, over samples of the joint posterior.
fn batch_improvement(model: &Fitted, best: f64, seed: usize) -> Result<Vec<[f64; 2]>> {
    let mut rng = StdRng::seed_from_u64(seed as u64);
    let base: Vec<f64> = (0..BATCH * SAMPLES).map(|_| StandardNormal.sample(&mut rng)).collect();
    let loss = |x: Tensor<2>| {
        let gain = -model.joint(x)?.samples(&base)?.min_dim(0) + best;
        // Smooth where a sample begins to improve, so that there is a gradient.
        let improvement = gain.clone().clamp_min(0.0) + (-gain.abs() / SMOOTH).exp().log1p() * SMOOTH;
        Ok(-improvement.mean().clamp_min(1e-200).log())
    };
    search(model, &loss, BATCH, seed)
}

/// The width over which improvements round off.
const SMOOTH: f64 = 0.1;

/// The least place of each of some sample paths.
fn thompson(model: &Fitted, seed: usize) -> Result<Vec<[f64; 2]>> {
    let paths = model.paths(PathOptions::new(BATCH, seed as u64))?;
    let least = |path: Paths| search(model, &|x| Ok(path.at(x)?.sum()), 1, seed);
    Ok((0..BATCH).map(|i| least(paths.only(i)?)).collect::<Result<Vec<_>>>()?.concat())
}

/// Chooses places from a model, the best value so far and a seed.
type Rule = fn(&Fitted, f64, usize) -> Result<Vec<[f64; 2]>>;

fn main() -> Result<()> {
    let rules: [(&str, Rule); 3] = [
        ("expected improvement", improvement),
        ("expected improvement of a batch", batch_improvement),
        ("Thompson sampling", |model, _, seed| thompson(model, seed)),
    ];
    println!("{:<32} least value after 14, 20, 26 and 32 values (the true minimum: 0.397887)", "rule");
    for (name, rule) in rules {
        let mut places: Vec<[f64; 2]> = (0..FIRST).map(share).map(place).collect();
        let least = |places: &[[f64; 2]]| places.iter().map(|x| branin(*x)).fold(f64::INFINITY, f64::min);
        let (mut model, mut trained) = (fit(&places)?, places.len());
        while places.len() < FIRST + MORE {
            let chosen = rule(&model, least(&places), places.len())?;
            places.extend(&chosen);
            if places.len() >= trained + TRAIN {
                (model, trained) = (fit(&places)?, places.len());
            } else {
                model = model.update(&table(&chosen)?)?;
            }
        }
        print!("{name:<32}");
        (1..=4).for_each(|part| print!(" {:>9.6}", least(&places[..FIRST + MORE * part / 4])));
        println!();
    }
    Ok(())
}
