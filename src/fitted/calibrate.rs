//! Intervals from residuals of rows that a model did not see.

use super::{Calibrate, Fitted};
use crate::data::{Dataset, TargetTransform};
use crate::error::{Error, Result};
use crate::metrics::{Calibration, Predictive, Source};

/// Residuals below which no distribution is fitted to them.
pub(super) const FEW: usize = 20;
/// Residuals below which they take the place of the normal distribution only where that was asked for.
const ENOUGH: usize = 50;
/// What they have to gain then, in nats: two numbers that say nothing gain more in one of a hundred cases.
const WORTH: f64 = 4.6;

impl Fitted {
    /// The same model without its calibration: as it says by itself.
    pub fn uncalibrated(&self) -> Self {
        Self { calibration: None, ..self.clone() }
    }

    /// The same model with intervals from standardised residuals of rows that it was not trained on.
    ///
    /// # Errors
    /// [`Error::Usage`] for other likelihoods than the Gaussian, [`Error::Data`] for fewer than 20 rows, and as
    /// [`predict`](Self::predict).
    pub fn calibrated_on(&self, data: &Dataset) -> Result<Self> {
        let plain = self.uncalibrated();
        let y: Vec<f64> = self.target_scale.forward(data)?.into_iter().map(|z| self.target_scale.inverse(z)).collect();
        let predictions = plain.predict(data)?;
        let z: Vec<f64> = y.iter().zip(&predictions).map(|(y, p)| p.standardised(*y)).collect();
        plain.with_residuals(&z, Source::Share)
    }

    /// The same model with intervals from leave-one-out residuals of its own rows.
    ///
    /// # Errors
    /// [`Error::Usage`] for models that leave no row out in closed form, [`Error::Data`] for fewer than 20 rows.
    pub fn calibrated_by_leaving_out(&self) -> Result<Self> {
        let plain = self.uncalibrated();
        let (y, predictions) = plain.leave_one_out()?;
        let z: Vec<f64> = self.tested().iter().map(|row| predictions[*row].standardised(y[*row])).collect();
        plain.with_residuals(&z, Source::LeaveOneOut)
    }

    /// What was asked for, after a training, which it may not cost; `apart` are rows that were kept from it.
    pub(super) fn calibrate(mut self, apart: Option<&Dataset>) -> Self {
        let closed = self.posterior.leave_one_out().is_some();
        let calibrated = match (self.settings.calibrate, apart) {
            (Calibrate::Yes, Some(apart)) => self.calibrated_on(apart),
            (Calibrate::Yes, None) => self.calibrated_by_leaving_out(),
            (Calibrate::Auto, _) if closed && self.data.n() >= ENOUGH => {
                let calibrated = self.calibrated_by_leaving_out().ok();
                let pays = |fitted: &Self| fitted.calibration.is_some_and(|calibration| calibration.gain > WORTH);
                return calibrated.filter(pays).unwrap_or(self);
            }
            _ => return self,
        };
        calibrated.unwrap_or_else(|problem| {
            self.summary.warnings.push(format!("intervals are not calibrated, but as the model says: {problem}"));
            self
        })
    }

    fn with_residuals(&self, z: &[f64], source: Source) -> Result<Self> {
        if z.len() < FEW {
            let n = z.len();
            return Err(Error::Data(format!("{n} residuals are too few to calibrate intervals, which takes {FEW}")));
        }
        // The exponential of a heavy tail has no mean.
        let tails = self.settings.target_transform == TargetTransform::Identity;
        let calibration = Some(Calibration::fit(z, source, tails));
        Ok(Self { calibration, ..self.clone() })
    }

    /// Normal predictions of targets, in the user's units, with the calibration, where there is one.
    pub fn calibrated(&self, predictions: Vec<Predictive>) -> Vec<Predictive> {
        match &self.calibration {
            None => predictions,
            Some(calibration) => predictions.into_iter().map(|p| calibration.apply(p)).collect(),
        }
    }
}
