//! Scores compared with numeric integration, identities without quadrature, and values computed by hand.

use cagey::Error;
use cagey::likelihoods::tempered;
use cagey::metrics::diagnosis::{Draws, Residuals, diagnose};
use cagey::metrics::{Predictive, Scores, Source, Temperature, calibration_curve, score};
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
        Predictive::Student { mean: 0.7, scale: 0.4, df: 14.0 },
        Predictive::Student { mean: -2.0, scale: 3.0, df: 25.0 },
        averages()[0].clone(),
        averages()[1].clone(),
    ]
}

/// Averages of normal distributions, and of distributions of every kind.
fn averages() -> [Predictive; 2] {
    let normal = |mean, sd| Predictive::Normal { mean, sd };
    [
        Predictive::Average(vec![(0.6, normal(0.0, 1.0)), (0.3, normal(2.0, 0.3)), (0.1, normal(-1.0, 2.0))]),
        Predictive::Average(vec![
            (0.5, normal(1.0, 0.4)),
            (0.3, Predictive::LogNormal { mu: 0.1, sigma: 0.4, shift: 0.0 }),
            (0.2, Predictive::Student { mean: 0.8, scale: 0.5, df: 14.0 }),
        ]),
    ]
}

#[test]
fn averages_are_weighted_sums_of_densities() {
    for average in averages() {
        let Predictive::Average(parts) = &average else { unreachable!() };
        let weighted = |f: &dyn Fn(&Predictive) -> f64| parts.iter().map(|(w, part)| w * f(part)).sum::<f64>();
        for y in [-3.0, 0.2, 1.1, 4.0] {
            assert!((average.cdf(y) - weighted(&|p| p.cdf(y))).abs() < 1e-14);
            assert!((average.log_density(y) - weighted(&|p| p.log_density(y).exp()).ln()).abs() < 1e-12);
            assert!((0.5 * libm::erfc(-average.standardised(y) / 2f64.sqrt()) - average.cdf(y)).abs() < 1e-12);
        }
        let square = weighted(&|p| p.sd().powi(2) + p.mean().powi(2)) - average.mean().powi(2);
        assert!((average.sd() - square.sqrt()).abs() < 1e-12);
        for p in [1e-9, 0.025, 0.31, 0.5, 0.975, 1.0 - 1e-9] {
            let quantile = average.quantile(p);
            assert!((average.cdf(quantile) - p).abs() < 1e-12, "{p}");
        }
        assert!(average.quantile(0.0) == f64::NEG_INFINITY && average.quantile(1.0) == f64::INFINITY);
        // Far out, the tails keep their digits.
        for z in [-20.0, 20.0] {
            let y = Predictive::Average(vec![(0.5, Predictive::Normal { mean: 0.0, sd: 1.0 }); 2]).standardised(z);
            assert!((y - z).abs() < 1e-9, "{y}");
        }
        // Evenly spaced probabilities draw a sample with the same moments.
        let draws: Vec<f64> = (0..20_000).map(|i| average.draw((i as f64 + 0.5) / 20_000.0)).collect();
        let mean = draws.iter().sum::<f64>() / 20_000.0;
        assert!((mean - average.mean()).abs() < 1e-4, "{mean}");
    }
}

#[test]
fn the_crps_of_averages_of_normal_distributions_has_a_closed_form() {
    let [average, _] = averages();
    let Predictive::Average(parts) = &average else { unreachable!() };
    // E|X| of a normal X (Grimit et al. 2006).
    let size = |mean: f64, sd: f64| {
        let z = mean / sd;
        let density = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
        2.0 * sd * density + mean * (1.0 - libm::erfc(z / 2f64.sqrt()))
    };
    for y in [-4.0, 0.0, 1.9, 30.0] {
        let mut expected = 0.0;
        for (w, a) in parts {
            expected += w * size(y - a.mean(), a.sd());
            for (v, b) in parts {
                expected -= 0.5 * w * v * size(a.mean() - b.mean(), a.sd().hypot(b.sd()));
            }
        }
        assert!((average.crps(y) - expected).abs() < 1e-8 * (1.0 + expected), "{} {expected}", average.crps(y));
    }
}

/// The ends of a range that contains almost all of the distribution.
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

/// `E|Y − Y′| / 2 = e^(μ+σ²/2) erf(σ/2)`, the average CRPS of a true log-normal forecast.
fn mean_crps_of_log_normal(mu: f64, sigma: f64) -> f64 {
    (mu + sigma * sigma / 2.0).exp() * statrs::function::erf::erf(sigma / 2.0)
}

#[test]
fn constant_targets_have_no_r2_and_json_stays_free_of_nan() {
    let p = Predictive::Normal { mean: 0.1, sd: 1.0 };
    let scores = score(&[0.1; 7], &vec![p; 7]).unwrap();
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
    assert!(matches!(score(&[1.0], &[p.clone(), p.clone()]), Err(Error::Shape { .. })));
    let log = Predictive::LogNormal { mu: 0.0, sigma: 1.0, shift: 0.0 };
    let message = score(&[1.0, -2.0], &[log.clone(), log]).unwrap_err().to_string();
    assert!(message.contains("target 2") && message.contains("-2"), "{message}");
    let degenerate = Predictive::Normal { mean: 0.0, sd: 0.0 };
    assert!(matches!(score(&[1.0, 2.0], &[p.clone(), degenerate]), Err(Error::NotFinite(_))));
    assert!(matches!(score(&[f64::NAN, 2.0], &[p.clone(), p]), Err(Error::NotFinite(_))));
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
    fn crps_lies_between_zero_and_the_distance_plus_spread(
        mu in -2.0..2.0_f64,
        sigma in 0.05..1.5_f64,
        y in 0.01..20.0_f64,
    ) {
        let p = Predictive::LogNormal { mu, sigma, shift: 0.0 };
        // |y − median| is the CRPS of the point forecast at the median, and E|Y − y| bounds any CRPS.
        prop_assert!(p.crps(y) >= -1e-12);
        prop_assert!(p.crps(y) <= (y - p.mean()).abs() + p.sd() + 1e-12);
    }
}

mod classes_and_counts {
    use cagey::likelihoods::registry::Likelihoods;
    use cagey::metrics::{
        auc, binomial_deviance, confusion, kolmogorov_smirnov, pearson_dispersion, poisson_deviance, randomised_pit,
        reliability, score_classes,
    };

    fn near(got: f64, want: f64) {
        assert!((got - want).abs() < 1e-12, "got {got}, want {want}");
    }

    fn two(ones: &[f64]) -> Vec<Vec<f64>> {
        ones.iter().map(|p| vec![1.0 - p, *p]).collect()
    }

    #[test]
    fn two_classes_by_hand() {
        let labels = [0, 1, 1, 0];
        let scores = score_classes(&labels, &two(&[0.2, 0.9, 0.4, 0.6])).unwrap();
        near(scores.accuracy, 0.5);
        near(scores.log_loss, -(0.8f64.ln() + 0.9f64.ln() + 0.4f64.ln() + 0.4f64.ln()) / 4.0);
        near(scores.brier, (0.04 + 0.01 + 0.36 + 0.36) / 4.0);
        // Confidences 0.8 (right), 0.9 (right), 0.6 twice (both wrong), the last two in one bin.
        near(scores.ece, (0.2 + 0.1 + 2.0 * 0.6) / 4.0);
        // Of the four pairs, 0.9 beats both and 0.4 beats 0.2.
        near(scores.auc.unwrap(), 0.75);
        assert_eq!(confusion(&labels, &two(&[0.2, 0.9, 0.4, 0.6])).unwrap(), [[1, 1], [1, 1]]);
    }

    #[test]
    fn three_classes_by_hand() {
        let p = vec![vec![0.7, 0.2, 0.1], vec![0.1, 0.3, 0.6], vec![0.3, 0.4, 0.3]];
        let labels = [0, 1, 2];
        let scores = score_classes(&labels, &p).unwrap();
        near(scores.accuracy, 1.0 / 3.0);
        near(scores.log_loss, -(0.7f64.ln() + 2.0 * 0.3f64.ln()) / 3.0);
        near(scores.brier, (0.09 + 0.04 + 0.01 + 0.01 + 0.49 + 0.36 + 0.09 + 0.16 + 0.49) / 3.0);
        // Class 0: 0.7 beats both. Class 1: 0.3 beats 0.2, not 0.4. Class 2: 0.3 beats 0.1, not 0.6.
        near(scores.auc.unwrap(), (1.0 + 0.5 + 0.5) / 3.0);
        assert_eq!(confusion(&labels, &p).unwrap(), [[1, 0, 0], [0, 0, 1], [0, 1, 0]]);
    }

    #[test]
    fn ties_count_half_and_missing_classes_have_no_area() {
        near(auc(&[true, false, false], &[0.5, 0.5, 0.1]).unwrap(), 0.75);
        assert_eq!(auc(&[true, true], &[0.5, 0.1]), None);
        assert_eq!(score_classes(&[1, 1], &two(&[0.5, 0.8])).unwrap().auc, None);
    }

    #[test]
    fn calibrated_predictions_lie_on_the_diagonal() {
        let labels: Vec<usize> = (0..100).map(|i| usize::from(i < 80)).collect();
        let bins = reliability(&labels, &two(&[0.8; 100])).unwrap();
        assert_eq!(bins.len(), 1);
        near(bins[0].confidence, 0.8);
        near(bins[0].accuracy, 0.8);
        near(score_classes(&labels, &two(&[0.8; 100])).unwrap().ece, 0.0);
    }

    #[test]
    fn certain_mistakes_cost_a_finite_loss() {
        let scores = score_classes(&[0], &two(&[1.0])).unwrap();
        assert!(scores.log_loss > 700.0 && scores.log_loss.is_finite());
        near(scores.brier, 1.0);
    }

    #[test]
    fn what_cannot_be_scored_is_refused() {
        assert!(score_classes(&[], &[]).is_err());
        assert!(score_classes(&[0, 1], &two(&[0.5])).is_err());
        let unseen = score_classes(&[2], &two(&[0.5])).unwrap_err().to_string();
        assert!(unseen.contains("target 1 is of class 2"), "{unseen}");
        assert!(score_classes(&[0], &[vec![f64::NAN, 0.5]]).is_err());
        assert!(poisson_deviance(&[1.0], &[0.0]).is_err() && poisson_deviance(&[], &[]).is_err());
        assert!(
            binomial_deviance(&[1.0], &[0.0], &[2.0]).is_err() && binomial_deviance(&[3.0], &[1.0], &[2.0]).is_err()
        );
    }

    #[test]
    fn counts_by_hand() {
        // 2 (2 ln 2 − 1), 2·3, 0.
        near(poisson_deviance(&[2.0, 0.0, 5.0], &[1.0, 3.0, 5.0]).unwrap(), (4.0 * 2f64.ln() - 2.0 + 6.0) / 3.0);
        // 2 (2 ln 2 + 2 ln ⅔), 2·3 ln (3/1), 0.
        let binomial = binomial_deviance(&[2.0, 0.0, 5.0], &[1.0, 2.0, 5.0], &[4.0, 3.0, 5.0]).unwrap();
        near(binomial, (4.0 * (4.0f64 / 3.0).ln() + 6.0 * 3f64.ln()) / 3.0);
        near(pearson_dispersion(&[1.0, 4.0], &[2.0, 2.0], &[2.0, 2.0]).unwrap(), (0.5 + 2.0) / 2.0);
        near(kolmogorov_smirnov(&[0.1, 0.5, 0.6]).unwrap().0, 0.4);
        assert_eq!(kolmogorov_smirnov(&[]), None);
        // The 5 % point of the limiting distribution is 1.3581.
        let n = 1_000_000.0f64;
        let shifted: Vec<f64> = (0..1_000_000).map(|i| (f64::from(i) / n + 1.3581 / n.sqrt()).min(1.0)).collect();
        let (_, p) = kolmogorov_smirnov(&shifted).unwrap();
        assert!((p - 0.05).abs() < 1e-3, "{p}");
    }

    /// Twice what the log density lacks, compared with that of the mean that is the target itself.
    #[test]
    fn deviances_are_those_of_the_likelihood() {
        let of = |text: &str, y: f64, auxiliary: Option<f64>, link: fn(f64) -> f64| {
            let likelihood = Likelihoods::default().parse(text, None).unwrap();
            let at = |mean: f64| likelihood.predict(&[link(mean)], &[1e-14], auxiliary).unwrap();
            for mean in [0.3, 1.7] {
                let (found, best) = (at(mean), at(y));
                let want = 2.0 * (best.log_density(y) - found.log_density(y));
                let got = found.deviance(y).unwrap();
                assert!((got - want).abs() < 1e-5 * want.max(1.0), "{text}, {y} about {mean}: {got} {want}");
            }
        };
        for y in [1.0, 4.0] {
            of("poisson", y, None, f64::ln);
            of("negative-binomial(0.4)", y, None, f64::ln);
            of("gamma(1)", y, None, f64::ln);
            of("exponential", y, None, f64::ln);
            of("binomial", y, Some(9.0), |mean| (mean / (9.0 - mean)).ln());
        }
        let student = Likelihoods::default().parse("student-t", None).unwrap();
        assert_eq!(student.predict(&[0.0], &[1.0], None).unwrap().deviance(1.0), None);
    }

    #[test]
    fn the_transform_of_well_predicted_counts_is_uniform() {
        // y = 0, 1 or 2, a third each, in turn.
        let y: Vec<f64> = (0..3000).map(|i| f64::from(i % 3)).collect();
        let cdf = |_: usize, y: f64| ((y + 1.0) / 3.0).min(1.0);
        let pit = randomised_pit(&y, 1, cdf);
        assert!(pit.iter().zip(&y).all(|(u, y)| (y / 3.0..=(y + 1.0) / 3.0).contains(u)));
        assert!(kolmogorov_smirnov(&pit).unwrap().1 > 0.05);
        let wrong = randomised_pit(&y, 1, |_, y| 1.0 - 0.5f64.powf(y + 1.0));
        assert!(kolmogorov_smirnov(&wrong).unwrap().1 < 1e-6);
    }
}

mod likelihoods {
    use cagey::likelihoods::registry::Likelihoods;
    use cagey::metrics::{Predictive, TargetPrediction, score_targets};

    fn parse(text: &str, classes: Option<usize>) -> cagey::Result<Box<dyn cagey::likelihoods::Likelihood>> {
        Likelihoods::default().parse(text, classes)
    }

    /// The prediction at `mean` and `variance` of the latent function, with an auxiliary value.
    fn prediction(text: &str, mean: f64, variance: f64, auxiliary: f64) -> TargetPrediction {
        let standardised = parse(text, None).unwrap().predict(&[mean], &[variance], Some(auxiliary)).unwrap();
        TargetPrediction { standardised, origin: 0.0, unit: 1.0 }
    }

    #[test]
    fn ranked_scores_of_known_distributions() {
        // scipy: quad over the squared distribution functions; for counts their sum.
        let large = 1e12f64.ln();
        for (text, mean, auxiliary, y, want) in [
            ("gamma(2.5)", 0.0, 1.0, 0.05, 0.610_513_777_208_938_4),
            ("gamma(2.5)", 0.0, 1.0, 1.0, 0.148_635_540_134_839_5),
            ("gamma(2.5)", 0.0, 1.0, 7.0, 5.660_470_758_489_038),
            ("beta(6)", 0.0, 1.0, 0.02, 0.371_775_672_702_891_7),
            ("beta(6)", 0.0, 1.0, 0.5, 0.048_024_891_774_891_78),
            ("poisson", 3f64.ln(), 1.0, 0.0, 2.043_873_324_155_032),
            ("poisson", 3f64.ln(), 1.0, 3.0, 0.388_124_170_087_359_2),
            ("poisson", 3f64.ln(), 1.0, 12.0, 8.043_914_066_763_536),
            ("poisson", 1000f64.ln(), 1.0, 900.0, 82.170_659_642_099_37),
            ("poisson", 1000f64.ln(), 1.0, 1100.0, 82.176_324_712_773_38),
            ("binomial", 0.0, 10.0, 7.0, 1.251_827_239_990_234_4),
            ("negative-binomial(0.4)", 5f64.ln(), 1.0, 2.0, 1.402_256_521_034_457_5),
            ("negative-binomial(0.4)", large, 1.0, 5e11, 0.238_168_513_640_915_87e12),
        ] {
            let got = prediction(text, mean, 0.0, auxiliary).crps(y);
            assert!((got / want - 1.0).abs() < 2e-4, "{text} at {y}: {got}, want {want}");
        }
    }

    #[test]
    fn ranked_scores_have_the_units_of_the_target() {
        // Targets of variance 1 around 0, in other units; scipy for Student's t with 4 degrees of freedom.
        let student = parse("student-t(4)", None).unwrap().density();
        let noise = student.variance(&[0.0], 1.0) / 2.0;
        let standardised = parse("student-t(4)", None).unwrap().predict(&[0.0], &[0.0], None).unwrap();
        let p = TargetPrediction { standardised, origin: 10.0, unit: 3.0 / noise.sqrt() };
        for (y, want) in [(0.3, 0.297_127_710_562_263_1), (6.0, 5.272_016_776_134_813)] {
            let got = p.crps(10.0 + 3.0 * y);
            assert!((got / (3.0 * want) - 1.0).abs() < 1e-5, "{y}: {got}, want {}", 3.0 * want);
        }
        // The noise is constant, so the distribution is normal.
        let standardised = parse("heteroscedastic(0.5)", None).unwrap();
        let standardised = standardised.predict(&[0.2, 0.0], &[0.3, 0.0], None).unwrap();
        let p = TargetPrediction { standardised, origin: -1.0, unit: 2.0 };
        let normal = Predictive::Normal { mean: -0.6, sd: 2.0 * 0.8f64.sqrt() };
        for y in [-9.0, -0.6, 0.4] {
            assert!((p.crps(y) / normal.crps(y) - 1.0).abs() < 1e-5, "{y}: {} {}", p.crps(y), normal.crps(y));
        }
        let scores = score_targets(&[-9.0, 0.4], &[p.clone(), p], 0).unwrap();
        assert!((scores.crps - 0.5 * (normal.crps(-9.0) + normal.crps(0.4))).abs() < 1e-5);
        let width = normal.quantile(0.975) - normal.quantile(0.025);
        assert!((scores.width_95 - width).abs() < 1e-6, "{}", scores.width_95);
    }

    #[test]
    fn a_rate_known_to_a_factor_is_scored_as_log_normal() {
        let p = prediction("poisson", 1e6f64.ln(), 1.0, 1.0);
        let log_normal = Predictive::LogNormal { mu: 1e6f64.ln(), sigma: 1.0, shift: 0.0 };
        for y in [1e5, 1e6, 8e6] {
            let (got, want) = (p.crps(y), log_normal.crps(y));
            assert!((got / want - 1.0).abs() < 1e-3, "{y}: {got}, want {want}");
        }
    }
}

#[test]
fn students_t_of_few_degrees_of_freedom() {
    let p = Predictive::Student { mean: 1.0, scale: 2.0, df: 3.0 };
    // Tables: P(|T| ≤ 3.182446) = 0.95 for 3 degrees of freedom.
    assert!((p.quantile(0.975) - 1.0 - 2.0 * 3.182_446_305_284_263).abs() < 1e-6);
    assert!((p.cdf(p.quantile(0.01)) - 0.01).abs() < 1e-10);
    assert!((p.sd() - 2.0 * 3f64.sqrt()).abs() < 1e-12);
    let y = 4.0;
    let score = |a: f64, b: f64| integrate(|t| (p.cdf(t) - f64::from(u8::from(y <= t))).powi(2), a, b, 20_000);
    let tails = score(-300.0, -20.0) + score(20.0, 300.0);
    assert!((p.crps(y) - score(-20.0, y - 1e-12) - score(y, 20.0) - tails).abs() < 1e-4, "{}", p.crps(y));
    for share in [1e-6, 0.2, 0.5, 0.9] {
        let z = p.standardised(p.quantile(share));
        let normal = Predictive::Normal { mean: 0.0, sd: 1.0 };
        assert!((normal.cdf(z) / share - 1.0).abs() < 1e-6, "{share} {z}");
    }
    assert!(p.standardised(1e200).is_finite());
}

#[test]
fn residuals_are_fitted_by_their_own_distribution() {
    use cagey::metrics::{Calibration, Source, StudentT};
    for shape in [StudentT { df: Some(4.0), scale: 0.6 }, StudentT { df: None, scale: 1.7 }] {
        let n = 4000;
        let z: Vec<f64> = (0..n).map(|i| shape.quantile((f64::from(i) + 0.5) / f64::from(n))).collect();
        let calibration = Calibration::fit(&z, Source::Share, true);
        let [part, _] = calibration.shape.parts;
        assert_eq!(calibration.shape.share, 0.0, "{calibration:?}");
        assert!((part.scale / shape.scale - 1.0).abs() < 0.02, "{calibration:?}");
        assert_eq!(part.df.is_some(), shape.df.is_some());
        assert!(part.df.is_none_or(|df| (df - 4.0).abs() < 0.3), "{calibration:?}");
        assert!(calibration.gap < 0.01 && calibration.gain > 100.0);
        // √(ln(2/0.05) / 8000).
        assert!((calibration.bound(0.95).unwrap() - 0.021_473).abs() < 1e-5);
    }
    let few = Calibration::fit(&[0.1, -0.2, 0.3], Source::LeaveOneOut, true);
    assert!(few.problem().is_none() && few.bound(0.95).is_none());
}

#[test]
fn the_scale_learned_from_few_rows_is_uncertain() {
    use cagey::metrics::{Calibration, Source};
    use rand::SeedableRng;
    use rand_distr::{Distribution, StandardNormal};
    assert!(Calibration::of_few_rows(1).is_none());
    let mut rng = rand::rngs::StdRng::seed_from_u64(1);
    let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
    for n in [2, 3, 4, 8, 40] {
        let calibration = Calibration::of_few_rows(n).unwrap();
        assert!(calibration.problem().is_none() && calibration.source == Source::FewRows);
        let draws = 20_000;
        let mut held = [0; 2];
        for _ in 0..draws {
            let y: Vec<f64> = (0..n).map(|_| normal()).collect();
            let mean = y.iter().sum::<f64>() / n as f64;
            let sd = (y.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / n as f64).sqrt();
            let prediction = calibration.apply(Predictive::Normal { mean, sd });
            let new = prediction.cdf(normal());
            for (held, level) in held.iter_mut().zip([0.5, 0.95]) {
                *held += usize::from((new - 0.5).abs() < 0.5 * level);
            }
        }
        // Four standard errors.
        let share = held.map(|held| held as f64 / f64::from(draws));
        assert!((share[0] - 0.5).abs() < 0.0142 && (share[1] - 0.95).abs() < 0.0062, "{n} {share:?}");
    }
}

/// Nine of ten errors have one size, the others are thirty times as large.
fn two_sizes() -> Vec<f64> {
    let normal = Predictive::Normal { mean: 0.0, sd: 1.0 };
    let share = |i: usize, n: usize| (i as f64 + 0.5) / n as f64;
    let small = (0..1800).map(|i| 0.1 * normal.quantile(share(i, 1800)));
    small.chain((0..200).map(|i| 3.0 * normal.quantile(share(i, 200)))).collect()
}

#[test]
fn errors_of_two_sizes_are_told_apart() {
    use cagey::metrics::{Calibration, Source};
    let calibration = Calibration::fit(&two_sizes(), Source::LeaveOneOut, true);
    let shape = calibration.shape;
    assert!((shape.share - 0.1).abs() < 0.02, "{shape:?}");
    assert!((shape.parts[0].scale / 0.1 - 1.0).abs() < 0.1 && calibration.gap < 0.02, "{calibration:?}");
    let p = calibration.apply(Predictive::Normal { mean: 1.0, sd: 2.0 });
    assert!(matches!(p, Predictive::Mixed { .. }));
    for share in [0.001, 0.2, 0.5, 0.9, 0.99] {
        assert!((p.cdf(p.quantile(share)) - share).abs() < 1e-10, "{share}");
    }
    let range = 60.0;
    let density = |y: f64| p.log_density(y).exp();
    assert!((integrate(density, 1.0 - range, 1.0 + range, 20_000) - 1.0).abs() < 1e-6);
    let variance = integrate(|y| (y - 1.0).powi(2) * density(y), 1.0 - range, 1.0 + range, 20_000);
    assert!((variance.sqrt() / p.sd() - 1.0).abs() < 1e-5, "{variance}");
    for y in [1.0, 1.3, 9.0] {
        let below = integrate(|t| p.cdf(t).powi(2), 1.0 - range, y, 20_000);
        let above = integrate(|t| (1.0 - p.cdf(t)).powi(2), y, 1.0 + range, 20_000);
        assert!((p.crps(y) - below - above).abs() < 1e-5, "{y}: {} {}", p.crps(y), below + above);
    }
}

#[test]
fn what_residuals_cannot_vouch_for_is_not_shrunk() {
    use cagey::metrics::{Calibration, Source, StudentT};
    let normal = |sd: f64| Predictive::Normal { mean: 0.4, sd };
    let share = |i: u32| (f64::from(i) + 0.5) / 1000.0;
    let residuals = |law: StudentT| (0..1000).map(|i| law.quantile(share(i))).collect::<Vec<f64>>();
    let laws = [(Some(5.0), 0.05), (None, 0.05), (None, 1.6)];
    let all = laws.map(|(df, scale)| residuals(StudentT { df, scale })).into_iter().chain([two_sizes()]);
    for z in all {
        let all = Calibration::fit(&z, Source::LeaveOneOut, true);
        let calibration = all.within([0.2, 0.5, 0.3].into_iter());
        let at = |sd: f64| calibration.apply(normal(sd));
        // Where rows were left out, the distribution is theirs.
        assert_eq!(at(0.5).sd(), all.apply(normal(0.5)).sd());
        assert!((at(0.5 + 1e-9).quantile(0.9) - at(0.5).quantile(0.9)).abs() < 1e-6, "continuous");
        let widths: Vec<f64> = (1..60).map(|k| at(0.05 * f64::from(k)).quantile(0.975)).collect();
        assert!(widths.windows(2).all(|pair| pair[1] > pair[0]), "{calibration:?} {widths:?}");
        // Far beyond, it is the model's, or a wider one.
        let (far, own) = (at(50.0), normal(50.0));
        for p in [0.75, 0.9, 0.975] {
            let ratio = (far.quantile(p) - 0.4) / (own.quantile(p) - 0.4);
            assert!((ratio / calibration.shape.sd().max(1.0) - 1.0).abs() < 2e-3, "{p}: {ratio} {calibration:?}");
        }
        assert!((at(0.8).cdf(at(0.8).quantile(0.3)) - 0.3).abs() < 1e-9);
        // Its variance is the calibrated one up to the reach, and the model's own beyond.
        let shape = calibration.shape.sd().powi(2);
        let expected = shape * 0.25 + shape.max(1.0) * (0.64 - 0.25);
        assert!((at(0.8).sd().powi(2) / expected - 1.0).abs() < 1e-9, "{calibration:?}");
    }
}

#[test]
fn a_distribution_of_the_logarithm_keeps_the_point_prediction() {
    use cagey::metrics::{Calibration, Source};
    let own = Predictive::LogNormal { mu: 0.3, sigma: 0.6, shift: 1.0 };
    let student = Calibration::of_few_rows(6).unwrap().apply(own.clone());
    let mixed = Calibration::fit(&two_sizes(), Source::LeaveOneOut, false);
    assert!(mixed.shape.share > 0.0 && mixed.shape.parts[0].df.is_none(), "{mixed:?}");
    let mixed = mixed.apply(own.clone());
    for p in [&student, &mixed] {
        assert_eq!(p.mean(), own.mean());
        for share in [0.01, 0.2, 0.5, 0.9, 0.99] {
            assert!((p.cdf(p.quantile(share)) - share).abs() < 1e-9, "{share}");
        }
        let (low, high) = (p.quantile(1e-4), p.quantile(1.0 - 1e-4));
        assert!(low >= -1.0 && p.log_density(-1.5) == f64::NEG_INFINITY);
        let density =
            integrate(|t| (p.log_density(t.exp() - 1.0) + t).exp(), (low + 1.0).ln(), (high + 1.0).ln(), 20_000);
        assert!((density - (1.0 - 2e-4)).abs() < 1e-6, "{density}");
        assert!(p.sd().is_finite() && p.standardised(1e300).is_finite());
    }
    // T of five degrees of freedom: P(|T| ≤ 2.570582) = 0.95.
    let scale = (7.0f64 / 5.0).sqrt() * 0.6;
    assert!(((student.quantile(0.975) + 1.0).ln() - 0.3 - 2.570_581_836 * scale).abs() < 1e-6);
    assert!(!student.has_sd() && student.crps(2.0).is_infinite());
    let as_normal = Predictive::LogNormal { mu: 0.3, sigma: scale, shift: 1.0 };
    assert!((student.sd() / as_normal.sd() - 1.0).abs() < 1e-12);
    // Moments and score of the mixture, by quadrature.
    assert!(mixed.has_sd());
    let (y, range) = (2.2, 30.0);
    let of = |f: &dyn Fn(f64) -> f64, a: f64, b: f64| integrate(|t| f(t.exp() - 1.0) * t.exp(), a, b, 40_000);
    let density = |t: f64| mixed.log_density(t).exp();
    let mean = of(&|t| t * density(t), -range, range);
    let variance = of(&|t| (t - mean).powi(2) * density(t), -range, range);
    assert!((variance.sqrt() / mixed.sd() - 1.0).abs() < 1e-5, "{variance} {}", mixed.sd());
    let at = (y + 1.0f64).ln();
    let score = of(&|t| mixed.cdf(t).powi(2), -range, at) + of(&|t| (1.0 - mixed.cdf(t)).powi(2), at, range);
    assert!((mixed.crps(y) - score).abs() < 1e-4, "{} {score}", mixed.crps(y));
    let scores = score_of(&[1.0, 2.0], &[student.clone(), student]);
    assert!(scores.nlpd.is_finite() && scores.crps.is_infinite());
}

fn score_of(y: &[f64], predictions: &[Predictive]) -> Scores {
    score(y, predictions).unwrap()
}

#[test]
fn one_degree_of_freedom_has_a_score_and_no_standard_deviation() {
    let p = Predictive::Student { mean: 1.0, scale: 2.0, df: 1.0 };
    assert!(!p.has_sd() && p.sd() == 2.0 && p.mean() == 1.0);
    // Beyond t, the integral of the squared tail is 4/π² / t.
    let (y, end) = (4.0f64, 2000.0f64);
    let below = integrate(|s| p.cdf(s.sinh()).powi(2) * s.cosh(), -(end.asinh()), y.asinh(), 20_000);
    let above = integrate(|s| (1.0 - p.cdf(s.sinh())).powi(2) * s.cosh(), y.asinh(), end.asinh(), 20_000);
    let tails = 2.0 * 4.0 / std::f64::consts::PI.powi(2) / end;
    assert!((p.crps(y) - below - above - tails).abs() < 1e-5, "{} {}", p.crps(y), below + above);
}

#[test]
fn quantiles_of_many_predictions_are_those_of_each() {
    use cagey::metrics::{Calibration, Source, quantiles};
    let mixed = Calibration::fit(&two_sizes(), Source::LeaveOneOut, true);
    let at = |i: i32| Predictive::Normal { mean: f64::from(i), sd: 0.5 + f64::from(i) };
    let log = Predictive::LogNormal { mu: 0.3, sigma: 0.8, shift: 1.0 };
    let student = |df: f64, i: i32| Predictive::Student { mean: f64::from(i), scale: 0.1 + f64::from(i), df };
    let all = [at(1), student(4.0, 2), student(4.0, 3), student(7.0, 3), mixed.apply(at(2)), log, mixed.apply(at(5))];
    for p in [0.0, 0.025, 0.3, 0.5, 0.99] {
        for (prediction, found) in all.iter().zip(quantiles(&all, p)) {
            let wanted = prediction.quantile(p);
            assert!(found == wanted || (found - wanted).abs() < 1e-9 * wanted.abs(), "{prediction:?} {p} {found}");
        }
    }
}

/// Uniform numbers, the same on every machine.
fn uniform(seed: u64, count: usize) -> Vec<f64> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / 2f64.powi(31)
    };
    (0..count).map(|_| next()).collect()
}

/// Few rows that are all predicted right do not say that probabilities are 0 and 1.
#[test]
fn few_rows_move_a_temperature_little() {
    let fit = |rows: usize| Temperature::fit(&vec![0; rows], &vec![vec![0.8, 0.2]; rows], Source::LeaveOneOut);
    let [few, more] = [fit(30), fit(3000)];
    assert!(1.5 < few.exponent && few.exponent < 3.0 && more.exponent > 4.0, "{few:?} {more:?}");
    // The derivative of the log posterior density in the exponent's logarithm is 0.
    let density = |t: f64| 30.0 * tempered(&[0.8, 0.2], t.exp())[0].ln() - t * t / 0.5;
    let t = few.exponent.ln();
    assert!((density(t + 1e-4) - density(t - 1e-4)).abs() < 1e-9, "{few:?}");
}

/// Labels drawn from probabilities that are sharper or flatter than the model's give back this exponent. Labels drawn
/// from the model's own probabilities change nothing.
#[test]
fn a_temperature_is_found_again() {
    let (n, classes) = (4000, 3);
    let weights = uniform(1, n * classes);
    let said: Vec<Vec<f64>> = weights
        .chunks(classes)
        .map(|w| {
            let total: f64 = w.iter().map(|w| w + 0.02).sum();
            w.iter().map(|w| (w + 0.02) / total).collect()
        })
        .collect();
    for (exponent, tolerance) in [(2.5, 0.15), (0.4, 0.06), (1.0, 0.0)] {
        let draws = uniform(2, n);
        let draw = |(p, u): (&Vec<f64>, &f64)| {
            let (mut left, last) = (*u, classes - 1);
            tempered(p, exponent)
                .iter()
                .position(|p| {
                    left -= p;
                    left < 0.0
                })
                .unwrap_or(last)
        };
        let codes: Vec<usize> = said.iter().zip(&draws).map(draw).collect();
        let found = Temperature::fit(&codes, &said, Source::Share);
        assert!((found.exponent - exponent).abs() <= tolerance, "{found:?} for {exponent}");
        assert_eq!(found.gain > 0.0, exponent != 1.0, "{found:?}");
        // The likelihood times the prior has its maximum at the exponent found.
        let likelihood = |e: f64| -> f64 { codes.iter().zip(&said).map(|(c, p)| tempered(p, e)[*c].ln()).sum() };
        let density = |e: f64| likelihood(e) - e.ln().powi(2) / 0.5;
        if found.gain > 0.0 {
            let best = density(found.exponent);
            assert!(best >= density(found.exponent * 1.01) && best >= density(found.exponent / 1.01));
            assert!((likelihood(found.exponent) - likelihood(1.0) - found.gain).abs() < 1e-9);
        }
    }
}

proptest! {
    /// Tempered probabilities are probabilities in the same order, and inverse exponents cancel.
    #[test]
    fn tempering_keeps_the_order(weights in prop::collection::vec(0.01..1.0f64, 2..8), exponent in 0.1..8.0f64) {
        let total: f64 = weights.iter().sum();
        let p: Vec<f64> = weights.iter().map(|w| w / total).collect();
        let q = tempered(&p, exponent);
        prop_assert!((q.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        for (a, b) in p.iter().zip(&q) {
            for (c, d) in p.iter().zip(&q) {
                prop_assert!(a >= c || b <= d);
            }
        }
        for (p, back) in p.iter().zip(tempered(&q, 1.0 / exponent)) {
            prop_assert!((p - back).abs() < 1e-9);
        }
    }
}

/// Errors that go together leave more to chance; the range that is reported is that of the verdict.
#[test]
fn ranges_of_coverage_are_those_of_the_verdict() {
    let n = 200;
    let z: Vec<f64> = (0..n).map(|i| if i % 3 == 0 { 0.1 } else { 1.5 }).collect();
    let (zeros, order) = (vec![0.0; n], vec![0; n]);
    let residuals = Residuals { z: &z, mean: &zeros, x: &zeros, d: 1, order: &order };
    let together = Draws::of(n, |noise| vec![noise[0]; noise.len()]);
    for (draws, holds) in [(Draws::independent(n), false), (together, true)] {
        let half = diagnose(&residuals, &draws).held[0];
        assert_eq!(half.holds, holds, "{half:?}");
        assert_eq!((half.low..=half.high).contains(&half.share), holds, "{half:?}");
    }
}
