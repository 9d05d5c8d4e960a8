//! Starting values from the data, for parameters without given values.

use super::{Kernel, Leaf};
use crate::params::{Parameter, Unit};

/// Sets every parameter that was not given. Lengthscales come from the median distance along each column. Variances
/// split the target's variance equally among the summands. Periods are a tenth of the range. Walks begin as long before
/// the first row as the rows are wide.
///
/// `x` is row-major `[n, d]` in standardised units; call [`Kernel::set_units`] first.
pub fn initialise(kernel: &mut Kernel, x: &[f64], d: usize) {
    let columns: Vec<Column> = (0..d).map(|c| Column::of(x, d, c)).collect();
    let share = 1.0 / kernel.summands().len() as f64;
    let plain = Column { median_distance: 1.0, range: 4.0, least: -2.0 };
    kernel.visit_mut(&columns, &plain, share, &mut set);
}

#[derive(Clone)]
struct Column {
    median_distance: f64,
    range: f64,
    least: f64,
}

impl Column {
    /// Median absolute difference over at most 1,000 rows spread over the data; 1 for a constant column.
    fn of(x: &[f64], d: usize, c: usize) -> Self {
        let n = x.len() / d;
        let step = n.div_ceil(1000).max(1);
        let mut values: Vec<f64> = (0..n).step_by(step).map(|i| x[i * d + c]).collect();
        values.sort_by(f64::total_cmp);
        let range = values.last().zip(values.first()).map_or(0.0, |(b, a)| b - a);
        let mut distances: Vec<f64> = values
            .iter()
            .enumerate()
            .flat_map(|(i, a)| values[i + 1..].iter().map(move |b| b - a))
            .filter(|distance| *distance > 0.0)
            .collect();
        let middle = distances.len() / 2;
        let median =
            if distances.is_empty() { 1.0 } else { *distances.select_nth_unstable_by(middle, f64::total_cmp).1 };
        let least = values.first().copied().unwrap_or_default();
        Self { median_distance: median, range: if range > 0.0 { range } else { 1.0 }, least }
    }
}

/// Sets the parameters of a leaf that sees the columns `active`.
fn set(leaf: &mut Leaf, active: &[Column], variance: f64) {
    let d = active.len().max(1);
    let mean = |f: &dyn Fn(&Column) -> f64| active.iter().map(f).sum::<f64>() / d as f64;
    let of = |p: &Parameter, f: &dyn Fn(&Column) -> f64| -> Vec<f64> {
        if p.len() == d { active.iter().map(f).collect() } else { vec![mean(f); p.len()] }
    };
    for p in leaf.parameters.iter_mut().filter(|p| !p.given) {
        let values = match (p.unit, p.name.as_str()) {
            (Unit::Length, "period") => of(p, &|c| 0.1 * c.range),
            (Unit::Length, "origin") => of(p, &|c| c.least - c.range),
            // Typical distances grow with √d, so lengthscales do too.
            (Unit::Length, _) => of(p, &|c| c.median_distance * (d as f64).sqrt()),
            (Unit::Variance, _) => vec![variance / p.len() as f64; p.len()],
            (Unit::VariancePerLengthSquared, _) => vec![variance / d as f64; p.len()],
            (Unit::Frequency, "frequency") => {
                let q = p.len() / d;
                (0..p.len()).map(|i| 0.5 * (1 + i / d) as f64 / (q as f64 * active[i % d].median_distance)).collect()
            }
            (Unit::Frequency, _) => (0..p.len()).map(|i| 0.2 / active[i % d].median_distance).collect(),
            (Unit::None | Unit::Level | Unit::Slope, _) => continue,
        };
        p.put_internal(&values);
    }
}
