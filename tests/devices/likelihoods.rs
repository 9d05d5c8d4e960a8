//! Expected log densities on a GPU, and steps along natural gradients there, compared with the host in f64.

use burn::tensor::Tensor;
use cagey::device::{Algebra, Compute, Transfers, set_algebra};
use cagey::kernels::Kernel;
use cagey::likelihoods::registry::Likelihoods;
use cagey::likelihoods::{Auxiliary, Likelihood};
use cagey::models::Observations;
use cagey::models::svgp::Svgp;
use cagey::scope::{Scope, to_f64};

use crate::models::{Case, LIKELIHOODS, fault, targets};
use crate::{REFERENCE, gpus, inputs, name, noise, observations};

/// Rows over a wide range of latent values, with targets that fit them and targets that do not.
fn rows(case: &Case, b: usize) -> (Box<dyn Likelihood>, Observations) {
    let likelihood = Likelihoods::default().parse(case.0, None).unwrap();
    let draws = noise(61, b);
    let rows: Vec<_> = (0..b).map(|i| (case.1)(2.5 * (i as f64 * 0.37).sin(), draws[i])).collect();
    let auxiliary: Option<Vec<f64>> = rows.iter().map(|row| row.1).collect();
    let y = rows.iter().map(|row| row.0).collect();
    (likelihood, Observations::new(vec![0.0; b], 1, y, auxiliary).unwrap())
}

/// Values of all rows, and the gradient of their weighted sum in means, variances and own parameters.
fn outcome(likelihood: &dyn Likelihood, data: &Observations, compute: Compute, most: f64) -> [Vec<f64>; 4] {
    let (scope, b, latents) = (Scope::training(compute).unwrap(), data.n(), likelihood.latents());
    let means: Vec<f64> = noise(62, b * latents).iter().map(|v| 6.0 * v).collect();
    let variances: Vec<f64> = noise(63, b * latents).iter().map(|v| most * (v + 0.51)).collect();
    let leaf = |values: &[f64]| scope.matrix(values, latents, b).require_grad();
    let (mean, variance) = (leaf(&means), leaf(&variances));
    let batch = data.batch(&scope);
    let known = batch.auxiliary.as_ref().filter(|_| likelihood.auxiliary() != Auxiliary::None);
    let values = likelihood.expected_log_density(&scope, mean.clone(), variance.clone(), &batch.y, known).unwrap();
    let weights: Vec<f64> = noise(64, b).iter().map(|v| v + 1.0).collect();
    let gradients = (values.clone() * scope.vector(&weights)).sum().backward();
    let of = |tensor: &Tensor<2>| to_f64(tensor.grad(&gradients).unwrap()).unwrap();
    let own = likelihood.parameters().into_iter();
    let own = own.flat_map(|(_, p)| to_f64(scope.wide_value(p).grad(&gradients).unwrap()).unwrap()).collect();
    [to_f64(values).unwrap(), of(&mean), of(&variance), own]
}

#[test]
fn expectations_and_their_slopes_agree() {
    let mut all = Vec::new();
    for case in &LIKELIHOODS {
        let (likelihood, data) = rows(case, 300);
        for most in [4.0, 0.1, 1e-4, 1e-7] {
            let want = outcome(&*likelihood, &data, REFERENCE, most);
            for compute in gpus() {
                let got = outcome(&*likelihood, &data, compute, most);
                for (part, (got, want)) in ["values", "means", "variances", "own"].iter().zip(got.iter().zip(&want)) {
                    let what = format!("{} {}, variances up to {most}: {part}", name(compute), case.0);
                    all.extend(fault(&what, got, want, 1e-4));
                }
            }
        }
    }
    assert!(all.is_empty(), "{all:#?}");
}

/// Wide and narrow latent functions, which the integral over classes treats differently.
#[test]
fn expectations_of_many_classes_agree() {
    let mut all = Vec::new();
    let case: Case = ("softmax(10)", |f, e| ((2.0 * (f + e) + 5.0).floor().clamp(0.0, 9.0), None));
    let (likelihood, data) = rows(&case, 70);
    for most in [1e-3, 4.0, 50.0, 300.0, 2000.0] {
        let want = outcome(&*likelihood, &data, REFERENCE, most);
        for compute in gpus() {
            let got = outcome(&*likelihood, &data, compute, most);
            for (part, (got, want)) in ["values", "means", "variances"].iter().zip(got.iter().zip(&want)) {
                all.extend(fault(&format!("{}, variances up to {most}: {part}", name(compute)), got, want, 1e-4));
            }
        }
    }
    assert!(all.is_empty(), "{all:#?}");
}

/// Nothing but a table of nodes crosses, and the host does not wait.
#[test]
fn expectations_stay_on_the_device() {
    for case in &LIKELIHOODS {
        let (likelihood, data) = rows(case, 300);
        for compute in gpus() {
            let scope = Scope::training(compute).unwrap();
            let batch = data.batch(&scope);
            let leaf = |at: f64| {
                let shape = [likelihood.latents(), data.n()];
                (Tensor::<2>::ones(shape, (scope.device(), scope.dtype())) * at).require_grad()
            };
            let (mean, variance) = (leaf(0.3), leaf(0.5));
            likelihood.parameters().iter().for_each(|(_, p)| drop(scope.value(p)));
            let before = Transfers::so_far();
            let known = batch.auxiliary.as_ref();
            let values = likelihood.expected_log_density(&scope, mean, variance, &batch.y, known).unwrap();
            drop(values.sum().backward());
            let moved = Transfers::so_far() - before;
            let table = Transfers { up: 4 * 64, down: 0, syncs: 0 };
            assert!(moved.up <= table.up && moved.down == 0 && moved.syncs == 0, "{}: {moved:?}", case.0);
        }
    }
}

/// q after two steps: means and packed roots.
fn stepped(model: &Svgp, data: &Observations, compute: Compute) -> Vec<f64> {
    let mut model = model.clone();
    for rate in [0.5, 0.3] {
        model.natural_step(compute, &data.batch(&Scope::new(compute).unwrap()), rate).unwrap();
    }
    let q = |q: &cagey::models::variational::Variational| [q.mean.internal(), q.root.internal()].concat();
    model.variational.iter().flat_map(q).collect()
}

fn variational(likelihood: Box<dyn Likelihood>, m: usize) -> Svgp {
    Svgp::boxed(Kernel::parse("1.2 * matern32(0.8)", 2).unwrap(), &inputs(65, m, 2), 2, likelihood).unwrap()
}

#[test]
fn natural_steps_agree() {
    let mut all = Vec::new();
    for algebra in [Algebra::Host, Algebra::Device] {
        set_algebra(algebra);
        for case in &LIKELIHOODS {
            // The covariance of q does not stay positive definite for all of these.
            if ["student-t", "heteroscedastic", "beta"].iter().any(|name| case.0.starts_with(name)) {
                continue;
            }
            let (likelihood, data) = targets(case, 300);
            let model = variational(likelihood, 40);
            let want = stepped(&model, &data, REFERENCE);
            for compute in gpus() {
                let what = format!("{} {}, {algebra:?}", name(compute), case.0);
                all.extend(fault(&what, &stepped(&model, &data, compute), &want, 1e-4));
            }
        }
    }
    set_algebra(Algebra::Device);
    assert!(all.is_empty(), "{all:#?}");
}

/// The kernel's parameters and q go up, q once more for its step; only q comes back.
#[test]
fn natural_steps_move_q() {
    set_algebra(Algebra::Device);
    let (m, b) = (128, 256);
    let data = observations(b, 2);
    let mut model = variational(Likelihoods::default().parse("gaussian(0.3)", None).unwrap(), m);
    for compute in gpus() {
        let batch = data.batch(&Scope::new(compute).unwrap());
        model.natural_step(compute, &batch, 0.1).unwrap();
        let before = Transfers::so_far();
        model.natural_step(compute, &batch, 0.1).unwrap();
        let moved = Transfers::so_far() - before;
        let q = (4 * (m + m * (m + 1) / 2)) as u64;
        println!("natural step: {moved:?}, q has {q} bytes");
        assert!(moved.up <= 2 * q + (4 << 10) && moved.down <= q + 64, "{moved:?}, q has {q} bytes");
    }
}
