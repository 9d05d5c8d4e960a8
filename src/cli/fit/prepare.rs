//! From tables and options to a training that is ready to begin.

use std::borrow::Cow;
use std::path::Path;
use std::time::Instant;

use cagey::data::{Dataset, Frame, Notes, RowFile, Schema};
use cagey::fitted::{Plan, Settings, rows_that_count};
use cagey::train::TrainConfig;
use cagey::{Error, Result};
use sha2::{Digest, Sha256};

use super::Fit;
use crate::cli::data::in_table;
use crate::cli::model::{ModelOptions, kinds};
use crate::cli::{columns, report, shards};

/// Rows of a file that are read together.
const PART: usize = 1 << 14;

/// A training that is ready to begin.
#[derive(Debug)]
pub struct Prepared {
    pub plan: Plan,
    pub config: TrainConfig,
    /// When its time began.
    pub began: Instant,
    /// Held-out rows.
    pub test: Option<Dataset>,
    /// How the table was read.
    pub notes: Notes,
}

/// A hash of names and values that tells data sets apart.
#[derive(Default)]
struct Fingerprint(Sha256);

impl Fingerprint {
    /// Adds a data set, or the next part of one.
    fn add(&mut self, data: &Dataset) {
        data.feature_names.iter().chain([&data.target_name]).for_each(|name| self.0.update(format!("{name:?}")));
        data.x.iter().chain(data.y.iter().flatten()).for_each(|value| self.0.update(value.to_le_bytes()));
    }

    fn text(self) -> String {
        self.0.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Fit {
    /// Prepares a training from tables that stay with their ranks.
    pub(super) fn prepare_shards(&self) -> Result<Prepared> {
        self.splitting.refuse_apart()?;
        self.refuse_series()?;
        if self.rows_file.is_some() {
            return Err(Error::Usage("--rows-file is for one table; with --shards leave it out".into()));
        }
        let name = kinds::kind_for_shards(self.model.model.as_deref())?.name;
        let model = self.model.with(Some(name.into()), self.model.kernel.clone());
        let tables = shards::open(&self.shards, &self.columns, &self.reading, &model)?;
        let rows = tables.rows();
        let y = tables.first().y.as_deref().unwrap_or_default();
        let likelihood = columns::likelihood(&model, tables.schema(), y)?;
        let mut fingerprint = Fingerprint::default();
        fingerprint.0.update(tables.checksums());
        let start = self.begin(&model, tables.schema(), &likelihood, (rows, rows), fingerprint)?;
        let plan = |settings, seed| Plan::from_shards(tables, settings, seed, crate::cli::registry());
        self.prepared(start, plan, None, Notes::default())
    }

    pub(super) fn prepare_in_memory(&self, table: &Path) -> Result<Prepared> {
        let (schema, data) = self.columns.read(table, &self.reading, &self.model)?;
        self.prepare(schema, data)
    }

    /// Reads a table in memory.
    pub fn read_frame(&self, frame: &Frame) -> Result<(Schema, Dataset)> {
        self.columns.read_frame(frame, &self.reading, &self.model)
    }

    /// Prepares a training on a table that was read.
    pub fn prepare(&self, schema: Schema, mut data: Dataset) -> Result<Prepared> {
        let notes = std::mem::take(&mut data.notes);
        if let Some((_, column)) = schema.series() {
            let count = column.encoding.labels().map_or(0, <[String]>::len);
            report::say(&format!("{count} series of `{}`: one kernel, and a function for each", column.name));
        }
        let split = self.splitting.split(&data)?;
        let y = data.y.as_deref().unwrap_or_default();
        let likelihood = columns::likelihood(&self.model, &schema, y)?;
        let train = split.as_ref().map_or(Cow::Borrowed(&data), |split| Cow::Owned(data.subset(&split.train)));
        let rows = rows_that_count(&train, &likelihood, self.model.knows_noise());
        let training = (&self.training, self.is_saved());
        let model = self.model.usual((&schema, &data), &likelihood, rows, training);
        let mut fingerprint = Fingerprint::default();
        fingerprint.add(&train);
        let start = self.begin(&model, &schema, &likelihood, (rows, train.n), fingerprint)?;
        let test = split.as_ref().map(|split| data.subset(&split.test));
        let plan = |settings, seed| Plan::new(schema, &train, settings, seed, crate::cli::registry());
        self.prepared(start, plan, test, notes)
    }

    fn refuse_series(&self) -> Result<()> {
        match self.model.series() {
            Some(_) => Err(Error::Usage("--series is for one table in memory".into())),
            None => Ok(()),
        }
    }

    /// Whether states of the training are written or read.
    fn is_saved(&self) -> bool {
        self.saving.checkpoint.is_some() || self.saving.resume.is_some()
    }

    /// Prepares a training from a file of rows: the one given, or one made from the table.
    pub(super) fn prepare_on_disk(&self, table: &Path) -> Result<Prepared> {
        self.refuse_series()?;
        let name = kinds::kind_for_file(self.model.model.as_deref())?.name;
        if self.splitting.split_mask.is_some() {
            return Err(Error::Usage(
                "--split-mask is for tables in memory; choose --holdout or --holdout-last".into(),
            ));
        }
        let model = self.model.with(Some(name.into()), self.model.kernel.clone());
        let rows = match &self.rows_file {
            Some(file) => self.columns.store(table, &self.reading, &self.model, file)?,
            None => {
                self.columns.refuse()?;
                RowFile::open(table)?
            }
        };
        let (train, test) = match self.splitting.by_share(rows.len())? {
            Some(split) => (split.train, Some(rows.read(&split.test)?)),
            None => ((0..rows.len()).collect(), None),
        };
        let mut fingerprint = Fingerprint::default();
        train.chunks(PART).try_for_each(|part| rows.read(part).map(|data| fingerprint.add(&data)))?;
        let mut y = Vec::new();
        if model.likelihood.is_none() && rows.schema().classes.is_none() {
            let all: Vec<usize> = (0..rows.len()).collect();
            for part in all.chunks(PART) {
                y.extend(rows.read(part)?.y.into_iter().flatten());
            }
        }
        let likelihood = columns::likelihood(&model, rows.schema(), &y)?;
        let start = self.begin(&model, rows.schema(), &likelihood, (train.len(), train.len()), fingerprint)?;
        let notes = rows.notes().clone();
        let plan = |settings, seed| Plan::from_file(rows.into(), train, settings, seed, crate::cli::registry());
        self.prepared(start, plan, test, notes)
    }

    /// A training that is ready to begin, after a check that its held-out rows can be scored.
    fn prepared(
        &self,
        (settings, config): (Settings, TrainConfig),
        plan: impl FnOnce(Settings, u64) -> Result<Plan>,
        test: Option<Dataset>,
        notes: Notes,
    ) -> Result<Prepared> {
        let began = Instant::now();
        let in_table = in_table(self.data.as_deref());
        let plan = plan(settings, config.seed).map_err(&in_table)?;
        if let Some(test) = &test {
            plan.check(test).map_err(in_table)?;
        }
        Ok(Prepared { plan, config, began, test, notes })
    }

    /// What to fit, for a number of rows that count, and the configuration of the training on so many rows, which are
    /// noted. It is an error if the device is not available.
    fn begin(
        &self,
        model: &ModelOptions,
        schema: &Schema,
        likelihood: &str,
        (counted, rows): (usize, usize),
        fingerprint: Fingerprint,
    ) -> Result<(Settings, TrainConfig)> {
        if let Some(sentence) = model.approximation(likelihood, counted)? {
            report::say(&sentence);
        }
        ModelOptions::check(std::slice::from_ref(model), likelihood, counted)?;
        let settings = model.settings(likelihood, counted, &self.training)?;
        self.model.device.announce(settings.compute);
        settings.compute.device()?;
        let settings = Settings { store_factor: self.store_factor, ..settings };
        // The column of known noise or exposures is no input.
        let inputs = schema.d() - usize::from(settings.auxiliary_column.is_some()).min(schema.d());
        let (count, columns) = (report::count(rows, "row"), report::count(inputs, "input column"));
        report::say(&format!("{count}, {columns}, target `{}`", schema.target));
        let options = crate::cli::registry().models.options(&settings.model)?;
        self.training.check(&[&*options], rows)?;
        let on_disk = self.data.as_ref().is_some_and(|data| self.on_disk(data));
        let fingerprint =
            serde_json::json!({ "data": fingerprint.text(), "rows_on_disk": on_disk, "settings": settings });
        let config = self.saving.extend(self.training.config(&*options, rows), fingerprint.to_string());
        Ok((settings, config))
    }
}
