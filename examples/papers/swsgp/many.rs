//! Many inducing inputs: Figure 4, and the time of a step.

use std::ops::ControlFlow;
use std::time::Instant;

use cagey::Result;
use cagey::device::Precision;
use cagey::kernels::Kernel;
use cagey::likelihoods::Gaussian;
use cagey::models::gp_model::{GpModel, Training};
use cagey::models::minibatch::Minibatches;
use cagey::models::posterior::Posterior;
use cagey::models::swsgp::Swsgp;
use cagey::train::{Observer, Report};
use serde_json::json;

use crate::Options;
use crate::common::command::Job;
use crate::common::drawing::{line, pane, quantile};
use crate::common::rows::{Task, generator, standardised, surface, uniform};
use crate::common::training::Record;
use crate::model::Size;

/// Figure 4: fixed inducing inputs, variances only, beside SVGP with 128 and 512.
pub fn figure(job: &Job<Options>) -> Result<()> {
    let (steps, h) =
        (job.steps([200, 20_000, 300_000]), job.size(&job.own.neighbors, [vec![8], vec![16], vec![16, 100]]));
    let inducing = job.size(&job.own.inducing, [vec![200], vec![3000], vec![3000, 5000, 10_000]]);
    for set in job.sets(&job.own.sets, &["protein_raw", "eeg"]) {
        let mut sizes: Vec<Size> =
            job.pick([vec![32], vec![128, 512], vec![128, 512]]).into_iter().map(Size::svgp).collect();
        for h in &h {
            sizes.extend(inducing.iter().map(|m| Size { fixed: true, ..Size::swsgp(*m, *h) }));
        }
        let mut all: Vec<(String, Record)> = Vec::new();
        for size in sizes {
            let mut key = job.key(&set, size, steps, 0);
            key["curve"] = json!(true);
            let text = key.to_string();
            let record = job.once(key, || Ok(job.fit(size, &job.split(&set, 0)?, (steps, 20), 0, text)?.record))?;
            let end = record.end();
            println!(
                "{set} {:<20} error {:.4}, NLPD {:.4} (units of the training), {:.1} s, {:.2} ms a step",
                size.name(),
                end.test.error,
                end.test.nlpd,
                end.seconds,
                1e3 * end.seconds / record.steps.max(1) as f64
            );
            all.push((size.name(), record));
        }
        let series = |of: fn(&crate::common::training::Point) -> f64| -> Vec<_> {
            all.iter().map(|(name, record)| line(name, &record.column(|p| p.seconds), &record.column(of))).collect()
        };
        let panes = [pane("test error", series(|p| p.test.error)), pane("test NLPD", series(|p| p.test.nlpd))];
        job.panels(&format!("-{set}"), [&set, "seconds", ""], true, &panes)?;
    }
    Ok(())
}

/// Milliseconds of a step and of a prediction by the number of inducing inputs, which lie anywhere over a surface.
pub fn time(job: &Job<Options>) -> Result<()> {
    let counts = vec![100, 1000, 10_000, 100_000];
    let inducing = job.size(&job.own.inducing, [vec![100, 1000], counts.clone(), counts]);
    let (h, steps) = (job.size(&job.own.neighbors, [vec![16], vec![16], vec![16, 100]]), job.steps([30, 300, 10_000]));
    let rows = job.size(&job.own.rows, [2000, 20_000, 1_000_000]);
    let (data, compute) = (surface(rows)?, job.compute(Precision::F32));
    let part = |from: usize, to: usize| data.subset(&(from..to).collect::<Vec<_>>());
    let task = standardised(&part(0, rows - 500), &part(rows - 500, rows), true)?;
    let mut lines = Vec::new();
    for h in h {
        let (mut step, mut prediction) = (Vec::new(), Vec::new());
        for &m in &inducing {
            let key = json!({ "inducing": m, "neighbours": h, "rows": rows, "steps": steps, "batch": job.own.batch,
                "compute": compute });
            let [start, t1, t2]: [f64; 3] = job.once(key, || timed(job, [m, h], &task, steps))?;
            println!("M = {m:>6}, H = {h}: {start:.2} s to start, {t1:.3} ms a step, {t2:.3} ms a prediction");
            step.push(t1);
            prediction.push(t2);
        }
        let at: Vec<f64> = inducing.iter().map(|m| *m as f64).collect();
        lines.push(line(format!("a step, H = {h}"), &at, &step));
        lines.push(line(format!("a prediction of one row, H = {h}"), &at, &prediction));
    }
    let title = "fixed inducing inputs, variances only";
    job.panels("", [title, "inducing inputs M", "ms"], true, &[pane("", lines)])
}

/// Notes when each step ended.
#[derive(Default)]
struct Clock(Vec<Instant>);

impl Observer for Clock {
    fn step(&mut self, _: &Report) -> ControlFlow<()> {
        self.0.push(Instant::now());
        ControlFlow::Continue(())
    }
}

/// Seconds until the first step, which searches for the neighbours of all rows, and medians of the milliseconds of a
/// step and of a prediction of one row.
fn timed(job: &Job<Options>, [m, h]: [usize; 2], task: &Task, steps: usize) -> Result<[f64; 3]> {
    let (compute, d) = (job.compute(Precision::F32), task.train.d);
    let z = uniform(m * d, -1.7, 1.7, &mut generator(1));
    let kernel = Kernel::parse("matern52(0.3)", d)?;
    let mut model = Swsgp::new(kernel, &z, d, h, Gaussian::new(0.1))?;
    model.process.inducing.fixed = true;
    let batches = Minibatches { size: job.own.batch, ..Minibatches::default() };
    let config = job.config(steps, 0);
    let (data, mut clock, start) = (&task.train, Clock::default(), Instant::now());
    let training = Training { compute, data, rows: data, batches: Some(&batches), config: &config, spread: None };
    model.train(training, &mut [&mut clock])?;
    let first = clock.0.first().map_or(0.0, |first| (*first - start).as_secs_f64());
    let each: Vec<f64> = clock.0.windows(2).map(|pair| 1e3 * (pair[1] - pair[0]).as_secs_f64()).collect();
    let posterior = model.posterior(compute);
    let mut predictions = Vec::new();
    for row in task.test.x.chunks(d).take(50) {
        let start = Instant::now();
        posterior.predict(row)?;
        predictions.push(1e3 * start.elapsed().as_secs_f64());
    }
    Ok([first, quantile(&each, 0.5), quantile(&predictions, 0.5)])
}
