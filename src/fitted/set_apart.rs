//! Rows that are kept from a training, for intervals.

use super::calibrate::FEW;
use super::registry::Registry;
use super::{Calibrate, Settings};
use crate::error::{Error, Result};
use crate::likelihoods::Support;

/// The share of the rows that is kept from the training for intervals, and the most of them.
pub(super) const APART: f64 = 0.15;
pub(super) const MOST_APART: f64 = 10_000.0;

/// Whether a calibration was asked for that takes rows of its own.
pub(super) fn sets_apart(settings: &Settings, classes: Option<usize>, registry: &Registry) -> Result<bool> {
    if settings.calibrate != Calibrate::Yes {
        return Ok(false);
    }
    let likelihood = registry.likelihoods.parse(&settings.likelihood, classes)?;
    if matches!(likelihood.density().support(likelihood.auxiliary().neutral()), Support::Classes(_)) {
        return Ok(true);
    }
    if !settings.likelihood.starts_with("gaussian") {
        return Err(Error::Usage(format!(
            "predictions are calibrated under the gaussian likelihood and of classes, and this fits {}",
            settings.likelihood
        )));
    }
    Ok(!registry.models.options(&settings.model)?.leaves_one_out(settings.row_column.is_some()))
}

/// Refuses intervals from fewer residuals than a distribution is fitted to; `apart` are the rows set apart for them.
pub(super) fn enough(settings: &Settings, rows: usize, apart: Option<usize>) -> Result<()> {
    let (found, need) = match apart {
        None => (rows, FEW),
        Some(apart) => (apart, ((FEW as f64 - 0.5) / APART).ceil() as usize),
    };
    if settings.calibrate != Calibrate::Yes || found >= FEW {
        return Ok(());
    }
    let how = match apart {
        None => "",
        Some(_) => {
            ", of which 15 in 100 are set apart for them, or with a model that leaves rows out in closed form \
             (`--model exact`)"
        }
    };
    Err(Error::Data(format!(
        "calibrated intervals take {FEW} residuals and would have {found}: leave --calibrate out, or fit to {need} \
         rows or more{how}"
    )))
}
