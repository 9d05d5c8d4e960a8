//! Likelihoods: how observations scatter around the latent function.

mod gaussian;

pub use gaussian::Gaussian;
