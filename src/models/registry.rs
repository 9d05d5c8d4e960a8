//! The kinds of models that settings, files and the command know, one row each; and all else that they refer to by
//! name.

use std::sync::Arc;

use serde_json::Value;

use super::cagp::CagpOptions;
use super::cggp::CgGpOptions;
use super::exact::ExactOptions;
use super::experts::ExpertsOptions;
use super::label_regression::LabelRegressionOptions;
use super::laplace::LaplaceOptions;
use super::nearest::NearestOptions;
use super::options::{Kind, ModelChoice, ModelOptions};
use super::sgpr::SgprOptions;
use super::sparse_grid::SparseGridOptions;
use super::state_space::StateSpaceOptions;
use super::svgp::SvgpOptions;
use super::swsgp::SwsgpOptions;
use crate::distributed::Ranks;
use crate::error::{Error, Result};
use crate::kernels::registry::Registry as Kernels;
use crate::likelihoods::Likelihood;
use crate::likelihoods::registry::{self as likelihoods, Likelihoods};
use crate::suggest::hint;

#[cfg(feature = "command")]
use super::command::Offered;
#[cfg(not(feature = "command"))]
use super::options::Kind as Offered;

/// A kind of model.
#[derive(Debug, Clone)]
pub struct Row {
    /// Its name in settings, files and the command.
    pub name: &'static str,
    /// Whether it takes other likelihoods than the Gaussian.
    pub any_likelihood: bool,
    /// Whether it is for classes alone.
    pub classes: bool,
    /// Whether rows may stay distributed, each part on its rank.
    pub apart: bool,
    /// Full-batch training that can read rows from a file; each process loads only its part.
    pub reads: bool,
    read: fn(Value) -> serde_json::Result<Box<dyn ModelOptions>>,
    /// Its help text and arguments in the command.
    #[cfg(feature = "command")]
    pub command: super::command::Command,
}

impl Row {
    /// The row of a kind of model, which with the feature `command` the command offers as well.
    pub fn of<K: Offered>() -> Self {
        Self {
            name: K::NAME,
            any_likelihood: K::ANY_LIKELIHOOD,
            classes: K::CLASSES,
            apart: K::APART,
            reads: K::READS,
            read: |options| Ok(Box::new(serde_json::from_value::<K>(options)?)),
            #[cfg(feature = "command")]
            command: super::command::Command::of::<K>(),
        }
    }

    /// Whether the model is for such targets.
    pub fn takes(&self, likelihood: &dyn Likelihood) -> bool {
        if !self.classes {
            return self.any_likelihood || likelihood.noise().is_some();
        }
        let latents = likelihood.latents();
        let Some(count) = likelihood.classes() else { return false };
        likelihood.parameters().is_empty() && (latents == count || (latents, count) == (1, 2))
    }
}

/// Kinds of models by name. To load a model of your own kind, use a registry that holds it.
#[derive(Debug, Clone)]
pub struct Models {
    rows: Vec<Row>,
}

impl Default for Models {
    fn default() -> Self {
        let rows = vec![
            Row::of::<ExactOptions>(),
            Row::of::<StateSpaceOptions>(),
            Row::of::<CagpOptions>(),
            Row::of::<SgprOptions>(),
            Row::of::<NearestOptions>(),
            Row::of::<SparseGridOptions>(),
            Row::of::<LaplaceOptions>(),
            Row::of::<LabelRegressionOptions>(),
            Row::of::<SvgpOptions>(),
            Row::of::<SwsgpOptions>(),
            Row::of::<CgGpOptions>(),
            Row::of::<ExpertsOptions>(),
        ];
        Self { rows }
    }
}

/// The default choice: the exact model.
pub fn usual() -> ModelChoice {
    ExactOptions::default().into()
}

impl Models {
    /// Adds a kind of model under its own name.
    pub fn with(mut self, row: Row) -> Self {
        self.rows.retain(|other| other.name != row.name);
        self.rows.push(row);
        self
    }

    /// All kinds.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The kind with this name.
    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// The names of the models that take a likelihood other than the Gaussian and any number of columns, for messages.
    pub fn that_take(&self, likelihood: &dyn Likelihood) -> String {
        let takes = |row: &&Row| row.takes(likelihood) && row.name != StateSpaceOptions::NAME;
        self.rows.iter().filter(takes).map(|row| row.name).collect::<Vec<_>>().join(" or ")
    }

    /// The options that settings or a file hold.
    ///
    /// # Errors
    /// [`Error::Usage`] for an unknown kind, with the nearest name suggested, and for options that cannot be read.
    pub fn options(&self, choice: &ModelChoice) -> Result<Box<dyn ModelOptions>> {
        let Some(row) = self.row(choice.kind()) else {
            let names: Vec<&str> = self.rows.iter().map(|row| row.name).collect();
            let hint = hint(choice.kind(), &names, "there are");
            return Err(Error::Usage(format!("no model `{}`; {hint}", choice.kind())));
        };
        (row.read)(choice.options()).map_err(|e| Error::Usage(format!("the options of model {}: {e}", row.name)))
    }
}

/// What names in settings and files mean, and who computes. To load a model that uses kinds of your own, you need a
/// registry that holds them.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    /// Kernel forms and input transforms.
    pub kernels: Kernels,
    /// Likelihoods.
    pub likelihoods: Likelihoods,
    /// Kinds of models.
    pub models: Models,
    /// The processes of a job that this one leads, if there are several.
    pub crew: Option<Arc<Ranks>>,
}

impl Registry {
    /// Adds a likelihood.
    pub fn with_likelihood(mut self, row: likelihoods::Row) -> Self {
        self.likelihoods = self.likelihoods.with(row);
        self
    }

    /// Adds a kind of model.
    pub fn with_model(mut self, row: Row) -> Self {
        self.models = self.models.with(row);
        self
    }

    /// The same registry in the process that leads these: they share the work of models that can be shared.
    pub fn over(self, crew: Arc<Ranks>) -> Self {
        Self { crew: Some(crew), ..self }
    }
}

/// Your own kernels, with the built-in likelihoods and models.
impl From<Kernels> for Registry {
    fn from(kernels: Kernels) -> Self {
        Self { kernels, ..Self::default() }
    }
}
