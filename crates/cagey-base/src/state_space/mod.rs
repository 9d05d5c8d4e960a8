//! Kernels of one input as linear stochastic differential equations: steps of their states from one time to another.

#[doc(hidden)]
pub mod factor;
mod step;

pub use factor::{Factor, MOST, bessel};
use serde::{Deserialize, Deserializer, Serialize};

/// A rate at given parameter values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// The process.
    pub factor: Factor,
    /// Its rate.
    pub rate: f64,
    /// The parameter that it is inverse to.
    pub length: usize,
    /// The value of this parameter.
    pub value: f64,
    /// Where a walk begins; −∞ for stationary processes, which JSON writes as nothing.
    #[serde(deserialize_with = "origin")]
    pub origin: f64,
}

/// States that only depend on each other, at given parameter values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// The summand of the kernel that it belongs to.
    pub summand: usize,
    /// The first of its states, which is the one that is observed.
    pub offset: usize,
    /// Number of states.
    pub size: usize,
    /// Processes whose Kronecker product it is; none for a constant.
    pub rates: Vec<Rate>,
    /// The observation of the first state is amplitude · xᵖᵒʷᵉʳ.
    pub amplitude: f64,
    /// See [`amplitude`](Self::amplitude).
    pub power: i32,
    /// Parameters, and the derivative of the amplitude's logarithm in each.
    pub slopes: Vec<(usize, f64)>,
}

/// −∞ for nothing.
fn origin<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NEG_INFINITY))
}

/// tᵖᵒʷᵉʳ, which mostly is 1.
#[inline(always)]
pub fn power(t: f64, power: i32) -> f64 {
    if power == 0 { 1.0 } else { t.powi(power) }
}

/// What a row at time `t` observes: for each block, its first state and the factor.
#[inline(always)]
pub fn observed(blocks: &[Block], t: f64, h: &mut Vec<(usize, f64)>) {
    h.clear();
    h.extend(blocks.iter().map(|block| (block.offset, block.amplitude * power(t, block.power))));
}

/// The prior variance at a time, without white noise.
pub fn variance(blocks: &[Block], t: f64) -> f64 {
    let mut sum = 0.0;
    for block in blocks {
        let square = (block.amplitude * t.powi(block.power)).powi(2);
        block.step(t, t, |[_, _, p]| sum += square * p[0]);
    }
    sum
}
