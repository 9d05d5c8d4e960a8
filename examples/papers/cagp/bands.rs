//! Figures 1 and S2: predictive bands on data with a gap.

use cagey::device::Compute;
use cagey::device::Precision;
use cagey::kernels::Kernel;
use cagey::likelihoods::Gaussian;
use cagey::models::cagp::{Actions, Cagp, CagpObjective, IterativeCagp};
use cagey::models::exact::ExactGp;
use cagey::models::gp_model::GpModel;
use cagey::models::inducing::{self, Choice};
use cagey::models::minibatch::{self, Minibatches};
use cagey::models::ordering::RowOrder;
use cagey::models::posterior::{Marginals, Posterior};
use cagey::models::svgp::Svgp;
use cagey::models::{Model, Observations, fit};
use cagey::plot::{Layer, Series};
use cagey::train::{Adam, Optimizer, TrainConfig};
use cagey::{Error, Result};
use rand::RngExt;
use serde_json::json;

use crate::Options;
use crate::common::command::Job;
use crate::common::drawing::{grid, normal, pane, points};
use crate::common::rows::{generator, sample, standard};
use crate::common::scores::shown;

const KERNEL: &str = "matern32(1.0)";
/// The standard deviation of the noise.
const NOISE: f64 = 0.2;
/// The inputs lie in 0..10, outside this interval.
const GAP: (f64, f64) = (4.5, 7.0);

/// A model after training.
struct Said {
    name: &'static str,
    latent: Marginals,
    noise: f64,
    /// Where its inducing inputs are.
    inducing: Vec<f64>,
}

/// A function with data, and the posterior of the model that generated them.
struct Scene {
    compute: Compute,
    grid: Vec<f64>,
    truth: Vec<f64>,
    data: Observations,
    known: Marginals,
}

fn scene(job: &Job<Options>, seed: u64) -> Result<Scene> {
    let (mut rng, grid) = (generator(seed), grid(0.0, 10.0, 601));
    let (rows, mut x) = (job.size(&job.own.rows, [100, 100, 100]), grid.clone());
    while x.len() < grid.len() + rows {
        let candidate = rng.random_range(0.0..10.0);
        if !(GAP.0..GAP.1).contains(&candidate) {
            x.push(candidate);
        }
    }
    let f = sample(&Kernel::parse(KERNEL, 1)?, &x, 1, 1e-9, &mut rng)?;
    let y = f[grid.len()..].iter().map(|f| f + NOISE * standard(&mut rng)).collect();
    let data = Observations::new(x.split_off(grid.len()), 1, y, None)?;
    let mut known = ExactGp::new(Kernel::parse(KERNEL, 1)?);
    known.likelihood.noise.set(&[NOISE * NOISE])?;
    let compute = job.compute(Precision::F64);
    let known = known.posterior(compute, data.clone())?.predict(&grid)?;
    Ok(Scene { compute, truth: f[..grid.len()].to_vec(), data, known, grid })
}

impl Scene {
    fn train(&self, model: &mut impl Model, data: &Observations) -> Result<()> {
        let outcome = fit::fit(model, self.compute, data, &TrainConfig::default(), &mut [])?;
        if outcome.loss.is_finite() { Ok(()) } else { Err(Error::NotFinite("the loss".into())) }
    }

    fn said(&self, name: &'static str, model: &dyn GpModel, data: &Observations) -> Result<Said> {
        let latent = model.condition(self.compute, data.clone())?.predict(&self.grid)?;
        let noise = model.likelihood().noise().unwrap_or_default();
        let own = model.parameters().into_iter().find(|(path, _)| path.ends_with("inducing"));
        Ok(Said { name, latent, noise, inducing: own.map(|(_, z)| z.internal()).unwrap_or_default() })
    }

    /// Prints standard deviations at the data and in the gap, and the share of the grid where the function is in the 95
    /// % interval of the latent function. Returns the numbers.
    fn report(&self, Said { name, latent, noise, .. }: &Said) -> [f64; 4] {
        let sd = |gap: bool| {
            let inside = self.grid.iter().zip(&latent.variance).filter(|(x, _)| (GAP.0..GAP.1).contains(*x) == gap);
            let sds: Vec<f64> = inside.map(|(_, v)| v.sqrt()).collect();
            sds.iter().sum::<f64>() / sds.len() as f64
        };
        let errors = latent.mean.iter().zip(&self.truth).map(|(m, f)| (m - f).abs());
        let covered = errors.zip(&latent.variance).filter(|(e, v)| *e < 1.96 * v.sqrt()).count();
        let numbers = [noise.sqrt(), sd(false), sd(true), covered as f64 / self.grid.len() as f64];
        println!(
            "{name:<26} {:>8.3} {:>14.3} {:>13.3} {:>8.1} %",
            numbers[0],
            numbers[1],
            numbers[2],
            100.0 * numbers[3]
        );
        numbers
    }

    /// Draws the posterior of f, the predictive band, the data, inducing inputs and the band that is true.
    fn draw(&self, job: &Job<Options>, all: &[Said]) -> Result<()> {
        let lowest = self.data.y.iter().copied().fold(f64::INFINITY, f64::min) - 0.5;
        let end = |side: f64| -> Vec<f64> {
            let ends = self.known.mean.iter().zip(&self.known.variance);
            ends.map(|(m, v)| m + side * 1.96 * (v + NOISE * NOISE).sqrt()).collect()
        };
        let known = || Series {
            name: String::new(),
            layers: [-1.0, 1.0].map(|side| Layer::Line(self.grid.clone(), end(side))).to_vec(),
        };
        let panes: Vec<_> = all
            .iter()
            .map(|Said { name, latent, noise, inducing }| {
                let predictive = normal("95 % of targets", &self.grid, latent, *noise);
                let of_f = normal("95 % of f", &self.grid, latent, 0.0);
                let marks = points("inducing inputs", inducing, &vec![lowest; inducing.len()]);
                pane(*name, vec![predictive, of_f, known(), points("", &self.data.x, &self.data.y), marks])
            })
            .collect();
        let title = "posteriors; grey: data, and 95 % of targets by the model that generated them";
        job.panels("", [title, "x", "y"], false, &panes)
    }
}

fn heading() {
    println!("{:<26} {:>8} {:>14} {:>13} {:>10}", "", "noise sd", "sd at the data", "sd in the gap", "coverage");
}

/// Figure 1.
pub fn gap(job: &Job<Options>) -> Result<()> {
    let (kernel, count) = (|| Kernel::parse(KERNEL, 1), job.size(&job.own.actions, [8, 8, 8]));
    let mut table: Vec<(&str, Vec<[f64; 4]>)> = Vec::new();
    for seed in job.seeds([1, 1, 10]) {
        let scene = scene(job, seed)?;
        let Scene { compute, data, .. } = &scene;
        let mut exact = ExactGp::new(kernel()?);
        scene.train(&mut exact, data)?;
        let mut cg = IterativeCagp::cg(kernel()?, count);
        scene.train(&mut cg, data)?;
        let ordered = data.permuted(&RowOrder::Tree.rows(data, count)?)?;
        let mut learned = Cagp::new(kernel()?, Actions::averages(ordered.n(), count)?);
        scene.train(&mut learned, &ordered)?;
        let z = inducing::choose(Choice::Random, &kernel()?, &data.x, 1, count, seed)?;
        let mut svgp = Svgp::new(kernel()?, &z, 1, Gaussian::new(0.1))?;
        let adam = Optimizer::Adam(Adam { rate: 0.02, ..Adam::default() });
        let batches = Minibatches { size: data.n(), ..Minibatches::default() };
        let config = TrainConfig::new(adam, job.pick([500, 2000, 2000]));
        minibatch::fit(&mut svgp, *compute, data, &batches, &config, &mut [])?;
        let all = [
            scene.said("exact GP", &exact, data)?,
            scene.said("SVGP", &svgp, data)?,
            scene.said("CaGP-CG", &cg, data)?,
            scene.said("CaGP-Opt", &learned, &ordered)?,
        ];
        heading();
        let known =
            Said { name: "generating model", latent: scene.known.clone(), noise: NOISE * NOISE, inducing: vec![] };
        scene.report(&known);
        // With the hyperparameters of the exact GP, no approximation may be more certain than it.
        (cg.priors[0].kernel, cg.likelihood) = (exact.prior.kernel.clone(), Box::new(exact.likelihood.clone()));
        (learned.priors[0].kernel, learned.likelihood) =
            (exact.prior.kernel.clone(), Box::new(exact.likelihood.clone()));
        let more = [scene.said("CaGP-CG, as exact", &cg, data)?, scene.said("CaGP-Opt, as exact", &learned, &ordered)?];
        for said in all.iter().chain(&more) {
            let numbers = scene.report(said);
            job.once(json!({ "seed": seed, "model": said.name, "actions": count }), || Ok(numbers))?;
            match table.iter_mut().find(|(name, _)| *name == said.name) {
                Some((_, own)) => own.push(numbers),
                None => table.push((said.name, vec![numbers])),
            }
        }
        if seed == 0 {
            scene.draw(job, &all)?;
        }
    }
    for (name, own) in table.iter().filter(|(_, own)| own.len() > 1) {
        let [noise, at, within, coverage] =
            std::array::from_fn(|k| shown(&own.iter().map(|n| n[k]).collect::<Vec<_>>()));
        println!("{name}, all seeds: noise {noise}, at the data {at}, in the gap {within}, coverage {coverage}");
    }
    Ok(())
}

/// Figure S2: conjugate gradients, trained by the two losses.
pub fn losses(job: &Job<Options>) -> Result<()> {
    let count = job.size(&job.own.actions, [8, 8, 8]);
    for seed in job.seeds([1, 1, 1]) {
        let scene = scene(job, seed)?;
        let mut all = Vec::new();
        for (name, objective) in [("ELBO", CagpObjective::Elbo), ("projected data", CagpObjective::Projected)] {
            let mut model = IterativeCagp { objective, ..IterativeCagp::cg(Kernel::parse(KERNEL, 1)?, count) };
            scene.train(&mut model, &scene.data)?;
            all.push(scene.said(name, &model, &scene.data)?);
        }
        heading();
        for said in &all {
            let numbers = scene.report(said);
            job.once(json!({ "seed": seed, "loss": said.name, "actions": count }), || Ok(numbers))?;
        }
        scene.draw(job, &all)?;
    }
    Ok(())
}
