//! Bounds of the search: where parameters would run along a ridge, or to states that rows cannot tell apart.

use std::f64::consts::PI;

use super::season::{in_units, is_period};
use super::single::along;
use crate::fitted::alternatives::{median_gap, span};
use crate::models::Observations;
use crate::models::columns::Units;
use crate::models::gp_model::GpModel;
use crate::params::Constraint;

/// The least lengthscale of a walk, as a share of the span of the rows. A shorter one with a smaller variance is nearly
/// the same walk, and there is no end to that.
const WALK: f64 = 0.1;

/// The least lengthscale of a season, in which it has about thirty harmonics; and of one that is longer than another,
/// for each time that the shorter one fits into it: what is as short as that is that season's.
const SEASON: f64 = 0.2;
const LONGER: f64 = 5.0;

/// Upper bounds, as multiples of the lower ones.
const WIDE: f64 = 1e8;

/// Bounds the lengthscales of walks and seasons that are not bounded yet. Returns the numbers of these parameters.
pub(in crate::fitted) fn bound(model: &mut dyn GpModel, data: &Observations, units: &Units) -> Vec<usize> {
    let mut bounded = Vec::new();
    let Some((column, data)) = along(model, data) else { return bounded };
    let x = in_units(&data, column, units);
    let (gap, mut period) = (median_gap(&x).unwrap_or_default(), f64::INFINITY);
    let periods = model.parameters().into_iter().filter(|(_, parameter)| is_period(parameter));
    let shortest = periods.map(|(_, parameter)| parameter.values()[0]).fold(f64::INFINITY, f64::min);
    for (at, (path, parameter)) in model.parameters_mut().into_iter().enumerate() {
        if is_period(parameter) {
            period = parameter.values()[0];
        }
        let least = match path.rsplit('.').nth(1) {
            Some(part) if part.starts_with("wiener") => WALK * span(&x),
            // A wave between two rows is not seen.
            Some(part) if part.starts_with("periodic") => {
                let longer = if period > shortest { LONGER * shortest / period } else { 0.0 };
                SEASON.max(PI * gap / period).max(longer)
            }
            _ => continue,
        };
        let open = parameter.name == "lengthscale" && !parameter.given && !parameter.fixed;
        // Without a span of the rows there are no such bounds.
        if open && parameter.constraint() == Constraint::FREE && parameter.set_bounds(least, WIDE * least).is_ok() {
            bounded.push(at);
        }
    }
    bounded
}

/// A model without these bounds, to judge its parameters by.
pub(in crate::fitted) fn unbound(model: &dyn GpModel, bounded: &[usize]) -> Box<dyn GpModel> {
    let mut free = model.boxed();
    let mut parameters = free.parameters_mut();
    for at in bounded {
        let (_, parameter) = &mut parameters[*at];
        if let Constraint::Interval { lower, upper } = parameter.constraint() {
            let _ = parameter.set_bounds(lower / WIDE, upper);
        }
    }
    drop(parameters);
    free
}
