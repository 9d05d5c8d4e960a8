//! Sample paths of a posterior over functions of one variable.

use crate::axis::Axis;
use crate::colour::{BAND_OPACITY, BLUE, GREY, INK, LINES};
use crate::data::{Curve, Frame, Points, lengths, nothing, pick};
use crate::layout::{Entry, Swatch, stack};
use crate::posterior1d::{SIZE, curve_legend, x_axis};
use crate::render::{Draw, check_size};
use crate::scene::{Pen, Scene};
use cagey_core::Result;

/// The posterior mean and 95 % band with functions drawn from the posterior.
#[derive(Clone, Copy, Debug)]
pub struct Samples<'a> {
    /// The posterior; its 50 % band is not shown.
    pub curve: &'a Curve,
    /// Each path at the curve's `x`, in the same order.
    pub paths: &'a [Vec<f64>],
    /// The points that the model was fitted to.
    pub training: Points<'a>,
    /// Title, axis names and size.
    pub frame: Frame<'a>,
}

impl Draw for Samples<'_> {
    fn scene(&self) -> Result<Scene> {
        let mut scene = Scene::new(check_size(self.frame.size.unwrap_or(SIZE))?);
        let curve = self.curve.checked("the posterior")?;
        self.training.check("training points")?;
        if let Some(path) = self.paths.iter().find(|path| path.len() != self.curve.x.len()) {
            return Err(lengths("a sample path", self.curve.x.len(), path.len()));
        }
        let order = self.curve.order();
        let paths: Vec<_> = self.paths.iter().map(|path| pick(path, &order)).collect();
        Axis::linear(paths.iter().flatten().copied(), 0.0).ok_or_else(|| nothing("the set of sample paths"))?;
        let heights = curve.heights().chain(paths.iter().flatten().copied()).chain(self.training.y.iter().copied());
        let y = Axis::linear(heights, 0.05).ok_or_else(|| nothing("the posterior"))?;
        let x = x_axis(&[&curve], &[self.training], None)?.with_ticks(self.frame.ticks);
        let mut legend = curve_legend("mean");
        legend.remove(1);
        legend.push(Entry::new(Swatch::Line(Pen::solid(LINES[2], 1.3)), "sample paths"));
        if !self.training.x.is_empty() {
            legend.push(Entry::new(Swatch::Disc(INK), "training data"));
        }
        for panel in stack(&mut scene, &self.frame, &legend, &x, &[(y, "")], false) {
            panel.band(&mut scene, &curve.x, &curve.band95, BLUE, BAND_OPACITY.0);
            for (path, colour) in paths.iter().zip(LINES[1..].iter().chain([&GREY]).cycle()) {
                panel.line(&mut scene, &curve.x, path, Pen::solid(*colour, 1.3));
            }
            panel.line(&mut scene, &curve.x, &curve.mean, Pen::solid(BLUE, 2.0));
            panel.points(&mut scene, self.training.x, self.training.y, self.training.radius(), INK);
        }
        Ok(scene)
    }
}
