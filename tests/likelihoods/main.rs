//! Likelihoods: one suite that all of them pass, and tests of single ones.

#[path = "../common/mod.rs"]
mod common;

mod correlated;
mod custom;
mod extreme;
mod infer;
mod jets;
mod particular;
mod registry;
mod special;
mod suite;
mod validation;

use cagey::Result;
use cagey::likelihoods::registry::Likelihoods;
use cagey::likelihoods::{Likelihood, Row};

/// A built-in likelihood.
fn parse(text: &str, classes: Option<usize>) -> Result<Box<dyn Likelihood>> {
    Likelihoods::default().parse(text, classes)
}

/// A likelihood with rows to test it on.
pub struct Case {
    pub likelihood: Box<dyn Likelihood>,
    pub rows: Vec<Row>,
    /// Largest error of the expected log density for variances up to 1, compared with many nodes: 0 for closed forms.
    pub quadrature: f64,
}

fn case(text: &str, rows: &[(f64, f64)], quadrature: f64) -> Case {
    let likelihood = parse(text, None).unwrap();
    Case { likelihood, rows: rows.iter().map(|&(y, auxiliary)| Row { y, auxiliary }).collect(), quadrature }
}

/// All likelihoods, with parameter values away from their defaults.
pub fn cases() -> Vec<Case> {
    let plain = |values: &[f64]| values.iter().map(|y| (*y, 1.0)).collect::<Vec<_>>();
    vec![
        case("gaussian(0.3)", &[(-1.0, 0.0), (0.4, 0.5), (3.0, 0.0)], 0.0),
        case("heteroscedastic(0.3)", &plain(&[-1.0, 0.4, 3.0]), 0.0),
        case("student-t(3.5)", &plain(&[-1.0, 0.4, 6.0]), 2e-2),
        case("bernoulli(logit)", &plain(&[0.0, 1.0]), 1e-8),
        case("bernoulli(probit)", &plain(&[0.0, 1.0]), 1e-6),
        case("binomial", &[(0.0, 1.0), (3.0, 7.0), (20.0, 20.0)], 1e-6),
        case("softmax(3)", &plain(&[0.0, 1.0, 2.0]), 1e-7),
        case("ordinal(4)", &plain(&[0.0, 1.0, 2.0, 3.0]), 1e-8),
        case("ordinal(2)", &plain(&[0.0, 1.0]), 1e-8),
        case("poisson(exp)", &[(0.0, 1.0), (3.0, 0.5), (17.0, 4.0)], 0.0),
        case("poisson(softplus)", &[(0.0, 1.0), (3.0, 0.5), (17.0, 4.0)], 1e-6),
        case("negative-binomial(0.4)", &[(0.0, 1.0), (3.0, 0.5), (17.0, 4.0)], 1e-6),
        case("gamma(2.5)", &plain(&[0.05, 1.0, 7.0]), 0.0),
        case("exponential", &plain(&[0.05, 1.0, 7.0]), 0.0),
        case("beta(6)", &plain(&[0.02, 0.5, 0.93]), 1e-6),
    ]
}

#[test]
fn every_name_is_in_the_suite() {
    let tried: Vec<String> = cases().iter().map(|case| case.likelihood.text()).collect();
    for name in Likelihoods::default().rows().iter().map(|row| row.name) {
        assert!(tried.iter().any(|text| text.split('(').next() == Some(name)), "{name} is not tried");
    }
}
