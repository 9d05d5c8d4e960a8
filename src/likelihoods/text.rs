//! Likelihoods from text, and from what the targets look like.
//!
//! | text | argument | latent functions |
//! |---|---|---|
//! | `gaussian` | noise variance | 1 |
//! | `heteroscedastic` | noise variance | 2 |
//! | `student-t(4)` | degrees of freedom | 1 |
//! | `bernoulli(logit)` | `logit` or `probit` | 1 |
//! | `binomial` | | 1 |
//! | `softmax(3)`, `categorical(3)` | number of classes | one a class |
//! | `ordinal(5)` | number of classes | 1 |
//! | `poisson(exp)` | `exp` or `softplus` | 1 |
//! | `negative-binomial(0.5)` | dispersion | 1 |
//! | `gamma(2)` | shape | 1 |
//! | `exponential` | | 1 |
//! | `beta(10)` | concentration | 1 |
//!
//! Arguments may be left out; numbers of parameters are initial values. The number of classes comes from the data unless
//! given.

use super::{
    Bernoulli, BernoulliLink, Beta, Binomial, Exponential, Gamma, Gaussian, Heteroscedastic, Likelihood,
    NegativeBinomial, Ordinal, Poisson, RateLink, Softmax, StudentT,
};
use crate::error::{Error, Result};
use crate::params::{Parameter, shown};
use crate::suggest::nearest;

/// The names of all likelihoods.
pub const NAMES: [&str; 12] = [
    "gaussian",
    "heteroscedastic",
    "student-t",
    "bernoulli",
    "binomial",
    "softmax",
    "ordinal",
    "poisson",
    "negative-binomial",
    "gamma",
    "exponential",
    "beta",
];

/// Reads a likelihood; `classes` is the number of classes in the data where targets are classes.
///
/// # Errors
/// [`Error::Usage`] saying what is wrong and what would be right.
pub fn parse(text: &str, classes: Option<usize>) -> Result<Box<dyn Likelihood>> {
    let problem = |problem: String| Error::Usage(format!("likelihood `{}`: {problem}", text.trim()));
    let (name, argument) = call(text).ok_or_else(|| problem("a `)` is missing at its end".into()))?;
    let name = name.as_str();
    let none = |likelihood: Box<dyn Likelihood>| match argument {
        None => Ok(likelihood),
        Some(_) => Err(problem(format!("`{name}` takes no argument"))),
    };
    let number = |what: &str, above: f64| match argument {
        None => Ok(None),
        Some(text) => match text.parse::<f64>() {
            Ok(value) if value.is_finite() && value > above => Ok(Some(value)),
            _ => Err(problem(format!("`{name}` takes its {what}, a number above {above}, got `{text}`"))),
        },
    };
    let word = |words: [&'static str; 2]| match argument {
        None => Ok(words[0]),
        Some(text) => words.into_iter().find(|word| *word == text.to_ascii_lowercase()).ok_or_else(|| {
            let hint = nearest(text, words).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            problem(format!("`{name}` takes {} or {}, got `{text}`{hint}", words[0], words[1]))
        }),
    };
    let class_count = || match (argument.map(str::parse::<usize>), classes) {
        (Some(Ok(given)), Some(found)) if given != found => Err(problem(format!(
            "the targets have {found} classes, not {given}; name all of them with `--classes` where some have no rows"
        ))),
        (Some(Ok(count @ 2..)), _) | (None, Some(count @ 2..)) => Ok(count),
        (None, Some(count)) => Err(problem(format!("the targets have {count} class; two or more are needed"))),
        (None, None) => Err(problem(format!("say how many classes there are: `{name}(3)`"))),
        (Some(_), _) => Err(problem(format!("`{name}` takes the number of classes, 2 or more"))),
    };
    Ok(match name {
        "gaussian" => {
            let given = number("noise variance", 0.0)?;
            let mut likelihood = Gaussian::new(given.unwrap_or(0.1));
            likelihood.noise.given = given.is_some();
            Box::new(likelihood)
        }
        "heteroscedastic" => {
            let given = number("noise variance", 0.0)?;
            let mut likelihood = Heteroscedastic::new(given.unwrap_or(0.1));
            likelihood.noise.given = given.is_some();
            Box::new(likelihood)
        }
        "student-t" => {
            let given = number("degrees of freedom", 1.0)?;
            let mut likelihood = StudentT::new(0.1, given.unwrap_or(4.0));
            likelihood.df.given = given.is_some();
            Box::new(likelihood)
        }
        "bernoulli" => {
            let link = word(["logit", "probit"])?;
            Box::new(Bernoulli { link: if link == "logit" { BernoulliLink::Logit } else { BernoulliLink::Probit } })
        }
        "binomial" => none(Box::new(Binomial))?,
        "softmax" => Box::new(Softmax::new(class_count()?)),
        "ordinal" => Box::new(Ordinal::new(class_count()?)),
        "poisson" => {
            let link = word(["exp", "softplus"])?;
            Box::new(Poisson { link: if link == "exp" { RateLink::Exp } else { RateLink::Softplus } })
        }
        "negative-binomial" => {
            let mut likelihood = NegativeBinomial::new(1.0);
            set(&mut likelihood.dispersion, number("dispersion", 0.0)?);
            Box::new(likelihood)
        }
        "gamma" => {
            let mut likelihood = Gamma::new(1.0);
            set(&mut likelihood.shape, number("shape", 0.0)?);
            Box::new(likelihood)
        }
        "exponential" => none(Box::new(Exponential))?,
        "beta" => {
            let mut likelihood = Beta::new(10.0);
            set(&mut likelihood.concentration, number("concentration", 0.0)?);
            Box::new(likelihood)
        }
        other => {
            let hint = nearest(other, NAMES.into_iter().chain(["categorical"]));
            let hint = hint.map_or(String::new(), |near| format!("did you mean `{near}`? "));
            return Err(problem(format!("there is no such likelihood; {hint}There are {}", NAMES.join(", "))));
        }
    })
}

/// The parameter that a text gives an initial value, in the units of the target: `gaussian(0.04)` its `noise`.
pub fn given(text: &str) -> Option<(&'static str, f64)> {
    let (name, argument) = call(text)?;
    let parameter = match name.as_str() {
        "gaussian" | "heteroscedastic" => "noise",
        "student-t" => "df",
        "negative-binomial" => "dispersion",
        "gamma" => "shape",
        "beta" => "concentration",
        _ => return None,
    };
    Some((parameter, argument?.parse().ok()?))
}

/// The name, as this module spells it, and the argument of a likelihood; none where a bracket is not closed.
fn call(text: &str) -> Option<(String, Option<&str>)> {
    let (name, argument) = match text.trim().split_once('(') {
        None => (text.trim(), None),
        Some((name, rest)) => {
            (name.trim(), Some(rest.trim_end().strip_suffix(')')?.trim()).filter(|inside| !inside.is_empty()))
        }
    };
    let name = name.to_ascii_lowercase().replace('_', "-");
    Some((if name == "categorical" { "softmax".into() } else { name }, argument))
}

fn set(parameter: &mut Parameter, given: Option<f64>) {
    if let Some(value) = given {
        parameter.set(&[value]);
        parameter.given = true;
    }
}

/// Targets of which a likelihood is to be guessed.
#[derive(Debug, Clone, Copy)]
pub enum Sight<'a> {
    /// Labels of classes, each once.
    Labels(&'a [String]),
    /// Numbers.
    Numbers(&'a [f64]),
}

/// The likelihood that targets suggest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inferred {
    /// Its text.
    pub likelihood: String,
    /// What to tell the user: what was found, what it means and how to choose otherwise.
    pub sentence: String,
}

/// Guesses the likelihood of a target column: two classes are Bernoulli's, several softmax's, numbers are Gaussian; counts are
/// taken for numbers too, but Poisson is pointed out.
///
/// # Errors
/// [`Error::Data`] when there is a single class or no target.
pub fn infer(target: &str, sight: Sight) -> Result<Inferred> {
    let found = |likelihood: &str, sentence: String| {
        Ok(Inferred { likelihood: likelihood.into(), sentence: format!("target `{target}` {sentence}") })
    };
    match sight {
        Sight::Labels([]) | Sight::Numbers([]) => Err(Error::Data(format!("target `{target}` has no values"))),
        Sight::Labels([only]) => Err(Error::Data(format!(
            "target `{target}` has the single class `{only}`: there is nothing to tell apart; check the column"
        ))),
        Sight::Labels([first, second]) => found(
            "bernoulli(logit)",
            format!("has the two classes `{first}` and `{second}`: classification with --likelihood bernoulli(logit)"),
        ),
        Sight::Labels(labels) => found(
            &format!("softmax({})", labels.len()),
            format!(
                "has {} classes: classification with --likelihood softmax; ordered classes are better served by ordinal",
                labels.len()
            ),
        ),
        Sight::Numbers(y) if y.iter().all(|y| *y == 0.0 || *y == 1.0) && y.iter().any(|v| *v != y[0]) => {
            found("bernoulli(logit)", "is 0 or 1: classification with --likelihood bernoulli(logit)".into())
        }
        Sight::Numbers(y) if two_values(y).is_some_and(|[a, b]| a != b) => {
            let [a, b] = two_values(y).unwrap_or_default().map(shown);
            found(
                "gaussian",
                format!(
                    "is {a} or {b}: regression with --likelihood gaussian; if they are classes, --likelihood bernoulli tells them apart"
                ),
            )
        }
        Sight::Numbers(y) if y.iter().all(|y| *y >= 0.0 && y.fract() == 0.0) => {
            let (least, largest) = y.iter().fold((f64::INFINITY, 0.0), |(l, h): (f64, f64), y| (l.min(*y), h.max(*y)));
            found(
                "gaussian",
                format!(
                    "holds whole numbers from {} to {}: regression with --likelihood gaussian; if they are counts, \
                     --likelihood poisson or negative-binomial fits better, if they are codes of classes, softmax",
                    shown(least),
                    shown(largest)
                ),
            )
        }
        Sight::Numbers(_) => found("gaussian", "holds numbers: regression with --likelihood gaussian".into()),
    }
}

/// The least and the largest of numbers that are one of these all.
fn two_values(y: &[f64]) -> Option<[f64; 2]> {
    let (least, largest) = y.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), y| (l.min(*y), h.max(*y)));
    y.iter().all(|y| *y == least || *y == largest).then_some([least, largest])
}
