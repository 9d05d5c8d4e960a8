//! The parts of a weighted sum of sparse models: where their inducing inputs lie, and their coefficients.

use crate::axis::Axis;
use crate::colour::{AXIS, GREY, VIRIDIS, along};
use crate::data::{Frame, Points, nothing};
use crate::layout::{Entry, Names, Swatch, pair};
use crate::render::Draw;
use crate::scene::{Pen, Scene};
use cagey_core::Result;
use plotters::style::RGBColor;

/// One part.
#[derive(Clone, Copy, Debug, Default)]
pub struct PartPoints<'a> {
    /// Its inducing inputs, in two columns.
    pub points: Points<'a>,
    /// The factor of its mean in the sum.
    pub coefficient: f64,
    /// The factor that it would have without data.
    pub technique: f64,
}

/// Inducing inputs, coloured by the part, and beside them the coefficients of the parts in their order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts<'a> {
    /// In their order.
    pub parts: &'a [PartPoints<'a>],
    /// Title, axis names of the inputs and size.
    pub frame: Frame<'a>,
}

impl Draw for Parts<'_> {
    fn scene(&self) -> Result<Scene> {
        let mut scene = self.frame.scene(500)?;
        for part in self.parts {
            part.points.check("inducing inputs")?;
        }
        let all = |of: fn(&Points) -> Vec<f64>| self.parts.iter().flat_map(move |part| of(&part.points));
        let axis = |of| Axis::linear(all(of), 0.06).ok_or_else(|| nothing("the inducing inputs"));
        let (x, y) = (axis(|points| points.x.to_vec())?, axis(|points| points.y.to_vec())?);
        let order = Axis::linear([0.5, self.parts.len() as f64 + 0.5], 0.0).ok_or_else(|| nothing("the parts"))?;
        let values = self.parts.iter().flat_map(|part| [part.coefficient, part.technique]).chain([0.0]);
        let coefficients = Axis::linear(values, 0.08).ok_or_else(|| nothing("the coefficients"))?;
        let Frame { title, x: x_name, y: y_name, .. } = self.frame;
        let left = Names { heading: "Inducing inputs", x: x_name, y: y_name };
        let right = Names { heading: "Coefficients", x: "partial grid, from coarse to fine", y: "" };
        let legend = [
            Entry::new(Swatch::Disc(self.colour(0)), "of the coarsest grid"),
            Entry::new(Swatch::Disc(self.colour(self.parts.len().saturating_sub(1))), "of the finest grid"),
            Entry::new(Swatch::Line(Pen::dashed(GREY, 2.0)), "combination technique"),
        ];
        let [inputs, weights] = pair(&mut scene, title, &legend, [(x, y, left), (order, coefficients, right)], 0.0);
        // Finer grids contain the points of coarser ones, so the coarser ones are drawn on top.
        for (index, part) in self.parts.iter().enumerate().rev() {
            inputs.points(&mut scene, part.points.x, part.points.y, part.points.radius() + 0.6, self.colour(index));
        }
        let at = |index: usize| index as f64 + 1.0;
        weights.line(&mut scene, &[0.5, self.parts.len() as f64 + 0.5], &[0.0; 2], Pen::solid(AXIS, 1.0));
        for (index, part) in self.parts.iter().enumerate() {
            let (here, colour) = (at(index), self.colour(index));
            weights.line(&mut scene, &[here - 0.35, here + 0.35], &[part.technique; 2], Pen::dashed(GREY, 2.0));
            weights.line(&mut scene, &[here; 2], &[0.0, part.coefficient], Pen::solid(colour, 3.0));
            weights.points(&mut scene, &[here], &[part.coefficient], 4.0, colour);
        }
        Ok(scene)
    }
}

impl Parts<'_> {
    fn colour(&self, index: usize) -> RGBColor {
        // The lightest colours are hard to see on paper.
        along(&VIRIDIS, 0.85 * index as f64 / (self.parts.len().max(2) - 1) as f64)
    }
}
