//! Posteriors as functions of points, differentiable wherever they are evaluated.
//!
//! | | what | of which posteriors |
//! |---|---|---|
//! | [`Located`] | means and variances, or the joint distribution, at given points | all that are [located](super::posterior::Posterior::located) |
//! | [`Normal`] | a joint distribution: samples from given base samples, conditioning on some points | |
//! | [`Paths`] | whole samples of f, evaluated anywhere | all with an [update](Pathwise) of prior samples |

mod located;
mod normal;
mod paths;

pub use located::{Explains, Located, Squares};
pub use normal::{Normal, Normals};
pub use paths::{PathOptions, Paths, Pathwise};
