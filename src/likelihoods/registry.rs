//! The likelihoods that texts can name, one row for each.
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
//! Arguments may be left out. Numbers for parameters are initial values. The number of classes comes from the data
//! unless it is given.

use super::{
    Bernoulli, BernoulliLink, Beta, Binomial, Exponential, Gamma, Gaussian, Heteroscedastic, Likelihood,
    NegativeBinomial, Ordinal, Poisson, RateLink, Softmax, StudentT,
};
use crate::advice::Advice;
use crate::error::{Error, Result};
use crate::params::Constraint;
use crate::suggest::nearest;

/// A kind of likelihood: its name, and how it is made from the argument in brackets.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The name in lower case, with words joined by `-`.
    pub name: &'static str,
    /// Another name, or the same name again.
    pub alias: &'static str,
    /// Whether targets are labels of classes.
    pub of_classes: bool,
    /// The argument in brackets after the name.
    pub argument: Argument,
}

impl Row {
    /// A likelihood of one's own. Its first parameter, if it has one, may get an initial value in brackets.
    pub fn new(name: &'static str, make: fn() -> Box<dyn Likelihood>) -> Self {
        let argument = make().parameters().first().map_or(Argument::None(make), |(path, parameter)| {
            let above = match parameter.constraint() {
                Constraint::Positive { floor } => floor,
                Constraint::Interval { lower, .. } => lower,
                _ => f64::NEG_INFINITY,
            };
            // Rows are made once and live as long as the program.
            let parameter: &'static str = path.clone().leak();
            Argument::Value { parameter, meaning: parameter, above, make }
        });
        Self { name, alias: name, of_classes: false, argument }
    }
}

/// What may stand in brackets after a likelihood's name, and how the likelihood is made from it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Argument {
    /// Nothing.
    None(fn() -> Box<dyn Likelihood>),
    /// The initial value of a parameter.
    Value {
        /// The parameter's name.
        parameter: &'static str,
        /// The name of the parameter in messages.
        meaning: &'static str,
        /// The value must be above this.
        above: f64,
        /// Makes the likelihood with the usual initial value.
        make: fn() -> Box<dyn Likelihood>,
    },
    /// One of two words, the first if none is given.
    Word([&'static str; 2], fn(&str) -> Box<dyn Likelihood>),
    /// The number of classes.
    Classes(fn(usize) -> Box<dyn Likelihood>),
}

/// Likelihoods by name. To load a model that uses your own likelihood, you need a registry that contains it.
#[derive(Debug, Clone)]
pub struct Likelihoods {
    rows: Vec<Row>,
}

impl Default for Likelihoods {
    fn default() -> Self {
        let row = |name, argument| Row { name, alias: name, of_classes: false, argument };
        let of_classes = |name, argument| Row { of_classes: true, ..row(name, argument) };
        let value = |parameter, meaning, above, make| Argument::Value { parameter, meaning, above, make };
        let rows = vec![
            row("gaussian", value("noise", "noise variance", 0.0, || Box::new(Gaussian::new(0.1)))),
            row("heteroscedastic", value("noise", "noise variance", 0.0, || Box::new(Heteroscedastic::new(0.1)))),
            row("student-t", value("df", "degrees of freedom", 1.0, || Box::new(StudentT::new(0.1, 4.0)))),
            of_classes(
                "bernoulli",
                Argument::Word(["logit", "probit"], |word| {
                    let link = if word == "logit" { BernoulliLink::Logit } else { BernoulliLink::Probit };
                    Box::new(Bernoulli { link })
                }),
            ),
            row("binomial", Argument::None(|| Box::new(Binomial))),
            Row {
                alias: "categorical",
                ..of_classes("softmax", Argument::Classes(|classes| Box::new(Softmax::new(classes))))
            },
            of_classes("ordinal", Argument::Classes(|classes| Box::new(Ordinal::new(classes)))),
            row(
                "poisson",
                Argument::Word(["exp", "softplus"], |word| {
                    let link = if word == "exp" { RateLink::Exp } else { RateLink::Softplus };
                    Box::new(Poisson { link })
                }),
            ),
            row("negative-binomial", value("dispersion", "dispersion", 0.0, || Box::new(NegativeBinomial::new(1.0)))),
            row("gamma", value("shape", "shape", 0.0, || Box::new(Gamma::new(1.0)))),
            row("exponential", Argument::None(|| Box::new(Exponential))),
            row("beta", value("concentration", "concentration", 0.0, || Box::new(Beta::new(10.0)))),
        ];
        Self { rows }
    }
}

impl Likelihoods {
    /// Adds a likelihood under its own name.
    pub fn with(mut self, row: Row) -> Self {
        self.rows.retain(|other| other.name != row.name);
        self.rows.push(row);
        self
    }

    /// All likelihoods.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Reads a likelihood. `classes` is the number of classes in the data, if targets are classes.
    ///
    /// # Errors
    /// [`Error::Usage`] that says what is wrong and what would be right.
    pub fn parse(&self, text: &str, classes: Option<usize>) -> Result<Box<dyn Likelihood>> {
        self.read(text, classes).map_err(|Advice { text: problem, settings }| {
            Error::Usage(format!("likelihood `{}`: {problem}", text.trim())).advised(settings)
        })
    }

    /// The parameter to which a text gives an initial value, and that value in the units of the target. For
    /// `gaussian(0.04)` it is `noise`.
    pub fn given(&self, text: &str) -> Option<(&'static str, f64)> {
        let (name, argument) = call(text)?;
        match self.row(&name)?.argument {
            Argument::Value { parameter, .. } => Some((parameter, argument?.parse().ok()?)),
            _ => None,
        }
    }

    /// Whether the targets of the likelihood in a text are labels of classes.
    pub fn of_classes(&self, text: &str) -> bool {
        call(text).and_then(|(name, _)| self.row(&name)).is_some_and(|row| row.of_classes)
    }

    fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name || row.alias == name)
    }

    fn names(&self) -> Vec<&'static str> {
        self.rows.iter().map(|row| row.name).collect()
    }

    fn read(&self, text: &str, classes: Option<usize>) -> std::result::Result<Box<dyn Likelihood>, Advice> {
        let (name, argument) = call(text).ok_or("a `)` is missing at its end")?;
        let Some(row) = self.row(&name) else {
            let hint = nearest(&name, self.rows.iter().flat_map(|row| [row.name, row.alias]));
            let hint = hint.map_or(String::new(), |near| format!("did you mean `{near}`? "));
            return Err(format!("there is no such likelihood; {hint}There are {}", self.names().join(", ")).into());
        };
        match row.argument {
            Argument::None(make) => match argument {
                None => Ok(make()),
                Some(_) => Err(format!("`{name}` takes no argument").into()),
            },
            Argument::Value { parameter, meaning, above, make } => {
                let mut likelihood = make();
                if let Some(text) = argument {
                    let value = text.parse::<f64>().ok().filter(|value| value.is_finite() && *value > above);
                    let bound = if above.is_finite() { format!(" above {above}") } else { String::new() };
                    let value =
                        value.ok_or_else(|| format!("`{name}` takes its {meaning}, a number{bound}, got `{text}`"))?;
                    for (_, own) in likelihood.parameters_mut().into_iter().filter(|(path, _)| path == parameter) {
                        own.put(&[value]);
                        own.given = true;
                    }
                }
                Ok(likelihood)
            }
            Argument::Word(words, make) => {
                let given = argument.unwrap_or(words[0]).to_ascii_lowercase();
                if words.contains(&given.as_str()) {
                    return Ok(make(&given));
                }
                let hint = nearest(&given, words).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
                Err(format!("`{name}` takes {} or {}, got `{given}`{hint}", words[0], words[1]).into())
            }
            Argument::Classes(make) => count(&name, argument, classes).map(make),
        }
    }
}

/// The number of classes, as given or as found in the data.
fn count(name: &str, given: Option<&str>, found: Option<usize>) -> std::result::Result<usize, Advice> {
    match (given.map(str::parse::<usize>), found) {
        (Some(Ok(given)), Some(found)) if given != found => {
            let text = format!("the targets have {found} classes, not {given}; name all of them if some have no rows");
            Err(Advice::from(text).about("ReadOptions::classes"))
        }
        (Some(Ok(count @ 2..)), _) | (None, Some(count @ 2..)) => Ok(count),
        (None, Some(count)) => Err(format!("the targets have {count} class; two or more are needed").into()),
        (None, None) => Err(format!("say how many classes there are: `{name}(3)`").into()),
        (Some(_), _) => Err(format!("`{name}` takes the number of classes, 2 or more").into()),
    }
}

/// The name as rows spell it, and the argument of a likelihood; none if a bracket is not closed.
fn call(text: &str) -> Option<(String, Option<&str>)> {
    let (name, argument) = match text.trim().split_once('(') {
        None => (text.trim(), None),
        Some((name, rest)) => {
            (name.trim(), Some(rest.trim_end().strip_suffix(')')?.trim()).filter(|inside| !inside.is_empty()))
        }
    };
    Some((name.to_ascii_lowercase().replace('_', "-"), argument))
}
