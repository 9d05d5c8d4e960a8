//! Calibration of intervals and of class probabilities on rows that the model did not see.

use rayon::prelude::*;

use super::{Calibrate, Fitted};
use crate::advice::Advice;
use crate::data::{Dataset, TargetTransform};
use crate::error::{Error, Result};
use crate::metrics::{Calibration, Predictive, Source, TargetPrediction, Temperature};
use crate::params::{Parameter, Unit};
use crate::threads;

/// No distribution is fitted to fewer residuals than this.
pub(super) const FEW: usize = 20;
/// With fewer rows the default is a Student-t for the unknown scale; a distribution is fitted to residuals only on
/// request.
const ENOUGH: usize = 50;
/// Fewer rows that are set apart say less of the temperature of classes than a model does: those of 5,000 rows.
const TELL: usize = 500;
/// Least gain in log likelihood for automatic calibration, in nats, on rows that it was not fitted to.
const WORTH: f64 = 4.6;

fn enough(n: usize) -> Result<()> {
    match n >= FEW {
        true => Ok(()),
        false => Err(Error::Data(format!("{n} rows are too few to calibrate predictions, which takes {FEW}"))),
    }
}

impl Fitted {
    /// Whether predictions differ from the model's own.
    pub fn is_calibrated(&self) -> bool {
        let alone = |fitted: &Self| fitted.calibration.is_some() || fitted.temperature.is_some();
        alone(self) || self.members().iter().any(|member| alone(&member.fitted))
    }

    /// The same model without its calibration.
    pub fn uncalibrated(&self) -> Self {
        let plain = |fitted: &Self| Self { calibration: None, temperature: None, ..fitted.clone() };
        self.each_kept(plain)
    }

    /// The same model with intervals from standardised residuals of rows that it was not trained on; for classes, with
    /// probabilities at the [temperature](Temperature) that fits those rows.
    ///
    /// # Errors
    /// [`Error::Usage`] for likelihoods of neither Gaussian targets nor classes, [`Error::Data`] for fewer than 20
    /// rows, and as [`predict`](Self::predict).
    pub fn calibrated_on(&self, data: &Dataset) -> Result<Self> {
        if !self.members().is_empty() {
            return self.each(|member| member.calibrated_on(data));
        }
        let plain = self.uncalibrated();
        if self.model.likelihood().classes().is_some() {
            enough(data.n)?;
            self.check_targets(data)?;
            let y = data.y.clone().unwrap_or_default();
            let predictions = plain.predict_targets(data)?;
            return Ok(plain.with_temperature(y, &predictions, Source::Share));
        }
        let y: Vec<f64> = self.target_scale.forward(data)?.into_iter().map(|z| self.target_scale.inverse(z)).collect();
        let predictions = plain.predict(data)?;
        let z: Vec<f64> = y.iter().zip(&predictions).map(|(y, p)| p.standardised(*y)).collect();
        plain.with_residuals(&z, predictions.iter(), Source::Share)
    }

    /// The same model with intervals from leave-one-out residuals of its own rows; for classes, with probabilities at
    /// the [temperature](Temperature) that fits the left-out ones.
    ///
    /// # Errors
    /// [`Error::Usage`] for models without leave-one-out predictions in closed form, [`Error::Data`] for fewer than 20
    /// rows.
    pub fn calibrated_by_leaving_out(&self) -> Result<Self> {
        if !self.members().is_empty() {
            return self.each(Self::calibrated_by_leaving_out);
        }
        let plain = self.uncalibrated();
        if self.model.likelihood().classes().is_some() {
            enough(self.data.n())?;
            let (y, predictions) = plain.left_out_targets()?;
            return Ok(plain.with_temperature(y, &predictions, Source::LeaveOneOut));
        }
        let left = plain.closed()?;
        let (z, own) = (left.standardised(), self.in_user_units(&left.marginals));
        let rows = self.tested(&z);
        let z: Vec<f64> = rows.iter().map(|row| z[*row]).collect();
        plain.with_residuals(&z, rows.iter().map(|row| &own[*row]), Source::LeaveOneOut)
    }

    /// Calibrates a trained model as the settings ask. A failure must not lose the model: it becomes a warning. `apart`
    /// are rows that were kept from the training.
    pub(super) fn calibrate(mut self, apart: Option<&Dataset>) -> Self {
        let (closed, classes) = (self.posterior.leave_one_out().is_some(), self.model.likelihood().classes().is_some());
        let calibrated = match (self.settings.calibrate, apart) {
            // Set apart for the weights of an average.
            (Calibrate::Auto, Some(apart)) if classes && apart.n < TELL => return self,
            (Calibrate::Yes | Calibrate::Auto, Some(apart)) => self.calibrated_on(apart),
            (Calibrate::Yes, None) => self.calibrated_by_leaving_out(),
            (Calibrate::Auto, _) if classes => {
                let calibrated = self.calibrated_by_leaving_out().ok();
                let pays = |fitted: &Self| fitted.temperature.is_some_and(|temperature| temperature.gain > 0.0);
                return calibrated.filter(pays).unwrap_or(self);
            }
            (Calibrate::Auto, _) if self.summary.rows < ENOUGH => {
                self.calibration = self.of_few_rows();
                return self;
            }
            (Calibrate::Auto, _) if closed && self.data.n() >= ENOUGH => {
                let calibrated = self.calibrated_by_leaving_out().ok();
                let pays = |fitted: &Self| fitted.calibration.is_some_and(|calibration| calibration.gain > WORTH);
                return calibrated.filter(pays).unwrap_or(self);
            }
            _ => return self,
        };
        calibrated.unwrap_or_else(|error| {
            let Advice { text, settings } = error.advice();
            let text = format!("predictions are not calibrated, but as the model says: {text}");
            self.summary.warnings.push(Advice { text, settings });
            self
        })
    }

    /// The calibration for few rows, if the scale of Gaussian predictions was learned from them.
    fn of_few_rows(&self) -> Option<Calibration> {
        let learned = |(_, p): &(_, &Parameter)| p.unit != Unit::Variance || !p.fixed;
        let all = self.settings.auxiliary_column.is_none() && self.model.parameters().iter().all(learned);
        let trained = self.is_gaussian() && self.summary.iterations > 0;
        if all && trained { Calibration::of_few_rows(self.summary.rows) } else { None }
    }

    /// The same model with the temperature that fits predictions of classes (codes).
    fn with_temperature(self, codes: Vec<f64>, predictions: &[TargetPrediction], source: Source) -> Self {
        let probabilities: Option<Vec<_>> = predictions.iter().map(TargetPrediction::probabilities).collect();
        let codes: Vec<usize> = codes.into_iter().map(|code| code as usize).collect();
        let temperature = probabilities.map(|probabilities| Temperature::fit(&codes, &probabilities, source));
        Self { temperature, ..self }
    }

    /// The same model with the distribution of these residuals of rows that the model knew so much of.
    fn with_residuals<'a>(
        &self,
        z: &[f64],
        rows: impl Iterator<Item = &'a Predictive>,
        source: Source,
    ) -> Result<Self> {
        enough(z.len())?;
        // The exponential of a heavy tail has no standard deviation.
        let tails = self.settings.target_transform == TargetTransform::Identity;
        let calibration = Calibration::fit_by(z, source, tails, side_by_side).within(rows.map(Predictive::spread));
        Ok(Self { calibration: Some(calibration), ..self.clone() })
    }

    /// Normal predictions of targets, in the user's units, with the calibration if there is one.
    pub fn calibrated(&self, predictions: Vec<Predictive>) -> Vec<Predictive> {
        match &self.calibration {
            None => predictions,
            Some(calibration) => predictions.into_iter().map(|p| calibration.apply(p)).collect(),
        }
    }
}

/// Computes numbers in as many threads as there are.
fn side_by_side(count: usize, of: &(dyn Fn(usize) -> f64 + Sync)) -> Vec<f64> {
    threads::map((0..count).into_par_iter(), of)
}
