//! Scores of several models with their errors, against the time that each took.

use crate::axis::Axis;
use crate::colour::LINES;
use crate::data::{Frame, nothing};
use crate::layout::{Entry, Swatch, stack};
use crate::posterior1d::SIZE;
use crate::render::{Draw, check_size};
use crate::scene::{Pen, Scene};
use cagey_core::Result;

/// One model.
#[derive(Clone, Copy, Debug)]
pub struct Scored<'a> {
    /// Its name in the legend.
    pub name: &'a str,
    /// Seconds that it took.
    pub seconds: f64,
    /// Its score.
    pub score: f64,
    /// The standard error of the score, drawn up and down.
    pub error: f64,
}

/// Scores against seconds, on a logarithmic axis.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scores<'a> {
    /// The models.
    pub all: &'a [Scored<'a>],
    /// Title, axis names (`seconds` and `score`, if empty) and size.
    pub frame: Frame<'a>,
}

/// Shorter times, in seconds, are drawn as this.
const LEAST: f64 = 1e-3;

impl Draw for Scores<'_> {
    fn scene(&self) -> Result<Scene> {
        let mut scene = Scene::new(check_size(self.frame.size.unwrap_or(SIZE))?);
        let name = |given, otherwise| if str::is_empty(given) { otherwise } else { given };
        let frame = Frame { x: name(self.frame.x, "seconds"), y: name(self.frame.y, "score"), ..self.frame };
        let seconds = |scored: &Scored| scored.seconds.max(LEAST);
        // A little room on both sides.
        let across = self.all.iter().flat_map(|scored| [0.7 * seconds(scored), 1.4 * seconds(scored)]);
        let ends = self.all.iter().flat_map(|s| [s.score - s.error, s.score + s.error]).filter(|end| end.is_finite());
        let (Some(x), Some(y)) = (Axis::logarithmic(across), Axis::linear(ends, 0.08)) else {
            return Err(nothing("the set of scores"));
        };
        let colour = |index: usize| LINES[index % LINES.len()];
        let legend: Vec<Entry> =
            self.all.iter().enumerate().map(|(k, scored)| Entry::new(Swatch::Disc(colour(k)), scored.name)).collect();
        for panel in stack(&mut scene, &frame, &legend, &x, &[(y, "")], false) {
            for (index, scored) in self.all.iter().enumerate() {
                let at = seconds(scored);
                let ends = [scored.score - scored.error, scored.score + scored.error];
                panel.line(&mut scene, &[at, at], &ends, Pen::solid(colour(index), 1.6));
                panel.points(&mut scene, &[at], &[scored.score], 4.5, colour(index));
            }
        }
        Ok(scene)
    }
}
