//! One coordinate system of a figure: grid, axes, and data drawn in it.

use crate::axis::Axis;
use crate::colour::{AXIS, BAND_OPACITY, BLUE, GRID, INK};
use crate::data::{Curve, Points};
use crate::scene::{Align, Pen, Point, Scene};
use crate::text::{self, TICK_SIZE};
use plotters::style::{Color, RGBColor};

/// An upright rectangle in logical pixels.
#[derive(Clone, Copy)]
pub(super) struct Area {
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

/// A coordinate system in its place.
pub(super) struct Panel {
    pub area: Area,
    pub x: Axis,
    pub y: Axis,
}

impl Panel {
    /// The ticks of the horizontal axis, few enough for their labels to stay apart.
    fn x_ticks(&self) -> Vec<(f64, String)> {
        let room = self.area.right - self.area.left;
        let fits = |ticks: &[(f64, String)]| {
            ticks.windows(2).all(|pair| {
                let half = |label: &str| text::width(label, TICK_SIZE, false) / 2.0;
                (pair[1].0 - pair[0].0) * room > half(&pair[0].1) + half(&pair[1].1) + 14.0
            })
        };
        let most = (3.0 + room / 100.0) as usize;
        (1..=most).rev().map(|count| self.x.ticks(count)).find(|ticks| fits(ticks)).unwrap_or_default()
    }

    /// The ticks of a vertical axis of `height` pixels.
    pub fn y_ticks(y: &Axis, height: f64) -> Vec<(f64, String)> {
        // Round steps can leave a low panel with a single tick: refines until two ticks show the scale.
        let wanted = (height / 52.0).round().max(3.0) as usize;
        (wanted..=2 * wanted).map(|count| y.ticks(count)).find(|ticks| ticks.len() > 1).unwrap_or_default()
    }

    /// The width of the widest tick label of a vertical axis of `height` pixels.
    pub fn y_label_width(y: &Axis, height: f64) -> f64 {
        let widths = Self::y_ticks(y, height).into_iter().map(|(_, label)| text::width(&label, TICK_SIZE, false));
        widths.fold(0.0, f64::max)
    }

    /// Draws grid lines, axis lines and tick labels; those of the horizontal axis only if `numbered`.
    pub fn draw_axes(&self, scene: &mut Scene, numbered: bool) {
        let Area { left, right, top, bottom } = self.area;
        let (grid, axis) = (Pen::solid(GRID, 1.0), Pen::solid(AXIS, 1.0));
        for (place, label) in self.x_ticks() {
            let x = crisp(left + place * (right - left));
            scene.line(vec![(x, top), (x, bottom)], grid);
            scene.line(vec![(x, bottom), (x, bottom + 4.0)], axis);
            if numbered {
                scene.text(&label, (x, bottom + 8.0 + TICK_SIZE), TICK_SIZE, Align::Middle);
            }
        }
        for (place, label) in Self::y_ticks(&self.y, bottom - top) {
            let y = crisp(bottom - place * (bottom - top));
            scene.line(vec![(left, y), (right, y)], grid);
            scene.line(vec![(left - 4.0, y), (left, y)], axis);
            scene.text(&label, (left - 8.0, y + 0.36 * TICK_SIZE), TICK_SIZE, Align::End);
        }
        let (left, bottom) = (crisp(left), crisp(bottom));
        scene.line(vec![(left, top), (left, bottom + 0.5)], axis);
        scene.line(vec![(left - 0.5, bottom), (right, bottom)], axis);
    }

    /// The place of a point; none if it cannot be drawn.
    pub fn at(&self, x: f64, y: f64) -> Option<Point> {
        let Area { left, right, top, bottom } = self.area;
        Some((left + self.x.place(x)? * (right - left), bottom - self.y.place(y)? * (bottom - top)))
    }

    /// Draws a line, interrupted where a value cannot be drawn.
    pub fn line(&self, scene: &mut Scene, x: &[f64], y: &[f64], pen: Pen) {
        for piece in drawn_pieces(x.iter().zip(y).map(|(&x, &y)| self.at(x, y))) {
            scene.line(piece, pen);
        }
    }

    /// Fills the space between two curves.
    pub fn band(&self, scene: &mut Scene, x: &[f64], [lower, upper]: &[Vec<f64>; 2], colour: RGBColor, opacity: f64) {
        let pairs = x
            .iter()
            .zip(lower.iter().zip(upper))
            .map(|(&x, (&low, &high))| Some((self.at(x, low)?, self.at(x, high)?)));
        for piece in drawn_pieces(pairs) {
            let (low, high): (Vec<_>, Vec<_>) = piece.into_iter().unzip();
            scene.area(high.into_iter().chain(low.into_iter().rev()).collect(), colour.mix(opacity));
        }
    }

    /// Draws points.
    pub fn points(&self, scene: &mut Scene, x: &[f64], y: &[f64], radius: f64, colour: RGBColor) {
        for centre in x.iter().zip(y).filter_map(|(&x, &y)| self.at(x, y)) {
            scene.disc(centre, radius, colour);
        }
    }

    /// Draws a dashed upright line at `x` with its label above the panel. The label begins at least `from` pixels from
    /// the left.
    pub fn mark(&self, scene: &mut Scene, (x, label): (f64, &str), from: f64) {
        let Some(place) = self.x.place(x) else { return };
        let Area { left, right, top, bottom } = self.area;
        let x = crisp(left + place * (right - left));
        scene.line(vec![(x, top - 4.0), (x, bottom)], Pen::dashed(INK, 1.0));
        let label = text::shortened(label, TICK_SIZE, false, right - left - from);
        let half = text::width(&label, TICK_SIZE, false) / 2.0;
        let centre = x.min(right - half).max(left + from + half);
        scene.text(&label, (centre, top - 9.0), TICK_SIZE, Align::Middle);
    }

    /// Draws the 95 % and 50 % bands of a curve, the points, and on top the mean, which many points would otherwise
    /// hide.
    pub fn curve<'a>(&self, scene: &mut Scene, curve: &Curve, sets: impl IntoIterator<Item = (Points<'a>, RGBColor)>) {
        for (band, opacity) in [(&curve.band95, BAND_OPACITY.0), (&curve.band50, BAND_OPACITY.1)] {
            self.band(scene, &curve.x, band, BLUE, opacity);
        }
        for (points, colour) in sets {
            self.points(scene, points.x, points.y, points.radius(), colour);
        }
        self.line(scene, &curve.x, &curve.mean, Pen::solid(BLUE, 2.0));
    }
}

/// The centre of the pixel that holds `coordinate`, where a line one pixel wide is sharp.
fn crisp(coordinate: f64) -> f64 {
    coordinate.floor() + 0.5
}

/// Splits a sequence at its gaps into pieces without gaps.
fn drawn_pieces<T>(places: impl Iterator<Item = Option<T>>) -> Vec<Vec<T>> {
    let mut pieces = vec![Vec::new()];
    for place in places {
        match (place, pieces.last_mut()) {
            (Some(place), Some(piece)) => piece.push(place),
            _ => pieces.push(Vec::new()),
        }
    }
    pieces.retain(|piece| piece.len() > 1);
    pieces
}
