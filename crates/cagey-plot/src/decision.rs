//! A classifier of points in the plane: the probability of one of two classes, the boundary, and the uncertainty.

use crate::axis::Axis;
use crate::colour::{BLUE, INK, OCHRE, PAPER, VERMILION, VIRIDIS};
use crate::data::{Frame, Points, nothing};
use crate::layout::{Entry, Swatch};
use crate::posterior1d::SIZE;
use crate::posterior2d::{Grid, Map};
use crate::render::{Draw, check_size};
use crate::scene::{Pen, Scene};
use cagey_core::Result;

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
        let mut scene = Scene::new(check_size(self.frame.size.unwrap_or((SIZE.0, 500)))?);
        for (_, points) in &self.classes {
            points.check("points of a class")?;
        }
        let grid = Grid::new(self.x, self.y)?;
        let sds = Axis::linear(self.sd.iter().copied().chain([0.0]), 0.0);
        let heading = format!("Standard deviation of {}", self.of.unwrap_or("the latent function"));
        let maps = [
            Map { heading: "Probability", values: self.probability, scale: Axis::exact(0.0, 1.0), stops: &VIRIDIS },
            Map {
                heading: &heading,
                values: self.sd,
                scale: sds.ok_or_else(|| nothing("the standard deviation"))?,
                stops: &OCHRE,
            },
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
