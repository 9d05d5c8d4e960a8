//! The papers' theorems on computation-aware and sparse posteriors, against dense arithmetic of their own.

use cagey::kernels::Kernel;
use cagey::likelihoods::{Bernoulli, BernoulliLink};
use cagey::means::Mean;
use cagey::models::Observations;
use cagey::models::cagp::{Actions, Cagp, IterativeCagp};
use cagey::models::posterior::Posterior;
use cagey::models::prior::Prior;
use cagey::models::sgpr::Sgpr;
use cagey::params::Parameters;
use cagey::scope::{Scope, to_f64};
use cagey::solvers::Probes;
use cagey::solvers::itergp::IterGpOptions;
use cagey::solvers::policies::{Eigenvector, Pivots, Policy, Random, Residual, UnitVector};

use crate::{F64, assert_close, data, noise};

const NOISE: f64 = 0.2;
/// Three points of two columns.
const POINTS: [f64; 6] = [0.4, -0.7, 3.0, 0.2, -1.1, 1.6];

/// A matrix by rows.
type Matrix = Vec<Vec<f64>>;

fn kernel() -> Kernel {
    Kernel::parse("matern32(ard)", 2).unwrap()
}

fn numbers(rows: usize, columns: usize, seed: u64) -> Matrix {
    let mut state = seed;
    (0..rows).map(|_| (0..columns).map(|_| noise(&mut state)).collect()).collect()
}

fn transposed(a: &Matrix) -> Matrix {
    (0..a[0].len()).map(|j| a.iter().map(|row| row[j]).collect()).collect()
}

fn times(a: &Matrix, b: &Matrix) -> Matrix {
    let columns = transposed(b);
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    a.iter().map(|row| columns.iter().map(|column| dot(row, column)).collect()).collect()
}

fn with_diagonal(mut a: Matrix, by: f64) -> Matrix {
    a.iter_mut().enumerate().for_each(|(i, row)| row[i] += by);
    a
}

/// a⁻¹ b and ln det a of a positive definite matrix, by Gaussian elimination.
fn solved(a: &Matrix, b: &Matrix) -> (Matrix, f64) {
    let (n, mut a, mut b, mut log_det) = (a.len(), a.clone(), b.clone(), 0.0);
    for k in 0..n {
        log_det += a[k][k].ln();
        for i in (0..n).filter(|i| *i != k) {
            let by = a[i][k] / a[k][k];
            for matrix in [&mut a, &mut b] {
                let row = matrix[k].clone();
                matrix[i].iter_mut().zip(row).for_each(|(value, pivot)| *value -= by * pivot);
            }
        }
    }
    let scaled = |(i, row): (usize, &Vec<f64>)| row.iter().map(|value| value / a[i][i]).collect();
    (b.iter().enumerate().map(scaled).collect(), log_det)
}

/// L with L Lᵀ = a.
fn cholesky(a: &Matrix) -> Matrix {
    let mut l = vec![vec![0.0; a.len()]; a.len()];
    for i in 0..a.len() {
        for j in 0..=i {
            let rest = a[i][j] - (0..j).map(|k| l[i][k] * l[j][k]).sum::<f64>();
            l[i][j] = if i == j { rest.sqrt() } else { rest / l[j][j] };
        }
    }
    l
}

fn covariances(prior: &Prior, a: &[f64], b: &[f64]) -> Matrix {
    let scope = Scope::new(F64).unwrap();
    let points = |x: &[f64]| scope.matrix(x, x.len() / 2, 2);
    let all = to_f64(prior.cross(&scope, &points(a), &points(b)).matrix().unwrap()).unwrap();
    all.chunks(b.len() / 2).map(<[f64]>::to_vec).collect()
}

fn set(model: &mut impl Parameters, name: &str, value: f64) {
    model.find_mut(name).unwrap()[0].set(&[value]).unwrap();
}

fn dense(s: &Matrix) -> Cagp {
    let mut gp = Cagp::new(kernel(), Actions::dense(&s.concat(), s[0].len()));
    set(&mut gp, "likelihood.noise", NOISE);
    gp
}

/// Lemma S1 of the paper on computation-aware GPs: the posterior of actions S is that of an exact GP given S′ᵀy, where
/// S′ has orthonormal columns with the same span, with the same noise.
#[test]
fn actions_are_an_exact_model_of_projected_targets() {
    let (n, i) = (14, 5);
    let observations = data(n, 2);
    let s = numbers(n, i, 3);
    let mut gp = dense(&s);
    gp.priors[0].mean = Mean::named("constant", 2).unwrap();
    set(&mut gp, "mean.constant", 0.3);
    let predicted = gp.posterior(F64, observations.clone()).unwrap().predict(&POINTS).unwrap();

    let l = cholesky(&times(&transposed(&s), &s));
    // Rows of L⁻¹Sᵀ, by forward substitution.
    let mut orthonormal = transposed(&s);
    for row in 0..i {
        for before in 0..row {
            let (by, other) = (l[row][before], orthonormal[before].clone());
            orthonormal[row].iter_mut().zip(other).for_each(|(value, other)| *value -= by * other);
        }
        orthonormal[row].iter_mut().for_each(|value| *value /= l[row][row]);
    }
    let k = covariances(&gp.priors[0], &observations.x, &observations.x);
    let cross = times(&orthonormal, &covariances(&gp.priors[0], &observations.x, &POINTS));
    let projected = with_diagonal(times(&times(&orthonormal, &k), &transposed(&orthonormal)), NOISE);
    let above: Matrix = observations.y.iter().map(|y| vec![y - 0.3]).collect();
    let (weights, _) = solved(&projected, &times(&orthonormal, &above));
    let (explaining, _) = solved(&projected, &cross);
    let prior = covariances(&gp.priors[0], &POINTS, &POINTS);
    for point in 0..3 {
        let mean = 0.3 + (0..i).map(|a| cross[a][point] * weights[a][0]).sum::<f64>();
        let explained = (0..i).map(|a| cross[a][point] * explaining[a][point]).sum::<f64>();
        assert_close("mean", &[predicted.mean[point]], &[mean], 1e-9);
        assert_close("variance", &[predicted.variance[point]], &[prior[point][point] - explained], 1e-9);
    }
}

/// Lemma S5: the entropy of f at the data falls by ½ ln det(σ⁻² (SᵀS)⁻¹ SᵀK̂S), and eigenvectors of the largest
/// eigenvalues of K̂ have the largest such fall.
#[test]
fn no_actions_tell_more_than_eigenvectors() {
    let (n, i) = (10, 3);
    let observations = data(n, 2);
    let fall = |posterior: &dyn Posterior, k: &Matrix| {
        let joint = posterior.predict_joint(&observations.x).unwrap();
        let left: Matrix = joint.covariance.chunks(n).map(<[f64]>::to_vec).collect();
        0.5 * (solved(k, k).1 - solved(&left, &left).1)
    };
    let mut top = IterativeCagp::new(kernel(), Box::new(Eigenvector), IterGpOptions::budget(i));
    set(&mut top, "likelihood.noise", NOISE);
    let k = covariances(&top.priors[0], &observations.x, &observations.x);
    let best = fall(&top.posterior(F64, observations.clone()).unwrap().0, &k);
    let noisy = with_diagonal(k.clone(), NOISE);
    let formula = |s: &Matrix| {
        let t = transposed(s);
        let (squares, all) = (times(&t, s), times(&times(&t, &noisy), s));
        0.5 * (solved(&all, &all).1 - solved(&squares, &squares).1 - i as f64 * NOISE.ln())
    };
    for seed in 0..1000 {
        let s = numbers(n, i, seed);
        let told = formula(&s);
        assert!(told < best, "{told} of {best}");
        if seed < 10 {
            let posterior = dense(&s).posterior(F64, observations.clone()).unwrap();
            assert_close("entropy", &[fall(&posterior, &k)], &[told], 1e-7);
        }
    }
}

/// Theorem S3: the variance of an optimal SVGP, noise included, is the worst squared error over the unit ball of the
/// RKHS of Q + σ²δ, with the Nyström kernel Q, plus that of interpolating the inducing inputs. The worst error over
/// functions of the kernel itself is larger at an inducing input.
#[test]
fn the_variance_of_svgp_leaves_an_error_out() {
    let n = 12;
    let observations = data(n, 2);
    let z = [0.9, 0.1, -1.2, 0.5, 0.3, -1.4];
    let mut gp = Sgpr::new(kernel(), &z, 2).unwrap();
    set(&mut gp, "likelihood.noise", NOISE);
    let at = |x: &[f64], y: Vec<f64>| {
        let observations = Observations::new(observations.x.clone(), 2, y, None).unwrap();
        gp.posterior(F64, observations).unwrap().predict(x).unwrap()
    };
    let unit = |j: usize| (0..n).map(|row| f64::from(u8::from(row == j))).collect::<Vec<_>>();
    let prior = &gp.process.prior;
    let inner = covariances(prior, &z, &z);
    let nystrom =
        |a: &[f64], b: &[f64]| times(&covariances(prior, a, &z), &solved(&inner, &covariances(prior, &z, b)).0);
    for (point, inducing) in [(&POINTS[..2], false), (&POINTS[2..4], false), (&z[..2], true)] {
        // The mean is linear in y: unit vectors give its coefficients.
        let c: Matrix = vec![(0..n).map(|j| at(point, unit(j)).mean[0]).collect()];
        let variance = at(point, unit(0)).variance[0] + NOISE;
        let square = |own: f64, cross: Matrix, gram: Matrix| {
            let gram = with_diagonal(gram, NOISE);
            own + NOISE - 2.0 * times(&c, &cross)[0][0] + times(&times(&c, &gram), &transposed(&c))[0][0]
        };
        let x = &observations.x;
        let own = covariances(prior, point, point)[0][0];
        let q = nystrom(point, point)[0][0];
        let of_nystrom = square(q, nystrom(x, point), nystrom(x, x));
        assert_close("variance", &[variance], &[of_nystrom + own - q], 1e-8);
        let worst = square(own, covariances(prior, x, point), covariances(prior, x, x));
        if inducing {
            assert!(worst > variance * 1.01, "{worst} for {variance}");
        }
    }
}

/// The regression of a Newton step for two classes at latent values 0: pseudo-targets 4 (y − ½) with noise of variance
/// 4, here with other variances for each row.
fn regression(n: usize) -> Observations {
    let noise = (0..n).map(|i| 4.0 + 0.5 * (i % 5) as f64).collect();
    let y = (0..n).map(|i| if i % 3 == 0 { 2.0 } else { -2.0 } + 0.1 * i as f64).collect();
    Observations::new(data(n, 2).x.clone(), 2, y, Some(noise)).unwrap()
}

/// The smallest learned noise, which is added to that of the rows.
const LEAST: f64 = 2e-6;

fn step(policy: impl Policy + Clone + 'static, actions: usize) -> IterativeCagp {
    let options = IterGpOptions { relative: 1e-12, ..IterGpOptions::budget(actions) };
    let mut gp = IterativeCagp::new(kernel(), Box::new(policy), options);
    set(&mut gp, "likelihood.noise", LEAST);
    gp
}

/// S of a step `[n, i]`.
fn actions_of(gp: &IterativeCagp, data: &Observations) -> Matrix {
    let scope = Scope::new(F64).unwrap();
    let s = gp.chosen(&scope, &data.batch(&scope)).unwrap().actions;
    let i = s.dims()[1];
    to_f64(s).unwrap().chunks(i).map(<[f64]>::to_vec).collect()
}

/// Proposition A.3 of the paper on non-conjugate GPs: within a Newton step variances fall with every action.
#[test]
fn variances_fall_with_each_action_of_a_newton_step() {
    let data = regression(16);
    let policies: [Box<dyn Fn(usize) -> IterativeCagp>; 3] = [
        Box::new(|actions| step(Residual, actions)),
        Box::new(|actions| step(UnitVector { pivots: Pivots::Data }, actions)),
        Box::new(|actions| step(Random { probes: Probes::Gaussian, seed: 3 }, actions)),
    ];
    for policy in policies {
        let mut before = vec![1.0; 3];
        for actions in 1..=12 {
            let variance = policy(actions).posterior(F64, data.clone()).unwrap().0.predict(&POINTS).unwrap().variance;
            assert!(variance.iter().zip(&before).all(|(now, before)| *now <= before + 1e-12), "{actions} actions");
            before = variance;
        }
        assert!(before.iter().any(|variance| *variance < 0.97));
    }
}

/// Propositions A.4 and A.5: after some actions S, the residual r = ŷ − K̂v is orthogonal to their span, and so is the
/// error v* − v in the metric of K̂. v comes from the mean of the posterior, K v, and not from the solve.
#[test]
fn residual_and_error_vanish_in_the_span_of_the_actions() {
    let n = 14;
    let data = regression(n);
    let column = |values: &[f64]| values.iter().map(|value| vec![*value]).collect::<Matrix>();
    for actions in [1, 3, 4] {
        for gp in [step(Residual, actions), step(UnitVector { pivots: Pivots::Largest }, actions)] {
            let k = covariances(&gp.priors[0], &data.x, &data.x);
            let mut noisy = k.clone();
            let known = data.auxiliary.as_ref().unwrap();
            noisy.iter_mut().enumerate().for_each(|(i, row)| row[i] += known[i] + LEAST);
            let mean = gp.posterior(F64, data.clone()).unwrap().0.predict(&data.x).unwrap().mean;
            let (v, _) = solved(&k, &column(&mean));
            let product = times(&noisy, &v);
            let residual: Matrix = data.y.iter().zip(&product).map(|(y, p)| vec![y - p[0]]).collect();
            let size = residual.iter().map(|r| r[0].abs()).fold(0.0, f64::max);
            assert!(size > 1e-3, "{actions} actions leave a residual");
            let s = actions_of(&gp, &data);
            for inner in times(&transposed(&s), &residual) {
                assert!(inner[0].abs() < 1e-7, "residual along an action: {} of {size}", inner[0]);
            }
            // The K̂-orthogonal projection S (SᵀK̂S)⁻¹SᵀK̂ of the error.
            let (best, _) = solved(&noisy, &column(&data.y));
            let error: Matrix = best.iter().zip(&v).map(|(a, b)| vec![a[0] - b[0]]).collect();
            let squares = times(&times(&transposed(&s), &noisy), &s);
            let (weights, _) = solved(&squares, &times(&times(&transposed(&s), &noisy), &error));
            for projected in times(&s, &weights) {
                assert!(projected[0].abs() < 1e-7, "projection of the error: {}", projected[0]);
            }
        }
    }
}

/// The same for Newton's method at its end: W⁻¹(g − v) is orthogonal to the span of the actions, which does not hold
/// all of g − v.
#[test]
fn newtons_residual_vanishes_in_the_span_of_the_actions() {
    let n = 14;
    let y: Vec<f64> = (0..n).map(|i| f64::from(u8::from(i % 3 == 0))).collect();
    let data = Observations::new(data(n, 2).x.clone(), 2, y, None).unwrap();
    let gp = IterativeCagp::newton(kernel(), Bernoulli { link: BernoulliLink::Logit }, 2);
    let k = covariances(&gp.priors[0], &data.x, &data.x);
    let f = gp.posterior(F64, data.clone()).unwrap().0.predict(&data.x).unwrap().mean;
    let (v, _) = solved(&k, &f.iter().map(|f| vec![*f]).collect());
    let spread = |(f, (y, v)): (&f64, (&f64, &Vec<f64>))| {
        let p = 1.0 / (1.0 + (-f).exp());
        vec![(y - p - v[0]) / (p * (1.0 - p))]
    };
    let residual: Matrix = f.iter().zip(data.y.iter().zip(&v)).map(spread).collect();
    let size = residual.iter().map(|r| r[0].abs()).fold(0.0, f64::max);
    assert!(size > 1e-2, "{size}");
    for inner in times(&transposed(&actions_of(&gp, &data)), &residual) {
        assert!(inner[0].abs() < 1e-6 * size, "{} of {size}", inner[0]);
    }
}

/// Proposition A.6 (eq. 12): without noise and with eigenvectors as actions, the variances at the rows add up to
/// Tr K − Tr M.
#[test]
fn eigenvectors_take_their_eigenvalues_off_the_variances() {
    let n = 12;
    let data = data(n, 2);
    for actions in [1, 3, 6] {
        let gp = step(Eigenvector, actions);
        let k = covariances(&gp.priors[0], &data.x, &data.x);
        let s = actions_of(&gp, &data);
        let (matrix, squares) = (times(&times(&transposed(&s), &k), &s), times(&transposed(&s), &s));
        // Tr M for actions of unit length.
        let trace: f64 = (0..actions).map(|j| matrix[j][j] / squares[j][j]).sum();
        let left: f64 = gp.posterior(F64, data.clone()).unwrap().0.predict(&data.x).unwrap().variance.iter().sum();
        let all: f64 = (0..n).map(|i| k[i][i]).sum();
        // Noise of 2e-6 is left.
        assert_close("trace", &[left], &[all - trace], 1e-5);
        assert!(trace > 0.1);
    }
}
