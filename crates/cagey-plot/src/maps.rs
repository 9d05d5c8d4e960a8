//! Posteriors over functions of two variables: heat maps of mean or probability and of standard deviation.

use crate::axis::{Axis, drawable};
use crate::colour::{BLUE, INK, OCHRE, PAPER, VERMILION, VIRIDIS, along};
use crate::data::{Frame, Points, lengths, nothing};
use crate::layout::{Entry, Names, Swatch, pair};
use crate::panel::{Area, Panel};
use crate::render::Draw;
use crate::scene::{Align, Pen, Scene};
use crate::text::TICK_SIZE;
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
        let mut scene = self.frame.scene(500)?;
        self.training.check("training points")?;
        self.held_out.check("held-out points")?;
        let grid = Grid::new(self.x, self.y)?;
        let scale = |values: &[f64]| Axis::linear(values.iter().copied(), 0.0);
        let maps = [
            grid.map("Mean", self.mean, scale(self.mean), &VIRIDIS)?,
            grid.map("Standard deviation", self.sd, scale(self.sd), &OCHRE)?,
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

/// Probability of the second class with the points of both classes, and beside it the standard deviation of the latent
/// function. Both panels show the boundary, where the probability is a half.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decision<'a> {
    /// The columns of the grid, strictly increasing.
    pub x: &'a [f64],
    /// The rows of the grid, strictly increasing.
    pub y: &'a [f64],
    /// The probability of the second class, `[y.len(), x.len()]` in row-major order.
    pub probability: &'a [f64],
    /// The standard deviation of the latent function, likewise.
    pub sd: &'a [f64],
    /// What else the standard deviation is of.
    pub of: Option<&'a str>,
    /// Names and points of the two classes.
    pub classes: [(&'a str, Points<'a>); 2],
    /// Title, axis names and size.
    pub frame: Frame<'a>,
}

impl Draw for Decision<'_> {
    fn scene(&self) -> Result<Scene> {
        let mut scene = self.frame.scene(500)?;
        for (_, points) in &self.classes {
            points.check("points of a class")?;
        }
        let grid = Grid::new(self.x, self.y)?;
        let sds = Axis::linear(self.sd.iter().copied().chain([0.0]), 0.0);
        let heading = format!("Standard deviation of {}", self.of.unwrap_or("the latent function"));
        let maps = [
            grid.map("Probability", self.probability, Some(Axis::exact(0.0, 1.0)), &VIRIDIS)?,
            grid.map(&heading, self.sd, sds, &OCHRE)?,
        ];
        let colours = [VERMILION, BLUE];
        let mut legend: Vec<_> = self
            .classes
            .iter()
            .zip(colours)
            .filter(|((_, points), _)| !points.x.is_empty())
            .map(|((name, _), colour)| Entry::new(Swatch::Disc(colour), *name))
            .collect();
        let pen = Pen::solid(INK, 2.0);
        legend.push(Entry::new(Swatch::Line(pen), "probability 0.5"));
        let points = self.classes.map(|(_, points)| points);
        let panels = grid.draw(&mut scene, &self.frame, &legend, maps, &points)?;
        let segments = boundary(self.x, self.y, self.probability, 0.5);
        for (points, colour) in points.iter().zip(colours) {
            panels[0].points(&mut scene, points.x, points.y, points.radius(), colour);
        }
        for panel in &panels {
            // A pale line below the dark one makes it visible on any colour.
            for pen in [Pen::solid(PAPER, 4.0), pen] {
                for [(x0, y0), (x1, y1)] in &segments {
                    panel.line(&mut scene, &[*x0, *x1], &[*y0, *y1], pen);
                }
            }
        }
        Ok(scene)
    }
}

/// The edges of the cells of a grid.
struct Grid {
    columns: Vec<f64>,
    rows: Vec<f64>,
}

/// Values on a grid with their colours.
struct Map<'a> {
    heading: &'a str,
    /// One for each cell, row by row.
    values: &'a [f64],
    scale: Axis,
    stops: &'a [RGBColor; 9],
}

impl Grid {
    /// The cells around strictly increasing centres.
    fn new(x: &[f64], y: &[f64]) -> Result<Self> {
        Ok(Self { columns: edges(x, "x")?, rows: edges(y, "y")? })
    }

    /// Values for the cells; an error if there is not one for each, or none to find a scale for.
    fn map<'a>(
        &self,
        heading: &'a str,
        values: &'a [f64],
        scale: Option<Axis>,
        stops: &'a [RGBColor; 9],
    ) -> Result<Map<'a>> {
        let (columns, rows, name) = (self.columns.len() - 1, self.rows.len() - 1, heading.to_lowercase());
        if values.len() != columns * rows {
            return Err(lengths(&format!("{name} [{rows}, {columns}]"), columns * rows, values.len()));
        }
        let scale = scale.ok_or_else(|| nothing(&format!("the {name}")))?;
        Ok(Map { heading, values, scale, stops })
    }

    /// Draws two maps side by side with their colour bars, in panels that have room for all points.
    fn draw(
        &self,
        scene: &mut Scene,
        frame: &Frame,
        legend: &[Entry],
        maps: [Map; 2],
        points: &[Points],
    ) -> Result<[Panel; 2]> {
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
        scene.text(&label, (right + 7.0, y + 0.36 * TICK_SIZE), TICK_SIZE, Align::Start);
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

/// The line at `level` through values on a grid, piece by piece (marching squares).
fn boundary(x: &[f64], y: &[f64], values: &[f64], level: f64) -> Vec<[(f64, f64); 2]> {
    let (columns, mut pieces) = (x.len(), Vec::new());
    for row in 1..y.len() {
        for column in 1..columns {
            let corners = [(column - 1, row - 1), (column, row - 1), (column, row), (column - 1, row)];
            let mut crossings = Vec::with_capacity(4);
            for (from, to) in corners.iter().zip(corners.iter().cycle().skip(1)) {
                let (a, b) = (values[from.1 * columns + from.0], values[to.1 * columns + to.0]);
                if (a < level) != (b < level) {
                    let t = (level - a) / (b - a);
                    let between = |p: &[f64], from: usize, to: usize| p[from] + t * (p[to] - p[from]);
                    crossings.push((between(x, from.0, to.0), between(y, from.1, to.1)));
                }
            }
            pieces.extend(crossings.chunks_exact(2).map(|pair| [pair[0], pair[1]]));
        }
    }
    pieces
}
