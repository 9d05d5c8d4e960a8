//! Plans for rows elsewhere: in a file, which is read when needed, or in tables that stay apart, each with its rank.

use std::sync::Arc;

use super::super::{Calibrate, Registry, Settings, Tables};
use super::Plan;
use super::checks::{enough, share_apart};
use super::table::{Elsewhere, Table};
use crate::data::{RowFile, Split};
use crate::distributed::Stored;
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
        let table = Table { schema: stored.file.schema(), data: &sample, seed, registry };
        let plan = table.of(Elsewhere { file: Some(&stored), ..Elsewhere::default() }, settings)?;
        apart.iter().try_for_each(|apart| plan.check(apart))?;
        Ok(Self { apart, ..plan })
    }

    /// Prepares one expert for each of these tables. What is chosen from data before the training (initial values, but
    /// not scales) is chosen from the first table.
    ///
    /// # Errors
    /// As [`new`](Self::new); [`Error::Usage`] for models that need all rows in one place, and for intervals from rows
    /// set apart.
    pub fn from_shards(tables: Tables, settings: Settings, seed: u64, registry: &Registry) -> Result<Self> {
        if !registry.models.row(settings.model.kind()).is_some_and(|row| row.apart) {
            let model = settings.model.kind();
            return Err(Error::Usage(format!(
                "the {model} model needs all rows in one place; for rows that stay apart choose a model of experts"
            ))
            .about("Settings::model"));
        }
        if settings.calibrate == Calibrate::Yes {
            return Err(Error::Usage(
                "calibrated intervals need rows of all tables, but these stay where they are: do not ask for them"
                    .into(),
            )
            .about("Settings::calibrate"));
        }
        let table = Table { schema: tables.schema(), data: tables.first(), seed, registry };
        let plan = table.of(Elsewhere { tables: Some(&tables), ..Elsewhere::default() }, settings)?;
        Ok(Self { tables: Some(tables), ..plan })
    }
}
