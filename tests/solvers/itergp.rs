//! The iterative solve compared with dense algebra and conjugate gradients, and checks of its policies.

use std::ops::ControlFlow;

use burn::tensor::Tensor;
use cagey::kernels::Kernel;
use cagey::linalg::{Factor, cholesky, cholesky_solve, eigh};
use cagey::params::{Parameter, Parameters, Unit};
use cagey::products::{self, BlockSparse};
use cagey::scope::{Scope, scalar, to_f64};
use cagey::solvers::itergp::{
    IterGpOptions, Solve, SolveHistory, SolveObserver, Start, Step, Stop, System, itergp, itergp_from,
};
use cagey::solvers::log_det::LogDetOptions;
use cagey::solvers::policies::{
    Actor, Eigenvector, Lanczos, LanczosSeed, Mixed, Order, Pivots, Policy, Preconditioned, PseudoInput, Random,
    Residual, SolveState, UnitVector,
};
use cagey::solvers::{CgOptions, LinearOperator, LinearSystem, Probes, cg, log_det};
use cagey::{Error, Result};

use crate::common::assert_close;
use crate::common::policies::{Learned, With, policies, unit};
use crate::{F32, F64, numbers};

const N: usize = 40;
const SIGMA: f64 = 0.05;

/// A system of order [`N`] with its dense matrix.
struct Case {
    kernel: Kernel,
    scope: Scope,
    x: Tensor<2>,
    y: Vec<f64>,
}

impl Case {
    fn new(scope: Scope) -> Self {
        let x = scope.matrix(&numbers(2 * N, 3), N, 2);
        Self { kernel: Kernel::parse("matern32(ard)", 2).unwrap(), scope, x, y: numbers(N, 9) }
    }

    fn system(&self) -> System<'_> {
        let noise = Tensor::full([N], SIGMA, (self.scope.device(), self.scope.dtype()));
        System::new(&self.kernel, &self.scope, self.x.clone(), noise, self.scope.vector(&self.y)).unwrap()
    }

    fn solve(&self, policy: &dyn Policy, options: &IterGpOptions) -> Solve {
        itergp(&self.system(), policy, options, None).unwrap()
    }

    fn matrix(&self) -> Vec<f64> {
        let mut matrix =
            to_f64(products::Covariance::new(&self.kernel, &self.scope, &self.x).matrix().unwrap()).unwrap();
        matrix.iter_mut().step_by(N + 1).for_each(|d| *d += SIGMA);
        matrix
    }
}

fn plain() -> Case {
    Case::new(Scope::new(F64).unwrap())
}

fn columns(solve: &Solve) -> Vec<f64> {
    to_f64(solve.actions.clone().into_dense().unwrap()).unwrap()
}

fn weights(solve: &Solve) -> Vec<f64> {
    to_f64(solve.weights().unwrap()).unwrap()
}

#[test]
fn residual_policy_is_conjugate_gradients() {
    let case = plain();
    // After more iterations, the reference loses digits: it does not orthogonalise.
    for iterations in [1, 2, 5, 8] {
        let solve = case.solve(&Residual, &IterGpOptions::budget(iterations));
        let options = CgOptions { relative: 1e-14, absolute: 0.0, iterations };
        let reference = cg(&case.system(), None, &case.y, &options).unwrap();
        assert_close(&format!("{iterations} iterations"), &weights(&solve), &reference.x, 1e-8);
        let residual = reference.residual.iter().map(|r| r * r).sum::<f64>().sqrt();
        assert_close("residual", &[solve.report.residual], &[residual], 1e-6);
        // Actions are orthonormal.
        let s = columns(&solve);
        for a in 0..iterations {
            for b in 0..=a {
                let dot: f64 = s.chunks(iterations).map(|row| row[a] * row[b]).sum();
                assert!((dot - f64::from(u8::from(a == b))).abs() < 1e-12, "{a} {b}: {dot}");
            }
        }
    }
}

/// Σ over the columns of `a` of the squared part outside the span of the orthonormal `b`, both `[N, i]`.
fn outside(a: &[f64], b: &[f64], i: usize) -> f64 {
    let column = |m: &[f64], j: usize| m.iter().skip(j).step_by(i).copied().collect::<Vec<_>>();
    (0..i)
        .map(|j| {
            let mut rest = column(a, j);
            for k in 0..i {
                let q = column(b, k);
                let share: f64 = q.iter().zip(&rest).map(|(q, r)| q * r).sum();
                rest.iter_mut().zip(&q).for_each(|(r, q)| *r -= share * q);
            }
            rest.iter().map(|r| r * r).sum::<f64>()
        })
        .sum()
}

#[test]
fn lanczos_spans_what_conjugate_gradients_span() {
    let case = plain();
    for i in [2, 7, 12] {
        let residual = columns(&case.solve(&Residual, &IterGpOptions::budget(i)));
        let targets = columns(&case.solve(&Lanczos { seed: LanczosSeed::Targets }, &IterGpOptions::budget(i)));
        assert!(outside(&targets, &residual, i) < 1e-14, "{i}");
        let other = columns(&case.solve(&Lanczos { seed: LanczosSeed::Gaussian(1) }, &IterGpOptions::budget(i)));
        assert!(outside(&other, &residual, i) > 1e-3, "another start, another space");
    }
}

#[test]
fn policies_choose_what_they_say() {
    let case = plain();
    let budget = IterGpOptions { block: 4, ..IterGpOptions::budget(6) };
    let s = columns(&case.solve(&UnitVector { pivots: Pivots::Given(vec![5, 0, 33]) }, &budget));
    for (j, row) in [5, 0, 33].into_iter().enumerate() {
        let want: Vec<f64> = (0..N).map(|k| f64::from(u8::from(k == row))).collect();
        assert_eq!(s.iter().skip(j).step_by(3).copied().collect::<Vec<_>>(), want);
    }
    let largest = case.solve(&UnitVector { pivots: Pivots::Largest }, &budget);
    let first = case.solve(&UnitVector { pivots: Pivots::Data }, &budget);
    let trace = |solve: &Solve| {
        let k = products::Covariance::new(&case.kernel, &case.scope, &case.x).matrix().unwrap();
        scalar((solve.precision_times(&k).unwrap() * k.transpose()).sum()).unwrap()
    };
    assert!(trace(&largest) > trace(&first), "pivoting explains more");
    // Eigenvectors explain more of K̂ than any other actions.
    let top = case.solve(&Eigenvector, &budget);
    let matrix = case.scope.matrix(&case.matrix(), N, N);
    let (values, _) = eigh(matrix.clone(), "test").unwrap();
    let values = to_f64(values).unwrap();
    let products = to_f64(top.products.clone().into_dense().unwrap()).unwrap();
    let s = columns(&top);
    for j in 0..6 {
        let want: Vec<f64> = s.iter().skip(j).step_by(6).map(|v| v * values[N - 1 - j]).collect();
        assert_close("K̂s = λs", &products.iter().skip(j).step_by(6).copied().collect::<Vec<_>>(), &want, 1e-9);
    }
    // Random actions do not depend on the number asked for at once.
    let random = Random { probes: Probes::Gaussian, seed: 5 };
    let one = columns(&case.solve(&random, &IterGpOptions { block: 1, ..budget }));
    assert_eq!(one, columns(&case.solve(&random, &budget)));
    assert!(one != columns(&case.solve(&Random { probes: Probes::Gaussian, seed: 6 }, &budget)));
    let signs = columns(&case.solve(&Random { probes: Probes::Rademacher, seed: 5 }, &budget));
    assert!(signs.iter().all(|v| (v.abs() - (N as f64).sqrt().recip()).abs() < 1e-12));
    // The policies take turns.
    let turns = Mixed::new(vec![unit(Pivots::Data), unit(Pivots::Given(vec![30, 31]))], Order::Turns).unwrap();
    let rows = |policy: &dyn Policy, i: usize| -> Vec<usize> {
        let s = columns(&case.solve(policy, &IterGpOptions { block: 4, ..IterGpOptions::budget(i) }));
        (0..i).map(|j| s.iter().skip(j).step_by(i).position(|v| *v == 1.0).unwrap()).collect()
    };
    assert_eq!(rows(&turns, 6), [0, 30, 1, 31, 2, 3]);
    let switched =
        Mixed::new(vec![unit(Pivots::Data), unit(Pivots::Given((20..30).collect()))], Order::Switch(vec![3]));
    assert_eq!(rows(&switched.unwrap(), 6), [0, 1, 2, 20, 21, 22]);
}

#[test]
fn a_block_is_the_same_as_one_at_a_time() {
    let case = plain();
    let policies: [Box<dyn Policy>; 4] = [
        unit(Pivots::Largest),
        Box::new(Random { probes: Probes::Gaussian, seed: 2 }),
        Box::new(PseudoInput::new(&numbers(40, 4), 2).unwrap()),
        Box::new(Learned::new(&numbers(N, 1), BlockSparse::even(N, 20))),
    ];
    for policy in policies {
        let solve = |block| case.solve(policy.as_ref(), &IterGpOptions { block, ..IterGpOptions::budget(15) });
        let one = solve(1);
        for block in [2, 7, 64] {
            let several = solve(block);
            assert_close(policy.name(), &weights(&several), &weights(&one), 1e-7);
            let factor = |solve: &Solve| to_f64(solve.factor.clone()).unwrap();
            assert_close(policy.name(), &factor(&several), &factor(&one), 1e-7);
        }
    }
}

#[test]
fn every_end_is_reported() {
    let case = plain();
    let tolerance = IterGpOptions { actions: N, relative: 1e-3, absolute: 0.0, block: 8 };
    let report = case.solve(&Residual, &tolerance).report;
    assert_eq!(report.stop, Stop::Converged);
    assert!(report.residual < 1e-3 * report.scale && report.actions < N);
    let loose = IterGpOptions { absolute: 0.5 * report.scale, ..tolerance };
    assert!(case.solve(&Residual, &loose).report.actions < report.actions, "the looser tolerance holds");
    assert_eq!(case.solve(&Residual, &IterGpOptions::budget(3)).report.stop, Stop::Budget);
    let rows = |rows: &[usize]| UnitVector { pivots: Pivots::Given(rows.to_vec()) };
    let ended = case.solve(&rows(&[1, 2]), &IterGpOptions::budget(9)).report;
    assert_eq!((ended.stop, ended.actions), (Stop::Exhausted, 2));
    // A row that occurs twice: alone, and within a block; the block's good columns are kept.
    for block in [1, 8] {
        let twice = case.solve(&rows(&[4, 1, 4, 2]), &IterGpOptions { block, ..IterGpOptions::budget(9) });
        assert_eq!((twice.report.stop, twice.report.actions), (Stop::Dependent, 2), "{block}");
        assert_close("kept", &weights(&twice), &weights(&case.solve(&rows(&[4, 1]), &IterGpOptions::budget(9))), 1e-12);
    }
    // An action of zeros, alone and within a block.
    let mut gaps = numbers(N, 1);
    let offsets = BlockSparse::even(N, 20);
    gaps[offsets[3]..offsets[4]].fill(0.0);
    for block in [1, 64] {
        let learned = Learned::new(&gaps, offsets.clone());
        let ended = case.solve(&learned, &IterGpOptions { block, ..IterGpOptions::budget(20) }).report;
        assert_eq!((ended.stop, ended.actions), (Stop::Dependent, 3), "{block}");
    }
    // The whole Krylov space, and what is left when the residual is zero.
    let all = case.solve(&Residual, &IterGpOptions::budget(10 * N)).report;
    assert!(matches!(all.stop, Stop::Dependent | Stop::Budget) && all.residual < 1e-9 * all.scale, "{all:?}");
    struct Third;
    impl SolveObserver for Third {
        fn step(&mut self, step: &Step) -> ControlFlow<()> {
            if step.actions == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    let stopped = itergp(&case.system(), &Residual, &tolerance, Some(&mut Third)).unwrap().report;
    assert_eq!((stopped.stop, stopped.actions), (Stop::Interrupted, 3));
    // There is no action to begin with.
    assert!(matches!(itergp(&case.system(), &rows(&[]), &tolerance, None), Err(Error::Usage(_))));
    assert!(itergp(&case.system(), &rows(&[N]), &tolerance, None).is_err(), "no such row");
    assert!(Mixed::new(vec![], Order::Turns).is_err());
    assert!(Mixed::new(vec![Box::new(Residual), Box::new(Residual)], Order::Switch(vec![])).is_err());
    assert!(PseudoInput::new(&[1.0, 2.0, 3.0], 2).is_err());
    assert!(itergp(&case.system(), &PseudoInput::new(&[1.0], 1).unwrap(), &tolerance, None).is_err());
    assert!(itergp(&case.system(), &Random { probes: Probes::Unit, seed: 0 }, &tolerance, None).is_err());
    assert!(itergp(&case.system(), &Learned::new(&[1.0], vec![0, 1]), &tolerance, None).is_err());
}

#[test]
fn rows_are_taken_beyond_the_rank_of_the_kernel() {
    let case = Case { kernel: Kernel::parse("linear", 2).unwrap(), ..plain() };
    let unit = UnitVector { pivots: Pivots::Largest };
    let ended = case.solve(&unit, &IterGpOptions::budget(12)).report;
    assert_eq!((ended.stop, ended.actions), (Stop::Budget, 12));
    let all = case.solve(&unit, &IterGpOptions::budget(N));
    let mut want = case.y.clone();
    Factor::new(case.matrix(), "K̂").unwrap().solve(&mut want).unwrap();
    assert_close("all rows", &weights(&all), &want, 1e-8);
}

#[test]
fn history_adds_up() {
    let case = plain();
    for (policy, block) in [(&Residual as &dyn Policy, 1), (&Random { probes: Probes::Rademacher, seed: 1 }, 4)] {
        let mut history = SolveHistory::default();
        let options = IterGpOptions { block, ..IterGpOptions::budget(11) };
        let solve = itergp(&case.system(), policy, &options, Some(&mut history)).unwrap();
        let steps = &history.steps;
        assert_eq!(steps.iter().map(|s| s.actions).collect::<Vec<_>>().last(), Some(&11));
        assert!(steps.iter().all(|s| s.explained >= 0.0));
        let last = steps.last().unwrap();
        assert_close("residual", &[last.residual], &[solve.report.residual], 1e-8);
        // All steps together explain tr(K C K).
        let k = products::Covariance::new(&case.kernel, &case.scope, &case.x).matrix().unwrap();
        let trace = scalar((solve.precision_times(&k).unwrap() * k).sum()).unwrap();
        assert_close("explained", &[steps.iter().map(|s| s.explained).sum()], &[trace], 1e-9);
        // A continued solve reports the same as one without a stop.
        let part = IterGpOptions { actions: 4, ..options };
        let first = itergp(&case.system(), policy, &part, None).unwrap();
        let gram = {
            let (s, t) = (first.actions.clone().into_dense().unwrap(), first.products.clone().into_dense().unwrap());
            to_f64(s.transpose().matmul(t)).unwrap()
        };
        let factor = Factor::new(gram, "test").unwrap();
        let coefficients = to_f64(first.coefficients.clone()).unwrap();
        let start = Start { actions: &first.actions, factor: &factor, coefficients: &coefficients };
        let mut rest = SolveHistory::default();
        let more = IterGpOptions { actions: 7, ..options };
        let later = itergp_from(&case.system(), start, &Residual, &more, Some(&mut rest)).unwrap();
        let explained = |steps: &[Step]| steps.iter().map(|s| s.explained).sum::<f64>();
        if policy.name() == "cg" {
            assert_close("rest", &[explained(&rest.steps)], &[explained(&steps[4..])], 1e-7);
            assert_close("residual", &[later.report.residual], &[last.residual], 1e-6);
        }
        assert_eq!(later.factor.dims(), [11, 11]);
        // Its weights belong to all actions: K̂v agrees with y on each of them.
        let v = later.weights().unwrap();
        let left = case.scope.vector(&case.y).unsqueeze_dim::<2>(1) - case.system().product(&v).unwrap();
        for actions in [&first.actions, &later.actions] {
            let projected = to_f64(actions.transposed_times(&left).unwrap()).unwrap();
            assert!(projected.iter().all(|p| p.abs() < 1e-8), "{projected:?}");
        }
        let again = later.precision_times(&case.scope.vector(&case.y).unsqueeze_dim(1)).unwrap();
        assert_close("precision", &to_f64(again).unwrap(), &to_f64(v).unwrap(), 1e-8);
    }
}

#[test]
fn a_good_preconditioner_saves_actions() {
    let scope = Scope::new(F64).unwrap();
    let case = Case { kernel: Kernel::parse("rbf(2.0)", 2).unwrap(), ..Case::new(scope) };
    let tolerance = IterGpOptions { actions: N, relative: 1e-8, absolute: 0.0, block: 8 };
    let without = case.solve(&Residual, &tolerance).report;
    // The preconditioner holds everything that matters of K: one residual is enough.
    let preconditioned = Preconditioned::new(unit(Pivots::Largest), 30, Box::new(Residual));
    let with = case.solve(&preconditioned, &tolerance).report;
    assert_eq!(with.stop, Stop::Converged, "{with:?} {without:?}");
    assert!(with.actions <= 32, "{} after 30 of the first policy", with.actions);
    let few = Preconditioned::new(unit(Pivots::Largest), 8, Box::new(Residual));
    let few = case.solve(&few, &tolerance).report;
    assert!(few.actions - 8 < 2 * without.actions / 3, "{} against {}", few.actions - 8, without.actions);
}

/// A user's own policy: the sign of the residual, with a learned shift.
#[derive(Debug, Clone)]
struct Sign {
    shift: Parameter,
}

impl Policy for Sign {
    fn name(&self) -> &'static str {
        "sign"
    }

    fn start(&self, system: &dyn LinearSystem, _budget: usize) -> Result<Box<dyn Actor>> {
        Ok(Box::new(SignActor { shift: system.scope().value(&self.shift) }))
    }

    fn parameters(&self) -> Vec<(String, &Parameter)> {
        vec![("shift".into(), &self.shift)]
    }

    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        vec![("shift".into(), &mut self.shift)]
    }
}

struct SignActor {
    shift: Tensor<1>,
}

impl Actor for SignActor {
    fn next(&mut self, state: &dyn SolveState, _most: usize) -> Result<Option<Tensor<2>>> {
        Ok(Some((state.residual()? + self.shift.clone().unsqueeze::<2>()).tanh()))
    }
}

#[test]
fn the_solve_itself_is_differentiable() {
    let mut policies = policies(N);
    policies.push(Box::new(Sign { shift: Parameter::real("shift", Unit::None, &[0.3]) }));
    for policy in policies {
        let both = With { first: Kernel::parse("matern52(ard)", 2).unwrap(), policy };
        // Weights and precision, mixed by fixed numbers, with an observer that must not change anything.
        let value = |both: &With<Kernel>, scope: &Scope| {
            let x = scope.matrix(&numbers(2 * N, 3), N, 2);
            let noise = Tensor::full([N], SIGMA, (scope.device(), scope.dtype()));
            let system = System::new(&both.first, scope, x, noise, scope.vector(&numbers(N, 9))).unwrap();
            let options = IterGpOptions { block: 3, ..IterGpOptions::budget(5) };
            let solve = itergp(&system, both.policy.as_ref(), &options, Some(&mut SolveHistory::default())).unwrap();
            let v = scope.matrix(&numbers(2 * N, 8), N, 2);
            let mixed = solve.weights().unwrap() * scope.matrix(&numbers(N, 7), N, 1);
            mixed.sum() + (solve.precision_times(&v).unwrap() * v).tanh().sum()
        };
        let scope = Scope::training(F64).unwrap();
        let (_, gradient) = scope.gradient(value(&both, &scope), &both).unwrap();
        let raw = both.free_raw();
        let shifted = |i: usize, h: f64| {
            let (mut moved, mut raw) = (both.clone(), raw.clone());
            raw[i] += h;
            moved.set_free_raw(&raw).unwrap();
            scalar(value(&moved, &Scope::new(F64).unwrap())).unwrap()
        };
        let numeric: Vec<f64> = (0..raw.len()).map(|i| (shifted(i, 1e-5) - shifted(i, -1e-5)) / 2e-5).collect();
        assert_close(both.policy.name(), &gradient, &numeric, 2e-6);
    }
}

/// Checks what must hold for every policy.
fn check_policy(policy: &dyn Policy) {
    let (case, name) = (plain(), policy.name());
    assert!(!name.is_empty());
    let options = IterGpOptions { block: 3, ..IterGpOptions::budget(9) };
    let solve = case.solve(policy, &options);
    let i = solve.report.actions;
    assert!((1..=9).contains(&i) && solve.actions.len() == i, "{name}: {i} actions");
    assert_eq!(columns(&solve), columns(&case.solve(policy, &options)), "{name}: the same each time");
    assert_eq!(columns(&solve), columns(&case.solve(&*policy.boxed(), &options)), "{name}: a clone is the same");
    // Columns have unit length and come with their products, the factor of M̂, and Galerkin's condition.
    let (s, t) = (solve.actions.clone().into_dense().unwrap(), solve.products.clone().into_dense().unwrap());
    let norms = to_f64(s.clone().powi_scalar(2).sum_dim(0)).unwrap();
    assert_close(&format!("{name}: lengths"), &norms, &vec![1.0; i], 1e-12);
    let products = case.system().product(&s).unwrap();
    assert_close(&format!("{name}: K̂S"), &to_f64(t.clone()).unwrap(), &to_f64(products).unwrap(), 1e-10);
    let square = solve.factor.clone().matmul(solve.factor.clone().transpose());
    let gram = s.clone().transpose().matmul(t);
    assert_close(&format!("{name}: M̂"), &to_f64(square).unwrap(), &to_f64(gram).unwrap(), 1e-10);
    let left = case.system().right_hand_side().clone() - case.system().product(&solve.weights().unwrap()).unwrap();
    let seen = to_f64(s.clone().transpose().matmul(left.clone())).unwrap();
    assert!(seen.iter().all(|r| r.abs() < 1e-9), "{name}: what actions see of the residual: {seen:?}");
    assert_close(
        &format!("{name}: residual"),
        &[solve.report.residual],
        &[to_f64(left).unwrap().iter().map(|r| r * r).sum::<f64>().sqrt()],
        1e-8,
    );
    // C K̂ S = S; more actions explain more of K̂.
    let back = solve.precision_times(&case.system().product(&s).unwrap()).unwrap();
    assert_close(&format!("{name}: CK̂S"), &to_f64(back).unwrap(), &columns(&solve), 1e-7);
    let trace = |solve: &Solve| {
        let k = products::Covariance::new(&case.kernel, &case.scope, &case.x).matrix().unwrap();
        scalar((solve.precision_times(&k).unwrap() * k.transpose()).sum()).unwrap()
    };
    let fewer = case.solve(policy, &IterGpOptions { actions: 3, ..options });
    assert!(trace(&fewer) < trace(&solve), "{name}: {} and {}", trace(&fewer), trace(&solve));
    // Single precision agrees, and a system without a right-hand side is no problem.
    let single = Case::new(Scope::new(F32).unwrap()).solve(policy, &options);
    if single.report.actions == i {
        assert_close(&format!("{name} in f32"), &weights(&single), &weights(&solve), 2e-3);
    } else {
        // The solve ends at directions that single precision cannot distinguish.
        assert_eq!(single.report.stop, Stop::Dependent, "{name}");
    }
    let silent = Case { y: vec![0.0; N], ..plain() };
    assert!(weights(&silent.solve(policy, &options)).iter().all(|v| *v == 0.0), "{name}: nothing to explain");
}

#[test]
fn every_policy_keeps_its_promises() {
    policies(N).iter().for_each(|policy| check_policy(policy.as_ref()));
    check_policy(&Sign { shift: Parameter::real("shift", Unit::None, &[0.3]) });
}

/// A user's own system: two latent functions at the same inputs, with noise that is correlated row by row.
#[derive(Debug)]
struct Coupled<'a> {
    scope: &'a Scope,
    covariance: Tensor<2>,
    noise: Tensor<2>,
    y: Tensor<2>,
}

impl LinearOperator for Coupled<'_> {
    fn order(&self) -> usize {
        self.y.dims()[0]
    }

    fn apply(&self, v: &[f64]) -> Result<Vec<f64>> {
        let n = self.order();
        to_f64(self.product(&self.scope.matrix(v, n, v.len() / n))?)
    }
}

impl LinearSystem for Coupled<'_> {
    fn scope(&self) -> &Scope {
        self.scope
    }

    fn covariance_times(&self, v: &Tensor<2>) -> Result<Tensor<2>> {
        Ok(self.covariance.clone().matmul(v.clone()))
    }

    fn noise_times(&self, v: &Tensor<2>) -> Result<Tensor<2>> {
        Ok(self.noise.clone().matmul(v.clone()))
    }

    fn noise_solve(&self, v: &Tensor<2>) -> Result<Tensor<2>> {
        cholesky_solve(cholesky(self.noise.clone(), "N")?, v.clone())
    }

    fn right_hand_side(&self) -> &Tensor<2> {
        &self.y
    }
}

#[test]
fn systems_of_several_functions_are_solved_by_all() {
    let (case, scope) = (plain(), Scope::new(F64).unwrap());
    let k = to_f64(products::Covariance::new(&case.kernel, &case.scope, &case.x).matrix().unwrap()).unwrap();
    let at = |block: &dyn Fn(usize, usize) -> [[f64; 2]; 2]| -> Vec<f64> {
        let n = 2 * N;
        (0..n * n).map(|e| block(e / n % N, e % n % N)[e / n / N][e % n / N]).collect()
    };
    let covariance = at(&|i, j| [[k[i * N + j], 0.0], [0.0, 0.5 * k[i * N + j]]]);
    let noise = at(&|i, j| if i == j { [[0.2, 0.1], [0.1, 0.3]] } else { [[0.0; 2]; 2] });
    let matrix = |values: &[f64]| scope.matrix(values, 2 * N, 2 * N);
    let y = numbers(2 * N, 9);
    let system = Coupled {
        scope: &scope,
        covariance: matrix(&covariance),
        noise: matrix(&noise),
        y: scope.matrix(&y, 2 * N, 1),
    };
    let whole = covariance.iter().zip(&noise).map(|(k, n)| k + n).collect();
    let (factor, mut want) = (Factor::new(whole, "K̂").unwrap(), y.clone());
    factor.solve(&mut want).unwrap();
    let solved = cg(&system, None, &y, &CgOptions { relative: 1e-12, ..CgOptions::default() }).unwrap();
    assert_close("conjugate gradients", &solved.x, &want, 1e-9);
    let options = LogDetOptions { probes: Probes::Unit, steps: 2 * N, ..LogDetOptions::default() };
    assert_close("log-determinant", &[log_det(&system, None, &options).unwrap().value], &[factor.log_det()], 1e-9);
    let all = IterGpOptions::budget(2 * N);
    for policy in [
        Box::new(Residual) as Box<dyn Policy>,
        unit(Pivots::Data),
        Box::new(Random { probes: Probes::Gaussian, seed: 1 }),
        Box::new(Preconditioned::new(unit(Pivots::Data), 10, Box::new(Residual))),
    ] {
        let solve = itergp(&system, policy.as_ref(), &all, None).unwrap();
        assert_close(policy.name(), &weights(&solve), &want, 1e-7);
    }
    // Policies that need inputs or columns report an error without them.
    for policy in [unit(Pivots::Largest), Box::new(PseudoInput::new(&numbers(8, 4), 2).unwrap())] {
        assert!(matches!(itergp(&system, policy.as_ref(), &all, None), Err(Error::Usage(_))), "{}", policy.name());
    }
}
