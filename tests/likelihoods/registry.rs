//! Names and arguments.

use cagey::likelihoods::registry::Likelihoods;

use crate::parse;

#[test]
fn texts_are_read_back() {
    for text in [
        "gaussian",
        "heteroscedastic",
        "student-t(4)",
        "bernoulli(logit)",
        "bernoulli(probit)",
        "binomial",
        "softmax(3)",
        "ordinal(5)",
        "poisson(exp)",
        "poisson(softplus)",
        "negative-binomial(0.5)",
        "gamma(2)",
        "exponential",
        "beta(10)",
    ] {
        assert_eq!(parse(text, None).unwrap().text(), text);
    }
    assert_eq!(parse(" Student_T ( 4 ) ", None).unwrap().text(), "student-t(4)");
    assert_eq!(parse("categorical", Some(4)).unwrap().text(), "softmax(4)");
    assert_eq!(parse("bernoulli", Some(2)).unwrap().text(), "bernoulli(logit)");
    for name in Likelihoods::default().rows().iter().map(|row| row.name) {
        assert!(parse(name, Some(3)).is_ok(), "{name}");
    }
}

#[test]
fn errors_say_what_is_right() {
    let error = |text: &str, classes| parse(text, classes).unwrap_err().to_string();
    assert!(error("poison", None).contains("did you mean `poisson`?"));
    assert!(error("xyz", None).contains("There are gaussian, heteroscedastic"));
    assert!(error("poisson(log)", None).contains("takes exp or softplus"));
    assert!(error("bernoulli(logti)", None).contains("did you mean `logit`?"));
    assert!(error("student-t(0.5)", None).contains("a number above 1"));
    assert!(error("gamma(-1)", None).contains("a number above 0"));
    assert!(error("exponential(2)", None).contains("takes no argument"));
    assert!(error("gamma(2", None).contains("`)` is missing"));
    assert!(error("softmax", None).contains("say how many classes"));
    assert!(error("softmax(1)", None).contains("2 or more"));
    assert!(error("softmax(3)", Some(5)).contains("the targets have 5 classes, not 3"));
    assert!(error("softmax(5)", Some(3)).contains("the targets have 3 classes, not 5"));
    assert!(error("ordinal", Some(1)).contains("two or more"));
}

#[test]
fn given_numbers_are_marked() {
    let given = |text: &str| parse(text, None).unwrap().parameters().iter().map(|(_, p)| p.given).collect::<Vec<_>>();
    assert_eq!(given("student-t(4)"), [false, true]);
    assert_eq!(given("gamma"), [false]);
    assert_eq!(given("gaussian(0.2)"), [true]);
    for name in Likelihoods::default().rows().iter().map(|row| row.name) {
        // A number given in the text is the value of a parameter of the likelihood.
        if let Some((parameter, value)) = Likelihoods::default().given(&format!("{name}(2.5)")) {
            let likelihood = parse(&format!("{name}(2.5)"), None).unwrap();
            let found = likelihood.parameters().into_iter().find(|(_, p)| p.given).unwrap();
            assert_eq!((parameter, value), (found.0.as_str(), 2.5));
        }
    }
    assert_eq!(Likelihoods::default().given(" Student_T ( 4 ) "), Some(("df", 4.0)));
}
