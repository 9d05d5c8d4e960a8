//! Rows in order of time.

use super::chain::Rows;

/// Times, targets and noise variances in order of time, and where each row was.
#[derive(Debug, Clone)]
pub struct Sorted {
    /// The place of each row before it was sorted; none if the rows were in order.
    order: Option<Vec<usize>>,
    t: Vec<f64>,
    y: Vec<f64>,
    noise: Vec<f64>,
}

impl Sorted {
    /// Sorts rows, of which equal ones keep their order.
    pub fn new(t: Vec<f64>, y: Vec<f64>, noise: Vec<f64>) -> Self {
        if t.is_sorted() {
            return Self { order: None, t, y, noise };
        }
        let mut order: Vec<usize> = (0..t.len()).collect();
        order.sort_by(|a, b| t[*a].total_cmp(&t[*b]));
        let pick = |values: Vec<f64>| order.iter().map(|at| values[*at]).collect();
        Self { t: pick(t), y: pick(y), noise: pick(noise), order: Some(order) }
    }

    /// These rows, and `times` at which nothing was seen.
    pub fn with(&self, times: &[f64]) -> Self {
        let joined = |own: &[f64], more: f64| own.iter().copied().chain(times.iter().map(|_| more)).collect();
        let t = self.t.iter().chain(times).copied().collect();
        Self::new(t, joined(&self.y, 0.0), joined(&self.noise, f64::INFINITY))
    }

    /// The rows.
    pub fn rows(&self) -> Rows<'_> {
        Rows { t: &self.t, y: &self.y, noise: &self.noise }
    }

    /// The last time.
    pub fn last(&self) -> f64 {
        self.t.last().copied().unwrap_or(f64::NEG_INFINITY)
    }

    /// Appends rows that are not earlier than the last.
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
