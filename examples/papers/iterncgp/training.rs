//! How many Newton steps, and how many actions in each, does one step of the hyperparameters need, and what does a
//! gradient through all of them gain over held actions? The paper leaves this open. Each setting trains for at most the
//! same time. Then a full solve gives the bound of the kernel that it found, and the score on test rows. The functions
//! are drawn from a prior whose kernel is known.

use std::time::Duration;

use cagey::Result;
use cagey::device::{Compute, Precision};
use cagey::kernels::Kernel;
use cagey::likelihoods::{Likelihood, Poisson, RateLink};
use cagey::models::cagp::{IterativeCagp, NewtonOptions, SiteRule};
use cagey::models::fit;
use cagey::scope::Scope;
use cagey::solvers::itergp::IterGpOptions;
use cagey::solvers::policies::Gradient;
use cagey::train::TrainConfig;
use serde_json::json;

use crate::Options;
use crate::common::command::Job;
use crate::common::rows::{Task, generator, halves, sample, uniform};
use crate::common::scores::{nll, spread};
use crate::pseudo::logit;

/// The kernel of the data, and the start of training.
const TRUTH: &str = "matern52(lengthscale=0.15, variance=3.0)";
const START: &str = "matern52(lengthscale=0.6, variance=1.0)";

/// Evaluations, the bound per row, and test NLL.
type Found = [f64; 3];

/// One setting on one draw.
struct Scene<'a> {
    likelihood: &'a dyn Likelihood,
    task: Task,
    compute: Compute,
    budget: usize,
}

pub fn table(job: &Job<Options>) -> Result<()> {
    let own = &job.own;
    let (rows, seconds) = (job.size(&own.rows, [80, 1500, 4000]), job.size(&own.seconds, [0.3, 10.0, 60.0]));
    let steps = job.size(&own.steps, [vec![2, 0], vec![1, 2, 5, 0], vec![1, 2, 5, 0]]);
    let actions = job.size(&own.actions, [vec![5], vec![1, 5, 20, 100], vec![1, 5, 20, 100]]);
    let (budget, compute) = (job.pick([20, 200, 200]), job.compute(Precision::F64));
    let likelihoods: [Box<dyn Likelihood>; 2] = [Box::new(logit()), Box::new(Poisson { link: RateLink::Exp })];
    for likelihood in &likelihoods {
        let name = likelihood.text();
        println!(
            "{name}: {:>10} {:>10} {:>12} {:>12} {:>10}",
            "Newton", "actions", "evaluations", "bound / row", "test NLL"
        );
        let line = |steps: Option<usize>, actions: usize, unrolled: bool| -> Result<()> {
            let mut all: Vec<Found> = Vec::new();
            for seed in job.seeds([1, 1, 3]) {
                let key = json!({ "likelihood": name, "rows": rows, "seconds": seconds, "budget": budget,
                    "steps": steps, "actions": actions, "unrolled": unrolled, "seed": seed });
                all.push(job.once(key, || {
                    let task = drawn(&**likelihood, rows, seed)?;
                    Scene { likelihood: &**likelihood, task, compute, budget }.found(steps, actions, unrolled, seconds)
                })?);
            }
            let [evaluations, bound, nll] =
                std::array::from_fn(|at| spread(&all.iter().map(|row| row[at]).collect::<Vec<_>>()).0);
            let shown = match steps {
                None => "truth".into(),
                Some(0) => "settled".into(),
                Some(steps) if unrolled => format!("through {steps}"),
                Some(steps) => steps.to_string(),
            };
            println!("{name}: {shown:>10} {actions:>10} {evaluations:>12.0} {bound:>12.4} {nll:>10.4}");
            Ok(())
        };
        line(None, 0, false)?;
        for &steps in &steps {
            for &actions in actions.iter().filter(|actions| steps > 0 || **actions <= budget) {
                line(Some(steps), actions, false)?;
                if steps > 0 {
                    line(Some(steps), actions, true)?;
                }
            }
        }
    }
    Ok(())
}

impl Scene<'_> {
    fn model(&self, kernel: Kernel, actions: usize, newton: NewtonOptions) -> IterativeCagp {
        let options = IterGpOptions { relative: 1e-6, ..IterGpOptions::budget(actions) };
        let policy = Box::new(Gradient::default());
        let gp = IterativeCagp::boxed(kernel.into(), self.likelihood.boxed(), policy, options);
        IterativeCagp { sites: SiteRule::Expectation, newton, ..gp }
    }

    /// Trains with so many Newton steps of so many actions, with gradients through them if they are unrolled; without a
    /// number of steps, takes the kernel of the data.
    fn found(&self, steps: Option<usize>, actions: usize, unrolled: bool, seconds: f64) -> Result<Found> {
        let Some(steps) = steps else { return self.solved(0.0, Kernel::parse(TRUTH, 2)?) };
        let budget = if steps == 0 { self.budget } else { steps * actions };
        let usual = NewtonOptions { per_step: actions, ..NewtonOptions::spread(budget) };
        let newton = if steps == 0 { usual } else { NewtonOptions { steps, ..usual } };
        let mut gp = self.model(Kernel::parse(START, 2)?, budget, newton);
        if unrolled {
            (gp.unrolled, gp.sites) = (steps, SiteRule::Mode);
        }
        let config = TrainConfig::while_it_pays().max_time(Duration::from_secs_f64(seconds));
        let outcome = fit::fit(&mut gp, self.compute, &self.task.train, &config, &mut [])?;
        self.solved(outcome.evaluations as f64, gp.priors.swap_remove(0).kernel)
    }

    /// The bound per row at a kernel, and the test score, with all actions.
    fn solved(&self, evaluations: f64, kernel: Kernel) -> Result<Found> {
        let (gp, train) = (self.model(kernel, self.budget, NewtonOptions::spread(self.budget)), &self.task.train);
        let batch = train.batch(&Scope::new(self.compute)?);
        let bound = fit::evaluate(&gp, self.compute, &batch)?.loss / train.n() as f64;
        let posterior = gp.posterior(self.compute, train.clone())?.0;
        Ok([evaluations, bound, nll(&posterior, self.likelihood, &self.task.test)?])
    }
}

/// Targets of a function drawn from the prior, at random places of the unit square.
fn drawn(likelihood: &dyn Likelihood, rows: usize, seed: u64) -> Result<Task> {
    let mut rng = generator(seed);
    let x = uniform(4 * rows, 0.0, 1.0, &mut rng);
    let f = sample(&Kernel::parse(TRUTH, 2)?, &x, 2, 1e-8, &mut rng)?;
    let density = likelihood.density();
    let y: Vec<f64> = f.into_iter().map(|f| density.sample(&[f], 1.0, &mut rng)).collect();
    halves(&x, 2, &y, rows)
}
