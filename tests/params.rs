//! Priors of parameters.

use cagey::params::{Belief, Parameter, Prior, Unit};

/// Values of −log density by scipy.stats (norm, lognorm, gamma, halfcauchy; t of the logarithm), and slopes by central
/// differences.
#[test]
fn prior_densities_are_those_of_scipy() {
    let cases = [
        (Prior::Normal(1.5, 0.7), 0.4, 1.796957466816961, -2.2448979591693785),
        (Prior::Normal(1.5, 0.7), 2.0, 0.8173656300822667, 1.0204081632658735),
        (Prior::LogNormal(0.3, 0.7), 0.4, 1.1555270864152214, -3.705564960887475),
        (Prior::LogNormal(0.3, 0.7), 2.0, 1.413129857154696, 0.9011705924155676),
        (Prior::Gamma(2.5, 1.5), 0.4, 1.2454561980137406, -2.250000000780794),
        (Prior::Gamma(2.5, 1.5), 2.0, 1.2312993293625902, 0.7499999999938111),
        (Prior::HalfCauchy(0.7), 0.4, 0.3774747331357329, 1.230769230642359),
        (Prior::HalfCauchy(0.7), 2.0, 2.31011035098235, 0.8908685968922468),
        (Prior::LogStudent(0.25, 0.3, 1.2), 0.4, 2.739547332529783, -2.066426387248299),
        (Prior::LogStudent(0.25, 0.3, 1.2), 2.0, 1.9433889811764082, 0.47752398323330775),
    ];
    for (prior, x, value, slope) in cases {
        let found = prior.neg_log_density(x);
        assert!((found.0 - value).abs() < 1e-12 * value.abs(), "{prior} at {x}: {found:?}");
        assert!((found.1 - slope).abs() < 1e-8, "{prior} at {x}: {found:?}");
    }
}

#[test]
fn curvatures_of_priors_are_second_derivatives_or_larger() {
    // The second derivative of −log density in x, or in ln x.
    let second = |prior: Prior, x: f64, of_log: bool| {
        let h = 1e-5;
        match of_log {
            true => {
                let slope = |log: f64| prior.neg_log_density(log.exp()).1 * log.exp();
                (slope(x.ln() + h) - slope(x.ln() - h)) / (2.0 * h) / (x * x)
            }
            false => (prior.neg_log_density(x + h).1 - prior.neg_log_density(x - h).1) / (2.0 * h),
        }
    };
    for x in [0.3, 1.0, 2.7] {
        let equal = [("normal(0.5, 2)", false), ("lognormal(0.5, 2)", true), ("gamma(3, 0.7)", true)];
        for (text, of_log) in equal {
            let prior: Prior = text.parse().unwrap();
            let (found, expected) = (prior.curvature(x), second(prior, x, of_log));
            assert!((found - expected).abs() < 1e-6 * expected.abs(), "{text} at {x}: {found}, {expected}");
        }
        for (text, of_log) in [("halfcauchy(0.8)", false), ("logstudent(0.25, 0.4, 1.5)", true)] {
            let prior: Prior = text.parse().unwrap();
            let (found, least) = (prior.curvature(x), second(prior, x, of_log));
            assert!(found > 0.0 && found >= least, "{text} at {x}: {found}, {least}");
        }
    }
    let peak: Prior = "logstudent(0.25, 0, 1.5)".parse().unwrap();
    assert!((peak.curvature(1.0) - second(peak, 1.0, true)).abs() < 1e-6);
}

#[test]
fn a_prior_in_another_unit_is_the_density_of_the_value_in_it() {
    let unit: f64 = 3.7;
    for text in ["normal(1, 0.5)", "lognormal(0.2, 1)", "gamma(2, 0.5)", "halfcauchy(1)"] {
        let prior: Prior = text.parse().unwrap();
        let (own, other) = (prior.neg_log_density(0.8), prior.scaled(unit).neg_log_density(0.8 * unit));
        assert!((other.0 - (own.0 + unit.ln())).abs() < 1e-12, "{text}");
        assert!((other.1 - own.1 / unit).abs() < 1e-12, "{text}");
    }
    // The density of the logarithm does not depend on units.
    let prior: Prior = "logstudent(4, 0.2, 1)".parse().unwrap();
    let (own, other) = (prior.neg_log_density(0.8), prior.scaled(unit).neg_log_density(0.8 * unit));
    assert!((other.0 - own.0).abs() < 1e-12);
}

#[test]
fn entries_have_priors_of_their_own() {
    let mut parameter = Parameter::positive("lengthscale", Unit::Length, &[0.5, 2.0, 4.0]);
    parameter.set_scale(vec![2.0, 1.0, 0.5], 0.0).unwrap();
    let (gamma, normal) = (Prior::Gamma(2.5, 1.5), Prior::Normal(1.0, 0.5));
    assert!(parameter.neg_log_prior().is_none());
    parameter.set_prior(Some(1), gamma).unwrap();
    let (value, gradient) = parameter.neg_log_prior().unwrap();
    assert_eq!(value, gamma.neg_log_density(2.0).0);
    assert_eq!((gradient[0], gradient[2]), (0.0, 0.0));
    // d value / d raw of a positive value is the value.
    assert!((gradient[1] - 2.0 * gamma.neg_log_density(2.0).1).abs() < 1e-12);
    parameter.set_prior(None, normal).unwrap();
    parameter.set_prior(Some(0), gamma).unwrap();
    let wanted = gamma.neg_log_density(0.5).0 + normal.neg_log_density(2.0).0 + normal.neg_log_density(4.0).0;
    assert!((parameter.neg_log_prior().unwrap().0 - wanted).abs() < 1e-12);
    let text = serde_json::to_string(&parameter).unwrap();
    let read: Parameter = serde_json::from_str(&text).unwrap();
    assert_eq!(read.priors(), parameter.priors());
}

#[test]
fn beliefs_are_read_and_shown() {
    for text in ["lognormal(0, 1) sd", "gamma(2, 0.5)", "logstudent(0.25, 1, 1) sd"] {
        let belief: Belief = text.parse().unwrap();
        assert_eq!(belief.to_string(), text);
        let through: Belief = serde_json::from_str(&serde_json::to_string(&belief).unwrap()).unwrap();
        assert_eq!(through, belief);
    }
    for text in ["lognormal(0, 1) ds", "sd", "logstudent(0, 1, 1)", "logstudent(1, 1)"] {
        assert!(text.parse::<Belief>().is_err(), "{text}");
    }
}

#[test]
fn a_wrong_number_of_values_is_refused_and_changes_nothing() {
    let mut parameter = Parameter::positive("lengthscale", Unit::Length, &[0.5, 2.0]);
    for wrong in [&[][..], &[1.0], &[1.0, 2.0, 3.0]] {
        assert!(parameter.set_raw(wrong).is_err() && parameter.set(wrong).is_err());
        assert!(parameter.set_internal(wrong).is_err() && parameter.set_scale(wrong.to_vec(), 0.0).is_err());
    }
    assert!(parameter.set_prior(Some(2), Prior::Normal(1.0, 0.5)).is_err());
    assert!((parameter.values()[0] - 0.5).abs() < 1e-12 && (parameter.values()[1] - 2.0).abs() < 1e-12);
    assert_eq!(parameter.unit_of(2), 1.0);
    parameter.set(&[3.0, 4.0]).unwrap();
    assert!((parameter.values()[1] - 4.0).abs() < 1e-12);
}
