//! Figure 2: actions against the top eigenvectors of K̂, over the data and by the distance between their spans.

use std::ops::ControlFlow;

use burn::tensor::Tensor;
use cagey::Result;
use cagey::device::{Compute, Precision};
use cagey::kernels::Kernel;
use cagey::linalg::{cholesky, eigh, solve_lower};
use cagey::models::cagp::{Actions, Cagp, IterativeCagp, Layout};
use cagey::models::ordering::RowOrder;
use cagey::models::{Batch, Model, Observations, fit};
use cagey::params::Parameters;
use cagey::products::BlockSparse;
use cagey::scope::{Scope, to_f64};
use cagey::solvers::Probes;
use cagey::solvers::itergp::{Basis, IterGpOptions};
use cagey::solvers::policies::{Eigenvector, Random};
use cagey::train::{Adam, Observer, Optimizer, Report, TrainConfig};
use serde_json::json;

use crate::Options;
use crate::common::command::Job;
use crate::common::drawing::{grid, line, pane};
use crate::common::rows::{generator, standard, uniform};

const KERNEL: &str = "matern32(ard)";
/// Actions of each kind that are drawn.
const DRAWN: usize = 5;

/// The data with what compares the spans.
struct Scene {
    data: Observations,
    compute: Compute,
    batch: Batch,
    actions: usize,
    steps: usize,
}

pub fn figure(job: &Job<Options>) -> Result<()> {
    let [rows, actions, steps] = [
        job.size(&job.own.rows, [100, 400, 400]),
        job.size(&job.own.actions, [6, 10, 10]),
        job.size(&job.own.epochs, [20, 150, 150]),
    ];
    let mut rng = generator(0);
    let x = uniform(2 * rows, -2.0, 2.0, &mut rng);
    let y = x.chunks(2).map(|p| (2.0 * p[0]).sin() * (1.5 * p[1]).cos() + 0.1 * standard(&mut rng)).collect();
    let data = Observations::new(x, 2, y, None)?;
    let data = data.permuted(&RowOrder::Tree.rows(&data, actions)?)?;
    let compute = job.compute(Precision::F64);
    let scene = Scene { batch: data.batch(&Scope::new(compute)?), data, compute, actions, steps };
    let kernel = || Kernel::parse(KERNEL, 2);
    let random = Random { probes: Probes::Gaussian, seed: 0 };
    let mut learned = Cagp::new(kernel()?, Actions::random(rows, actions, 0)?);
    let mut cg = IterativeCagp::cg(kernel()?, actions);
    let mut random = IterativeCagp::new(kernel()?, Box::new(random), IterGpOptions::budget(actions));
    let all = [
        ("CaGP-CG", scene.distances(&mut cg, |gp| scene.of_policy(gp))?),
        ("CaGP-Opt", scene.distances(&mut learned, |gp| scene.of_learned(gp))?),
        ("random", scene.distances(&mut random, |gp| scene.of_policy(gp))?),
    ];
    let farthest = (actions as f64).sqrt() * std::f64::consts::FRAC_PI_2;
    println!("Grassmann distance of {actions} actions from the top {actions} eigenvectors; at most {farthest:.3}");
    for (name, distances) in &all {
        println!("{name:<9} {:.3} at the start, {:.3} at the end", distances[0], distances[distances.len() - 1]);
        job.once(json!({ "actions": name, "rows": rows, "count": actions, "steps": steps }), || Ok(distances.clone()))?;
    }
    let lines = all.iter().map(|(name, y)| line(*name, &grid(0.0, y.len() as f64 - 1.0, y.len()), y)).collect();
    job.panels("-distance", ["", "step", "Grassmann distance from eigenvectors"], false, &[pane("", lines)])?;
    let (own, top) = scene.of_learned(&learned)?;
    let drawn = [("CaGP-Opt", own), ("CaGP-CG", scene.of_policy(&cg)?.0), ("eigenvectors", top)];
    let first = |actions: &Tensor<2>| -> Result<Vec<Vec<f64>>> {
        let columns = to_f64(actions.clone().transpose())?;
        Ok(columns.chunks_exact(rows).take(DRAWN).map(<[f64]>::to_vec).collect())
    };
    let drawn =
        drawn.iter().map(|(name, actions)| Ok((name.to_string(), first(actions)?))).collect::<Result<Vec<_>>>()?;
    job.fields("-actions", "first actions after training", &scene.data.x, &drawn)
}

/// The points of a training.
#[derive(Default)]
struct Path(Vec<Vec<f64>>);

impl Observer for Path {
    fn step(&mut self, report: &Report) -> ControlFlow<()> {
        self.0.push(report.x.to_vec());
        ControlFlow::Continue(())
    }
}

impl Scene {
    /// Learned actions, and the top eigenvectors.
    fn of_learned(&self, gp: &Cagp) -> Result<(Tensor<2>, Tensor<2>)> {
        let Layout::Blocks(offsets) = &gp.actions.layout else { unreachable!("block-sparse by construction") };
        let scope = Scope::new(self.compute)?;
        let blocks = BlockSparse::new(scope.value(&gp.actions.values), offsets.clone())?;
        let noise = gp.likelihood.noise().unwrap_or_default();
        Ok((Basis::sparse(blocks).into_dense()?, self.top(&gp.priors[0].kernel, noise)?))
    }

    /// Actions of a policy, and the top eigenvectors.
    fn of_policy(&self, gp: &IterativeCagp) -> Result<(Tensor<2>, Tensor<2>)> {
        let noise = gp.likelihood.noise().unwrap_or_default();
        Ok((gp.chosen(&Scope::new(self.compute)?, &self.batch)?.actions, self.top(&gp.priors[0].kernel, noise)?))
    }

    /// The top eigenvectors of K̂ `[n, i]`: the actions of the eigenvector policy.
    fn top(&self, kernel: &Kernel, noise: f64) -> Result<Tensor<2>> {
        let options = IterGpOptions::budget(self.actions);
        let mut gp = IterativeCagp::new(kernel.clone(), Box::new(Eigenvector), options);
        gp.find_mut("likelihood.noise")?[0].set_internal(&[noise])?;
        Ok(gp.chosen(&Scope::new(self.compute)?, &self.batch)?.actions)
    }

    /// Trains a model and measures the distance of its actions from the eigenvectors after each step.
    fn distances<M: Model + Parameters>(
        &self,
        model: &mut M,
        spans: impl Fn(&M) -> Result<(Tensor<2>, Tensor<2>)>,
    ) -> Result<Vec<f64>> {
        let mut path = Path::default();
        let config = TrainConfig::new(Optimizer::Adam(Adam { rate: 0.05, ..Adam::default() }), self.steps);
        fit::fit(model, self.compute, &self.data, &config, &mut [&mut path])?;
        let distance = |raw: &Vec<f64>| {
            model.set_free_raw(raw)?;
            let (actions, top) = spans(model)?;
            grassmann(actions, top)
        };
        path.0.iter().map(distance).collect()
    }
}

/// ‖θ‖ for the principal angles θ between two spans (eq. S26). cos²θ are the eigenvalues of (QₐᵀQ_b)ᵀ(QₐᵀQ_b). Q = A
/// L⁻ᵀ is an orthonormal basis of the span of A, and L the Cholesky factor of AᵀA.
fn grassmann(a: Tensor<2>, b: Tensor<2>) -> Result<f64> {
    let factor = |a: &Tensor<2>| cholesky(a.clone().transpose().matmul(a.clone()), "AᵀA");
    let half = solve_lower(factor(&a)?, a.transpose().matmul(b.clone()))?;
    let cosines = solve_lower(factor(&b)?, half.transpose())?.transpose();
    let (squares, _) = eigh(cosines.clone().transpose().matmul(cosines), "QᵀQ")?;
    let angles = to_f64(squares)?.into_iter().map(|c| c.clamp(0.0, 1.0).sqrt().acos());
    Ok(angles.map(|angle| angle * angle).sum::<f64>().sqrt())
}
