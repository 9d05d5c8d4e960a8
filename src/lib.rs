//! Gaussian processes that account for what they did not compute.
//!
//! Gradients of all learned parameters come from automatic differentiation through tensor graphs of
//! [burn](https://burn.dev), on a device chosen at run time. Inference is exact unless you ask for an approximation.
//!
//! # The map
//!
//! | module | contents |
//! |---|---|
//! | [`fitted`] | what the command does: from a table to a saved model and to predictions in the table's units |
//! | [`models`] | parameters + objective + posterior, one folder for each model; a registry of models by name |
//! | [`kernels`] | covariance functions, composed in code or from text |
//! | [`means`], [`likelihoods`] | the other parts of a prior |
//! | [`arithmetic`] | the numbers in which profiles and log densities are written once |
//! | [`params`], [`scope`] | parameters (constraints, priors, units) and how they become tensors |
//! | [`products`] | covariance matrices and products with them, fused |
//! | [`linalg`] | dense algebra with analytic adjoints |
//! | [`solvers`] | IterGP and its policies, conjugate gradients, Lanczos, pivoted Cholesky, log-determinants |
//! | [`train`] | optimisers, schedules, restarts, observers, checkpoints |
//! | [`data`], [`metrics`] | tables (feature `table` for files); scores |
//! | [`serving`] | posteriors in numbers, for programs that only predict |
//! | `plot`, [`model_file`] | figures (feature `plot`); the container of saved models and checkpoints |
//! | [`check`] | checks of kernels, likelihoods, models and policies of your own |
//! | `cli` | the command (feature `command`), one file for each subcommand |
//! | [`distributed`] | the ranks of one job, through MPI or as threads; tables that stay apart; files of rows |
//! | [`device`], [`threads`] | devices and number types; the pool of threads |
//! | [`memory`], [`error`] | the allocator; the one error type |
//!
//! # Architecture
//!
//! Each room uses the rooms below it and none above:
//!
//! ```text
//!  cli            one file for each subcommand, no mathematics; plot  figures
//!   │
//!  fitted         a table in, predictions in its units out: plan → train → calibrate → save
//!   │
//!  models         objective and posterior of each approximation; registry; training (batches, races, diagnoses)
//!   │      ╲       with distributed: parts of the rows, ranks of a job, tables that stay apart, files of rows
//!  likelihoods    densities, expectations, predictions          train    optimisers of any differentiable loss
//!   │                                                            │
//!  kernels        covariance functions, text; means             params   constraints, priors, units
//!   │
//!  products, solvers     K V, K S, Sᵀ K S without K; linear systems, policies
//!   │
//!  linalg, scope, device, threads      dense algebra with adjoints; tensors; where to compute
//!   │
//!  arithmetic     numbers for formulas that are written once: profiles, log densities
//! ```
//!
//! Beside them stand `data` and `metrics`, which know no model, and `model_file`.
//!
//! The rooms from `train` and `params` downwards, `kernels` included, are the crate `cagey-core`, and `plot` is
//! `cagey-plot` above it: neither can import a model. What needs no tensors is `cagey-base` below the core: arithmetic,
//! profiles and features of kernels, densities, predictive distributions, scales and the format of files;
//! `cagey-serve`, which only predicts, stands on it alone. This crate has all their modules under the names above.
//!
//! Data flow in one direction: `data → model(kernel, likelihood) → objective → train → posterior → predict`. Parameters
//! live on the host in f64. An optimiser moves one flat vector of them; a [`scope`] turns them into tensors, the model
//! builds its objective from these, and burn differentiates it. Operations that are too slow as graphs (covariance
//! products, factorisations) are single nodes with adjoints of their own.
//!
//! What users name in settings, files and options (kernels, likelihoods, models) is found in a
//! [`Registry`](fitted::Registry), built-in or their own. The library speaks of fields; only the command turns them
//! into options.
//!
//! # Examples
//!
//! The upper layer does what the command does: it standardises, starts at values that the data suggest, calibrates, and
//! uses the units of the data for all numbers.
//!
//! ```
//! use cagey::data::Dataset;
//! use cagey::fitted::{Fit, Fitted, Registry};
//!
//! # fn main() -> cagey::Result<()> {
//! let x: Vec<f64> = (0..40).map(|i| 0.1 * i as f64).collect();
//! let y = x.iter().map(|x| x.sin()).collect();
//! let data = Dataset::new(["x"], x)?.with_target("y", y)?;
//!
//! let model = Fit::new(&data).kernel("matern52 + linear").run()?;
//! let prediction = model.predict_rows(&[1.25])?.remove(0);
//! assert!((prediction.mean() - 1.25f64.sin()).abs() < 0.01);
//! let again = Fitted::from_bytes(&model.to_bytes()?, &Registry::default(), None)?;
//! # assert_eq!(again.predict_rows(&[1.25])?[0], prediction);
//! # Ok(())
//! # }
//! ```
//!
//! The lower layer uses numbers and kernel values as they are:
//!
//! ```
//! use cagey::device::Compute;
//! use cagey::kernels::Kernel;
//! use cagey::models::exact::ExactGp;
//! use cagey::models::posterior::Posterior;
//! use cagey::models::{Observations, fit};
//! use cagey::train::TrainConfig;
//!
//! # fn main() -> cagey::Result<()> {
//! let x: Vec<f64> = (0..40).map(|i| 0.1 * i as f64).collect();
//! let y = x.iter().map(|x| x.sin()).collect();
//! let data = Observations::new(x, 1, y, None)?;
//!
//! let mut model = ExactGp::new(Kernel::parse("matern52(1.0) + linear", 1)?);
//! let compute = Compute::default();
//! fit::fit(&mut model, compute, &data, &TrainConfig::default(), &mut [])?;
//!
//! let posterior = model.posterior(compute, data)?;
//! let prediction = posterior.predict(&[1.25, 10.0])?;
//! assert!((prediction.mean[0] - 1.25f64.sin()).abs() < 0.01);
//! assert!(prediction.variance[1] > prediction.variance[0]);
//! # Ok(())
//! # }
//! ```
//!
//! # Glossary
//!
//! | word | meaning |
//! |---|---|
//! | action | a column s of S: a linear combination of the rows that a computation-aware model observes |
//! | auxiliary value | a number of a row beside inputs and target: known noise variance, exposure, number of trials |
//! | bound, ELBO | a lower bound of the log evidence, which sparse models maximise |
//! | computational uncertainty | the variance that more actions would remove; the rest is mathematical uncertainty |
//! | density | a likelihood at fixed parameter values, on the host in f64 |
//! | inducing inputs Z, values u | points that stand for the data in sparse models; the latent function at them |
//! | jitter | a small number added to the diagonal of a matrix that otherwise has no Cholesky factor |
//! | latent function f | the function that the Gaussian process describes; a likelihood turns its values into targets |
//! | marginal | the mean and variance of a latent function at one row |
//! | noise | the variance of a Gaussian likelihood, unless it is called a standard deviation |
//! | objective | what training minimises: minus the log evidence (or its bound), minus log priors, per row |
//! | output scale, variance | the factor of a kernel: the prior variance of the latent function |
//! | policy | a rule that chooses actions, one after another |
//! | posterior | the distribution of the latent functions given the rows, ready to predict |
//! | race | short training runs from several starts; only the best continues |
//! | residual | y − K̂v: the part of the targets that a solve has not explained yet |
//! | scope | device, number type and whether gradients are recorded; it makes the tensors |
//! | site | a pseudo-target with noise that stands for a row of a non-Gaussian likelihood |
//! | K̂ | K + the noise on the diagonal |
//!
//! # Units
//!
//! Data are standardised before they reach a model. Every number that a user writes or reads (kernel text, bounds,
//! priors, reports, predictions) is in the units of the data; [`params`] explains how.

#![deny(missing_docs, clippy::undocumented_unsafe_blocks)]

// The command lives in the library so that programs with their own models have it too. It uses the name `cagey`, as
// they do.
#[cfg(feature = "command")]
extern crate self as cagey;

pub mod check;
#[cfg(feature = "command")]
pub mod cli;
pub mod data;
pub mod distributed;
pub mod fitted;
pub mod likelihoods;
pub mod metrics;
pub mod models;
#[cfg(feature = "command")]
mod values;

// The foundation is a crate of its own, which imports nothing of the rooms above. Users find its modules here.
#[doc(inline)]
pub use cagey_core::{
    advice, arithmetic, device, error, kernels, linalg, means, memory, model_file, params, products, scope, solvers,
    threads, train,
};
pub(crate) use cagey_core::{atomic, plain, suggest};
#[cfg(feature = "plot")]
#[doc(inline)]
pub use cagey_plot as plot;

pub use cagey_base::{log_density, serving};
pub use cagey_core::{Error, ErrorKind, Result, burn, parameters};
