//! Figures over any inputs: how good a model is, how it was trained, and its parts.

use std::path::Path;

use cagey::data::Dataset;
use cagey::fitted::Fitted;
use cagey::metrics::{ReliabilityBin, calibration_curve, pit_curve, probability_transform, reliability};
use cagey::plot::{Calibration, Figure, Frame, LearningCurve, PartPoints, Parts, Points, Reliability, Run};
use cagey::{Error, Result};

use crate::cli::data::targets;
use crate::cli::scoring::{SEED, probabilities};

/// Draws coverage against level; for classes, accuracy against confidence.
pub fn calibration(fitted: &Fitted, data: Option<&Dataset>, path: &Path) -> Result<()> {
    if fitted.is_gaussian() {
        let (y, predictions) = match data {
            Some(data) => (targets(data, fitted.target_transform())?.to_vec(), fitted.predict(data)?),
            None => fitted.leave_one_out()?,
        };
        let pit: Vec<f64> = y.iter().zip(&predictions).map(|(y, p)| p.cdf(*y)).collect();
        return draw(&calibration_curve(&y, &predictions), &pit, path);
    }
    let Some(data) = data else {
        return Err(Error::Usage("calibration under this likelihood needs a table of rows to score; name one".into()));
    };
    let y = targets(data, fitted.target_transform())?;
    fitted.check_targets(data)?;
    let predictions = fitted.predict_targets(data)?;
    if let Some(probabilities) = probabilities(&predictions) {
        let codes: Vec<usize> = y.iter().map(|y| *y as usize).collect();
        let bins: Vec<_> = reliability(&codes, &probabilities)?.iter().map(ReliabilityBin::parts).collect();
        return Reliability { bins: &bins, frame: Frame::default() }.save(path);
    }
    let pit = probability_transform(y, &predictions, SEED);
    draw(&pit_curve(&pit), &pit, path)
}

fn draw(curve: &[(f64, f64)], pit: &[f64], path: &Path) -> Result<()> {
    let (nominal, observed): (Vec<f64>, Vec<f64>) = curve.iter().copied().unzip();
    Calibration { nominal: &nominal, observed: &observed, pit, frame: Frame::default() }.save(path)
}

/// Draws the loss against the step.
pub fn learning(fitted: &Fitted, path: &Path) -> Result<()> {
    let records = &fitted.summary.history.records;
    let restarts = records.iter().map(|r| r.restart).max().unwrap_or(0) + 1;
    let series: Vec<(String, Vec<f64>, Vec<f64>)> = (0..restarts)
        .map(|restart| {
            let run = || records.iter().filter(move |r| r.restart == restart);
            (format!("start {restart}"), run().map(|r| r.loss).collect(), run().map(|r| r.seconds).collect())
        })
        .collect();
    let runs: Vec<Run> = series.iter().map(|(name, loss, seconds)| Run { name, loss, seconds }).collect();
    LearningCurve { runs: &runs, ..LearningCurve::default() }.save(path)
}

/// Draws the inducing inputs over the first two columns, and the coefficient of each part.
pub fn parts(fitted: &Fitted, path: &Path) -> Result<()> {
    let parts = fitted.posterior().inducing_parts();
    if parts.is_empty() {
        let title = fitted.model.title();
        return Err(Error::Usage(format!("only a sparse grid has parts to draw, and this is: {title}")));
    }
    let (d, names) = (fitted.data().d, fitted.input_names());
    let mut columns = Vec::new();
    for part in &parts {
        let x = fitted.input_scale.invert(&part.inputs)?;
        let column = |c: usize| x.chunks(d).map(|row| row.get(c).copied().unwrap_or(0.0)).collect::<Vec<f64>>();
        columns.push([column(0), column(1)]);
    }
    let drawn = parts.iter().zip(&columns).map(|(part, [x, y])| PartPoints {
        points: Points { x, y },
        coefficient: part.coefficient,
        technique: part.technique,
    });
    let drawn: Vec<PartPoints> = drawn.collect();
    let [x, y] = [0, 1].map(|c| names.get(c).map_or("", String::as_str));
    Parts { parts: &drawn, frame: Frame { title: &fitted.model.title(), x, y, ..Frame::default() } }.save(path)
}
