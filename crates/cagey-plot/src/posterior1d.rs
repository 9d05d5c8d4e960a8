//! A posterior over functions of one variable, with the data.

use crate::axis::Axis;
use crate::colour::{BAND_OPACITY, BLUE, GREY, VERMILION};
use crate::data::{Curve, Frame, Points};
use crate::layout::{Entry, Swatch, stack};
use crate::render::{Draw, check_size};
use crate::scene::{Pen, Scene};
use cagey_core::Result;

/// The size of a figure in pixels unless its frame says otherwise.
pub(super) const SIZE: (u32, u32) = (1000, 620);

/// Mean, 95 % and 50 % bands, training and held-out points.
#[derive(Clone, Copy, Debug)]
pub struct Posterior1d<'a> {
    /// The posterior.
    pub curve: &'a Curve,
    /// The points that the model was fitted to.
    pub training: Points<'a>,
    /// The points that it has not seen.
    pub held_out: Points<'a>,
    /// An upright line with a label above it, such as the start of a forecast.
    pub mark: Option<(f64, &'a str)>,
    /// Title, axis names and size.
    pub frame: Frame<'a>,
}

impl<'a> Posterior1d<'a> {
    /// The figure of a curve alone.
    pub fn new(curve: &'a Curve) -> Self {
        let (training, held_out) = (Points::default(), Points::default());
        Self { curve, training, held_out, mark: None, frame: Frame::default() }
    }
}

impl Draw for Posterior1d<'_> {
    fn scene(&self) -> Result<Scene> {
        let mut scene = Scene::new(check_size(self.frame.size.unwrap_or(SIZE))?);
        let curve = self.curve.checked("the posterior")?;
        self.training.check("training points")?;
        self.held_out.check("held-out points")?;
        let sets = [(self.training, GREY, "training data"), (self.held_out, VERMILION, "held-out data")];
        let x = x_axis(&[&curve], &[self.training, self.held_out], self.mark)?.with_ticks(self.frame.ticks);
        let heights = curve.heights().chain(sets.iter().flat_map(|(points, ..)| points.y.iter().copied()));
        let y = Axis::linear(heights, 0.05).ok_or_else(|| crate::data::nothing("the posterior"))?;
        let mut legend = curve_legend("mean");
        let shown = sets.iter().filter(|(points, ..)| !points.x.is_empty());
        legend.extend(shown.map(|&(_, colour, label)| Entry::new(Swatch::Disc(colour), label)));
        for panel in stack(&mut scene, &self.frame, &legend, &x, &[(y, "")], self.mark.is_some()) {
            panel.curve(&mut scene, &curve, sets.map(|(points, colour, _)| (points, colour)));
            if let Some(mark) = self.mark {
                panel.mark(&mut scene, mark, 0.0);
            }
        }
        Ok(scene)
    }
}

/// The legend of a curve with its bands.
pub(super) fn curve_legend(mean: &str) -> Vec<Entry> {
    let (wide, narrow) = BAND_OPACITY;
    // In the figure the narrow band lies on the wide one.
    let both = 1.0 - (1.0 - wide) * (1.0 - narrow);
    vec![
        Entry::new(Swatch::Line(Pen::solid(BLUE, 2.0)), mean),
        Entry::new(Swatch::Band(BLUE, both), "50 % band"),
        Entry::new(Swatch::Band(BLUE, wide), "95 % band"),
    ]
}

/// The horizontal axis that shows all curves, points and the mark.
pub(super) fn x_axis(curves: &[&Curve], points: &[Points], mark: Option<(f64, &str)>) -> Result<Axis> {
    let of_curves = curves.iter().flat_map(|curve| curve.x.iter());
    let of_points = points.iter().flat_map(|points| points.x.iter());
    Axis::linear(of_curves.chain(of_points).copied().chain(mark.map(|(x, _)| x)), 0.012)
        .ok_or_else(|| crate::data::nothing("the horizontal axis"))
}
