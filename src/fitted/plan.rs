//! From a table and settings to a model that is ready to train: what it will cost can be asked before it is paid.

use std::sync::Arc;
use std::time::Duration;

use super::build::{Form, build};
use super::calibrate::FEW;
use super::columns::{Inputs, Units, check_targets, input_names};
use super::registry::Registry;
use super::shards::Tables;
use super::stored::{Seen, Stored};
use super::{Calibrate, Fitted, Settings, Summary, advice, precision, weak_prior};
use crate::data::{Classes, Dataset, InputScale, RowFile, Schema, Split, TargetScale, TargetTransform};
use crate::error::{Error, Result};
use crate::exchange::{self, Ranks};
use crate::kernels::text;
use crate::likelihoods::{Auxiliary, Support, Targets};
use crate::linalg::jitter::watch;
use crate::models::gp_model::{GpModel, Size, Training};
use crate::models::minibatch::Rows;
use crate::models::options::{ModelOptions, Site};
use crate::models::posterior::Posterior;
use crate::models::race::{Race, Starts, Track, race};
use crate::models::registry::usual;
use crate::models::spread::Spread;
use crate::models::{Observations, diagnose};
use crate::scope::Scope;
use crate::train::{self, Observer, TrainConfig};

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
    stored: Option<Stored>,
    /// Where all rows are, where `data` are those of the first part.
    tables: Option<Tables>,
    /// Rows that are kept from the training, for intervals.
    apart: Option<Dataset>,
    /// Of a job that this process leads.
    ranks: Option<Arc<Ranks>>,
    weak_prior: Option<String>,
    warnings: Vec<String>,
}

/// What one evaluation of the objective and its gradient takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Measured seconds.
    pub seconds: f64,
    /// Computed bytes, roughly.
    pub bytes: f64,
}

/// The share of the rows that is kept from the training for intervals, and the most of them.
const APART: f64 = 0.15;
const MOST_APART: f64 = 10_000.0;

/// Whether a calibration was asked for that takes rows of its own.
fn sets_apart(settings: &Settings, classes: Option<usize>, registry: &Registry) -> Result<bool> {
    if settings.calibrate != Calibrate::Yes {
        return Ok(false);
    }
    let likelihood = registry.likelihoods.parse(&settings.likelihood, classes)?;
    if matches!(likelihood.density().support(likelihood.auxiliary().neutral()), Support::Classes(_)) {
        return Ok(true);
    }
    if !settings.likelihood.starts_with("gaussian") {
        return Err(Error::Usage(format!(
            "predictions are calibrated under the gaussian likelihood and of classes, and this fits {}",
            settings.likelihood
        )));
    }
    Ok(!registry.models.options(&settings.model)?.leaves_one_out(settings.row_column.is_some()))
}

/// Refuses intervals from fewer residuals than a distribution is fitted to; `apart` are the rows set apart for them.
fn enough(settings: &Settings, rows: usize, apart: Option<usize>) -> Result<()> {
    let (found, need) = match apart {
        None => (rows, FEW),
        Some(apart) => (apart, ((FEW as f64 - 0.5) / APART).ceil() as usize),
    };
    if settings.calibrate != Calibrate::Yes || found >= FEW {
        return Ok(());
    }
    let how = match apart {
        None => "",
        Some(_) => {
            ", of which 15 in 100 are set apart for them, or with a model that leaves rows out in closed form \
             (`--model exact`)"
        }
    };
    Err(Error::Data(format!(
        "calibrated intervals take {FEW} residuals and would have {found}: leave --calibrate out, or fit to {need} \
         rows or more{how}"
    )))
}

/// As many classes are fitted to however few rows.
const FEW_CLASSES: usize = 20;

impl Plan {
    /// Prepares data and model.
    ///
    /// # Errors
    /// [`Error::Data`] for targets that cannot be used, [`Error::KernelText`] and [`Error::Usage`] for settings that do
    /// not fit.
    pub fn new(schema: Schema, data: &Dataset, settings: Settings, seed: u64, registry: &Registry) -> Result<Self> {
        if !sets_apart(&settings, schema.classes.as_ref().map(Classes::len), registry)? {
            enough(&settings, data.n, None)?;
            let mut plan = Self::of(schema, data, None, settings, seed, registry)?;
            plan.warn(data.n, true);
            return Ok(plan);
        }
        let split = Split::random(data.n, APART, seed)?;
        enough(&settings, data.n, Some(split.test.len()))?;
        let (train, apart) = (data.subset(&split.train), data.subset(&split.test));
        let mut plan = Self::of(schema, &train, None, settings, seed, registry)?;
        plan.check(&apart)?;
        plan.warn(train.n, true);
        plan.apart = Some(apart);
        Ok(plan)
    }

    fn of(
        schema: Schema,
        data: &Dataset,
        tables: Option<&Tables>,
        settings: Settings,
        seed: u64,
        registry: &Registry,
    ) -> Result<Self> {
        schema.check(data)?;
        let inputs = Inputs::of(data, settings.row_column.as_deref())?;
        let Inputs { x, names, extra } = &inputs;
        let d = names.len();
        let options = registry.models.options(&settings.model)?;
        let rows = tables.map_or(data.n, Tables::rows);
        options.check(rows)?;
        if settings.store_factor && !options.stores_factor() {
            let model = settings.model.kind();
            return Err(Error::Usage(format!(
                "the {model} model has no factor to store: its files load fast as they are"
            )));
        }
        if d == 0 {
            return Err(Error::Data(
                "no input column is left beside the target and the column that goes with the rows".into(),
            ));
        }
        let named = |error| match error {
            Error::Data(problem) => Error::Data(format!("{problem} (the input columns are `{}`)", names.join("`, `"))),
            other => other,
        };
        let standardise = settings.standardize;
        let moments = tables.map(Tables::moments);
        let input_scale = match &moments {
            _ if !standardise => InputScale::identity(d),
            Some(moments) => InputScale::of_moments(&moments[..d]).map_err(named)?,
            None => InputScale::fit(x, d).map_err(named)?,
        };
        let likelihood = registry.likelihoods.parse(&settings.likelihood, schema.classes.as_ref().map(Classes::len))?;
        let support = likelihood.density().support(likelihood.auxiliary().neutral());
        if let Some(classes) = schema.classes.as_ref().filter(|_| !matches!(support, Support::Classes(_))) {
            return Err(Error::Usage(format!(
                "the target `{}` was read as classes ({}), and the {} likelihood takes numbers: choose bernoulli, \
                 softmax or ordinal, or \
                 read the table anew for this likelihood",
                schema.target,
                classes.listing(),
                likelihood.text()
            )));
        }
        if let (Some(classes), Support::Classes(taken)) = (&schema.classes, &support)
            && classes.len() > *taken
        {
            return Err(Error::Usage(format!(
                "the target `{}` has {} classes ({}), and the {} likelihood takes {taken}: choose one for more \
                 classes, or for numbers",
                schema.target,
                classes.len(),
                classes.listing(),
                likelihood.text()
            )));
        }
        if likelihood.latents() > FEW_CLASSES && 2 * likelihood.latents() > data.n {
            return Err(Error::Data(format!(
                "the target `{}` has {} classes in {} rows: nearly every row is a class of its own, and nothing \
                 can be learned of a class from one row; choose another target, fewer classes, or --likelihood \
                 gaussian for numbers",
                schema.target,
                likelihood.latents(),
                data.n
            )));
        }
        let gaussian = likelihood.noise().is_some();
        if !gaussian && !registry.models.row(settings.model.kind()).is_some_and(|row| row.any_likelihood) {
            let (model, likelihood) = (settings.model.kind(), likelihood.text());
            let others = registry.models.that_take_any_likelihood();
            return Err(Error::Usage(format!(
                "the {model} model is for the gaussian likelihood; for {likelihood} choose `--model {others}`"
            )));
        }
        if settings.target_transform != TargetTransform::Identity && !(gaussian && extra.is_none()) {
            let why = if gaussian { "known noise needs" } else { "other likelihoods than the gaussian need" };
            return Err(Error::Usage(format!("{why} an untransformed target; drop --target-transform")));
        }
        if extra.is_some() && likelihood.auxiliary() == Auxiliary::None {
            let likelihood = likelihood.text();
            return Err(Error::Usage(format!(
                "the {likelihood} likelihood takes no noise, exposure or trials of rows"
            )));
        }
        let mut target_scale = match &moments {
            Some(moments) => TargetScale::of_moments(settings.target_transform, &schema.target, &moments[d])?,
            None => TargetScale::fit(settings.target_transform, data)?,
        };
        if !settings.standardize || !likelihood.scaled() {
            (target_scale.mean, target_scale.sd) = (0.0, 1.0);
        }
        let targets = data.y.as_deref().unwrap_or_default();
        likelihood.check(Targets { y: targets, extra: extra.as_deref() }, Some(&data.numbers()))?;
        let mut warnings = likelihood.warnings(Targets { y: targets, extra: extra.as_deref() });
        warnings.extend(advice::index(&schema, data));
        let units = Units { inputs: input_scale, target: target_scale, auxiliary: likelihood.auxiliary() };
        let names = inputs.names.clone();
        let observations = units.observe(inputs, data)?;
        let observations = match options.order(&observations)? {
            Some(order) => observations.permuted(&order)?,
            None => observations,
        };
        let shards = tables.map(|tables| tables.observed(&units.inputs, units.target)).transpose()?;
        let site = Site { data: &observations, names: &names, seed, shards: shards.as_ref(), saved: None };
        let mut model = build(&settings, &*options, likelihood, &site, &units, registry)?;
        let set = |model: &mut dyn GpModel| weak_prior::set(model, (&observations, rows), &*options);
        let weak_prior = settings.weak_prior.then(|| set(&mut *model)).flatten();
        Ok(Self {
            schema,
            settings,
            units,
            options,
            model,
            data: observations,
            stored: None,
            tables: None,
            apart: None,
            ranks: exchange::ranks().cloned(),
            weak_prior,
            warnings,
        })
    }

    /// Prepares a model of minibatches for rows of a file, however few of them fit in memory; `rows` are their
    /// positions in it. What is chosen from data before the training (scales, inducing inputs, initial values) is
    /// chosen from 65,536 of them.
    ///
    /// # Errors
    /// As [`new`](Self::new), for any of the rows; [`Error::Usage`] for models that take all rows at once and positions
    /// behind the last row, [`Error::Io`] when the file cannot be read.
    pub fn from_file(
        file: Arc<RowFile>,
        rows: Vec<usize>,
        settings: Settings,
        seed: u64,
        registry: &Registry,
    ) -> Result<Self> {
        if registry.models.options(&settings.model)?.minibatches().is_none() {
            let model = settings.model.kind();
            return Err(Error::Usage(format!(
                "the {model} model takes all rows at once; with rows in a file choose a model that takes minibatches \
                 (`--model`)"
            )));
        }
        let classes = file.schema().classes.as_ref().map(Classes::len);
        let (rows, apart) = match sets_apart(&settings, classes, registry)? {
            false => (rows, None),
            true => {
                let split = Split::random(rows.len(), APART.min(MOST_APART / rows.len() as f64), seed)?;
                enough(&settings, rows.len(), Some(split.test.len()))?;
                let of = |places: &[usize]| places.iter().map(|place| rows[*place]).collect::<Vec<_>>();
                (of(&split.train), Some(file.read(&of(&split.test))?))
            }
        };
        let stored = Stored { file, rows, row_column: settings.row_column.clone() };
        let sample = stored.sample(seed)?;
        let mut plan = Self::of(stored.file.schema().clone(), &sample, None, settings, seed, registry)?;
        let whole = sample.n == stored.rows.len();
        if !whole {
            stored.check(plan.model.likelihood(), &plan.units)?;
        }
        plan.warn(stored.rows.len(), whole);
        plan.stored = Some(stored);
        apart.iter().try_for_each(|apart| plan.check(apart))?;
        plan.apart = apart;
        Ok(plan)
    }

    /// Prepares experts of which each has the rows of one of these tables. What is chosen from data before the training
    /// (initial values, but no scales) is chosen from the first.
    ///
    /// # Errors
    /// As [`new`](Self::new); [`Error::Usage`] for models that need all rows in one place, and for intervals from rows
    /// set apart.
    pub fn from_shards(tables: Tables, settings: Settings, seed: u64, registry: &Registry) -> Result<Self> {
        if !registry.models.row(settings.model.kind()).is_some_and(|row| row.apart) {
            let model = settings.model.kind();
            return Err(Error::Usage(format!(
                "the {model} model needs all rows in one place; for rows that stay apart choose a model of \
                 experts (`--model`)"
            )));
        }
        if settings.calibrate == Calibrate::Yes {
            return Err(Error::Usage(
                "calibrated intervals take rows of all tables, and these stay where they are: leave --calibrate out"
                    .into(),
            ));
        }
        let (schema, first) = (tables.schema().clone(), tables.first());
        let mut plan = Self::of(schema, first, Some(&tables), settings, seed, registry)?;
        plan.warn(tables.rows(), false);
        plan.tables = Some(tables);
        Ok(plan)
    }

    /// Says what looks wrong for so many rows; of what is constant only where the data are all of them.
    fn warn(&mut self, rows: usize, whole: bool) {
        let names = input_names(&self.schema, self.settings.row_column.as_deref());
        if whole {
            self.warnings.extend(advice::few(rows, &self.data.y, &self.schema.target));
            self.warnings.extend(advice::constants(&self.data, &self.schema, self.settings.row_column.as_deref()));
        }
        self.warnings.extend(advice::outliers(&self.data, &names, &self.units.inputs));
        self.warnings.extend(self.options.warnings(rows));
    }

    /// The same plan for the ranks of a job that this process leads, which share its minibatches. Those of the command
    /// are known without.
    pub fn over(self, ranks: Arc<Ranks>) -> Self {
        Self { ranks: Some(ranks), ..self }
    }

    /// The ranks that share minibatches, where the objective is a sum over rows.
    fn spread(&mut self) -> Option<Spread> {
        self.model.sum_over_rows()?;
        let ranks = self.ranks.clone()?;
        let form = Form {
            settings: self.settings.clone(),
            classes: self.schema.classes.as_ref().map(Classes::len),
            kernel: text::form(&self.model.prior().kernel, self.data.d),
            columns: self.data.d,
            parameters: self.model.parameters().into_iter().map(|(_, p)| p.clone()).collect(),
        };
        Some(Spread::new(ranks, serde_json::json!(form)))
    }

    /// Checks that the rows of a table can be scored: their targets, and what goes with them.
    ///
    /// # Errors
    /// [`Error::Data`] naming the first row that does not fit.
    pub fn check(&self, data: &Dataset) -> Result<()> {
        self.schema.check(data)?;
        self.units.target.forward(data)?;
        check_targets(self.model.likelihood(), data, self.settings.row_column.as_deref())
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

    /// The options of the model.
    pub fn options(&self) -> &dyn ModelOptions {
        &*self.options
    }

    /// Rows that a training step sees.
    fn batch(&self) -> usize {
        let rows = self.data.n();
        self.options.minibatches().map_or(rows, |batches| batches.size.min(rows))
    }

    /// Bytes that a training step takes, roughly; computed without touching the data.
    pub fn bytes(&self) -> f64 {
        let size = Size { rows: self.data.n(), columns: self.data.d, batch: self.batch() };
        self.model.bytes(self.settings.compute, size)
    }

    /// Makes a training step that evaluates the objective and its gradient once, to tell what it takes.
    ///
    /// # Errors
    /// What the objective reports.
    pub fn cost(&self) -> Result<Cost> {
        let rows: Vec<usize> = (0..self.batch()).collect();
        let batch = self.data.gather(&rows)?.batch(&Scope::new(self.settings.compute)?);
        let seconds = self.model.seconds(self.settings.compute, &batch, self.options.minibatches())?;
        Ok(Cost { seconds, bytes: self.bytes() })
    }

    /// What would make steps far shorter, if one of the settings takes most of their time.
    pub fn shorter(&self) -> Option<String> {
        let rows = self.stored.as_ref().map_or(self.data.n(), |stored| stored.rows.len());
        self.options.shorter(rows)
    }

    /// Moves the model to the better of two starts, where losses compare; nothing where one is given, in whatever way.
    fn race(&mut self, config: &TrainConfig, observers: &mut [&mut dyn Observer]) -> Result<Option<Race>> {
        let asked = self.settings.starts == Starts::Race && config.resume.is_none();
        if !asked || !self.options.races() {
            return Ok(None);
        }
        let data = &self.data;
        let compute = self.settings.compute;
        let training = Training { compute, data, rows: data, batches: None, config, spread: None };
        // Other models than the exact one may have parts that belong to the rows.
        let sampled = self.settings.model.kind() == usual().kind();
        race(&mut self.model, &Track { training, sampled }, observers)
    }

    /// Trains the model and conditions it on the data.
    ///
    /// # Errors
    /// What training reports.
    pub fn train(mut self, config: &TrainConfig, observers: &mut [&mut dyn Observer]) -> Result<Fitted> {
        let compute = self.settings.compute;
        let race = self.race(config, observers)?;
        let spent = Duration::from_secs_f64(race.as_ref().map_or(0.0, |race| race.seconds));
        let left = config.max_time.map(|time| time.saturating_sub(spent));
        let config = &TrainConfig { max_time: left, ..config.clone() };
        let spread = self.spread();
        let seen = self.stored.as_ref().map(|stored| Seen { stored, units: &self.units });
        let rows = seen.as_ref().map_or(&self.data as &dyn Rows, |seen| seen);
        let count = self.tables.as_ref().map_or(rows.count(), Tables::rows);
        let batches = self.options.minibatches();
        let training = Training { compute, data: &self.data, rows, batches, config, spread: spread.as_ref() };
        let outcome = self.model.train(training, observers)?;
        let Self { schema, settings, units, model, data, tables, apart, weak_prior, mut warnings, .. } = self;
        let names = input_names(&schema, settings.row_column.as_deref());
        warnings.extend(diagnose::warnings(&*model, &data, &names));
        // Who interrupts waits for the model.
        if outcome.termination != train::Termination::Interrupted {
            warnings.extend(precision::warning(&*model, compute, &data));
        }
        let unsaved = outcome.unsaved.as_ref();
        warnings.extend(unsaved.map(|problem| format!("the state of the training at its end is not saved: {problem}")));
        warnings.extend(advice::unfinished(&outcome, config));
        let (posterior, jitter) = watch(|| model.condition(compute, data.clone()));
        let posterior: Arc<dyn Posterior> = posterior?.into();
        warnings.extend(posterior.remarks(&some(&data)?.x)?);
        if posterior.exact().is_some() {
            warnings.extend(precision::jitter(&*model, compute, &data, (jitter, units.target.sd)));
        }
        let ranges = Some(match &tables {
            Some(tables) => units.ranges(&tables.moments()),
            None => data.ranges(),
        });
        let summary = Summary { weak_prior, ranges, ..summarise(&outcome, config, count, race, warnings) };
        let data = match &tables {
            // What no rank may see but its own is in no file, either.
            Some(_) => Observations { x: Vec::new(), y: Vec::new(), noise: None, ..data },
            None if posterior.needs_data() => data,
            None => some(&data)?,
        };
        let whereabouts = tables.as_ref().map(Tables::whereabouts);
        let Units { inputs: input_scale, target: target_scale, .. } = units;
        let (calibration, temperature) = (None, None);
        let fitted = Fitted {
            schema,
            settings,
            input_scale,
            target_scale,
            model,
            summary,
            calibration,
            temperature,
            data,
            whereabouts,
            posterior,
        };
        Ok(fitted.calibrate(apart.as_ref()))
    }
}

/// Rows that are kept of data which predictions do not need.
const KEPT: usize = 2000;

/// Every so many rows, enough to draw and to tell where the data lie.
fn some(data: &Observations) -> Result<Observations> {
    let rows: Vec<usize> = (0..data.n()).step_by(data.n().div_ceil(KEPT).max(1)).collect();
    data.gather(&rows)
}

fn summarise(
    outcome: &train::Outcome,
    config: &TrainConfig,
    rows: usize,
    race: Option<Race>,
    warnings: Vec<String>,
) -> Summary {
    let before = race.clone().unwrap_or_default();
    Summary {
        rows,
        optimizer: config.optimizer.name().into(),
        termination: outcome.termination.to_string(),
        loss: outcome.loss,
        iterations: before.steps + outcome.iterations,
        evaluations: before.evaluations + outcome.evaluations,
        seconds: before.seconds + outcome.seconds,
        seed: config.seed,
        restarts: outcome.restarts.iter().map(|restart| restart.loss).collect(),
        weak_prior: None,
        race,
        ranges: None,
        warnings,
        history: outcome.history.clone(),
    }
}
