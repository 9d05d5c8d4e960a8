//! Errors on tables: Figure 3, Tables 1 and 2. Densities are those of the target's units.

use std::time::Instant;

use cagey::Result;
use cagey::device::Precision;
use cagey::linalg::dense::{product, view, view_mut};
use cagey::models::gp_model::GpModel;
use cagey::models::svgp::Svgp;
use cagey::models::swsgp::Swsgp;
use cagey::models::variational::Covariance;
use cagey::scope::Scope;
use serde_json::json;

use crate::Options;
use crate::common::command::Job;
use crate::common::drawing::{mean, pane};
use crate::common::rows::Task;
use crate::common::scores::{Scored, shown};
use crate::common::training::scored;
use crate::model::{Size, copied};

/// Test scores in the target's units, and milliseconds of a step and of a prediction of one row.
#[derive(Clone, Copy, serde::Serialize, serde::Deserialize)]
pub struct Found {
    pub error: f64,
    pub nlpd: f64,
    pub step: f64,
    pub prediction: f64,
    /// Scores with the H nearest inducing inputs only (SVGP-M-H).
    pub near: Option<[f64; 2]>,
}

/// Tables with many rows of a test set take this many single predictions.
const SINGLE: usize = 100;

fn in_units(task: &Task, said: Scored, classes: bool) -> [f64; 2] {
    if classes { [said.error, said.nlpd] } else { [said.error * task.sd, said.nlpd + task.sd.ln()] }
}

impl Job<Options> {
    /// Results of a model on a split. With `near`, SVGP also predicts by its nearest inducing inputs.
    pub fn found(&self, set: &str, size: Size, steps: usize, split: u64, near: Option<usize>) -> Result<Found> {
        let mut key = self.key(set, size, steps, split);
        key["near"] = json!(near);
        let text = key.to_string();
        self.once(key, || {
            let (task, compute) = (self.split(set, split)?, self.compute(Precision::F32));
            let trained = self.fit(size, &task, (steps, 0), split, text)?;
            let classes = trained.model.likelihood().noise().is_none();
            let [error, nlpd] = in_units(&task, trained.record.end().test, classes);
            let posterior = trained.model.condition(compute, task.train.clone())?;
            let (d, count) = (task.test.d, SINGLE.min(task.test.n()));
            posterior.predict(&task.test.x[..d])?;
            let start = Instant::now();
            for row in task.test.x.chunks(d).take(count) {
                posterior.predict(row)?;
            }
            let prediction = 1e3 * start.elapsed().as_secs_f64() / count as f64;
            let step = 1e3 * trained.record.end().seconds / trained.record.steps.max(1) as f64;
            let near = match near {
                Some(h) => Some(in_units(&task, nearest(self, &*trained.model, size, h, &task)?, classes)),
                None => None,
            };
            Ok(Found { error, nlpd, step, prediction, near })
        })
    }

    /// Results of all splits.
    pub fn splits(
        &self,
        set: &str,
        size: Size,
        steps: usize,
        counts: [u64; 3],
        near: Option<usize>,
    ) -> Result<Vec<Found>> {
        let all =
            self.seeds(counts).map(|split| self.found(set, size, steps, split, near)).collect::<Result<Vec<_>>>()?;
        let column = |of: fn(&Found) -> f64| shown(&all.iter().map(of).collect::<Vec<_>>());
        println!(
            "{set} {:<18} error {}, NLPD {}, {} ms a step, {} ms a prediction",
            size.name(),
            column(|f| f.error),
            column(|f| f.nlpd),
            column(|f| f.step),
            column(|f| f.prediction)
        );
        Ok(all)
    }
}

/// Predictions of an SVGP by the inducing inputs nearest to each row: q(u) of all values, cut to these.
fn nearest(job: &Job<Options>, trained: &dyn GpModel, size: Size, h: usize, task: &Task) -> Result<Scored> {
    let find = |name: &str| {
        let all = trained.parameters();
        all.into_iter().find(|(path, _)| path.ends_with(name)).map(|(_, p)| p.internal()).unwrap_or_default()
    };
    let (z, d, kernel) = (find("inducing"), task.train.d, trained.prior().kernel.clone());
    let mut svgp = Svgp::boxed(kernel.clone(), &z, d, trained.likelihood().boxed())?;
    copied(trained, &mut svgp)?;
    let mut cut = Swsgp::boxed(kernel, &z, d, h.min(size.inducing), trained.likelihood().boxed())?;
    cut = cut.covariance(Covariance::Full);
    copied(trained, &mut cut)?;
    // u = L v.
    let (m, scope) = (svgp.processes[0].len(), Scope::new(job.compute(Precision::F64))?);
    let lower = svgp.processes[0].factor(&scope)?;
    let [mut mean, mut root] = [vec![0.0; m], vec![0.0; m * m]];
    let packed = svgp.variational[0].root.internal();
    let entry = |i: usize, j: usize| if j <= i { packed[i * (i + 1) / 2 + j] } else { 0.0 };
    let of_v: Vec<f64> = (0..m * m).map(|e| entry(e / m, e % m)).collect();
    product::set(view_mut(&mut mean, 1), view(&lower, m), view(&svgp.variational[0].mean.internal(), 1), 1.0);
    product::set(view_mut(&mut root, m), view(&lower, m), view(&of_v, m), 1.0);
    cut.variational.mean.set_internal(&mean)?;
    let packed: Vec<f64> = (0..m).flat_map(|i| root[i * m..=i * m + i].to_vec()).collect();
    cut.variational.root.set_internal(&packed)?;
    scored(&cut.posterior(job.compute(Precision::F64)), &cut, task)
}

/// Figure 3: SWSGP-M-H, SVGP-M, SVGP-M-H and SVGP-16.
pub fn figure(job: &Job<Options>) -> Result<()> {
    let steps = job.steps([150, 20_000, 300_000]);
    let inducing = job.size(&job.own.inducing, [vec![32], vec![32, 64, 128], vec![32, 64, 128]]);
    let neighbours = job.size(&job.own.neighbors, [vec![4], vec![4, 8, 16], vec![4, 8, 16]]);
    for set in job.sets(&job.own.sets, &["power_plant", "kin8nm", "protein_raw", "eeg", "credit", "spambase"]) {
        let at: Vec<f64> = inducing.iter().map(|m| *m as f64).collect();
        let few = job.splits(&set, Size::svgp(16), steps, [1, 1, 10], None)?;
        let near = neighbours.iter().copied().max();
        let mut all: Vec<(String, Vec<Vec<Found>>)> = vec![("SVGP-16".into(), vec![few; inducing.len()])];
        let of = |size: &dyn Fn(usize) -> Size, near| -> Result<Vec<Vec<Found>>> {
            inducing.iter().map(|m| job.splits(&set, size(*m), steps, [1, 1, 10], near)).collect()
        };
        let whole = of(&Size::svgp, near)?;
        let cut = |found: &Found| {
            let [error, nlpd] = found.near.unwrap_or([f64::NAN; 2]);
            Found { error, nlpd, ..*found }
        };
        let cut: Vec<Vec<Found>> = whole.iter().map(|own| own.iter().map(cut).collect()).collect();
        for (m, own) in inducing.iter().zip(&cut) {
            let column = |of: fn(&Found) -> f64| shown(&own.iter().map(of).collect::<Vec<_>>());
            println!(
                "{set} SVGP-{m} by {} nearest: error {}, NLPD {}",
                near.unwrap_or(0),
                column(|f| f.error),
                column(|f| f.nlpd)
            );
        }
        all.push(("SVGP-M".into(), whole));
        all.push(("SVGP-M-H".into(), cut));
        for h in &neighbours {
            all.push((format!("SWSGP, H = {h}"), of(&|m| Size::swsgp(m, *h), None)?));
        }
        let series = |of: fn(&Found) -> f64| -> Vec<_> {
            let column =
                |own: &Vec<Vec<Found>>| own.iter().map(|f| f.iter().map(of).collect()).collect::<Vec<Vec<f64>>>();
            all.iter().map(|(name, own)| mean(name, &at, &column(own))).collect()
        };
        let panes = [pane("error", series(|f| f.error)), pane("NLPD", series(|f| f.nlpd))];
        job.panels(&format!("-{set}"), [&set, "inducing inputs M", ""], false, &panes)?;
    }
    Ok(())
}

/// Table 1: SVGP-M and SWSGP-M-4 on EEG with 256 and MNIST with 1,024 inducing inputs.
pub fn times(job: &Job<Options>) -> Result<()> {
    let (steps, h) = (job.steps([100, 2000, 50_000]), job.size(&job.own.neighbors, [vec![4], vec![4], vec![4]]));
    for set in job.sets(&job.own.sets, &["eeg", "mnist"]) {
        let usual = if set == "mnist" { 1024 } else { 256 };
        for m in job.size(&job.own.inducing, [vec![64], vec![usual], vec![usual]]) {
            job.splits(&set, Size::svgp(m), steps, [1, 1, 1], None)?;
            for h in &h {
                job.splits(&set, Size::swsgp(m, *h), steps, [1, 1, 1], None)?;
            }
        }
    }
    Ok(())
}

/// Table 2: SWSGP-64M-4H over folds.
pub fn folds(job: &Job<Options>) -> Result<()> {
    let steps = job.steps([150, 20_000, 300_000]);
    for set in job.sets(&job.own.sets, &["power_plant", "protein_raw"]) {
        for m in job.size(&job.own.inducing, [vec![64], vec![64], vec![64]]) {
            for h in job.size(&job.own.neighbors, [vec![4], vec![4], vec![4]]) {
                job.splits(&set, Size::swsgp(m, h), steps, [2, 2, 5], None)?;
            }
        }
    }
    Ok(())
}
