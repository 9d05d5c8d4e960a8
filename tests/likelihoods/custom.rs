//! Likelihoods of a formula alone agree with closed forms.

use cagey::arithmetic::Real;
use cagey::likelihoods::registry::{Likelihoods, Row as Entry};
use cagey::likelihoods::{
    Auxiliary, Custom, Density, Formula, Heteroscedastic, Likelihood, Marginal, Row, Slopes, Support, Targets,
};
use cagey::params::{Parameter, Unit};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use statrs::function::gamma::gamma;

use crate::parse;

fn close(what: &str, got: f64, want: f64, tolerance: f64) {
    assert!((got - want).abs() <= tolerance * want.abs().max(1.0), "{what}: got {got}, want {want}");
}

fn positive(name: &str, value: f64) -> Parameter {
    Parameter::positive(name, Unit::None, &[value])
}

fn row(y: f64) -> Row {
    Row { y, auxiliary: 1.0 }
}

/// Weibull's distribution with scale `exp(f)` and a learned shape.
#[derive(Debug, Clone)]
struct Weibull;

impl Formula for Weibull {
    fn support(&self, _auxiliary: f64) -> Support {
        Support::Positive
    }

    fn log_density<A: Real>(&self, row: Row, f: &[A], own: &[A]) -> A {
        let t = own[0] * (-f[0] + row.y.ln());
        own[0].ln() + t - t.exp() - row.y.ln()
    }
}

fn weibull(shape: f64) -> Custom<Weibull> {
    Custom::new("weibull", Weibull, [positive("shape", shape)])
}

#[test]
fn moments_and_draws_follow_from_the_density() {
    let (k, f) = (1.7, 0.4f64);
    let density = weibull(k).density();
    let moment = |m: f64| (m * f).exp() * gamma(1.0 + m / k);
    close("mean", density.mean(&[f], 1.0), moment(1.0), 1e-7);
    close("variance", density.variance(&[f], 1.0), moment(2.0) - moment(1.0).powi(2), 1e-7);
    let below = |y: f64| -(-(y * (-f).exp()).powf(k)).exp_m1();
    for y in [0.0, 0.01, 0.5, 2.0, 9.0] {
        close(&format!("cdf at {y}"), density.cdf(row(y), &[f]), below(y), 1e-8);
    }
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    let draws: Vec<f64> = (0..500).map(|_| density.sample(&[f], 1.0, &mut rng)).collect();
    for y in [0.5, 1.5, 3.0] {
        let share = draws.iter().filter(|draw| **draw <= y).count() as f64 / 500.0;
        assert!((share - below(y)).abs() < 5.0 * (0.25f64 / 500.0).sqrt(), "{y}: {share} {}", below(y));
    }
    let prediction = weibull(k).predict(&[f], &[0.3], None).unwrap();
    close("predicted mean", prediction.mean(), moment(1.0) * 0.15f64.exp(), 1e-6);
    close("quantile", prediction.cdf(prediction.quantile(0.8)), 0.8, 1e-6);
}

#[test]
fn slopes_follow_from_the_density() {
    let (k, f, y) = (1.7, 0.4, 2.3f64);
    let density = weibull(k).density();
    let (u, distance) = ((k * (y.ln() - f)).exp(), y.ln() - f);
    let (mut gradient, mut hessian, mut own) = ([0.0], [0.0], [0.0]);
    density.derivatives(row(y), &[f], &mut gradient, &mut hessian);
    close("gradient", gradient[0], k * (u - 1.0), 1e-13);
    close("Hessian", hessian[0], -k * k * u, 1e-13);
    density.add_own_gradient(row(y), &[f], 1.0, &mut own);
    close("own", own[0], 1.0 / k + distance * (1.0 - u), 1e-13);
    let (mut slopes, mut in_own, mut pull) = ([0.0], [0.0], [0.0]);
    density.add_curvature_slopes(row(y), &[f], &[1.0], &mut slopes, &mut in_own);
    close("slope of the curvature", slopes[0], -k.powi(3) * u, 1e-13);
    close("its own slope", in_own[0], k * u * (2.0 + k * distance), 1e-13);
    density.add_pull_slopes(row(y), &[f], &[1.0], &mut pull);
    close("pull", pull[0], u - 1.0 + k * u * distance, 1e-13);
}

/// A level where the gradient vanishes, targets checked by the support, and a text that is read back.
#[test]
fn levels_checks_and_texts_follow() {
    let mut likelihood = weibull(2.0);
    let y = [0.5, 1.0, 2.5, 4.0];
    let level = likelihood.initialise(Targets::new(&y))[0];
    // The scale whose power is the mean of powers.
    close("level", level, 0.5 * (y.iter().map(|y| y * y).sum::<f64>() / 4.0).ln(), 1e-5);
    assert!(likelihood.check_row(row(-1.0)).unwrap_err().contains("the weibull likelihood takes positive targets"));
    assert!(likelihood.check_row(row(1.0)).is_ok());
    let all = Likelihoods::default().with(Entry::new("weibull", || Box::new(weibull(1.0))));
    let read = all.parse("weibull(1.5)", None).unwrap();
    assert_eq!(read.text(), "weibull(1.5)");
    assert!(read.parameters()[0].1.given);
    assert!(all.parse("weibull(-1)", None).unwrap_err().to_string().contains("above 0"));
}

/// A built-in density as a formula alone.
#[derive(Debug, Clone)]
struct Counts;

impl Formula for Counts {
    fn support(&self, _auxiliary: f64) -> Support {
        Support::Counts(None)
    }

    fn log_density<A: Real>(&self, row: Row, f: &[A], _own: &[A]) -> A {
        (f[0] + row.auxiliary.ln()) * row.y - f[0].exp() * row.auxiliary - A::constant(row.y + 1.0).ln_gamma()
    }
}

#[derive(Debug, Clone)]
struct Shares;

impl Formula for Shares {
    fn support(&self, _auxiliary: f64) -> Support {
        Support::Unit
    }

    fn log_density<A: Real>(&self, row: Row, f: &[A], own: &[A]) -> A {
        let (a, b) = (own[0] * f[0].logistic(), own[0] * (-f[0]).logistic());
        let constant = own[0].ln_gamma() - a.ln_gamma() - b.ln_gamma();
        constant + (a - 1.0) * row.y.ln() + (b - 1.0) * (-row.y).ln_1p()
    }
}

#[test]
fn formulas_alone_agree_with_built_in_likelihoods() {
    let counts = Custom::new("counts", Counts, []).with_auxiliary(Auxiliary::Exposure);
    let shares = Custom::new("shares", Shares, [positive("concentration", 6.0)]);
    let cases: [(Box<dyn Likelihood>, &str, [f64; 3]); 2] =
        [(Box::new(counts), "poisson", [0.0, 2.0, 9.0]), (Box::new(shares), "beta(6)", [0.05, 0.5, 0.8])];
    for (own, text, targets) in cases {
        let built_in = parse(text, None).unwrap();
        for (mean, variance) in [(0.3, 0.0), (-0.5, 0.4), (0.6, 0.3)] {
            let [got, want] = [&own, &built_in].map(|all| all.predict(&[mean], &[variance], None).unwrap());
            close(&format!("{text}: mean"), got.mean(), want.mean(), 1e-6);
            close(&format!("{text}: variance"), got.variance(), want.variance(), 1e-5);
            for y in targets {
                close(&format!("{text}: density of {y}"), got.log_density(y), want.log_density(y), 1e-7);
                close(&format!("{text}: cdf of {y}"), got.cdf(y), want.cdf(y), 1e-6);
            }
        }
    }
}

/// Two latent functions.
#[derive(Debug, Clone)]
struct Varying;

impl Formula for Varying {
    fn support(&self, _auxiliary: f64) -> Support {
        Support::Real
    }

    fn latents(&self) -> usize {
        2
    }

    fn is_log_concave(&self) -> bool {
        false
    }

    fn log_density<A: Real>(&self, row: Row, f: &[A], own: &[A]) -> A {
        let residual = f[0] - row.y;
        (own[0].ln() + f[1] + residual * residual * (-f[1]).exp() / own[0] + std::f64::consts::TAU.ln()) * -0.5
    }
}

#[test]
fn two_latent_functions_are_averaged_by_the_product_rule() {
    let (own, built_in) = (Custom::new("varying", Varying, [positive("noise", 0.3)]), Heteroscedastic::new(0.3));
    let (mean, variance) = ([0.4, -0.2], [0.3, 0.2]);
    let average = |density: &dyn Density| {
        let (mut m, mut v, mut own) = ([0.0; 2], [0.0; 2], [0.0]);
        let slopes = Slopes { mean: &mut m, variance: &mut v, own: &mut own };
        let at = Marginal { mean: &mean, variance: &variance };
        let value = density.expectation(row(1.1), at, slopes);
        [&[value][..], &m, &v, &own].concat()
    };
    let (got, want) = (average(&*own.density()), average(&*built_in.density()));
    for (place, (got, want)) in got.iter().zip(&want).enumerate() {
        close(&format!("expectation: {place}"), *got, *want, 1e-9);
    }
    let [got, want] =
        [own.predict(&mean, &variance, None), built_in.predict(&mean, &variance, None)].map(Result::unwrap);
    close("mean", got.mean(), want.mean(), 1e-7);
    // The error of the product rule; a fine rule gives −1.07509315.
    close("log density", got.log_density(1.1), want.log_density(1.1), 2e-5);
    assert!(own.density().latents() == 2 && !own.density().is_log_concave());
}

cagey::log_density!(Whole: Support::Positive, |row, f, own| {
    let t = own[0] * (-f[0] + row.y.ln());
    own[0].ln() + t - t.exp() - row.y.ln()
});

cagey::log_density!(Split: Support::Positive, |row, f, own| {
    let t = own[0] * (-f[0] + row.y.ln());
    t - t.exp()
}, |row, own| own[0].ln() - row.y.ln());

/// What does not depend on f is computed apart, and changes nothing.
#[test]
fn a_log_density_may_have_a_rest() {
    let [whole, split] = [
        Custom::new("whole", Whole, [positive("shape", 1.7)]).density(),
        Custom::new("split", Split, [positive("shape", 1.7)]).density(),
    ];
    for y in [0.1, 0.9, 4.0] {
        close("log density", split.log_density(row(y), &[0.3]), whole.log_density(row(y), &[0.3]), 1e-13);
        let [a, b] = [&whole, &split].map(|density| {
            let (mut mean, mut variance, mut own) = ([0.0], [0.0], [0.0]);
            let slopes = Slopes { mean: &mut mean, variance: &mut variance, own: &mut own };
            let value = density.expectation(row(y), Marginal { mean: &[0.2], variance: &[0.5] }, slopes);
            [value, mean[0], variance[0], own[0]]
        });
        a.iter().zip(b).for_each(|(a, b)| close("expectation and slopes", b, *a, 1e-12));
    }
}
