//! The columns of the inputs that a state space has: time, and the series that a row belongs to.

use super::program::unknown;
use crate::error::Result;
use crate::kernels::Kernel;

/// Which columns they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axes {
    /// Number of columns.
    pub d: usize,
    /// That of time.
    pub time: usize,
    /// That of the series, if there are several.
    pub series: Option<usize>,
}

/// The times of rows, and of several series the number that stands for each row's.
#[derive(Debug, Clone, Default)]
pub struct Times {
    /// Times.
    pub t: Vec<f64>,
    /// One number a row, or none at all.
    pub series: Vec<f64>,
}

impl Axes {
    /// Those of a kernel of `d` columns.
    ///
    /// # Errors
    /// [`Error::Usage`](crate::Error::Usage) for more inputs than time.
    pub fn of(kernel: &Kernel, d: usize) -> Result<Self> {
        match (d, kernel.series()) {
            (1, _) => Ok(Self { d, time: 0, series: None }),
            (2, Some(series)) => Ok(Self { d, time: 1 - series.min(1), series: Some(series) }),
            (_, series) => {
                let inputs = d - usize::from(series.is_some());
                Err(unknown(format!("it takes one input column, and there are {inputs}")))
            }
        }
    }

    /// Those that a kernel needs.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn needed(kernel: &Kernel) -> Result<Self> {
        Self::of(kernel, if kernel.series().is_some() { 2 } else { 1 })
    }

    /// The times of rows `[n, d]`.
    pub fn times(&self, x: &[f64]) -> Times {
        let column = |at: usize| x.iter().skip(at).step_by(self.d).copied().collect();
        Times { t: column(self.time), series: self.series.map(column).unwrap_or_default() }
    }
}
