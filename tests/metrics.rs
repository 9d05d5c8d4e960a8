//! Scores against numeric integration, quadrature-free identities and values worked out by hand.

use cagey::Error;
use cagey::metrics::{Predictive, Scores, calibration_curve, score};
use proptest::prelude::*;

/// `∫ f` from `a` to `b` by Simpson's rule.
fn integrate(f: impl Fn(f64) -> f64, a: f64, b: f64, steps: usize) -> f64 {
    let h = (b - a) / (2 * steps) as f64;
    let weight = |i: usize| match i {
        0 => 1.0,
        i if i == 2 * steps => 1.0,
        i if i % 2 == 1 => 4.0,
        _ => 2.0,
    };
    (0..=2 * steps).map(|i| weight(i) * f(a + i as f64 * h)).sum::<f64>() * h / 3.0
}

fn cases() -> Vec<Predictive> {
    vec![
        Predictive::Normal { mean: 0.0, sd: 1.0 },
        Predictive::Normal { mean: -3.5, sd: 0.2 },
        Predictive::LogNormal { mu: 0.0, sigma: 0.5, shift: 0.0 },
        Predictive::LogNormal { mu: 1.2, sigma: 0.3, shift: 1.0 },
        Predictive::LogNormal { mu: -1.0, sigma: 0.8, shift: 0.0 },
    ]
}

/// Ends of a range outside which there is almost nothing.
fn range(p: &Predictive) -> (f64, f64) {
    (p.quantile(1e-12), p.quantile(1.0 - 1e-12))
}

#[test]
fn density_integrates_to_distribution_mean_and_variance() {
    for p in cases() {
        let (a, b) = range(&p);
        let density = |y: f64| p.log_density(y).exp();
        let mass = integrate(density, a, b, 20_000);
        assert!((mass - 1.0).abs() < 1e-8, "{p:?} {mass}");
        let mean = integrate(|y| y * density(y), a, b, 20_000);
        assert!((mean - p.mean()).abs() < 1e-7 * (1.0 + p.mean().abs()), "{p:?} {mean}");
        let variance = integrate(|y| (y - mean).powi(2) * density(y), a, b, 20_000);
        assert!((variance.sqrt() / p.sd() - 1.0).abs() < 1e-6, "{p:?} {variance}");
        let middle = p.quantile(0.3);
        assert!((integrate(density, a, middle, 20_000) - p.cdf(middle)).abs() < 1e-8, "{p:?}");
    }
}

#[test]
fn crps_is_the_integral_of_the_squared_difference_of_distributions() {
    for p in cases() {
        let (a, b) = range(&p);
        for y in [p.quantile(0.02), p.median(), p.mean(), p.quantile(0.99), p.quantile(0.999_999)] {
            let below = integrate(|t| p.cdf(t).powi(2), a, y, 20_000);
            let above = integrate(|t| (1.0 - p.cdf(t)).powi(2), y, b.max(y), 20_000);
            let crps = p.crps(y);
            assert!((crps - below - above).abs() < 1e-7 * (1.0 + crps), "{p:?} at {y}: {crps} {}", below + above);
        }
    }
}

#[test]
fn crps_below_the_support_of_a_log_normal() {
    let p = Predictive::LogNormal { mu: 0.3, sigma: 0.6, shift: 1.0 };
    let at_edge = p.crps(-1.0 + 1e-300);
    assert!((p.crps(-3.0) - at_edge - 2.0).abs() < 1e-12);
    assert_eq!(p.log_density(-1.0), f64::NEG_INFINITY);
    assert_eq!(p.cdf(-2.0), 0.0);
}

#[test]
fn known_values_of_the_standard_normal() {
    let p = Predictive::Normal { mean: 0.0, sd: 1.0 };
    assert!((p.quantile(0.975) - 1.959_963_984_540_054).abs() < 1e-13);
    assert!((p.cdf(1.0) - 0.841_344_746_068_542_9).abs() < 1e-10);
    assert!((p.cdf(-10.0) / 7.619_853_024_160_527e-24 - 1.0).abs() < 1e-9);
    assert!((p.log_density(0.0) + 0.918_938_533_204_672_8).abs() < 1e-15);
    // √(2/π) − 1/√π
    assert!((p.crps(0.0) - 0.233_694_977_255_109_1).abs() < 1e-12);
    assert_eq!((p.quantile(0.0), p.quantile(1.0)), (f64::NEG_INFINITY, f64::INFINITY));
}

#[test]
fn log_normal_moments_for_small_values_keep_their_digits() {
    let p = Predictive::LogNormal { mu: 1e-10, sigma: 1e-12, shift: 1.0 };
    assert!((p.mean() / 1e-10 - 1.0).abs() < 1e-9);
    assert!((p.median() / 1e-10 - 1.0).abs() < 1e-9);
    assert!((p.sd() / 1e-12 - 1.0).abs() < 1e-9);
}

#[test]
fn tiny_log_normal_targets_keep_their_digits() {
    let p = Predictive::LogNormal { mu: (1e-20_f64).ln(), sigma: 1.0, shift: 0.0 };
    assert!((p.median() / 1e-20 - 1.0).abs() < 1e-12, "{}", p.median());
    assert!((p.mean() / (1e-20 * 0.5_f64.exp()) - 1.0).abs() < 1e-12);
    assert!((p.cdf(1e-20) - 0.5).abs() < 1e-12, "{}", p.cdf(1e-20));
}

#[test]
fn scores_by_hand() {
    let unit = |mean| Predictive::Normal { mean, sd: 1.0 };
    let scores = score(&[0.0, 1.0, 4.0], &[unit(0.0), unit(2.0), unit(2.0)]).unwrap();
    assert_eq!(scores.n, 3);
    assert!((scores.rmse - (5.0_f64 / 3.0).sqrt()).abs() < 1e-15);
    assert!((scores.mae - 1.0).abs() < 1e-15);
    // Residuals 0, −1, 2; targets around their mean 5/3.
    assert!((scores.r2.unwrap() - (1.0 - 5.0 / (26.0 / 3.0))).abs() < 1e-14);
    assert!((scores.nlpd - (0.918_938_533_204_672_8 + 2.5 / 3.0)).abs() < 1e-14);
    // |z| = 0, 1, 2 against 0.674, 1.645 and 1.960.
    let third = 1.0 / 3.0;
    assert_eq!((scores.coverage_50, scores.coverage_90, scores.coverage_95), (third, 2.0 * third, 2.0 * third));
    assert!((scores.width_95 - 2.0 * 1.959_963_984_540_054).abs() < 1e-12);
    // Central probabilities 0, 0.683 and 0.954 of the three targets: 1/3 observed up to 0.65, 2/3 from 0.70 on.
    let expected: f64 = (1..20)
        .map(|i| {
            let level = f64::from(i) * 0.05;
            (level - if i < 14 { third } else { 2.0 * third }).abs()
        })
        .sum::<f64>()
        / 19.0;
    assert!((scores.calibration_error - expected).abs() < 1e-14);
}

#[test]
fn perfectly_calibrated_targets_lie_on_the_diagonal() {
    let p = Predictive::LogNormal { mu: 0.4, sigma: 0.7, shift: 1.0 };
    let n = 1000;
    let y: Vec<f64> = (0..n).map(|i| p.quantile((i as f64 + 0.5) / n as f64)).collect();
    let predictions = vec![p; n];
    let curve = calibration_curve(&y, &predictions);
    assert_eq!(curve.len(), 19);
    for (level, observed) in curve {
        assert!((observed - level).abs() <= 2.0 / n as f64, "{level} {observed}");
    }
    let scores = score(&y, &predictions).unwrap();
    assert!(scores.calibration_error < 2e-3);
    assert!((scores.coverage_90 - 0.9).abs() <= 2e-3);
    assert!((scores.crps - mean_crps_of_log_normal(0.4, 0.7)).abs() < 5e-3, "{}", scores.crps);
}

/// `E|Y − Y′| / 2 = e^(μ+σ²/2) erf(σ/2)`, the CRPS that a true log-normal forecast has on average.
fn mean_crps_of_log_normal(mu: f64, sigma: f64) -> f64 {
    (mu + sigma * sigma / 2.0).exp() * statrs::function::erf::erf(sigma / 2.0)
}

#[test]
fn constant_targets_have_no_r2_and_json_stays_free_of_nan() {
    let p = Predictive::Normal { mean: 0.1, sd: 1.0 };
    let scores = score(&[0.1; 7], &[p; 7]).unwrap();
    assert_eq!(scores.r2, None);
    let json = serde_json::to_string(&scores).unwrap();
    for field in ["n", "rmse", "mae", "r2", "nlpd", "crps", "coverage_50", "coverage_90", "coverage_95", "width_95"] {
        assert!(json.contains(&format!("\"{field}\":")), "{json}");
    }
    assert!(json.contains("\"calibration_error\":") && json.matches("null").count() == 1, "{json}");
    assert_eq!(serde_json::from_str::<Scores>(&json).unwrap(), scores);
}

#[test]
fn what_cannot_be_scored_is_an_error() {
    let p = Predictive::Normal { mean: 0.0, sd: 1.0 };
    assert!(matches!(score(&[], &[]), Err(Error::Shape { .. })));
    assert!(matches!(score(&[1.0], &[p, p]), Err(Error::Shape { .. })));
    let log = Predictive::LogNormal { mu: 0.0, sigma: 1.0, shift: 0.0 };
    let message = score(&[1.0, -2.0], &[log, log]).unwrap_err().to_string();
    assert!(message.contains("target 2") && message.contains("-2"), "{message}");
    let degenerate = Predictive::Normal { mean: 0.0, sd: 0.0 };
    assert!(matches!(score(&[1.0, 2.0], &[p, degenerate]), Err(Error::NotFinite(_))));
    assert!(matches!(score(&[f64::NAN, 2.0], &[p, p]), Err(Error::NotFinite(_))));
}

proptest! {
    #[test]
    fn quantile_inverts_cdf(mu in -3.0..3.0_f64, sigma in 0.01..2.0_f64, shift in 0..2_u8, p in 1e-6..0.999_999_f64) {
        let normal = Predictive::Normal { mean: mu, sd: sigma };
        prop_assert!((normal.cdf(normal.quantile(p)) - p).abs() < 1e-10);
        let log = Predictive::LogNormal { mu, sigma, shift: shift.into() };
        prop_assert!((log.cdf(log.quantile(p)) - p).abs() < 1e-9);
    }

    #[test]
    fn crps_lies_between_zero_and_the_distance_plus_spread(mu in -2.0..2.0_f64, sigma in 0.05..1.5_f64, y in 0.01..20.0_f64) {
        let p = Predictive::LogNormal { mu, sigma, shift: 0.0 };
        // |y − median| is the CRPS of the point forecast at the median, and E|Y − y| bounds any CRPS.
        prop_assert!(p.crps(y) >= -1e-12);
        prop_assert!(p.crps(y) <= (y - p.mean()).abs() + p.sd() + 1e-12);
    }
}
