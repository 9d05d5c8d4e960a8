//! Posteriors over functions of one variable: with the data, above their summands, with sample paths.

use crate::axis::Axis;
use crate::colour::{BAND_OPACITY, BLUE, GREY, INK, LINES, VERMILION};
use crate::data::{Curve, Frame, HEIGHT, Points, lengths, nothing, pick};
use crate::layout::{Entry, Swatch, stack};
use crate::render::Draw;
use crate::scene::{Pen, Scene};
use crate::text::{self, LABEL_SIZE};
use cagey_core::Result;

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
        let Self { curve, training, held_out, mark, frame } = *self;
        let total = Component { title: "", curve };
        Components { total, parts: &[], training, held_out, mark, frame }.stacked()
    }
}

/// One summand of an additive model.
#[derive(Clone, Copy, Debug)]
pub struct Component<'a> {
    /// Its name, shown above its panel.
    pub title: &'a str,
    /// Its posterior.
    pub curve: &'a Curve,
}

/// Stacked panels with a common horizontal axis: the sum on top, then each summand with its own uncertainty.
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
        match self.parts {
            [] => Err(nothing("the list of components")),
            _ => self.stacked(),
        }
    }
}

impl Components<'_> {
    /// The drawing of the sum, and below it of the summands, if there are any.
    fn stacked(&self) -> Result<Scene> {
        let Self { total, parts, training, held_out, mark, frame } = *self;
        let mut scene = frame.scene((90 + 165 * (parts.len() as u32 + 1)).max(HEIGHT))?;
        training.check("training points")?;
        held_out.check("held-out points")?;
        let mut curves = Vec::new();
        for Component { title, curve } in std::iter::once(&total).chain(parts) {
            let name = if title.is_empty() { "the posterior".into() } else { format!("`{title}`") };
            curves.push((*title, curve.checked(&name)?));
        }
        let x = x_axis(curves.iter().map(|(_, curve)| curve), &[training, held_out], mark)?.with_ticks(frame.ticks);
        let sets = [(training, GREY, "training data"), (held_out, VERMILION, "held-out data")];
        let of_panel = |index: usize| if index == 0 { &sets[..] } else { &[] };
        let pad = if parts.is_empty() { 0.05 } else { 0.07 };
        let mut axes = Vec::new();
        for (index, (title, curve)) in curves.iter().enumerate() {
            let points = of_panel(index).iter().flat_map(|(points, ..)| points.y.iter().copied());
            let y = Axis::linear(curve.heights().chain(points), pad).ok_or_else(|| nothing(title))?;
            axes.push((y, *title));
        }
        let mut legend = curve_legend();
        let shown = sets.iter().filter(|(points, ..)| !points.x.is_empty());
        legend.extend(shown.map(|&(_, colour, label)| Entry::new(Swatch::Disc(colour), label)));
        let panels = stack(&mut scene, &frame, &legend, &x, &axes, !parts.is_empty() || mark.is_some());
        // The label of the mark begins after the title of the sum.
        let from = if total.title.is_empty() { 0.0 } else { text::width(total.title, LABEL_SIZE, true) + 14.0 };
        for (index, (panel, (_, curve))) in panels.iter().zip(&curves).enumerate() {
            panel.curve(&mut scene, curve, of_panel(index).iter().map(|&(points, colour, _)| (points, colour)));
            if let Some((x, label)) = mark {
                panel.mark(&mut scene, (x, if index == 0 { label } else { "" }), from);
            }
        }
        Ok(scene)
    }
}

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
        let mut scene = self.frame.scene(HEIGHT)?;
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
        let x = x_axis([&curve], &[self.training], None)?.with_ticks(self.frame.ticks);
        let mut legend = curve_legend();
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

/// The legend of a curve with its bands.
fn curve_legend() -> Vec<Entry> {
    let (wide, narrow) = BAND_OPACITY;
    // In the figure the narrow band lies on the wide one.
    let both = 1.0 - (1.0 - wide) * (1.0 - narrow);
    vec![
        Entry::new(Swatch::Line(Pen::solid(BLUE, 2.0)), "mean"),
        Entry::new(Swatch::Band(BLUE, both), "50 % band"),
        Entry::new(Swatch::Band(BLUE, wide), "95 % band"),
    ]
}

/// The horizontal axis that shows all curves, points and the mark.
fn x_axis<'a>(
    curves: impl IntoIterator<Item = &'a Curve>,
    points: &[Points],
    mark: Option<(f64, &str)>,
) -> Result<Axis> {
    let of_curves = curves.into_iter().flat_map(|curve| &curve.x);
    let of_points = points.iter().flat_map(|points| points.x);
    let all = of_curves.chain(of_points).copied().chain(mark.map(|(x, _)| x));
    Axis::linear(all, 0.012).ok_or_else(|| nothing("the horizontal axis"))
}
