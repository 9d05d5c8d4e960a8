//! Parameters: values with a constraint, a prior, a unit and a name, kept on the host in f64.
//!
//! Every entry has three numbers. The **raw** value is unconstrained, and optimisers move it. The **internal** value is
//! what tensors use, in the standardised units of the data. The **user** value is the internal value in the data's own
//! units: kernel text, bounds, priors and reports show it.

mod constraint;
mod entries;
mod list;
mod parameter;
mod prior;

pub use constraint::Constraint;
pub use parameter::Parameter;
pub use prior::{Belief, Prior};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::suggest::nearest;

/// The source of an entry's unit. It decides how user values follow the scaling of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Unit {
    /// A pure number.
    None,
    /// A length along the inputs (lengthscale, period).
    Length,
    /// An inverse length (a frequency).
    Frequency,
    /// The square of the target's unit (variances).
    Variance,
    /// Target variance per squared input length (linear kernel).
    VariancePerLengthSquared,
    /// The target's own unit, shifted by its mean (constant mean).
    Level,
    /// Target per input length (slope of a linear mean).
    Slope,
}

/// Whether all numbers are finite.
#[doc(hidden)]
pub fn all_finite(values: &[f64]) -> bool {
    // Check whole blocks at once: a search that may end at every number is not vectorised.
    values.chunks(1024).all(|block| block.iter().fold(true, |all, value| all & value.is_finite()))
}

/// A number with five or six digits, for messages and reports.
pub fn shown(value: f64) -> String {
    match value.abs() {
        size if (1e-3..1e6).contains(&size) => {
            let text = format!("{value:.5}");
            text.trim_end_matches('0').trim_end_matches('.').to_string()
        }
        0.0 => "0".into(),
        _ => format!("{value:.4e}"),
    }
}

/// Anything that holds parameters: kernels, means, likelihoods, models.
pub trait Parameters {
    /// All parameters with their paths (`kernel.matern32.lengthscale`), in a fixed order.
    fn parameters(&self) -> Vec<(String, &Parameter)>;

    /// The same parameters, to change them.
    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)>;

    /// The raw values of all parameters that are not fixed, in order. This is the vector that an optimiser moves.
    fn free_raw(&self) -> Vec<f64> {
        self.parameters().iter().flat_map(|(_, p)| p.free().to_vec()).collect()
    }

    /// Sets the vector that [`free_raw`](Self::free_raw) returns.
    ///
    /// # Errors
    /// [`Error::Shape`] when the length differs.
    fn set_free_raw(&mut self, raw: &[f64]) -> Result<()> {
        let mut at = 0;
        for (path, parameter) in self.parameters_mut() {
            let end = at + parameter.freedom();
            let slice =
                raw.get(at..end).ok_or_else(|| Error::shape(path, format!("{end} values"), raw.len().to_string()))?;
            parameter.set_free(slice);
            at = end;
        }
        if at == raw.len() { Ok(()) } else { Err(Error::shape("parameters", at.to_string(), raw.len().to_string())) }
    }

    /// The parameters whose path ends in `name` (`lengthscale`, `matern32.lengthscale`, …).
    ///
    /// # Errors
    /// [`Error::Usage`] that lists the existing names and suggests the nearest one.
    fn find_mut(&mut self, name: &str) -> Result<Vec<&mut Parameter>> {
        let paths: Vec<String> = self.parameters().into_iter().map(|(path, _)| path).collect();
        let matches = |path: &str| path == name || path.ends_with(&format!(".{name}"));
        if !paths.iter().any(|p| matches(p)) {
            // `lengthscale` and `matern32.lengthscale` are as valid as the whole path.
            let endings = paths.iter().flat_map(|path| path.match_indices('.').map(|(at, _)| &path[at + 1..]));
            let hint = match nearest(name, endings.chain(paths.iter().map(String::as_str))) {
                Some(near) => format!("did you mean `{near}`? There are"),
                None => "there are".into(),
            };
            return Err(Error::Usage(format!("no parameter `{name}`; {hint} {}", paths.join(", "))));
        }
        Ok(self.parameters_mut().into_iter().filter(|(path, _)| matches(path)).map(|(_, p)| p).collect())
    }
}

/// Changes the units of parameters without changing the internal values.
pub fn keeping_internal<P: Parameters>(of: &mut P, change: impl FnOnce(&mut P)) {
    let kept: Vec<Vec<f64>> = of.parameters().iter().map(|(_, p)| p.internal()).collect();
    change(of);
    of.parameters_mut().into_iter().zip(kept).for_each(|((_, p), internal)| p.put_internal(&internal));
}

/// Puts `prefix.` before every path.
pub fn prefixed<P>(prefix: &str, parameters: Vec<(String, P)>) -> Vec<(String, P)> {
    parameters.into_iter().map(|(path, p)| (format!("{prefix}.{path}"), p)).collect()
}
