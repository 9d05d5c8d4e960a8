//! What rebuilds a model without its data: in files, and in messages between processes.

use serde::{Deserialize, Serialize};

use super::gp_model::GpModel;
use super::options::{Context, ModelChoice, Parts, Saved};
use crate::error::{Error, Result};
use crate::kernels::text;
use crate::models::posterior::SavedPosterior;
use crate::models::prior::Prior;
use crate::models::registry::Registry;
use crate::models::start::mean_for;
use crate::params::Parameter;

/// The kind of a model and its parts by name, and its parameters.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Blueprint {
    /// The kind and its options.
    pub model: ModelChoice,
    /// Likelihood text.
    pub likelihood: String,
    /// The number of classes of the target, if it has classes.
    pub classes: Option<usize>,
    /// The name of the prior mean.
    pub mean: String,
    /// Kernel text.
    pub kernel: String,
    /// Input columns.
    pub columns: usize,
    /// The parameters, which replace those of the parts.
    pub parameters: Vec<Parameter>,
}

impl Blueprint {
    /// Of a model of Gaussian targets for inputs of `d` columns.
    pub fn new(choice: impl Into<ModelChoice>, model: &dyn GpModel, d: usize) -> Self {
        let prior = model.prior();
        Self {
            model: choice.into(),
            likelihood: "gaussian".into(),
            classes: None,
            mean: prior.mean.name().into(),
            kernel: text::form(&prior.kernel, d),
            columns: d,
            parameters: model.parameters().into_iter().map(|(_, p)| p.clone()).collect(),
        }
    }

    /// Likelihood and prior, with the values of the kernel's text.
    ///
    /// # Errors
    /// Errors in the texts.
    pub(crate) fn parts(&self, registry: &Registry) -> Result<Parts> {
        let kernel = text::parse(&self.kernel, self.columns, &registry.kernels)?;
        let likelihood = registry.likelihoods.parse(&self.likelihood, self.classes)?;
        let mean = mean_for(&self.mean, &*likelihood, self.columns)?;
        Ok(Parts { likelihood, prior: Prior { kernel, mean } })
    }

    /// The model, for the data and names of a context, with what its posterior saved.
    ///
    /// # Errors
    /// Errors in the texts and options; [`Error::Data`] if the parameters are not those of such a model.
    pub(crate) fn model(
        self,
        registry: &Registry,
        context: Context,
        posterior: &SavedPosterior,
    ) -> Result<Box<dyn GpModel>> {
        let (parts, options) = (self.parts(registry)?, registry.models.options(&self.model)?);
        let saved = Saved { parameters: &self.parameters, posterior };
        let mut model = options.build(parts, &Context { saved: Some(saved), ..context })?;
        self.fill(&mut *model)?;
        Ok(model)
    }

    /// Gives a model of this kind these parameters.
    ///
    /// # Errors
    /// [`Error::Data`] if they are not those of such a model.
    pub(in crate::models) fn fill(self, model: &mut dyn GpModel) -> Result<()> {
        let slots = model.parameters_mut();
        if slots.len() != self.parameters.len() {
            let (got, want) = (self.parameters.len(), slots.len());
            return Err(Error::Data(format!("has {got} parameters where its model has {want}")));
        }
        for ((path, slot), parameter) in slots.into_iter().zip(self.parameters) {
            if slot.len() != parameter.len() {
                let (got, want) = (parameter.len(), slot.len());
                return Err(Error::Data(format!("has {got} values of {path} where its model has {want}")));
            }
            *slot = parameter;
        }
        Ok(())
    }
}
