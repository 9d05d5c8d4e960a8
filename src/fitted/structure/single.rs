//! A single series: all rows, or of several series those of the one that has most.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::data::{Column, Dataset, Encoding, Schema};
use crate::error::Result;
use crate::fitted::alternatives;
use crate::models::Observations;
use crate::models::gp_model::GpModel;
use crate::models::minibatch::Rows;
use crate::params::Unit;

/// The least share of the variance within series that tells anything.
const LEAST: f64 = 1e-6;

/// The columns without the one that tells series apart.
pub(in crate::fitted) fn inputs(schema: &Schema) -> impl Iterator<Item = &Column> {
    schema.features.iter().filter(|column| !matches!(column.encoding, Encoding::Series(_)))
}

/// The columns and rows of the longest series, or of the only one, without the column that tells them apart.
pub(super) fn longest<'a>(schema: &'a Schema, data: &'a Dataset) -> (Cow<'a, Schema>, Cow<'a, Dataset>) {
    let Some((at, _)) = schema.series().filter(|(at, _)| *at < data.d) else {
        return (Cow::Borrowed(schema), Cow::Borrowed(data));
    };
    let rows = data.subset(&most(data.x.iter().skip(at).step_by(data.d)));
    let schema = Schema { features: inputs(schema).cloned().collect(), ..schema.clone() };
    (Cow::Owned(schema), Cow::Owned(without(&rows, at)))
}

/// The rows of several series in order of time, so that the last ones are a forecast; other rows as they are.
pub fn in_order(schema: &Schema, data: Dataset) -> Dataset {
    let Some((series, _)) = schema.series().filter(|_| schema.d() == 2 && data.d == 2) else { return data };
    let rows = alternatives::in_order(data.n, |row| data.row(row)[1 - series]);
    let notes = data.notes.clone();
    Dataset { notes, ..data.subset(&rows) }
}

/// The rows of each series without the column that tells them apart: its number, their places, and the rows.
pub fn apart<'a>(schema: &Schema, data: &'a Dataset) -> Vec<(f64, Vec<usize>, Cow<'a, Dataset>)> {
    let Some((at, _)) = schema.series().filter(|(at, _)| *at < data.d) else {
        return vec![(0.0, (0..data.n).collect(), Cow::Borrowed(data))];
    };
    let numbers = data.x.iter().skip(at).step_by(data.d);
    let of = |rows: Vec<usize>| (data.row(rows[0])[at], rows.clone(), Cow::Owned(without(&data.subset(&rows), at)));
    by_number(numbers).into_values().map(of).collect()
}

/// Rows without a column.
fn without(data: &Dataset, at: usize) -> Dataset {
    let x = data.x.iter().enumerate().filter(|(i, _)| i % data.d != at).map(|(_, value)| *value).collect();
    let mut feature_names = data.feature_names.clone();
    feature_names.remove(at);
    Dataset { x, d: data.d - 1, feature_names, ..data.clone() }
}

/// The same of the rows that a model over time sees, with the number of its column; none of other models.
pub(in crate::fitted) fn along<'a>(
    model: &dyn GpModel,
    data: &'a Observations,
) -> Option<(usize, Cow<'a, Observations>)> {
    if data.d == 1 {
        return Some((0, Cow::Borrowed(data)));
    }
    let series = model.prior().kernel.series().filter(|series| data.d == 2 && *series < 2)?;
    let time = 1 - series;
    let own = || -> Result<Observations> {
        let rows = data.gather(&most(data.x.iter().skip(series).step_by(2)))?;
        Observations::new(rows.x.iter().skip(time).step_by(2).copied().collect(), 1, rows.y.clone(), None)
    };
    Some((time, Cow::Owned(own().ok()?)))
}

/// Starts the variances of a model of several series, which the input `at` tells apart, at those within the series: the
/// distances between their levels would hide seasons and steps.
pub(in crate::fitted) fn start_within(model: &mut dyn GpModel, data: &Observations, at: usize) {
    let spread = |rows: &[usize]| {
        let mean = rows.iter().map(|row| data.y[*row]).sum::<f64>() / rows.len() as f64;
        rows.iter().map(|row| (data.y[*row] - mean).powi(2)).sum::<f64>()
    };
    let all: Vec<usize> = (0..data.n()).collect();
    let within: f64 = by_number(data.x.iter().skip(at).step_by(data.d)).values().map(|rows| spread(rows)).sum();
    let share = within / spread(&all);
    if !model.likelihood().scaled() || !(LEAST..1.0).contains(&share) {
        return;
    }
    for (_, parameter) in model.parameters_mut() {
        let variance = matches!(parameter.unit, Unit::Variance | Unit::VariancePerLengthSquared);
        if variance && !parameter.given && !parameter.fixed {
            let values: Vec<f64> = parameter.internal().iter().map(|value| value * share).collect();
            parameter.put_internal(&values);
        }
    }
}

/// The rows with the number that most rows have; of several such numbers the least.
fn most<'a>(numbers: impl Iterator<Item = &'a f64>) -> Vec<usize> {
    let longest = by_number(numbers).into_values().reduce(|a, b| if b.len() > a.len() { b } else { a });
    longest.unwrap_or_default()
}

/// The rows that have each number.
fn by_number<'a>(numbers: impl Iterator<Item = &'a f64>) -> BTreeMap<u64, Vec<usize>> {
    let mut rows: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    numbers.enumerate().for_each(|(row, number)| rows.entry(number.to_bits()).or_default().push(row));
    rows
}
