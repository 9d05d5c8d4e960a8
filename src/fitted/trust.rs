//! Whether a fitted model's intervals hold: on held-out rows, and on its own rows, each left out in turn.

use std::collections::HashMap;

use super::Fitted;
use crate::data::{Dataset, bits};
use crate::error::{Error, Result};
use crate::linalg::Factor;
use crate::linalg::dense::{product, view, view_mut};
use crate::metrics::Predictive;
use crate::metrics::diagnosis::{Diagnosis, Draws, Finding, Residuals, diagnose};
use crate::models::posterior::Marginals;

/// Most rows whose errors are drawn together and whose shapes of misfit are diagnosed.
const MOST_HELD_OUT: usize = 1000;
const MOST_LEFT_OUT: usize = 2000;
/// Most training rows whose residuals are drawn together: 32 MB of them.
const MOST_TOGETHER: usize = 10_000;

/// Rows of a table that are also in the training data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Copies {
    /// Positions of rows with the inputs of a training row.
    pub inputs: Vec<usize>,
    /// Positions of rows that also have its target: training rows.
    pub whole: Vec<usize>,
}

/// Rows that lie outside the training data's range.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outside {
    /// How many rows do, in any input.
    pub rows: usize,
    /// For each such input: its name, how many rows, and the training data's range in the data's units.
    pub inputs: Vec<(String, usize, [f64; 2])>,
}

/// Predictions of the training rows, each from all others.
#[derive(Debug, Clone)]
pub struct LeftOut {
    /// The targets, in the data's units.
    pub y: Vec<f64>,
    /// Their predictions.
    pub predictions: Vec<Predictive>,
    marginals: Marginals,
}

impl LeftOut {
    /// Standardised residuals.
    pub fn standardised(&self) -> Vec<f64> {
        standardised(&self.y, &self.predictions)
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
    /// [leverages](crate::models::posterior::LeaveOneOut::leverages).
    ///
    /// # Errors
    /// Errors of that computation.
    pub fn left_out(&self) -> Result<Option<LeftOut>> {
        let Some(closed) = self.posterior.leave_one_out() else { return Ok(None) };
        let mut marginals = crate::threads::helped(|| closed.left_out(&self.data))?;
        // A model may use some of the rows only: then the others have no leave-one-out predictions.
        if marginals.mean.len() != self.data.n() {
            return Ok(None);
        }
        if marginals.mean.iter().chain(&marginals.variance).any(|value| !value.is_finite()) {
            return Err(Error::NotFinite("a leave-one-out prediction".into()));
        }
        // Away from a minimum they mean little, and the user waits.
        if self.summary.iterations > 0 && !self.summary.is_cut_short() {
            let leverages = crate::threads::helped(|| closed.leverages())?.unwrap_or_default();
            for ((mean, y), leverage) in marginals.mean.iter_mut().zip(&self.data.y).zip(leverages) {
                *mean = y - (y - *mean) / (1.0 - leverage);
            }
        }
        let y = self.data.y.iter().map(|z| self.target_scale.inverse(*z)).collect();
        let predictions = self.calibrated(self.in_user_units(&marginals));
        Ok(Some(LeftOut { y, predictions, marginals }))
    }

    /// Whether intervals hold for the training rows, each predicted from all others.
    ///
    /// # Errors
    /// Errors of drawing residuals.
    pub fn diagnose_left_out(&self, left: &LeftOut) -> Result<Diagnosis> {
        let n = self.data.n();
        let tested = self.tested(&left.standardised());
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
        // Rows in another order than the table's say nothing about its order.
        let order: Vec<usize> = rows.iter().map(|row| if closed.in_order() { *row } else { 0 }).collect();
        let x = rows.iter().flat_map(|row| &self.data.x[row * self.data.d..][..self.data.d]).copied();
        Ok(self.judged((&left.y, &left.predictions), &rows, (&x.collect::<Vec<_>>(), &order), &draws))
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
        let mut diagnosis = self.judged((y, predictions), &rows, (&x, &order), &draws);
        if let Some(beyond) = self.beyond(&x).filter(|_| !diagnosis.held.iter().all(|held| held.holds)) {
            // All other findings follow from this one.
            diagnosis.findings = vec![beyond];
        }
        Ok(diagnosis)
    }

    /// The input for which most of some standardised rows lie outside the training range.
    fn beyond(&self, x: &[f64]) -> Option<Finding> {
        let (d, ranges) = (self.data.d, self.ranges());
        let share = |input: usize| {
            let outside = x[input..].iter().step_by(d).filter(|value| is_beyond(**value, ranges[input])).count();
            outside as f64 / (x.len() / d) as f64
        };
        let shares = (0..d).map(|input| Finding::Beyond { input, share: share(input) });
        shares.filter(|found| matches!(found, Finding::Beyond { share, .. } if *share >= 0.5)).max_by(|a, b| {
            let share = |found: &Finding| if let Finding::Beyond { share, .. } = found { *share } else { 0.0 };
            share(a).total_cmp(&share(b))
        })
    }

    /// The coverage of some rows, and the shapes of their misfit.
    fn judged(
        &self,
        (y, predictions): (&[f64], &[Predictive]),
        rows: &[usize],
        (x, order): (&[f64], &[usize]),
        draws: &Draws,
    ) -> Diagnosis {
        let all = standardised(y, predictions);
        let z: Vec<f64> = rows.iter().map(|row| all[*row]).collect();
        let mean: Vec<f64> = rows.iter().map(|row| predictions[*row].median()).collect();
        diagnose(&Residuals { z: &z, mean: &mean, x, d: self.data.d, order }, draws)
    }

    /// The rows of a table with the inputs of training rows; none if the model does not hold all training rows.
    ///
    /// # Errors
    /// As [`standardise`](Self::standardise).
    pub fn copies(&self, data: &Dataset) -> Result<Option<Copies>> {
        if self.data.n() != self.summary.rows {
            return Ok(None);
        }
        let (x, _) = self.standardise(data)?;
        let mut known: HashMap<Vec<u64>, Vec<f64>> = HashMap::new();
        for (row, y) in self.data.x.chunks(self.data.d).zip(&self.data.y) {
            known.entry(bits(row)).or_default().push(*y);
        }
        let y = if data.y.is_some() { self.target_scale.forward(data)? } else { Vec::new() };
        let mut copies = Copies::default();
        for (i, row) in x.chunks(self.data.d).enumerate() {
            if let Some(targets) = known.get(&bits(row)) {
                copies.inputs.push(i);
                copies.whole.extend(y.get(i).is_some_and(|y| targets.contains(y)).then_some(i));
            }
        }
        Ok(Some(copies))
    }

    /// The rows of a table that lie outside the range of the training data. A model only guesses there.
    ///
    /// # Errors
    /// As [`standardise`](Self::standardise).
    pub fn outside(&self, data: &Dataset) -> Result<Outside> {
        let (x, _) = self.standardise(data)?;
        let (d, names) = (self.data.d, self.input_names());
        let (ranges, user) = (self.ranges(), self.input_ranges());
        let rows = x.chunks(d).filter(|row| row.iter().zip(&ranges).any(|(value, range)| is_beyond(*value, *range)));
        let mut outside = Outside { rows: rows.count(), inputs: Vec::new() };
        for (column, name) in names.into_iter().enumerate() {
            let count = x[column..].iter().step_by(d).filter(|value| is_beyond(**value, ranges[column])).count();
            outside.inputs.extend((count > 0).then_some((name, count, user[column])));
        }
        Ok(outside)
    }

    /// The range of each input over the training rows in the data's units, whether or not the model holds these rows.
    pub fn input_ranges(&self) -> Vec<[f64; 2]> {
        let scales = self.input_scale.mean.iter().zip(&self.input_scale.sd);
        self.ranges().iter().zip(scales).map(|(range, (mean, sd))| range.map(|z| z * sd + mean)).collect()
    }

    /// The training rows that stand for new rows when they are left out, given the standardised residuals of all rows:
    /// those whose inputs occur once, because rows with a twin look too good. If most rows have a twin, or if rows with
    /// a twin have larger errors than the others, all of them.
    pub(super) fn tested(&self, z: &[f64]) -> Vec<usize> {
        let mut counts: HashMap<Vec<u64>, usize> = HashMap::new();
        let rows = || self.data.x.chunks(self.data.d).map(bits);
        rows().for_each(|row| *counts.entry(row).or_default() += 1);
        let (mut single, mut twins) = (Vec::new(), Vec::new());
        rows().enumerate().for_each(|(i, row)| if counts[&row] == 1 { &mut single } else { &mut twins }.push(i));
        let error = |rows: &[usize]| rows.iter().map(|row| z[*row].abs()).sum::<f64>() / rows.len().max(1) as f64;
        let too_good = single.len() >= twins.len() && error(&twins) < error(&single);
        if too_good { single } else { (0..z.len()).collect() }
    }

    /// The range of each input over the training rows, standardised.
    pub(super) fn ranges(&self) -> Vec<[f64; 2]> {
        match self.summary.ranges.as_ref().filter(|ranges| ranges.len() == self.data.d) {
            Some(ranges) => ranges.clone(),
            None => self.data.ranges(),
        }
    }
}

/// Whether a value lies outside a range by more than rounding.
fn is_beyond(value: f64, [low, high]: [f64; 2]) -> bool {
    let slack = 1e-9 * (high - low).max(f64::MIN_POSITIVE);
    value < low - slack || value > high + slack
}
