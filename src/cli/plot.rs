//! `cagey plot`

use std::path::{Path, PathBuf};

use cagey::data::{Dataset, TargetTransform};
use cagey::fitted::Fitted;
use cagey::metrics::{Predictive, calibration_curve};
use cagey::models::posterior::{Marginals, Posterior};
use cagey::plot::{
    Calibration, Component, Components, Curve, Frame, LearningCurve, Points, Posterior1d, Posterior2d, Run,
};
use cagey::{Error, Result};
use clap::{Args, ValueEnum};

use super::data::{Reading, Splitting, targets};
use super::{output, values};

/// Draw a model: posterior, components, calibration or learning curve
#[derive(Debug, Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "\
Examples:
  cagey plot model.cagey -o fit.png
  cagey plot co2.cagey co2.csv --holdout-last 0.2 --kind components -o components.svg
  cagey plot model.cagey test.csv --kind calibration -o calibration.png"
)]
pub struct Plot {
    /// Model file
    model: PathBuf,
    /// Table with targets, drawn or scored beside the training data; `-` for standard input
    data: Option<PathBuf>,
    /// Where to write the figure: .svg or .png
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// What to draw
    #[arg(long, value_enum, default_value_t = Kind::Posterior)]
    kind: Kind,
    /// Points along each axis of the grid; 800 over one column and 80 over two by default
    #[arg(long, value_name = "N", value_parser = values::count(2..=5000))]
    points: Option<usize>,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    splitting: Splitting,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    /// Mean and bands over one input column, or mean and sd over two
    Posterior,
    /// The posterior of each summand of the kernel, over one input column
    Components,
    /// Coverage against level, of the table or else of leave-one-out predictions
    Calibration,
    /// Loss against step
    Learning,
}

/// Each axis of a surface; its pixels are no finer.
const MOST_ACROSS: usize = 500;

impl Plot {
    /// Loads, computes, draws.
    pub fn run(self) -> Result<()> {
        let inputs: Vec<&Path> = std::iter::once(&self.model).chain(&self.data).map(PathBuf::as_path).collect();
        output::check(&self.output, &inputs)?;
        let fitted = Fitted::load(&self.model)?;
        let data = match &self.data {
            Some(path) => Some(self.splitting.scored(self.reading.read(path, &fitted.schema, true, false)?)?),
            None => self.splitting.refuse().map(|()| None)?,
        };
        let names = fitted.input_names();
        match (self.kind, names.len()) {
            (Kind::Learning, _) => self.learning(&fitted),
            (Kind::Calibration, _) => self.calibration(&fitted, data.as_ref()),
            (Kind::Posterior, 1) => self.posterior(&fitted, data.as_ref(), &names[0]),
            (Kind::Components, 1) => self.components(&fitted, data.as_ref(), &names[0]),
            (Kind::Posterior, 2) => self.surface(&fitted, &names),
            (Kind::Posterior, d) => Err(Error::Usage(format!(
                "a posterior can be drawn over 1 or 2 input columns, this model has {d}; try --kind calibration"
            ))),
            (Kind::Components, d) => {
                Err(Error::Usage(format!("components can be drawn over 1 input column, this model has {d}")))
            }
        }
    }

    /// Inputs of the training data in user units, targets too.
    fn training(fitted: &Fitted) -> Result<(Vec<f64>, Vec<f64>)> {
        let data = fitted.data();
        let y = data.y.iter().map(|z| fitted.target_scale.inverse(*z)).collect();
        Ok((fitted.input_scale.invert(&data.x)?, y))
    }

    /// Grid over one column: user and standardised units.
    fn grid(&self, x: &[f64], held_out: &[f64], fitted: &Fitted) -> Result<(Vec<f64>, Vec<f64>)> {
        let all = || x.iter().chain(held_out);
        let (low, high) = all().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(*v), h.max(*v)));
        let pad = 0.02 * (high - low).max(1e-9);
        let grid = line(low - pad, high + pad, self.points.unwrap_or(800));
        let standardised = fitted.input_scale.apply(&grid)?;
        Ok((grid, standardised))
    }

    fn posterior(&self, fitted: &Fitted, data: Option<&Dataset>, name: &str) -> Result<()> {
        let (x, y) = Self::training(fitted)?;
        let (test_x, test_y) = held_out(data)?;
        let (grid, standardised) = self.grid(&x, &test_x, fitted)?;
        let curve = curve(&grid, &with_noise(fitted, fitted.posterior().predict(&standardised)?));
        Posterior1d {
            curve: &curve,
            training: Points { x: &x, y: &y },
            held_out: Points { x: &test_x, y: &test_y },
            mark: None,
            frame: Frame { title: "", x: name, y: &fitted.schema.target, size: None },
        }
        .save(&self.output)
    }

    fn components(&self, fitted: &Fitted, data: Option<&Dataset>, name: &str) -> Result<()> {
        let (x, y) = Self::training(fitted)?;
        let (test_x, test_y) = held_out(data)?;
        let (grid, standardised) = self.grid(&x, &test_x, fitted)?;
        let total = curve(&grid, &with_noise(fitted, fitted.posterior().predict(&standardised)?));
        let exact = fitted.posterior().exact("drawing components")?;
        let summands = fitted.model.kernel().summands();
        let titles: Vec<String> = summands.iter().map(|kernel| kernel.shape()).collect();
        let curves: Vec<Curve> = (0..summands.len())
            .map(|i| {
                let part = exact.predict_component(i, &standardised)?;
                // A component is a deviation: it has the target's unit but not its mean.
                let sd = fitted.target_scale.sd;
                let means: Vec<f64> = part.mean.iter().map(|m| m * sd).collect();
                let sds: Vec<f64> = part.variance.iter().map(|v| v.sqrt() * sd).collect();
                Ok(Curve::gaussian(&grid, &means, &sds))
            })
            .collect::<Result<_>>()?;
        let parts: Vec<Component> =
            titles.iter().zip(&curves).map(|(title, curve)| Component { title, curve }).collect();
        Components {
            total: Component { title: "total", curve: &total },
            parts: &parts,
            training: Points { x: &x, y: &y },
            held_out: Points { x: &test_x, y: &test_y },
            mark: None,
            frame: Frame { title: "", x: name, y: &fitted.schema.target, size: None },
        }
        .save(&self.output)
    }

    fn surface(&self, fitted: &Fitted, names: &[String]) -> Result<()> {
        let (x, _) = Self::training(fitted)?;
        let column = |c: usize| x.chunks(2).map(|row| row[c]).collect::<Vec<f64>>();
        let (first, second) = (column(0), column(1));
        let points = self.points.unwrap_or(80);
        if points > MOST_ACROSS {
            return Err(Error::Usage(format!("--points {points}: over two columns at most {MOST_ACROSS}")));
        }
        let axis = |values: &[f64]| {
            let (low, high) =
                values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(*v), h.max(*v)));
            line(low, high, points)
        };
        let (across, up) = (axis(&first), axis(&second));
        let grid: Vec<f64> = up.iter().flat_map(|b| across.iter().flat_map(move |a| [*a, *b])).collect();
        let latent = fitted.in_user_units(&fitted.posterior().predict(&fitted.input_scale.apply(&grid)?)?);
        let mean: Vec<f64> = latent.iter().map(Predictive::mean).collect();
        let sd: Vec<f64> = latent.iter().map(Predictive::sd).collect();
        Posterior2d {
            x: &across,
            y: &up,
            mean: &mean,
            sd: &sd,
            training: Points { x: &first, y: &second },
            frame: Frame { title: &fitted.schema.target, x: &names[0], y: &names[1], size: None },
        }
        .save(&self.output)
    }

    fn calibration(&self, fitted: &Fitted, data: Option<&Dataset>) -> Result<()> {
        let (y, predictions) = match data {
            Some(data) => (targets(data, fitted.settings.target_transform)?.to_vec(), fitted.predict(data)?),
            None => fitted.leave_one_out()?,
        };
        let (nominal, observed): (Vec<f64>, Vec<f64>) = calibration_curve(&y, &predictions).into_iter().unzip();
        let pit: Vec<f64> = y.iter().zip(&predictions).map(|(y, p)| p.cdf(*y)).collect();
        Calibration { nominal: &nominal, observed: &observed, pit: &pit, frame: Frame::default() }.save(&self.output)
    }

    fn learning(&self, fitted: &Fitted) -> Result<()> {
        let records = &fitted.summary.history.records;
        let restarts = records.iter().map(|r| r.restart).max().unwrap_or(0) + 1;
        let series: Vec<(String, Vec<f64>, Vec<f64>)> = (0..restarts)
            .map(|restart| {
                let run = || records.iter().filter(move |r| r.restart == restart);
                (format!("start {restart}"), run().map(|r| r.loss).collect(), run().map(|r| r.seconds).collect())
            })
            .collect();
        let runs: Vec<Run> = series.iter().map(|(name, loss, seconds)| Run { name, loss, seconds }).collect();
        LearningCurve { runs: &runs, ..LearningCurve::default() }.save(&self.output)
    }
}

fn line(low: f64, high: f64, points: usize) -> Vec<f64> {
    let steps = points - 1;
    (0..=steps).map(|i| low + (high - low) * i as f64 / steps as f64).collect()
}

fn held_out(data: Option<&Dataset>) -> Result<(Vec<f64>, Vec<f64>)> {
    match data {
        Some(data) => Ok((data.x.clone(), targets(data, TargetTransform::Identity)?.to_vec())),
        None => Ok((Vec::new(), Vec::new())),
    }
}

/// Predictions of y on a grid; known noise of rows has no meaning there and is left out.
fn with_noise(fitted: &Fitted, mut marginals: Marginals) -> Vec<Predictive> {
    let noise = fitted.noise().unwrap_or(0.0);
    marginals.variance.iter_mut().for_each(|v| *v += noise);
    fitted.in_user_units(&marginals)
}

fn curve(x: &[f64], predictions: &[Predictive]) -> Curve {
    let quantile = |p: f64| predictions.iter().map(|d| d.quantile(p)).collect::<Vec<f64>>();
    Curve {
        x: x.to_vec(),
        mean: quantile(0.5),
        band95: [quantile(0.025), quantile(0.975)],
        band50: [quantile(0.25), quantile(0.75)],
    }
}
