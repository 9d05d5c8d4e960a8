//! Figures of several series: a panel for each.

use std::path::Path;

use cagey::data::Dataset;
use cagey::fitted::Fitted;
use cagey::plot::{Figure, Frame, Layer, Pane, Panels, Series};
use cagey::{Error, Result};

use super::Grid;
use super::line::{Axis, curve, name_of_time};
use crate::cli::report;
use crate::data::listed;

/// Most panels.
const MOST: usize = 8;

/// The names of the series.
fn names(fitted: &Fitted) -> &[String] {
    fitted.schema.series().and_then(|(_, column)| column.encoding.labels()).unwrap_or_default()
}

/// The number of the series with a name.
pub fn number(fitted: &Fitted, name: &str) -> Result<usize> {
    let names = names(fitted);
    names.iter().position(|own| own == name).ok_or_else(|| {
        let there = match names {
            [] => "the model has one series".to_string(),
            _ => format!("there are {}", listed(names, MOST)),
        };
        Error::Usage(format!("--series {name}: {there}"))
    })
}

/// The first series if none is chosen; says so.
pub fn first(fitted: &Fitted, grid: Grid) -> Grid {
    match (grid.series, names(fitted).first()) {
        (None, Some(name)) => {
            report::say(&format!("drawn of the series {name} (--series chooses another)"));
            Grid { series: Some(0), ..grid }
        }
        _ => grid,
    }
}

/// Draws the mean, 95 % intervals and rows of each series.
pub fn draw(fitted: &Fitted, data: Option<&Dataset>, grid: Grid, path: &Path) -> Result<()> {
    if !fitted.is_gaussian() {
        let problem = "several series of counts, classes and sizes are drawn one at a time: add --series NAME";
        return Err(Error::Usage(problem.into()));
    }
    let names = names(fitted);
    if names.len() > MOST {
        report::say(&format!("drawn are {MOST} of {} series (--series chooses one)", names.len()));
    }
    let mut panes = Vec::new();
    let mut ticks = None;
    for (number, name) in names.iter().enumerate().take(MOST) {
        let axis = Axis::new(fitted, data, Grid { series: Some(number), ..grid })?;
        let curve = curve(&axis.grid, &fitted.predict_at(&axis.standardised, None)?);
        let model = [Layer::Band(axis.grid.clone(), curve.band95), Layer::Line(axis.grid.clone(), curve.mean)];
        let rows =
            |name: &str, (x, y): (Vec<f64>, Vec<f64>)| Series { name: name.into(), layers: vec![Layer::Points(x, y)] };
        let mut series = vec![Series { name: "mean and 95 %".into(), layers: model.into() }, rows("", axis.training)];
        series.extend((!axis.held_out.0.is_empty()).then(|| rows("other rows", axis.held_out)));
        panes.push(Pane { title: name.clone(), series });
        ticks = axis.ticks;
    }
    let frame = Frame { x: &name_of_time(fitted), y: &fitted.schema.target, ticks, ..Frame::default() };
    Panels { panes: &panes, frame, ..Panels::default() }.save(path)
}
