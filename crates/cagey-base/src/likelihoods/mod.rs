//! Densities: likelihoods at fixed parameter values, one file for each, and what they predict.

pub mod bernoulli;
pub mod beta;
pub mod binomial;
#[doc(hidden)]
pub mod correlated;
mod density;
#[doc(hidden)]
pub mod deviance;
mod formula;
pub mod gamma;
pub mod gaussian;
pub mod heteroscedastic;
pub mod negative_binomial;
pub mod ordinal;
#[doc(hidden)]
pub mod outcomes;
pub mod poisson;
mod prediction;
#[doc(hidden)]
pub mod predictive;
pub mod quadrature;
#[doc(hidden)]
pub mod shares;
pub mod softmax;
pub mod student_t;
mod targets;

pub use density::{Density, Marginal, Slopes, Support};
pub use formula::{Along, Derivatives, Formula};
pub use prediction::{Prediction, tempered};
pub use targets::{Auxiliary, Row, Targets};

use std::sync::Arc;

/// The density with this [text](Density::built_in) and these values of its own parameters; none for other texts and
/// another number of values.
pub fn named(text: &str, own: &[f64]) -> Option<Arc<dyn Density>> {
    use bernoulli::{BernoulliLink, Labels};
    use poisson::{Counts, RateLink};
    let classes = || text.strip_prefix("softmax(")?.strip_suffix(')')?.parse::<usize>().ok().filter(|count| *count > 1);
    Some(match (text, own) {
        ("gaussian", &[noise]) => Arc::new(gaussian::Normal { noise }),
        ("heteroscedastic", &[noise]) => Arc::new(heteroscedastic::VaryingNormal { noise }),
        ("student-t", &[noise, df]) => Arc::new(student_t::Student { own: [noise, df] }),
        ("bernoulli(logit)", []) => Arc::new(Labels { link: BernoulliLink::Logit }),
        ("bernoulli(probit)", []) => Arc::new(Labels { link: BernoulliLink::Probit }),
        ("binomial", []) => Arc::new(binomial::Successes),
        ("ordinal", [_, ..]) => Arc::new(ordinal::Ordered::new(own.to_vec())),
        ("poisson(exp)", []) => Arc::new(Counts { link: RateLink::Exp }),
        ("poisson(softplus)", []) => Arc::new(Counts { link: RateLink::Softplus }),
        ("negative-binomial", &[dispersion]) => Arc::new(negative_binomial::GammaPoisson::new(dispersion)),
        ("gamma", &[shape]) => Arc::new(gamma::PositiveMean { shape }),
        ("beta", &[concentration]) => Arc::new(beta::Share { concentration }),
        (_, []) => Arc::new(softmax::Shares::new(classes()?, None)),
        _ => return None,
    })
}
