//! Trainings of experts with equal numbers of gradients: Figures 2 and 8 (section 5.1.1). Rows are drawn from the prior
//! with an RBF kernel and (ℓ₁, ℓ₂, σ_ε, σ_f) = (0.3, 1.3, 0.1, 0.2); training starts at (2, 0.3, 1, √1.5).

use std::ops::ControlFlow;

use cagey::device::Precision;
use cagey::kernels::Kernel;
use cagey::likelihoods::Gaussian;
use cagey::models::experts::aggregation::Rule;
use cagey::models::experts::{Algorithm, Experts, Federation, Shared};
use cagey::models::gp_model::{GpModel, Training};
use cagey::models::inducing::{self, Choice};
use cagey::models::sgpr::Sgpr;
use cagey::models::{Observations, fit};
use cagey::params::Parameters;
use cagey::scope::Scope;
use cagey::train::{Adam, Observer, Optimizer, Report, TrainConfig};
use cagey::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Options;
use crate::common::command::Job;
use crate::common::drawing::{grid, line, mean, pane};
use crate::common::rows::{generator, sample, uniform};
use crate::common::scores::shown;

/// ℓ₁, ℓ₂, σ_ε, σ_f of the data.
const TRUTH: [f64; 4] = [0.3, 1.3, 0.1, 0.2];
/// The start of training.
const START: [f64; 4] = [2.0, 0.3, 1.0, 1.224_744_871_391_589];
/// The learning rate of Adam.
const RATE: f64 = 0.1;
const NAMES: [&str; 4] = ["ℓ₁", "ℓ₂", "σ_ε", "σ_f"];

/// A training: ℓ₁, ℓ₂, σ_ε, σ_f after each round, and minus the bound of all rows at the end, per row.
#[derive(Clone, Serialize, Deserialize)]
struct Path {
    values: Vec<[f64; 4]>,
    bound: f64,
}

fn kernel([first, second, _, scale]: [f64; 4]) -> Result<Kernel> {
    Kernel::parse(&format!("{:?} * rbf(lengthscale=[{first:?}, {second:?}])", scale * scale), 2)
}

/// ℓ₁, ℓ₂, σ_ε, σ_f of a model.
fn found(model: &dyn GpModel) -> [f64; 4] {
    let of = |name: &str| {
        let parameters = model.parameters();
        parameters.iter().find(|(path, _)| path.ends_with(name)).map(|(_, p)| p.internal()).unwrap_or_default()
    };
    let lengths = of("rbf.lengthscale");
    let sd = |name: &str| of(name).first().map_or(f64::NAN, |variance| variance.sqrt());
    [lengths[0], lengths[1], sd("noise"), sd("rbf.variance")]
}

/// The trainings that are compared, each with its number of rounds. Each expert computes as many gradients in each of
/// them, on average.
fn trainings(rounds: usize, local: usize) -> [(&'static str, Federation, usize); 5] {
    let plain = |algorithm| Federation { algorithm, ..Federation::default() };
    let locally = |algorithm| Federation { local_steps: Some(local), ..plain(algorithm) };
    let half = |algorithm| Federation { share: 0.5, ..locally(algorithm) };
    let admm = Federation { penalty: Some(500.0), ..locally(Algorithm::Admm) };
    [
        ("FACT", plain(Algorithm::Fact), rounds),
        ("FedAvg", half(Algorithm::Fedavg), 2 * rounds / local),
        ("FedProx", half(Algorithm::Fedprox), 2 * rounds / local),
        ("ADMM", admm, rounds / local),
        ("pxADMM", plain(Algorithm::Pxadmm), rounds),
    ]
}

/// Keeps the parameters of each round.
struct Watch {
    model: Experts,
    values: Vec<[f64; 4]>,
}

impl Observer for Watch {
    fn step(&mut self, report: &Report) -> ControlFlow<()> {
        if self.model.set_free_raw(report.x).is_ok() {
            self.values.push(found(&self.model));
        }
        ControlFlow::Continue(())
    }
}

/// One draw of the rows.
struct Draw<'a> {
    job: &'a Job<Options>,
    data: Observations,
    seed: u64,
}

impl<'a> Draw<'a> {
    fn new(job: &'a Job<Options>, rows: usize, seed: u64) -> Result<Self> {
        let mut rng = generator(seed + 1);
        let x = uniform(2 * rows, -1.0, 1.0, &mut rng);
        let y = sample(&kernel(TRUTH)?, &x, 2, TRUTH[2] * TRUTH[2], &mut rng)?;
        Ok(Self { job, data: Observations::new(x, 2, y, None)?, seed })
    }

    /// The sparse model of all rows.
    fn model(&self, at: [f64; 4]) -> Result<Sgpr> {
        let (kernel, m) = (kernel(at)?, self.job.size(&self.job.own.inducing, [16, 64, 128]));
        let z = inducing::choose(Choice::Kmeans, &kernel, &self.data.x, 2, m, self.seed)?;
        let mut model = Sgpr::new(kernel, &z, 2)?;
        model.likelihood = Gaussian::new(at[2] * at[2]);
        Ok(model)
    }

    /// Minus the bound of all rows, per row.
    fn whole(&self, model: &Sgpr) -> Result<f64> {
        let compute = self.job.compute(Precision::F64);
        let batch = self.data.batch(&Scope::new(compute)?);
        Ok(fit::evaluate(model, compute, &batch)?.loss / self.data.n() as f64)
    }

    /// Where training of the sparse model of all rows ends, from the start or from the truth: the better one.
    fn optimum(&self) -> Result<Path> {
        let mut best: Option<Path> = None;
        for at in [START, TRUTH] {
            let mut full = self.model(at)?;
            fit::fit(&mut full, self.job.compute(Precision::F64), &self.data, &TrainConfig::while_it_pays(), &mut [])?;
            let own = Path { values: vec![found(&full)], bound: self.whole(&full)? };
            if best.as_ref().is_none_or(|best| own.bound < best.bound) {
                best = Some(own);
            }
        }
        best.ok_or_else(|| Error::NotFinite("the bound".into()))
    }

    fn train(&self, federation: Federation, rounds: usize, count: usize) -> Result<Path> {
        let (compute, start) = (self.job.compute(Precision::F64), self.model(START)?);
        let parts = self.job.partition().split(&self.data, &[], count, self.seed)?;
        let mut experts = Experts::new(Shared::Sparse(start.clone()), Rule::Grbcm, parts, vec![0])?;
        experts.federation = federation;
        let adam = Optimizer::Adam(Adam { rate: RATE, ..Adam::default() });
        let config = TrainConfig::new(adam, rounds).seed(self.seed);
        let mut watch = Watch { model: experts.clone(), values: Vec::new() };
        let data = &self.data;
        let training = Training { compute, data, rows: data, batches: None, config: &config, spread: None };
        experts.train(training, &mut [&mut watch])?;
        let mut end = start;
        end.set_free_raw(&experts.free_raw())?;
        watch.values.push(found(&experts));
        Ok(Path { values: watch.values, bound: self.whole(&end)? })
    }
}

/// The optima of all draws; for each number of experts and each training, the paths of all draws.
type All = (Vec<Path>, Vec<(usize, Vec<(&'static str, Vec<Path>)>)>);

fn all(job: &Job<Options>) -> Result<All> {
    let own = &job.own;
    let (rows, rounds) = (job.size(&own.rows, [150, 2000, 10_000]), job.size(&own.rounds, [20, 100, 200]));
    let counts = job.size(&own.experts, [vec![2, 5], vec![2, 8, 20], vec![2, 4, 8, 10, 20, 40, 80, 100]]);
    if own.local_steps == 0 || rounds < own.local_steps {
        return Err(Error::Usage("--local-steps: at least one, and no more than --rounds".into()));
    }
    let mut optima = Vec::new();
    let mut paths: Vec<_> = counts.iter().map(|count| (*count, Vec::new())).collect();
    for seed in job.seeds([1, 1, 10]) {
        let draw = Draw::new(job, rows, seed)?;
        let key = json!({ "item": "trainings", "rows": rows, "seed": seed, "inducing": own.inducing });
        optima.push(job.once(key.clone(), || draw.optimum())?);
        for (count, trained) in &mut paths {
            for (which, (name, federation, rounds)) in trainings(rounds, own.local_steps).into_iter().enumerate() {
                let mut key = key.clone();
                (key["experts"], key["training"], key["rounds"]) = (json!(count), json!(name), json!(rounds));
                (key["local"], key["tree"]) = (json!(own.local_steps), json!(own.tree));
                let path = job.once(key, || draw.train(federation, rounds, *count))?;
                if trained.len() == which {
                    trained.push((name, Vec::new()));
                }
                trained[which].1.push(path);
            }
        }
    }
    for (count, trained) in &paths {
        for (name, own) in trained {
            let far = |k: usize| -> Vec<f64> {
                let pairs = own.iter().zip(&optima);
                pairs.map(|(p, best)| (p.values[p.values.len() - 1][k] / best.values[0][k]).ln().abs()).collect()
            };
            let excess: Vec<f64> = own.iter().zip(&optima).map(|(path, best)| path.bound - best.bound).collect();
            println!(
                "M = {count:>3} {name:<8} |ln θ/θ*| {} {} {} {}; bound above the optimum {}",
                shown(&far(0)),
                shown(&far(1)),
                shown(&far(2)),
                shown(&far(3)),
                shown(&excess)
            );
        }
    }
    Ok((optima, paths))
}

/// Figure 2: the parameters by the share of each training's rounds, of the first draw.
pub fn paths(job: &Job<Options>) -> Result<()> {
    let (optima, all) = all(job)?;
    for (count, trained) in &all {
        let panes: Vec<_> = (0..4)
            .map(|k| {
                let mut series: Vec<_> = trained
                    .iter()
                    .map(|(name, own)| {
                        let y: Vec<f64> = own[0].values.iter().map(|v| v[k]).collect();
                        line(*name, &grid(0.0, 1.0, y.len()), &y)
                    })
                    .collect();
                series.push(line("truth", &[0.0, 1.0], &[TRUTH[k]; 2]));
                series.push(line("optimum of all rows", &[0.0, 1.0], &[optima[0].values[0][k]; 2]));
                pane(NAMES[k], series)
            })
            .collect();
        job.panels(&format!("-{count}"), [&format!("{count} experts"), "share of the training", ""], false, &panes)?;
    }
    Ok(())
}

/// Figure 8: the parameters at the end, as means with standard deviations over draws.
pub fn ends(job: &Job<Options>) -> Result<()> {
    let (_, all) = all(job)?;
    let at: Vec<f64> = all.iter().map(|(count, _)| *count as f64).collect();
    let panes: Vec<_> = (0..4)
        .map(|k| {
            let mut series = Vec::new();
            for which in 0..all.first().map_or(0, |(_, trained)| trained.len()) {
                let of = |path: &Path| path.values[path.values.len() - 1][k];
                let runs: Vec<Vec<f64>> =
                    all.iter().map(|(_, trained)| trained[which].1.iter().map(of).collect()).collect();
                series.push(mean(all[0].1[which].0, &at, &runs));
            }
            series.push(line("truth", &at, &vec![TRUTH[k]; at.len()]));
            pane(NAMES[k], series)
        })
        .collect();
    job.panels("", ["hyperparameters at the end", "experts", ""], true, &panes)
}
