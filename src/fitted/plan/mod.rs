//! From a table and settings to a model that is ready to train, with its cost known before the training.

mod checks;
mod cost;
mod elsewhere;
mod structural;
mod train;

use std::sync::Arc;

use checks::{enough, leaves_out, share_apart};
pub use cost::Cost;

use super::build::build;
use super::columns::{Inputs, Units, check_targets, input_names};
use super::{Registry, Settings, Tables, advice, average, copies, leak, structure, weak_prior};
use crate::advice::Advice;
use crate::data::{Classes, Dataset, InputScale, Schema, Split, TargetScale};
use crate::distributed::{FileRows, Ranks, Stored};
use crate::error::{Error, Result};
use crate::likelihoods::{Auxiliary, Targets};
use crate::means::Mean;
use crate::models::Observations;
use crate::models::gp_model::GpModel;
use crate::models::options::{Context, ModelOptions};
use crate::params::Unit;

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

/// Fixes variances at their start: equal rows do not determine the scale of the target.
fn keep_scale(model: &mut dyn GpModel) {
    let variances = model.parameters_mut().into_iter().filter(|(_, parameter)| parameter.unit == Unit::Variance);
    variances.for_each(|(_, parameter)| parameter.fixed = true);
}

impl Plan {
    /// Prepares data and model. Of Gaussian targets whose noise is learned, rows that copy others are left out,
    /// which is said.
    ///
    /// # Errors
    /// [`Error::Data`] for targets that cannot be used, [`Error::KernelText`] and [`Error::Usage`] for settings that do
    /// not fit.
    pub fn new(schema: Schema, data: &Dataset, settings: Settings, seed: u64, registry: &Registry) -> Result<Self> {
        let known = copies::knows_noise(settings.auxiliary_column.as_ref(), &settings.fix);
        let Some(once) = copies::once(data, &settings.likelihood, known) else {
            return Self::of_kind(schema, data, settings, seed, registry);
        };
        let mut plan = Self::of_kind(schema, &once, settings, seed, registry)?;
        plan.warn_all(&advice::once(data.n, once.n));
        Ok(plan)
    }

    /// Adds a warning to all of its models.
    fn warn_all(&mut self, warning: &Advice) {
        self.warnings.push(warning.clone());
        self.others.iter_mut().chain(self.search.as_deref_mut()).for_each(|plan| plan.warn_all(warning));
    }

    fn of_kind(schema: Schema, data: &Dataset, settings: Settings, seed: u64, registry: &Registry) -> Result<Self> {
        if let Some(asked) = structure::asked(&settings)? {
            return Self::structural(schema, data, (settings, &asked), seed, registry);
        }
        match average::asked(&settings)? {
            Some(average::Asked::Models { log }) if settings.likelihood.starts_with("gaussian") => {
                let average::Chosen { settings, inputs, said } =
                    average::chosen(&settings, log, (&schema, data), seed, registry)?;
                let plan = Self::average(schema, data, average::models(&settings, inputs), seed, registry)?;
                Ok(Self { said, ..plan })
            }
            Some(average::Asked::Models { .. } | average::Asked::Untried) => {
                Self::average(schema, data, average::models(&settings, None), seed, registry)
            }
            Some(average::Asked::Kernels { log }) => {
                if !leaves_out(&settings, schema.classes.as_ref().map(Classes::len), registry)? {
                    let model = format!("{} with {}", settings.model.kind(), settings.likelihood);
                    return Err(average::unfit(&model));
                }
                let each = average::of_table(&settings, &schema, data, log);
                Self::average(schema, data, each, seed, registry)
            }
            None => Self::single(schema, data, settings, seed, registry),
        }
    }

    /// Prepares an [average](super::Fitted::average) of models: one for each of these settings. All else that a plan
    /// tells is about the first of them. If a model does not leave rows out in closed form, some rows are set apart
    /// from the training of all, for weights and calibration.
    ///
    /// # Errors
    /// As [`new`](Self::new); [`Error::Usage`] for no settings, and for targets that are not Gaussian under models that
    /// do not leave them out in closed form.
    pub fn average(
        schema: Schema,
        data: &Dataset,
        each: Vec<Settings>,
        seed: u64,
        registry: &Registry,
    ) -> Result<Self> {
        let classes = schema.classes.as_ref().map(Classes::len);
        if let Some(first) = each.first() {
            // Counts all rows, before some are set apart.
            checks::check_classes(&schema, &*registry.likelihoods.parse(&first.likelihood, classes)?, data.n)?;
        }
        let of_classes = |settings: &Settings| registry.likelihoods.of_classes(&settings.likelihood);
        let closed = |settings: &Settings| match leaves_out(settings, classes, registry)? {
            false if !settings.likelihood.starts_with("gaussian") && !of_classes(settings) => {
                Err(average::unfit(&format!("{} with {}", settings.model.kind(), settings.likelihood)))
            }
            closed => Ok(closed),
        };
        let closed = each.iter().map(closed).collect::<Result<Vec<bool>>>()?;
        let split = match closed.iter().all(|closed| *closed) {
            true => None,
            false => Some(Split::random(data.n, checks::some(data.n), seed)?),
        };
        let plan = |settings: Settings| match &split {
            Some(split) => Self::beside(schema.clone(), data, settings, split, seed, registry),
            None => Self::single(schema.clone(), data, settings, seed, registry),
        };
        let mut plans = each.into_iter().map(plan).collect::<Result<Vec<Self>>>()?.into_iter();
        let first = plans.next().ok_or_else(|| Error::Usage("an average needs one model or more".into()))?;
        Ok(Self { others: plans.collect(), ..first })
    }

    pub(in crate::fitted) fn single(
        schema: Schema,
        data: &Dataset,
        settings: Settings,
        seed: u64,
        registry: &Registry,
    ) -> Result<Self> {
        let Some(share) = share_apart(&settings, data.n, registry)? else {
            enough(&settings, data.n, None)?;
            let mut plan = Self::of(schema, data, Elsewhere::Nowhere, settings, seed, registry)?;
            plan.warn(data.n, true);
            return Ok(plan);
        };
        let split = Split::random(data.n, share, seed)?;
        enough(&settings, data.n, Some(split.test.len()))?;
        Self::beside(schema, data, settings, &split, seed, registry)
    }

    /// A plan for the rows of a table that are trained on; the others are set apart.
    fn beside(
        schema: Schema,
        data: &Dataset,
        settings: Settings,
        split: &Split,
        seed: u64,
        registry: &Registry,
    ) -> Result<Self> {
        let (train, apart) = (data.subset(&split.train), data.subset(&split.test));
        let mut plan = Self::of(schema, &train, Elsewhere::Nowhere, settings, seed, registry)?;
        plan.check(&apart)?;
        plan.warn(train.n, true);
        plan.apart = Some(apart);
        Ok(plan)
    }

    fn of(
        schema: Schema,
        data: &Dataset,
        elsewhere: Elsewhere,
        settings: Settings,
        seed: u64,
        registry: &Registry,
    ) -> Result<Self> {
        schema.check(data)?;
        checks::check_filled(&schema, settings.auxiliary_column.as_deref())?;
        if average::asked(&settings)?.is_some() || structure::asked(&settings)?.is_some() {
            let problem = "an average over kernels is for a table in memory; give a single kernel";
            return Err(Error::Usage(problem.into()).about("Settings::kernel"));
        }
        let inputs = Inputs::of(data, settings.auxiliary_column.as_deref())?;
        let Inputs { x, names, auxiliary } = &inputs;
        let d = names.len();
        let options = registry.models.options(&settings.model)?;
        let (tables, file) = match elsewhere {
            Elsewhere::Nowhere => (None, None),
            Elsewhere::Apart(tables) => (Some(tables), None),
            Elsewhere::File(file) => (None, Some(file)),
        };
        let rows = tables.map_or(file.map_or(data.n, |file| file.rows.len()), Tables::rows);
        options.check(rows)?;
        if d == 0 {
            return Err(Error::Data("no input column is left beside the target and the auxiliary column".into()));
        }
        let named = |error: Error| {
            error.map(|error| match error {
                Error::Data(problem) => {
                    Error::Data(format!("{problem} (the input columns are `{}`)", names.join("`, `")))
                }
                other => other,
            })
        };
        let standardise = settings.standardize;
        let moments = tables.map(Tables::moments);
        if moments.is_some() && !settings.input_transform.is_auto() {
            let problem = "transforms of inputs need all rows in one place, and these stay apart: leave them out";
            return Err(Error::Usage(problem.into()).about("Settings::input_transform"));
        }
        let input_scale = match &moments {
            Some(_) if !standardise => InputScale::identity(d),
            Some(moments) => InputScale::of_moments(&moments[..d]).map_err(named)?,
            None => {
                let classes = registry.likelihoods.of_classes(&settings.likelihood);
                InputScale::warped(&settings.input_transform, x, names, (classes && standardise, standardise))
                    .map_err(named)?
            }
        };
        let likelihood = registry.likelihoods.parse(&settings.likelihood, schema.classes.as_ref().map(Classes::len))?;
        checks::check_classes(&schema, &*likelihood, data.n)?;
        checks::check_kind(&settings, &*likelihood, auxiliary.is_some(), registry)?;
        let mut target_scale = match &moments {
            Some(moments) => TargetScale::of_moments(settings.target_transform, &schema.target, &moments[d])?,
            None => TargetScale::fit(settings.target_transform, data)?,
        };
        if !settings.standardize || !likelihood.scaled() {
            (target_scale.mean, target_scale.sd) = (0.0, 1.0);
        }
        let targets = data.y.as_deref().unwrap_or_default();
        likelihood.check(Targets { y: targets, auxiliary: auxiliary.as_deref() }, Some(&data.numbers()))?;
        let of_targets = likelihood.warnings(Targets { y: targets, auxiliary: auxiliary.as_deref() });
        let mut warnings: Vec<Advice> = of_targets.into_iter().map(Advice::from).collect();
        warnings.extend(advice::index(&schema, data));
        if let (Some(sd), Some(column), Auxiliary::NoiseVariance) =
            (auxiliary, &settings.auxiliary_column, likelihood.auxiliary())
        {
            warnings.extend(advice::exact_rows(sd, targets, &data.numbers(), column));
        }
        let units = Units { inputs: input_scale, target: target_scale, auxiliary: likelihood.auxiliary() };
        let names = inputs.names.clone();
        let observations = units.observe(inputs, data)?;
        let observations = match options.order(&observations)? {
            Some(order) => observations.permuted(&order)?,
            None => observations,
        };
        let shards = tables.map(|tables| tables.observed(&units.inputs, units.target)).transpose()?;
        let stored = file.map(|file| Arc::new(FileRows { stored: file.clone(), units: units.clone() }));
        // Models with minibatches read each one when they draw it.
        let own = registry.models.row(settings.model.kind()).is_some_and(|row| row.reads);
        let source = stored.as_ref().filter(|_| own);
        let (shards, crew) = (shards.as_ref(), registry.crew.as_ref());
        let context = Context { source, shards, crew, ..Context::new(&observations, &names, seed) };
        if let Some(stored) = stored.as_ref().filter(|_| data.n < rows) {
            stored.stored.check(&*likelihood, &units)?;
        }
        let scaled = settings.standardize && likelihood.scaled();
        let series = checks::series(&schema, &settings, &names)?;
        let mut model = build(&settings, &*options, likelihood, &context, &units, series, registry)?;
        if scaled && rows == observations.n() && advice::is_one_row(&observations) {
            keep_scale(&mut *model);
        }
        let set = |model: &mut dyn GpModel| weak_prior::set(model, &observations, rows, &*options);
        let weak_prior = settings.weak_prior.then(|| set(&mut *model)).flatten();
        Ok(Self {
            schema,
            settings,
            units,
            options,
            model,
            data: observations,
            stored,
            tables: None,
            apart: None,
            crew: registry.crew.clone(),
            weak_prior,
            warnings,
            said: None,
            search: None,
            others: Vec::new(),
            link: None,
            bounded: Vec::new(),
        })
    }

    /// Adds warnings about what looks wrong with the data of `rows` rows. Constant values are reported only if the plan
    /// holds the `whole` data.
    fn warn(&mut self, rows: usize, whole: bool) {
        let names = input_names(&self.schema, self.settings.auxiliary_column.as_deref());
        if whole {
            self.warnings.extend(advice::few(rows, &self.data, &self.schema.target).map(Advice::from));
            self.warnings.extend(advice::constants(
                &self.data,
                &self.schema,
                self.settings.auxiliary_column.as_deref(),
            ));
            self.warnings.extend(leak::warnings(&self.data, &self.schema, self.settings.auxiliary_column.as_deref()));
            if self.model.likelihood().noise().is_some() {
                self.warnings.extend(advice::copies(&self.data));
            }
        }
        self.warnings.extend(advice::outliers(&self.data, &names, &self.units.inputs));
        if self.model.priors().iter().any(|prior| matches!(prior.mean, Mean::Linear { .. })) {
            self.warnings.extend(advice::slopes(rows, self.data.d));
        }
        self.warnings.extend(self.options.warnings(rows));
    }

    /// Checks that the rows of a table can be scored: their targets and their auxiliary column.
    ///
    /// # Errors
    /// [`Error::Data`] naming the first row that does not fit.
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

/// Where all rows are, if a model is chosen from some of them.
enum Elsewhere<'a> {
    /// There are no other rows.
    Nowhere,
    /// In tables, one for each expert.
    Apart(&'a Tables),
    /// In a file.
    File(&'a Stored),
}
