//! From a table and settings to a model that is ready to train, with its cost known before the training.

mod checks;
mod cost;
mod elsewhere;
mod structural;
mod table;
mod train;

use std::sync::Arc;

pub use cost::Cost;
pub(super) use table::Table;

use super::columns::{Units, check_targets};
use super::{Registry, Settings, Tables, advice, copies, structure};
use crate::advice::Advice;
use crate::data::{Dataset, Schema};
use crate::distributed::{FileRows, Ranks};
use crate::error::Result;
use crate::models::Observations;
use crate::models::gp_model::GpModel;
use crate::models::options::ModelOptions;

/// A model before its training, with the data it will be trained on.
#[derive(Debug)]
pub struct Plan {
    schema: Schema,
    settings: Settings,
    units: Units,
    options: Box<dyn ModelOptions>,
    model: Box<dyn GpModel>,
    /// All rows, or a sample of those in a file.
    data: Observations,
    /// All rows in a file, if `data` may be only some of them.
    stored: Option<Arc<FileRows>>,
    /// All rows in tables, if `data` are those of the first table.
    tables: Option<Tables>,
    /// Rows that are kept from the training, for intervals.
    apart: Option<Dataset>,
    /// The processes of a job that this one leads.
    crew: Option<Arc<Ranks>>,
    weak_prior: Option<String>,
    warnings: Vec<Advice>,
    /// What was chosen by trials or by a search.
    said: Option<String>,
    /// A search that says which of the models are trained, and from where.
    search: Option<Box<Plan>>,
    /// The other models of an average.
    others: Vec<Plan>,
    /// The model of an average whose parameters this one begins at.
    link: Option<structure::Link>,
    /// The numbers of the parameters that the search of structural kernels bounds.
    bounded: Vec<usize>,
}

impl Plan {
    /// Prepares data and model. Of Gaussian targets whose noise is learned, rows that copy others are left out,
    /// which is said.
    ///
    /// # Errors
    /// [`Error::Data`](crate::Error::Data) for targets that cannot be used, and for settings that do not fit
    /// [`Error::KernelText`](crate::Error::KernelText) and [`Error::Usage`](crate::Error::Usage).
    pub fn new(schema: Schema, data: &Dataset, settings: Settings, seed: u64, registry: &Registry) -> Result<Self> {
        let table = Table { schema: &schema, data, seed, registry };
        let known = copies::knows_noise(settings.auxiliary_column.as_ref(), &settings.fix);
        let Some(once) = copies::once(data, &settings.likelihood, known) else { return table.plan(settings) };
        let mut plan = Table { data: &once, ..table }.plan(settings)?;
        plan.warn_all(&advice::once(data.n, once.n));
        Ok(plan)
    }

    /// Adds a warning to all of its models.
    fn warn_all(&mut self, warning: &Advice) {
        self.warnings.push(warning.clone());
        self.others.iter_mut().chain(self.search.as_deref_mut()).for_each(|plan| plan.warn_all(warning));
    }

    /// Prepares an [average](super::Fitted::average) of models: one for each of these settings. All else that a plan
    /// tells is about the first of them. If a model does not leave rows out in closed form, some rows are set apart
    /// from the training of all, for weights and calibration.
    ///
    /// # Errors
    /// As [`new`](Self::new); [`Error::Usage`](crate::Error::Usage) for no settings, and for targets that are not
    /// Gaussian under models that do not leave them out in closed form.
    pub fn average(
        schema: Schema,
        data: &Dataset,
        each: Vec<Settings>,
        seed: u64,
        registry: &Registry,
    ) -> Result<Self> {
        Table { schema: &schema, data, seed, registry }.average(each)
    }

    /// Checks that the rows of a table can be scored: their targets and their auxiliary column.
    ///
    /// # Errors
    /// [`Error::Data`](crate::Error::Data) naming the first row that does not fit.
    pub fn check(&self, data: &Dataset) -> Result<()> {
        self.schema.check(data)?;
        self.units.target.forward(data)?;
        check_targets(self.model.likelihood(), data, self.settings.auxiliary_column.as_deref())
    }

    /// Rows that are kept from the training, for intervals and weights.
    pub fn apart(&self) -> Option<&Dataset> {
        self.apart.as_ref()
    }

    /// What was chosen for the data by trials, and what it gained, if anything.
    pub fn said(&self) -> Option<&str> {
        self.said.as_deref()
    }

    /// How many models are trained: several for an average. Of those that a search chooses from, the most that it
    /// chooses.
    pub fn models(&self) -> usize {
        let all = 1 + self.others.len();
        if self.search.is_some() { all.min(structure::BEST) } else { all }
    }

    /// How many of them at a time: of few rows, each thread trains one; those of many rows, some of which are set
    /// apart, take turns.
    pub fn together(&self) -> usize {
        if self.apart.is_some() { 1 } else { self.models().min(rayon::current_num_threads()) }
    }

    /// The model of an average whose parameters this one begins at.
    pub(super) fn link(&self) -> Option<structure::Link> {
        self.link
    }

    /// The name of the target.
    pub(super) fn target(&self) -> &str {
        &self.schema.target
    }

    /// What was asked for.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The model as it will start.
    pub fn model(&self) -> &dyn GpModel {
        &*self.model
    }

    /// The rows that the model was chosen from: all, a sample of those in a file, or those of the first shard.
    pub fn rows(&self) -> &Observations {
        &self.data
    }

    /// All rows, if they are in a file.
    pub fn source(&self) -> Option<Arc<FileRows>> {
        self.stored.clone()
    }

    /// The options of the model.
    pub fn options(&self) -> &dyn ModelOptions {
        &*self.options
    }
}
