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
/// parameters. The work space for correlated functions is that of a few rows.
fn outcome(likelihood: &dyn Likelihood, data: &Observations, compute: Compute, spread: &[f64]) -> [Vec<f64>; 4] {
    let (b, latents) = (data.n(), likelihood.latents());
    let scope = Scope::training(compute).unwrap().with_budget(1 << 16);
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

const CLASSES: [(&str, usize); 7] = [
    ("softmax(2)", 70),
    ("softmax(3)", 70),
    ("softmax(4)", 70),
    ("softmax(7)", 33),
    ("softmax(10)", 70),
    ("softmax(20)", 9),
    ("softmax(30)", 9),
];

/// Rows of classes.
fn classes((text, b): (&'static str, usize)) -> (Box<dyn Likelihood>, Observations) {
    let (likelihood, data) = rows(&(text, |f, e| ((2.0 * (f + e) + 5.0).floor().max(0.0), None)), b);
    let last = likelihood.latents() as f64 - 1.0;
    let y = data.y.iter().map(|y| y.min(last)).collect();
    (likelihood, data.with_targets(y).unwrap())
}

/// Wide and narrow latent functions, which the integral over classes treats differently.
#[test]
fn expectations_of_many_classes_agree() {
    let mut all = Vec::new();
    let (likelihood, data) = classes(CLASSES[4]);
    for most in [1e-3, 4.0, 50.0, 300.0, 2000.0] {
        let spread = variances(likelihood.latents() * data.n(), most);
        all.extend(faults(&format!("variances up to {most}"), &*likelihood, &data, &spread));
    }
    assert!(all.is_empty(), "{all:#?}");
}

/// By grids and by lattices of every size.
#[test]
fn expectations_of_correlated_classes_agree() {
    let mut all = Vec::new();
    for case in CLASSES {
        let (likelihood, data) = classes(case);
        for most in [15.0, 4.0, 0.5, 1e-2, 1e-4, 1e-7] {
            let spread = covariances(likelihood.latents(), data.n(), most);
            all.extend(faults(&format!("{}, variances near {most}", case.0), &*likelihood, &data, &spread));
        }
    }
    assert!(all.is_empty(), "{all:#?}");
}

/// Nothing but a table of nodes crosses, and the host does not wait.
#[test]
fn expectations_stay_on_the_device() {
    let many: Case = ("softmax(10)", |f, e| ((f + e + 5.0).floor().clamp(0.0, 9.0), None));
    for case in LIKELIHOODS.iter().chain([&many]) {
        let (likelihood, data) = rows(case, 300);
        for compute in gpus() {
            let scope = Scope::training(compute).unwrap();
            let batch = data.batch(&scope);
            let leaf = |at: Vec<f64>| scope.matrix(&at, at.len() / data.n(), data.n()).require_grad();
            let (latents, b) = (likelihood.latents(), data.n());
            let mut spreads = vec![leaf(variances(latents * b, 1.0))];
            if case.0.starts_with("softmax") {
                spreads.push(leaf(covariances(latents, b, 1.0)));
            }
            likelihood.parameters().iter().for_each(|(_, p)| drop(scope.value(p)));
            for spread in spreads {
                let run = || {
                    let (mean, known) = (leaf(vec![0.3; latents * b]), batch.auxiliary.as_ref());
                    let before = Transfers::so_far();
                    let spread = spread.clone();
                    let values = likelihood.expected_log_density(&scope, mean, spread, &batch.y, known).unwrap();
                    drop(values.sum().backward());
                    Transfers::so_far() - before
                };
                // The points of lattices go up once.
                run();
                let moved = run();
                let table = Transfers { up: 4 * 64, down: 0, syncs: 0 };
                assert!(moved.up <= table.up && moved.down == 0 && moved.syncs == 0, "{}: {moved:?}", case.0);
            }
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
