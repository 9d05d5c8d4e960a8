//! Figures of the parts of a model.

use std::path::Path;

use cagey::fitted::Fitted;
use cagey::plot::{Figure, Frame, PartPoints, Parts, Points};
use cagey::{Error, Result};

/// Draws the inducing inputs over the first two columns, and the coefficient of each part.
pub fn draw(fitted: &Fitted, path: &Path) -> Result<()> {
    let parts = fitted.posterior().inducing_parts();
    if parts.is_empty() {
        let title = fitted.model.title();
        return Err(Error::Usage(format!("only a sparse grid has parts to draw, and this is: {title}")));
    }
    let (d, names) = (fitted.data().d, fitted.input_names());
    let mut columns = Vec::new();
    for part in &parts {
        let x = fitted.input_scale.invert(&part.inputs)?;
        let column = |c: usize| x.chunks(d).map(|row| row.get(c).copied().unwrap_or(0.0)).collect::<Vec<f64>>();
        columns.push([column(0), column(1)]);
    }
    let drawn = parts.iter().zip(&columns).map(|(part, [x, y])| PartPoints {
        points: Points { x, y },
        coefficient: part.coefficient,
        technique: part.technique,
    });
    let drawn: Vec<PartPoints> = drawn.collect();
    let [x, y] = [0, 1].map(|c| names.get(c).map_or("", String::as_str));
    Parts { parts: &drawn, frame: Frame { title: &fitted.model.title(), x, y, ..Frame::default() } }.save(path)
}
