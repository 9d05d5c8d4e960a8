//! Wide marginals, large counts and targets far from the prediction: results are right and take bounded time.

use crate::parse;
use cagey::likelihoods::{Heteroscedastic, Likelihood, Marginal, NegativeBinomial, Row, Slopes, Softmax};

fn row(y: f64) -> Row {
    Row { y, auxiliary: 1.0 }
}

/// `E[ln softmax_class(f)]` with its slopes in the means and variances.
fn softmax(class: usize, mean: &[f64], variance: &[f64]) -> (f64, Vec<f64>) {
    let (mut a, mut b) = (vec![0.0; mean.len()], vec![0.0; mean.len()]);
    let slopes = Slopes { mean: &mut a, variance: &mut b, own: &mut [] };
    let value = Softmax::new(mean.len()).density().expectation(row(class as f64), Marginal { mean, variance }, slopes);
    (value, [a, b].concat())
}

#[test]
fn softmax_of_three_classes_agrees_with_the_integral_over_their_differences() {
    // E[ln Σ exp f] and E[softmax f] by the trapezoidal rule on 3001² points of f₁ − f₀ and f₂ − f₀ (numpy).
    let cases = [
        ([0.3, -0.5, 1.2], [0.02, 0.3, 1.0], 1.787_774_836_557_504, [0.267_463_064_238_667, 0.131_996_102_173_790]),
        ([0.3, -0.5, 1.2], [15.0; 3], 3.865_516_263_460_811, [0.323_989_216_181_301, 0.250_633_399_830_128]),
        ([2.0, -1.0, 0.0], [3.0, 60.0, 0.2], 4.143_914_015_246_741, [0.531_481_971_715_423, 0.341_047_645_933_998]),
        ([2.0, -1.0, 0.0], [900.0, 400.0, 0.5], 17.718_273_723_210_6, [0.436_101_886_071_500, 0.317_200_127_621_190]),
    ];
    for (mean, variance, log_sum, shares) in cases {
        for class in 0..3 {
            let (value, _) = softmax(class, &mean, &variance);
            assert!((mean[class] - log_sum - value).abs() < 1e-7, "{variance:?}: {value}");
        }
        let p = Softmax::new(3).predict(&mean, &variance, None).unwrap().probabilities().unwrap();
        for (p, want) in p.iter().zip(shares) {
            assert!((p - want).abs() < 1e-8, "{variance:?}: {p} {want}");
        }
    }
}

#[test]
fn softmax_of_ten_classes_agrees_with_many_samples() {
    // 60 million samples (numpy), with an error below 3e-4.
    let mean: Vec<f64> = (0..10).map(|c| (f64::from(c) * 0.9).sin() * 2.0).collect();
    for (variance, log_sum) in [(2.0, 4.077_332), (15.0, 7.033_955)] {
        let (value, _) = softmax(4, &mean, &[variance; 10]);
        assert!((mean[4] - log_sum - value).abs() < 1e-3, "variance {variance}: {value}");
    }
}

#[test]
fn slopes_of_softmax_agree_with_differences_at_every_width() {
    // Variances on both sides of each change of rule.
    for v in [1e-3, 0.0157, 0.2, 0.25, 1.0, 15.0, 66.0, 399.0, 402.0, 1e5] {
        let (mean, variance) = ([0.2, -0.4, 1.0], [v, 0.7 * v, 1.3 * v]);
        let (_, slopes) = softmax(1, &mean, &variance);
        for l in 0..6 {
            let h = 1e-5 * if l < 3 { 1.0 } else { 1.0 + v };
            let at = |step: f64| {
                let (mut mean, mut variance) = (mean, variance);
                if l < 3 {
                    mean[l] += step
                } else {
                    variance[l - 3] += step
                }
                softmax(1, &mean, &variance).0
            };
            let difference = (at(h) - at(-h)) / (2.0 * h);
            assert!((slopes[l] - difference).abs() < 2e-8, "variance {v}, slope {l}: {} {difference}", slopes[l]);
        }
    }
}

#[test]
fn softmax_without_variance_is_that_of_a_small_one() {
    let mean = [1.3, -0.4, 0.2, -7.0];
    let ((none, slopes), (small, of_small)) = (softmax(1, &mean, &[0.0; 4]), softmax(1, &mean, &[1e-9; 4]));
    assert!((none - small).abs() < 1e-7, "{none} {small}");
    assert!(slopes.len() == 8 && slopes.iter().zip(&of_small).all(|(a, b)| (a - b).abs() < 1e-7), "{slopes:?}");
    let p = |variance: f64| Softmax::new(4).predict(&mean, &[variance; 4], None).unwrap().probabilities().unwrap();
    assert!(p(0.0).iter().zip(p(1e-9)).all(|(a, b)| (a - b).abs() < 1e-7));
}

#[test]
fn softmax_holds_at_any_width() {
    for variance in [1e3, 1e8, 1e18, 1e100, 1e300] {
        // Two classes of equal width depend on the sign of a difference only; a common shift changes nothing.
        let p = Softmax::new(2).predict(&[7.0, 7.0], &[variance; 2], None).unwrap().probabilities().unwrap();
        assert!((p[0] - 0.5).abs() < 1e-9, "{variance}: {p:?}");
        // Compared with narrow classes, a wide class is the largest or the smallest.
        let p = Softmax::new(3).predict(&[0.0, 0.3, -0.2], &[variance, 1.0, 0.01], None).unwrap();
        let p = p.probabilities().unwrap();
        let about = 2.0 / variance.sqrt();
        assert!((p[0] - 0.5).abs() < about + 1e-7, "{variance}: {p:?}");
        assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        let (value, slopes) = softmax(0, &[0.0, 0.3, -0.2], &[variance; 3]);
        // The largest of three equal classes is 3/(2√π) standard deviations above its mean.
        let want = -1.5 / std::f64::consts::PI.sqrt() * variance.sqrt();
        assert!((value / want - 1.0).abs() < 2.0 / variance.sqrt() + 1e-7, "{variance}: {value} {want}");
        assert!(slopes.iter().all(|slope| slope.is_finite()));
    }
}

#[test]
fn two_classes_of_any_width_have_probabilities() {
    for (mean, variance) in [(-1.5e53f64, 4.8e97f64), (2.3e54, 7.6e97), (-3e7, 1e8), (1e150, 1e300), (40.0, 1e-8)] {
        for text in ["bernoulli(logit)", "bernoulli(probit)", "ordinal(3)"] {
            let p = parse(text, None).unwrap().predict(&[mean], &[variance], None).unwrap().probabilities().unwrap();
            assert!(p.iter().all(|p| (0.0..=1.0).contains(p)), "{text} at {mean}, {variance}: {p:?}");
            assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{text} at {mean}, {variance}: {p:?}");
            let last = p[p.len() - 1];
            let want = statrs::function::erf::erfc(-mean / variance.sqrt() / std::f64::consts::SQRT_2) / 2.0;
            assert!(variance < 1e6 || (last - want).abs() < 1e-3, "{text} at {mean}, {variance}: {p:?} {want}");
        }
    }
}

#[test]
fn softmax_far_from_zero_depends_on_differences_only() {
    let shares = |mean: [f64; 3], variance: [f64; 3]| {
        Softmax::new(3).predict(&mean, &variance, None).unwrap().probabilities().unwrap()
    };
    let near = shares([0.5, 0.0, -1.0], [2.0, 1.0, 400.0]);
    // Sums of these values keep the digits of both.
    let far = shares([1_048_576.5, 1_048_576.0, 1_048_575.0], [2.0, 1.0, 400.0]);
    assert!(near.iter().zip(&far).all(|(a, b)| (a - b).abs() < 1e-12), "{near:?} {far:?}");
    for (mean, variance) in [([-3.5e59, -2.1e63, -1.5e65], 1e87), ([4e20, -1e20, 0.0], 1.0)] {
        let p = shares(mean, [variance; 3]);
        assert!(p[0] == 1.0 && p[1] < 1e-300 && p[2] < 1e-300, "{p:?}");
    }
}

#[test]
fn rare_classes_keep_their_probability() {
    // exp(−50) E[exp f] E[exp(−f)], with e^½ for each expectation, up to terms of exp(−100).
    let p = Softmax::new(2).predict(&[0.0, -50.0], &[1.0, 1.0], None).unwrap().probabilities().unwrap();
    assert!((p[1].ln() + 49.0).abs() < 1e-7, "{}", p[1]);
}

#[test]
fn outliers_of_varying_noise_are_integrated_where_their_mass_is() {
    // mpmath, 30 digits: ∫ N(y; m₀, v₀ + σ² exp(g)) N(g; m₁, v₁) dg.
    for (y, m, v, noise, want) in [
        (0.5, [0.0, -1.0], [0.2, 0.4], 0.3, -0.750_986_739_862_634_3),
        (30.0, [0.0, -1.0], [0.2, 0.4], 0.3, -57.745_299_086_582_41),
        (1e3, [0.0, -1.0], [0.2, 0.4], 0.3, -214.823_822_039_352),
        (1e6, [0.5, -1.0], [0.2, 0.01], 0.3, -25_207.193_737_560_68),
        (1e6, [0.5, -1.0], [0.2, 4.0], 0.3, -114.554_650_727_005_1),
        (100.0, [0.0, -20.0], [1.0, 1.0], 0.5, -367.814_334_176_274_5),
        (0.1, [0.0, -3.0], [4.0, 2.0], 0.5, -1.621_235_963_191_829),
    ] {
        let got = Heteroscedastic::new(noise).predict(&m, &v, None).unwrap().log_density(y);
        assert!((got / want - 1.0).abs() < 1e-8, "{y}: {got}, want {want}");
    }
}

#[test]
fn large_counts_have_distributions_quantiles_and_densities() {
    // mpmath: the incomplete beta function.
    for (dispersion, mean, y, want) in [
        (0.4, 1e12f64, 5e11, 0.223_504_928_877_524_4),
        (0.4, 1e12, 2e12, 0.924_764_753_853_381_6),
        (0.4, 1e18, 2e18, 0.924_764_753_853_487_8),
        (1.0, 1e30, 1e30, 0.632_120_558_828_557_7),
        (0.4, 1e12, 1e9, 9.386_384_723_954_862e-8),
    ] {
        let got = NegativeBinomial::new(dispersion).density().cdf(row(y), &[mean.ln()]);
        assert!((got / want - 1.0).abs() < 1e-9, "{y} at {mean}: {got}, want {want}");
    }
    // scipy: quantiles of the gamma distribution, the limit to twelve digits.
    let counts = NegativeBinomial::new(0.4).predict(&[1e12f64.ln()], &[0.0], None).unwrap();
    for (p, want) in [(0.025, 166_242_322_697.3), (0.5, 870_292_038_219.1), (0.975, 2_566_500_398_806.0)] {
        let got = counts.quantile(p);
        assert!((got / want - 1.0).abs() < 1e-8, "quantile {p}: {got}, want {want}");
    }
    // A wide log-normal rate determines the result alone.
    for text in ["negative-binomial(0.000002)", "poisson"] {
        let counts = parse(text, None).unwrap();
        for (mean, variance) in [(1e12f64.ln(), 1.0), (60.0, 4.0), (300.0, 9.0)] {
            let prediction = counts.predict(&[mean], &[variance], None).unwrap();
            let got = prediction.quantile(0.975).ln();
            let want = mean + 1.959_963_984_540_054 * f64::sqrt(variance);
            assert!((got - want).abs() < 1e-5, "{text} at {mean}: {got} {want}");
        }
    }
    // mpmath: log probabilities.
    let poisson = parse("poisson", None).unwrap().density();
    for (mean, y, want) in [
        (1e12f64, 1e12, -14.734_449_091_169_03),
        (1e12, 1e12 + 2e6, -16.734_448_757_836_03),
        (20.0, 3.0, -12.804_562_648_566_08),
    ] {
        let got = poisson.log_density(row(y), &[mean.ln()]);
        assert!((got - want).abs() < 1e-6, "{y} at {mean}: {got}, want {want}");
    }
    for (dispersion, mean, y, want) in [
        (0.4, 1e12f64, 5e11, -27.914_697_927_556_94),
        (1e-6, 1e12, 1.001e12, -22.142_870_870_284_58),
        (1e-6, 5.0, 3.0, -1.963_445_231_932_421),
        (0.4, 5.0, 3.0, -2.081_554_418_077_025),
    ] {
        let got = NegativeBinomial::new(dispersion).density().log_density(row(y), &[mean.ln()]);
        assert!((got - want).abs() < 2e-8, "{y} at {mean}: {got}, want {want}");
    }
    let binomial = parse("binomial", None).unwrap().density();
    let got = binomial.log_density(Row { y: 3e14 + 1e7, auxiliary: 1e15 }, &[(3.0f64 / 7.0).ln()]);
    assert!((got + 17.646_098_103_216).abs() < 1e-5, "{got}");
}
