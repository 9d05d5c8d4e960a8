//! The options of a kind of model: what settings give and files keep, and how to build a model from them.

use std::fmt::Debug;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::gp_model::GpModel;
use crate::advice::Advice;
use crate::distributed::{FileRows, Ranks, Shards};
use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::likelihoods::Likelihood;
use crate::models::Observations;
use crate::models::inducing::{self, Choice};
use crate::models::posterior::SavedPosterior;
use crate::models::prior::Prior;
use crate::models::training::batches::{Minibatches, Rows};
use crate::params::{self, Parameter};
use crate::train::TrainConfig;

pub(in crate::models) use cagey_core::setters;

/// The parts of every model.
#[derive(Debug, Clone)]
pub struct Parts {
    /// The distribution of targets given the latent functions. Models of Gaussian targets have their own.
    pub likelihood: Box<dyn Likelihood>,
    /// The prior of the latent functions.
    pub prior: Prior,
}

/// What a model is built for.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The rows that it will be trained on, or a sample of them.
    pub data: &'a Observations,
    /// Names of the input columns `[d]`.
    pub names: &'a [String],
    /// Seed of all random choices.
    pub seed: u64,
    /// All rows, if every process reads its own and `data` are a sample of them.
    pub source: Option<&'a Arc<FileRows>>,
    /// The rows of experts that stay where the experts are.
    pub shards: Option<&'a Arc<Shards>>,
    /// The processes of a job that this one leads.
    pub crew: Option<&'a Arc<Ranks>>,
    /// What was saved of the model, if it is rebuilt.
    pub saved: Option<Saved<'a>>,
}

/// What was saved of a model.
#[derive(Debug, Clone, Copy)]
pub struct Saved<'a> {
    /// The parameters that will replace its own.
    pub parameters: &'a [Parameter],
    /// What its posterior [saved](crate::models::posterior::Posterior::saved).
    pub posterior: &'a SavedPosterior,
}

impl<'a> Context<'a> {
    /// A new model for rows in this process.
    pub fn new(data: &'a Observations, names: &'a [String], seed: u64) -> Self {
        Self { data, names, seed, source: None, shards: None, crew: None, saved: None }
    }

    /// Rows that the model will be trained on.
    pub fn rows(&self) -> usize {
        self.source.map_or(self.data.n(), |source| source.count())
    }

    /// Inducing inputs `[m, d]`, row-major: at most `m` cluster centres of the data, or the saved ones.
    ///
    /// # Errors
    /// As [`inducing::choose`]; [`Error::Data`] when the saved parameters have none.
    pub fn inducing(&self, kernel: &Kernel, m: usize) -> Result<Vec<f64>> {
        self.centres(kernel, m, "inducing")
    }

    /// Pseudo-inputs of a policy, chosen in the same way.
    ///
    /// # Errors
    /// As [`inducing`](Self::inducing).
    pub fn pseudo_inputs(&self, kernel: &Kernel, m: usize) -> Result<Vec<f64>> {
        self.centres(kernel, m, "inputs")
    }

    /// Cluster centres of the data, or what was saved under the name.
    fn centres(&self, kernel: &Kernel, m: usize, name: &str) -> Result<Vec<f64>> {
        match self.saved {
            None => inducing::choose(Choice::Kmeans, kernel, &self.data.x, self.data.d, m, self.seed),
            Some(Saved { parameters, .. }) => match parameters.iter().find(|parameter| parameter.name == name) {
                Some(centres) => Ok(centres.internal()),
                None => Err(Error::Data(format!("lacks the parameter `{name}`"))),
            },
        }
    }
}

/// The options of a kind of model.
pub trait ModelOptions: Debug + Send + Sync {
    /// Builds the model. The data of its context determine everything that is not a hyperparameter.
    ///
    /// # Errors
    /// What the options and the kernel report.
    fn build(&self, parts: Parts, context: &Context) -> Result<Box<dyn GpModel>>;

    /// Refuses options that so many rows do not allow.
    ///
    /// # Errors
    /// [`Error::Usage`] naming the option.
    fn check(&self, _rows: usize) -> Result<()> {
        Ok(())
    }

    /// Whether its posteriors [leave rows out](crate::models::leave_one_out::LeaveOneOut) in closed form, for Gaussian
    /// targets.
    fn leaves_one_out(&self) -> bool {
        false
    }

    /// Whether its posteriors leave targets that are not Gaussian out in closed form (their
    /// [cavities](crate::models::posterior::Posterior::cavities)), with so many latent functions.
    fn leaves_targets_out(&self, _latents: usize) -> bool {
        false
    }

    /// The order in which the model needs the rows, if any.
    ///
    /// # Errors
    /// What finding it reports.
    fn order(&self, _data: &Observations) -> Result<Option<Vec<usize>>> {
        Ok(None)
    }

    /// How minibatches are made, for models that take them.
    fn minibatches(&self) -> Option<&Minibatches> {
        None
    }

    /// The default prior of kernel variances, in units of the latent functions.
    fn variance_prior(&self, _likelihood: &dyn Likelihood) -> Option<params::Prior> {
        None
    }

    /// Whether training losses can be compared, so that starts can race.
    fn races(&self) -> bool {
        self.minibatches().is_none()
    }

    /// The default training on so many rows: continues as long as it pays.
    fn training(&self, _rows: usize) -> TrainConfig {
        TrainConfig::while_it_pays()
    }

    /// Warnings about these options with so many rows, with advice.
    fn warnings(&self, _rows: usize) -> Vec<Advice> {
        Vec::new()
    }

    /// Advice that would make the steps of a long training far shorter.
    fn shorter(&self, _rows: usize) -> Option<Advice> {
        None
    }

    /// Advice for when the memory of the machine is not enough.
    fn smaller(&self) -> Advice;
}

/// A kind of model: its name together with its options.
pub trait Kind: ModelOptions + Serialize + DeserializeOwned + 'static {
    /// The name in settings, files and the command.
    const NAME: &'static str;

    /// Whether the model takes other likelihoods than the Gaussian.
    const ANY_LIKELIHOOD: bool = false;

    /// Whether the model is for classes alone: under a likelihood without parameters, with a latent function for each
    /// class, or one for two classes.
    const CLASSES: bool = false;

    /// Whether rows may stay distributed, each part on its rank.
    const APART: bool = false;

    /// Full-batch training that can read rows from a [file](FileRows); each process loads only its part.
    const READS: bool = false;
}

/// A kind of model and its options, as in settings and files. A [registry](crate::models::registry::Models) turns it
/// into [`ModelOptions`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelChoice {
    kind: String,
    #[serde(flatten)]
    options: Map<String, Value>,
}

impl<K: Kind> From<K> for ModelChoice {
    fn from(options: K) -> Self {
        let options = match serde_json::to_value(&options) {
            Ok(Value::Object(options)) => options,
            // Options without fields.
            _ => Map::new(),
        };
        Self { kind: K::NAME.into(), options }
    }
}

impl ModelChoice {
    /// The name of the kind.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The options, if they are of this kind.
    pub fn of<K: Kind>(&self) -> Option<K> {
        let own = self.kind == K::NAME;
        own.then(|| serde_json::from_value(Value::Object(self.options.clone())).ok()).flatten()
    }

    /// The options, by name.
    pub(in crate::models) fn options(&self) -> Value {
        Value::Object(self.options.clone())
    }
}
