//! Plans for tables that stay apart, each with its rank.

use super::super::registry::Registry;
use super::super::shards::Tables;
use super::super::{Calibrate, Settings};
use super::{Elsewhere, Plan};
use crate::error::{Error, Result};

impl Plan {
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
        let (schema, first) = (tables.schema().clone(), tables.first());
        let mut plan = Self::of(schema, first, Elsewhere::Apart(&tables), settings, seed, registry)?;
        plan.warn(tables.rows(), false);
        plan.tables = Some(tables);
        Ok(plan)
    }
}
