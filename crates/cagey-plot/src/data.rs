//! What figures are made from: curves with bands, points, and the frame with its names.

use crate::axis::drawable;
use crate::scene::{LARGEST, Scene};
use cagey_core::{Error, Result};

/// Width and height of a figure in pixels unless its frame says otherwise.
const WIDTH: u32 = 1000;
pub(super) const HEIGHT: u32 = 620;

/// The standard normal quantiles at 97.5 % and 75 %.
const NORMAL_QUANTILES: (f64, f64) = (1.959_963_984_540_054, 0.674_489_750_196_081_7);

/// Round values between two ends, about as many as are asked for or fewer, with their labels; none where the range has
/// no such values.
pub type Ticks = fn(f64, f64, usize) -> Vec<(f64, String)>;

/// Title, axis names and size of a figure; empty names are left out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Frame<'a> {
    /// The heading.
    pub title: &'a str,
    /// The name of the horizontal axis, with its unit.
    pub x: &'a str,
    /// The name of the vertical axis, with its unit.
    pub y: &'a str,
    /// Width and height in pixels, 200 to 4,000 each; 1,000 by 620 (higher with many panels) if none.
    pub size: Option<(u32, u32)>,
    /// The ticks of the horizontal axis of figures over one variable, such as dates; round numbers if none.
    pub ticks: Option<Ticks>,
}

impl Frame<'_> {
    /// An empty figure of this size; of the usual width and `height` if there is none.
    pub(super) fn scene(&self, height: u32) -> Result<Scene> {
        Scene::new(self.size.unwrap_or((WIDTH, height.min(LARGEST))))
    }

    /// The same with these names of axes in place of empty ones.
    pub(super) fn named(self, x: &'static str, y: &'static str) -> Self {
        let name = |given, otherwise| if str::is_empty(given) { otherwise } else { given };
        Self { x: name(self.x, x), y: name(self.y, y), ..self }
    }
}

/// A function of one variable with its uncertainty; all slices have the same length.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// Where the function is given; any order.
    pub x: Vec<f64>,
    /// The posterior mean or median.
    pub mean: Vec<f64>,
    /// The lower and upper ends of the central 95 % interval.
    pub band95: [Vec<f64>; 2],
    /// The lower and upper ends of the central 50 % interval.
    pub band50: [Vec<f64>; 2],
}

impl Curve {
    /// A curve with Gaussian marginals of the given `mean` and standard deviation `sd`.
    pub fn gaussian(x: &[f64], mean: &[f64], sd: &[f64]) -> Self {
        let side = |factor: f64| mean.iter().zip(sd).map(|(mean, sd)| mean + factor * sd).collect();
        let band = |quantile: f64| [side(-quantile), side(quantile)];
        let (wide, narrow) = NORMAL_QUANTILES;
        Self { x: x.to_vec(), mean: mean.to_vec(), band95: band(wide), band50: band(narrow) }
    }

    /// The curve in the order of its `x`, or why it cannot be drawn.
    pub(super) fn checked(&self, name: &str) -> Result<Self> {
        let columns = [&self.mean, &self.band95[0], &self.band95[1], &self.band50[0], &self.band50[1]];
        if let Some(other) = columns.iter().find(|column| column.len() != self.x.len()) {
            return Err(lengths(&format!("{name}: mean and bands"), self.x.len(), other.len()));
        }
        if !self.x.iter().zip(&self.mean).any(|(&x, &mean)| drawable(x) && drawable(mean)) {
            return Err(nothing(name));
        }
        let order = self.order();
        let sorted = |column: &[f64]| pick(column, &order);
        let both = |band: &[Vec<f64>; 2]| [sorted(&band[0]), sorted(&band[1])];
        let (band95, band50) = (both(&self.band95), both(&self.band50));
        Ok(Self { x: sorted(&self.x), mean: sorted(&self.mean), band95, band50 })
    }

    /// The indices of the finite `x` in ascending order.
    pub(super) fn order(&self) -> Vec<usize> {
        let mut order: Vec<_> = (0..self.x.len()).filter(|&i| drawable(self.x[i])).collect();
        order.sort_by(|&a, &b| self.x[a].total_cmp(&self.x[b]));
        order
    }

    /// Every height that the curve reaches.
    pub(super) fn heights(&self) -> impl Iterator<Item = f64> {
        self.mean.iter().chain(self.band95.iter().flatten()).chain(self.band50.iter().flatten()).copied()
    }
}

/// Data points; both slices have the same length.
#[derive(Clone, Copy, Debug, Default)]
pub struct Points<'a> {
    /// Horizontal places.
    pub x: &'a [f64],
    /// Vertical places.
    pub y: &'a [f64],
}

impl Points<'_> {
    /// Whether the slices fit together.
    pub(super) fn check(&self, name: &str) -> Result<()> {
        if self.x.len() == self.y.len() { Ok(()) } else { Err(lengths(name, self.x.len(), self.y.len())) }
    }

    /// The radius in pixels at which this many points stay apart.
    pub(super) fn radius(&self) -> f64 {
        match self.x.len() {
            0..=60 => 3.4,
            61..=150 => 2.7,
            151..=500 => 2.0,
            _ => 1.4,
        }
    }
}

/// The entries of `column` at the indices of `order`.
pub(super) fn pick(column: &[f64], order: &[usize]) -> Vec<f64> {
    order.iter().map(|&i| column[i]).collect()
}

/// The error of a figure without a finite value.
pub(super) fn nothing(name: &str) -> Error {
    Error::Data(format!("figure: {name} holds no finite value; give at least one point to draw"))
}

/// The error of columns of different lengths.
pub(super) fn lengths(name: &str, expected: usize, got: usize) -> Error {
    Error::shape(format!("figure: {name}"), format!("{expected} values"), format!("{got} values"))
}
