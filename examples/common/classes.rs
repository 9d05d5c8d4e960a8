//! Compares classifiers that have one kernel for all classes: scores against seconds.
#![allow(dead_code)] // each example uses its own part

use std::path::Path;
use std::time::{Duration, Instant};

use cagey::Result;
use cagey::device::Compute;
use cagey::kernels::Kernel;
use cagey::likelihoods::{Likelihood, Softmax};
use cagey::metrics::score_classes;
use cagey::models::Observations;
use cagey::models::cagp::{IterativeCagp, NewtonOptions, SiteRule};
use cagey::models::fit;
use cagey::models::inducing::{Choice, choose};
use cagey::models::laplace::LaplaceGp;
use cagey::models::minibatch::{self, Minibatches};
use cagey::models::posterior::{Correlated, Posterior};
use cagey::models::svgp::Svgp;
use cagey::params::Parameters;
use cagey::plot::{Against, Figure, Frame, LearningCurve, Run};
use cagey::solvers::itergp::IterGpOptions;
use cagey::solvers::policies::{Gradient, Pivots, Policy, Preconditioned, Residual, UnitVector};
use cagey::train::{Adam, Optimizer, Schedule, TrainConfig};

/// The data to learn from and to score on.
pub struct Task {
    pub kernel: Kernel,
    pub classes: usize,
    pub train: Observations,
    pub test: Observations,
    pub compute: Compute,
}

/// Scores of one model.
#[derive(Clone, Copy)]
pub struct Scores {
    /// Seconds until there was a posterior.
    pub seconds: f64,
    pub accuracy: f64,
    pub nll: f64,
    pub ece: f64,
}

impl Task {
    /// The scores of probabilities.
    pub fn scores(&self, seconds: f64, probabilities: &[Vec<f64>]) -> Result<Scores> {
        let truth: Vec<usize> = self.test.y.iter().map(|y| *y as usize).collect();
        let scores = score_classes(&truth, probabilities)?;
        Ok(Scores { seconds, accuracy: scores.accuracy, nll: scores.log_loss, ece: scores.ece })
    }

    /// The scores of a posterior that took `seconds`, without the time of predictions.
    pub fn scored(&self, seconds: f64, posterior: &dyn Posterior) -> Result<Scores> {
        let likelihood = Softmax::new(self.classes);
        let mut probabilities = Vec::with_capacity(self.test.n());
        match posterior.correlated(&self.test.x)? {
            Some(Correlated { mean, covariance }) => {
                let rows = mean.chunks(self.classes).zip(covariance.chunks(self.classes.pow(2)));
                for (mean, covariance) in rows {
                    probabilities
                        .push(likelihood.predict_joint(mean, covariance, None)?.probabilities().unwrap_or_default());
                }
            }
            None => {
                let all = posterior.marginals(&self.test.x)?;
                for row in 0..self.test.n() {
                    let mean: Vec<f64> = all.iter().map(|latent| latent.mean[row]).collect();
                    let variance: Vec<f64> = all.iter().map(|latent| latent.variance[row]).collect();
                    probabilities.push(likelihood.predict(&mean, &variance, None)?.probabilities().unwrap_or_default());
                }
            }
        }
        self.scores(seconds, &probabilities)
    }

    /// Newton's method with `actions` actions in total, each of which is one product with K. With the gradients of
    /// classes, each of them gives an action for each class.
    pub fn newton(
        &self,
        actions: usize,
        per_step: usize,
        kept: Option<usize>,
        policy: Gradient,
    ) -> Result<(Scores, String)> {
        let each = if policy.per_class { self.classes } else { 1 };
        let (options, usual) = (IterGpOptions::budget(each * actions), NewtonOptions::spread(each * actions));
        let newton = NewtonOptions { per_step: each * per_step, kept, settled: 1e-2, ..usual };
        self.with(Box::new(policy), options, newton)
    }

    /// Newton's method, for each of some numbers of actions, with preconditioned ones until the gradient has a
    /// hundredth of its size; the rest of the actions explain variances.
    pub fn preconditioned(&self, actions: &[usize], rank: usize) -> Result<(String, Vec<Scores>)> {
        let rows = Box::new(UnitVector { pivots: Pivots::Largest });
        let policy = Preconditioned::new(rows, rank, Box::new(Residual));
        let mut scores = Vec::new();
        for &actions in actions {
            let options = IterGpOptions { relative: 1e-2, ..IterGpOptions::budget(actions) };
            let usual = NewtonOptions::spread(actions);
            let newton = NewtonOptions { per_step: 1, settled: 1e-2, explain: true, ..usual };
            let (found, report) = self.with(Box::new(policy.clone()), options, newton)?;
            show(&format!("{actions} preconditioned actions"), found);
            println!("    {report}");
            scores.push(found);
        }
        Ok(("preconditioned actions".into(), scores))
    }

    /// Newton's method.
    fn with(&self, policy: Box<dyn Policy>, options: IterGpOptions, newton: NewtonOptions) -> Result<(Scores, String)> {
        let likelihood = Box::new(Softmax::new(self.classes));
        let gp = IterativeCagp::boxed(self.kernel.clone().into(), likelihood, policy, options);
        let gp = IterativeCagp { newton, ..gp };
        let start = Instant::now();
        let (posterior, report) = gp.posterior(self.compute, self.train.clone())?;
        let seconds = start.elapsed().as_secs_f64();
        Ok((self.scored(seconds, &posterior)?, report.to_string()))
    }

    /// The first `rows` rows to learn from.
    fn first(&self, rows: usize) -> Result<Observations> {
        let (train, rows) = (&self.train, rows.min(self.train.n()));
        Observations::new(train.x[..rows * train.d].to_vec(), train.d, train.y[..rows].to_vec(), None)
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

    /// The dense approximation with the first `rows` rows.
    pub fn subset(&self, rows: usize) -> Result<Scores> {
        let data = self.first(rows)?;
        let start = Instant::now();
        let posterior =
            LaplaceGp::new(self.kernel.clone(), Softmax::new(self.classes)).posterior(self.compute, data)?;
        self.scored(start.elapsed().as_secs_f64(), &posterior)
    }

    /// A variational model with the same kernel, trained for `seconds`; it learns its inducing inputs.
    pub fn svgp(&self, inducing: usize, seconds: f64, rate: f64) -> Result<Scores> {
        let start = Instant::now();
        let rows = &self.train;
        let z = choose(Choice::Kmeans, &self.kernel, &rows.x, rows.d, inducing, 0)?;
        let mut model = Svgp::new(self.kernel.clone(), &z, rows.d, Softmax::new(self.classes))?;
        for process in &mut model.processes {
            process.prior.kernel.parameters_mut().into_iter().for_each(|(_, parameter)| parameter.fixed = true);
        }
        let adam = Adam { rate, schedule: Schedule::Constant, ..Adam::default() };
        let left = (seconds - start.elapsed().as_secs_f64()).max(1.0);
        let config = TrainConfig {
            max_time: Some(Duration::from_secs_f64(left)),
            ..TrainConfig::new(Optimizer::Adam(adam), 1_000_000)
        };
        let batches = Minibatches { size: 1024, natural: Some(0.2), ..Minibatches::default() };
        minibatch::fit(&mut model, self.compute, rows, &batches, &config, &mut [])?;
        let posterior = model.posterior(self.compute)?;
        self.scored(start.elapsed().as_secs_f64(), &posterior)
    }
}

/// Prints a line of scores.
pub fn show(name: &str, Scores { seconds, accuracy, nll, ece }: Scores) {
    println!("{name:<36}{seconds:>9.1} s   accuracy {accuracy:.4}   NLL {nll:.4}   ECE {ece:.4}");
}

/// Draws the NLL of several models against their seconds.
pub fn draw(title: &str, all: &[(String, Vec<Scores>)], output: &Path) -> Result<()> {
    let columns: Vec<(Vec<f64>, Vec<f64>)> = all
        .iter()
        .map(|(_, scores)| (scores.iter().map(|s| s.seconds).collect(), scores.iter().map(|s| s.nll).collect()))
        .collect();
    let runs: Vec<Run> =
        all.iter().zip(&columns).map(|((name, _), (seconds, loss))| Run { name, loss, seconds }).collect();
    let frame = Frame { title, x: "seconds", y: "test NLL", ..Frame::default() };
    LearningCurve { runs: &runs, against: Against::Seconds, frame, ..LearningCurve::default() }.save(output)?;
    println!("figure in {}", output.display());
    Ok(())
}
