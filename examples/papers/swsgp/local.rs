//! Table 3: local GPs. 64 centres by k-means, and an expert of the 100 nearest rows at each. Inductive predictions are
//! those of the nearest expert. Transductive ones add the 100 rows nearest to the test row to it.

use cagey::Result;
use cagey::device::Precision;
use cagey::kernels::{Kernel, initial};
use cagey::likelihoods::Likelihood;
use cagey::models::exact::ExactGp;
use cagey::models::fit;
use cagey::models::inducing::centres;
use cagey::models::minibatch::Rows;
use cagey::models::posterior::{Marginals, Posterior};
use cagey::train::TrainConfig;
use serde_json::json;

use crate::Options;
use crate::common::command::Job;
use crate::common::rows::Task;
use crate::common::scores::{of_normal, shown};
use crate::model::Size;

/// RMSE and NLPD in the target's units.
type Found = [f64; 2];

pub fn table(job: &Job<Options>) -> Result<()> {
    let experts = job.size(&job.own.inducing, [vec![8], vec![64], vec![64]])[0];
    let (rows, steps) = (job.pick([30, 100, 100]), job.steps([150, 20_000, 300_000]));
    for set in job.sets(&job.own.sets, &["power_plant", "kin8nm"]) {
        for h in [4, 8] {
            job.splits(&set, Size::swsgp(experts, h), steps, [1, 1, 10], None)?;
        }
        for transductive in [false, true] {
            let mut all: Vec<Found> = Vec::new();
            for split in job.seeds([1, 1, 10]) {
                let key = json!({ "set": set, "split": split, "experts": experts, "rows": rows,
                    "transductive": transductive, "of": job.own.rows });
                all.push(job.once(key, || local(job, &job.split(&set, split)?, [experts, rows], transductive))?);
            }
            let [error, nlpd] = [0, 1].map(|k| shown(&all.iter().map(|f| f[k]).collect::<Vec<_>>()));
            println!(
                "{set} {} GPs: error {error}, NLPD {nlpd}",
                if transductive { "transductive" } else { "inductive" }
            );
        }
    }
    Ok(())
}

/// The rows nearest to a point.
fn nearest(x: &[f64], d: usize, point: &[f64], count: usize) -> Vec<usize> {
    let distance = |row: &[f64]| row.iter().zip(point).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
    let mut order: Vec<(f64, usize)> = x.chunks(d).map(distance).zip(0..).collect();
    let count = count.min(order.len());
    order.select_nth_unstable_by(count - 1, |a, b| a.0.total_cmp(&b.0));
    let mut rows: Vec<usize> = order[..count].iter().map(|(_, row)| *row).collect();
    rows.sort_unstable();
    rows
}

fn local(job: &Job<Options>, task: &Task, [count, rows]: [usize; 2], transductive: bool) -> Result<Found> {
    let (train, d, compute) = (&task.train, task.train.d, job.compute(Precision::F64));
    let places = centres(&train.x, d, count, 0)?;
    let mut experts = Vec::new();
    for place in places.chunks(d) {
        let own = nearest(&train.x, d, place, rows);
        let data = train.gather(&own)?;
        let mut kernel = Kernel::parse(&job.own.kernel, d)?;
        initial::initialise(&mut kernel, &data.x, d);
        let mut model = ExactGp::new(kernel);
        fit::fit(&mut model, compute, &data, &TrainConfig::default(), &mut [])?;
        let posterior = model.posterior(compute, data)?;
        experts.push((own, model, posterior));
    }
    // Each expert has a noise of its own, which is added here.
    let mut all = Marginals::default();
    for point in task.test.x.chunks(d) {
        let (own, model, posterior) = &experts[nearest(&places, d, point, 1)[0]];
        let said = if transductive {
            let mut rows = [own.clone(), nearest(&train.x, d, point, rows)].concat();
            rows.sort_unstable();
            rows.dedup();
            model.posterior(compute, train.gather(&rows)?)?.predict(point)?
        } else {
            posterior.predict(point)?
        };
        let noise = model.likelihood.noise().unwrap_or_default();
        all.mean.extend(said.mean);
        all.variance.extend(said.variance.iter().map(|v| v + noise));
    }
    let scored = of_normal(&task.test.y, &all, 0.0)?;
    Ok([scored.error * task.sd, scored.nlpd + task.sd.ln()])
}
