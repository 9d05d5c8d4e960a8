//! What any model offers besides its objective: to tables, files, the command and ensembles.

use std::fmt::Debug;

use burn::tensor::Tensor;

use crate::device::Compute;
use crate::distributed::Spread;
use crate::error::Result;
use crate::likelihoods::Likelihood;
use crate::models::fit;
use crate::models::minibatch::{Minibatches, Rows, SumOverRows};
use crate::models::posterior::{Posterior, SavedPosterior};
use crate::models::prior::Prior;
use crate::models::{Batch, Model, Observations};
use crate::scope::Scope;
use crate::train::{Observer, Outcome, TrainConfig};

/// The user's units of inputs and target. Reports and options give parameters in these units.
#[derive(Debug, Clone, PartialEq)]
pub struct UserUnits {
    /// Means of the input columns `[d]`; zeros if they are not standardised.
    pub input_mean: Vec<f64>,
    /// Standard deviations of the input columns `[d]`; ones if they are not standardised.
    pub input_sd: Vec<f64>,
    /// Mean of the target; 0 if it is not standardised.
    pub target_mean: f64,
    /// Standard deviation of the target; 1 if it is not standardised.
    pub target_sd: f64,
}

/// How much a training step works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Rows of the data.
    pub rows: usize,
    /// Input columns.
    pub columns: usize,
    /// Rows that a step sees, for models that take minibatches.
    pub batch: usize,
}

impl Size {
    /// Bytes of the data and of what a step computes for each row.
    pub fn data(self, compute: Compute) -> f64 {
        compute.precision.bytes() as f64 * 6.0 * self.rows as f64 * (self.columns as f64 + 1.0)
    }
}

/// What a model is trained on, and how.
#[derive(Clone, Copy)]
pub struct Training<'a> {
    /// Where to compute.
    pub compute: Compute,
    /// The rows in memory: all rows, or a sample of the rows that [`rows`](Self::rows) reads.
    pub data: &'a Observations,
    /// All rows.
    pub rows: &'a dyn Rows,
    /// How minibatches are made, for models that take them.
    pub batches: Option<&'a Minibatches>,
    /// Optimiser, steps, seed.
    pub config: &'a TrainConfig,
    /// The ranks that share minibatches, if any.
    pub spread: Option<&'a Spread>,
}

/// A Gaussian process model with any approximation.
///
/// [`Model`] is what an optimiser needs; this is what everything else needs. A model of another crate that implements
/// it and its [options](super::options::ModelOptions) can be fitted to tables, saved, loaded and used by the command
/// like a built-in one.
pub trait GpModel: Model + CloneModel + Debug + Send + Sync {
    /// Its name for people, with its characteristic numbers.
    fn title(&self) -> String;

    /// The prior of the first latent function.
    fn prior(&self) -> &Prior;

    /// The priors of the latent functions: one for all of them, or one for each.
    fn priors(&self) -> Vec<&Prior> {
        vec![self.prior()]
    }

    /// How targets scatter around the latent functions.
    fn likelihood(&self) -> &dyn Likelihood;

    /// Gives the parameters the units of inputs and target, and sets initial values of the likelihood and of the levels
    /// of latent functions from the targets. The kernel of the first latent function knows its units already.
    fn start(&mut self, data: &Observations, units: &UserUnits);

    /// The most bytes that one evaluation of the objective and its gradient holds, roughly.
    fn bytes(&self, compute: Compute, size: Size) -> f64;

    /// Measures the seconds of a step on these rows: all training rows, or as many as a minibatch has.
    ///
    /// # Errors
    /// What the objective reports.
    fn seconds(&self, compute: Compute, rows: &Observations, _batches: Option<&Minibatches>) -> Result<f64> {
        fit::seconds(self, compute, rows)
    }

    /// Free parameters that training leaves as they are, because the objective's gradient knows nothing of them.
    fn unlearned(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether the objective depends only on parameters and data, so that its values in two precisions can be compared.
    fn is_comparable(&self) -> bool {
        false
    }

    /// The standard error of the objective on these rows, if it is a random estimate.
    ///
    /// # Errors
    /// What the estimate reports.
    fn objective_error(&self, _compute: Compute, _data: &Observations) -> Result<Option<f64>> {
        Ok(None)
    }

    /// A model with the same parameters and a cheaper objective, which is used to find where training begins. By
    /// default it is a copy of this model.
    fn lighter(&self) -> Box<dyn GpModel> {
        self.boxed()
    }

    /// Trains the model and leaves it at the best point found.
    ///
    /// # Errors
    /// What the objective reports when it fails at every starting point.
    fn train(&mut self, training: Training, observers: &mut [&mut dyn Observer]) -> Result<Outcome> {
        fit::fit(self, training.compute, training.data, training.config, observers)
    }

    /// Returns itself if its objective is a sum over rows plus a term without data.
    fn sum_over_rows(&self) -> Option<&dyn SumOverRows> {
        None
    }

    /// The sums over rows through which alone the data enter the objective, if there are such. Then the model can be
    /// [computed from parts](crate::distributed::parts) of the rows.
    ///
    /// # Errors
    /// What the sums report; [`Usage`](crate::Error::Usage) for other models.
    fn sums(&self, _scope: &Scope, _batch: &Batch) -> Result<Vec<Tensor<1>>> {
        Err(crate::Error::Usage(format!("{}: its data do not enter as sums over rows", self.title())))
    }

    /// Conditions the prior on observations.
    ///
    /// # Errors
    /// What factorisations and solves report.
    fn condition(&self, compute: Compute, data: Observations) -> Result<Box<dyn Posterior>>;

    /// The model given more rows after those of `data`, if it changes by them: its parameters hold what it knows of
    /// the rows before, or it shares them out. None for models whose [posterior](Posterior::updated) alone changes.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) when the columns differ, and what factorisations report.
    fn updated(
        &self,
        _compute: Compute,
        _data: &Observations,
        _more: &Observations,
    ) -> Result<Option<Box<dyn GpModel>>> {
        Ok(None)
    }

    /// The posterior that was [saved](Posterior::saved) with the observations. If nothing was saved, conditions on them
    /// again.
    ///
    /// # Errors
    /// [`Data`](crate::Error::Data) when the numbers are not those of such a posterior.
    fn restore(&self, compute: Compute, data: Observations, _saved: SavedPosterior) -> Result<Box<dyn Posterior>> {
        self.condition(compute, data)
    }
}

/// What models with one `prior` and Gaussian noise as their `likelihood` offer in the same way.
macro_rules! gaussian_parts {
    () => {
        fn prior(&self) -> &$crate::models::prior::Prior {
            &self.prior
        }

        fn likelihood(&self) -> &dyn $crate::likelihoods::Likelihood {
            &self.likelihood
        }

        fn start(&mut self, data: &$crate::models::Observations, units: &$crate::models::gp_model::UserUnits) {
            $crate::models::start::start(&mut self.likelihood, std::iter::empty(), data, units);
        }
    };
}
pub(in crate::models) use gaussian_parts;

/// Cloning behind a pointer. Every model that is [`Clone`] implements it.
pub trait CloneModel {
    /// A copy with parameters of its own.
    fn boxed(&self) -> Box<dyn GpModel>;
}

impl<M: GpModel + Clone + 'static> CloneModel for M {
    fn boxed(&self) -> Box<dyn GpModel> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn GpModel> {
    fn clone(&self) -> Self {
        (**self).boxed()
    }
}
