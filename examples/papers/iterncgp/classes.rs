//! Compares classifiers that have one kernel for all classes: scores against seconds.

use std::time::{Duration, Instant};

use cagey::Result;
use cagey::device::Compute;
use cagey::kernels::Kernel;
use cagey::likelihoods::Softmax;
use cagey::models::Observations;
use cagey::models::cagp::{IterativeCagp, NewtonOptions, SiteRule};
use cagey::models::fit;
use cagey::models::inducing::{Choice, choose};
use cagey::models::laplace::LaplaceGp;
use cagey::models::minibatch::{self, Minibatches};
use cagey::models::posterior::Posterior;
use cagey::models::svgp::Svgp;
use cagey::params::Parameters;
use cagey::plot::Series;
use cagey::solvers::itergp::IterGpOptions;
use cagey::solvers::policies::{Gradient, Pivots, Policy, Preconditioned, Residual, UnitVector};
use cagey::train::{Adam, Optimizer, Schedule, TrainConfig};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Options;
use crate::common::command::Job;
use crate::common::drawing::{mean, pane};
use crate::common::scores::{Scored, of_classes, probabilities, shown};

/// The data to learn from and to score on.
pub struct Task {
    pub kernel: Kernel,
    pub classes: usize,
    pub train: Observations,
    pub test: Observations,
    pub compute: Compute,
}

/// What one solve or training gave.
#[derive(Clone, Serialize, Deserialize)]
pub struct Found {
    /// Seconds until there was a posterior.
    pub seconds: f64,
    pub train: Scored,
    pub test: Scored,
    pub report: String,
}

/// A number of a result, with the title of its panel.
type Column = (&'static str, fn(&Found) -> f64);

/// The runs of one method: its name, and the results for each size, seed after seed.
pub type Runs = (String, Vec<Vec<Found>>);

impl Task {
    fn first(&self, rows: usize) -> Result<Observations> {
        let (train, rows) = (&self.train, rows.min(self.train.n()));
        Observations::new(train.x[..rows * train.d].to_vec(), train.d, train.y[..rows].to_vec(), None)
    }

    /// The scores of a posterior that took `seconds`, without the time of predictions. As many training rows are scored
    /// as there are test rows.
    fn scored(&self, seconds: f64, posterior: &dyn Posterior, report: String) -> Result<Found> {
        let (likelihood, train) = (Softmax::new(self.classes), self.first(self.test.n())?);
        let of = |data: &Observations| of_classes(&data.y, &probabilities(posterior, &likelihood, &data.x)?);
        Ok(Found { seconds, train: of(&train)?, test: of(&self.test)?, report })
    }

    /// Newton's method with a policy.
    fn newton(&self, policy: Box<dyn Policy>, options: IterGpOptions, newton: NewtonOptions) -> Result<Found> {
        let likelihood = Box::new(Softmax::new(self.classes));
        let gp = IterativeCagp::boxed(self.kernel.clone().into(), likelihood, policy, options);
        let start = Instant::now();
        let (posterior, report) = IterativeCagp { newton, ..gp }.posterior(self.compute, self.train.clone())?;
        self.scored(start.elapsed().as_secs_f64(), &posterior, report.to_string())
    }

    /// `actions` products with K. With the gradients of classes, each of them gives an action for each class.
    pub fn gradients(&self, per_class: bool, [actions, per_step]: [usize; 2], kept: Option<usize>) -> Result<Found> {
        let each = if per_class { self.classes } else { 1 };
        let (options, usual) = (IterGpOptions::budget(each * actions), NewtonOptions::spread(each * actions));
        let newton = NewtonOptions { per_step: each * per_step, kept, settled: 1e-2, ..usual };
        self.newton(Box::new(Gradient { per_class }), options, newton)
    }

    /// Residuals as actions, as in the paper.
    pub fn residuals(&self, [actions, per_step]: [usize; 2], kept: Option<usize>) -> Result<Found> {
        let newton = NewtonOptions { per_step, kept, settled: 1e-2, ..NewtonOptions::spread(actions) };
        self.newton(Box::new(Residual), IterGpOptions::budget(actions), newton)
    }

    /// Preconditioned actions until the gradient has a hundredth of its size; the rest explain variances.
    pub fn preconditioned(&self, actions: usize, rank: usize) -> Result<Found> {
        let rows = Box::new(UnitVector { pivots: Pivots::Largest });
        let options = IterGpOptions { relative: 1e-2, ..IterGpOptions::budget(actions) };
        let usual = NewtonOptions::spread(actions);
        let newton = NewtonOptions { per_step: 1, settled: 1e-2, explain: true, ..usual };
        self.newton(Box::new(Preconditioned::new(rows, rank, Box::new(Residual))), options, newton)
    }

    /// The dense approximation with the first `rows` rows.
    pub fn subset(&self, rows: usize) -> Result<Found> {
        let (data, start) = (self.first(rows)?, Instant::now());
        let model = LaplaceGp::new(self.kernel.clone(), Softmax::new(self.classes));
        let posterior = model.posterior(self.compute, data)?;
        self.scored(start.elapsed().as_secs_f64(), &posterior, String::new())
    }

    /// A variational model with the same kernel, trained for `seconds`; it learns its inducing inputs.
    pub fn svgp(&self, inducing: usize, rate: f64, seconds: f64, seed: u64) -> Result<Found> {
        let (start, rows) = (Instant::now(), &self.train);
        let z = choose(Choice::Random, &self.kernel, &rows.x, rows.d, inducing, seed)?;
        let mut model = Svgp::new(self.kernel.clone(), &z, rows.d, Softmax::new(self.classes))?;
        for process in &mut model.processes {
            process.prior.kernel.parameters_mut().into_iter().for_each(|(_, parameter)| parameter.fixed = true);
        }
        let adam = Adam { rate, schedule: Schedule::Constant, ..Adam::default() };
        let left = (seconds - start.elapsed().as_secs_f64()).max(0.5);
        let config =
            TrainConfig::new(Optimizer::Adam(adam), 1_000_000).seed(seed).max_time(Duration::from_secs_f64(left));
        let batches = Minibatches { size: 1024, natural: Some(0.2), ..Minibatches::default() };
        let outcome = minibatch::fit(&mut model, self.compute, rows, &batches, &config, &mut [])?;
        let report = format!("{} steps", outcome.iterations);
        self.scored(start.elapsed().as_secs_f64(), &model.posterior(self.compute)?, report)
    }

    /// The same task with the kernel whose parameters minimise the bound of the first `rows` rows, with `actions`
    /// actions. Prints what was found.
    pub fn with_learned_kernel(self, rows: usize, actions: usize) -> Result<Self> {
        let (data, start) = (self.first(rows)?, Instant::now());
        let gp = IterativeCagp::newton(self.kernel.clone(), Softmax::new(self.classes), actions);
        let policy = Box::new(Gradient { per_class: true });
        let mut gp = IterativeCagp { policy, sites: SiteRule::Expectation, refresh: 10, ..gp };
        let outcome = fit::fit(&mut gp, self.compute, &data, &TrainConfig::while_it_pays(), &mut [])?;
        let kernel = gp.priors.swap_remove(0).kernel;
        let (seconds, rows) = (start.elapsed().as_secs_f64(), data.n());
        println!("kernel {kernel}: {seconds:.1} s, {rows} rows, {actions} actions, loss per row {:.4}", outcome.loss);
        Ok(Self { kernel, ..self })
    }
}

impl Job<Options> {
    /// The results of a method for several sizes and all seeds.
    pub fn over<S: Serialize + Copy>(
        &self,
        name: &str,
        (tasks, base): (&[Task], &Value),
        sizes: &[S],
        run: impl Fn(&Task, S, u64) -> Result<Found>,
    ) -> Result<Runs> {
        let mut all = Vec::new();
        for size in sizes {
            let mut own = Vec::new();
            for (seed, task) in tasks.iter().enumerate() {
                let mut key = base.clone();
                key["method"] = json!(name);
                key["size"] = json!(size);
                key["seed"] = json!(seed);
                own.push(self.once(key, || run(task, *size, seed as u64))?);
            }
            let column = |of: fn(&Found) -> f64| shown(&own.iter().map(of).collect::<Vec<_>>());
            println!(
                "{name} {}: {} s, accuracy {} (train {}), NLL {} ({}), ECE {} ({}); {}",
                json!(size),
                column(|f| f.seconds),
                column(|f| 1.0 - f.test.error),
                column(|f| 1.0 - f.train.error),
                column(|f| f.test.nlpd),
                column(|f| f.train.nlpd),
                column(|f| f.test.calibration),
                column(|f| f.train.calibration),
                own[0].report
            );
            all.push(own);
        }
        Ok((name.into(), all))
    }

    /// Draws accuracy, NLL and ECE of test rows against seconds: means over runs, or each run.
    pub fn against_seconds(&self, title: &str, all: &[Runs], each: bool) -> Result<()> {
        let columns: [Column; 3] = [
            ("test accuracy", |f| 1.0 - f.test.error),
            ("test NLL", |f| f.test.nlpd),
            ("test calibration error (ECE)", |f| f.test.calibration),
        ];
        let panes: Vec<_> = columns
            .iter()
            .map(|(title, of)| {
                let series = all.iter().flat_map(|(name, sizes)| -> Vec<Series> {
                    let seeds = sizes.first().map_or(0, Vec::len);
                    let draw = |seeds: std::ops::Range<usize>| {
                        let pick = |of: &dyn Fn(&Found) -> f64| -> Vec<Vec<f64>> {
                            sizes.iter().map(|own| own[seeds.clone()].iter().map(of).collect()).collect()
                        };
                        let seconds: Vec<f64> =
                            pick(&|f| f.seconds).iter().map(|s| s.iter().sum::<f64>() / s.len() as f64).collect();
                        mean(name.clone(), &seconds, &pick(of))
                    };
                    if each { (0..seeds).map(|s| draw(s..s + 1)).collect() } else { vec![draw(0..seeds)] }
                });
                pane(*title, series.collect())
            })
            .collect();
        self.panels("", [title, "seconds", ""], true, &panes)
    }
}

/// The seconds of the longest run.
pub fn longest(all: &[Runs]) -> f64 {
    all.iter().flat_map(|(_, sizes)| sizes).flatten().map(|found| found.seconds).fold(0.0, f64::max)
}
