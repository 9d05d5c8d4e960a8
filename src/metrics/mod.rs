//! How well predictions fit held-out targets (real numbers, classes and counts), and whether intervals hold.

mod classification;
mod counts;
pub mod diagnosis;
mod targets;

pub use cagey_base::metrics::{
    Calibration, Mixture, Predictive, Scores, Source, StudentT, TargetPrediction, Temperature, calibration_curve,
    pit_curve, quantiles, score,
};
pub use classification::{
    ClassScores, ReliabilityBin, auc, confusion, loss_of_shares, most_probable, reliability, score_classes,
};
pub use counts::{binomial_deviance, kolmogorov_smirnov, pearson_dispersion, poisson_deviance, randomised_pit};
pub use targets::{TargetScores, probability_transform, score_targets};
