//! Where things go: title and legend on top, then panels above or beside each other with room for all their labels.

use crate::axis::Axis;
use crate::data::Frame;
use crate::panel::{Area, Panel};
use crate::scene::{Align, Pen, Scene};
use crate::text::{self, LABEL_SIZE, TICK_SIZE, TITLE_SIZE};
use plotters::style::{Color, RGBColor};

/// The free border at the right, which takes half of the last tick label.
pub(super) const RIGHT: f64 = 32.0;
/// The height of a heading or legend row.
const ROW: f64 = 24.0;

/// How a legend shows what a colour stands for.
pub(super) enum Swatch {
    Line(Pen),
    Band(RGBColor, f64),
    Disc(RGBColor),
}

/// A swatch and its meaning.
pub(super) struct Entry {
    pub swatch: Swatch,
    pub label: String,
}

impl Entry {
    /// An entry of a legend.
    pub fn new(swatch: Swatch, label: impl Into<String>) -> Self {
        Self { swatch, label: label.into() }
    }
}

/// The names around one panel.
#[derive(Clone, Copy, Default)]
pub(super) struct Names<'a> {
    pub heading: &'a str,
    pub x: &'a str,
    pub y: &'a str,
}

/// Draws title and legend between `left` and the right border. Returns where the panels may begin.
pub(super) fn head(scene: &mut Scene, title: &str, legend: &[Entry], left: f64) -> f64 {
    let right = scene.width() - RIGHT;
    let mut y = 16.0;
    if !title.is_empty() {
        scene.heading(title, (left, y + TITLE_SIZE), TITLE_SIZE, right - left);
        y += ROW + 4.0;
    }
    let mut x = left;
    for Entry { swatch, label } in legend {
        let label = text::shortened(label, LABEL_SIZE, false, right - left - 30.0);
        let width = 30.0 + text::width(&label, LABEL_SIZE, false) + 22.0;
        if x > left && x + width > right + 22.0 {
            (x, y) = (left, y + ROW);
        }
        let middle = y + 10.0;
        match *swatch {
            Swatch::Line(pen) => scene.line(vec![(x, middle), (x + 24.0, middle)], pen),
            Swatch::Band(colour, opacity) => {
                scene.rect((x, middle - 6.0), (x + 24.0, middle + 6.0), colour.mix(opacity));
            }
            Swatch::Disc(colour) => scene.disc((x + 15.0, middle), 3.6, colour),
        }
        scene.text(&label, (x + 30.0, middle + 0.36 * LABEL_SIZE), LABEL_SIZE, Align::Start);
        x += width;
    }
    if legend.is_empty() { y } else { y + ROW + 4.0 }
}

/// The room that tick labels and the name of a vertical axis need.
fn left_margin(y: &Axis, height: f64, named: bool) -> f64 {
    18.0 + Panel::y_label_width(y, height) + if named { 26.0 } else { 6.0 }
}

/// The room that tick labels and the name of a horizontal axis need.
fn bottom_margin(named: bool) -> f64 {
    if named { 56.0 } else { 34.0 }
}

/// Stacks panels with a common horizontal axis, the first one higher than the others, and draws all but the data.
pub(super) fn stack(
    scene: &mut Scene,
    frame: &Frame,
    legend: &[Entry],
    x: &Axis,
    panels: &[(Axis, &str)],
    row: bool,
) -> Vec<Panel> {
    let count = panels.len() as f64;
    let rough = scene.height() / count;
    let margins = panels.iter().map(|(y, _)| left_margin(y, rough, !frame.y.is_empty()));
    let left = margins.fold(0.0, f64::max).round();
    let first = head(scene, frame.title, legend, left);
    let last = scene.height() - bottom_margin(!frame.x.is_empty());
    let gap = if row { ROW + 2.0 } else { 12.0 };
    // The first of several panels is one and a half times as high as the others.
    let weight = |index: usize| if index == 0 && panels.len() > 1 { 1.5 } else { 1.0 };
    let unit = (last - first - count * gap) / (0..panels.len()).map(weight).sum::<f64>();
    let mut top = first;
    let mut placed = Vec::new();
    for (index, (y, heading)) in panels.iter().enumerate() {
        let bottom = top + gap + unit.max(8.0) * weight(index);
        let area = Area { left, right: scene.width() - RIGHT, top: top + gap, bottom };
        scene.heading(heading, (left, area.top - 8.0), LABEL_SIZE, area.right - left);
        let panel = Panel { area, x: x.clone(), y: y.clone() };
        panel.draw_axes(scene, index + 1 == panels.len());
        placed.push(panel);
        top = bottom;
    }
    let whole = Area { left, right: scene.width() - RIGHT, top: first + gap, bottom: last };
    name_axes(scene, whole, 22.0, frame.x, frame.y);
    placed
}

/// Sets two panels side by side, with `bar` pixels free at the right of each, and draws all but the data.
pub(super) fn pair(
    scene: &mut Scene,
    title: &str,
    legend: &[Entry],
    panels: [(Axis, Axis, Names); 2],
    bar: f64,
) -> [Panel; 2] {
    let half = (scene.width() - 8.0) / 2.0;
    let rough = scene.height() - 120.0;
    let top = head(scene, title, legend, left_margin(&panels[0].1, rough, !panels[0].2.y.is_empty()).round()) + ROW;
    let mut start = 0.0;
    panels.map(|(x, y, names)| {
        let left = (start + left_margin(&y, rough, !names.y.is_empty())).round();
        let area = Area {
            left,
            right: start + half - 22.0 - bar,
            top,
            bottom: scene.height() - bottom_margin(!names.x.is_empty()),
        };
        scene.heading(names.heading, (left, top - 9.0), LABEL_SIZE, area.right - left);
        name_axes(scene, area, start + 22.0, names.x, names.y);
        start += half;
        let panel = Panel { area, x, y };
        panel.draw_axes(scene, true);
        panel
    })
}

/// Names the axes of `area`; the baseline of the vertical name lies at `baseline`.
fn name_axes(scene: &mut Scene, area: Area, baseline: f64, x: &str, y: &str) {
    let (middle_x, middle_y) = ((area.left + area.right) / 2.0, (area.top + area.bottom) / 2.0);
    let fitted = |name, room| text::shortened(name, LABEL_SIZE, false, room);
    let (x, y) = (fitted(x, area.right - area.left), fitted(y, area.bottom - area.top));
    scene.text(&x, (middle_x, area.bottom + 22.0 + TICK_SIZE + 8.0), LABEL_SIZE, Align::Middle);
    scene.upwards(&y, (baseline, middle_y));
}
