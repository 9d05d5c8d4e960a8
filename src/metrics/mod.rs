//! How well predictions fit held-out targets (real numbers, classes and counts), and whether intervals hold.

mod average;
mod calibration;
mod classification;
mod counts;
pub mod diagnosis;
mod mixture;
mod regression;
mod student;
mod targets;
mod temperature;

pub use calibration::{Calibration, Source};
pub use classification::{ClassScores, ReliabilityBin, auc, confusion, loss_of_shares, reliability, score_classes};
pub use counts::{binomial_deviance, kolmogorov_smirnov, pearson_dispersion, poisson_deviance, randomised_pit};
pub use mixture::Mixture;
pub use regression::{Predictive, Scores, calibration_curve, pit_curve, quantiles, score};
pub use student::StudentT;
pub use targets::{TargetPrediction, TargetScores, probability_transform, score_targets};
pub use temperature::Temperature;
