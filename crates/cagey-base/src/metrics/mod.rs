//! Predictive distributions and their calibration.

mod average;
mod calibration;
mod mixture;
mod regression;
mod scores;
mod student;
mod targets;
mod temperature;

pub use calibration::{Calibration, Source};
pub use mixture::Mixture;
pub use regression::{Predictive, quantiles};
pub use scores::{Scores, calibration_curve, finite, pit_curve, same_length, score};
pub use student::StudentT;
pub use targets::TargetPrediction;
pub use temperature::Temperature;
