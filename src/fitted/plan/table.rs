//! Plans for a table: which models settings ask for, and each of them with its data and start.

use std::sync::Arc;

use super::checks::{self, enough, leaves_out, share_apart};
use super::{Plan, Registry, Settings, Tables};
use crate::advice::Advice;
use crate::data::{Classes, Dataset, InputScale, Schema, Split, TargetScale};
use crate::distributed::{FileRows, Stored};
use crate::error::{Error, Result};
use crate::fitted::build::build;
use crate::fitted::columns::{Inputs, Units, input_names};
use crate::fitted::{advice, average, leak, structure, weak_prior};
use crate::likelihoods::{Auxiliary, Targets};
use crate::means::Mean;
use crate::models::gp_model::GpModel;
use crate::models::options::Context;
use crate::params::Unit;

/// A table, and what else plans of models for it take.
#[derive(Clone, Copy)]
pub(in crate::fitted) struct Table<'a> {
    pub schema: &'a Schema,
    pub data: &'a Dataset,
    pub seed: u64,
    pub registry: &'a Registry,
}

/// Where all rows are, if a model is chosen from some of them.
#[derive(Clone, Copy, Default)]
pub(super) struct Elsewhere<'a> {
    /// In tables, one for each expert.
    pub tables: Option<&'a Tables>,
    /// In a file.
    pub file: Option<&'a Stored>,
}

impl Table<'_> {
    /// The number of classes, if targets are classes.
    fn classes(&self) -> Option<usize> {
        self.schema.classes.as_ref().map(Classes::len)
    }

    /// A plan of the models that settings ask for.
    pub(super) fn plan(self, settings: Settings) -> Result<Plan> {
        if let Some(asked) = structure::asked(&settings)? {
            return self.structural((settings, &asked));
        }
        match average::asked(&settings)? {
            Some(average::Asked::Models { log }) if settings.is_gaussian() => {
                let average::Chosen { settings, inputs, said } = average::chosen(&settings, log, self)?;
                Ok(Plan { said, ..self.average(average::models(&settings, inputs))? })
            }
            Some(average::Asked::Models { .. } | average::Asked::Untried) => {
                self.average(average::models(&settings, None))
            }
            Some(average::Asked::Kernels { log }) => {
                if !leaves_out(&settings, self.classes(), self.registry)? {
                    return Err(average::unfit(&format!("{} with {}", settings.model.kind(), settings.likelihood)));
                }
                self.average(average::of_table(&settings, self.schema, self.data, log))
            }
            None => self.single(settings),
        }
    }

    /// A plan of an average: see [`Plan::average`].
    pub(super) fn average(self, each: Vec<Settings>) -> Result<Plan> {
        let Self { schema, data, seed, registry } = self;
        if let Some(first) = each.first() {
            // Counts all rows, before some are set apart.
            checks::check_classes(schema, &*registry.likelihoods.parse(&first.likelihood, self.classes())?, data.n)?;
        }
        let closed = |settings: &Settings| match leaves_out(settings, self.classes(), registry)? {
            false if !settings.is_gaussian() && !registry.likelihoods.of_classes(&settings.likelihood) => {
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
            Some(split) => self.beside(settings, split),
            None => self.single(settings),
        };
        let mut plans = each.into_iter().map(plan).collect::<Result<Vec<Plan>>>()?.into_iter();
        let first = plans.next().ok_or_else(|| Error::Usage("an average needs one model or more".into()))?;
        Ok(Plan { others: plans.collect(), ..first })
    }

    /// A plan of one model, which may need rows that are set apart.
    pub(in crate::fitted) fn single(self, settings: Settings) -> Result<Plan> {
        let n = self.data.n;
        let Some(share) = share_apart(&settings, n, self.registry)? else {
            enough(&settings, n, None)?;
            return self.of(Elsewhere::default(), settings);
        };
        let split = Split::random(n, share, self.seed)?;
        enough(&settings, n, Some(split.test.len()))?;
        self.beside(settings, &split)
    }

    /// A plan for the rows of a table that are trained on; the others are set apart.
    fn beside(self, settings: Settings, split: &Split) -> Result<Plan> {
        let (train, apart) = (self.data.subset(&split.train), self.data.subset(&split.test));
        let plan = Table { data: &train, ..self }.of(Elsewhere::default(), settings)?;
        plan.check(&apart)?;
        Ok(Plan { apart: Some(apart), ..plan })
    }

    /// A plan of one model for all rows, of which the table has some if there are others elsewhere.
    pub(super) fn of(self, Elsewhere { tables, file }: Elsewhere, settings: Settings) -> Result<Plan> {
        let Self { schema, data, seed, registry } = self;
        schema.check(data)?;
        checks::check_filled(schema, settings.auxiliary_column.as_deref())?;
        if average::asked(&settings)?.is_some() || structure::asked(&settings)?.is_some() {
            let problem = "an average over kernels is for a table in memory; give a single kernel";
            return Err(Error::Usage(problem.into()).about("Settings::kernel"));
        }
        let inputs = Inputs::of(data, settings.auxiliary_column.as_deref())?;
        let Inputs { x, names, auxiliary } = &inputs;
        let d = names.len();
        let options = registry.models.options(&settings.model)?;
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
        let likelihood = registry.likelihoods.parse(&settings.likelihood, self.classes())?;
        checks::check_classes(schema, &*likelihood, data.n)?;
        checks::check_kind(&settings, &*likelihood, auxiliary.is_some(), registry)?;
        let mut target_scale = match &moments {
            Some(moments) => TargetScale::of_moments(settings.target_transform, &schema.target, &moments[d])?,
            None => TargetScale::fit(settings.target_transform, data)?,
        };
        let scaled = standardise && likelihood.scaled();
        if !scaled {
            (target_scale.mean, target_scale.sd) = (0.0, 1.0);
        }
        let targets = Targets { y: data.y.as_deref().unwrap_or_default(), auxiliary: auxiliary.as_deref() };
        likelihood.check(targets, Some(&data.numbers()))?;
        let mut warnings: Vec<Advice> = likelihood.warnings(targets).into_iter().map(Advice::from).collect();
        warnings.extend(advice::index(schema, data));
        if let (Some(sd), Some(column), Auxiliary::NoiseVariance) =
            (auxiliary, &settings.auxiliary_column, likelihood.auxiliary())
        {
            warnings.extend(advice::exact_rows(sd, targets.y, &data.numbers(), column));
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
        let series = checks::series(schema, &settings, &names)?;
        let mut model = build(&settings, &*options, likelihood, &context, &units, series, registry)?;
        if scaled && rows == observations.n() && advice::is_one_row(&observations) {
            keep_scale(&mut *model);
        }
        let set = |model: &mut dyn GpModel| weak_prior::set(model, &observations, rows, &*options);
        let weak_prior = settings.weak_prior.then(|| set(&mut *model)).flatten();
        let mut plan = Plan {
            schema: schema.clone(),
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
        };
        plan.warn(rows, tables.is_none() && data.n == rows);
        Ok(plan)
    }
}

/// Fixes variances at their start: equal rows do not determine the scale of the target.
fn keep_scale(model: &mut dyn GpModel) {
    let variances = model.parameters_mut().into_iter().filter(|(_, parameter)| parameter.unit == Unit::Variance);
    variances.for_each(|(_, parameter)| parameter.fixed = true);
}

impl Plan {
    /// Adds warnings about what looks wrong with the data of `rows` rows. Constant values are reported only if the plan
    /// holds the `whole` data.
    fn warn(&mut self, rows: usize, whole: bool) {
        let (data, schema, auxiliary) = (&self.data, &self.schema, self.settings.auxiliary_column.as_deref());
        let warnings = &mut self.warnings;
        if whole {
            warnings.extend(advice::few(rows, data, &schema.target).map(Advice::from));
            warnings.extend(advice::constants(data, schema, auxiliary));
            warnings.extend(advice::cases(schema));
            warnings.extend(leak::warnings(data, schema, auxiliary));
            if self.model.likelihood().noise().is_some() {
                warnings.extend(advice::copies(data));
            }
        }
        warnings.extend(advice::outliers(data, &input_names(schema, auxiliary), &self.units.inputs));
        if self.model.priors().iter().any(|prior| matches!(prior.mean, Mean::Linear { .. })) {
            warnings.extend(advice::slopes(rows, data.d));
        }
        warnings.extend(self.options.warnings(rows));
    }
}
