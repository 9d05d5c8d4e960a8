//! Lines, bands and points over one variable, in panels above each other.

use crate::axis::{Axis, drawable};
use crate::colour::{BAND_OPACITY, GREY, LINES};
use crate::data::{Frame, Points, lengths, nothing};
use crate::layout::{Entry, Swatch, stack};
use crate::panel::Panel;
use crate::posterior1d::SIZE;
use crate::render::{Draw, check_size};
use crate::scene::{Pen, Scene};
use cagey_core::Result;

/// How a series is drawn; all columns have the same length.
#[derive(Clone, Debug)]
pub enum Layer {
    /// Places and heights of a line.
    Line(Vec<f64>, Vec<f64>),
    /// Places, and lower and upper ends of a band.
    Band(Vec<f64>, [Vec<f64>; 2]),
    /// Places and heights of points.
    Points(Vec<f64>, Vec<f64>),
}

/// What a colour stands for.
#[derive(Clone, Debug)]
pub struct Series {
    /// The name in the legend. Series with one name have one colour in all panels; without a name it is grey.
    pub name: String,
    /// From back to front.
    pub layers: Vec<Layer>,
}

/// One panel.
#[derive(Clone, Debug)]
pub struct Pane {
    /// The heading.
    pub title: String,
    /// From back to front.
    pub series: Vec<Series>,
}

/// Panels with a common horizontal axis.
#[derive(Clone, Copy, Debug, Default)]
pub struct Panels<'a> {
    /// From top to bottom.
    pub panes: &'a [Pane],
    /// Whether the horizontal axis is logarithmic.
    pub logarithmic: bool,
    /// Title, axis names (common to all panels) and size.
    pub frame: Frame<'a>,
}

impl Layer {
    /// The places, and the columns of heights.
    fn columns(&self) -> (&[f64], Vec<&[f64]>) {
        match self {
            Self::Line(x, y) | Self::Points(x, y) => (x, vec![y]),
            Self::Band(x, [lower, upper]) => (x, vec![lower, upper]),
        }
    }

    fn draw(&self, scene: &mut Scene, panel: &Panel, pen: Pen) {
        match self {
            Self::Line(x, y) => {
                panel.line(scene, x, y, pen);
                if let ([x], [y]) = (x.as_slice(), y.as_slice()) {
                    panel.points(scene, &[*x], &[*y], 3.0, pen.colour);
                }
            }
            Self::Band(x, ends) => panel.band(scene, x, ends, pen.colour, BAND_OPACITY.0),
            Self::Points(x, y) => panel.points(scene, x, y, Points { x, y }.radius(), pen.colour),
        }
    }
}

impl Draw for Panels<'_> {
    fn scene(&self) -> Result<Scene> {
        let count = self.panes.len() as u32;
        let height = if count > 1 { (90 + 190 * count).clamp(SIZE.1, 4000) } else { SIZE.1 };
        let mut scene = Scene::new(check_size(self.frame.size.unwrap_or((SIZE.0, height)))?);
        let mut names: Vec<&str> = Vec::new();
        let (mut across, mut axes) = (Vec::new(), Vec::new());
        for pane in self.panes {
            let mut up = Vec::new();
            for series in &pane.series {
                for layer in &series.layers {
                    let (x, columns) = layer.columns();
                    for y in columns {
                        if y.len() != x.len() {
                            return Err(lengths(&format!("series `{}`", series.name), x.len(), y.len()));
                        }
                        let pairs = x.iter().zip(y).filter(|(x, y)| drawable(**x) && drawable(**y));
                        for (x, y) in pairs.filter(|(x, _)| **x > 0.0 || !self.logarithmic) {
                            across.push(*x);
                            up.push(*y);
                        }
                    }
                }
                if !series.name.is_empty() && !names.contains(&series.name.as_str()) {
                    names.push(&series.name);
                }
            }
            let axis = Axis::linear(up, 0.06).ok_or_else(|| nothing(&format!("panel `{}`", pane.title)))?;
            axes.push((axis, pane.title.as_str()));
        }
        let x = if self.logarithmic { Axis::logarithmic(across) } else { Axis::linear(across, 0.012) };
        let x = x.ok_or_else(|| nothing("the set of panels"))?.with_ticks(self.frame.ticks);
        // After the last colour, the colours repeat with dashed lines.
        let pen = |name: &str| match names.iter().position(|own| *own == name) {
            None => Pen::solid(GREY, 1.3),
            Some(index) if (index / LINES.len()).is_multiple_of(2) => Pen::solid(LINES[index % LINES.len()], 1.8),
            Some(index) => Pen::dashed(LINES[index % LINES.len()], 1.8),
        };
        let all = || self.panes.iter().flat_map(|pane| &pane.series);
        let swatch = |name: &str| match all().find(|series| series.name == name).map(|series| &series.layers[..]) {
            Some([Layer::Points(..)]) => Swatch::Disc(pen(name).colour),
            _ => Swatch::Line(pen(name)),
        };
        let legend: Vec<Entry> = names.iter().map(|name| Entry::new(swatch(name), *name)).collect();
        let titled = self.panes.iter().any(|pane| !pane.title.is_empty());
        for (panel, pane) in stack(&mut scene, &self.frame, &legend, &x, &axes, titled).iter().zip(self.panes) {
            for Series { name, layers } in &pane.series {
                layers.iter().for_each(|layer| layer.draw(&mut scene, panel, pen(name)));
            }
        }
        Ok(scene)
    }
}
