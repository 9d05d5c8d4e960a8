//! Over a line: Figures 1 and 2.

use cagey::Result;
use cagey::device::Precision;
use cagey::kernels::Kernel;
use cagey::likelihoods::Gaussian;
use cagey::models::Observations;
use cagey::models::gp_model::{GpModel, Training};
use cagey::models::minibatch::Minibatches;
use cagey::models::posterior::{Marginals, Posterior};
use cagey::models::svgp::Svgp;
use cagey::models::swsgp::Swsgp;
use cagey::train::{Adam, Optimizer, Schedule, TrainConfig};
use rand::seq::index;
use serde_json::json;

use crate::Options;
use crate::common::command::Job;
use crate::common::drawing::{grid, normal, pane, points};
use crate::common::rows::{generator, sample, standard, uniform};
use crate::common::scores::rmse;

/// Figure 1: f given inducing values u_I of random subsets I, and the spread of many such f beside that of the prior.
pub fn prior(job: &Job<Options>) -> Result<()> {
    let (x, z) = (grid(0.0, 10.0, 121), grid(0.25, 9.75, 12));
    let (kernel, draws) = (Kernel::parse("matern52(1.0)", 1)?, job.pick([200, 3000, 20_000]));
    let mut rng = generator(0);
    let (mut sums, mut squares) = (vec![0.0; x.len()], vec![0.0; x.len()]);
    let mut panes = Vec::new();
    for draw in 0..draws {
        let chosen = index::sample(&mut rng, z.len(), 4).into_vec();
        let own: Vec<f64> = chosen.iter().map(|&k| z[k]).collect();
        // u_I ~ N(0, K_I), and f given u_I: a posterior of noiseless targets.
        let u = sample(&kernel, &own, 1, 1e-8, &mut rng)?;
        let mut exact = cagey::models::exact::ExactGp::new(kernel.clone());
        exact.likelihood.noise.set(&[2e-6])?;
        let posterior =
            exact.posterior(job.compute(Precision::F64), Observations::new(own.clone(), 1, u.clone(), None)?)?;
        let said = posterior.predict(&x)?;
        let f: Vec<f64> =
            said.mean.iter().zip(&said.variance).map(|(m, v)| m + v.sqrt() * standard(&mut rng)).collect();
        for (k, f) in f.iter().enumerate() {
            (sums[k], squares[k]) = (sums[k] + f, squares[k] + f * f);
        }
        if draw < 3 {
            panes.push(pane(
                format!("f given values at subset {}", draw + 1),
                vec![normal("conditional", &x, &said, 0.0), points("", &own, &u)],
            ));
        }
    }
    let count = draws as f64;
    let mean: Vec<f64> = sums.iter().map(|s| s / count).collect();
    let variance: Vec<f64> = squares.iter().zip(&mean).map(|(s, m)| s / count - m * m).collect();
    let of_prior = Marginals { mean: vec![0.0; x.len()], variance: vec![1.0; x.len()], floored: 0 };
    let off = job.once(json!({ "draws": draws }), || Ok(rmse(&variance, &of_prior.variance)))?;
    println!(
        "{draws} draws: root mean square of (variance of f − prior variance) {off:.4}; by chance {:.4}",
        (2.0 / count).sqrt()
    );
    let said = Marginals { mean, variance, floored: 0 };
    panes.push(pane("all draws", vec![normal("prior", &x, &of_prior, 0.0), normal("marginalised", &x, &said, 0.0)]));
    job.panels("", ["the prior is the same whatever the inducing values", "x", "f"], false, &panes)
}

/// Figure 2: 128 inducing inputs, 16 neighbours, the same hyperparameters.
pub fn posterior(job: &Job<Options>) -> Result<()> {
    let (mut rng, rows) = (generator(1), job.size(&job.own.rows, [120, 500, 500]));
    let m = job.size(&job.own.inducing, [vec![32], vec![128], vec![128]])[0];
    let h = job.size(&job.own.neighbors, [vec![8], vec![16], vec![16]])[0];
    let x = uniform(rows, 0.0, 10.0, &mut rng);
    let kernel = Kernel::parse("matern52(0.7)", 1)?;
    let y = sample(&kernel, &x, 1, 0.04, &mut rng)?;
    let (data, z, at) = (Observations::new(x, 1, y, None)?, grid(0.0, 10.0, m), grid(-0.5, 10.5, 400));
    let compute = job.compute(Precision::F64);
    let batches = Minibatches { size: job.own.batch, ..Minibatches::default() };
    let adam = Adam { rate: 0.01, schedule: Schedule::Linear { final_fraction: 0.1 }, ..Adam::default() };
    let config = TrainConfig::new(Optimizer::Adam(adam), job.steps([300, 5000, 20_000]));
    let mut svgp = Svgp::new(kernel.clone(), &z, 1, Gaussian::new(0.04))?;
    let mut swsgp = Swsgp::new(kernel, &z, 1, h, Gaussian::new(0.04))?;
    (swsgp.nugget, swsgp.divergence) = (1e-3, job.own.divergence);
    let mut panes = Vec::new();
    let models: [(String, &mut dyn GpModel); 2] =
        [(format!("SVGP-{m}"), &mut svgp), (format!("SWSGP-{m}M-{h}H"), &mut swsgp)];
    let mut all = Vec::new();
    for (name, model) in models {
        for (path, parameter) in model.parameters_mut() {
            parameter.fixed = !path.starts_with("variational");
        }
        let training =
            Training { compute, data: &data, rows: &data, batches: Some(&batches), config: &config, spread: None };
        model.train(training, &mut [])?;
        let said = model.condition(compute, data.clone())?.predict(&at)?;
        let noise = model.likelihood().noise().unwrap_or_default();
        panes.push(pane(
            name,
            vec![
                points("", &data.x, &data.y),
                normal("95 % of targets", &at, &said, noise),
                normal("95 % of f", &at, &said, 0.0),
            ],
        ));
        all.push(said);
    }
    let sds = |said: &Marginals| -> Vec<f64> { said.variance.iter().map(|v| v.sqrt()).collect() };
    let distance = [rmse(&all[0].mean, &all[1].mean), rmse(&sds(&all[0]), &sds(&all[1]))];
    let [mean, sd] =
        job.once(json!({ "rows": rows, "inducing": m, "neighbours": h, "steps": config.steps }), || Ok(distance))?;
    println!("SWSGP from SVGP: means differ by {mean:.4}, standard deviations by {sd:.4} (root mean squares)");
    job.panels("", ["posteriors with the same hyperparameters", "x", "y"], false, &panes)
}
