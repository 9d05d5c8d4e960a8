//! Figures over two input columns.

use std::path::Path;

use cagey::arithmetic::ends;
use cagey::data::Dataset;
use cagey::fitted::Fitted;
use cagey::metrics::{Predictive, TargetPrediction};
use cagey::models::label_regression::LabelRegressionOptions;
use cagey::models::options::Kind;
use cagey::plot::{Decision, Figure, Frame, Points, Posterior2d};
use cagey::{Error, Result};

use super::{evenly, training, two_classes};

/// Most points along each axis: there are no more pixels.
const MOST_ACROSS: usize = 500;

/// Draws mean and standard deviation of f (for counts, of the rate), or the regions of two classes.
pub fn draw(fitted: &Fitted, data: Option<&Dataset>, points: Option<usize>, path: &Path) -> Result<()> {
    let (x, y) = training(fitted)?;
    let held_out = match data {
        Some(data) => fitted.input_scale.invert(&fitted.standardise(data)?.0)?,
        None => Vec::new(),
    };
    let column = |x: &[f64], c: usize| x.chunks(2).map(|row| row[c]).collect::<Vec<f64>>();
    let [first, second] = [0, 1].map(|c| column(&x, c));
    let others = [0, 1].map(|c| column(&held_out, c));
    let held_out = Points { x: &others[0], y: &others[1] };
    let count = points.unwrap_or(80);
    if count > MOST_ACROSS {
        return Err(Error::Usage(format!("--points {count}: over two columns at most {MOST_ACROSS}")));
    }
    let ranges = fitted.input_ranges();
    let axis = |values: &[f64], others: &[f64], range: &[f64]| {
        let (low, high) = ends(values.iter().chain(others).chain(range));
        evenly(low, high, count)
    };
    let (across, up) = (axis(&first, &others[0], &ranges[0]), axis(&second, &others[1], &ranges[1]));
    let grid: Vec<f64> = up.iter().flat_map(|b| across.iter().flat_map(move |a| [*a, *b])).collect();
    let grid = fitted.input_scale.apply(&grid)?;
    let names = fitted.input_names();
    let frame = |title| Frame { title, x: &names[0], y: &names[1], ..Frame::default() };
    let save = |mean: &[f64], sd: &[f64]| {
        let (training, frame) = (Points { x: &first, y: &second }, frame(&fitted.schema.target));
        Posterior2d { x: &across, y: &up, mean, sd, training, held_out, frame }.save(path)
    };
    if fitted.is_gaussian() {
        let latent = fitted.latent_at(&grid)?;
        let mean: Vec<f64> = latent.iter().map(Predictive::mean).collect();
        let sd: Vec<f64> = latent.iter().map(Predictive::sd).collect();
        return save(&mean, &sd);
    }
    let predictions = fitted.targets_at(&grid, None)?;
    let mean: Vec<f64> = predictions.iter().map(TargetPrediction::mean).collect();
    if let Some(labels) = two_classes(fitted) {
        if data.is_some() {
            return Err(Error::Usage("regions are drawn with the training data; leave out the table".into()));
        }
        // A regression of labels has no variance of the latent function, but one of the class.
        let labels_only = fitted.settings.model.kind() == LabelRegressionOptions::NAME;
        let of = labels_only.then_some("the class");
        let sd: Vec<f64> = match labels_only {
            true => predictions.iter().map(TargetPrediction::sd).collect(),
            false => fitted.posterior().predict(&grid)?.variance.iter().map(|v| v.sqrt()).collect(),
        };
        let rows_of = |class: f64, column: &[f64]| -> Vec<f64> {
            column.iter().zip(&y).filter(|(_, y)| **y == class).map(|(x, _)| *x).collect()
        };
        let drawn = [0.0, 1.0].map(|class| [rows_of(class, &first), rows_of(class, &second)]);
        let classes = [0, 1].map(|c| (labels[c].as_str(), Points { x: &drawn[c][0], y: &drawn[c][1] }));
        let title = format!("{} against {}", labels[1], labels[0]);
        let (x, y, frame) = (&across, &up, frame(&title));
        return Decision { x, y, probability: &mean, sd: &sd, of, classes, frame }.save(path);
    }
    if predictions.iter().any(|p| p.probabilities().is_some()) {
        return Err(Error::Usage(
            "only regions of two classes of --likelihood bernoulli can be drawn; try --kind calibration".into(),
        ));
    }
    let spread = |p: &TargetPrediction| 0.5 * (p.response_quantile(0.841) - p.response_quantile(0.159));
    save(&mean, &predictions.iter().map(spread).collect::<Vec<f64>>())
}
