//! Where trainings of sums over a single input begin, and bounds of the search: parts start at different scales, a
//! model at the parameters of a simpler one, and no parameter runs along a ridge.

use std::f64::consts::PI;

use super::season::{in_units, is_period};
use super::single::along;
use crate::fitted::alternatives::{median_gap, span};
use crate::kernels::Kernel;
use crate::models::Observations;
use crate::models::columns::Units;
use crate::models::gp_model::GpModel;
use crate::params::{Constraint, Parameters};

/// Stationary kernels, the roughest first.
const ROUGH: [&str; 5] = ["matern12", "matern32", "matern52", "rq", "rbf"];

/// Distances between rows in the first lengthscale of what lasts for a short time.
const SHORT: f64 = 3.0;

/// The summands of a kernel: each with the number of its first parameter and how many it has.
fn summands(kernel: &Kernel) -> Vec<(&Kernel, usize, usize)> {
    let mut next = 0;
    let parts = kernel.summands().into_iter().map(|part| {
        let (first, count) = (next, part.parameters().len());
        next += count;
        (part, first, count)
    });
    parts.collect()
}

/// Starts the free lengthscales of several stationary summands at different scales: the smoothest at its own start, the
/// roughest at a few rows, the others between. From the same start, one of them does not find the short scale of rows
/// in clusters.
pub fn spread(model: &mut dyn GpModel, data: &Observations) {
    if model.priors().len() != 1 {
        return;
    }
    let Some((_, data)) = along(model, data) else { return };
    let mut parts = Vec::new();
    for (part, first, _) in summands(&model.prior().kernel) {
        if let Kernel::Leaf(leaf) = part.inner()
            && let Some(rank) = ROUGH.iter().position(|name| *name == leaf.form.name())
            && leaf.parameters.first().is_some_and(|p| p.is_length() && !p.given && !p.fixed)
        {
            parts.push((rank, first));
        }
    }
    let short = SHORT * median_gap(&data.x).unwrap_or(f64::INFINITY);
    parts.sort_unstable();
    let mut parameters = model.parameters_mut();
    let long = parts.last().map_or(0.0, |(_, at)| parameters[*at].1.internal()[0]);
    if parts.len() < 2 || 2.0 * short > long {
        return;
    }
    for (place, (_, at)) in parts.iter().enumerate() {
        let share = place as f64 / (parts.len() - 1) as f64;
        let parameter = &mut *parameters[*at].1;
        if parameter.constraint() == Constraint::FREE {
            parameter.put_internal(&[short * (long / short).powf(share)]);
        }
    }
}

/// The least prior variance of a part that may come back.
const LEAST: f64 = 1e-4;

/// The model at whose parameters another begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::fitted) struct Link {
    /// Its number.
    pub of: usize,
    /// Whether the other adds to it what does not change much. Then it is not worth a training if this one is hopeless.
    pub adds: bool,
}

/// Starts a model at the parameters of an earlier one: those of the noise, and of parts of the kernel that both have,
/// or of the only part. What is new and lasts for a short time begins with half of the noise, a few rows long; a second
/// such part is as many times longer as the rows are, each in equal steps of their logarithms.
pub(in crate::fitted) fn extend(
    (model, kernel): (&mut dyn GpModel, &str),
    (earlier, simpler): (&dyn GpModel, &str),
    data: &Observations,
) {
    let Some((_, data)) = along(model, data) else { return };
    let (own, mut free) = (parts(model, kernel), parts(earlier, simpler));
    let known: Vec<Vec<f64>> = earlier.parameters().iter().map(|(_, parameter)| parameter.internal()).collect();
    let (single, gap) = (own.len() == 1 && free.len() == 1, median_gap(&data.x).unwrap_or(1.0));
    let mut starts: Vec<(usize, Vec<f64>)> = Vec::new();
    // Noise, and what else is not of the kernel.
    let [first, from] = [&*model, earlier].map(|model| model.prior().kernel.parameters().len());
    starts.extend(known[from..].iter().enumerate().map(|(k, values)| (first + k, values.clone())));
    let noise = known.last().and_then(|noise| noise.first()).copied().unwrap_or_default();
    let mut lasting = 0;
    for (text, first, count) in own {
        let same = free.iter().position(|(other, _, n)| *n == count && (single || *other == text));
        if let Some((_, from, _)) = same.map(|at| free.remove(at)) {
            starts.extend((0..count).map(|k| (first + k, known[from + k].clone())));
            lasting += usize::from(text.starts_with("matern"));
        } else if text.starts_with("matern") {
            let long = (data.n() as f64 / SHORT).powf(0.5 * lasting as f64);
            starts.push((first, vec![SHORT * gap * long]));
            starts.push((first + 1, vec![0.5 * noise]));
            lasting += 1;
        }
    }
    let mut parameters = model.parameters_mut();
    for (at, values) in starts {
        let Some((path, parameter)) = parameters.get_mut(at) else { continue };
        if !parameter.fixed && !parameter.given && parameter.len() == values.len() {
            let least = if path.ends_with(".variance") { LEAST } else { 0.0 };
            parameter.put_internal(&values.iter().map(|value| value.max(least)).collect::<Vec<_>>());
        }
    }
}

/// The summands of a kernel with their texts.
fn parts<'a>(model: &dyn GpModel, kernel: &'a str) -> Vec<(&'a str, usize, usize)> {
    let summands = summands(&model.prior().kernel).into_iter();
    kernel.split(" + ").zip(summands).map(|(text, (_, first, count))| (text, first, count)).collect()
}

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
