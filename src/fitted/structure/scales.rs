//! Where the parts of a sum over a single input begin: at different scales, the rough ones at the short ones.

use super::single::along;
use crate::fitted::alternatives::median_gap;
use crate::kernels::Kernel;
use crate::models::Observations;
use crate::models::gp_model::GpModel;
use crate::params::{Constraint, Parameters};

/// Stationary kernels, the roughest first.
const ROUGH: [&str; 5] = ["matern12", "matern32", "matern52", "rq", "rbf"];

/// Distances between rows in the first lengthscale of what lasts for a short time.
pub(super) const SHORT: f64 = 3.0;

/// Starts the free lengthscales of several stationary summands at different scales: the smoothest at its own start, the
/// roughest at a few rows, the others between. From the same start, one of them does not find the short scale of rows
/// in clusters.
pub fn spread(model: &mut dyn GpModel, data: &Observations) {
    if model.priors().len() != 1 {
        return;
    }
    let Some((_, data)) = along(model, data) else { return };
    let (mut first, mut parts) = (0, Vec::new());
    for part in model.prior().kernel.summands() {
        if let Kernel::Leaf(leaf) = part.inner()
            && let Some(rank) = ROUGH.iter().position(|name| *name == leaf.form.name())
            && leaf.parameters.first().is_some_and(|p| p.is_length() && !p.given && !p.fixed)
        {
            parts.push((rank, first));
        }
        first += part.parameters().len();
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
