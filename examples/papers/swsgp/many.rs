//! Many inducing inputs: Figure 4, and the time of a step.

use std::time::Instant;

use cagey::Result;
use cagey::device::Precision;
use serde_json::json;

use crate::Options;
use crate::common::command::Job;
use crate::common::drawing::{line, pane};
use crate::common::rows::{Task, standardised, surface};
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

/// Milliseconds of a step and of a prediction by the number of inducing inputs, which are rows of a surface.
pub fn time(job: &Job<Options>) -> Result<()> {
    let inducing = job
        .size(&job.own.inducing, [vec![100, 1000], vec![100, 1000, 10_000, 100_000], vec![100, 1000, 10_000, 100_000]]);
    let (h, steps) = (job.size(&job.own.neighbors, [vec![16], vec![16], vec![16, 100]]), job.steps([30, 200, 1000]));
    let rows = job.size(&job.own.rows, [2000, 120_000, 200_000]);
    let (data, compute) = (surface(rows)?, job.compute(Precision::F32));
    let part = |from: usize, to: usize| data.subset(&(from..to).collect::<Vec<_>>());
    let Task { train, test, sd } = standardised(&part(0, rows - 500), &part(rows - 500, rows), true)?;
    let task = Task { train, test, sd };
    let mut lines = Vec::new();
    for h in h {
        let (mut step, mut prediction) = (Vec::new(), Vec::new());
        for &m in &inducing {
            let key = json!({ "inducing": m, "neighbours": h, "rows": rows, "steps": steps, "compute": compute });
            let found: [f64; 4] =
                job.once(key, || timed(job, Size { fixed: true, ..Size::swsgp(m, h) }, &task, steps))?;
            let [build, t1, t2, error] = found;
            println!(
                "M = {m:>6}, H = {h}: {build:.1} s to start, {t1:.3} ms a step, {t2:.3} ms a prediction, RMSE {error:.4}"
            );
            step.push(t1);
            prediction.push(t2);
        }
        let at: Vec<f64> = inducing.iter().map(|m| *m as f64).collect();
        lines.push(line(format!("a step, H = {h}"), &at, &step));
        lines.push(line(format!("a prediction of one row, H = {h}"), &at, &prediction));
    }
    job.panels("", ["fixed inducing inputs, variances only", "inducing inputs M", "ms"], true, &[pane("", lines)])
}

/// Seconds until the first step, milliseconds of a step and of a prediction of one row, and the error.
fn timed(job: &Job<Options>, size: Size, task: &Task, steps: usize) -> Result<[f64; 4]> {
    use cagey::models::gp_model::Training;
    let (start, compute) = (Instant::now(), job.compute(Precision::F32));
    let mut model = job.build(size, task, 0)?;
    let options = job.options(size);
    let run = |model: &mut Box<dyn cagey::models::gp_model::GpModel>, steps: usize| {
        let config = job.config(steps, 0);
        let batches = options.minibatches();
        let training =
            Training { compute, data: &task.train, rows: &task.train, batches, config: &config, spread: None };
        let start = Instant::now();
        model.train(training, &mut [])?;
        Ok::<_, cagey::Error>(start.elapsed().as_secs_f64())
    };
    // The search for the neighbours of all rows comes before the first step of each training.
    let one = run(&mut model, 1)?;
    let build = start.elapsed().as_secs_f64();
    let all = run(&mut model, steps + 1)?;
    let posterior = model.condition(compute, task.train.clone())?;
    let start = Instant::now();
    for row in task.test.x.chunks(task.test.d).take(50) {
        posterior.predict(row)?;
    }
    let prediction = 1e3 * start.elapsed().as_secs_f64() / 50.0;
    let error = crate::common::training::scored(&*posterior, &*model, task)?.error;
    Ok([build, 1e3 * (all - one).max(0.0) / steps as f64, prediction, error])
}
