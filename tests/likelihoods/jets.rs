//! Derivatives that numbers carry, compared with differences.

use cagey::arithmetic::{Arithmetic, Jet, Real};

type Twice = Jet<Jet<f64>>;

/// A function for numbers of three kinds.
type Case = (&'static str, fn(f64) -> f64, fn(Twice) -> Twice, fn(Jet<Twice>) -> Jet<Twice>);

macro_rules! cases {
    ($($name:literal: |$x:ident| $body:expr),* $(,)?) => {
        [$(($name, |$x| $body, |$x| $body, |$x| $body)),*]
    };
}

fn thrice(x: f64) -> Jet<Twice> {
    let once = Jet::new(x, 1.0);
    let twice = Jet::new(once, Jet::constant(1.0));
    Jet::new(twice, Jet::constant(1.0))
}

#[test]
fn derivatives_of_functions_agree_with_differences() {
    let cases: [Case; 14] = cases! {
        "exp": |x| Arithmetic::exp(x),
        "ln": |x| Arithmetic::ln(x),
        "ln_1p": |x| Arithmetic::ln_1p(x),
        "sqrt": |x| Real::sqrt(x),
        "recip": |x| Real::recip(x),
        "sin": |x| Arithmetic::sin(x),
        "cos": |x| Arithmetic::cos(x),
        "softplus": |x| x.softplus(),
        "logistic": |x| x.logistic(),
        "ln_gamma": |x| Real::ln_gamma(x),
        "ln_normal_cdf": |x| (-x).ln_normal_cdf(),
        "safe_sqrt": |x| x.safe_sqrt(),
        "power": |x| Arithmetic::powi(x, 3),
        "a sum of products": |x| x * Arithmetic::exp(-x) / (x * x + 1.0) - x * 2.0,
    };
    for (name, of, second, third) in cases {
        for x in [0.3, 1.1, 2.7] {
            let at = |x: f64| second(Jet::new(Jet::new(x, 1.0), Jet::constant(1.0)));
            let jet = at(x);
            let h = 1e-5;
            let close = |what: &str, got: f64, want: f64| {
                assert!((got - want).abs() < 1e-8 * want.abs().max(1.0), "{name} at {x}: {what} {got}, want {want}");
            };
            close("value", jet.value.value, of(x));
            close("slope", jet.value.slope, (of(x + h) - of(x - h)) / (2.0 * h));
            close("the other slope", jet.slope.value, jet.value.slope);
            close("second", jet.slope.slope, (at(x + h).value.slope - at(x - h).value.slope) / (2.0 * h));
            let difference = (at(x + h).slope.slope - at(x - h).slope.slope) / (2.0 * h);
            close("third", third(thrice(x)).slope.slope.slope, difference);
        }
    }
}

#[test]
fn constants_have_no_derivatives() {
    let constant = Jet::<Jet<f64>>::constant(2.0);
    assert_eq!(constant.order(), 0);
    assert!(Real::ln_gamma(constant).slope.is_zero());
    assert_eq!(Jet::new(Jet::new(1.0, 1.0), Jet::constant(1.0)).order(), 2);
}
