//! Rules on tables: Tables 2 and 3, and Figure 6 (section 5.2). Sparse experts with an RBF kernel and 128 inducing
//! inputs, 80 % of the rows to train on, 100 rounds of FedAvg by Adam. Scores are those of the target's units.

use cagey::Result;
use cagey::data::{ReadOptions, Split, read_training};
use cagey::device::Precision;
use cagey::kernels::{Kernel, initial};
use cagey::models::experts::aggregation::Rule;
use cagey::models::experts::{Algorithm, Experts, Federation, Partition, Shared};
use cagey::models::gp_model::{GpModel, Training};
use cagey::models::inducing::{self, Choice};
use cagey::models::sgpr::Sgpr;
use cagey::train::{Adam, Optimizer, TrainConfig};
use serde_json::json;

use crate::Options;
use crate::common::command::Job;
use crate::common::drawing::pane;
use crate::common::rows::{standardised, surface};
use crate::rules::{self, All};

const SMALL: [&str; 2] = ["pol", "elevators"];
const LARGE: [&str; 3] = ["kin40k", "keggundirected", "protein_raw"];

pub fn second(job: &Job<Options>) -> Result<()> {
    results(job, &SMALL).map(|_| ())
}

pub fn third(job: &Job<Options>) -> Result<()> {
    results(job, &LARGE).map(|_| ())
}

/// Figure 6: the scores by number of experts.
pub fn figure(job: &Job<Options>) -> Result<()> {
    for (set, at, all) in results(job, &[&SMALL[..], &LARGE[..]].concat())? {
        let panes = [
            pane("RMSE", rules::series(&at, &all, |f| f.scored.error)),
            pane("NLPD", rules::series(&at, &all, |f| f.scored.nlpd)),
            pane("log10 seconds of predictions", rules::series(&at, &all, |f| f.seconds.max(1e-6).log10())),
        ];
        job.panels(&format!("-{set}"), [&set, "experts", ""], true, &panes)?;
    }
    Ok(())
}

/// For each table the numbers of experts, and for each of them the runs.
type Results = Vec<(String, Vec<f64>, Vec<Vec<All>>)>;

fn results(job: &Job<Options>, usual: &[&str]) -> Result<Results> {
    let mut results = Vec::new();
    for set in job.sets(&job.own.sets, usual) {
        let counts = if LARGE.contains(&set.as_str()) { vec![8, 16, 64] } else { vec![4, 10, 20] };
        let counts = job.size(&job.own.experts, [vec![4], counts.clone(), counts]);
        let mut all = Vec::new();
        for &count in &counts {
            let mut runs = Vec::new();
            for seed in job.seeds([1, 1, 10]) {
                let own = &job.own;
                let (rounds, m) = (job.size(&own.rounds, [10, 100, 100]), job.size(&own.inducing, [16, 128, 128]));
                let rows = job.common.data.is_none().then_some(job.size(&own.rows, [300, 4000, 15_000]));
                let key = json!({ "item": "tables", "set": set, "experts": count, "seed": seed, "rounds": rounds,
                    "inducing": m, "fact": own.fact, "tree": own.tree, "local": own.local_steps, "rows": rows });
                runs.push(job.once(key, || run(job, &set, [count, rounds, m], rows, seed))?);
            }
            rules::show(&format!("{set}, M = {count}"), &runs);
            all.push(runs);
        }
        results.push((set, counts.iter().map(|count| *count as f64).collect(), all));
    }
    Ok(results)
}

fn run(job: &Job<Options>, set: &str, [count, rounds, m]: [usize; 3], rows: Option<usize>, seed: u64) -> Result<All> {
    let data = match (&job.common.data, rows) {
        (Some(folder), _) => read_training(folder.join(format!("{set}.csv.gz")), &ReadOptions::default())?.1,
        (None, rows) => surface(rows.unwrap_or(4000))?,
    };
    let split = Split::random(data.n, 0.2, seed)?;
    let task = standardised(&data.subset(&split.train), &data.subset(&split.test), true)?;
    let (train, d, compute) = (&task.train, task.train.d, job.compute(Precision::F64));
    let mut kernel = Kernel::parse("rbf(ard)", d)?;
    initial::initialise(&mut kernel, &train.x, d);
    let z = inducing::choose(Choice::Random, &kernel, &train.x, d, m, seed)?;
    let parts = job.partition().split(train, &[], count, seed)?;
    let common = Partition::Random.split(train, &[], count, seed)?.swap_remove(0);
    let mut experts = Experts::new(Shared::Sparse(Sgpr::new(kernel, &z, d)?), Rule::Grbcm, parts, common)?;
    let algorithm = if job.own.fact { Algorithm::Fact } else { Algorithm::Fedavg };
    experts.federation = Federation { algorithm, local_steps: Some(job.own.local_steps), ..Federation::default() };
    let config = match algorithm {
        Algorithm::Fact => TrainConfig::while_it_pays(),
        _ => TrainConfig::new(Optimizer::Adam(Adam { rate: 0.1, ..Adam::default() }), rounds).seed(seed),
    };
    experts
        .train(Training { compute, data: train, rows: train, batches: None, config: &config, spread: None }, &mut [])?;
    let noise = experts.likelihood().noise().unwrap_or_default();
    let posterior = experts.posterior(compute, train.clone())?;
    let mut all = rules::scored(&posterior, (&task.test.x, &task.test.y), noise, None)?;
    for found in all.values_mut() {
        found.scored.error *= task.sd;
        found.scored.nlpd += task.sd.ln();
    }
    Ok(all)
}
