//! Figures over one input column.

use std::path::Path;

use cagey::arithmetic::ends;
use cagey::data::calendar;
use cagey::data::{Dataset, TargetScale, TargetTransform};
use cagey::fitted::Fitted;
use cagey::fitted::structure::{is_dated, name_of_season};
use cagey::kernels::Kernel;
use cagey::likelihoods::Support;
use cagey::metrics::{Predictive, TargetPrediction, quantiles};
use cagey::params::{Parameters, shown};
use cagey::plot::{Component, Components, Curve, Figure, Frame, Points, Posterior1d, Ticks};
use cagey::{Error, Result, threads};
use rayon::prelude::*;

use super::super::data::targets;
use super::{Grid, evenly, training, two_classes};

/// Training and held-out points, and a grid over both; of several series, those of one.
pub(super) struct Axis {
    pub training: (Vec<f64>, Vec<f64>),
    pub held_out: (Vec<f64>, Vec<f64>),
    pub grid: Vec<f64>,
    pub standardised: Vec<f64>,
    /// The last training row, where a forecast begins.
    begins: Option<f64>,
    /// How its values are written.
    pub ticks: Option<Ticks>,
}

impl Axis {
    pub fn new(fitted: &Fitted, data: Option<&Dataset>, Grid { points, horizon, series }: Grid) -> Result<Self> {
        let only = Only { at: fitted.schema.series().map(|(at, _)| at), number: series.unwrap_or_default() as f64 };
        let training = only.rows(training(fitted)?);
        let held_out = match data {
            Some(data) => only.rows((data.x.clone(), targets(data, TargetTransform::Identity)?.to_vec())),
            None => (Vec::new(), Vec::new()),
        };
        let ranges = fitted.input_ranges().into_iter().enumerate().filter(|(column, _)| Some(*column) != only.at);
        let ranges: Vec<[f64; 2]> = ranges.map(|(_, range)| range).collect();
        let ahead = horizon.map(|horizon| fitted.ahead(horizon)).transpose()?;
        let ahead = ahead.map(|ahead| only.rows((ahead.rows.x, vec![0.0; ahead.rows.n])).0);
        let begins = ahead.as_ref().map(|_| training.0.iter().copied().fold(f64::NEG_INFINITY, f64::max));
        let all = training.0.iter().chain(&held_out.0).chain(ranges.iter().flatten()).chain(ahead.iter().flatten());
        let (low, high) = ends(all);
        let pad = 0.02 * (high - low).max(1e-9);
        let grid = evenly(low - pad, high + pad, points.unwrap_or(800));
        let standardised = fitted.input_scale.apply(&only.with(&grid))?;
        let ticks = is_dated(&fitted.schema).then_some(calendar::ticks as Ticks);
        Ok(Self { training, held_out, grid, standardised, begins, ticks })
    }

    /// The line before a forecast.
    fn mark(&self) -> Option<(f64, &'static str)> {
        self.begins.map(|last| (last, "forecast"))
    }

    fn points(&self) -> [Points<'_>; 2] {
        [&self.training, &self.held_out].map(|(x, y)| Points { x, y })
    }
}

/// One of several series: the column that tells them apart, if there are several, and its number.
struct Only {
    at: Option<usize>,
    number: f64,
}

impl Only {
    /// Its times and targets.
    fn rows(&self, (x, y): (Vec<f64>, Vec<f64>)) -> (Vec<f64>, Vec<f64>) {
        let Some(at) = self.at else { return (x, y) };
        // Numbers of series are whole but for rounding.
        let own = x.chunks(2).zip(y).filter(|(row, _)| row[at].round() == self.number);
        own.map(|(row, y)| (row[1 - at], y)).unzip()
    }

    /// Rows of inputs at times.
    fn with(&self, times: &[f64]) -> Vec<f64> {
        let row = |t: &f64| match self.at {
            None => vec![*t],
            Some(0) => vec![self.number, *t],
            Some(_) => vec![*t, self.number],
        };
        times.iter().flat_map(row).collect()
    }
}

/// Draws the mean and bands of y; for counts and classes, of their mean or probability.
pub fn posterior(fitted: &Fitted, data: Option<&Dataset>, grid: Grid, path: &Path) -> Result<()> {
    // A column of exposures or trials is an input of the table but not of the model.
    if fitted.settings.auxiliary_column.is_some() && !fitted.is_gaussian() && data.is_some() {
        return Err(Error::Usage(
            "with exposures or trials only the training data are drawn; leave out the table".into(),
        ));
    }
    let axis = Axis::new(fitted, data, grid)?;
    let mut name = match fitted.settings.auxiliary_column.as_ref().filter(|_| !fitted.is_gaussian()) {
        Some(column) => format!("{} per {column}", fitted.schema.target),
        None => fitted.schema.target.clone(),
    };
    let curve = if fitted.is_gaussian() {
        // Known noise of rows has no meaning on a grid and is left out.
        curve(&axis.grid, &fitted.predict_at(&axis.standardised, None)?)
    } else {
        let predictions = fitted.targets_at(&axis.standardised, None)?;
        match (two_classes(fitted), predictions.first().map(|p| p.standardised.support())) {
            (Some([_, second]), _) => {
                name = format!("probability of {second}");
                responses(&axis.grid, &predictions)
            }
            (None, Some(Support::Classes(_))) => {
                return Err(Error::Usage(
                    "over one column only two classes of --likelihood bernoulli can be drawn; try --kind calibration"
                        .into(),
                ));
            }
            (None, Some(Support::Counts(_))) => {
                name = format!("mean of {name}");
                responses(&axis.grid, &predictions)
            }
            _ => {
                let mean = predictions.iter().map(TargetPrediction::mean).collect();
                banded(&axis.grid, mean, |p| threads::map(predictions.par_iter(), |d| d.quantile(p)))
            }
        }
    };
    let [training, held_out] = axis.points();
    let frame = Frame { title: "", x: &name_of_time(fitted), y: &name, ticks: axis.ticks, ..Frame::default() };
    Posterior1d { curve: &curve, training, held_out, mark: axis.mark(), frame }.save(path)
}

/// Draws the posterior of each summand of the kernel.
pub fn components(fitted: &Fitted, data: Option<&Dataset>, grid: Grid, path: &Path) -> Result<()> {
    let transform = fitted.settings.target_transform;
    let mut axis = Axis::new(fitted, data, grid)?;
    // Summands add up only on the scale of the transformed target.
    for y in [&mut axis.training.1, &mut axis.held_out.1].into_iter().flatten() {
        *y = transform.forward(*y).unwrap_or(f64::NAN);
    }
    let scale = TargetScale { transform: TargetTransform::Identity, ..fitted.target_scale };
    let name = match transform {
        TargetTransform::Identity => fitted.schema.target.clone(),
        TargetTransform::Log => format!("log({})", fitted.schema.target),
        TargetTransform::Log1p => format!("log(1 + {})", fitted.schema.target),
    };
    let (marginals, noise) = (fitted.posterior().predict(&axis.standardised)?, fitted.noise().unwrap_or(0.0));
    // Known noise of rows has no meaning on a grid and is left out.
    let predict = |(mean, variance): (&f64, &f64)| scale.predictive(*mean, (variance + noise).sqrt());
    let total: Vec<Predictive> = marginals.mean.iter().zip(&marginals.variance).map(predict).collect();
    let total = curve(&axis.grid, &fitted.calibrated(total));
    let exact = fitted.exact("drawing components")?;
    let summands = fitted.kernel().summands();
    let titles: Vec<String> = summands.iter().map(|kernel| title(kernel, is_dated(&fitted.schema))).collect();
    let curves: Vec<Curve> = (0..summands.len())
        .map(|i| {
            let part = exact.predict_component(i, &axis.standardised)?;
            // A component is a deviation: it has the (transformed) target's unit but not its mean.
            let sd = fitted.target_scale.sd;
            let means: Vec<f64> = part.mean.iter().map(|m| m * sd).collect();
            let sds: Vec<f64> = part.variance.iter().map(|v| v.sqrt() * sd).collect();
            Ok(Curve::gaussian(&axis.grid, &means, &sds))
        })
        .collect::<Result<_>>()?;
    let parts: Vec<Component> = titles.iter().zip(&curves).map(|(title, curve)| Component { title, curve }).collect();
    let [training, held_out] = axis.points();
    Components {
        total: Component { title: "total", curve: &total },
        parts: &parts,
        training,
        held_out,
        mark: axis.mark(),
        frame: Frame { title: "", x: &name_of_time(fitted), y: &name, ticks: axis.ticks, ..Frame::default() },
    }
    .save(path)
}

/// What a component is called: the shape of its kernel and its seasons, as there may be several of one shape.
fn title(kernel: &Kernel, dated: bool) -> String {
    // Of several series, every component is within one.
    let mut text = kernel.shape().trim_end_matches(" * same").to_string();
    for (name, parameter) in kernel.parameters() {
        if name.rsplit('.').next() == Some("period") {
            let period = parameter.values()[0];
            let season = name_of_season(period).filter(|_| dated).map_or_else(|| shown(period), Into::into);
            text += &format!(", period: {season}");
        }
    }
    text
}

/// The name of the input along the axis.
pub(super) fn name_of_time(fitted: &Fitted) -> String {
    let series = fitted.schema.series().map(|(_, column)| &column.name);
    fitted.input_names().into_iter().find(|name| Some(name) != series).unwrap_or_default()
}

pub(super) fn curve(x: &[f64], predictions: &[Predictive]) -> Curve {
    banded(x, quantiles(predictions, 0.5), |p| quantiles(predictions, p))
}

/// The mean of y given f, such as a rate, and its bands.
fn responses(x: &[f64], predictions: &[TargetPrediction]) -> Curve {
    let mean = predictions.iter().map(TargetPrediction::mean).collect();
    banded(x, mean, |p| predictions.iter().map(|d| d.response_quantile(p)).collect())
}

fn banded(x: &[f64], mean: Vec<f64>, quantile: impl Fn(f64) -> Vec<f64>) -> Curve {
    let band95 = [quantile(0.025), quantile(0.975)];
    Curve { x: x.to_vec(), mean, band95, band50: [quantile(0.25), quantile(0.75)] }
}
