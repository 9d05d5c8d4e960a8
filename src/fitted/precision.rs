//! Checks, after a training, whether single precision was enough for the model.

use crate::advice::Advice;
use crate::device::{Compute, Precision};
use crate::error::Result;
use crate::models::Observations;
use crate::models::gp_model::{GpModel, Size};
use crate::params::shown;
use crate::scope::{Scope, scalar, to_f64};

/// The command warns of rounding if it changes the objective by more than this: nats per row.
const TOLERANCE: f64 = 0.01;

/// The check is left out if an evaluation in double precision takes more bytes: a trained model is not risked for it.
const MOST: f64 = 2e9;

/// A warning if rounding in single precision changes the objective of a model that was trained on all rows. The errors
/// of the covariances are then no longer small beside the noise, and training goes where these errors lower the
/// objective most. The check is made on the CPU only, which has both precisions.
///
/// Models with a policy's actions are left out: in double precision they have other actions.
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

/// A warning if the covariance of the rows was too nearly singular to factorise as it is; `relative` is the relative
/// jitter that the factorisation took.
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
