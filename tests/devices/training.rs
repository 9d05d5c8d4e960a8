//! Short trainings on a GPU end where those on the CPU end, and continue from a checkpoint.

use cagey::device::{Algebra, Compute, set_algebra};
use cagey::kernels::Kernel;
use cagey::likelihoods::registry::Likelihoods;
use cagey::models::cagp::{Actions, Cagp};
use cagey::models::exact::ExactGp;
use cagey::models::minibatch::{self, Minibatches};
use cagey::models::svgp::Svgp;
use cagey::models::{Observations, fit};
use cagey::train::{Adam, CheckpointPlan, Optimizer, TrainConfig};

use crate::common::StopAt;
use crate::{REFERENCE, gpus, inputs, name, observations};

const D: usize = 2;

fn kernel() -> Kernel {
    Kernel::parse("matern32(ard)", D).unwrap()
}

fn adam(steps: usize) -> TrainConfig {
    TrainConfig::new(Optimizer::Adam(Adam { rate: 0.05, ..Adam::default() }), steps)
}

fn classes(n: usize) -> Observations {
    let data = observations(n, D);
    let y = data.y.iter().map(|y| f64::from(u8::from(*y > 0.0))).collect();
    data.with_targets(y).unwrap()
}

fn counts(n: usize) -> Observations {
    let data = observations(n, D);
    let y = data.y.iter().map(|y| (y + 1.0).exp().round()).collect();
    data.with_targets(y).unwrap()
}

fn compared(what: &str, run: impl Fn(Compute) -> f64) {
    set_algebra(Algebra::Device);
    let want = run(REFERENCE);
    for compute in gpus() {
        let got = run(compute);
        assert!((got - want).abs() <= 0.01 * want.abs(), "{} {what}: {got}, on the CPU {want}", name(compute));
    }
}

#[test]
fn trainings_end_at_the_same_loss() {
    let data = observations(200, D);
    compared("exact", |compute| {
        fit::fit(&mut ExactGp::new(kernel()), compute, &data, &TrainConfig::default(), &mut []).unwrap().loss
    });
    compared("cagp", |compute| {
        let mut model = Cagp::new(kernel(), Actions::averages(data.n(), 20).unwrap());
        fit::fit(&mut model, compute, &data, &adam(60), &mut []).unwrap().loss
    });
    let trainings = [
        ("classes", "bernoulli(probit)", classes(300), None, 80),
        ("classes, natural gradients", "bernoulli(probit)", classes(300), Some(0.1), 30),
        ("counts", "poisson(exp)", counts(300), Some(0.1), 30),
    ];
    for (what, likelihood, data, natural, steps) in trainings {
        compared(what, |compute| {
            let likelihood = Likelihoods::default().parse(likelihood, None).unwrap();
            let mut model = Svgp::boxed(kernel(), &inputs(51, 16, D), D, likelihood).unwrap();
            let batches = Minibatches { size: 100, natural, ..Minibatches::default() };
            minibatch::fit(&mut model, compute, &data, &batches, &adam(steps), &mut []).unwrap().loss
        });
    }
}

#[test]
fn trainings_go_on_from_a_checkpoint() {
    set_algebra(Algebra::Device);
    let folder = tempfile::tempdir().unwrap();
    let data = observations(100, D);
    for compute in gpus() {
        let path = folder.path().join("state");
        let run = |config: &TrainConfig, stop: usize| {
            let mut model = ExactGp::new(kernel());
            fit::fit(&mut model, compute, &data, config, &mut [&mut StopAt(stop)]).unwrap()
        };
        let whole = run(&adam(12), usize::MAX);
        run(&adam(12).checkpoint(CheckpointPlan::new(&path)), 5);
        let resumed = run(&adam(12).resume(&path), usize::MAX);
        let what = name(compute);
        assert_eq!(resumed.iterations, whole.iterations, "{what}");
        assert!((resumed.loss - whole.loss).abs() < 1e-4 * whole.loss.abs(), "{what}: {} {}", resumed.loss, whole.loss);
    }
}
