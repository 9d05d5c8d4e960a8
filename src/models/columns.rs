//! Which columns of a table are inputs, which one is auxiliary (noise, exposure or trials), and how a model sees them.

use serde::{Deserialize, Serialize};

use crate::data::{Dataset, InputScale, Moments, Schema, TargetScale};
use crate::error::{Error, Result};
use crate::likelihoods::{Auxiliary, Likelihood, Targets};
use crate::models::Observations;
use crate::models::gp_model::UserUnits;
use crate::suggest::hint;

/// Names of the input columns, in the order of the kernel's `dims`.
pub fn input_names(schema: &Schema, auxiliary_column: Option<&str>) -> Vec<String> {
    schema.feature_names().into_iter().filter(|name| Some(name.as_str()) != auxiliary_column).collect()
}

/// The columns of a table, split by what a model does with them.
pub struct Inputs {
    /// Inputs `[n, d]`, row-major, without the auxiliary column.
    pub x: Vec<f64>,
    /// Their names `[d]`.
    pub names: Vec<String>,
    /// The auxiliary value of each row `[n]`, for the likelihood.
    pub auxiliary: Option<Vec<f64>>,
}

impl Inputs {
    /// Splits the columns of a table.
    ///
    /// # Errors
    /// [`Error::Data`] if there is no such column or it holds a negative number.
    pub fn of(data: &Dataset, auxiliary_column: Option<&str>) -> Result<Self> {
        let Some(column) = auxiliary_column else {
            return Ok(Self { x: data.x.clone(), names: data.feature_names.clone(), auxiliary: None });
        };
        let Some(at) = data.feature_names.iter().position(|name| name == column) else {
            let hint = hint(column, &data.feature_names, "the input columns are");
            return Err(Error::Data(format!("no input column `{column}` for the auxiliary values of rows; {hint}")));
        };
        let known: Vec<f64> = (0..data.n).map(|i| data.row(i)[at]).collect();
        if let Some(i) = known.iter().position(|sd| *sd < 0.0) {
            let (row, sd) = (data.numbers()[i], known[i]);
            return Err(Error::Data(format!("row {row}, column `{column}`: {sd} is negative")));
        }
        let keep = |(i, _): &(usize, &f64)| i % data.d != at;
        let x = data.x.iter().enumerate().filter(keep).map(|(_, v)| *v).collect();
        let names = data.feature_names.iter().filter(|name| *name != column).cloned().collect();
        Ok(Self { x, names, auxiliary: Some(known) })
    }
}

/// Checks the targets of a table, and its auxiliary column, against a likelihood.
///
/// # Errors
/// [`Error::Data`] naming the first row that does not fit.
pub fn check_targets(likelihood: &dyn Likelihood, data: &Dataset, auxiliary_column: Option<&str>) -> Result<()> {
    let Inputs { auxiliary, .. } = Inputs::of(data, auxiliary_column)?;
    let targets = Targets { y: data.y.as_deref().unwrap_or_default(), auxiliary: auxiliary.as_deref() };
    likelihood.check(targets, Some(&data.numbers()))
}

/// The units in which a model sees rows.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Units {
    pub inputs: InputScale,
    pub target: TargetScale,
    /// The kind of auxiliary value.
    pub auxiliary: Auxiliary,
}

impl Units {
    /// The same in the form that models take.
    pub fn of_user(&self) -> UserUnits {
        let Self { inputs, target, .. } = self;
        UserUnits {
            input_mean: inputs.mean.clone(),
            input_sd: inputs.sd.clone(),
            target_mean: target.mean,
            target_sd: target.sd,
        }
    }

    /// The range of each input as a model sees it, from `moments`, which begin with those of the inputs.
    pub fn ranges(&self, moments: &[Moments]) -> Vec<[f64; 2]> {
        let scales = self.inputs.mean.iter().zip(&self.inputs.sd);
        moments.iter().zip(scales).map(|(column, (mean, sd))| column.range.map(|x| (x - mean) / sd)).collect()
    }

    /// Rows with targets as a model sees them.
    ///
    /// # Errors
    /// Errors of the scales.
    pub fn observe(&self, inputs: Inputs, data: &Dataset) -> Result<Observations> {
        let auxiliary = inputs.auxiliary.map(|auxiliary| row_values(self.auxiliary, auxiliary, &self.target));
        Observations::new(self.inputs.apply(&inputs.x)?, inputs.names.len(), self.target.forward(data)?, auxiliary)
    }
}

pub use cagey_base::scale::row_values;
