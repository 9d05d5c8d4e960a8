//! Times of rows, and rows in order of time, one series after another.

use std::cmp::Ordering;

use super::program::unknown;
use crate::error::Result;
use crate::kernels::Kernel;

/// The columns of the inputs that a state space has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axes {
    /// Number of columns.
    pub d: usize,
    /// The column of time.
    pub time: usize,
    /// The column of the series that a row belongs to, if there are several.
    pub series: Option<usize>,
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

/// The times of rows, and of several series the number that stands for each row's.
#[derive(Debug, Clone, Default)]
pub struct Times {
    /// Times.
    pub t: Vec<f64>,
    /// One number a row, or none at all.
    pub series: Vec<f64>,
}

impl Times {
    /// The order of two rows: by their series, then by time.
    fn order(&self, a: usize, b: usize) -> Ordering {
        let of_series = self.series.get(a).zip(self.series.get(b)).map_or(Ordering::Equal, |(a, b)| a.total_cmp(b));
        of_series.then(self.t[a].total_cmp(&self.t[b]))
    }
}

/// Rows in order of time, and where each was.
#[derive(Debug, Clone)]
pub struct Rows {
    /// The place of each row before it was sorted; none if the rows were in order.
    order: Option<Vec<usize>>,
    /// Times.
    pub t: Vec<f64>,
    series: Vec<f64>,
    /// Whether each row is the first of another series, which begins at the prior; of one series, nothing.
    begins: Vec<bool>,
    /// Targets minus their prior means; ignored where there is no target.
    pub y: Vec<f64>,
    /// Noise variances; infinite where there is no target.
    pub noise: Vec<f64>,
}

impl Rows {
    /// Sorts rows, of which equal ones keep their order.
    pub fn new(times: Times, y: Vec<f64>, noise: Vec<f64>) -> Self {
        let n = times.t.len();
        let sorted = (1..n).all(|row| times.order(row - 1, row).is_le());
        let order = (!sorted).then(|| {
            let mut order: Vec<usize> = (0..n).collect();
            order.sort_by(|a, b| times.order(*a, *b));
            order
        });
        let pick = |values: Vec<f64>| match &order {
            Some(order) if !values.is_empty() => order.iter().map(|at| values[*at]).collect(),
            _ => values,
        };
        let series = pick(times.series);
        let begins = (0..series.len()).map(|row| row > 0 && series[row] != series[row - 1]).collect();
        Self { t: pick(times.t), series, begins, y: pick(y), noise: pick(noise), order }
    }

    /// These rows, and `times` at which nothing was seen.
    pub fn with(&self, times: &Times) -> Self {
        let joined = |own: &[f64], more: &[f64]| [own, more].concat();
        let filled = |own: &[f64], value: f64| joined(own, &vec![value; times.t.len()]);
        let all = Times { t: joined(&self.t, &times.t), series: joined(&self.series, &times.series) };
        Self::new(all, filled(&self.y, 0.0), filled(&self.noise, f64::INFINITY))
    }

    /// Whether a row is the first of another series.
    #[inline(always)]
    pub fn begins(&self, row: usize) -> bool {
        self.begins.get(row).is_some_and(|begins| *begins)
    }

    /// The last time. Of several series it is infinite: nothing comes after all rows.
    pub fn last(&self) -> f64 {
        match self.series.as_slice() {
            [] => self.t.last().copied().unwrap_or(f64::NEG_INFINITY),
            _ => f64::INFINITY,
        }
    }

    /// Appends rows of a single series that are not earlier than the last.
    pub fn extend(&mut self, more: Self) {
        let n = self.t.len();
        if let (None, Some(_)) = (&self.order, &more.order) {
            self.order = Some((0..n).collect());
        }
        if let Some(order) = &mut self.order {
            order.extend((0..more.t.len()).map(|row| n + more.place(row)));
        }
        self.t.extend(more.t);
        self.y.extend(more.y);
        self.noise.extend(more.noise);
    }

    /// Where a row was before it was sorted.
    pub fn place(&self, row: usize) -> usize {
        self.order.as_ref().map_or(row, |order| order[row])
    }
}
