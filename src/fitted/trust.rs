//! Whether a fitted model's intervals hold: on held-out rows, and on its own rows, each left out in turn.

use super::Fitted;
use super::copies::{copied, is_arranged};
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::linalg::Factor;
use crate::linalg::dense::{product, view, view_mut};
use crate::metrics::Predictive;
use crate::metrics::diagnosis::{Diagnosis, Draws, Finding, Residuals, Verdict, diagnose};
use crate::models::diagnose::replaces_noise;
use crate::models::posterior::Marginals;

/// Most rows whose errors are drawn together and whose shapes of misfit are diagnosed.
const MOST_HELD_OUT: usize = 1000;
const MOST_LEFT_OUT: usize = 2000;
/// R² of `n` rows that is below 0 by more than this, divided by √n, is not due to chance.
const CHANCE: f64 = 2.0;
/// The share of the least noise variance below which mean squared errors are those of rounding.
const ROUNDING: f64 = 0.01;
/// Most training rows whose residuals are drawn together: 32 MB of them.
const MOST_TOGETHER: usize = 10_000;

/// Predictions of the training rows, each from all others.
#[derive(Debug, Clone)]
pub struct LeftOut {
    /// The targets, in the data's units.
    pub y: Vec<f64>,
    /// Their predictions.
    pub predictions: Vec<Predictive>,
    /// Why each row still has its part in the training of the hyperparameters, if that cannot be removed.
    pub unknown: Option<String>,
    /// The closed form, with the hyperparameters as they are.
    pub(super) marginals: Marginals,
}

impl LeftOut {
    /// Standardised residuals.
    pub fn standardised(&self) -> Vec<f64> {
        standardised(&self.y, &self.predictions)
    }

    /// Log densities of the targets, in the data's units.
    pub fn log_densities(&self) -> Vec<f64> {
        self.y.iter().zip(&self.predictions).map(|(y, prediction)| prediction.log_density(*y)).collect()
    }
}

fn standardised(y: &[f64], predictions: &[Predictive]) -> Vec<f64> {
    y.iter().zip(predictions).map(|(y, prediction)| prediction.standardised(*y)).collect()
}

/// At most `most` of `n` rows, evenly spaced.
fn some(n: usize, most: usize) -> Vec<usize> {
    (0..n.min(most)).map(|k| k * n / n.min(most)).collect()
}

impl Fitted {
    /// Leave-one-out predictions of the training targets, in closed form; none for models without such a form. The
    /// effect of each row on the training of the hyperparameters is left out too, if the model knows its
    /// [influence](crate::models::leave_one_out::LeaveOneOut::influence).
    ///
    /// # Errors
    /// Errors of that computation.
    pub fn left_out(&self) -> Result<Option<LeftOut>> {
        if !self.members.is_empty() {
            return self.mixed_left_out();
        }
        let Some(closed) = self.posterior.leave_one_out() else { return Ok(None) };
        let marginals = crate::threads::helped(|| closed.left_out(&self.data))?;
        // A model may use some of the rows only: then the others have no leave-one-out predictions.
        if marginals.mean.len() != self.data.n() {
            return Ok(None);
        }
        if marginals.mean.iter().chain(&marginals.variance).any(|value| !value.is_finite()) {
            return Err(Error::NotFinite("a leave-one-out prediction".into()));
        }
        let (mut moved, mut unknown) = (marginals.clone(), None);
        if self.summary.is_cut_short() {
            // Away from a minimum the influence means little, and the user waits.
            unknown = Some("it was cut short".to_string());
        } else if self.summary.iterations > 0
            && let Some(influence) = crate::threads::helped(|| closed.influence())?
        {
            moved = influence.applied(&marginals);
            unknown = influence.unknown.clone();
        }
        let y = self.targets();
        let predictions = self.calibrated(self.in_user_units(&moved));
        Ok(Some(LeftOut { y, predictions, unknown, marginals }))
    }

    /// Whether intervals hold for the training rows, each predicted from all others. Copies of other rows are left out:
    /// they test nothing.
    ///
    /// # Errors
    /// Errors of drawing residuals.
    pub fn diagnose_left_out(&self, left: &LeftOut) -> Result<Diagnosis> {
        let n = self.data.n();
        let copied = copied(&self.data.x, self.data.d, &self.data.y);
        let mut tested = self.tested(&left.standardised());
        tested.retain(|row| !copied[*row]);
        let rows: Vec<usize> = some(tested.len(), MOST_LEFT_OUT).into_iter().map(|place| tested[place]).collect();
        let Some(closed) = self.posterior.leave_one_out().filter(|_| n > 0) else {
            return Err(Error::Usage("this model leaves no row out in closed form".into()));
        };
        let draws = match n {
            ..=MOST_TOGETHER => {
                let all = Draws::together(n, |noise, count| closed.residuals(noise, count, &left.marginals.variance))?;
                all.subset(&rows)
            }
            _ => Draws::independent(rows.len()),
        };
        let x: Vec<f64> =
            rows.iter().flat_map(|row| &self.data.x[row * self.data.d..][..self.data.d]).copied().collect();
        // Rows in another order than the table's say nothing about its order.
        let order = closed.in_order().then_some(rows.as_slice());
        let mut diagnosis = self.judged((&left.y, &left.predictions), &rows, (&x, order), &draws);
        let holds = diagnosis.verdict == Verdict::Hold && !self.has_rough_part();
        if self.is_noiseless() && (holds || self.is_rounding(left, &rows)) {
            // What is left are rounding errors and gaps of the rows, which have shapes of their own.
            diagnosis.findings.clear();
            if diagnosis.verdict == Verdict::Hold {
                diagnosis.verdict = Verdict::Noiseless;
            }
        }
        Ok(diagnosis)
    }

    /// Whether intervals hold for the rows of a table, which were not trained on.
    ///
    /// # Errors
    /// [`Error::Data`] for no rows, as [`predict`](Self::predict), and errors of drawing residuals.
    pub fn diagnose(&self, data: &Dataset, y: &[f64], predictions: &[Predictive]) -> Result<Diagnosis> {
        if data.n == 0 {
            return Err(Error::Data("there are no rows to test whether intervals hold".into()));
        }
        let rows = some(data.n, MOST_HELD_OUT);
        let sample = data.subset(&rows);
        let (x, known) = self.standardise(&sample)?;
        let learned = self.noise().unwrap_or_default();
        let n = rows.len();
        let mut covariance = if self.posterior.is_joint() {
            crate::threads::helped(|| self.posterior.predict_joint(&x))?.covariance
        } else {
            // This treats rows as independent, which leaves less to chance.
            let marginals = crate::threads::helped(|| self.posterior.predict(&x))?;
            let mut diagonal = vec![0.0; n * n];
            diagonal.iter_mut().step_by(n + 1).zip(marginals.variance).for_each(|(d, variance)| *d = variance);
            diagonal
        };
        for i in 0..n {
            covariance[i * n + i] += learned + known.as_ref().map_or(0.0, |known| known[i]);
        }
        let sd: Vec<f64> = covariance.iter().step_by(n + 1).map(|variance| variance.sqrt()).collect();
        let draws = Draws::together(n, |noise, count| {
            let mut lower = Factor::new(covariance, "the covariance of held-out rows")?.lower();
            crate::linalg::dense::clear_upper(&mut lower, n);
            let mut made = vec![0.0; noise.len()];
            product::set(view_mut(&mut made, count), view(&lower, n), view(&noise, count), 1.0);
            made.chunks_mut(count).zip(&sd).for_each(|(row, sd)| row.iter_mut().for_each(|value| *value /= sd));
            Ok(made)
        });
        // Without a factor of the covariance, the draws are independent.
        let draws = draws.unwrap_or_else(|_| Draws::independent(n));
        let order = if sample.records.len() == n { sample.records } else { rows.clone() };
        let mut diagnosis = self.judged((y, predictions), &rows, (&x, Some(&order)), &draws);
        let beyond = self.beyond(&x).map(|(input, share)| Finding::Beyond { input, share });
        if let Some(beyond) = beyond.filter(|found| {
            matches!(found, Finding::Beyond { share: 1.0, .. }) || diagnosis.held.iter().any(|held| !held.holds)
        }) {
            // All other findings follow from this one.
            diagnosis.findings = vec![beyond];
        }
        self.compare_with_mean(y, predictions, &mut diagnosis);
        Ok(diagnosis)
    }

    /// Adds to a diagnosis that predictions are worse than the mean of the rows. If they are far worse, it does not
    /// matter that intervals are wide enough.
    fn compare_with_mean(&self, y: &[f64], predictions: &[Predictive], diagnosis: &mut Diagnosis) {
        let n = y.len() as f64;
        let mean = y.iter().sum::<f64>() / n;
        let about = |centre: f64| y.iter().map(|y| (y - centre).powi(2)).sum::<f64>();
        let error: f64 = y.iter().zip(predictions).map(|(y, prediction)| (y - prediction.mean()).powi(2)).sum();
        let r2 = 1.0 - error / about(mean);
        // Constant targets have no R².
        if !(r2.is_finite() && r2 < 0.0) {
            return;
        }
        let trained = self.targets().iter().sum::<f64>() / self.data.n() as f64;
        diagnosis.findings.push(Finding::BelowMean { r2, below_training: error > about(trained) });
        if diagnosis.verdict == Verdict::Hold && r2 < -CHANCE / n.sqrt() {
            diagnosis.verdict = Verdict::Worse;
        }
    }

    /// Whether rows are left out with errors that are a small part of the least noise.
    fn is_rounding(&self, left: &LeftOut, rows: &[usize]) -> bool {
        let square = |row: &usize| Some((self.data.y.get(*row)? - left.marginals.mean.get(*row)?).powi(2));
        let squares: Option<f64> = rows.iter().map(square).sum();
        squares.is_some_and(|squares| squares < ROUNDING * rows.len() as f64 * self.noise().unwrap_or_default())
    }

    /// Whether a part of the kernel has what would else be noise.
    fn has_rough_part(&self) -> bool {
        self.model.priors().into_iter().any(|prior| replaces_noise(&prior.kernel))
    }

    /// Whether the noise was learned, and is the least that it may be.
    fn is_noiseless(&self) -> bool {
        let parameters = self.model.parameters();
        parameters.iter().any(|(path, noise)| path.ends_with("noise") && !noise.fixed && noise.at_bound())
    }

    /// The coverage of some rows, and the shapes of their misfit.
    fn judged(
        &self,
        (y, predictions): (&[f64], &[Predictive]),
        rows: &[usize],
        (x, order): (&[f64], Option<&[usize]>),
        draws: &Draws,
    ) -> Diagnosis {
        let all = standardised(y, predictions);
        let targets: Vec<f64> = rows.iter().map(|row| y[*row]).collect();
        // Along sorted rows errors change with the column that they are sorted by.
        let known = order.filter(|_| !is_arranged(x, self.data.d, &targets));
        let order: Vec<usize> = known.map_or(vec![0; rows.len()], <[usize]>::to_vec);
        let z: Vec<f64> = rows.iter().map(|row| all[*row]).collect();
        let mean: Vec<f64> = rows.iter().map(|row| predictions[*row].median()).collect();
        diagnose(&Residuals { z: &z, mean: &mean, x, d: self.data.d, order: &order }, draws)
    }
}
