//! Seasons of a series: waves of the target apart from its trend, in units that a calendar has.

use super::single::{along, inputs};
use crate::advice::Advice;
use crate::data::Schema;
use crate::data::calendar::YEAR;
use crate::fitted::alternatives::{further, median_gap, periods, repeats, span};
use crate::models::Observations;
use crate::models::columns::Units;
use crate::models::gp_model::GpModel;
use crate::params::{Constraint, Parameter, Unit, shown};

/// Parts of a year that a calendar has, in years: the year, the week, the day.
const CALENDAR: [f64; 3] = [1.0, 7.0 / YEAR, 1.0 / YEAR];

/// A wave is a harmonic of a season up to this number.
const HARMONICS: u32 = 6;

/// The share of a period within which it is another.
const NEAR: f64 = 0.015;

/// Whether the only input of a table, beside the column that tells series apart, is a date.
pub fn is_dated(schema: &Schema) -> bool {
    let mut inputs = inputs(schema);
    inputs.next().is_some_and(|column| column.encoding.is_date()) && inputs.next().is_none()
}

/// Most seasons that are found.
const MOST: usize = 2;

/// The periods of the seasons that targets `y` have at inputs `x`, the shortest first.
pub fn seasons(schema: &Schema, x: &[f64], y: &[f64]) -> Vec<f64> {
    let mut found: Vec<f64> = periods(x, y).first().map(|first| calendar(schema, x, *first)).into_iter().collect();
    while !found.is_empty() && found.len() < MOST {
        let Some(next) = further(x, y, &found).map(|next| calendar(schema, x, next)) else { break };
        if found.iter().any(|known| (known / next - 1.0).abs() < NEAR) {
            break;
        }
        found.push(next);
    }
    found.sort_unstable_by(f64::total_cmp);
    found
}

/// The season of which a wave is a harmonic. Of dates, a wave that fits a year, a week or a day a whole number of times
/// is a harmonic of this season, if it is seen twice.
fn calendar(schema: &Schema, x: &[f64], wave: f64) -> f64 {
    let span = span(x);
    let whole = |unit: &&f64| {
        let waves = **unit / wave;
        let near = (1..=HARMONICS).any(|k| (waves / f64::from(k) - 1.0).abs() < NEAR);
        near && 2.0 * **unit <= span
    };
    let named = CALENDAR.iter().filter(|_| is_dated(schema)).filter(whole).copied();
    named.min_by(f64::total_cmp).unwrap_or(wave)
}

/// Starts the periods that are free, over a single input, at those of the largest waves of the targets, and keeps them
/// between twice the median gap between rows and their span.
pub fn start(model: &mut dyn GpModel, data: &Observations, units: &Units) {
    let open = |p: &Parameter| is_period(p) && !p.given && p.constraint() == Constraint::FREE;
    if data.n() == 0 || !model.parameters().iter().any(|(_, parameter)| open(parameter)) {
        return;
    }
    let Some((column, data)) = along(model, data) else { return };
    let x = in_units(&data, column, units);
    let mut found = periods(&x, &data.y).into_iter();
    let (span, gap) = (span(&x), median_gap(&x));
    for (_, parameter) in model.parameters_mut().into_iter().filter(|(_, parameter)| open(parameter)) {
        if let Some(period) = found.next() {
            parameter.put(&[period]);
        }
        // Two rows have no bounds that make sense.
        if let Some(gap) = gap {
            let _ = parameter.set_bounds(2.0 * gap, span);
        }
    }
}

/// Warnings about learned periods, over a single input, that are longer than the rows, or multiples of the target's.
pub fn multiples(model: &dyn GpModel, data: &Observations, units: &Units) -> Vec<Advice> {
    let parameters = model.parameters();
    let learned = parameters.iter().filter(|(_, parameter)| is_period(parameter) && !parameter.fixed);
    let Some((column, data)) = along(model, data) else { return Vec::new() };
    let x = in_units(&data, column, units);
    let told = learned.filter_map(|(path, parameter)| {
        let period = parameter.values()[0];
        let text = if period > span(&x) {
            format!(
                "{path} = {} is longer than the rows, which span {}: none of them repeats another; start at a shorter \
                 one",
                shown(period),
                shown(span(&x))
            )
        } else {
            let times = repeats(&x, &data.y, period)?;
            format!(
                "{path} = {} is {times} times the period of the target, which is near {}; start at that",
                shown(period),
                shown(period / f64::from(times))
            )
        };
        Some(Advice::from(text).about("Settings::init"))
    });
    told.collect()
}

pub(super) fn is_period(parameter: &Parameter) -> bool {
    parameter.unit == Unit::Length && parameter.name == "period" && parameter.len() == 1
}

/// The rows of a single input, the column of this number, in its own units.
pub(super) fn in_units(data: &Observations, column: usize, units: &Units) -> Vec<f64> {
    let (mean, sd) = (units.inputs.mean[column], units.inputs.sd[column]);
    data.x.iter().map(|x| x * sd + mean).collect()
}
