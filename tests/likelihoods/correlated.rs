//! Probabilities of classes whose latent functions are correlated.

use cagey::likelihoods::quadrature::hermite;
use cagey::likelihoods::{
    Bernoulli, BernoulliLink, Density, Likelihood, Marginal, Poisson, RateLink, Row, Slopes, Softmax,
};

/// Means `0.8 sin 1.7i` and covariances `v (0.6 δ_ij + 0.4 exp(−|i − j|/2))`.
fn functions(count: usize, v: f64) -> (Vec<f64>, Vec<f64>) {
    let mean = (0..count).map(|i| 0.8 * (1.7 * i as f64).sin()).collect();
    let entry = |i: usize, j: usize| {
        let own = if i == j { 0.6 } else { 0.0 };
        v * (own + 0.4 * (-0.5 * i.abs_diff(j) as f64).exp())
    };
    (mean, (0..count * count).map(|e| entry(e / count, e % count)).collect())
}

/// The covariance `(I/v + τ (diag π − π πᵀ))⁻¹` that one row leaves of prior variances v, with π the softmax of the
/// means.
fn posterior(mean: &[f64], v: f64, tau: f64) -> Vec<f64> {
    let total: f64 = mean.iter().map(|m| m.exp()).sum();
    let p: Vec<f64> = mean.iter().map(|m| m.exp() / total).collect();
    let own: Vec<f64> = p.iter().map(|p| 1.0 / (1.0 / v + tau * p)).collect();
    let seen: Vec<f64> = own.iter().zip(&p).map(|(d, p)| d * p).collect();
    let rest = 1.0 - tau * seen.iter().zip(&p).map(|(s, p)| s * p).sum::<f64>();
    let n = p.len();
    (0..n * n)
        .map(|e| tau * seen[e / n] * seen[e % n] / rest + if e % (n + 1) == 0 { own[e / n] } else { 0.0 })
        .collect()
}

fn probabilities(mean: &[f64], covariance: &[f64]) -> Vec<f64> {
    let prediction = Softmax::new(mean.len()).predict_joint(mean, covariance, None).unwrap();
    let p = prediction.probabilities().unwrap();
    for (class, p) in p.iter().enumerate() {
        assert!((prediction.log_density(class as f64) - p.ln()).abs() < 1e-9);
    }
    p
}

fn assert_near(what: &str, got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (got, want) in got.iter().zip(want) {
        assert!((got - want).abs() <= tolerance, "{what}: {got} {want}");
    }
}

#[test]
fn two_classes_are_those_of_the_difference() {
    for v in [0.0, 0.5, 5.0, 100.0] {
        let (mean, covariance) = functions(2, v);
        let variance = covariance[0] + covariance[3] - 2.0 * covariance[1];
        let bernoulli =
            Bernoulli { link: BernoulliLink::Logit }.predict(&[mean[1] - mean[0]], &[variance], None).unwrap();
        assert_near(&format!("{v}"), &probabilities(&mean, &covariance), &bernoulli.probabilities().unwrap(), 1e-8);
    }
}

#[test]
fn three_classes_agree_with_a_product_rule() {
    let rule = hermite(48);
    for v in [0.3, 2.0] {
        let (mean, c) = functions(3, v);
        // Cholesky's factor of the covariance.
        let a = c[0].sqrt();
        let (b, d) = (c[3] / a, c[6] / a);
        let e = (c[4] - b * b).sqrt();
        let g = (c[7] - b * d) / e;
        let h = (c[8] - d * d - g * g).sqrt();
        let mut want = vec![0.0; 3];
        for (x, u) in &rule {
            for (y, v) in &rule {
                for (z, w) in &rule {
                    let f = [mean[0] + a * x, mean[1] + b * x + e * y, mean[2] + d * x + g * y + h * z];
                    let total: f64 = f.iter().map(|f| f.exp()).sum();
                    want.iter_mut().zip(f).for_each(|(sum, f)| *sum += u * v * w * f.exp() / total);
                }
            }
        }
        assert_near(&format!("{v}"), &probabilities(&mean, &c), &want, 1e-8);
    }
}

/// Compared with 16 scrambled Sobol sequences of 2¹⁷ points (SciPy), whose averages are known to 1e-5.
#[test]
fn many_classes_agree_with_long_sequences() {
    let five: &[f64] = &[0.182_092, 0.320_344_5, 0.149_295_9, 0.098_054_8, 0.250_212_8];
    let ten: &[f64] =
        &[0.092_386, 0.155_107, 0.075_287, 0.049_601, 0.114_727, 0.135_926, 0.056_998, 0.060_503, 0.144_182, 0.115_284];
    for (v, want) in [(2.0, five), (4.0, ten)] {
        let (mean, covariance) = functions(want.len(), v);
        assert_near(&format!("{} classes", want.len()), &probabilities(&mean, &covariance), want, 1e-3);
    }
}

#[test]
fn independent_functions_are_those_of_their_marginals() {
    for count in [2, 3, 6] {
        let (mean, _) = functions(count, 1.0);
        let variance: Vec<f64> = (0..count).map(|c| 0.4 + 0.3 * c as f64).collect();
        let diagonal: Vec<f64> =
            (0..count * count).map(|e| if e % (count + 1) == 0 { variance[e / count] } else { 0.0 }).collect();
        let apart = Softmax::new(count).predict(&mean, &variance, None).unwrap();
        let together = probabilities(&mean, &diagonal);
        // For many classes, the lattice removes the shift that the variances have in common.
        let tolerance = if count > 3 { 1e-3 } else { 1e-7 };
        assert_near(&format!("{count}"), &together, &apart.probabilities().unwrap(), tolerance);
    }
}

#[test]
fn a_common_shift_changes_nothing() {
    for count in [2, 3, 5] {
        let (mean, covariance) = functions(count, 1.5);
        let moved: Vec<f64> = mean.iter().map(|m| m + 7.0).collect();
        let wider: Vec<f64> = covariance.iter().map(|c| c + 30.0).collect();
        assert_near("shift", &probabilities(&moved, &wider), &probabilities(&mean, &covariance), 1e-9);
    }
}

#[test]
fn extremes_are_probabilities() {
    for count in [2, 3, 4, 12] {
        for v in [0.0, 1e-12, 400.0, 1e6] {
            let (mut mean, covariance) = functions(count, v);
            mean[0] = 50.0;
            let p = probabilities(&mean, &covariance);
            assert!(p.iter().all(|p| (0.0..=1.0).contains(p)), "{count} {v}: {p:?}");
            assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{count} {v}: {p:?}");
        }
    }
}

#[test]
fn one_function_needs_no_correlations_and_others_refuse_them() {
    let poisson = Poisson { link: RateLink::Exp };
    let (joint, single) = (poisson.predict_joint(&[0.3], &[0.2], None), poisson.predict(&[0.3], &[0.2], None));
    assert_eq!(joint.unwrap().mean(), single.unwrap().mean());
    assert!(Softmax::new(3).predict_joint(&[0.0; 3], &[1.0; 3], None).is_err());
    let two = crate::parse("heteroscedastic", None).unwrap();
    let problem = two.predict_joint(&[0.0; 2], &[1.0; 4], None).unwrap_err().to_string();
    assert!(problem.contains("heteroscedastic"), "{problem}");
}

/// `E[ln p(y | f)]` with its slopes in the means and covariances.
fn expectation(density: &dyn Density, mean: &[f64], covariance: &[f64]) -> (f64, Vec<f64>, Vec<f64>) {
    let (mut in_mean, mut in_covariance) = (vec![0.0; mean.len()], vec![0.0; covariance.len()]);
    let slopes = Slopes { mean: &mut in_mean, variance: &mut in_covariance, own: &mut [] };
    let value = density.joint_expectation(Row { y: 1.0, auxiliary: 1.0 }, mean, covariance, slopes);
    (value, in_mean, in_covariance)
}

#[test]
fn expectations_of_independent_classes_are_those_of_their_marginals() {
    for (count, v) in [(2, 0.4), (3, 3.0), (6, 5.0), (10, 15.0)] {
        let (mean, _) = functions(count, v);
        let covariance: Vec<f64> = (0..count * count).map(|e| if e % (count + 1) == 0 { v } else { 0.0 }).collect();
        let density = Softmax::new(count).density();
        let (value, in_mean, in_covariance) = expectation(&*density, &mean, &covariance);
        let (mut m, mut s) = (vec![0.0; count], vec![0.0; count]);
        let slopes = Slopes { mean: &mut m, variance: &mut s, own: &mut [] };
        let at = Marginal { mean: &mean, variance: &vec![v; count] };
        let want = density.expectation(Row { y: 1.0, auxiliary: 1.0 }, at, slopes);
        assert!((value - want).abs() < 1e-6, "{count}: {value} {want}");
        assert_near(&format!("{count}: means"), &in_mean, &m, 1e-6);
        let own: Vec<f64> = in_covariance.iter().step_by(count + 1).copied().collect();
        assert_near(&format!("{count}: variances"), &own, &s, if count > 3 { 2e-3 } else { 1e-6 });
    }
}

#[test]
fn slopes_of_expectations_agree_with_differences() {
    const STEP: f64 = 1e-5;
    // The last of `functions` use the smallest and the largest lattice, and the three pairs of lattices. Posteriors and
    // functions of different sizes use shifts that differ between classes.
    let mut cases: Vec<_> = [(2, 4.0), (3, 4.0), (4, 4.0), (10, 0.3), (10, 4.0), (10, 0.7), (10, 1.0), (10, 2.0)]
        .map(|(count, v)| functions(count, v))
        .into();
    for (count, v, tau) in [(4, 3.0, 2.0), (10, 5.0, 50.0)] {
        let (mean, _) = functions(count, v);
        let covariance = posterior(&mean, v, tau);
        cases.push((mean, covariance));
    }
    let (mean, covariance) = functions(10, 3.0);
    let size = |a: usize| 0.1 + 0.15 * a as f64;
    cases.push((mean, covariance.iter().enumerate().map(|(e, c)| c * size(e / 10) * size(e % 10)).collect()));
    for (case, (mean, covariance)) in cases.into_iter().enumerate() {
        let count = mean.len();
        let density = Softmax::new(count).density();
        let (_, in_mean, in_covariance) = expectation(&*density, &mean, &covariance);
        for a in 0..count {
            let moved = |step: f64| {
                let mut mean = mean.clone();
                mean[a] += step;
                expectation(&*density, &mean, &covariance).0
            };
            let slope = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
            assert!((slope - in_mean[a]).abs() < 1e-7, "{case}, mean {a}: {} {slope}", in_mean[a]);
            for b in 0..=a {
                let moved = |step: f64| {
                    let mut covariance = covariance.clone();
                    covariance[a * count + b] += step;
                    covariance[b * count + a] = covariance[a * count + b];
                    expectation(&*density, &mean, &covariance).0
                };
                let slope = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
                let got = in_covariance[a * count + b] * if a == b { 1.0 } else { 2.0 };
                assert!((slope - got).abs() < 1e-7, "{case}, covariance {a} {b}: {got} {slope}");
            }
        }
    }
}

/// Compared with four scrambled Sobol sequences of 2¹² points and their mirror images (SciPy), known to 4e-5. The
/// covariances are split: their largest part of independent functions is averaged in closed form, and the sequences
/// average the rest.
#[test]
fn expectations_are_good_to_thousandths() {
    for (count, v, want) in [
        (4, 5.0, -1.734_829),
        (4, 15.0, -3.057_686),
        (10, 0.5, -1.919_005),
        (10, 0.75, -2.011_348),
        (10, 1.0, -2.101_217),
        (10, 1.3, -2.205_998),
        (10, 5.0, -3.298_285),
        (10, 15.0, -5.367_772),
    ] {
        let (mean, covariance) = functions(count, v);
        let (got, ..) = expectation(&*Softmax::new(count).density(), &mean, &covariance);
        assert!((got - want).abs() < 1e-3, "{count} classes, variance {v}: {got} {want}");
    }
}

/// Compared with eight randomly shifted lattices of 2¹⁷ points and their mirror images (NumPy), known to 6e-5 for a
/// prior variance of 15 and to 1.3e-5 for the others. In posteriors, most of what correlates classes is a shift.
#[test]
fn expectations_of_posteriors_are_better() {
    for (count, v, tau, want, most) in [
        (10, 1.0, 0.5, -2.118_652, 1e-4),
        (10, 1.0, 5.0, -1.998_982, 1e-4),
        (10, 1.0, 50.0, -1.798_391, 1e-4),
        (10, 5.0, 5.0, -2.312_777, 3e-4),
        (10, 15.0, 1.0, -3.776_826, 1e-3),
        (4, 5.0, 3.0, -1.062_134, 1e-4),
    ] {
        let (mean, _) = functions(count, v);
        let (got, ..) = expectation(&*Softmax::new(count).density(), &mean, &posterior(&mean, v, tau));
        assert!((got - want).abs() < most, "{count} classes, variance {v}, {tau}: {got} {want}");
    }
}
