//! The loss of one or several training runs.

use crate::axis::{Axis, drawable};
use crate::colour::LINES;
use crate::data::{Frame, lengths, nothing};
use crate::layout::{Entry, Swatch, stack};
use crate::posterior1d::SIZE;
use crate::render::{Draw, check_size};
use crate::scene::{Pen, Scene};
use cagey_core::Result;

/// One training run.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Its name in the legend.
    pub name: &'a str,
    /// The loss after each iteration.
    pub loss: &'a [f64],
    /// The seconds since the start after each iteration; empty if they were not measured.
    pub seconds: &'a [f64],
}

/// What the loss is drawn against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Against {
    /// The number of the iteration, from one.
    #[default]
    Iteration,
    /// The time since the start.
    Seconds,
}

/// Loss against iteration or time.
#[derive(Clone, Copy, Debug, Default)]
pub struct LearningCurve<'a> {
    /// The runs to compare.
    pub runs: &'a [Run<'a>],
    /// The horizontal axis.
    pub against: Against,
    /// Whether the horizontal axis is logarithmic.
    pub logarithmic: bool,
    /// Title, axis names (`iteration` or `seconds`, and `loss`, if empty) and size.
    pub frame: Frame<'a>,
}

impl Draw for LearningCurve<'_> {
    fn scene(&self) -> Result<Scene> {
        let mut scene = Scene::new(check_size(self.frame.size.unwrap_or(SIZE))?);
        let places = self.runs.iter().map(|run| self.places(run)).collect::<Result<Vec<_>>>()?;
        let name = |given, otherwise| if str::is_empty(given) { otherwise } else { given };
        let x_name = match self.against {
            Against::Iteration => "iteration",
            Against::Seconds => "seconds",
        };
        let frame = Frame { x: name(self.frame.x, x_name), y: name(self.frame.y, "loss"), ..self.frame };
        let pairs = || {
            let all = places.iter().zip(self.runs).flat_map(|(x, run)| x.iter().copied().zip(run.loss.iter().copied()));
            all.filter(|&(x, loss)| drawable(x) && drawable(loss) && (x > 0.0 || !self.logarithmic))
        };
        let across = pairs().map(|(x, _)| x);
        let x = if self.logarithmic { Axis::logarithmic(across) } else { Axis::linear(across, 0.012) };
        let x = if self.against == Against::Iteration { x.map(Axis::whole) } else { x };
        let y = Axis::linear(pairs().map(|(_, loss)| loss), 0.05);
        let (Some(x), Some(y)) = (x, y) else { return Err(nothing("the set of training runs")) };
        // After the last colour, the colours repeat with dashed lines.
        let pen = |index: usize| {
            let colour = LINES[index % LINES.len()];
            if (index / LINES.len()).is_multiple_of(2) { Pen::solid(colour, 1.8) } else { Pen::dashed(colour, 1.8) }
        };
        let named = self.runs.iter().enumerate().filter(|(_, run)| !run.name.is_empty());
        let legend: Vec<_> = named.map(|(index, run)| Entry::new(Swatch::Line(pen(index)), run.name)).collect();
        for panel in stack(&mut scene, &frame, &legend, &x, &[(y, "")], false) {
            for (index, (x, run)) in places.iter().zip(self.runs).enumerate() {
                panel.line(&mut scene, x, run.loss, pen(index));
                if let ([x], [loss]) = (x.as_slice(), run.loss) {
                    panel.points(&mut scene, &[*x], &[*loss], 3.0, pen(index).colour);
                }
            }
        }
        Ok(scene)
    }
}

impl LearningCurve<'_> {
    /// The horizontal places of a run.
    fn places(&self, run: &Run) -> Result<Vec<f64>> {
        match self.against {
            Against::Iteration => Ok((1..=run.loss.len()).map(|iteration| iteration as f64).collect()),
            Against::Seconds if run.seconds.len() == run.loss.len() => Ok(run.seconds.to_vec()),
            Against::Seconds => {
                Err(lengths(&format!("seconds of run `{}`", run.name), run.loss.len(), run.seconds.len()))
            }
        }
    }
}
