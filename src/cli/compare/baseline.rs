//! Baselines that any model should beat: the mean of the training targets (for classes, their shares), and ridge
//! regression; of forecasts, also the value a season before, and smoothing.

use std::time::Instant;

use cagey::data::{Classes, Dataset, InputScale, Schema, TargetScale, TargetTransform};
use cagey::fitted::{Fit, Plan, structure};
use cagey::linalg::Factor;
use cagey::metrics::Predictive;
use cagey::models::state_space::StateSpaceOptions;
use cagey::{Error, Result};

use crate::cli::scoring::{RowScores, score_predictive, score_probabilities};

/// A simple model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Baseline {
    /// The mean and standard deviation of the training targets; for classes, their shares.
    Mean,
    /// Linear regression. Leave-one-out errors in closed form choose its penalty and give its standard deviation.
    Ridge,
    /// Of a series, the last value known one or more whole seasons before; without a season, the last value. Errors are
    /// those over one season in the training rows, and grow with the square root of the number of seasons.
    Naive,
    /// The local level, trend and season model, as ETS has it, by its state space.
    Smoothing,
}

/// Exponents `k` of the penalties to try: `10^(k/2)` per row.
const PENALTIES: std::ops::RangeInclusive<i32> = -8..=4;

impl Baseline {
    /// The baselines for a plan: all for real targets, without those of forecasts if it is none, the shares for
    /// classes, none for other targets.
    pub fn of(plan: &Plan, forecast: bool) -> &'static [Self] {
        let likelihood = plan.model().likelihood();
        match likelihood.classes() {
            Some(_) => &[Self::Mean],
            None if likelihood.scaled() && forecast => &[Self::Mean, Self::Ridge, Self::Naive, Self::Smoothing],
            None if likelihood.scaled() => &[Self::Mean, Self::Ridge],
            None => &[],
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "(mean)",
            Self::Ridge => "(ridge)",
            Self::Naive => "(seasonal naive)",
            Self::Smoothing => "(smoothing)",
        }
    }

    /// Its scores of held-out rows, and the seconds that it took.
    ///
    /// # Errors
    /// As scales and factorisations.
    pub fn score(self, plan: &Plan, schema: &Schema, train: &Dataset, test: &Dataset) -> Result<(RowScores, f64)> {
        let start = Instant::now();
        let scored = match schema.classes.as_ref().map(Classes::labels) {
            Some(labels) => {
                let mut counts = vec![1.0; labels.len()];
                train.y.iter().flatten().for_each(|code| counts[*code as usize] += 1.0);
                let all: f64 = counts.iter().sum();
                let shares: Vec<f64> = counts.iter().map(|count| count / all).collect();
                score_probabilities(test.y.as_deref().unwrap_or_default(), &vec![shares; test.n], labels.to_vec())?
            }
            None => {
                let settings = plan.settings();
                let scale = TargetScale::fit(settings.target_transform, train)?;
                let predictions = match self {
                    Self::Mean => vec![scale.predictive(0.0, 1.0); test.n],
                    Self::Ridge => ridge(&scale, settings.auxiliary_column.as_deref(), train, test)?,
                    Self::Naive => naive_of_each(&scale, schema, train, test)?,
                    Self::Smoothing => smoothing(settings.target_transform, schema, train, test)?,
                };
                score_predictive(test.y.as_deref().unwrap_or_default(), &predictions)?
            }
        };
        Ok((scored, start.elapsed().as_secs_f64()))
    }
}

/// The forecasts of each series from its own rows; of a series without rows, the mean of all.
fn naive_of_each(scale: &TargetScale, schema: &Schema, train: &Dataset, test: &Dataset) -> Result<Vec<Predictive>> {
    let (period, known) = (structure::periods(schema, train).last().copied(), structure::apart(schema, train));
    let mut all = vec![scale.predictive(0.0, 1.0); test.n];
    for (number, rows, test) in structure::apart(schema, test) {
        if let Some((.., train)) = known.iter().find(|(known, ..)| *known == number) {
            rows.into_iter().zip(naive(scale, period, train, &test)?).for_each(|(row, own)| all[row] = own);
        }
    }
    Ok(all)
}

fn naive(scale: &TargetScale, period: Option<f64>, train: &Dataset, test: &Dataset) -> Result<Vec<Predictive>> {
    let mut known: Vec<(f64, f64)> = train.x.iter().copied().zip(scale.forward(train)?).collect();
    known.sort_by(|a, b| a.0.total_cmp(&b.0));
    let last = known.last().map_or(0.0, |(t, _)| *t);
    let mut gaps: Vec<f64> = known.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    gaps.sort_by(f64::total_cmp);
    let step = period.or(gaps.get(gaps.len() / 2).copied()).filter(|step| *step > 0.0);
    let step = step.ok_or_else(|| Error::Data("the rows have one time, and no step to forecast over".into()))?;
    // The value nearest to a time.
    let near = |t: f64| {
        let after = known.partition_point(|(own, _)| *own < t).min(known.len() - 1);
        let before = after.saturating_sub(1);
        known[if (known[before].0 - t).abs() < (known[after].0 - t).abs() { before } else { after }].1
    };
    let first = known[0].0 + step * (1.0 - NEAR);
    let changes = known.iter().filter(|(t, _)| *t >= first).map(|(t, y)| (y - near(t - step)).powi(2));
    let (sum, count) = changes.fold((0.0, 0), |(sum, count), square| (sum + square, count + 1));
    let sd = (sum / f64::from(count.max(1))).sqrt().max(f64::MIN_POSITIVE.sqrt());
    let ahead = |t: &f64| {
        let steps = ((t - last) / step - NEAR).ceil().max(1.0);
        let from = if period.is_some() { t - steps * step } else { last };
        scale.predictive(near(from), sd * steps.sqrt())
    };
    Ok(test.x.iter().map(ahead).collect())
}

/// The share of a step that times may be off a whole number of steps: months differ in length.
const NEAR: f64 = 0.02;

fn smoothing(
    target_transform: TargetTransform,
    schema: &Schema,
    train: &Dataset,
    test: &Dataset,
) -> Result<Vec<Predictive>> {
    let kernel = structure::smoothing(schema, train);
    let model = StateSpaceOptions::default();
    let fit = Fit::new(train).schema(schema.clone()).kernel(kernel).model(model).target_transform(target_transform);
    fit.run()?.predict(test)
}

fn ridge(scale: &TargetScale, without: Option<&str>, train: &Dataset, test: &Dataset) -> Result<Vec<Predictive>> {
    let kept: Vec<usize> = (0..train.d).filter(|at| Some(train.feature_names[*at].as_str()) != without).collect();
    let inputs = |data: &Dataset| -> Vec<f64> {
        (0..data.n).flat_map(|row| kept.iter().map(move |at| data.row(row)[*at])).collect()
    };
    let (n, d, y) = (train.n, kept.len(), scale.forward(train)?);
    let units = InputScale::fit(&inputs(train), d)?;
    let (x, new) = (units.apply(&inputs(train))?, units.apply(&inputs(test))?);
    let mut gram = vec![0.0; d * d];
    let mut projected = vec![0.0; d];
    for (row, y) in x.chunks(d).zip(&y) {
        for (i, a) in row.iter().enumerate() {
            projected[i] += a * y;
            row.iter().enumerate().for_each(|(j, b)| gram[i * d + j] += a * b);
        }
    }
    let mut columns = vec![0.0; d * n];
    x.chunks(d).enumerate().for_each(|(r, row)| row.iter().enumerate().for_each(|(i, v)| columns[i * n + r] = *v));
    let product = |row: &[f64], weights: &[f64]| row.iter().zip(weights).map(|(a, w)| a * w).sum::<f64>();
    let mut best: Option<(f64, Vec<f64>)> = None;
    for power in PENALTIES {
        let mut system = gram.clone();
        system.iter_mut().step_by(d + 1).for_each(|value| *value += n as f64 * 10f64.powf(0.5 * f64::from(power)));
        let factor = Factor::new(system, "XᵀX with a penalty")?;
        let (mut weights, mut half) = (projected.clone(), columns.clone());
        factor.solve(&mut weights)?;
        factor.solve_lower(&mut half)?;
        let errors = x.chunks(d).zip(&y).enumerate().map(|(r, (row, y))| {
            let leverage = half[r..].iter().step_by(n).map(|v| v * v).sum::<f64>() + 1.0 / n as f64;
            ((y - product(row, &weights)) / (1.0 - leverage).max(1e-6)).powi(2)
        });
        let error = errors.sum::<f64>() / n as f64;
        if best.as_ref().is_none_or(|(least, _)| error < *least) {
            best = Some((error, weights));
        }
    }
    let Some((error, weights)) = best else { return Err(Error::NotFinite("the error of ridge regression".into())) };
    let sd = error.sqrt().max(f64::MIN_POSITIVE);
    // The exponential of an extreme linear prediction has no finite mean.
    let bound = |mean: f64| if scale.transform == TargetTransform::Identity { mean } else { mean.clamp(-6.0, 6.0) };
    Ok(new.chunks(d).map(|row| scale.predictive(bound(product(row, &weights)), sd)).collect())
}
