//! Computation-aware GPs for any likelihood (Tatzel et al. 2025, *Accelerating non-conjugate Gaussian processes by
//! trading off computation for uncertainty*): Newton's method whose steps are solved in the span of actions.
//!
//! At latent values f, the log density of the likelihood has the gradient g and the curvature W. They define
//! pseudo-targets `ŷ = f + W⁻¹g` with noise `W⁻¹`. A step computes the computation-aware posterior of these
//! pseudo-targets, and its mean is the next f. Actions S and their products `K S` serve all later steps: each action
//! needs one product with K, and a new W needs none. The variances include the error of the limited computation, as for
//! Gaussian targets, which need only one step.
//!
//! Latent values of several functions are stored one function after another, and no array grows with the square of
//! their number. For classes, the curvature couples a row's functions: an action has a part for every function, and the
//! parts sum to 0 in each row. For other likelihoods, an action belongs to one function, and the functions stay as
//! independent as before.
//!
//! Training minimises a true bound of the negative log evidence at the actions and sites found, which it holds. If a
//! likelihood is not log-concave, W is its Fisher information, and the bound still holds.

mod act;
mod fixed;
mod graph;
mod linearised;
mod low_rank;
mod observed;
mod options;
mod sites;
mod solve;
mod space;
mod unrolled;

pub(super) use fixed::Fixed;
pub use graph::NewtonGraph;
pub(super) use graph::climb;
pub(super) use linearised::Linearised;
pub(super) use observed::Observed;
pub use options::{Compression, NewtonOptions, NewtonReport, Stopping};
pub use sites::Sites;
pub(super) use solve::{Found, Problem};
pub(super) use unrolled::Unrolled;
