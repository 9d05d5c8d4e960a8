//! Figures of models and their fits, as SVG or PNG by the extension of the file's name.
//!
//! Every [`Figure`] is a plain struct over slices with a method `save(path)`. Values that are not finite are skipped; a
//! figure with nothing to draw is an error, and so are slices whose lengths do not fit together. A file appears whole
//! or not at all. The typeface is part of the crate, so text needs no installed fonts.
//!
//! ```
//! use cagey::plot::{Curve, Figure, Frame, Posterior1d};
//! let x: Vec<f64> = (0..50).map(|i| 0.1 * f64::from(i)).collect();
//! let mean: Vec<f64> = x.iter().map(|x| x.sin()).collect();
//! let curve = Curve::gaussian(&x, &mean, &[0.2; 50]);
//! let figure = Posterior1d { frame: Frame { x: "time [s]", ..Frame::default() }, ..Posterior1d::new(&curve) };
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("posterior.svg");
//! figure.save(path)?;
//! # Ok::<(), cagey::Error>(())
//! ```

#![deny(missing_docs)]

mod axis;
mod calibration;
mod colour;
mod components;
mod data;
mod decision;
mod fields;
mod layout;
mod learning_curve;
mod panel;
mod panels;
mod parts;
mod posterior1d;
mod posterior2d;
mod reliability;
mod render;
mod samples;
mod scene;
mod scores;
mod text;

pub use calibration::Calibration;
pub use components::{Component, Components};
pub use data::{Curve, Frame, Points, Ticks};
pub use decision::Decision;
pub use fields::{Fields, Row};
pub use learning_curve::{Against, LearningCurve, Run};
pub use panels::{Layer, Pane, Panels, Series};
pub use parts::{PartPoints, Parts};
pub use posterior1d::Posterior1d;
pub use posterior2d::Posterior2d;
pub use reliability::Reliability;
pub use render::{Figure, check_format};
pub use samples::Samples;
pub use scores::{Scored, Scores};
