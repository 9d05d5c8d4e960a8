//! Models: parameters, an objective to minimise and a posterior to predict with. A model's approximation is its type.
//!
//! | module | contents |
//! |---|---|
//! | `cagp`, `cggp`, `exact`, `experts`, `label_regression`, `laplace`, `nearest`, `sgpr`, `sparse_grid`, `state_space`, `svgp`, `swsgp` | a family of models each |
//! | `interface` | what a model offers to optimisers and to everything else, its options, its command-line arguments |
//! | `functions` | posteriors that are differentiated in their points: joint distributions, fantasies, sample paths |
//! | `training` | what connects models and the trainer: all rows or minibatches, starts, races, diagnoses |
//! | `sparse` | what models with inducing inputs share |
//!
//! Next to them are [`prior`], [`posterior`], the search of [`neighbours`], the [order of rows](ordering), and the
//! [`registry`] of all kinds. The contents of the last three modules of the table are public here.

pub mod cagp;
pub mod cggp;
pub(crate) mod columns;
pub mod exact;
pub mod experts;
pub mod functions;
mod interface;
pub mod label_regression;
pub mod laplace;
pub mod leave_one_out;
pub mod nearest;
pub mod neighbours;
mod observations;
pub mod ordering;
pub mod posterior;
pub mod prior;
pub mod registry;
pub mod sgpr;
#[doc(hidden)]
pub mod sparse;
pub mod sparse_grid;
pub mod state_space;
pub mod svgp;
pub mod swsgp;
mod training;

#[cfg(feature = "command")]
pub use interface::command;
pub use interface::model::{Held, Model};
pub use interface::{blueprint, gp_model, options};
pub use observations::{Batch, Observations, RowValues};
pub use sparse::{inducing, process, variational, whitened};
pub use training::{diagnose, fit, minibatch, race};
pub(crate) use training::{start, together};
