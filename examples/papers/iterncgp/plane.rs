//! Two classes in the plane: Figures 1, 3, 4 and 8. 100 rows in [−3, 5] × [−4, 1], RBF with lengthscale 1.

use burn::tensor::Tensor;
use cagey::Result;
use cagey::device::Precision;
use cagey::linalg::eigh;
use cagey::models::cagp::{Actions, Cagp, IterativeCagp, NewtonOptions};
use cagey::models::laplace::LaplaceGp;
use cagey::models::posterior::{Marginals, Posterior};
use cagey::params::Parameters;
use cagey::products::Covariance;
use cagey::scope::{Scope, to_f64};
use cagey::solvers::policies::{Gradient, Policy, Residual};
use serde_json::json;

use crate::Options;
use crate::common::command::Job;
use crate::common::drawing::{line, pane, plane};
use crate::common::scores::{nll, rmse};
use crate::pseudo::{Binary, in_order, logit};

const SIDES: [(f64, f64); 2] = [(-3.0, 5.0), (-4.0, 1.0)];
/// Numbers of actions that Figures 3 and 8 show.
const ACTIONS: [usize; 3] = [1, 10, 19];

fn binary(job: &Job<Options>, variance: f64) -> Result<Binary> {
    let rows = job.size(&job.own.rows, [60, 100, 100]);
    Binary::new(&format!("{variance:?} * rbf(1.0)"), rows, &SIDES, 0, job.compute(Precision::F64))
}

fn field(job: &Job<Options>) -> Vec<f64> {
    plane(SIDES[0], SIDES[1], job.pick([12, 36, 60]))
}

fn sd(said: &Marginals) -> Vec<f64> {
    said.variance.iter().map(|v| v.sqrt()).collect()
}

/// The probability of the second class at the latent mean: 0.5 on the boundary.
fn probability(said: &Marginals) -> Vec<f64> {
    said.mean.iter().map(|m| 1.0 / (1.0 + (-m).exp())).collect()
}

/// Figure 1: rows in order without recycling, and residuals with recycled and compressed actions. Draws the standard
/// deviation after Newton step i and so many actions in all, and test NLL by actions.
pub fn recycling(job: &Job<Options>) -> Result<()> {
    let (binary, places) = (binary(job, 20.0)?, field(job));
    let (rows, per_step) = (binary.task.train.n(), job.size(&job.own.per_step, [5, 10, 10]));
    let (steps, likelihood) = (job.pick([2, 5, 5]), logit());
    let dense = LaplaceGp::new(binary.kernel.clone(), logit()).posterior(binary.compute, binary.task.train.clone())?;
    println!("dense Laplace: test NLL {:.4}", nll(&dense, &likelihood, &binary.task.test)?);
    let (mut rows_of_fields, mut lines) = (Vec::new(), Vec::new());
    let (mut f, mut drawn, mut scores) = (vec![0.0; rows], Vec::new(), Vec::new());
    for step in 0..steps {
        for actions in [1, per_step.div_ceil(2), per_step] {
            let posterior = binary.step(&f, in_order(), actions)?;
            scores.push(((step * per_step + actions) as f64, nll(&posterior, &likelihood, &binary.task.test)?));
            if actions == per_step {
                drawn.push(sd(&posterior.predict(&places)?));
                f = posterior.predict(&binary.task.train.x)?.mean;
            }
        }
    }
    rows_of_fields.push(("rows in order".to_string(), drawn));
    lines.push(("rows in order, from scratch".to_string(), scores));
    for (name, policy, kept) in [
        ("residuals, recycled", Box::new(Residual) as Box<dyn Policy>, None),
        ("residuals, 10 kept", Box::new(Residual), Some(job.own.kept)),
        ("gradients, 10 kept", Box::new(Gradient::default()), Some(job.own.kept)),
    ] {
        let (mut drawn, mut scores) = (Vec::new(), Vec::new());
        for step in 0..steps {
            for actions in [1, per_step.div_ceil(2), per_step] {
                let actions = step * per_step + actions;
                let posterior = newton(&binary, policy.clone(), [actions, per_step], kept)?;
                scores.push((actions as f64, nll(&posterior, &likelihood, &binary.task.test)?));
                if actions == (step + 1) * per_step {
                    drawn.push(sd(&posterior.predict(&places)?));
                }
            }
        }
        rows_of_fields.push((name.to_string(), drawn));
        lines.push((name.to_string(), scores));
    }
    for (name, scores) in &lines {
        let values = job.once(json!({ "way": name, "rows": rows, "per_step": per_step }), || Ok(scores.clone()))?;
        println!("{name}: NLL by actions {values:.3?}");
    }
    let lines = lines.iter().map(|(name, scores)| {
        let (x, y): (Vec<f64>, Vec<f64>) = scores.iter().copied().unzip();
        line(name, &x, &y)
    });
    job.panels("-nll", ["", "actions in all", "test NLL"], false, &[pane("", lines.collect())])?;
    job.fields("-sd", "latent standard deviation after each Newton step", &places, &rows_of_fields)
}

/// Newton's method with a total of actions.
fn newton(
    binary: &Binary,
    policy: Box<dyn Policy>,
    [actions, per_step]: [usize; 2],
    kept: Option<usize>,
) -> Result<impl Posterior> {
    let gp = IterativeCagp::newton(binary.kernel.clone(), logit(), actions);
    let newton = NewtonOptions { per_step, kept, steps: actions.div_ceil(per_step), ..gp.newton };
    let gp = IterativeCagp { policy, newton, ..gp };
    Ok(gp.posterior(binary.compute, binary.task.train.clone())?.0)
}

/// Figure 3.
pub fn means(job: &Job<Options>) -> Result<()> {
    by_policy(job, probability, "probability at the latent mean in the first Newton step: all, 1, 10, 19 actions", true)
}

/// Figure 8.
pub fn deviations(job: &Job<Options>) -> Result<()> {
    by_policy(job, sd, "latent standard deviation in the first Newton step: all, 1, 10, 19 actions", false)
}

/// The first Newton step after some actions of each policy, beside all of them. With `weights`, the weights of rows in
/// the last action are drawn too.
fn by_policy(job: &Job<Options>, of: fn(&Marginals) -> Vec<f64>, title: &str, weights: bool) -> Result<()> {
    let (binary, places) = (binary(job, 10.0)?, field(job));
    let (rows, f) = (binary.task.train.n(), vec![0.0; binary.task.train.n()]);
    let whole = binary.step(&f, in_order(), rows)?.predict(&places)?;
    let policies = [("unit vectors", in_order()), ("residuals", Box::new(Residual) as Box<dyn Policy>)];
    let (mut fields, mut chosen) = (Vec::new(), Vec::new());
    for (name, policy) in policies {
        let (mut vectors, mut last) = (vec![of(&whole)], Vec::new());
        for actions in ACTIONS {
            let said = binary.step(&f, policy.clone(), actions)?.predict(&places)?;
            let distance = [rmse(&said.mean, &whole.mean), rmse(&sd(&said), &sd(&whole))];
            let key = json!({ "policy": name, "actions": actions, "rows": rows });
            let [mean, sd]: [f64; 2] = job.once(key, || Ok(distance))?;
            println!("{name}, {actions} actions: distance from all in the mean {mean:.4}, in the sd {sd:.4}");
            vectors.push(of(&said));
            let scope = Scope::new(binary.compute)?;
            let gp = binary.regression(policy.clone(), actions)?;
            let s = to_f64(gp.chosen(&scope, &binary.targets(&f)?.batch(&scope))?.actions)?;
            let taken = s.len() / rows;
            last.push(s.iter().skip(taken - 1).step_by(taken).copied().collect());
        }
        fields.push((name.to_string(), vectors));
        chosen.push((name.to_string(), last));
    }
    if weights {
        job.fields("-weights", "weights of rows in action 1, 10, 19", &binary.task.train.x, &chosen)?;
    }
    job.fields("", title, &places, &fields)
}

/// Figure 4: the belief at the start of the second Newton step, with R eigenvectors of M = Sᵀ(K + W⁻¹)S, as printed.
pub fn compression(job: &Job<Options>) -> Result<()> {
    let (binary, places) = (binary(job, 10.0)?, field(job));
    let rows = binary.task.train.n();
    let (scope, zero) = (Scope::new(binary.compute)?, vec![0.0; rows]);
    let first = binary.targets(&zero)?;
    let gp = binary.regression(Box::new(Residual), 19)?;
    let s = gp.chosen(&scope, &first.batch(&scope))?.actions;
    let f = gp.posterior(binary.compute, first.clone())?.0.predict(&first.x)?.mean;
    let k = Covariance::new(&binary.kernel, &scope, &scope.matrix(&first.x, rows, 2)).matrix()?;
    let noise: Vec<f64> = first.auxiliary.clone().unwrap_or_default();
    let noisy = k.matmul(s.clone()) + s.clone() * scope.matrix(&noise, rows, 1);
    let (_, vectors) = eigh(s.clone().transpose().matmul(noisy), "Sᵀ(K + W⁻¹)S")?;
    let (i, second) = (s.dims()[1], binary.targets(&f)?);
    let belief = |s: Tensor<2>| -> Result<Marginals> {
        let mut gp = Cagp::new(binary.kernel.clone(), Actions::dense(&to_f64(s.clone())?, s.dims()[1]));
        gp.find_mut("likelihood.noise")?[0].set_internal(&[2e-6])?;
        gp.posterior(binary.compute, second.clone())?.predict(&places)
    };
    let all = belief(s.clone())?;
    let prior = Marginals { mean: vec![0.0; places.len() / 2], variance: vec![10.0; places.len() / 2], floored: 0 };
    let (mut means, mut sds) = (Vec::new(), Vec::new());
    for kept in [0, 1, 3, 10, i] {
        // Eigenvalues ascend.
        let said = match kept {
            0 => prior.clone(),
            _ => belief(s.clone().matmul(vectors.clone().narrow(1, i - kept.min(i), kept.min(i))))?,
        };
        let key = json!({ "kept": kept, "rows": rows });
        let [mean, deviation]: [f64; 2] =
            job.once(key, || Ok([rmse(&said.mean, &all.mean), rmse(&sd(&said), &sd(&all))]))?;
        println!("{kept} of {i} kept: distance from all in the mean {mean:.4}, in the sd {deviation:.4}");
        means.push(probability(&said));
        sds.push(sd(&said));
    }
    let fields = [("probability".to_string(), means), ("standard deviation".to_string(), sds)];
    job.fields("", "beliefs with 0, 1, 3, 10 and all directions at the second Newton step", &places, &fields)
}
