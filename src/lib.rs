//! Gaussian processes that account for what they did not compute.
//!
//! Everything a model learns gets its gradient by automatic differentiation through tensor graphs of
//! [burn](https://burn.dev), on a device chosen at run time. Inference is exact unless an approximation is asked for.
//!
//! # The map
//!
//! | module | what is there |
//! |---|---|
//! | [`fitted`] | from a table to a saved model and predictions in its own units: what the command does |
//! | [`models`] | parameters + objective + posterior, one folder a model; a registry from names to models |
//! | [`kernels`] | covariance functions, composed in code or from text |
//! | [`means`], [`likelihoods`] | the other parts of a prior |
//! | [`params`], [`scope`] | parameters (constraints, priors, units) and how they become tensors |
//! | [`products`] | covariance matrices and products with them, fused |
//! | [`linalg`] | dense algebra with analytic adjoints |
//! | [`solvers`] | IterGP and its policies, conjugate gradients, Lanczos, pivoted Cholesky, log-determinants |
//! | [`train`] | optimisers, schedules, restarts, observers, checkpoints |
//! | [`data`], [`metrics`] | tables (feature `table` for files); scores |
//! | `plot`, [`model_file`] | figures (feature `plot`); the container of saved models and checkpoints |
//! | `cli` | the command (feature `command`): one file a subcommand |
//! | [`exchange`] | messages between the ranks of one job, by MPI or among threads |
//! | [`device`], [`threads`] | devices and number types; the pool of threads |
//! | [`memory`], [`error`] | the allocator; the one error type |
//!
//! Data flow one way: `data → model(kernel, likelihood) → objective → train → posterior → predict`.
//!
//! # Example
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
//! | action | a column s of S: a linear combination of the rows that a computation-aware model looks at |
//! | auxiliary value | one number of a row beside inputs and target: known noise variance, exposure, number of trials |
//! | bound, ELBO | a lower bound of the log evidence, which sparse models maximise |
//! | computational uncertainty | what more actions would remove of a variance; the rest is mathematical uncertainty |
//! | density | a likelihood at fixed parameter values, on the host in f64 |
//! | inducing inputs Z, values u | places that stand for the data in sparse models; the latent function there |
//! | jitter | a small number added to the diagonal of a matrix that cannot be factorised otherwise |
//! | latent function f | what the Gaussian process describes; a likelihood makes targets of it |
//! | marginal | mean and variance of a latent function at one row |
//! | noise | the variance of a Gaussian likelihood, unless it is called a standard deviation |
//! | objective | what training minimises: minus the log evidence or a bound of it, minus log priors, per row |
//! | output scale, variance | the factor of a kernel: the prior variance of the latent function |
//! | policy | a rule that chooses actions, one after another |
//! | posterior | what is known of the latent functions given the rows, ready to predict |
//! | race | short trainings from several starts, of which the best goes on |
//! | residual | y − K̂v: what a solve has not explained yet |
//! | scope | device, number type and whether gradients are recorded: where tensors are made |
//! | site | a pseudo-target with noise that stands for a row of another likelihood than the Gaussian |
//! | K̂ | K + the noise on the diagonal |
//!
//! # Units
//!
//! Data are standardised before they reach a model, and every number that a user writes or reads (kernel text, bounds,
//! priors, reports, predictions) is in the units of the data; [`params`] says how.

#![deny(missing_docs)]

// The command lives in the library, so that programs with models of their own have it too, and names it as they do.
#[cfg(feature = "command")]
extern crate self as cagey;

pub mod advice;
mod atomic;
#[cfg(feature = "command")]
pub mod cli;
pub mod data;
pub mod device;
pub mod error;
pub mod exchange;
pub mod fitted;
pub mod kernels;
pub mod likelihoods;
pub mod linalg;
pub mod means;
pub mod memory;
pub mod metrics;
pub mod model_file;
pub mod models;
pub mod params;
#[cfg(feature = "plot")]
pub mod plot;
pub mod products;
pub mod scope;
pub mod solvers;
mod suggest;
pub mod threads;
pub mod train;
#[cfg(feature = "command")]
mod values;

pub use burn;
pub use error::{Error, ErrorKind, Result};
