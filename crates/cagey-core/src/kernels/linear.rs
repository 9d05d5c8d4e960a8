//! Kernels of the inner product (linear, polynomial), and the two that ignore the inputs (constant, white).
//!
//! Inner products are about the origin of the inputs that the model sees: for standardised data, about their mean.

use std::sync::Arc;

use cagey_base::kernels as base;

use super::featured::Featured;
use super::form::Form;
use crate::params::Unit;

/// The linear kernel: Σ_d variance_d x_d z_d.
pub fn linear() -> Arc<dyn Form> {
    Arc::new(Featured {
        name: "linear",
        ard: &["variance"],
        parameters: &[("variance", Unit::VariancePerLengthSquared)],
        form: base::Form::Linear,
    })
}

/// The polynomial kernel with this power: variance · (xᵀz + offset)^power.
pub fn polynomial(power: u32) -> Arc<dyn Form> {
    Arc::new(Featured {
        name: "polynomial",
        ard: &[],
        parameters: &[("offset", Unit::None), ("variance", Unit::Variance)],
        form: base::Form::Polynomial(power),
    })
}

/// variance.
pub fn constant() -> Arc<dyn Form> {
    inputless("constant", base::Form::Constant)
}

/// variance for a row of an input with itself, else 0.
pub fn white() -> Arc<dyn Form> {
    inputless("white", base::Form::White)
}

/// A kernel that ignores the inputs.
fn inputless(name: &'static str, form: base::Form) -> Arc<dyn Form> {
    Arc::new(Featured { name, ard: &[], parameters: &[("variance", Unit::Variance)], form })
}
