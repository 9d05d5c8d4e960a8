//! Tests of single likelihoods: limits, known values, starting values, extreme parameters.

use crate::parse;
use cagey::likelihoods::quadrature::{adaptive, hermite};
use cagey::likelihoods::{
    Bernoulli, BernoulliLink, Beta, Gamma, Likelihood, NegativeBinomial, Ordinal, Poisson, RateLink, Row, Softmax,
    StudentT, Targets,
};

fn row(y: f64) -> Row {
    Row { y, auxiliary: 1.0 }
}

#[test]
fn quadrature_is_exact_for_polynomials() {
    for n in [1, 2, 5, 20, 100] {
        let rule = hermite(n);
        assert_eq!(rule.len(), n);
        // E[z^2k] = (2k − 1)!!
        let mut moment = 1.0;
        for k in 0..n.min(30) {
            let got: f64 = rule.iter().map(|(z, w)| w * z.powi(2 * k as i32)).sum();
            assert!((got / moment - 1.0).abs() < 1e-12, "{n} nodes, degree {}: {got} {moment}", 2 * k);
            moment *= (2 * k + 1) as f64;
        }
    }
    // Abramowitz and Stegun, table 25.10, for e^(−x²): factors of √2 and 1/√π.
    let (z, w) = hermite(20)[19];
    assert!((z / 2f64.sqrt() - 5.387_480_890_011_2).abs() < 1e-12);
    assert!((w * std::f64::consts::PI.sqrt() / 2.229_393_645_534e-13 - 1.0).abs() < 1e-12);
}

#[test]
fn adaptive_integrals_find_narrow_peaks() {
    let narrow = |x: f64| (-0.5 * ((x - 0.3) / 1e-3).powi(2)).exp();
    let got = adaptive(&[-1.0, 0.29, 0.31, 1.0], 1e-12, &narrow);
    assert!((got - 1e-3 * (2.0 * std::f64::consts::PI).sqrt()).abs() < 1e-11, "{got}");
}

#[test]
fn limits_agree() {
    let normal = parse("gaussian(0.5)", None).unwrap().density();
    let student = StudentT::new(0.5, 1e7).density();
    let poisson = Poisson { link: RateLink::Exp }.density();
    let counts = NegativeBinomial::new(2e-6).density();
    let (exponential, gamma) = (parse("exponential", None).unwrap().density(), Gamma::new(1.0).density());
    let (two, bernoulli) = (Softmax::new(2).density(), Bernoulli { link: BernoulliLink::Logit }.density());
    let ordinal = Ordinal::new(2).density();
    for f in [-2.0, 0.0, 1.3] {
        for y in [0.0, 1.0, 4.0] {
            let at = Row { y, auxiliary: 0.0 };
            // They differ by at most q²/4ν, with the scaled square q = 72.
            assert!((normal.log_density(at, &[f]) - student.log_density(at, &[f])).abs() < 2e-4);
            let (a, b) = (poisson.log_density(row(y), &[f]), counts.log_density(row(y), &[f]));
            assert!((a - b).abs() < 2e-4, "poisson {a}, negative binomial {b}");
            let y = y + 0.5;
            assert!((exponential.log_density(row(y), &[f]) - gamma.log_density(row(y), &[f])).abs() < 1e-13);
        }
        for y in [0.0, 1.0] {
            let want = bernoulli.log_density(row(y), &[f]);
            assert!((two.log_density(row(y), &[0.5 - f, 0.5]) - bernoulli.log_density(row(y), &[f])).abs() < 1e-14);
            assert!((ordinal.log_density(row(y), &[f]) - want).abs() < 1e-14);
        }
    }
}

#[test]
fn nearly_poisson_counts_keep_their_digits() {
    // The score with respect to the dispersion tends to ½[(y − μ)² − y].
    let counts = NegativeBinomial::new(1.5e-6).density();
    let mut own = [0.0];
    counts.add_own_gradient(row(7.0), &[1.2f64], 1.0, &mut own);
    let want = 0.5 * ((7.0 - 1.2f64.exp()).powi(2) - 7.0);
    assert!((own[0] - want).abs() < 1e-3 * want.abs(), "{} {want}", own[0]);
    assert!(
        (counts.cdf(row(3.0), &[1.0]) - Poisson { link: RateLink::Exp }.density().cdf(row(3.0), &[1.0])).abs() < 1e-5
    );
}

#[test]
fn exposure_shifts_the_log_rate() {
    for text in ["poisson(exp)", "negative-binomial(0.3)"] {
        let density = parse(text, None).unwrap().density();
        let a = density.log_density(Row { y: 4.0, auxiliary: 2.5 }, &[0.3]);
        let b = density.log_density(row(4.0), &[0.3 + 2.5f64.ln()]);
        assert!((a - b).abs() < 1e-13, "{text}");
    }
}

#[test]
fn known_values() {
    // By hand: ln Φ(−1), Binomial(2 of 3 at ½), Poisson(2 at rate e⁰), Student ν = 3 at its centre: 2/(π√3).
    let probit = parse("bernoulli(probit)", None).unwrap().density();
    let value = probit.log_density(row(1.0), &[-1.0]).exp();
    assert!((value - 0.158_655_253_931_457_05).abs() < 1e-15, "{value}");
    let binomial = parse("binomial", None).unwrap().density();
    assert!((binomial.log_density(Row { y: 2.0, auxiliary: 3.0 }, &[0.0]) - (3.0f64 / 8.0).ln()).abs() < 1e-13);
    let poisson = parse("poisson", None).unwrap().density();
    assert!((poisson.log_density(row(2.0), &[0.0]) - (-1.0 - 2f64.ln())).abs() < 1e-14);
    let student = StudentT::new(1.0, 3.0).density();
    assert!((student.log_density(row(0.0), &[0.0]) - (2.0 / (3f64.sqrt() * std::f64::consts::PI)).ln()).abs() < 1e-14);
    let probit_tail = probit.log_density(row(1.0), &[-50.0]);
    // ln Φ(−50) = −1254.8313611394... (asymptotic series).
    assert!((probit_tail + 1_254.831_361_139_4).abs() < 1e-8, "{probit_tail}");
}

#[test]
fn distribution_functions_of_large_counts_keep_their_digits() {
    // scipy.stats: binom.cdf, nbinom.cdf, beta.cdf.
    let binomial = parse("binomial", None).unwrap().density();
    let share = (3.0f64 / 7.0).ln();
    for (y, trials, f, want) in [
        (5e5, 1e6, 0.0, 0.500_398_942_180_665_4),
        (5_000_500.0, 1e7, 0.0, 0.624_205_179_969_282),
        (300_005_000.0, 1e9, share, 0.634_979_628_838_757),
    ] {
        let got = binomial.cdf(Row { y, auxiliary: trials }, &[f]);
        assert!((got - want).abs() < 1e-7, "{y} of {trials}: {got}, want {want}");
    }
    for (dispersion, mean, y, want) in [
        (1e-6, 1e6f64, 1e6, 0.500_282_094_756_512_3),
        (1e-6, 1e6, 1_001_500.0, 0.855_648_117_724_227_7),
        (1e-6, 3.0, 5.0, 0.916_081_755_509_149_3),
    ] {
        let got = NegativeBinomial::new(dispersion).density().cdf(row(y), &[mean.ln()]);
        assert!((got - want).abs() < 1e-7, "{y} at {mean}: {got}, want {want}");
    }
    assert!(Beta::new(2.0).density().cdf(row(f64::NAN), &[0.1]).is_nan());
    for (concentration, f, y, want) in
        [(1e7, 0.0, 0.5001, 0.736_455_368_468_594_6), (1e5, -(3f64.ln()), 0.25, 0.500_485_577_844_581_6)]
    {
        let got = Beta::new(concentration).density().cdf(row(y), &[f]);
        assert!((got - want).abs() < 1e-7, "{y}: {got}, want {want}");
    }
}

#[test]
fn quantiles_need_no_variance() {
    // scipy.stats: t.ppf.
    for (df, quantiles) in [
        (1.0, [0.324_919_696_232_906_3, 12.706_204_736_174_69, 318_309.886_173_590_26]),
        (1.5, [0.300_745_392_569_795_43, 6.016_663_104_427_929, 5_219.469_324_606_886]),
        (2.0, [0.288_675_134_594_812_8, 4.302_652_729_749_462, 707.105_720_515_767_2]),
    ] {
        for (noise, variance) in [(1.0, 0.0), (1e-4, 0.0), (1e8, 1e-30)] {
            let prediction = StudentT::new(noise, df).predict(&[0.5], &[variance], None).unwrap();
            for (p, want) in [0.6, 0.975, 1.0 - 1e-6].into_iter().zip(quantiles) {
                let got = (prediction.quantile(p) - 0.5) / noise.sqrt();
                assert!((got / want - 1.0).abs() < 1e-4, "{df}, {noise}: quantile {p} {got}, want {want}");
            }
        }
    }
}

#[test]
fn classes_that_there_are_not_have_no_probability() {
    for name in ["softmax", "ordinal"] {
        let likelihood = parse(name, Some(3)).unwrap();
        let count = likelihood.latents();
        let prediction = likelihood.predict(&vec![0.1; count], &vec![0.2; count], None).unwrap();
        assert_eq!(prediction.log_density(7.0), f64::NEG_INFINITY, "{name}");
        assert!(prediction.log_density(2.0).is_finite(), "{name}");
        if name == "ordinal" {
            for (y, want) in [(-1.0, 0.0), (2.0, 1.0), (3.0, 1.0), (1e9, 1.0)] {
                assert!((prediction.cdf(y) - want).abs() < 1e-9, "{y}");
            }
        }
    }
}

#[test]
fn nearly_certain_classes_leave_the_others_their_probability() {
    for (name, f) in [("bernoulli(logit)", 50.0), ("bernoulli(probit)", 20.0), ("ordinal(4)", 60.0)] {
        let likelihood = parse(name, None).unwrap();
        for f in [f, -f] {
            let prediction = likelihood.predict(&[f], &[1.0], None).unwrap();
            let probabilities = prediction.probabilities().unwrap();
            assert!(probabilities.iter().all(|p| (0.0..=1.0).contains(p)), "{name}: {probabilities:?}");
            for (class, p) in probabilities.iter().enumerate() {
                let logarithm = prediction.log_density(class as f64);
                assert!((p.ln() - logarithm).abs() < 1e-6, "{name} {f}, {class}: {p} {logarithm}");
            }
        }
    }
}

#[test]
fn wide_rates_and_narrow_counts_are_integrated_alike() {
    // A rate of about 10⁴, known to a factor of e: the counts' own scatter is 1 % of this uncertainty.
    let poisson = parse("poisson", None).unwrap();
    let (mean, variance) = (1e4f64.ln(), 1.0);
    let prediction = poisson.predict(&[mean], &[variance], None).unwrap();
    for (p, z) in [(0.05, -1.644_853_626_951_472_7), (0.5, 0.0), (0.95, 1.644_853_626_951_472_7)] {
        let want = f64::exp(mean + z);
        let got = prediction.quantile(p);
        assert!((got / want - 1.0).abs() < 2e-3, "quantile {p}: {got}, log-normal {want}");
    }
    // The density is nearly log-normal.
    let y: f64 = 2e4;
    let log_normal = -0.5 * ((y.ln() - mean).powi(2) + (2.0 * std::f64::consts::PI).ln()) - y.ln();
    assert!((prediction.log_density(y) - log_normal).abs() < 1e-3);
}

#[test]
fn many_classes_are_normalised_and_ordered() {
    let softmax = Softmax::new(10);
    let mean: Vec<f64> = (0..10).map(|c| 0.4 * c as f64).collect();
    for v in [1e-6, 0.5, 9.0, 100.0] {
        let p = softmax.predict(&mean, &[v; 10], None).unwrap().probabilities().unwrap();
        assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!(p.windows(2).all(|pair| pair[0] < pair[1]), "{v}: {p:?}");
        if v < 1e-3 {
            let total: f64 = mean.iter().map(|m| m.exp()).sum();
            for (p, m) in p.iter().zip(&mean) {
                assert!((p - m.exp() / total).abs() < 1e-6);
            }
        }
    }
    // Equal marginals give equal shares, at any width.
    let p = softmax.predict(&[3.0; 10], &[4.0; 10], None).unwrap().probabilities().unwrap();
    assert!(p.iter().all(|p| (p - 0.1).abs() < 1e-12));
}

#[test]
fn starting_values_fit_the_targets() {
    let counts = [0.0, 2.0, 4.0, 2.0];
    let level = |text: &str, y: &[f64]| parse(text, None).unwrap().initialise(Targets::new(y));
    assert!((level("poisson", &counts)[0] - 2f64.ln()).abs() < 1e-12);
    assert!((level("poisson(softplus)", &counts)[0].exp().ln_1p() - 2.0).abs() < 1e-12);
    assert!((level("bernoulli", &[0.0, 1.0, 1.0, 1.0])[0] - 3f64.ln()).abs() < 1e-12);
    assert!((level("gamma", &[1.0, 3.0])[0] - 2f64.ln()).abs() < 1e-12);
    let exposure = [1.0, 1.0, 1.0, 5.0];
    let mut poisson = Poisson { link: RateLink::Exp };
    assert!((poisson.initialise(Targets { y: &counts, auxiliary: Some(&exposure) })[0]).abs() < 1e-12);
    let mut ordinal = Ordinal::new(3);
    ordinal.initialise(Targets::new(&[0.0, 0.0, 1.0, 1.0, 2.0, 2.0]));
    let density = ordinal.density();
    for class in 0..3 {
        assert!((density.log_density(row(f64::from(class)), &[0.0]).exp() - 1.0 / 3.0).abs() < 0.05);
    }
    let mut student = StudentT::new(0.1, 4.0);
    student.noise.given = true;
    student.initialise(Targets::new(&[0.0, 100.0]));
    assert!((student.noise.values()[0] - 0.1).abs() < 1e-12, "a given value is kept");
}

#[test]
fn units_follow_the_target() {
    for text in ["gaussian(9)", "heteroscedastic(9)"] {
        let mut likelihood = parse(text, None).unwrap();
        assert!(likelihood.scaled());
        likelihood.set_units(3.0);
        let parameters = likelihood.parameters();
        assert!((parameters[0].1.values()[0] - 9.0).abs() < 1e-9 && (parameters[0].1.internal()[0] - 1.0).abs() < 1e-9);
    }
    assert!(!parse("poisson", None).unwrap().scaled() && !parse("gamma", None).unwrap().scaled());
    let names: Vec<String> = parse("student-t", None).unwrap().parameters().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["noise", "df"]);
}

#[test]
fn intervals_of_a_rate_are_those_of_the_function() {
    let poisson = parse("poisson", None).unwrap();
    let prediction = poisson.predict(&[0.5], &[0.04], Some(3.0)).unwrap();
    let want = 3.0 * (0.5f64 + 0.2 * 1.959_963_984_540_054).exp();
    assert!((prediction.response_quantile(0.975) - want).abs() < 1e-9 * want);
}
