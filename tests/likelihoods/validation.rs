//! Invalid targets: the message names the row, the value and what to do.

use crate::parse;
use cagey::likelihoods::Targets;

fn error(text: &str, y: &[f64], auxiliary: Option<&[f64]>) -> String {
    let rows: Vec<usize> = (0..y.len()).map(|i| i + 2).collect();
    parse(text, None).unwrap().check(Targets { y, auxiliary }, Some(&rows)).unwrap_err().to_string()
}

#[test]
fn bad_targets_are_named() {
    for (text, y, parts) in [
        ("bernoulli", -1.0, &["row 3: the target -1", "code the classes -1 and 1 as 0 and 1"][..]),
        ("bernoulli", 2.0, &["the target 2", "softmax"]),
        ("bernoulli", 0.5, &["the target 0.5", "takes 0 to 1"]),
        ("softmax(3)", 3.0, &["the target 3", "takes 0 to 2"]),
        ("ordinal(3)", -1.0, &["takes 0 to 2"]),
        ("poisson", 2.5, &["row 3: the target 2.5 is no whole number", "exposure"]),
        ("poisson", -4.0, &["the target -4 is negative", "gaussian"]),
        ("negative-binomial", 0.1, &["no whole number"]),
        ("gamma", 0.0, &["the target 0 is 0", "half the smallest"]),
        ("exponential", -1.0, &["negative", "choose gaussian"]),
        ("beta", 1.0, &["edge", "binomial"]),
        ("beta", 45.0, &["divide percentages by 100"]),
        ("binomial", 2.0, &["exceeds its number of trials, 1", "swapped"]),
        ("gaussian", f64::NAN, &["not a number"]),
        ("student-t", f64::INFINITY, &["not a number"]),
    ] {
        let good = if text == "gamma" || text == "exponential" || text == "beta" { 0.5 } else { 0.0 };
        let message = error(text, &[good, y], None);
        for part in parts {
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}

#[test]
fn bad_auxiliary_values_are_named() {
    let message = error("poisson", &[1.0, 1.0], Some(&[1.0, 0.0]));
    assert!(message.contains("row 3") && message.contains("exposure must be positive"), "{message}");
    let message = error("binomial", &[1.0, 1.0], Some(&[1.0, 2.5]));
    assert!(message.contains("number of trials must be a whole number"), "{message}");
    let message = error("gaussian", &[1.0, 1.0], Some(&[1.0, -2.5]));
    assert!(message.contains("known noise variance"), "{message}");
    let message = error("poisson", &[1.0, 1.0], Some(&[1.0]));
    assert!(message.contains("expected 2, got 1"), "{message}");
}

#[test]
fn good_targets_pass_and_rows_count_from_one() {
    let check = |text: &str, y: &[f64], auxiliary| parse(text, None).unwrap().check(Targets { y, auxiliary }, None);
    check("binomial", &[3.0, 0.0], Some(&[4.0, 2.0])).unwrap();
    check("gaussian", &[-3.0, 1e10], Some(&[0.0, 2.0])).unwrap();
    check("softmax(4)", &[3.0, 0.0], None).unwrap();
    assert!(check("poisson", &[-1.0], None).unwrap_err().to_string().starts_with("row 1:"));
}

#[test]
fn suspicious_targets_are_warned_of() {
    let warnings = |text: &str, y: &[f64]| parse(text, None).unwrap().warnings(Targets::new(y)).join(" ");
    assert!(warnings("bernoulli", &[1.0, 1.0]).contains("all targets are of one class"));
    assert!(warnings("bernoulli", &[1.0, 0.0]).is_empty());
    assert!(warnings("poisson", &[0.0, 0.0]).contains("all 2 counts are 0"));
    assert!(warnings("softmax(4)", &[0.0, 1.0, 3.0]).contains("class 2"));
    assert!(warnings("softmax(4)", &[3.0]).contains("one class"));
    assert!(warnings("ordinal(3)", &[0.0, 1.0, 2.0]).is_empty());
}

#[test]
fn too_few_auxiliary_values_are_no_panic() {
    let targets = Targets { y: &[1.0, 0.0, 2.0], auxiliary: Some(&[1.0]) };
    for text in ["poisson", "negative-binomial", "binomial", "gaussian"] {
        let mut likelihood = parse(text, None).unwrap();
        assert!(likelihood.check(targets, None).is_err(), "{text}");
        likelihood.warnings(targets);
        likelihood.initialise(targets);
    }
}
