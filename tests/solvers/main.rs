//! Iterative solvers, each compared with dense algebra, and the matrix-free GP compared with the exact one.

#[path = "../common/mod.rs"]
mod common;

mod itergp;

use std::cell::RefCell;

use cagey::device::{Compute, DeviceKind, Precision};
use cagey::kernels::Kernel;
use cagey::linalg::{Factor, eigh};
use cagey::means::Mean;
use cagey::models::cggp::CgGp;
use cagey::models::exact::ExactGp;
use cagey::models::posterior::Posterior;
use cagey::models::{Observations, RowValues, fit};
use cagey::params::{Parameter, Parameters, Unit};
use cagey::products;
use cagey::scope::{Scope, scalar, to_f64};
use cagey::solvers::cg::{Reason, Solution};
use cagey::solvers::log_det::LogDetOptions;
use cagey::solvers::pivoted_cholesky::{Columns, PivotedCholesky};
use cagey::solvers::{
    CgOptions, LinearOperator, NoisyCovariance, Preconditioner, Probes, Tridiagonal, cg, lanczos, log_det,
    pivoted_cholesky,
};
use cagey::train::TrainConfig;
use cagey::{Error, Result};
use common::assert_close;
use proptest::prelude::*;

const F64: Compute = Compute { kind: DeviceKind::Flex, precision: Precision::F64 };
const F32: Compute = Compute { kind: DeviceKind::Flex, precision: Precision::F32 };
const TIGHT: CgOptions = CgOptions { relative: 1e-12, absolute: 0.0, iterations: 2000 };

/// A pseudo-random number in (-0.5, 0.5), the same on every machine.
fn noise(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as f64 / 2f64.powi(31) - 0.5
}

fn numbers(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    (0..n).map(|_| 4.0 * noise(&mut state)).collect()
}

/// A dense symmetric matrix that counts the columns of its products.
struct Dense {
    entries: Vec<f64>,
    n: usize,
    widths: RefCell<Vec<usize>>,
}

impl Dense {
    fn new(entries: Vec<f64>) -> Self {
        let n = entries.len().isqrt();
        Self { entries, n, widths: RefCell::default() }
    }

    fn factor(&self) -> Factor<f64> {
        Factor::new(self.entries.clone(), "test").unwrap()
    }

    fn eigenvalues(&self) -> Vec<f64> {
        let scope = Scope::new(F64).unwrap();
        to_f64(eigh(scope.matrix(&self.entries, self.n, self.n), "test").unwrap().0).unwrap()
    }

    fn plus(mut self, noise: &[f64]) -> Self {
        self.entries.iter_mut().step_by(self.n + 1).zip(noise).for_each(|(d, v)| *d += v);
        self
    }
}

impl LinearOperator for Dense {
    fn order(&self) -> usize {
        self.n
    }

    fn apply(&self, v: &[f64]) -> Result<Vec<f64>> {
        let t = v.len() / self.n;
        self.widths.borrow_mut().push(t);
        Ok(multiply(&self.entries, v, t))
    }
}

impl Columns for Dense {
    fn diagonal(&self) -> Result<Vec<f64>> {
        Ok(self.entries.iter().step_by(self.n + 1).copied().collect())
    }

    fn column(&self, j: usize) -> Result<Vec<f64>> {
        Ok(self.entries.iter().skip(j).step_by(self.n).copied().collect())
    }
}

/// Row-major product of `a` with `b`, which has `t` columns.
fn multiply(a: &[f64], b: &[f64], t: usize) -> Vec<f64> {
    let inner = b.len() / t;
    let rows = a.chunks(inner).map(|row| {
        let mut out = vec![0.0; t];
        for (x, b) in row.iter().zip(b.chunks(t)) {
            out.iter_mut().zip(b).for_each(|(o, b)| *o += x * b);
        }
        out
    });
    rows.flatten().collect()
}

fn transpose(a: &[f64], cols: usize) -> Vec<f64> {
    (0..cols).flat_map(|j| a.iter().skip(j).step_by(cols).copied()).collect()
}

fn identity(n: usize) -> Vec<f64> {
    (0..n * n).map(|i| if i / n == i % n { 1.0 } else { 0.0 }).collect()
}

/// A random symmetric matrix with the given eigenvalues, made by Householder reflections.
fn with_spectrum(eigenvalues: &[f64], seed: u64) -> Dense {
    let n = eigenvalues.len();
    let mut a = identity(n);
    a.iter_mut().step_by(n + 1).zip(eigenvalues).for_each(|(d, e)| *d = *e);
    for k in 0..3 {
        let v = numbers(n, seed + k);
        let square: f64 = v.iter().map(|x| x * x).sum();
        let mut h = identity(n);
        for i in 0..n {
            for j in 0..n {
                h[i * n + j] -= 2.0 * v[i] * v[j] / square;
            }
        }
        a = multiply(&multiply(&h, &a, n), &h, n);
    }
    for i in 0..n {
        for j in 0..i {
            a[i * n + j] = a[j * n + i];
        }
    }
    Dense::new(a)
}

/// The covariance of `n` random rows of `d` columns.
fn covariance(text: &str, n: usize, d: usize) -> Dense {
    let scope = Scope::new(F64).unwrap();
    let kernel = Kernel::parse(text, d).unwrap();
    let x = scope.matrix(&numbers(n * d, 3), n, d);
    Dense::new(to_f64(products::Covariance::new(&kernel, &scope, &x).matrix().unwrap()).unwrap())
}

fn data(n: usize, d: usize) -> Observations {
    let mut state = 7;
    let x: Vec<f64> = (0..n * d).map(|_| 4.0 * noise(&mut state)).collect();
    let y = (0..n).map(|i| x[i * d].sin() + 0.3 * noise(&mut state)).collect();
    Observations::new(x, d, y, None).unwrap()
}

fn model(text: &str, d: usize) -> CgGp {
    let mut model = CgGp::new(Kernel::parse(text, d).unwrap());
    model.prior.mean = Mean::named("linear", d).unwrap();
    model.likelihood.noise.set(&[0.05]).unwrap();
    model.options.solver = TIGHT;
    model
}

fn exact(model: &CgGp) -> ExactGp {
    let mut exact = ExactGp::new(model.prior.kernel.clone());
    (exact.prior.mean, exact.likelihood) = (model.prior.mean.clone(), model.likelihood.clone());
    exact
}

fn reasons(solution: &Solution) -> Vec<Reason> {
    solution.columns.iter().map(|c| c.reason).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn conjugate_gradients_solve_like_cholesky(
        n in 1usize..60,
        t in 1usize..5,
        decades in 0.0f64..5.0,
        seed in 1u64..1000,
    ) {
        let spectrum: Vec<f64> = (0..n).map(|i| 10f64.powf(-decades * i as f64 / n as f64)).collect();
        let a = with_spectrum(&spectrum, seed);
        let b = numbers(n * t, seed + 10);
        let solution = cg(&a, None, &b, &TIGHT).unwrap();
        let mut want = b.clone();
        a.factor().solve(&mut want).unwrap();
        assert_close("x", &solution.x, &want, 1e-13 * 10f64.powf(decades + 2.0));
        let product = multiply(&a.entries, &solution.x, t);
        let true_residual: Vec<f64> = b.iter().zip(product).map(|(b, p)| b - p).collect();
        prop_assert!(true_residual.iter().zip(&solution.residual).all(|(a, b)| (a - b).abs() < 1e-12));
        for column in &solution.columns {
            prop_assert!(matches!(column.reason, Reason::Converged | Reason::Rounding));
            prop_assert_eq!(column.history.len(), column.iterations);
        }
        let forms = solution.quadratic_forms(&b);
        for c in 0..t {
            let whole: f64 = (0..n).map(|i| b[i * t + c] * want[i * t + c]).sum();
            prop_assert!((forms[c] / whole - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn gauss_quadrature_is_the_spectral_measure(n in 1usize..40, seed in 1u64..1000) {
        let t = Tridiagonal { diagonal: numbers(n, seed), off_diagonal: numbers(n - 1, seed + 1) };
        let dense = t.dense();
        let mut power = identity(n);
        let rule = t.gauss_quadrature().unwrap();
        for k in 0..6 {
            let moment: f64 = rule.iter().map(|(node, weight)| weight * node.powi(k)).sum();
            prop_assert!((moment - power[0]).abs() < 1e-10 * 6f64.powi(k), "moment {}: {} and {}", k, moment, power[0]);
            power = multiply(&power, &dense, n);
        }
        let mut nodes: Vec<f64> = rule.iter().map(|(node, _)| *node).collect();
        nodes.sort_by(f64::total_cmp);
        assert_close("nodes", &nodes, &Dense::new(dense).eigenvalues(), 1e-12);
    }

    #[test]
    fn the_preconditioner_is_its_definition(
        n in 1usize..40,
        rank in 0usize..12,
        decades in 0.0f64..6.0,
        seed in 1u64..1000,
    ) {
        let rank = rank.min(n);
        let lower = numbers(n * rank, seed);
        let diagonal: Vec<f64> = numbers(n, seed + 1).iter().map(|x| (1.0 + x.abs()) * 10f64.powf(-decades)).collect();
        let p = if rank == 0 { vec![0.0; n * n] } else { multiply(&lower, &transpose(&lower, rank), n) };
        let p = Dense::new(p).plus(&diagonal);
        let fast = Preconditioner::new(&lower, &diagonal).unwrap();
        let factor = p.factor();
        prop_assert!((fast.log_det() - factor.log_det()).abs() < 1e-8 * (n as f64) * (1.0 + decades));
        let inverse = factor.inverse();
        assert_close("inverse", &fast.apply(&identity(n)).unwrap(), &inverse, 1e-7);
        let diagonal: Vec<f64> = inverse.iter().step_by(n + 1).copied().collect();
        assert_close("diagonal", &fast.inverse_diagonal(), &diagonal, 1e-7);
        let root = fast.colour(&identity(n)).unwrap();
        assert_close("root", &multiply(&root, &transpose(&root, n), n), &p.entries, 1e-12);
        let v = numbers(n * 3, seed + 2);
        assert_close("whiten", &fast.whiten(&fast.colour(&v).unwrap()).unwrap(), &v, 1e-9);
        let twice = fast.whiten_transposed(&fast.whiten(&v).unwrap()).unwrap();
        assert_close("twice", &twice, &fast.apply(&v).unwrap(), 1e-14);
    }
}

#[test]
fn the_preconditioner_saves_iterations() {
    let noise = vec![1e-4; 500];
    let smooth = covariance("rbf(1.0)", 500, 2);
    let factor = pivoted_cholesky(&smooth, 60, 0.0).unwrap();
    let preconditioner = Preconditioner::new(&factor.lower, &noise).unwrap();
    let a = smooth.plus(&noise);
    let b = numbers(500, 5);
    let options = CgOptions { relative: 1e-8, ..TIGHT };
    let plain = cg(&a, None, &b, &options).unwrap();
    let fast = cg(&a, Some(&preconditioner), &b, &options).unwrap();
    let (slow, fast_iterations) = (plain.columns[0].iterations, fast.columns[0].iterations);
    assert!(10 * fast_iterations < slow, "{fast_iterations} iterations with, {slow} without");
    let mut want = b;
    a.factor().solve(&mut want).unwrap();
    assert_close("x", &fast.x, &want, 1e-6);
}

#[test]
fn finished_columns_leave_the_product() {
    let n = 40;
    let spectrum: Vec<f64> = (0..n).map(|i| 1.0 + i as f64).collect();
    let mut a = Dense::new(identity(n)).plus(&vec![-1.0; n]);
    a = a.plus(&spectrum);
    // A zero column, a unit vector (an eigenvector: one iteration) and a column that needs all iterations.
    let b: Vec<f64> = (0..n).flat_map(|i| [0.0, if i == 3 { 2.0 } else { 0.0 }, 1.0]).collect();
    let solution = cg(&a, None, &b, &TIGHT).unwrap();
    assert_eq!(solution.columns[0].iterations, 0);
    assert_eq!(solution.columns[1].iterations, 1);
    assert!(solution.columns[2].iterations > 20);
    let widths = a.widths.borrow();
    assert_eq!(widths[..2], [2, 1]);
    assert_eq!(widths.len(), solution.products);
    assert_eq!(reasons(&solution), [Reason::Converged; 3]);
}

#[test]
fn conjugate_gradients_name_their_failures() {
    let n = 50;
    let b = numbers(n, 2);
    let spectrum: Vec<f64> = (0..n).map(|i| 10f64.powf(-8.0 * i as f64 / n as f64)).collect();
    let hard = with_spectrum(&spectrum, 1);
    let short = CgOptions { iterations: 5, ..TIGHT };
    let solution = cg(&hard, None, &b, &short).unwrap();
    assert_eq!(reasons(&solution), [Reason::Budget]);
    assert_eq!(solution.columns[0].iterations, 5);
    assert!(matches!(solution.converged("test", &short), Err(Error::NotConverged { iterations: 5, .. })));

    let indefinite = with_spectrum(&spectrum.iter().map(|e| e - 0.1).collect::<Vec<_>>(), 1);
    let solution = cg(&indefinite, None, &b, &TIGHT).unwrap();
    assert_eq!(reasons(&solution), [Reason::Breakdown]);
    assert!(solution.x.iter().all(|x| x.is_finite()));

    let impossible = CgOptions { relative: 1e-17, ..TIGHT };
    let gentle: Vec<f64> = spectrum.iter().map(|e| e.powf(0.4)).collect();
    let solution = cg(&with_spectrum(&gentle, 1), None, &b, &impossible).unwrap();
    assert_eq!(reasons(&solution), [Reason::Rounding]);
    assert!(solution.columns[0].residual < 1e-10);

    let mut broken = identity(n);
    broken[7] = f64::NAN;
    assert!(matches!(cg(&Dense::new(broken), None, &b, &TIGHT), Err(Error::NotFinite(_))));
    let mut bad = b.clone();
    bad[3] = f64::INFINITY;
    assert!(matches!(cg(&hard, None, &bad, &TIGHT), Err(Error::NotFinite(_))));
    assert!(matches!(cg(&hard, None, &b[1..], &TIGHT), Err(Error::Shape { .. })));
}

#[test]
fn lanczos_finds_the_spectrum() {
    let n = 45;
    let spectrum: Vec<f64> = (0..n).map(|i| 10f64.powf(-4.0 * i as f64 / n as f64)).collect();
    let a = with_spectrum(&spectrum, 4);
    for krylov in lanczos(&a, &numbers(n * 2, 8), n).unwrap() {
        assert_close("QᵀQ", &multiply(&krylov.basis, &transpose(&krylov.basis, n), n), &identity(n), 1e-12);
        let projected = multiply(&multiply(&krylov.basis, &a.entries, n), &transpose(&krylov.basis, n), n);
        assert_close("QᵀAQ", &projected, &krylov.tridiagonal.dense(), 1e-12);
        let got = Dense::new(krylov.tridiagonal.dense()).eigenvalues();
        assert_close("eigenvalues", &got, &a.eigenvalues(), 1e-12);
    }
    // Three distinct eigenvalues span Krylov spaces of three dimensions.
    let three: Vec<f64> = (0..n).map(|i| [1.0, 2.5, 7.0][i % 3]).collect();
    let krylov = &lanczos(&with_spectrum(&three, 5), &numbers(n, 9), n).unwrap()[0];
    assert!(krylov.invariant);
    assert_close("distinct", &Dense::new(krylov.tridiagonal.dense()).eigenvalues(), &[1.0, 2.5, 7.0], 1e-12);
    let partial = &lanczos(&a, &numbers(n, 9), 10).unwrap()[0];
    assert_eq!((partial.tridiagonal.diagonal.len(), partial.basis.len(), partial.invariant), (10, 10 * n, false));
    assert!(matches!(lanczos(&a, &vec![0.0; n], 5), Err(Error::Usage(_))));
}

#[test]
fn conjugate_gradients_build_the_lanczos_matrix() {
    let spectrum: Vec<f64> = (0..30).map(|i| 1.0 + i as f64).collect();
    let a = with_spectrum(&spectrum, 6);
    let b = numbers(30, 11);
    let got = &cg(&a, None, &b, &TIGHT).unwrap().columns[0].tridiagonal;
    let want = &lanczos(&a, &b, 12).unwrap()[0].tridiagonal;
    assert_close("diagonal", &got.diagonal[..12], &want.diagonal, 1e-8);
    assert_close("beside", &got.off_diagonal[..11], &want.off_diagonal, 1e-8);
}

#[test]
fn pivoted_cholesky_leaves_the_trace_it_says() {
    let a = covariance("matern52(0.8)", 50, 2);
    let error = |factor: &PivotedCholesky| -> Vec<f64> {
        let r = factor.rank();
        let low = multiply(&factor.lower, &transpose(&factor.lower, r), 50);
        a.entries.iter().zip(low).map(|(a, l)| a - l).collect()
    };
    let mut before = f64::INFINITY;
    for rank in [1, 2, 5, 10, 20, 35, 50] {
        let factor = pivoted_cholesky(&a, rank, 0.0).unwrap();
        let error = error(&factor);
        let trace: f64 = error.iter().step_by(51).sum();
        assert!((trace - factor.trace()).abs() < 1e-12, "rank {rank}: {trace} and {}", factor.trace());
        assert!(trace < before);
        before = trace;
        let spectrum = Dense::new(error.clone()).eigenvalues();
        assert!(spectrum[0] > -1e-12 && *spectrum.last().unwrap() <= trace + 1e-12);
        for &pivot in &factor.pivots {
            assert!((0..50).all(|j| error[pivot * 50 + j].abs() < 1e-12));
        }
        let triangular =
            |(k, &pivot): (usize, &usize)| factor.lower[pivot * rank..][k + 1..rank].iter().all(|l| *l == 0.0);
        assert!(factor.pivots.iter().enumerate().all(triangular));
    }
    let enough = pivoted_cholesky(&a, 50, 0.5).unwrap();
    let fewer = pivoted_cholesky(&a, enough.rank() - 1, 0.0).unwrap();
    assert!(enough.trace() <= 0.5 && fewer.trace() > 0.5);
    // Every row occurs twice: half the rank is the full rank.
    let twice: Vec<f64> =
        (0..100).flat_map(|i| (0..100).map(move |j| (i, j))).map(|(i, j)| a.entries[i / 2 * 50 + j / 2]).collect();
    let factor = pivoted_cholesky(&Dense::new(twice), 100, 0.0).unwrap();
    assert_eq!(factor.rank(), 50);
    assert!(matches!(pivoted_cholesky(&Dense::new(vec![f64::NAN]), 1, 0.0), Err(Error::NotFinite(_))));
    assert!(matches!(pivoted_cholesky(&Dense::new(vec![-1.0]), 1, 0.0), Err(Error::NotPositiveDefinite { .. })));
}

#[test]
fn log_determinants_keep_their_error_bars() {
    let noise = vec![0.01; 60];
    let smooth = covariance("matern32(1.0)", 60, 2);
    let factor = pivoted_cholesky(&smooth, 40, 0.0).unwrap();
    let preconditioner = Preconditioner::new(&factor.lower, &noise).unwrap();
    let a = smooth.plus(&noise);
    let want = a.factor().log_det();
    for probes in [Probes::Rademacher, Probes::Gaussian] {
        let mut errors = [0.0; 2];
        for (which, p) in [None, Some(&preconditioner)].into_iter().enumerate() {
            let (mut squares, mut outside) = (0.0, 0);
            for seed in 0..40 {
                let got = log_det(&a, p, &LogDetOptions { probes, count: 12, steps: 60, seed }).unwrap();
                let z = (got.value - want) / got.standard_error;
                squares += z * z;
                outside += usize::from(z.abs() > 3.5);
                errors[which] += got.standard_error / 40.0;
                assert_eq!(got.samples.len(), 12);
            }
            assert!(
                outside <= 2 && (0.4..2.5).contains(&(squares / 40.0)),
                "{probes:?}: {outside}, {}",
                squares / 40.0
            );
        }
        assert!(3.0 * errors[1] < errors[0], "{probes:?}: {errors:?}");
    }
    for p in [None, Some(&preconditioner)] {
        let options = LogDetOptions { probes: Probes::Unit, steps: 60, ..LogDetOptions::default() };
        let got = log_det(&a, p, &options).unwrap();
        assert!((got.value - want).abs() < 1e-9 && got.standard_error == 0.0);
    }
    let same = LogDetOptions::default();
    assert_eq!(log_det(&a, None, &same).unwrap(), log_det(&a, None, &same).unwrap());
    let indefinite = with_spectrum(&[-1.0, 1.0, 2.0], 1);
    assert!(matches!(log_det(&indefinite, None, &same), Err(Error::NotFinite(_))));
    assert!(log_det(&a, None, &LogDetOptions { count: 0, ..same }).is_err());
}

#[test]
fn the_covariance_operator_is_the_covariance() {
    let n = 70;
    let scope = Scope::new(F64).unwrap();
    let kernel = Kernel::parse("matern32(0.7) + white(variance=0.3) * linear", 2).unwrap();
    let x = scope.matrix(&numbers(n * 2, 1), n, 2);
    let noise: Vec<f64> = (0..n).map(|i| 0.1 + i as f64).collect();
    let operator = NoisyCovariance::new(&kernel, &scope, x.clone(), scope.vector(&noise)).unwrap();
    let dense = Dense::new(to_f64(kernel.gram(&scope, &x).unwrap()).unwrap()).plus(&noise);
    assert_close("whole", &operator.apply(&identity(n)).unwrap(), &dense.entries, 1e-14);
    let smooth = Dense::new(to_f64(kernel.cross(&scope, &x, &x.clone()).unwrap()).unwrap());
    assert_close("column", &operator.column(5).unwrap(), &smooth.column(5).unwrap(), 1e-14);
    assert_close("diagonal", &operator.diagonal().unwrap(), &smooth.diagonal().unwrap(), 1e-14);
    let white: Vec<f64> = (0..n).map(|i| dense.entries[i * (n + 1)] - noise[i] - smooth.entries[i * (n + 1)]).collect();
    assert_close("white", &operator.nugget().unwrap(), &white, 1e-12);
    let plain = Kernel::parse("matern32(0.7) + linear", 2).unwrap();
    assert_eq!(NoisyCovariance::new(&plain, &scope, x, scope.vector(&noise)).unwrap().nugget().unwrap(), vec![0.0; n]);
}

const TEXTS: [&str; 4] = [
    "matern32(ard)",
    "rbf(0.7) + white(variance=0.1) * linear",
    "rq(dims=[1]) + linear(ard) + white",
    "projection(matern52, dim=1) + periodic(period=1.3, dims=[0]) * rbf",
];

#[test]
fn without_chance_the_objective_and_gradient_are_exact() {
    for (known, text) in [None, Some((0..40).map(|i| 0.01 * i as f64).collect())].into_iter().cycle().zip(TEXTS) {
        let observations = data(40, 2).with_auxiliary(known).unwrap();
        let batch = observations.batch(&Scope::new(F64).unwrap());
        let mut gp = model(text, 2);
        let want = fit::evaluate(&exact(&gp), F64, &batch).unwrap();
        for (rank, probes) in [(40, Probes::Rademacher), (0, Probes::Unit), (10, Probes::Unit)] {
            (gp.options.rank, gp.options.probes) = (rank, probes);
            let got = fit::evaluate(&gp, F64, &batch).unwrap();
            // At full rank the remaining trace is at most a hundredth of the noise, not zero.
            let tolerance = if rank == 40 { 1e-3 } else { 1e-8 };
            assert_close(&format!("{text} {rank} loss"), &[got.loss], &[want.loss], tolerance);
            assert_close(&format!("{text} {rank} gradient"), &got.gradient, &want.gradient, 10.0 * tolerance);
        }
    }
}

#[test]
fn the_objective_and_gradient_keep_their_error_bars() {
    let observations = data(80, 2);
    let batch = observations.batch(&Scope::new(F64).unwrap());
    let mut gp = model("matern32(0.4)", 2);
    let want = fit::evaluate(&exact(&gp), F64, &batch).unwrap();
    let seeds = 40;
    for rank in [0, 15] {
        gp.options.rank = rank;
        let (mut squares, mut gradients) = (0.0, Vec::new());
        for seed in 0..seeds {
            gp.options.seed = seed;
            let estimate = gp.estimate(F64, &batch).unwrap();
            squares += ((estimate.value - want.loss) / estimate.standard_error).powi(2) / seeds as f64;
            gradients.push(fit::evaluate(&gp, F64, &batch).unwrap().gradient);
        }
        assert!((0.4..2.5).contains(&squares), "rank {rank}: mean squared z {squares}");
        for k in 0..want.gradient.len() {
            let values: Vec<f64> = gradients.iter().map(|g| g[k]).collect();
            let mean = values.iter().sum::<f64>() / seeds as f64;
            let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (seeds - 1) as f64;
            let z = (mean - want.gradient[k]) / (variance / seeds as f64).sqrt().max(1e-7);
            assert!(
                z.abs() < 4.0,
                "rank {rank}, parameter {k}: {mean} is {z} standard errors from {}",
                want.gradient[k]
            );
        }
    }
}

#[test]
fn the_gradient_is_that_of_the_surrogate() {
    let observations = data(30, 2);
    let batch = observations.batch(&Scope::new(F64).unwrap());
    for text in TEXTS {
        let mut gp = model(text, 2);
        gp.options.rank = 6;
        let held = gp.estimate(F64, &batch).unwrap();
        let at = |raw: &[f64]| {
            let mut moved = gp.clone();
            moved.set_free_raw(raw).unwrap();
            let scope = Scope::new(F64).unwrap();
            scalar(moved.surrogate(&scope, &batch, &held).unwrap()).unwrap()
        };
        let raw = gp.free_raw();
        let numeric: Vec<f64> = (0..raw.len())
            .map(|i| {
                let shifted = |h: f64| {
                    let mut moved = raw.clone();
                    moved[i] += h;
                    at(&moved)
                };
                (shifted(1e-5) - shifted(-1e-5)) / 2e-5
            })
            .collect();
        assert_close(text, &fit::evaluate(&gp, F64, &batch).unwrap().gradient, &numeric, 1e-6);
    }
}

#[test]
fn predictions_are_the_exact_ones() {
    let observations = data(120, 2);
    let points = numbers(2 * 15, 21);
    let mut gp = model("matern52(ard) + white(variance=0.01)", 2);
    gp.options.rank = 20;
    let reference = exact(&gp).posterior(F64, observations.clone()).unwrap();
    let (want, joint) = (reference.predict(&points).unwrap(), reference.predict_joint(&points).unwrap());
    let posterior = gp.posterior(F64, observations.clone()).unwrap();
    let (got, effort) = posterior.predict_with_effort(&points).unwrap();
    assert_close("mean", &got.mean, &want.mean, 1e-9);
    assert_close("variance", &got.variance, &want.variance, 1e-9);
    let got = posterior.predict_joint(&points).unwrap();
    assert_close("joint mean", &got.mean, &joint.mean, 1e-9);
    assert_close("joint covariance", &got.covariance, &joint.covariance, 1e-9);
    assert!((0..15).all(|i| (0..15).all(|j| got.covariance[i * 15 + j] == got.covariance[j * 15 + i])));
    assert!(effort.products > 0);
    assert!(posterior.effort().iterations > 0 && posterior.effort().residual <= 1e-11);
    assert_eq!(posterior.sample(&points, 2, 1).unwrap(), posterior.sample(&points, 2, 1).unwrap());
    assert!(matches!(posterior.predict(&points[1..]), Err(Error::Shape { .. })));
}

#[test]
fn what_is_not_computed_widens_the_variance() {
    let observations = data(150, 2);
    let points = numbers(2 * 15, 21);
    let mut gp = model("matern32(0.5)", 2);
    (gp.options.rank, gp.options.solver.relative) = (5, 0.3);
    let want = exact(&gp).posterior(F64, observations.clone()).unwrap().predict(&points).unwrap().variance;
    let got = gp.posterior(F64, observations.clone()).unwrap().predict(&points).unwrap().variance;
    assert!(got.iter().zip(&want).all(|(got, want)| *got >= want - 1e-10), "overconfident");
    assert!(got.iter().zip(&want).any(|(got, want)| *got > want + 1e-6), "a solve that ends early");
}

#[test]
fn training_reaches_the_exact_optimum() {
    let observations = data(100, 1);
    let mut gp = model("rbf(0.3)", 1);
    gp.prior.mean = Mean::Zero;
    gp.options.solver.relative = 1e-8;
    let mut reference = exact(&gp);
    let config = TrainConfig { steps: 60, ..TrainConfig::default() };
    fit::fit(&mut gp, F64, &observations, &config, &mut []).unwrap();
    fit::fit(&mut reference, F64, &observations, &config, &mut []).unwrap();
    let batch = observations.batch(&Scope::new(F64).unwrap());
    let loss = |gp: &CgGp| fit::evaluate(&exact(gp), F64, &batch).unwrap().loss;
    let best = fit::evaluate(&reference, F64, &batch).unwrap().loss;
    assert!(loss(&gp) < best + 0.05, "{} where {best} is reached", loss(&gp));
}

#[test]
fn ill_conditioned_systems_end_in_numbers_or_names() {
    let RowValues { mut x, y, .. } = data(60, 1).into_values();
    for i in 0..30 {
        x[2 * i] = x[2 * i + 1];
    }
    let observations = Observations::new(x, 1, y, Some(vec![1e-8; 60])).unwrap();
    let points = [-1.0, 0.0, 0.3];
    for lengthscale in [1e-3, 1.0, 1e3] {
        for compute in [F64, F32] {
            for rank in [0, 20, 60] {
                for relative in [1e-3, 1e-10] {
                    let mut gp = model("rbf", 1);
                    gp.prior.kernel = Kernel::parse(&format!("rbf({lengthscale})"), 1).unwrap();
                    gp.likelihood.noise = Parameter::positive("noise", Unit::Variance, &[1e-9]);
                    gp.options.rank = rank;
                    gp.options.solver = CgOptions { relative, iterations: 300, ..TIGHT };
                    let batch = observations.batch(&Scope::new(compute).unwrap());
                    let named = |error: &Error| {
                        matches!(
                            error,
                            Error::NotConverged { .. } | Error::NotFinite(_) | Error::NotPositiveDefinite { .. }
                        )
                    };
                    match fit::evaluate(&gp, compute, &batch) {
                        Ok(e) => assert!(e.loss.is_finite() && e.gradient.iter().all(|g| g.is_finite())),
                        Err(error) => assert!(named(&error), "{error}"),
                    }
                    match gp.posterior(compute, observations.clone()).and_then(|p| p.predict(&points)) {
                        Ok(m) => assert!(m.mean.iter().chain(&m.variance).all(|v| v.is_finite())),
                        Err(error) => assert!(named(&error), "{error}"),
                    }
                }
            }
        }
    }
}

#[test]
fn single_precision_follows_double() {
    let observations = data(80, 2);
    let mut gp = model("matern32(ard)", 2);
    gp.options.solver.relative = 1e-4;
    gp.options.rank = 30;
    let batch = |compute| observations.batch(&Scope::new(compute).unwrap());
    let double = fit::evaluate(&gp, F64, &batch(F64)).unwrap();
    let single = fit::evaluate(&gp, F32, &batch(F32)).unwrap();
    assert_close("loss", &[single.loss], &[double.loss], 1e-4);
    assert_close("gradient", &single.gradient, &double.gradient, 1e-3);
}
