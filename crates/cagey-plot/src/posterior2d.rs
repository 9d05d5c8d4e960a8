//! A posterior over functions of two variables: heat maps of mean and standard deviation.

use crate::axis::{Axis, drawable};
use crate::colour::{INK, OCHRE, VERMILION, VIRIDIS, along};
use crate::data::{Frame, Points, lengths, nothing};
use crate::layout::{Entry, Names, Swatch, pair};
use crate::panel::{Area, Panel, TICK_SIZE};
use crate::posterior1d::SIZE;
use crate::render::{Draw, check_size};
use crate::scene::{Align, Pen, Scene};
use cagey_core::{Error, Result};
use plotters::style::RGBColor;

/// The room for a colour bar without its labels.
const BAR: f64 = 24.0;

/// Mean and standard deviation on a grid, side by side, with the data points on top.
#[derive(Clone, Copy, Debug, Default)]
pub struct Posterior2d<'a> {
    /// The columns of the grid, strictly increasing.
    pub x: &'a [f64],
    /// The rows of the grid, strictly increasing.
    pub y: &'a [f64],
    /// The mean, `[y.len(), x.len()]` in row-major order.
    pub mean: &'a [f64],
    /// The standard deviation, likewise.
    pub sd: &'a [f64],
    /// The points that the model was fitted to.
    pub training: Points<'a>,
    /// Points that it was not fitted to.
    pub held_out: Points<'a>,
    /// Title, axis names and size.
    pub frame: Frame<'a>,
}

impl Draw for Posterior2d<'_> {
    fn scene(&self) -> Result<Scene> {
        let mut scene = Scene::new(check_size(self.frame.size.unwrap_or((SIZE.0, 500)))?);
        self.training.check("training points")?;
        self.held_out.check("held-out points")?;
        let grid = Grid::new(self.x, self.y)?;
        let map = |heading, values, name, stops| {
            let scale = Axis::linear(<[f64]>::iter(values).copied(), 0.0).ok_or_else(|| nothing(name))?;
            Ok(Map { heading, values, scale, stops })
        };
        for (values, name) in [(self.mean, "mean"), (self.sd, "standard deviation")] {
            grid.check(values, name)?;
        }
        let maps = [
            map("Mean", self.mean, "the mean", &VIRIDIS)?,
            map("Standard deviation", self.sd, "the standard deviation", &OCHRE)?,
        ];
        let mut sets = vec![(self.training, INK, "training data"), (self.held_out, VERMILION, "held-out data")];
        sets.retain(|(points, ..)| !points.x.is_empty());
        let legend: Vec<_> = sets.iter().map(|(_, colour, name)| Entry::new(Swatch::Disc(*colour), *name)).collect();
        for panel in grid.draw(&mut scene, &self.frame, &legend, maps, &[self.training, self.held_out])? {
            for (points, colour, _) in &sets {
                panel.points(&mut scene, points.x, points.y, points.radius(), *colour);
            }
        }
        Ok(scene)
    }
}

/// The edges of the cells of a grid.
pub(super) struct Grid {
    columns: Vec<f64>,
    rows: Vec<f64>,
}

/// Values on a grid with their colours.
pub(super) struct Map<'a> {
    pub heading: &'a str,
    /// One for each cell, row by row.
    pub values: &'a [f64],
    pub scale: Axis,
    pub stops: &'a [RGBColor; 9],
}

impl Grid {
    /// The cells around strictly increasing centres.
    pub fn new(x: &[f64], y: &[f64]) -> Result<Self> {
        Ok(Self { columns: edges(x, "x")?, rows: edges(y, "y")? })
    }

    fn check(&self, values: &[f64], name: &str) -> Result<()> {
        let (columns, rows) = (self.columns.len() - 1, self.rows.len() - 1);
        if values.len() == columns * rows {
            return Ok(());
        }
        Err(lengths(&format!("{name} [{rows}, {columns}]"), columns * rows, values.len()))
    }

    /// Draws two maps side by side with their colour bars, in panels that have room for all points.
    pub fn draw(
        &self,
        scene: &mut Scene,
        frame: &Frame,
        legend: &[Entry],
        maps: [Map; 2],
        points: &[Points],
    ) -> Result<[Panel; 2]> {
        for map in &maps {
            self.check(map.values, &map.heading.to_lowercase())?;
        }
        let whole = |edges: &[f64], of: fn(&Points) -> Vec<f64>| {
            Axis::linear(edges.iter().copied().chain(points.iter().flat_map(of)), 0.0)
        };
        let across = whole(&self.columns, |points| points.x.to_vec());
        let (Some(x), Some(y)) = (across, whole(&self.rows, |points| points.y.to_vec())) else {
            return Err(nothing("the grid"));
        };
        let names = |heading| Names { heading, x: frame.x, y: frame.y };
        let cells = [(x.clone(), y.clone(), names(maps[0].heading)), (x, y, names(maps[1].heading))];
        let labels = maps.iter().map(|map| Panel::y_label_width(&map.scale, scene.height())).fold(0.0, f64::max);
        let panels = pair(scene, frame.title, legend, cells, BAR + labels);
        for (panel, Map { values, scale, stops, .. }) in panels.iter().zip(&maps) {
            draw_cells(scene, panel, (&self.columns, &self.rows), values, |value| {
                scale.place(value).map(|at| along(stops, at))
            });
            draw_bar(scene, panel.area, scale, stops);
        }
        Ok(panels)
    }
}

/// Fills the cells between `columns` and `rows`.
fn draw_cells(
    scene: &mut Scene,
    panel: &Panel,
    (columns, rows): (&[f64], &[f64]),
    values: &[f64],
    colour: impl Fn(f64) -> Option<RGBColor>,
) {
    // Cells reach a little under their right and upper neighbours, so that no paper shows between them.
    let overlap =
        |edge: f64, limit: f64| if (edge - limit).abs() < 1.0 { limit } else { edge + 0.7 * (limit - edge).signum() };
    for (row, line) in rows.windows(2).zip(values.chunks_exact(columns.len() - 1)) {
        for (column, &value) in columns.windows(2).zip(line) {
            let corners = panel.at(column[0], row[0]).zip(panel.at(column[1], row[1]));
            if let (Some((low, (right, top))), Some(colour)) = (corners, colour(value)) {
                let far = (overlap(right, panel.area.right), overlap(top, panel.area.top));
                scene.rect(low, far, colour);
            }
        }
    }
}

/// Draws the colour scale at the right of `area`.
fn draw_bar(scene: &mut Scene, area: Area, scale: &Axis, stops: &[RGBColor; 9]) {
    const STEPS: u32 = 128;
    let (left, right) = (area.right + 14.0, area.right + 28.0);
    let height = area.bottom - area.top;
    for step in 0..STEPS {
        let share = f64::from(step) / f64::from(STEPS);
        let colour = along(stops, share + 0.5 / f64::from(STEPS));
        scene.rect((left, area.bottom - share * height), (right, area.top), colour);
    }
    for (place, label) in Panel::y_ticks(scale, height) {
        let y = area.bottom - place * height;
        scene.line(vec![(right, y), (right + 4.0, y)], Pen::solid(INK, 1.0));
        scene.text(&label, (right + 7.0, y + 0.36 * TICK_SIZE), TICK_SIZE, INK, Align::Start);
    }
}

/// The edges of the cells around strictly increasing `centres`.
fn edges(centres: &[f64], name: &str) -> Result<Vec<f64>> {
    if let Some(bad) = centres.iter().position(|&centre| !drawable(centre)) {
        return Err(Error::Data(format!("figure: grid {name}[{bad}] is {}; grid places must be finite", centres[bad])));
    }
    if let Some(bad) = centres.windows(2).position(|pair| pair[0] >= pair[1]) {
        let problem = format!("figure: grid {name} must increase strictly, but {name}[{}] <= {name}[{bad}]", bad + 1);
        return Err(Error::Data(problem));
    }
    let (Some(&first), Some(&last)) = (centres.first(), centres.last()) else { return Err(nothing("the grid")) };
    let half = |pair: Option<&[f64]>| pair.map_or(0.5, |pair| 0.5 * (pair[1] - pair[0]));
    let (before, after) = (half(centres.windows(2).next()), half(centres.windows(2).next_back()));
    let middles = centres.windows(2).map(|pair| pair[0] + 0.5 * (pair[1] - pair[0]));
    Ok(std::iter::once(first - before).chain(middles).chain([last + after]).collect())
}
