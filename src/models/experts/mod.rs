//! Many experts: Gaussian processes of parts of the data that share hyperparameters.

pub mod aggregation;
