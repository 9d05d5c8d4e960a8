//! The posteriors that a fit can hold, behind one face.

use crate::error::{Error, Result};
use crate::models::cagp::CagpPosterior;
use crate::models::exact::ExactPosterior;
use crate::models::posterior::{Joint, Marginals, Posterior};
use crate::models::svgp::SvgpPosterior;
use crate::models::swsgp::SwsgpPosterior;
use crate::models::whitened::WhitenedPosterior;
use crate::solvers::itergp::SolveReport;

/// A regression model's posterior.
#[derive(Debug, Clone)]
pub enum Conditioned {
    /// Of an exact GP.
    Exact(ExactPosterior),
    /// Of a computation-aware GP, with how far its solve went if there was one.
    Cagp(CagpPosterior, Option<SolveReport>),
    /// Of a sparse GP.
    Sgpr(WhitenedPosterior),
    /// Of a variational GP.
    Svgp(SvgpPosterior),
    /// Of a sparse-within-sparse GP.
    Swsgp(SwsgpPosterior),
}

impl Conditioned {
    /// The exact posterior.
    ///
    /// # Errors
    /// [`Error::Usage`] for other models; `what` needs it.
    pub fn exact(&self, what: &str) -> Result<&ExactPosterior> {
        match self {
            Self::Exact(posterior) => Ok(posterior),
            _ => Err(Error::Usage(format!("{what} is for exact models; fit with `--model exact`"))),
        }
    }

    /// The computation-aware posterior, if it is one.
    pub fn computation_aware(&self) -> Option<&CagpPosterior> {
        match self {
            Self::Cagp(posterior, _) => Some(posterior),
            _ => None,
        }
    }

    /// How far the solve went that found the posterior, where there was one.
    pub fn solve(&self) -> Option<&SolveReport> {
        match self {
            Self::Cagp(_, report) => report.as_ref(),
            _ => None,
        }
    }

    fn any(&self) -> &dyn Posterior {
        match self {
            Self::Exact(posterior) => posterior,
            Self::Cagp(posterior, _) => posterior,
            Self::Sgpr(posterior) => posterior,
            Self::Svgp(posterior) => posterior,
            Self::Swsgp(posterior) => posterior,
        }
    }

    /// Means and variances of every latent function at rows `x`.
    ///
    /// # Errors
    /// As [`Posterior::predict`].
    pub fn latents(&self, x: &[f64]) -> Result<Vec<Marginals>> {
        match self {
            Self::Svgp(posterior) => posterior.latents().iter().map(|latent| latent.predict(x)).collect(),
            other => Ok(vec![other.any().predict(x)?]),
        }
    }
}

impl Posterior for Conditioned {
    fn predict(&self, x: &[f64]) -> Result<Marginals> {
        self.any().predict(x)
    }

    fn predict_joint(&self, x: &[f64]) -> Result<Joint> {
        self.any().predict_joint(x)
    }
}
