//! Which columns of a table are inputs and which tell the noise.

use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::suggest::nearest;

/// The columns of a table by what a model does with them.
pub struct Inputs {
    /// Inputs `[n, d]`, row-major, without the noise column.
    pub x: Vec<f64>,
    /// Their names `[d]`.
    pub names: Vec<String>,
    /// Known standard deviations of the targets `[n]`.
    pub noise: Option<Vec<f64>>,
}

impl Inputs {
    /// Splits the columns of a table.
    ///
    /// # Errors
    /// [`Error::Data`] when there is no such noise column or it holds a negative number.
    pub fn of(data: &Dataset, noise_column: Option<&str>) -> Result<Self> {
        let Some(column) = noise_column else {
            return Ok(Self { x: data.x.clone(), names: data.feature_names.clone(), noise: None });
        };
        let Some(at) = data.feature_names.iter().position(|name| name == column) else {
            let hint = match nearest(column, data.feature_names.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the input columns are {}", data.feature_names.join(", ")),
            };
            return Err(Error::Data(format!("no input column `{column}` with the known noise; {hint}")));
        };
        let known: Vec<f64> = (0..data.n).map(|i| data.row(i)[at]).collect();
        if let Some(i) = known.iter().position(|sd| *sd < 0.0) {
            let (row, sd) = (data.rows[i], known[i]);
            return Err(Error::Data(format!(
                "row {row}, column `{column}`: {sd} is no standard deviation; it is negative"
            )));
        }
        let keep = |(i, _): &(usize, &f64)| i % data.d != at;
        let x = data.x.iter().enumerate().filter(keep).map(|(_, v)| *v).collect();
        let names = data.feature_names.iter().filter(|name| *name != column).cloned().collect();
        Ok(Self { x, names, noise: Some(known) })
    }
}
