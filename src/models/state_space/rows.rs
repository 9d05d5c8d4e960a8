//! Rows in order of time, one series after another.

use std::cmp::Ordering;

use super::axes::Times;
use super::chain::Rows;

/// Times, targets and noise variances in order of time, and where each row was.
#[derive(Debug, Clone)]
pub struct Sorted {
    /// The place of each row before it was sorted; none if the rows were in order.
    order: Option<Vec<usize>>,
    times: Times,
    /// Whether each row is the first of another series; of one series, nothing.
    begins: Vec<bool>,
    y: Vec<f64>,
    noise: Vec<f64>,
}

impl Times {
    /// The order of two rows: by their series, then by time.
    fn order(&self, a: usize, b: usize) -> Ordering {
        let of_series = self.series.get(a).zip(self.series.get(b)).map_or(Ordering::Equal, |(a, b)| a.total_cmp(b));
        of_series.then(self.t[a].total_cmp(&self.t[b]))
    }

    /// These and more.
    fn and(&self, more: &Self) -> Self {
        let joined = |own: &[f64], more: &[f64]| [own, more].concat();
        Self { t: joined(&self.t, &more.t), series: joined(&self.series, &more.series) }
    }
}

impl Sorted {
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
        let times = Times { t: pick(times.t), series: pick(times.series) };
        let begins = (0..times.series.len()).map(|row| row > 0 && times.series[row] != times.series[row - 1]).collect();
        Self { begins, times, y: pick(y), noise: pick(noise), order }
    }

    /// These rows, and `times` at which nothing was seen.
    pub fn with(&self, times: &Times) -> Self {
        let more = times.t.len();
        let joined = |own: &[f64], value: f64| [own, &vec![value; more]].concat();
        Self::new(self.times.and(times), joined(&self.y, 0.0), joined(&self.noise, f64::INFINITY))
    }

    /// The rows.
    pub fn rows(&self) -> Rows<'_> {
        Rows { t: &self.times.t, y: &self.y, noise: &self.noise, begins: &self.begins }
    }

    /// The last time. Of several series it is infinite: nothing comes after all rows.
    pub fn last(&self) -> f64 {
        match self.times.series.as_slice() {
            [] => self.times.t.last().copied().unwrap_or(f64::NEG_INFINITY),
            _ => f64::INFINITY,
        }
    }

    /// Appends rows of a single series that are not earlier than the last.
    pub fn extend(&mut self, more: Self) {
        let n = self.times.t.len();
        if let (None, Some(_)) = (&self.order, &more.order) {
            self.order = Some((0..n).collect());
        }
        if let Some(order) = &mut self.order {
            order.extend((0..more.times.t.len()).map(|row| n + more.place(row)));
        }
        self.times.t.extend(more.times.t);
        self.y.extend(more.y);
        self.noise.extend(more.noise);
    }

    /// Where a row was before it was sorted.
    pub fn place(&self, row: usize) -> usize {
        self.order.as_ref().map_or(row, |order| order[row])
    }
}
