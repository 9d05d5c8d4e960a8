//! Differentiable dense linear algebra on burn tensors; on the CPU through faer, with analytic adjoints.

pub mod host;
pub mod real;
