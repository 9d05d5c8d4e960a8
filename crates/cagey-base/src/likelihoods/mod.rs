//! Densities: likelihoods at fixed parameter values, a file for each kind of target, and what they predict.

pub mod classes;
#[doc(hidden)]
pub mod correlated;
pub mod counts;
mod density;
#[doc(hidden)]
pub mod deviance;
mod formula;
#[doc(hidden)]
pub mod outcomes;
pub mod positive;
mod prediction;
#[doc(hidden)]
pub mod predictive;
pub mod quadrature;
pub mod real;
#[doc(hidden)]
pub mod shares;
pub mod softmax;
mod targets;

pub use density::{Density, Marginal, Slopes, Support};
pub use formula::{Along, Derivatives, Formula};
pub use prediction::{Prediction, tempered};
pub use targets::{Auxiliary, Row, Targets};

use std::sync::Arc;

/// The density with this [text](Density::built_in) and these values of its own parameters; none for other texts and
/// another number of values.
pub fn named(text: &str, own: &[f64]) -> Option<Arc<dyn Density>> {
    use classes::{BernoulliLink, Labels, Ordered};
    use counts::{Counts, GammaPoisson, RateLink, Successes};
    let classes = || text.strip_prefix("softmax(")?.strip_suffix(')')?.parse::<usize>().ok().filter(|count| *count > 1);
    Some(match (text, own) {
        ("gaussian", &[noise]) => Arc::new(real::Normal { noise }),
        ("heteroscedastic", &[noise]) => Arc::new(real::VaryingNormal { noise }),
        ("student-t", &[noise, df]) => Arc::new(real::Student { own: [noise, df] }),
        ("bernoulli(logit)", []) => Arc::new(Labels { link: BernoulliLink::Logit }),
        ("bernoulli(probit)", []) => Arc::new(Labels { link: BernoulliLink::Probit }),
        ("binomial", []) => Arc::new(Successes),
        ("ordinal", [_, ..]) => Arc::new(Ordered::new(own.to_vec())),
        ("poisson(exp)", []) => Arc::new(Counts { link: RateLink::Exp }),
        ("poisson(softplus)", []) => Arc::new(Counts { link: RateLink::Softplus }),
        ("negative-binomial", &[dispersion]) => Arc::new(GammaPoisson::new(dispersion)),
        ("gamma", &[shape]) => Arc::new(positive::PositiveMean { shape }),
        ("beta", &[concentration]) => Arc::new(positive::Share { concentration }),
        (_, []) => Arc::new(softmax::Shares::new(classes()?, None)),
        _ => return None,
    })
}
