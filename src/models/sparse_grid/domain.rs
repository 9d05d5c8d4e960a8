//! The box of the inputs that corresponds to the unit cube.

use crate::models::Observations;
use crate::params::{Parameter, Unit};

/// Lower and upper ends of each input, on the scale of the model's inputs.
#[derive(Debug, Clone, PartialEq)]
pub struct Domain {
    /// `[d]` pairs.
    ends: Vec<[f64; 2]>,
}

/// How far outside of the box a row may lie because of rounding, as a share of its width.
const ROUNDING: f64 = 1e-9;

impl Domain {
    /// The box of the data; a constant column has a width of 1.
    pub fn of(data: &Observations) -> Self {
        let wide = |[low, high]: [f64; 2]| if low < high { [low, high] } else { [low - 0.5, high + 0.5] };
        Self { ends: data.ranges().into_iter().map(wide).collect() }
    }

    /// The unit cube of `d` inputs.
    pub fn unit(d: usize) -> Self {
        Self { ends: vec![[0.0, 1.0]; d] }
    }

    /// The domain that was stored in a parameter.
    pub fn kept(parameter: &Parameter) -> Self {
        Self { ends: parameter.internal().chunks_exact(2).map(|ends| [ends[0], ends[1]]).collect() }
    }

    /// The domain as a parameter that is not trained: lower and upper end of each input, one after another.
    pub fn parameter(&self) -> Parameter {
        let mut parameter = Parameter::real("domain", Unit::None, self.ends.as_flattened());
        parameter.fixed = true;
        parameter
    }

    /// Maps points of the unit cube, row-major, to inputs of the model.
    pub fn scaled(&self, points: &[f64]) -> Vec<f64> {
        points.iter().zip(self.ends.iter().cycle()).map(|(t, [low, high])| low + (high - low) * t).collect()
    }

    /// The number of rows of inputs, row-major, that lie outside.
    pub fn outside(&self, x: &[f64]) -> usize {
        let inside = |(x, [low, high]): (&f64, &[f64; 2])| {
            let slack = ROUNDING * (high - low);
            (low - slack..=high + slack).contains(x)
        };
        x.chunks_exact(self.ends.len()).filter(|row| !row.iter().zip(&self.ends).all(inside)).count()
    }

    /// A remark about the rows outside, if there are any.
    pub fn remark(&self, x: &[f64]) -> Option<String> {
        let (outside, rows) = (self.outside(x), x.len() / self.ends.len());
        (outside > 0).then(|| {
            format!(
                "{outside} of {rows} rows lie outside of the box of the training inputs, which the sparse grid covers: \
                 it knows little there"
            )
        })
    }
}
