//! Transfers between host and GPU in a training step after the first.

use cagey::device::{Algebra, Compute, Transfers, set_algebra};
use cagey::kernels::Kernel;
use cagey::likelihoods::{Bernoulli, BernoulliLink, Gaussian, Likelihood};
use cagey::models::cagp::{Actions, Cagp};
use cagey::models::exact::ExactGp;
use cagey::models::sgpr::Sgpr;
use cagey::models::svgp::Svgp;
use cagey::models::{Batch, Model, Observations, fit};
use cagey::scope::Scope;

use crate::{alone, gpus, inputs, name, observations};

const D: usize = 3;
const ROOM: u64 = 64 << 10;

/// The transfers in a step of a model whose batch is on the device, and the bytes of the model's free parameters.
fn step(model: &impl Model, compute: Compute, batch: &Batch) -> (Transfers, u64) {
    let evaluate = || fit::evaluate(model, compute, batch).unwrap();
    let first = evaluate();
    let before = Transfers::so_far();
    let second = evaluate();
    let moved = Transfers::so_far() - before;
    // Burn's `sum` on a GPU adds parts in the order in which they finish, so the last digit may differ.
    assert!((first.loss - second.loss).abs() <= 1e-6 * first.loss.abs(), "{} for {}", second.loss, first.loss);
    let all: usize = model.parameters().iter().map(|(_, parameter)| parameter.len()).sum();
    (moved, (all * compute.precision.bytes()) as u64)
}

fn bounded(what: &str, compute: Compute, moved: Transfers, most: u64) {
    println!("{} {what}: {moved:?} of {most} bytes each way", name(compute));
    assert!(moved.up <= most && moved.down <= most, "{} {what}: {moved:?} of {most}", name(compute));
}

fn kernel() -> Kernel {
    Kernel::parse("1.2 * matern32(ard)", D).unwrap()
}

fn data(n: usize, classes: bool) -> Observations {
    let data = observations(n, D);
    let y = data.y.iter().map(|y| if classes { f64::from(u8::from(*y > 0.0)) } else { *y }).collect();
    data.with_targets(y).unwrap()
}

#[test]
fn steps_of_exact_models_move_parameters() {
    if !alone() {
        return;
    }
    set_algebra(Algebra::Device);
    let data = data(600, false);
    let mut model = ExactGp::new(kernel());
    model.prior.mean = cagey::means::Mean::named("constant", D).unwrap();
    for compute in gpus() {
        let batch = data.batch(&Scope::new(compute).unwrap());
        let (moved, parameters) = step(&model, compute, &batch);
        bounded("exact", compute, moved, parameters + 1024);
    }
}

/// The batch is uploaded in every step.
#[test]
fn steps_of_variational_models_move_parameters_and_batch() {
    if !alone() {
        return;
    }
    set_algebra(Algebra::Device);
    let (m, b) = (128, 256);
    let likelihoods: [(&str, Box<dyn Likelihood>); 2] =
        [("gaussian", Box::new(Gaussian::new(0.1))), ("bernoulli", Box::new(Bernoulli { link: BernoulliLink::Logit }))];
    for (what, likelihood) in likelihoods {
        let data = data(b, what == "bernoulli");
        let model = Svgp::boxed(kernel(), &inputs(31, m, D), D, likelihood).unwrap();
        for compute in gpus() {
            let (_, parameters) = step(&model, compute, &data.batch(&Scope::new(compute).unwrap()));
            let before = Transfers::so_far();
            fit::evaluate(&model, compute, &data.batch(&Scope::new(compute).unwrap())).unwrap();
            let moved = Transfers::so_far() - before;
            let batch = (b * (D + 1) * compute.precision.bytes()) as u64;
            bounded(&format!("svgp, {what}"), compute, moved, parameters + batch + ROOM / 2);
        }
    }
}

#[test]
fn steps_of_sparse_models_move_parameters() {
    if !alone() {
        return;
    }
    set_algebra(Algebra::Device);
    let data = data(900, false);
    let model = Sgpr::new(kernel(), &inputs(32, 60, D), D).unwrap();
    for compute in gpus() {
        let (moved, parameters) = step(&model, compute, &data.batch(&Scope::new(compute).unwrap()));
        bounded("sgpr", compute, moved, parameters + 1024);
    }
}

/// The transfers, for each place where matrices may be factorised.
#[test]
fn steps_of_computation_aware_models_move_small_matrices() {
    if !alone() {
        return;
    }
    let (n, i) = (900, 64);
    let data = data(n, false);
    let model = Cagp::new(kernel(), Actions::averages(n, i).unwrap());
    for (what, algebra) in [("cagp", Algebra::Device), ("cagp, factorised on the host", Algebra::Host)] {
        set_algebra(algebra);
        for compute in gpus() {
            let (moved, parameters) = step(&model, compute, &data.batch(&Scope::new(compute).unwrap()));
            bounded(what, compute, moved, parameters + 16 * (i * i) as u64);
        }
    }
    set_algebra(Algebra::Device);
}

/// Products with K `[n, i]` stay on the device, whatever the likelihood. What moves are small matrices, and a few
/// numbers for each row in each of Newton's steps to the sites.
#[test]
fn steps_of_newton_models_move_no_products() {
    if !alone() {
        return;
    }
    set_algebra(Algebra::Device);
    let (n, i) = (900, 150);
    let data = data(n, true);
    let likelihood = Box::new(Bernoulli { link: BernoulliLink::Logit });
    let actions = Actions::start(&*likelihood, &data, i).unwrap();
    let model = Cagp::boxed(kernel().into(), likelihood, actions);
    for compute in gpus() {
        let (moved, _) = step(&model, compute, &data.batch(&Scope::new(compute).unwrap()));
        bounded("newton", compute, moved, (compute.precision.bytes() * n * i) as u64);
    }
}
