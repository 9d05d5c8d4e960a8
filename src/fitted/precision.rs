//! Whether single precision was enough for a model, asked once it is trained.

use crate::advice::Advice;
use crate::device::{Compute, Precision};
use crate::error::Result;
use crate::models::Observations;
use crate::models::gp_model::{GpModel, Size};
use crate::params::shown;
use crate::scope::{Scope, scalar, to_f64};

/// The command warns of rounding when it changes the objective by more than this: nats per row.
const TOLERANCE: f64 = 0.01;

/// Bytes of an evaluation in double precision beyond which it is left out: a trained model is not risked for it.
const MOST: f64 = 2e9;

/// Says when rounding in single precision changes the objective of a model that was trained on all rows: the
/// covariances' errors are then no longer small beside the noise, and training goes where they lower the objective
/// most. On the CPU, where there are both.
///
/// A policy's actions are left out: in double precision they are others.
pub fn warning(model: &dyn GpModel, compute: Compute, data: &Observations) -> Option<Advice> {
    let single = compute.precision == Precision::F32 && compute.kind.is_cpu();
    if !single || !model.is_comparable() {
        return None;
    }
    let double = Compute { precision: Precision::F64, ..compute };
    let size = Size { rows: data.n(), columns: data.d, batch: data.n() };
    if model.bytes(double, size) > MOST {
        return None;
    }
    let per_row = |compute| Some(objective(model, compute, data).ok()? / data.n() as f64);
    let (single, double) = (per_row(compute)?, per_row(double)?);
    ((single - double).abs() > TOLERANCE).then(|| {
        let text = format!(
            "rounding in single precision changes the objective: {single:.3} per row, {double:.3} in double \
             precision. The noise is too small for it: train in double precision"
        );
        Advice::from(text).set("Compute::precision", "f64")
    })
}

/// Says when the covariance of the rows was too near singular to be factorised as it is, by the relative jitter that it
/// took.
pub fn jitter(
    model: &dyn GpModel,
    compute: Compute,
    data: &Observations,
    relative: f64,
    target_sd: f64,
) -> Option<Advice> {
    if relative == 0.0 {
        return None;
    }
    let scope = Scope::new(compute).ok()?;
    let variances = to_f64(model.prior().kernel.diag(&scope, &data.batch(&scope).x).ok()?).ok()?;
    let variance = variances.iter().sum::<f64>() / variances.len() as f64;
    let text = format!(
        "the covariance of the rows is nearly singular and took a jitter of {relative:.0e} of its mean diagonal, as \
         much as noise of sd {}: error bars are not narrower. Bound the noise below, or choose a kernel whose values \
         are not far larger than the target's",
        shown((relative * variance).sqrt() * target_sd)
    );
    Some(Advice::from(text).about("Settings::bounds"))
}

fn objective(model: &dyn GpModel, compute: Compute, data: &Observations) -> Result<f64> {
    let scope = Scope::new(compute)?.with_budget(model.budget(data.n(), compute.precision));
    scalar(model.objective(&scope, &data.batch(&scope))?)
}
