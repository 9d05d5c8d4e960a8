//! Magnitudes of numbers at points of the plane, in small panels: what a vector over the data looks like.

use crate::axis::Axis;
use crate::colour::{AXIS, OCHRE, along};
use crate::data::{Frame, Points, lengths, nothing};
use crate::layout::{Entry, RIGHT, Swatch, head};
use crate::panel::{Area, Panel};
use crate::render::Draw;
use crate::scene::{Pen, Scene};
use cagey_core::Result;

/// The room for the names of rows, and between panels.
const NAMES: f64 = 40.0;
const GAP: f64 = 10.0;

/// A row of panels: its name and one vector for each panel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Row<'a> {
    /// The name at the left.
    pub name: &'a str,
    /// Numbers at the points, panel by panel; each panel has a colour scale of its own, from 0 to its largest
    /// magnitude.
    pub vectors: &'a [Vec<f64>],
}

/// Magnitudes of vectors over the same points.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fields<'a> {
    /// The places of the numbers.
    pub points: Points<'a>,
    /// From top to bottom.
    pub rows: &'a [Row<'a>],
    /// Title and size; the axes have no names.
    pub frame: Frame<'a>,
}

impl Draw for Fields<'_> {
    fn scene(&self) -> Result<Scene> {
        let mut scene = self.frame.scene((100 + 200 * self.rows.len() as u32).max(500))?;
        let Points { x, y } = self.points;
        self.points.check("points")?;
        if let Some(vector) = self.rows.iter().flat_map(|row| row.vectors).find(|vector| vector.len() != x.len()) {
            return Err(lengths("numbers at points", x.len(), vector.len()));
        }
        let columns = self.rows.iter().map(|row| row.vectors.len()).max().unwrap_or(0);
        let axis = |values: &[f64]| Axis::linear(values.iter().copied(), 0.06);
        let (Some(across), Some(up), true) = (axis(x), axis(y), columns > 0) else {
            return Err(nothing("the set of points"));
        };
        let legend = [
            Entry::new(Swatch::Disc(along(&OCHRE, 0.08)), "0"),
            Entry::new(Swatch::Disc(along(&OCHRE, 0.95)), "the panel's largest magnitude"),
        ];
        let top = head(&mut scene, self.frame.title, &legend, NAMES) + GAP;
        let width = (scene.width() - RIGHT - NAMES + GAP) / columns as f64 - GAP;
        let height = (scene.height() - top) / self.rows.len() as f64 - GAP;
        for (r, row) in self.rows.iter().enumerate() {
            let start = top + r as f64 * (height + GAP);
            scene.upwards(row.name, (NAMES - 14.0, start + height / 2.0));
            for (c, vector) in row.vectors.iter().enumerate() {
                let left = NAMES + c as f64 * (width + GAP);
                let area = Area { left, right: left + width, top: start, bottom: start + height };
                draw(&mut scene, &Panel { area, x: across.clone(), y: up.clone() }, self.points, vector);
            }
        }
        Ok(scene)
    }
}

/// Draws the points in the order of their magnitudes, largest on top, in a frame.
fn draw(scene: &mut Scene, panel: &Panel, points: Points, vector: &[f64]) {
    let Area { left, right, top, bottom } = panel.area;
    let corners = vec![(left, top), (right, top), (right, bottom), (left, bottom), (left, top)];
    scene.line(corners, Pen::solid(AXIS, 1.0));
    let most = vector.iter().fold(0.0f64, |most, value| most.max(value.abs()));
    let mut order: Vec<usize> = (0..vector.len()).filter(|&i| vector[i].is_finite()).collect();
    order.sort_by(|&a, &b| vector[a].abs().total_cmp(&vector[b].abs()));
    for i in order {
        let share = if most > 0.0 { vector[i].abs() / most } else { 0.0 };
        let colour = along(&OCHRE, 0.08 + 0.87 * share);
        panel.points(scene, &points.x[i..=i], &points.y[i..=i], points.radius(), colour);
    }
}
