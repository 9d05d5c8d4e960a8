//! Whether a classifier's probabilities are right: how often its predictions are right at each confidence.

use crate::axis::Axis;
use crate::calibration::{CHANCE, chance};
use crate::colour::{BLUE, GREY, INK};
use crate::data::{Frame, nothing};
use crate::layout::{Entry, Names, Swatch, pair};
use crate::posterior1d::SIZE;
use crate::render::{Draw, check_size};
use crate::scene::{Pen, Scene};
use cagey_core::Result;
use plotters::style::Color;

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
        let mut scene = Scene::new(check_size(self.frame.size.unwrap_or((SIZE.0, 520)))?);
        let n: usize = self.bins.iter().map(|bin| bin.2).sum();
        if n == 0 {
            return Err(nothing("the set of predictions"));
        }
        let share = |count: usize| count as f64 / n as f64;
        let unit = || Axis::exact(0.0, 1.0);
        let top = Axis::exact(0.0, 1.08 * self.bins.iter().map(|bin| share(bin.2)).fold(0.0, f64::max));
        let curve = Names { heading: "Accuracy of predictions", x: "confidence", y: "accuracy" };
        let shares = Names { heading: "Share of predictions", x: "confidence", y: "share" };
        let legend = [
            Entry::new(Swatch::Line(Pen::solid(BLUE, 2.0)), format!("model, n = {n}")),
            Entry::new(Swatch::Line(Pen::dashed(INK, 1.3)), "perfect calibration"),
            Entry::new(Swatch::Band(GREY, CHANCE), "95 % of calibrated models"),
        ];
        let [left, right] =
            pair(&mut scene, self.frame.title, &legend, [(unit(), unit(), curve), (unit(), top, shares)], 0.0);
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
            let middle = right.at(confidence, 0.0).zip(right.at(confidence, share(count)));
            if let Some(((x, bottom), (_, top))) = middle {
                scene.rect((x - 5.0, bottom), (x + 5.0, top), BLUE.mix(0.6));
            }
        }
        Ok(scene)
    }
}
