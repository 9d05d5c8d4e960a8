//! The likelihood that targets suggest.

use crate::advice::Advice;
use crate::error::{Error, Result};
use crate::params::shown;

/// Targets from which to guess a likelihood.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Sight<'a> {
    /// Labels of classes, each listed once.
    Labels(&'a [String]),
    /// Numbers.
    Numbers(&'a [f64]),
}

/// The likelihood that targets suggest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inferred {
    /// Its text.
    pub likelihood: String,
    /// What to tell the user: what was found, what it means, and how to choose differently.
    pub sentence: Advice,
}

/// Guesses the likelihood of a target column: Bernoulli for two classes, softmax for more, Gaussian for numbers. Counts
/// are treated as numbers too, but the sentence mentions Poisson.
///
/// # Errors
/// [`Error::Data`] when there is only one class or no target.
pub fn infer(target: &str, sight: Sight) -> Result<Inferred> {
    let found = |likelihood: &str, sentence: String| {
        let sentence = Advice::from(format!("target `{target}` {sentence}")).about("Settings::likelihood");
        Ok(Inferred { likelihood: likelihood.into(), sentence })
    };
    match sight {
        Sight::Labels([]) | Sight::Numbers([]) => Err(Error::Data(format!("target `{target}` has no values"))),
        Sight::Labels([only]) => Err(Error::Data(format!(
            "target `{target}` has the single class `{only}`: there is nothing to learn; check the column"
        ))),
        Sight::Labels([first, second]) => {
            let sentence = format!(
                "has the two classes `{first}` and `{second}`: classification with the bernoulli(logit) likelihood"
            );
            found("bernoulli(logit)", sentence)
        }
        Sight::Labels(labels) => {
            let m = labels.len();
            let sentence = format!(
                "has {m} classes: classification with the softmax likelihood; for ordered classes choose \
                 ordinal"
            );
            found(&format!("softmax({m})"), sentence)
        }
        Sight::Numbers(y) if y.iter().all(|y| *y == 0.0 || *y == 1.0) && y.iter().any(|v| *v != y[0]) => {
            found("bernoulli(logit)", "is 0 or 1: classification with the bernoulli(logit) likelihood".into())
        }
        Sight::Numbers(y) if two_values(y).is_some_and(|[a, b]| a != b) => {
            let [a, b] = two_values(y).unwrap_or_default().map(shown);
            let sentence = format!(
                "is {a} or {b}: regression with the gaussian likelihood; if they are classes, \
                 choose bernoulli"
            );
            found("gaussian", sentence)
        }
        Sight::Numbers(y) if y.iter().all(|y| *y >= 0.0 && y.fract() == 0.0) => {
            let (least, largest) = y.iter().fold((f64::INFINITY, 0.0), |(l, h): (f64, f64), y| (l.min(*y), h.max(*y)));
            let sentence = format!(
                "holds whole numbers from {} to {}: regression with the gaussian likelihood; if they are counts, \
                 poisson or negative-binomial fits better, if they are codes of classes, softmax",
                shown(least),
                shown(largest)
            );
            found("gaussian", sentence)
        }
        Sight::Numbers(_) => found("gaussian", "holds numbers: regression with the gaussian likelihood".into()),
    }
}

/// The smallest and the largest number, if all numbers are one of these two.
fn two_values(y: &[f64]) -> Option<[f64; 2]> {
    let (least, largest) = y.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), y| (l.min(*y), h.max(*y)));
    y.iter().all(|y| *y == least || *y == largest).then_some([least, largest])
}
