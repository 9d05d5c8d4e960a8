//! Whether a model's stated uncertainty is right: coverage and probability-integral-transform values, and how often a
//! classifier is right at each confidence.

use crate::axis::Axis;
use crate::colour::{BLUE, GREY, INK};
use crate::data::{Frame, lengths, nothing};
use crate::layout::{Entry, Names, Swatch, pair};
use crate::panel::Panel;
use crate::render::Draw;
use crate::scene::{Pen, Scene};
use cagey_core::Result;
use plotters::style::Color;
use statrs::distribution::{Binomial, DiscreteCDF};

/// The opacity of the region that chance alone explains.
const CHANCE: f64 = 0.25;

/// The legend of a curve beside the line of perfect calibration.
fn legend(model: String, chance: String) -> [Entry; 3] {
    [
        Entry::new(Swatch::Line(Pen::solid(BLUE, 2.0)), model),
        Entry::new(Swatch::Line(Pen::dashed(INK, 1.3)), "perfect calibration"),
        Entry::new(Swatch::Band(GREY, CHANCE), chance),
    ]
}

/// Draws a bar from 0 to `height` between two places, narrower by `inset` pixels on both sides.
fn bar(scene: &mut Scene, panel: &Panel, [from, to]: [f64; 2], height: f64, inset: f64) {
    if let Some(((x0, y0), (x1, y1))) = panel.at(from, 0.0).zip(panel.at(to, height)) {
        scene.rect((x0 + inset, y0), (x1 - inset, y1), BLUE.mix(0.6));
    }
}

/// Observed against nominal coverage, and beside it the histogram of F(y), the predictive distribution function at the
/// observations. F(y) is uniform for a calibrated model (Dawid 1984; Gneiting, Balabdaoui and Raftery 2007).
///
/// With as many independent observations, a perfectly calibrated model lies in the grey region with 95 % probability.
/// Values outside [0, 1] are skipped.
#[derive(Clone, Copy, Debug, Default)]
pub struct Calibration<'a> {
    /// Nominal levels of central intervals, in [0, 1].
    pub nominal: &'a [f64],
    /// The share of observations within each interval.
    pub observed: &'a [f64],
    /// Probability-integral-transform values, in [0, 1].
    pub pit: &'a [f64],
    /// Title and size; the axes have fixed names.
    pub frame: Frame<'a>,
}

impl Draw for Calibration<'_> {
    fn scene(&self) -> Result<Scene> {
        let mut scene = self.frame.scene(520)?;
        if self.nominal.len() != self.observed.len() {
            return Err(lengths("observed coverage", self.nominal.len(), self.observed.len()));
        }
        let share = 0.0..=1.0;
        let mut levels: Vec<_> = self.nominal.iter().copied().zip(self.observed.iter().copied()).collect();
        levels.retain(|(nominal, observed)| share.contains(nominal) && share.contains(observed));
        levels.sort_by(|a, b| a.0.total_cmp(&b.0));
        let pit: Vec<_> = self.pit.iter().copied().filter(|value| share.contains(value)).collect();
        if levels.is_empty() || pit.is_empty() {
            let what = if pit.is_empty() { "PIT values" } else { "coverages" };
            return Err(nothing(&format!("the set of {what} in [0, 1]")));
        }
        let density = histogram(&pit);
        let (low, high) = chance(pit.len(), 1.0 / density.len() as f64);
        let (low, high) = (low * density.len() as f64, high * density.len() as f64);
        let unit = || Axis::exact(0.0, 1.0);
        let top = density.iter().copied().fold(high, f64::max) * 1.08;
        let coverage = Names { heading: "Coverage of central intervals", x: "nominal level", y: "observed coverage" };
        let histogram = Names { heading: "Probability integral transform", x: "F(y)", y: "density" };
        let legend = legend("model".into(), format!("95 % of calibrated models, n = {}", pit.len()));
        let panels = [(unit(), unit(), coverage), (unit(), Axis::exact(0.0, top), histogram)];
        let [left, right] = pair(&mut scene, self.frame.title, &legend, panels, 0.0);

        let grid: Vec<_> = (0..=100).map(|i| f64::from(i) / 100.0).collect();
        let (lower, upper) = grid.iter().map(|&level| chance(pit.len(), level)).unzip();
        left.band(&mut scene, &grid, &[lower, upper], GREY, CHANCE);
        left.line(&mut scene, &[0.0, 1.0], &[0.0, 1.0], Pen::dashed(INK, 1.3));
        let (nominal, observed): (Vec<_>, Vec<_>) = levels.into_iter().unzip();
        left.line(&mut scene, &nominal, &observed, Pen::solid(BLUE, 2.0));
        left.points(&mut scene, &nominal, &observed, if nominal.len() > 40 { 0.0 } else { 3.2 }, BLUE);

        let bins = density.len() as f64;
        for (bin, &height) in density.iter().enumerate() {
            bar(&mut scene, &right, [bin as f64 / bins, (bin + 1) as f64 / bins], height, 1.0);
        }
        right.band(&mut scene, &[0.0, 1.0], &[vec![low; 2], vec![high; 2]], GREY, CHANCE);
        right.line(&mut scene, &[0.0, 1.0], &[1.0, 1.0], Pen::dashed(INK, 1.3));
        Ok(scene)
    }
}

/// Half the width of a bin's grey bar, as a share of the axis.
const HALF: f64 = 0.03;

/// Accuracy against confidence, and beside it how the confidences are distributed over the bins (Guo et al. 2017).
///
/// If a bin's confidence is right, its accuracy lies in the bin's grey bar with 95 % probability.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reliability<'a> {
    /// Bins of equal width that hold predictions: their confidence, the accuracy, and their number.
    pub bins: &'a [(f64, f64, usize)],
    /// Title and size; the axes have fixed names.
    pub frame: Frame<'a>,
}

impl Draw for Reliability<'_> {
    fn scene(&self) -> Result<Scene> {
        let mut scene = self.frame.scene(520)?;
        let n: usize = self.bins.iter().map(|bin| bin.2).sum();
        if n == 0 {
            return Err(nothing("the set of predictions"));
        }
        let share = |count: usize| count as f64 / n as f64;
        let unit = || Axis::exact(0.0, 1.0);
        let top = Axis::exact(0.0, 1.08 * self.bins.iter().map(|bin| share(bin.2)).fold(0.0, f64::max));
        let curve = Names { heading: "Accuracy of predictions", x: "confidence", y: "accuracy" };
        let shares = Names { heading: "Share of predictions", x: "confidence", y: "share" };
        let legend = legend(format!("model, n = {n}"), "95 % of calibrated models".into());
        let panels = [(unit(), unit(), curve), (unit(), top, shares)];
        let [left, right] = pair(&mut scene, self.frame.title, &legend, panels, 0.0);
        for &(confidence, _, count) in self.bins {
            let (low, high) = chance(count, confidence.clamp(0.0, 1.0));
            let ends = [(confidence - HALF).max(0.0), (confidence + HALF).min(1.0)];
            left.band(&mut scene, &ends, &[vec![low; 2], vec![high; 2]], GREY, CHANCE);
        }
        left.line(&mut scene, &[0.0, 1.0], &[0.0, 1.0], Pen::dashed(INK, 1.3));
        let (x, y): (Vec<_>, Vec<_>) = self.bins.iter().map(|bin| (bin.0, bin.1)).unzip();
        left.line(&mut scene, &x, &y, Pen::solid(BLUE, 2.0));
        for &(confidence, accuracy, count) in self.bins {
            // The area of a disc shows the share of its bin; no disc is too small to be seen.
            left.points(&mut scene, &[confidence], &[accuracy], 2.5 + 7.5 * share(count).sqrt(), BLUE);
            bar(&mut scene, &right, [confidence; 2], share(count), -5.0);
        }
        Ok(scene)
    }
}

/// The histogram of values in [0, 1] as a density, with as many bins as the values support, 5 to 20.
fn histogram(values: &[f64]) -> Vec<f64> {
    let bins = ((values.len() as f64).sqrt() as usize).clamp(5, 20);
    let mut density = vec![0.0; bins];
    for value in values {
        density[((value * bins as f64) as usize).min(bins - 1)] += bins as f64 / values.len() as f64;
    }
    density
}

/// The central 95 % interval of the share of `count` independent trials that succeed with probability `level`.
fn chance(count: usize, level: f64) -> (f64, f64) {
    Binomial::new(level, count as u64).map_or((level, level), |trials| {
        let share = |quantile| trials.inverse_cdf(quantile) as f64 / count as f64;
        (share(0.025), share(0.975))
    })
}
