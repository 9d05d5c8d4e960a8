//! Newton steps for two classes as regressions on pseudo-targets with known noise (eq. 6 and 7), and Figure 2.

use cagey::Result;
use cagey::device::{Compute, Precision};
use cagey::kernels::Kernel;
use cagey::likelihoods::{Bernoulli, BernoulliLink, Likelihood};
use cagey::models::Observations;
use cagey::models::cagp::{CagpPosterior, IterativeCagp};
use cagey::models::posterior::Posterior;
use cagey::params::Parameters;
use cagey::solvers::itergp::IterGpOptions;
use cagey::solvers::policies::{Pivots, Policy, UnitVector};

use crate::Options;
use crate::common::command::Job;
use crate::common::drawing::{grid, line, normal, pane, points};
use crate::common::rows::{Task, generator, halves, sample, uniform};

/// Labels of a function drawn from a prior.
pub struct Binary {
    pub kernel: Kernel,
    pub task: Task,
    pub compute: Compute,
}

/// The model's likelihood.
pub fn logit() -> Bernoulli {
    Bernoulli { link: BernoulliLink::Logit }
}

impl Binary {
    /// Rows in the box, and as many to test on.
    pub fn new(kernel: &str, rows: usize, sides: &[(f64, f64)], seed: u64, compute: Compute) -> Result<Self> {
        let (mut rng, d) = (generator(seed), sides.len());
        let columns: Vec<Vec<f64>> = sides.iter().map(|(from, to)| uniform(2 * rows, *from, *to, &mut rng)).collect();
        let x: Vec<f64> = (0..2 * rows * d).map(|k| columns[k % d][k / d]).collect();
        let kernel = Kernel::parse(kernel, d)?;
        let f = sample(&kernel, &x, d, 1e-8, &mut rng)?;
        let density = logit().density();
        let y: Vec<f64> = f.into_iter().map(|f| density.sample(&[f], 1.0, &mut rng)).collect();
        Ok(Self { kernel, task: halves(&x, d, &y, rows)?, compute })
    }

    /// The pseudo-targets at latent values f, with the variances of their noise.
    pub fn targets(&self, f: &[f64]) -> Result<Observations> {
        let data = &self.task.train;
        let each = f.iter().zip(&data.y).map(|(f, y)| {
            let p = 1.0 / (1.0 + (-f).exp());
            let weight = (p * (1.0 - p)).max(1e-10);
            (f + (y - p) / weight, 1.0 / weight)
        });
        let (targets, noise): (Vec<f64>, Vec<f64>) = each.unzip();
        Observations::new(data.x.clone(), data.d, targets, Some(noise))
    }

    /// The solver of a regression. Its noise is that of the pseudo-targets, to a millionth.
    pub fn regression(&self, policy: Box<dyn Policy>, actions: usize) -> Result<IterativeCagp> {
        let options = IterGpOptions { relative: 1e-10, ..IterGpOptions::budget(actions) };
        let mut gp = IterativeCagp::new(self.kernel.clone(), policy, options);
        gp.find_mut("likelihood.noise")?[0].set_internal(&[2e-6])?;
        Ok(gp)
    }

    /// The posterior of a Newton step from f after at most so many actions.
    pub fn step(&self, f: &[f64], policy: Box<dyn Policy>, actions: usize) -> Result<CagpPosterior> {
        Ok(self.regression(policy, actions)?.posterior(self.compute, self.targets(f)?)?.0)
    }
}

/// Conditions on rows in order.
pub fn in_order() -> Box<dyn Policy> {
    Box::new(UnitVector { pivots: Pivots::Data })
}

/// Figure 2: 50 rows between −3 and 5, RBF with lengthscale 1 and variance 5, all actions.
pub fn figure(job: &Job<Options>) -> Result<()> {
    let rows = job.size(&job.own.rows, [50, 50, 50]);
    let compute = job.compute(Precision::F64);
    let binary = Binary::new("5.0 * rbf(1.0)", rows, &[(-3.0, 5.0)], 0, compute)?;
    let (x, data) = (grid(-3.0, 5.0, 300), &binary.task.train);
    let (mut f, mut panes) = (vec![0.0; rows], Vec::new());
    for step in 0..4 {
        let posterior = binary.step(&f, in_order(), rows)?;
        let targets = binary.targets(&f)?;
        let next = posterior.predict(&data.x)?.mean;
        let change = next.iter().zip(&f).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        println!("Newton step {step}: largest change of f {change:.2e}");
        panes.push(pane(
            format!("Newton step {step}"),
            vec![
                normal("posterior", &x, &posterior.predict(&x)?, 0.0),
                points("pseudo-targets", &data.x, &targets.y),
                points("f", &data.x, &f),
                line("", &x, &vec![0.0; x.len()]),
            ],
        ));
        f = next;
    }
    job.panels("", ["Newton's method as a sequence of regressions", "x", "latent function"], false, &panes)
}
