//! Plans for rows in a file, which are read when needed.

use std::sync::Arc;

use super::super::Settings;
use super::super::registry::Registry;
use super::super::stored::Stored;
use super::checks::{enough, share_apart};
use super::{Elsewhere, Plan};
use crate::data::{RowFile, Split};
use crate::error::{Error, Result};

impl Plan {
    /// Prepares a model for rows in a file that need not fit in memory: a model that takes minibatches, or parts of the
    /// rows that processes share. `rows` are the positions in the file. What is chosen from data before the training
    /// (scales, inducing inputs, initial values) is chosen from 65,536 of them.
    ///
    /// # Errors
    /// As [`new`](Self::new), for any of the rows; [`Error::Usage`] for models that take all rows at once and for
    /// positions after the last row, [`Error::Io`] if the file cannot be read.
    pub fn from_file(
        file: Arc<RowFile>,
        rows: Vec<usize>,
        settings: Settings,
        seed: u64,
        registry: &Registry,
    ) -> Result<Self> {
        let reads = registry.models.row(settings.model.kind()).is_some_and(|row| row.reads);
        if !reads && registry.models.options(&settings.model)?.minibatches().is_none() {
            let model = settings.model.kind();
            return Err(Error::Usage(format!(
                "the {model} model takes all rows at once; with rows in a file choose a model that takes minibatches \
                 or parts of the rows"
            ))
            .about("Settings::model"));
        }
        let (rows, apart) = match share_apart(&settings, rows.len(), registry)? {
            None => (rows, None),
            Some(share) => {
                let split = Split::random(rows.len(), share, seed)?;
                enough(&settings, rows.len(), Some(split.test.len()))?;
                let of = |places: &[usize]| places.iter().map(|place| rows[*place]).collect::<Vec<_>>();
                (of(&split.train), Some(file.read(&of(&split.test))?))
            }
        };
        let stored = Stored { file, rows, auxiliary_column: settings.auxiliary_column.clone() };
        let sample = stored.sample(seed)?;
        let schema = stored.file.schema().clone();
        let mut plan = Self::of(schema, &sample, Elsewhere::File(&stored), settings, seed, registry)?;
        plan.warn(stored.rows.len(), sample.n == stored.rows.len());
        apart.iter().try_for_each(|apart| plan.check(apart))?;
        plan.apart = apart;
        Ok(plan)
    }
}
