//! Actions for a task: the paper's outlook names Bayesian optimisation. Few actions have to find the place of a least
//! value among many. Half of them are residuals; the others are residuals too, or covariances with the places that
//! looked best so far, where an optimisation would look next.

use cagey::Result;
use cagey::device::Precision;
use cagey::kernels::Kernel;
use cagey::models::Observations;
use cagey::models::cagp::IterativeCagp;
use cagey::models::exact::ExactGp;
use cagey::models::posterior::{Marginals, Posterior};
use cagey::params::Parameters;
use cagey::solvers::itergp::IterGpOptions;
use cagey::solvers::policies::{Pivots, Policy, PseudoInput, Residual, UnitVector};
use serde_json::json;

use crate::Options;
use crate::common::command::Job;
use crate::common::rows::{generator, sample, standard, uniform};
use crate::common::scores::spread;

const KERNEL: &str = "matern52(lengthscale=0.3)";
const COLUMNS: usize = 3;
const NOISE: f64 = 0.01;

/// The rules that choose the second half of the actions.
const RULES: [&str; 4] = ["residuals", "rows by pivoted Cholesky", "random places", "places that look best"];

/// By rule: the value of the function at the place that is chosen, above the least; and root mean square distances of
/// mean and standard deviation from the exact model's at its fifty most promising places.
type Found = [f64; 3];

pub fn table(job: &Job<Options>) -> Result<()> {
    let rows = job.size(&job.own.rows, [200, 1000, 2000]);
    let places = job.pick([200, 2000, 2000]);
    for actions in job.pick([vec![16], vec![16, 32, 64, 128], vec![16, 32, 64, 128]]) {
        let mut all: Vec<Vec<Found>> = Vec::new();
        for seed in job.seeds([2, 20, 50]) {
            let key = json!({ "seed": seed, "rows": rows, "places": places, "actions": actions });
            all.push(job.once(key, || found(job, seed, [rows, places, actions]))?);
        }
        for (k, rule) in RULES.iter().enumerate() {
            let of = |at: usize| spread(&all.iter().map(|found| found[k][at]).collect::<Vec<_>>());
            let [(regret, sd), (mean, _), (deviation, _)] = [of(0), of(1), of(2)];
            println!(
                "{actions:>4} actions, {rule:<26} regret {regret:.4} ± {sd:.4}, mean off by {mean:.4}, \
                 standard deviation by {deviation:.4}"
            );
        }
    }
    Ok(())
}

/// How promising a place is for a least value: less is better.
fn bound(said: &Marginals) -> Vec<f64> {
    said.mean.iter().zip(&said.variance).map(|(mean, variance)| mean - 2.0 * variance.sqrt()).collect()
}

/// The places with the least of some values.
fn best(values: &[f64], count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    order.truncate(count);
    order
}

fn found(job: &Job<Options>, seed: u64, [rows, places, actions]: [usize; 3]) -> Result<Vec<Found>> {
    let (mut rng, compute) = (generator(seed), job.compute(Precision::F64));
    let kernel = || Kernel::parse(KERNEL, COLUMNS);
    let x = uniform((rows + places) * COLUMNS, 0.0, 1.0, &mut rng);
    let f = sample(&kernel()?, &x, COLUMNS, 1e-8, &mut rng)?;
    let (known, free) = x.split_at(rows * COLUMNS);
    let y = f[..rows].iter().map(|f| f + NOISE.sqrt() * standard(&mut rng)).collect();
    let data = Observations::new(known.to_vec(), COLUMNS, y, None)?;
    let values = &f[rows..];
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);

    let mut exact = ExactGp::new(kernel()?);
    exact.likelihood.noise.set(&[NOISE])?;
    let exact = exact.posterior(compute, data.clone())?.predict(free)?;
    let near = best(&bound(&exact), 50);

    let (half, random) = (actions / 2, uniform(actions / 2 * COLUMNS, 0.0, 1.0, &mut rng));
    let mut model = IterativeCagp::new(kernel()?, Box::new(Residual), IterGpOptions::budget(half));
    for (path, parameter) in model.parameters_mut() {
        if path.ends_with("noise") {
            parameter.set(&[NOISE])?;
        }
    }
    let first = model.posterior(compute, data)?.0;
    let promising = best(&bound(&first.predict(free)?), half);
    let promising: Vec<f64> = promising.iter().flat_map(|place| &free[place * COLUMNS..][..COLUMNS]).copied().collect();
    let rules: [Box<dyn Policy>; 4] = [
        Box::new(Residual),
        Box::new(UnitVector { pivots: Pivots::Largest }),
        Box::new(PseudoInput::new(&random, COLUMNS)?),
        Box::new(PseudoInput::new(&promising, COLUMNS)?),
    ];
    let score = |rule: &dyn Policy| {
        let said = first.compute_more(rule, &IterGpOptions::budget(half), None)?.0.predict(free)?;
        let chosen = best(&bound(&said), 1)[0];
        let off = |of: &dyn Fn(&Marginals, usize) -> f64| {
            let squares = near.iter().map(|place| (of(&said, *place) - of(&exact, *place)).powi(2));
            (squares.sum::<f64>() / near.len() as f64).sqrt()
        };
        let (mean, deviation) = (off(&|said, at| said.mean[at]), off(&|said, at| said.variance[at].sqrt()));
        Ok([values[chosen] - least, mean, deviation])
    };
    rules.iter().map(|rule| score(&**rule)).collect()
}
