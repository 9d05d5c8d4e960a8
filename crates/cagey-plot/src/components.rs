//! The summands of an additive model, each with its own uncertainty, below their sum.

use crate::axis::Axis;
use crate::colour::{GREY, VERMILION};
use crate::data::{Curve, Frame, Points, nothing};
use crate::layout::{Entry, Swatch, stack};
use crate::panel::LABEL_SIZE;
use crate::posterior1d::{SIZE, curve_legend, x_axis};
use crate::render::{Draw, check_size};
use crate::scene::Scene;
use crate::text;
use cagey_core::Result;

/// One summand of an additive model.
#[derive(Clone, Copy, Debug)]
pub struct Component<'a> {
    /// Its name, shown above its panel.
    pub title: &'a str,
    /// Its posterior.
    pub curve: &'a Curve,
}

/// Stacked panels with a common horizontal axis: the sum on top, then each summand.
#[derive(Clone, Copy, Debug)]
pub struct Components<'a> {
    /// The sum.
    pub total: Component<'a>,
    /// The summands, from top to bottom; at least one.
    pub parts: &'a [Component<'a>],
    /// The points that the model was fitted to, drawn with the sum.
    pub training: Points<'a>,
    /// The points that it has not seen, drawn with the sum.
    pub held_out: Points<'a>,
    /// An upright line through all panels with a label above the first.
    pub mark: Option<(f64, &'a str)>,
    /// Title, axis names (common to all panels) and size.
    pub frame: Frame<'a>,
}

impl Draw for Components<'_> {
    fn scene(&self) -> Result<Scene> {
        let rows = self.parts.len() as u32 + 1;
        let size = self.frame.size.unwrap_or((SIZE.0, (90 + 165 * rows).clamp(SIZE.1, 4000)));
        let mut scene = Scene::new(check_size(size)?);
        self.training.check("training points")?;
        self.held_out.check("held-out points")?;
        if self.parts.is_empty() {
            return Err(nothing("the list of components"));
        }
        let components: Vec<_> = std::iter::once(&self.total).chain(self.parts).collect();
        let curves = components
            .iter()
            .map(|part| part.curve.checked(&format!("`{}`", part.title)))
            .collect::<Result<Vec<_>>>()?;
        let sets = [(self.training, GREY, "training data"), (self.held_out, VERMILION, "held-out data")];
        let x = x_axis(&curves.iter().collect::<Vec<_>>(), &[self.training, self.held_out], self.mark)?;
        let x = x.with_ticks(self.frame.ticks);
        let mut axes = Vec::new();
        for (index, (part, curve)) in components.iter().zip(&curves).enumerate() {
            let points = sets.iter().filter(|_| index == 0).flat_map(|(points, ..)| points.y.iter().copied());
            let y = Axis::linear(curve.heights().chain(points), 0.07).ok_or_else(|| nothing(part.title))?;
            axes.push((y, part.title));
        }
        let mut legend = curve_legend("mean");
        let shown = sets.iter().filter(|(points, ..)| !points.x.is_empty());
        legend.extend(shown.map(|&(_, colour, label)| Entry::new(Swatch::Disc(colour), label)));
        let panels = stack(&mut scene, &self.frame, &legend, &x, &axes, true);
        for (index, (panel, curve)) in panels.iter().zip(&curves).enumerate() {
            let drawn = sets.iter().filter(|_| index == 0).map(|&(points, colour, _)| (points, colour));
            panel.curve(&mut scene, curve, drawn);
            if let Some((x, label)) = self.mark {
                let label = if index == 0 { label } else { "" };
                panel.mark(&mut scene, (x, label), text::width(self.total.title, LABEL_SIZE, true) + 14.0);
            }
        }
        Ok(scene)
    }
}
