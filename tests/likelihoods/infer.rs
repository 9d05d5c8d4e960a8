//! Likelihoods guessed from the targets.

use cagey::likelihoods::infer::{Sight, infer};

use crate::parse;

#[test]
fn targets_suggest_a_likelihood() {
    let labels = |names: &[&str]| names.iter().map(|n| (*n).to_string()).collect::<Vec<_>>();
    let two = labels(&["no", "yes"]);
    let guess = infer("y", Sight::Labels(&two)).unwrap();
    assert_eq!(guess.likelihood, "bernoulli(logit)");
    assert!(guess.sentence.text.contains("target `y` has the two classes `no` and `yes`"), "{}", guess.sentence);
    let three = labels(&["a", "b", "c"]);
    assert_eq!(infer("y", Sight::Labels(&three)).unwrap().likelihood, "softmax(3)");
    let error = infer("y", Sight::Labels(&three[..1])).unwrap_err().to_string();
    assert!(error.contains("single class `a`"), "{error}");
    let numbers = |y: &[f64]| infer("y", Sight::Numbers(y)).unwrap();
    assert_eq!(numbers(&[0.0, 1.0, 1.0]).likelihood, "bernoulli(logit)");
    let counts = numbers(&[0.0, 3.0, 12.0]);
    assert_eq!(counts.likelihood, "gaussian");
    assert!(counts.sentence.text.contains("poisson"), "{}", counts.sentence);
    let real = numbers(&[0.5, -1.0]);
    assert_eq!(real.likelihood, "gaussian");
    assert!(!real.sentence.text.contains("poisson"));
    assert!(infer("y", Sight::Numbers(&[])).is_err());
    // Guesses can be parsed.
    for guess in [guess, counts] {
        parse(&guess.likelihood, None).unwrap();
    }
}
