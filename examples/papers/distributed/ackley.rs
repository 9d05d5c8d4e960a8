//! Rules of aggregation on the Ackley function without training: Figures 3 to 5 and 9 to 12 (section 5.1.2). Scores are
//! those of the noise-free function.

use std::f64::consts::{E, TAU};
use std::time::Instant;

use cagey::Result;
use cagey::device::Precision;
use cagey::kernels::Kernel;
use cagey::likelihoods::Gaussian;
use cagey::models::Observations;
use cagey::models::exact::{ExactGp, ExactObjective};
use cagey::models::experts::aggregation::Rule;
use cagey::models::experts::{Experts, ExpertsPosterior, Partition, Shared};
use cagey::models::inducing::{self, Choice};
use cagey::models::posterior::Posterior;
use cagey::models::sgpr::Sgpr;
use serde_json::json;

use crate::Options;
use crate::common::command::Job;
use crate::common::drawing::{grid, line as curve, normal, pane, plane, points};
use crate::common::rows::{generator, standard, uniform};
use crate::common::scores::{of_normal, shown};
use crate::rules::{self, All, Found};

/// Noise variance, of the paper's model and of the data here.
const NOISE: f64 = 0.025;

/// A score with the title of its panel.
type Column = (&'static str, fn(&Found) -> f64);

/// The numbers of experts, the runs of the full model, and for each number the runs of all rules.
type Compared = (Vec<f64>, Vec<Found>, Vec<Vec<All>>);

fn ackley(x: &[f64]) -> f64 {
    let d = x.len() as f64;
    let (squares, waves) = (x.iter().map(|x| x * x).sum::<f64>(), x.iter().map(|x| (TAU * x).cos()).sum::<f64>());
    -20.0 * (-0.2 * (squares / d).sqrt()).exp() - (waves / d).exp() + 20.0 + E
}

fn rows(count: usize, d: usize, seed: u64) -> Result<Observations> {
    let mut rng = generator(seed);
    let x = uniform(count * d, -1.0, 1.0, &mut rng);
    let y = x.chunks(d).map(|x| ackley(x) + NOISE.sqrt() * standard(&mut rng)).collect();
    Observations::new(x, d, y, None)
}

fn shared(lengthscale: f64, inducing: Option<usize>, data: &Observations, seed: u64) -> Result<Shared> {
    let kernel = Kernel::parse(&format!("rbf({lengthscale:?})"), data.d)?;
    let mut likelihood = Gaussian::new(NOISE);
    likelihood.noise.set(&[NOISE])?;
    Ok(match inducing {
        None => {
            let objective = ExactObjective::MarginalLikelihood;
            Shared::Exact(ExactGp { prior: kernel.into(), likelihood, objective })
        }
        Some(m) => {
            let z = inducing::choose(Choice::Random, &kernel, &data.x, data.d, m, seed)?;
            Shared::Sparse(Sgpr { likelihood, ..Sgpr::new(kernel, &z, data.d)? })
        }
    })
}

impl Job<Options> {
    pub fn partition(&self) -> Partition {
        if self.own.tree { Partition::Tree } else { Partition::Random }
    }

    fn experts(
        &self,
        shared: Shared,
        data: &Observations,
        count: usize,
        seed: u64,
    ) -> Result<(Vec<Vec<usize>>, ExpertsPosterior)> {
        let parts = self.partition().split(data, &[], count, seed)?;
        let common = Partition::Random.split(data, &[], count, seed)?.swap_remove(0);
        let experts = Experts::new(shared, Rule::Grbcm, parts.clone(), common)?;
        Ok((parts, experts.posterior(self.compute(Precision::F64), data.clone())?))
    }

    /// The scores of all seeds and lengthscales.
    fn compared(&self, inducing: Option<usize>) -> Result<Compared> {
        let own = &self.own;
        let (count, compute) = (self.size(&own.rows, [200, 2000, 10_000]), self.compute(Precision::F64));
        let experts = self.size(&own.experts, [vec![2, 4], vec![2, 4, 10, 20], vec![2, 4, 8, 10, 20, 40, 80, 100]]);
        let lengths = self.size(&own.lengthscales, [vec![0.3], vec![0.3], vec![0.3]]);
        let at = plane((-1.0, 1.0), (-1.0, 1.0), self.pick([12, 50, 50]));
        let truth: Vec<f64> = at.chunks(2).map(ackley).collect();
        let (mut full, mut all) = (Vec::new(), vec![Vec::new(); experts.len()]);
        for seed in self.seeds([1, 2, 10]) {
            for &length in &lengths {
                let data = rows(count, 2, seed + 1)?;
                let key = json!({ "item": "ackley", "rows": count, "inducing": inducing, "lengthscale": length,
                    "seed": seed, "points": truth.len(), "tree": own.tree });
                full.push(self.once(key.clone(), || {
                    let start = Instant::now();
                    let model = shared(length, inducing, &data, seed)?;
                    let said = model.model().condition(compute, data.clone())?.predict(&at)?;
                    let seconds = start.elapsed().as_secs_f64();
                    Ok(Found { scored: of_normal(&truth, &said, 0.0)?, seconds })
                })?);
                for (&m, runs) in experts.iter().zip(&mut all) {
                    let mut key = key.clone();
                    key["experts"] = json!(m);
                    runs.push(self.once(key, || {
                        let (parts, posterior) =
                            self.experts(shared(length, inducing, &data, seed)?, &data, m, seed)?;
                        let known = inducing.is_none().then_some((parts.as_slice(), &data, NOISE));
                        rules::scored(&posterior, (&at, &truth), 0.0, known)
                    })?);
                }
            }
        }
        Ok((experts.iter().map(|m| *m as f64).collect(), full, all))
    }

    fn compare(&self, inducing: Option<usize>, columns: &[Column]) -> Result<()> {
        let (at, full, all) = self.compared(inducing)?;
        let column = |of: fn(&Found) -> f64| full.iter().map(of).collect::<Vec<_>>();
        println!("full: RMSE {}, NLPD {}", shown(&column(|f| f.scored.error)), shown(&column(|f| f.scored.nlpd)));
        for (m, runs) in at.iter().zip(&all) {
            rules::show(&format!("M = {m}"), runs);
        }
        let panes: Vec<_> = columns
            .iter()
            .map(|(title, of)| {
                let mut series = rules::series(&at, &all, *of);
                let mean = column(*of).iter().sum::<f64>() / full.len() as f64;
                series.push(curve("full", &at, &vec![mean; at.len()]));
                pane(*title, series)
            })
            .collect();
        self.panels("", ["Ackley function: means and standard deviations", "experts", ""], true, &panes)
    }

    fn inducing(&self) -> Option<usize> {
        Some(self.size(&self.own.inducing, [32, 128, 128]))
    }
}

/// Errors that explode would hide all others.
fn rmse(found: &Found) -> f64 {
    found.scored.error.log10()
}

/// Of densities, the logarithm of the distance to −5, below all of them.
fn nlpd(found: &Found) -> f64 {
    (found.scored.nlpd + 5.0).max(1e-3).log10()
}

fn seconds(found: &Found) -> f64 {
    found.seconds.max(1e-6).log10()
}

const RMSE: Column = ("log10 RMSE", rmse);
const NLPD: Column = ("log10 (NLPD + 5)", nlpd);
const TIME: Column = ("log10 seconds of all predictions", seconds);

pub fn exact(job: &Job<Options>) -> Result<()> {
    job.compare(None, &[RMSE, NLPD, TIME])
}

pub fn sparse(job: &Job<Options>) -> Result<()> {
    job.compare(job.inducing(), &[RMSE, NLPD, TIME])
}

pub fn exact_rmse(job: &Job<Options>) -> Result<()> {
    job.compare(None, &[RMSE])
}

pub fn exact_nlpd(job: &Job<Options>) -> Result<()> {
    job.compare(None, &[NLPD])
}

pub fn sparse_rmse(job: &Job<Options>) -> Result<()> {
    job.compare(job.inducing(), &[RMSE])
}

pub fn sparse_nlpd(job: &Job<Options>) -> Result<()> {
    job.compare(job.inducing(), &[NLPD])
}

/// Figure 3: four sparse experts over a line, by the paper's rules.
pub fn line(job: &Job<Options>) -> Result<()> {
    let (count, compute) = (job.size(&job.own.rows, [400, 10_000, 10_000]), job.compute(Precision::F64));
    let (data, at) = (rows(count, 1, 1)?, grid(-1.0, 1.0, 50));
    let truth: Vec<f64> = at.chunks(1).map(ackley).collect();
    let model = shared(0.3, job.inducing(), &data, 0)?;
    let full = model.model().condition(compute, data.clone())?.predict(&at)?;
    let m = job.size(&job.own.experts, [vec![4], vec![4], vec![4]])[0];
    let (_, posterior) = job.experts(model, &data, m, 0)?;
    let mut panes = Vec::new();
    for rule in [Rule::Poe, Rule::Gpoe, Rule::Bcm, Rule::Rbcm, Rule::Grbcm, Rule::Weights] {
        let said = posterior.by_rule(rule).predict(&at)?;
        let key = json!({ "rule": rule.name(), "rows": count, "experts": m });
        let sd =
            said.variance.iter().map(|v| v.sqrt()).sum::<f64>() / full.variance.iter().map(|v| v.sqrt()).sum::<f64>();
        let (scored, ratio) = job.once(key, || Ok((of_normal(&truth, &said, 0.0)?, sd)))?;
        println!("{rule:<10} RMSE {:.4}, standard deviations {ratio:.3} of those of the full model", scored.error);
        panes.push(pane(
            rule.name(),
            vec![normal("full model", &at, &full, 0.0), normal("aggregated", &at, &said, 0.0), points("", &at, &truth)],
        ));
    }
    job.panels("", ["four sparse experts; grey: the truth", "x", "f"], false, &panes)
}
