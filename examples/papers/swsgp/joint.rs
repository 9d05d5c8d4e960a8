//! Figure 5: joint predictions by the union of the neighbours of a test batch, against an exact GP and SVGP.

use cagey::Result;
use cagey::data::Split;
use cagey::device::Precision;
use cagey::kernels::{Kernel, initial};
use cagey::models::exact::ExactGp;
use cagey::models::fit;
use cagey::models::gp_model::GpModel;
use cagey::models::minibatch::Rows;
use cagey::models::posterior::{Joint, Marginals, Posterior};
use cagey::train::TrainConfig;
use serde_json::json;

use crate::Options;
use crate::common::command::Job;
use crate::common::drawing::{line, pane};
use crate::common::rows::Task;
use crate::common::scores::of_normal;
use crate::model::{Size, copied};

/// RMSE and NLPD of standardised targets, and the mean square of covariances minus those of the exact GP.
type Found = [f64; 3];

pub fn figure(job: &Job<Options>) -> Result<()> {
    let (rows, m) =
        (job.size(&job.own.rows, [300, 2000, 2000]), job.size(&job.own.inducing, [vec![64], vec![512], vec![512]])[0]);
    let (batches, steps) =
        (job.pick([vec![4, 16], vec![4, 16, 64], vec![4, 8, 16, 32, 64, 128]]), job.steps([150, 5000, 50_000]));
    let neighbours = job.size(&job.own.neighbors, [vec![4, 16], vec![4, 16, 64], vec![4, 8, 16, 32, 64]]);
    for set in job.sets(&job.own.sets, &["power_plant"]) {
        let whole = job.split(&set, 0)?;
        let drawn = Split::random(whole.train.n(), (rows as f64 / whole.train.n() as f64).min(0.9), 0)?.test;
        let task = Task { train: whole.train.gather(&drawn)?, ..whole };
        let compute = job.compute(Precision::F64);
        let mut kernel = Kernel::parse(&job.own.kernel, task.train.d)?;
        initial::initialise(&mut kernel, &task.train.x, task.train.d);
        let mut exact = ExactGp::new(kernel);
        fit::fit(&mut exact, compute, &task.train, &TrainConfig::while_it_pays(), &mut [])?;
        let exact_noise = cagey::likelihoods::Likelihood::noise(&exact.likelihood).unwrap_or_default();
        let known = exact.posterior(compute, task.train.clone())?;
        let most = *neighbours.iter().max().unwrap_or(&16);
        // Training takes the union of each batch's neighbours.
        let own = job.with(Options { union: true, full: true, ..job.own.clone() });
        let key = |size: Size| {
            let mut key = own.key(&set, size, steps, 0);
            key["item"] = json!("figure-5");
            key["rows"] = json!(rows);
            key.to_string()
        };
        let union = own.fit(Size::swsgp(m, most), &task, (steps, 0), 0, key(Size::swsgp(m, most)))?;
        let svgp = own.fit(Size::svgp(m), &task, (steps, 0), 0, key(Size::svgp(m)))?;
        let of_svgp = svgp.model.condition(compute, task.train.clone())?;
        let mut lines: Vec<(String, Vec<Found>)> = Vec::new();
        let mut add = |name: String, posterior: &dyn Posterior, noise: f64| -> Result<()> {
            let found = batches
                .iter()
                .map(|batch| against(posterior, &known, noise, &task, *batch))
                .collect::<Result<Vec<_>>>()?;
            for (batch, [rmse, nlpd, covariance]) in batches.iter().zip(&found) {
                println!(
                    "{set} {name}, batches of {batch}: RMSE {rmse:.4}, NLPD {nlpd:.4}, covariances {covariance:.2e}"
                );
            }
            lines.push((name, found));
            Ok(())
        };
        add("exact GP".into(), &known, exact_noise)?;
        add(format!("SVGP-{m}"), &*of_svgp, svgp.model.likelihood().noise().unwrap_or_default())?;
        for h in &neighbours {
            let mut fewer: Box<dyn GpModel> = own.build(Size::swsgp(m, *h), &task, 0)?;
            copied(&*union.model, &mut *fewer)?;
            let posterior = fewer.condition(compute, task.train.clone())?;
            add(format!("union of {h}"), &*posterior, fewer.likelihood().noise().unwrap_or_default())?;
        }
        let at: Vec<f64> = batches.iter().map(|batch| *batch as f64).collect();
        let series = |k: usize| -> Vec<_> {
            let column = |own: &[Found]| {
                own.iter().map(|f| if k == 2 { f[2].max(1e-30).log10() } else { f[k] }).collect::<Vec<_>>()
            };
            lines
                .iter()
                .filter(|(name, _)| k < 2 || name != "exact GP")
                .map(|(name, own)| line(name, &at, &column(own)))
                .collect()
        };
        let panes = [
            pane("RMSE", series(0)),
            pane("NLPD", series(1)),
            pane("log10 mean square of covariances minus the exact ones", series(2)),
        ];
        job.panels(&format!("-{set}"), [&set, "rows of a test batch", ""], true, &panes)?;
        let values: Vec<_> = lines.iter().map(|(name, own)| json!({ "name": name, "found": own })).collect();
        job.once(json!({ "set": set, "rows": rows, "inducing": m, "steps": steps, "batches": batches }), || {
            Ok(json!(values))
        })?;
    }
    Ok(())
}

fn against(posterior: &dyn Posterior, exact: &dyn Posterior, noise: f64, task: &Task, batch: usize) -> Result<Found> {
    let (d, mut all, mut squares, mut count) = (task.test.d, Marginals::default(), 0.0, 0);
    let most = task.test.n().min(512);
    for rows in task.test.x[..most * d].chunks(batch * d) {
        let Joint { mean, covariance } = posterior.predict_joint(rows)?;
        let known = exact.predict_joint(rows)?.covariance;
        squares += covariance.iter().zip(&known).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
        count += known.len();
        all.variance.extend(covariance.iter().step_by(mean.len() + 1));
        all.mean.extend(mean);
    }
    let scored = of_normal(&task.test.y[..most], &all, noise)?;
    Ok([scored.error, scored.nlpd, squares / count as f64])
}
