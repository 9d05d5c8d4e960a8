//! Figure 5: schedules of Newton steps and actions for counts, and the posterior on its way.

use cagey::Result;
use cagey::device::Precision;
use cagey::kernels::Kernel;
use cagey::likelihoods::{Likelihood, Poisson, RateLink};
use cagey::models::Observations;
use cagey::models::cagp::{IterativeCagp, NewtonOptions};
use cagey::models::laplace::LaplaceGp;
use cagey::models::posterior::Posterior;
use cagey::plot::{Layer, Series};
use cagey::solvers::policies::{Gradient, Policy, Residual};
use serde_json::json;

use crate::Options;
use crate::common::command::Job;
use crate::common::drawing::{grid, line, median, normal, pane, points, quantile};
use crate::common::rows::{generator, sample};
use crate::common::scores::nll;

/// Newton steps, and actions in each.
const SCHEDULES: [(usize, usize); 4] = [(5, 20), (10, 10), (20, 5), (100, 1)];
/// Numbers of actions in total after which posteriors are scored.
const SCORED: [usize; 9] = [1, 5, 10, 15, 20, 40, 60, 80, 100];

/// One latent function, and counts that are drawn anew for each seed.
struct Counts {
    kernel: Kernel,
    x: Vec<f64>,
    f: Vec<f64>,
}

impl Counts {
    fn drawn(&self, seed: u64) -> Result<Observations> {
        let (mut rng, density) = (generator(1000 + seed), poisson().density());
        let y = self.f.iter().map(|f| density.sample(&[*f], 1.0, &mut rng)).collect();
        Observations::new(self.x.clone(), 1, y, None)
    }
}

fn poisson() -> Poisson {
    Poisson { link: RateLink::Exp }
}

pub fn figure(job: &Job<Options>) -> Result<()> {
    let rows = job.size(&job.own.rows, [60, 100, 100]);
    let (compute, kernel) = (job.compute(Precision::F64), Kernel::parse("5.0 * rbf(0.1)", 1)?);
    let x = grid(0.0, 1.0, rows);
    // The first function whose rate is one count or more on average, but not very many.
    let (mut f, mut function) = (Vec::new(), 0);
    while !(1.0..10.0).contains(&(f.iter().map(|f: &f64| f.exp()).sum::<f64>() / rows as f64)) {
        (f, function) = (sample(&kernel, &x, 1, 1e-8, &mut generator(function))?, function + 1);
    }
    let counts = Counts { kernel, x, f };
    let run = |policy: Box<dyn Policy>, actions: usize, per_step: usize, train: &Observations| {
        let gp = IterativeCagp::newton(counts.kernel.clone(), poisson(), actions);
        let newton = NewtonOptions { per_step, steps: actions.div_ceil(per_step), ..gp.newton };
        Ok::<_, cagey::Error>(IterativeCagp { policy, newton, ..gp }.posterior(compute, train.clone())?.0)
    };
    let mut panes = Vec::new();
    let policies: [(&str, Box<dyn Policy>); 2] =
        [("residuals", Box::new(Residual)), ("gradients", Box::new(Gradient::default()))];
    for (name, policy) in policies {
        let mut series = Vec::new();
        for (steps, per_step) in SCHEDULES {
            let (mut places, mut values) = (Vec::new(), Vec::new());
            for actions in SCORED.into_iter().filter(|actions| *actions >= per_step && *actions <= rows) {
                let mut excess = Vec::new();
                for seed in job.seeds([2, 10, 10]) {
                    let key = json!({ "policy": name, "per_step": per_step, "actions": actions, "rows": rows,
                        "function": function, "seed": seed });
                    excess.push(job.once(key, || {
                        let (train, test) = (counts.drawn(2 * seed)?, counts.drawn(2 * seed + 1)?);
                        let dense =
                            LaplaceGp::new(counts.kernel.clone(), poisson()).posterior(compute, train.clone())?;
                        let found = nll(&run(policy.clone(), actions, per_step, &train)?, &poisson(), &test)?;
                        Ok(found - nll(&dense, &poisson(), &test)?)
                    })?);
                }
                places.push(actions as f64);
                values.push(excess);
            }
            let shown: Vec<String> = places
                .iter()
                .zip(&values)
                .map(|(at, v)| format!("{at}: {:.4} ({:.4})", quantile(v, 0.5), quantile(v, 1.0)))
                .collect();
            println!("{name}, {steps} × {per_step}: median (largest) excess NLL by actions {}", shown.join(", "));
            series.push(median(format!("{steps} × {per_step}"), &places, &values));
        }
        panes.push(pane(name, series));
    }
    let title = "excess test NLL over dense Laplace: medians and ranges of redrawn counts";
    job.panels("-left", [title, "actions in all", "NLL"], false, &panes)?;
    // Right: the posterior after some single actions.
    let train = counts.drawn(0)?;
    let mut panes = Vec::new();
    for actions in [3, 10, 40] {
        let said = run(Box::new(Residual), actions, 1, &train)?.predict(&counts.x)?;
        let inside = said.mean.iter().zip(&said.variance).zip(&counts.f);
        let covered = inside.filter(|((m, v), f)| (*m - **f).abs() < 1.96 * v.sqrt()).count();
        println!("{actions} actions: {covered} of {rows} log rates in their 95 % intervals");
        panes.push(pane(
            format!("log rate after {actions} actions"),
            vec![normal("95 %", &counts.x, &said, 0.0), line("", &counts.x, &counts.f)],
        ));
        let rate = |side: f64| -> Vec<f64> {
            said.mean.iter().zip(&said.variance).map(|(m, v)| (m + side * 1.96 * v.sqrt()).exp().min(1e3)).collect()
        };
        let layers =
            vec![Layer::Band(counts.x.clone(), [rate(-1.0), rate(1.0)]), Layer::Line(counts.x.clone(), rate(0.0))];
        let truth: Vec<f64> = counts.f.iter().map(|f| f.exp()).collect();
        let of_rate = Series { name: "95 %".into(), layers };
        panes.push(pane(
            format!("rate after {actions} actions"),
            vec![of_rate, line("", &counts.x, &truth), points("counts", &counts.x, &train.y)],
        ));
    }
    job.panels("-right", ["posterior on its way; grey: the truth", "x", ""], false, &panes)
}
