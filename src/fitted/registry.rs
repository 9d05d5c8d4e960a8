//! Everything that settings and files refer to by name: kernels, likelihoods, models.

use crate::kernels::registry::Registry as Kernels;
use crate::likelihoods::registry::{self as likelihoods, Likelihoods};
use crate::models::registry::{self as models, Models};

/// What names in settings and files mean. To load a model that uses kinds of your own, you need a registry that holds
/// them.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    /// Kernel forms and input transforms.
    pub kernels: Kernels,
    /// Likelihoods.
    pub likelihoods: Likelihoods,
    /// Kinds of models.
    pub models: Models,
}

impl Registry {
    /// Adds a likelihood.
    pub fn with_likelihood(mut self, row: likelihoods::Row) -> Self {
        self.likelihoods = self.likelihoods.with(row);
        self
    }

    /// Adds a kind of model.
    pub fn with_model(mut self, row: models::Row) -> Self {
        self.models = self.models.with(row);
        self
    }
}

/// Your own kernels, with the built-in likelihoods and models.
impl From<Kernels> for Registry {
    fn from(kernels: Kernels) -> Self {
        Self { kernels, ..Self::default() }
    }
}
