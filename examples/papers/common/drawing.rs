//! Figures of a program.

use cagey::Result;
use cagey::models::posterior::Marginals;
use cagey::plot::{Fields, Figure, Frame, Layer, Pane, Panels, Points, Row, Series};

use super::command::Job;
use super::scores::spread;

/// A line.
pub fn line(name: impl Into<String>, x: &[f64], y: &[f64]) -> Series {
    Series { name: name.into(), layers: vec![Layer::Line(x.to_vec(), y.to_vec())] }
}

/// Points.
pub fn points(name: impl Into<String>, x: &[f64], y: &[f64]) -> Series {
    Series { name: name.into(), layers: vec![Layer::Points(x.to_vec(), y.to_vec())] }
}

/// A mean with the central 95 % of a normal distribution with this variance, plus `noise`.
pub fn normal(name: impl Into<String>, x: &[f64], said: &Marginals, noise: f64) -> Series {
    let end = |side: f64| said.mean.iter().zip(&said.variance).map(move |(m, v)| m + side * 1.96 * (v + noise).sqrt());
    let band = Layer::Band(x.to_vec(), [end(-1.0).collect(), end(1.0).collect()]);
    Series { name: name.into(), layers: vec![band, Layer::Line(x.to_vec(), said.mean.clone())] }
}

/// The medians of several runs at each place, with a band from the lowest to the highest. `runs[place]` are the values
/// of all runs there.
pub fn median(name: impl Into<String>, x: &[f64], runs: &[Vec<f64>]) -> Series {
    let [low, middle, high] = [0.0, 0.5, 1.0].map(|p| runs.iter().map(|own| quantile(own, p)).collect::<Vec<f64>>());
    let layers = vec![Layer::Band(x.to_vec(), [low, high]), Layer::Line(x.to_vec(), middle)];
    Series { name: name.into(), layers }
}

/// The means of several runs at each place, with a band of one standard deviation on both sides.
pub fn mean(name: impl Into<String>, x: &[f64], runs: &[Vec<f64>]) -> Series {
    let spreads: Vec<(f64, f64)> = runs.iter().map(|own| spread(own)).collect();
    let end = |side: f64| spreads.iter().map(|(mean, sd)| mean + side * sd).collect::<Vec<f64>>();
    let layers = vec![Layer::Band(x.to_vec(), [end(-1.0), end(1.0)]), Layer::Line(x.to_vec(), end(0.0))];
    Series { name: name.into(), layers }
}

/// The nearest of the values to a share `p` of them.
pub fn quantile(values: &[f64], p: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get((p * (values.len() as f64 - 1.0)).round() as usize).copied().unwrap_or(f64::NAN)
}

/// A panel.
pub fn pane(title: impl Into<String>, series: Vec<Series>) -> Pane {
    Pane { title: title.into(), series }
}

/// Evenly spaced points.
pub fn grid(from: f64, to: f64, count: usize) -> Vec<f64> {
    (0..count).map(|i| from + (to - from) * i as f64 / (count - 1).max(1) as f64).collect()
}

/// Points `[count², 2]` over a rectangle.
pub fn plane(across: (f64, f64), up: (f64, f64), count: usize) -> Vec<f64> {
    let (x, y) = (grid(across.0, across.1, count), grid(up.0, up.1, count));
    y.iter().flat_map(|y| x.iter().flat_map(move |x| [*x, *y])).collect()
}

impl<O> Job<O> {
    /// Draws panels with a common horizontal axis.
    pub fn panels(&self, suffix: &str, [title, x, y]: [&str; 3], logarithmic: bool, panes: &[Pane]) -> Result<()> {
        let (path, frame) = (self.file(&format!("{suffix}.png")), Frame { title, x, y, ..Frame::default() });
        Panels { panes, logarithmic, frame }.save(&path)?;
        println!("figure in {}", path.display());
        Ok(())
    }

    /// Draws the magnitudes of vectors at points `[n, 2]`, with a row of panels for each name.
    pub fn fields(&self, suffix: &str, title: &str, places: &[f64], rows: &[(String, Vec<Vec<f64>>)]) -> Result<()> {
        let [x, y]: [Vec<f64>; 2] = [0, 1].map(|c| places.iter().skip(c).step_by(2).copied().collect());
        let rows: Vec<Row> = rows.iter().map(|(name, vectors)| Row { name, vectors }).collect();
        let path = self.file(&format!("{suffix}.png"));
        Fields { points: Points { x: &x, y: &y }, rows: &rows, frame: Frame { title, ..Frame::default() } }
            .save(&path)?;
        println!("figure in {}", path.display());
        Ok(())
    }
}
