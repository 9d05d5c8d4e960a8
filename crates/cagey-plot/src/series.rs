//! Series in their own colours over one variable: lines, bands and points in panels, losses of training runs, scores of
//! models.

use crate::axis::{Axis, drawable};
use crate::colour::{BAND_OPACITY, GREY, LINES};
use crate::data::{Frame, HEIGHT, Points, lengths, nothing};
use crate::layout::{Entry, Swatch, stack};
use crate::panel::Panel;
use crate::render::Draw;
use crate::scene::{Pen, Scene};
use cagey_core::Result;

/// The pen of a series by its number. After the last colour, the colours repeat with dashed lines.
fn pen(number: usize) -> Pen {
    let colour = LINES[number % LINES.len()];
    if (number / LINES.len()).is_multiple_of(2) { Pen::solid(colour, 1.8) } else { Pen::dashed(colour, 1.8) }
}

/// Draws a line, as a point if it has one only.
fn draw_line(scene: &mut Scene, panel: &Panel, x: &[f64], y: &[f64], pen: Pen) {
    panel.line(scene, x, y, pen);
    if let ([_], [_]) = (x, y) {
        panel.points(scene, x, y, 3.0, pen.colour);
    }
}

/// The horizontal axis over all places.
fn x_axis(places: impl IntoIterator<Item = f64>, logarithmic: bool) -> Option<Axis> {
    if logarithmic { Axis::logarithmic(places) } else { Axis::linear(places, 0.012) }
}

/// Whether a point can be drawn.
fn is_shown(x: f64, y: f64, logarithmic: bool) -> bool {
    drawable(x) && drawable(y) && (x > 0.0 || !logarithmic)
}

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
            Self::Line(x, y) => draw_line(scene, panel, x, y, pen),
            Self::Band(x, ends) => panel.band(scene, x, ends, pen.colour, BAND_OPACITY.0),
            Self::Points(x, y) => panel.points(scene, x, y, Points { x, y }.radius(), pen.colour),
        }
    }
}

impl Draw for Panels<'_> {
    fn scene(&self) -> Result<Scene> {
        let count = self.panes.len() as u32;
        let mut scene = self.frame.scene(if count > 1 { (90 + 190 * count).max(HEIGHT) } else { HEIGHT })?;
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
                        for (x, y) in x.iter().zip(y).filter(|(x, y)| is_shown(**x, **y, self.logarithmic)) {
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
        let x = x_axis(across, self.logarithmic).ok_or_else(|| nothing("the set of panels"))?;
        let x = x.with_ticks(self.frame.ticks);
        let pen = |name: &str| names.iter().position(|own| *own == name).map_or(Pen::solid(GREY, 1.3), pen);
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

/// One training run.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Its name in the legend.
    pub name: &'a str,
    /// The loss after each iteration.
    pub loss: &'a [f64],
    /// The seconds since the start after each iteration; empty if they were not measured.
    pub seconds: &'a [f64],
}

/// What the loss is drawn against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Against {
    /// The number of the iteration, from one.
    #[default]
    Iteration,
    /// The time since the start.
    Seconds,
}

/// Loss against iteration or time.
#[derive(Clone, Copy, Debug, Default)]
pub struct LearningCurve<'a> {
    /// The runs to compare.
    pub runs: &'a [Run<'a>],
    /// The horizontal axis.
    pub against: Against,
    /// Whether the horizontal axis is logarithmic.
    pub logarithmic: bool,
    /// Title, axis names (`iteration` or `seconds`, and `loss`, if empty) and size.
    pub frame: Frame<'a>,
}

impl Draw for LearningCurve<'_> {
    fn scene(&self) -> Result<Scene> {
        let mut scene = self.frame.scene(HEIGHT)?;
        let places = self.runs.iter().map(|run| self.places(run)).collect::<Result<Vec<_>>>()?;
        let pairs = places.iter().zip(self.runs).flat_map(|(x, run)| x.iter().copied().zip(run.loss.iter().copied()));
        let (across, up): (Vec<f64>, Vec<f64>) = pairs.filter(|&(x, y)| is_shown(x, y, self.logarithmic)).unzip();
        let (Some(x), Some(y)) = (x_axis(across, self.logarithmic), Axis::linear(up, 0.05)) else {
            return Err(nothing("the set of training runs"));
        };
        let (x, frame) = match self.against {
            Against::Iteration => (x.whole(), self.frame.named("iteration", "loss")),
            Against::Seconds => (x, self.frame.named("seconds", "loss")),
        };
        let named = self.runs.iter().enumerate().filter(|(_, run)| !run.name.is_empty());
        let legend: Vec<_> = named.map(|(index, run)| Entry::new(Swatch::Line(pen(index)), run.name)).collect();
        for panel in stack(&mut scene, &frame, &legend, &x, &[(y, "")], false) {
            for (index, (x, run)) in places.iter().zip(self.runs).enumerate() {
                draw_line(&mut scene, &panel, x, run.loss, pen(index));
            }
        }
        Ok(scene)
    }
}

impl LearningCurve<'_> {
    /// The horizontal places of a run.
    fn places(&self, run: &Run) -> Result<Vec<f64>> {
        match self.against {
            Against::Iteration => Ok((1..=run.loss.len()).map(|iteration| iteration as f64).collect()),
            Against::Seconds if run.seconds.len() == run.loss.len() => Ok(run.seconds.to_vec()),
            Against::Seconds => {
                Err(lengths(&format!("seconds of run `{}`", run.name), run.loss.len(), run.seconds.len()))
            }
        }
    }
}

/// One model.
#[derive(Clone, Copy, Debug)]
pub struct Scored<'a> {
    /// Its name in the legend.
    pub name: &'a str,
    /// Seconds that it took.
    pub seconds: f64,
    /// Its score.
    pub score: f64,
    /// The standard error of the score, drawn up and down.
    pub error: f64,
}

/// Scores against seconds, on a logarithmic axis.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scores<'a> {
    /// The models.
    pub all: &'a [Scored<'a>],
    /// Title, axis names (`seconds` and `score`, if empty) and size.
    pub frame: Frame<'a>,
}

/// Shorter times, in seconds, are drawn as this.
const LEAST: f64 = 1e-3;

impl Draw for Scores<'_> {
    fn scene(&self) -> Result<Scene> {
        let mut scene = self.frame.scene(HEIGHT)?;
        let frame = self.frame.named("seconds", "score");
        let seconds = |scored: &Scored| scored.seconds.max(LEAST);
        // A little room on both sides.
        let across = self.all.iter().flat_map(|scored| [0.7 * seconds(scored), 1.4 * seconds(scored)]);
        let ends = |scored: &Scored| [scored.score - scored.error, scored.score + scored.error];
        let up = self.all.iter().flat_map(ends).filter(|end| end.is_finite());
        let (Some(x), Some(y)) = (Axis::logarithmic(across), Axis::linear(up, 0.08)) else {
            return Err(nothing("the set of scores"));
        };
        let colour = |index: usize| LINES[index % LINES.len()];
        let legend: Vec<Entry> =
            self.all.iter().enumerate().map(|(k, scored)| Entry::new(Swatch::Disc(colour(k)), scored.name)).collect();
        for panel in stack(&mut scene, &frame, &legend, &x, &[(y, "")], false) {
            for (index, scored) in self.all.iter().enumerate() {
                let at = seconds(scored);
                panel.line(&mut scene, &[at, at], &ends(scored), Pen::solid(colour(index), 1.6));
                panel.points(&mut scene, &[at], &[scored.score], 4.5, colour(index));
            }
        }
        Ok(scene)
    }
}
