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
mod curves;
mod data;
mod fields;
mod layout;
mod maps;
mod panel;
mod parts;
mod render;
mod scene;
mod series;
mod text;

pub use calibration::{Calibration, Reliability};
pub use curves::{Component, Components, Posterior1d, Samples};
pub use data::{Curve, Frame, Points, Ticks};
pub use fields::{Fields, Row};
pub use maps::{Decision, Posterior2d};
pub use parts::{PartPoints, Parts};
pub use render::{Figure, check_format};
pub use series::{Against, Layer, LearningCurve, Pane, Panels, Run, Scored, Scores, Series};
