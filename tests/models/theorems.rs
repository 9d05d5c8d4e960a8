//! The papers' theorems on computation-aware and sparse posteriors, against dense arithmetic of their own.

use cagey::kernels::Kernel;
use cagey::means::Mean;
use cagey::models::Observations;
use cagey::models::cagp::{Actions, Cagp, IterativeCagp};
use cagey::models::posterior::Posterior;
use cagey::models::prior::Prior;
use cagey::models::sgpr::Sgpr;
use cagey::params::Parameters;
use cagey::scope::{Scope, to_f64};
use cagey::solvers::itergp::IterGpOptions;
use cagey::solvers::policies::Eigenvector;

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
