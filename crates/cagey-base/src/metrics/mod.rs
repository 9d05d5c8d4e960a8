//! Predictive distributions and their calibration.

mod average;
mod calibration;
mod mixture;
mod regression;
mod student;
mod targets;
mod temperature;

pub use calibration::{Calibration, Source};
pub use mixture::Mixture;
pub use regression::{Predictive, Scores, calibration_curve, pit_curve, quantiles, score};
pub use student::StudentT;
pub use targets::TargetPrediction;
pub use temperature::Temperature;
