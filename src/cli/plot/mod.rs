//! `cagey plot`

mod line;
mod quality;
mod series;
mod surface;

use std::path::{Path, PathBuf};

use cagey::data::Dataset;
use cagey::fitted::Fitted;
use cagey::{Error, Result};
use clap::{Args, ValueEnum};

use super::data::{Reading, Splitting, in_table, read};
use super::output;
use super::report;
use super::saved::Saved;
use super::scoring::class_labels;
use super::shards::Shards;
use super::trust::copies_in_words;
use crate::values;

/// Draw a model: posterior, components, calibration or learning curve
#[derive(Debug, Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "\
Examples:
  cagey plot model.cagey -o fit.png
  cagey plot sales.cagey --horizon 24 -o forecast.svg
  cagey plot co2.cagey co2.csv --holdout-last 0.2 --kind components -o components.svg
  cagey plot model.cagey test.csv --kind calibration -o calibration.png
  cagey plot classes.cagey -o regions.png
  cagey plot sparse-grid.cagey --kind parts -o grids.png"
)]
pub struct Plot {
    #[command(flatten)]
    model: Saved,
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
    /// Also draw so many rows after the last one of a series, in steps of the data's own spacing
    #[arg(long, value_name = "ROWS", value_parser = values::count(1..=100_000))]
    horizon: Option<usize>,
    /// Draw this one of several series; by default, the posterior of the first eight, and the components of the first
    #[arg(long, value_name = "NAME")]
    series: Option<String>,
    #[command(flatten)]
    shards: Shards,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    splitting: Splitting,
}

/// The grid that a model is drawn on.
#[derive(Debug, Clone, Copy, Default)]
struct Grid {
    /// Points along each axis; a usual number if none.
    points: Option<usize>,
    /// Rows after the last one of a series.
    horizon: Option<usize>,
    /// The number of one of several series.
    series: Option<usize>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    /// Over one input column, the mean and bands (for counts and classes, of their mean or probability); over two, the
    /// mean and sd, or the regions of two classes
    Posterior,
    /// The posterior of each summand of the kernel, over one input column
    Components,
    /// Coverage against level, for the table or else for leave-one-out predictions; for classes, accuracy against
    /// confidence
    Calibration,
    /// Loss against step
    Learning,
    /// Inducing inputs and coefficients of the partial grids of a sparse grid
    Parts,
}

impl Plot {
    /// Loads, computes, draws.
    pub fn run(self) -> Result<()> {
        let inputs: Vec<&Path> = std::iter::once(&self.model.path).chain(&self.data).map(PathBuf::as_path).collect();
        output::check_figure(&self.output, &inputs)?;
        let fitted = self.model.chosen(self.shards.load(&self.model.path)?)?;
        let data = match &self.data {
            Some(path) => {
                let data = read(path, &fitted.schema, true, &self.reading.options())?;
                Some(self.splitting.scored(&fitted.schema, data)?)
            }
            None => self.splitting.refuse().map(|()| None)?,
        };
        let new = data.as_ref().map(|data| unseen(&fitted, data)).transpose()?.flatten();
        // Training rows test error bars only if there are no leave-one-out predictions.
        let scored = new.as_ref().or(data.as_ref().filter(|_| fitted.posterior().leave_one_out().is_none()));
        let series = self.series.as_ref().map(|name| series::number(&fitted, name)).transpose()?;
        let grid = Grid { points: self.points, horizon: self.horizon, series };
        draw_kind(&fitted, self.kind, (data.is_some(), new.as_ref(), scored), grid, &self.output)
            .map_err(in_table(self.data.as_deref()))
    }
}

/// Draws what `cagey plot` draws of a model without a table into a file: `posterior`, `components`, `calibration`,
/// `learning` or `parts`.
///
/// # Errors
/// As the command.
pub fn draw(fitted: &Fitted, kind: &str, path: &Path) -> Result<()> {
    let unknown = |_| Error::Usage(format!("--kind {kind}: there are {}", Kind::names().join(", ")));
    draw_kind(fitted, Kind::from_str(kind, false).map_err(unknown)?, (false, None, None), Grid::default(), path)
}

impl Kind {
    fn names() -> Vec<String> {
        let values = Self::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        values.map(|value| value.get_name().to_string()).collect()
    }
}

/// Draws a model. Of a table, if one is `given`: rows to draw, and rows to score.
fn draw_kind(
    fitted: &Fitted,
    kind: Kind,
    (given, new, scored): (bool, Option<&Dataset>, Option<&Dataset>),
    grid: Grid,
    path: &Path,
) -> Result<()> {
    let of_one = matches!(kind, Kind::Components | Kind::Learning | Kind::Parts);
    if of_one && let Some(heaviest) = fitted.members().first() {
        report::say(&format!("drawn of the heaviest member: {}", heaviest.name()));
    }
    let inputs = fitted.input_names().len() - usize::from(fitted.schema.series().is_some());
    match (kind, inputs) {
        (Kind::Calibration | Kind::Learning | Kind::Parts, _) if grid.horizon.is_some() => {
            Err(Error::Usage("--horizon is for --kind posterior and components, which draw over one input".into()))
        }
        (Kind::Learning, _) if given => {
            Err(Error::Usage("a learning curve shows the training only; leave out the table".into()))
        }
        (Kind::Parts, _) if given => Err(Error::Usage("parts are drawn of the model only; leave out the table".into())),
        (Kind::Parts, _) => quality::parts(fitted, path),
        (Kind::Learning, _) => quality::learning(fitted, path),
        (Kind::Calibration, _) => quality::calibration(fitted, scored, path),
        (Kind::Posterior, 1) if fitted.schema.series().is_some() && grid.series.is_none() => {
            series::draw(fitted, new, grid, path)
        }
        (Kind::Posterior, 1) => line::posterior(fitted, new, grid, path),
        (Kind::Components, 1) => line::components(fitted, new, series::first(fitted, grid), path),
        (Kind::Posterior, d) if d > 1 && fitted.schema.series().is_some() => Err(Error::Usage(format!(
            "several series can be drawn over 1 input column, this model has {d}; try --kind calibration"
        ))),
        (Kind::Posterior, 2) => surface::draw(fitted, new, grid.points, path),
        (Kind::Posterior, d) => Err(Error::Usage(format!(
            "a posterior can be drawn over 1 or 2 input columns, this model has {d}; try --kind calibration"
        ))),
        (Kind::Components, d) => {
            Err(Error::Usage(format!("components can be drawn over 1 input column, this model has {d}")))
        }
    }
}

/// The rows of a table that are not training rows, since these are drawn anyway; none if all are.
fn unseen(fitted: &Fitted, data: &Dataset) -> Result<Option<Dataset>> {
    let Some(copies) = fitted.copies(data)? else { return Ok(Some(data.clone())) };
    copies_in_words(&copies, data.n, "rows", fitted.is_of_categories()).iter().for_each(|words| report::warn(words));
    let others: Vec<usize> = (0..data.n).filter(|row| copies.whole.binary_search(row).is_err()).collect();
    Ok((!others.is_empty()).then(|| data.subset(&others)))
}

/// The training data as they are drawn: inputs in user units, row-major, and targets. Counts with exposures or trials
/// are divided by them.
fn training(fitted: &Fitted) -> Result<(Vec<f64>, Vec<f64>)> {
    let data = fitted.data();
    let mut y: Vec<f64> = data.y.iter().map(|z| fitted.target_scale.inverse(*z)).collect();
    if let (Some(auxiliary), false) = (&data.auxiliary, fitted.is_gaussian()) {
        y.iter_mut().zip(auxiliary).for_each(|(y, auxiliary)| *y /= auxiliary);
    }
    Ok((fitted.input_scale.invert(&data.x)?, y))
}

/// The labels of a model of two classes with one latent function.
fn two_classes(fitted: &Fitted) -> Option<[String; 2]> {
    match (fitted.model.likelihood().latents(), fitted.model.likelihood().classes()) {
        (1, Some(2)) => class_labels(fitted, 2).try_into().ok(),
        _ => None,
    }
}

fn evenly(low: f64, high: f64, points: usize) -> Vec<f64> {
    let steps = points - 1;
    (0..=steps).map(|i| low + (high - low) * i as f64 / steps as f64).collect()
}
