//! Everything that settings and files name: kernels, models.

use crate::kernels::registry::Registry as Kernels;
use crate::models::registry::{Models, Row};

/// What names in settings and files mean. Loading a model that uses kinds of your own needs a registry that holds them.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    /// Kernel forms and input transforms.
    pub kernels: Kernels,
    /// Kinds of models.
    pub models: Models,
}

impl Registry {
    /// Adds a kind of model.
    pub fn with_model(mut self, row: Row) -> Self {
        self.models = self.models.with(row);
        self
    }
}

/// Kernels of your own beside the built-in models.
impl From<Kernels> for Registry {
    fn from(kernels: Kernels) -> Self {
        Self { kernels, ..Self::default() }
    }
}
