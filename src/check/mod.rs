//! Checks of a piece of your own: a kernel, a likelihood, a model or a policy. Each compares it with what its trait
//! promises (shapes, types, symmetry, limits) and its gradients with central differences, in f64 on the CPU, and
//! returns an error that says what is wrong. The same functions check the pieces of this crate. Call them in a test of
//! yours:
//!
//! ```
//! # fn main() -> cagey::Result<()> {
//! let kernel = cagey::kernels::Kernel::parse("rbf(ard) * periodic", 2)?;
//! cagey::check::kernel(&kernel, 2)?;
//! # Ok(())
//! # }
//! ```

mod kernel;
mod likelihood;
mod model;
mod policy;

pub use kernel::kernel;
pub use likelihood::likelihood;
pub use model::model;
pub use policy::policy;

use crate::device::{Compute, Precision};
use crate::error::{Error, Result};

/// The step of central differences: their error is near 1e-10 for functions of size and scale 1.
const STEP: f64 = 1e-5;

/// The most faults that are told.
const MOST: usize = 8;

fn compute(precision: Precision) -> Compute {
    Compute { precision, ..Compute::default() }
}

/// The faults of a piece.
struct Faults {
    piece: String,
    found: Vec<String>,
}

impl Faults {
    fn new(piece: String) -> Self {
        Self { piece, found: Vec::new() }
    }

    fn require(&mut self, holds: bool, fault: impl Into<String>) {
        if !holds {
            self.found.push(fault.into());
        }
    }

    /// Requires numbers to agree up to an error relative to the largest of them, and to be finite.
    fn close(&mut self, what: &str, got: &[f64], want: &[f64], tolerance: f64) {
        if got.len() != want.len() {
            self.found.push(format!("{what}: {} numbers, {} expected", got.len(), want.len()));
            return;
        }
        let scale = want.iter().fold(f64::MIN_POSITIVE, |most, value| most.max(value.abs()));
        let wrong = |(got, want): (&f64, &f64)| {
            let error = (got - want).abs();
            error.is_nan() || error > tolerance * scale
        };
        if let Some(at) = got.iter().zip(want).position(wrong) {
            self.found.push(format!("{what}: number {at} is {}, {} expected", got[at], want[at]));
        }
    }

    /// Notes an error, and gives the value if there is none.
    fn value<T>(&mut self, what: &str, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.found.push(format!("{what}: {error}"))).ok()
    }

    /// The same of two results.
    fn both<A, B>(&mut self, one: (&str, Result<A>), other: (&str, Result<B>)) -> Option<(A, B)> {
        let (one, other) = (self.value(one.0, one.1), self.value(other.0, other.1));
        one.zip(other)
    }

    fn result(mut self) -> Result<()> {
        if self.found.is_empty() {
            return Ok(());
        }
        let more = self.found.len().saturating_sub(MOST);
        self.found.truncate(MOST);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        Err(Error::Usage(format!("{}: {}{more}", self.piece, self.found.join("; "))))
    }
}

/// Numbers between −2 and 2 that look irregular, always the same.
fn irregular(count: usize, seed: f64) -> Vec<f64> {
    (0..count).map(|i| 2.0 * (12.9898 * (i as f64 + 1.0) + 78.233 * seed).sin()).collect()
}

/// Central differences of `f` in some entries of `x`.
fn differences(x: &[f64], places: &[usize], f: impl Fn(&[f64]) -> Result<f64>) -> Result<Vec<f64>> {
    let difference = |&place: &usize| {
        let at = |step: f64| {
            let mut moved = x.to_vec();
            moved[place] += step;
            f(&moved)
        };
        Ok((at(STEP)? - at(-STEP)?) / (2.0 * STEP))
    };
    places.iter().map(difference).collect()
}
