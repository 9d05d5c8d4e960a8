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
        Sight::Labels([first, second]) => found(
            "bernoulli(logit)",
            format!(
                "has the two classes `{first}` and `{second}`: classification with the bernoulli(logit) likelihood"
            ),
        ),
        Sight::Labels(labels) => {
            let m = labels.len();
            let sentence = "classification with the softmax likelihood; for ordered classes choose ordinal";
            found(&format!("softmax({m})"), format!("has {m} classes: {sentence}"))
        }
        Sight::Numbers(y) => {
            let ends = (f64::INFINITY, f64::NEG_INFINITY);
            let (least, largest) = y.iter().fold(ends, |(least, largest), y| (least.min(*y), largest.max(*y)));
            let [a, b] = [least, largest].map(shown);
            let two = least < largest && y.iter().all(|y| *y == least || *y == largest);
            if two && least == 0.0 && largest == 1.0 {
                let sentence = "is 0 or 1: classification with the bernoulli(logit) likelihood";
                return found("bernoulli(logit)", sentence.into());
            }
            let sentence = if two {
                format!("is {a} or {b}: regression with the gaussian likelihood; if they are classes, choose bernoulli")
            } else if y.iter().all(|y| *y >= 0.0 && y.fract() == 0.0) {
                format!(
                    "holds whole numbers from {a} to {b}: regression with the gaussian likelihood; if they are counts, \
                     poisson or negative-binomial fits better, if they are codes of classes, softmax"
                )
            } else {
                "holds numbers: regression with the gaussian likelihood".into()
            };
            found("gaussian", sentence)
        }
    }
}
