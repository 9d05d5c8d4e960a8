//! Bounds of the search: where parameters would run along a ridge, or to states that rows cannot tell apart.

use std::f64::consts::PI;

use super::season::{along, is_period};
use crate::fitted::alternatives::median_gap;
use crate::models::Observations;
use crate::models::columns::Units;
use crate::models::gp_model::GpModel;
use crate::params::{Constraint, Parameter};

/// The least lengthscale of a walk, as a share of the span of the rows. A shorter one with a smaller variance is nearly
/// the same walk, and there is no end to that.
const WALK: f64 = 0.1;

/// The least lengthscale of a season, in which it has about thirty harmonics; and of one that is longer than another,
/// for each time that the shorter one fits into it: what is as short as that is that season's.
const SEASON: f64 = 0.2;
const LONGER: f64 = 5.0;

/// Upper bounds, as multiples of the lower ones.
const WIDE: f64 = 1e8;

/// Bounds the lengthscales of walks and seasons that are not bounded yet.
pub(in crate::fitted) fn bound(model: &mut dyn GpModel, data: &Observations, units: &Units) {
    if data.d != 1 {
        return;
    }
    let x = along(data, units);
    let (low, high) = x.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), x| (l.min(*x), h.max(*x)));
    let (gap, mut period) = (median_gap(&x).unwrap_or_default(), f64::INFINITY);
    let periods = model.parameters().into_iter().filter(|(_, parameter)| is_period(parameter));
    let shortest = periods.map(|(_, parameter)| parameter.values()[0]).fold(f64::INFINITY, f64::min);
    for (path, parameter) in model.parameters_mut() {
        if is_period(parameter) {
            period = parameter.values()[0];
        }
        let least = match path.rsplit('.').nth(1) {
            Some(part) if part.starts_with("wiener") => WALK * (high - low),
            // A wave between two rows is not seen.
            Some(part) if part.starts_with("periodic") => {
                let longer = if period > shortest { LONGER * shortest / period } else { 0.0 };
                SEASON.max(PI * gap / period).max(longer)
            }
            _ => continue,
        };
        if is_open(parameter) && parameter.constraint() == Constraint::FREE {
            // Without a span of the rows there are no such bounds.
            let _ = parameter.set_bounds(least, WIDE * least);
        }
    }
}

/// A model without these bounds, to judge its parameters by.
pub(in crate::fitted) fn unbound(model: &dyn GpModel) -> Box<dyn GpModel> {
    let mut free = model.boxed();
    for (_, parameter) in free.parameters_mut().into_iter().filter(|(_, parameter)| is_open(parameter)) {
        if let Constraint::Interval { lower, upper } = parameter.constraint()
            && upper == WIDE * lower
        {
            let _ = parameter.set_bounds(lower / WIDE, upper);
        }
    }
    free
}

fn is_open(parameter: &Parameter) -> bool {
    parameter.name == "lengthscale" && !parameter.given && !parameter.fixed
}
