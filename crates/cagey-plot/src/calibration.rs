//! Whether a model's stated uncertainty is right: coverage and probability-integral-transform values.

use crate::axis::Axis;
use crate::colour::{BLUE, GREY, INK};
use crate::data::{Frame, lengths, nothing};
use crate::layout::{Entry, Names, Swatch, pair};
use crate::posterior1d::SIZE;
use crate::render::{Draw, check_size};
use crate::scene::{Pen, Scene};
use cagey_core::Result;
use plotters::style::Color;
use statrs::distribution::{Binomial, DiscreteCDF};

/// The opacity of the region that chance alone explains.
pub(super) const CHANCE: f64 = 0.25;

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
        let mut scene = Scene::new(check_size(self.frame.size.unwrap_or((SIZE.0, 520)))?);
        if self.nominal.len() != self.observed.len() {
            return Err(lengths("observed coverage", self.nominal.len(), self.observed.len()));
        }
        let share = 0.0..=1.0;
        let mut levels: Vec<_> = self.nominal.iter().copied().zip(self.observed.iter().copied()).collect();
        levels.retain(|(nominal, observed)| share.contains(nominal) && share.contains(observed));
        levels.sort_by(|a, b| a.0.total_cmp(&b.0));
        let pit: Vec<_> = self.pit.iter().copied().filter(|value| share.contains(value)).collect();
        if levels.is_empty() || pit.is_empty() {
            return Err(nothing(if pit.is_empty() {
                "the set of PIT values in [0, 1]"
            } else {
                "the set of coverages in [0, 1]"
            }));
        }
        let density = histogram(&pit);
        let (low, high) = chance(pit.len(), 1.0 / density.len() as f64);
        let (low, high) = (low * density.len() as f64, high * density.len() as f64);
        let unit = || Axis::exact(0.0, 1.0);
        let top = density.iter().copied().fold(high, f64::max) * 1.08;
        let coverage = Names { heading: "Coverage of central intervals", x: "nominal level", y: "observed coverage" };
        let histogram = Names { heading: "Probability integral transform", x: "F(y)", y: "density" };
        let legend = [
            Entry::new(Swatch::Line(Pen::solid(BLUE, 2.0)), "model"),
            Entry::new(Swatch::Line(Pen::dashed(INK, 1.3)), "perfect calibration"),
            Entry::new(Swatch::Band(GREY, CHANCE), format!("95 % of calibrated models, n = {}", pit.len())),
        ];
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
            let corners = right.at(bin as f64 / bins, 0.0).zip(right.at((bin + 1) as f64 / bins, height));
            if let Some(((x0, y0), (x1, y1))) = corners {
                scene.rect((x0 + 1.0, y0), (x1 - 1.0, y1), BLUE.mix(0.6));
            }
        }
        right.band(&mut scene, &[0.0, 1.0], &[vec![low; 2], vec![high; 2]], GREY, CHANCE);
        right.line(&mut scene, &[0.0, 1.0], &[1.0, 1.0], Pen::dashed(INK, 1.3));
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
pub(super) fn chance(count: usize, level: f64) -> (f64, f64) {
    Binomial::new(level, count as u64).map_or((level, level), |trials| {
        let share = |quantile| trials.inverse_cdf(quantile) as f64 / count as f64;
        (share(0.025), share(0.975))
    })
}
