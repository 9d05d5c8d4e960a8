//! Expected log densities of tensors on a GPU, and steps along natural gradients there, compared with the host in f64.

use burn::tensor::Tensor;
use cagey::device::{Algebra, Compute, Transfers, set_algebra};
use cagey::kernels::Kernel;
use cagey::likelihoods::registry::Likelihoods;
use cagey::likelihoods::{Auxiliary, Likelihood};
use cagey::models::Observations;
use cagey::models::svgp::Svgp;
use cagey::scope::{Scope, to_f64};

use crate::models::{Case, LIKELIHOODS, fault, targets};
use crate::{REFERENCE, alone, gpus, inputs, name, noise, observations};

/// Rows over a wide range of latent values, with targets that fit them and targets that do not.
fn rows(case: &Case, b: usize) -> (Box<dyn Likelihood>, Observations) {
    let likelihood = Likelihoods::default().parse(case.0, None).unwrap();
    let draws = noise(61, b);
    let rows: Vec<_> = (0..b).map(|i| (case.1)(2.5 * (i as f64 * 0.37).sin(), draws[i])).collect();
    let auxiliary: Option<Vec<f64>> = rows.iter().map(|row| row.1).collect();
    let y = rows.iter().map(|row| row.0).collect();
    (likelihood, Observations::new(vec![0.0; b], 1, y, auxiliary).unwrap())
}

/// Variances `[L, b]`.
fn variances(count: usize, most: f64) -> Vec<f64> {
    noise(63, count).iter().map(|v| most * (v + 0.51)).collect()
}

/// Covariances `[L L, b]` of correlated functions.
fn covariances(latents: usize, b: usize, most: f64) -> Vec<f64> {
    let width = latents + 1;
    let scale = 8.0 * most / width as f64;
    let rows: Vec<Vec<f64>> = (0..b).map(|row| noise(65 + row as u64, latents * width)).collect();
    let entry = |row: &Vec<f64>, place: usize| -> f64 {
        let [one, other] = [place / latents, place % latents].map(|l| &row[l * width..][..width]);
        scale * one.iter().zip(other).map(|(a, b)| a * b).sum::<f64>()
    };
    (0..latents * latents).flat_map(|place| rows.iter().map(move |row| entry(row, place))).collect()
}

/// Values of all rows, and the gradient of their weighted sum in means, in these variances or covariances, and in own
/// parameters.
fn outcome(likelihood: &dyn Likelihood, data: &Observations, compute: Compute, spread: &[f64]) -> [Vec<f64>; 4] {
    let (b, latents) = (data.n(), likelihood.latents());
    let scope = Scope::training(compute).unwrap();
    let means: Vec<f64> = noise(62, b * latents).iter().map(|v| 6.0 * v).collect();
    let leaf = |values: &[f64]| scope.matrix(values, values.len() / b, b).require_grad();
    let (mean, spread) = (leaf(&means), leaf(spread));
    let batch = data.batch(&scope);
    let known = batch.auxiliary.as_ref().filter(|_| likelihood.auxiliary() != Auxiliary::None);
    let values = likelihood.expected_log_density(&scope, mean.clone(), spread.clone(), &batch.y, known).unwrap();
    let weights: Vec<f64> = noise(64, b).iter().map(|v| v + 1.0).collect();
    let gradients = (values.clone() * scope.vector(&weights)).sum().backward();
    let of = |tensor: &Tensor<2>| to_f64(tensor.grad(&gradients).unwrap()).unwrap();
    let own = likelihood.parameters().into_iter();
    let own = own.flat_map(|(_, p)| to_f64(scope.wide_value(p).grad(&gradients).unwrap()).unwrap()).collect();
    [to_f64(values).unwrap(), of(&mean), of(&spread), own]
}

/// The errors above the tolerance.
fn faults(what: &str, likelihood: &dyn Likelihood, data: &Observations, spread: &[f64]) -> Vec<String> {
    let want = outcome(likelihood, data, REFERENCE, spread);
    let mut all = Vec::new();
    for compute in gpus() {
        let got = outcome(likelihood, data, compute, spread);
        for (part, (got, want)) in ["values", "means", "spreads", "own"].iter().zip(got.iter().zip(&want)) {
            all.extend(fault(&format!("{} {what}: {part}", name(compute)), got, want, 1e-4));
        }
    }
    all
}

#[test]
fn expectations_and_their_slopes_agree() {
    let mut all = Vec::new();
    for case in &LIKELIHOODS {
        let (likelihood, data) = rows(case, 300);
        for most in [4.0, 0.1, 1e-4, 1e-7] {
            let spread = variances(likelihood.latents() * data.n(), most);
            all.extend(faults(&format!("{}, variances up to {most}", case.0), &*likelihood, &data, &spread));
        }
    }
    assert!(all.is_empty(), "{all:#?}");
}

/// Rows of classes whose functions are correlated.
#[test]
fn expectations_of_correlated_classes_agree() {
    let mut all = Vec::new();
    for (text, last) in [("softmax(3)", 2.0), ("softmax(10)", 9.0)] {
        let (likelihood, data) = rows(&(text, |f, e| ((2.0 * (f + e) + 5.0).floor().max(0.0), None)), 70);
        let y = data.y.iter().map(|y| y.min(last)).collect();
        let data = data.with_targets(y).unwrap();
        let spread = covariances(likelihood.latents(), data.n(), 4.0);
        all.extend(faults(text, &*likelihood, &data, &spread));
    }
    assert!(all.is_empty(), "{all:#?}");
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

/// The kernel's parameters and q go up, q once more for its step, and the slopes of rows; q and the marginals of rows
/// come back.
#[test]
fn natural_steps_move_q() {
    if !alone() {
        return;
    }
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
        let rows = 32 * b as u64;
        assert!(moved.up <= 2 * q + rows + (4 << 10) && moved.down <= q + rows + 64, "{moved:?}, q has {q} bytes");
    }
}
