//! Predictions with models that [cagey](https://docs.rs/cagey) has fitted, without what trains them: no tensors, no
//! devices, no solvers. A service does not need to know which model a file has.
//!
//! ```no_run
//! let model = cagey_serve::Model::load("model.cagey")?;
//! println!("{:?}", model.inputs());
//! for prediction in model.predict(&[20.0, 0.4])? {
//!     println!("{} {:?}", prediction.mean(), prediction.interval(0.95));
//! }
//! # Ok::<(), cagey_serve::Error>(())
//! ```
//!
//! Rows have one number for each of [`Model::inputs`], in the units of the table that the model was fitted to; a column
//! of categories has one input of 0 or 1 for each. Numbers are those of the library to rounding errors.
//!
//! A file has what this takes if the model is svgp, sgpr, swsgp, nearest, cagp or label-regression; for exact,
//! state-space, laplace, sparse-grid, experts and averages of these, fit it with `--store-factor`
//! (`Settings::store_factor`). What cannot be served is [refused](Error) with the reason: kernels, transforms and
//! likelihoods of one's own, experts whose rows stay elsewhere, and cggp, whose predictions are those of an iteration
//! over all rows.
//!
//! The crate compiles for WebAssembly: read the file with [`Model::from_bytes`].

#![deny(missing_docs, unsafe_code)]

mod prediction;
mod single;

use std::path::Path;

use cagey_base::model_file::ModelFile;
pub use cagey_base::{Error, ErrorKind, Result};
pub use prediction::Prediction;
use serde_json::Value;
use single::Single;

/// A fitted model that predicts.
#[derive(Debug, Clone)]
pub struct Model {
    /// The models of an average with their weights, or one model.
    members: Vec<(f64, Single)>,
}

impl Model {
    /// Reads a model that `cagey fit` or `Fitted::save` wrote.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read, [`Error::ModelFile`] if it is damaged, or cannot be served, with the
    /// reason.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::of(ModelFile::load(path)?)
            .map_err(|problem| Error::ModelFile { path: path.display().to_string(), problem })
    }

    /// The model in the bytes of a file.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let read = ModelFile::from_bytes(bytes).and_then(Self::of);
        read.map_err(|problem| Error::ModelFile { path: "model".into(), problem })
    }

    fn of(mut file: ModelFile) -> std::result::Result<Self, String> {
        let Some(Value::Array(members)) = file.document.get_mut("average").map(Value::take) else {
            return Ok(Self { members: vec![(1.0, Single::new(file.document, file.arrays)?)] });
        };
        let mut read = Vec::new();
        for (k, mut member) in members.into_iter().enumerate() {
            let weight = member.get("weight").and_then(Value::as_f64).filter(|weight| *weight >= 0.0);
            let weight = weight.ok_or("the weights of its average are not shares of 1")?;
            let arrays = file.take_member(k);
            // What nobody hears need not be served.
            if weight > 0.0 {
                let document = member.get_mut("model").map(Value::take).unwrap_or_default();
                read.push((weight, Single::new(document, arrays)?));
            }
        }
        match (read.iter().map(|(weight, _)| weight).sum::<f64>() - 1.0).abs() < 1e-9 {
            true => Ok(Self { members: read }),
            false => Err("the weights of its average are not shares of 1".into()),
        }
    }

    /// The names of the inputs, in the order in which rows have their numbers.
    pub fn inputs(&self) -> &[String] {
        self.members[0].1.inputs()
    }

    /// The name of the column with a number of each row beside its inputs, if the model takes one: the standard
    /// deviation of its noise, its exposure or its number of trials.
    pub fn auxiliary(&self) -> Option<&str> {
        self.members[0].1.auxiliary()
    }

    /// The labels of the classes, if targets are labels, in the order of [`Prediction::probabilities`].
    pub fn classes(&self) -> Option<&[String]> {
        self.members[0].1.classes()
    }

    /// The distributions of the target at rows `x`, row-major.
    ///
    /// # Errors
    /// [`Error::Shape`] for an incomplete row, [`Error::Data`] for a number that is not finite, or a row so far from
    /// the data that its prediction is not.
    pub fn predict(&self, x: &[f64]) -> Result<Vec<Prediction>> {
        self.predict_with(x, None)
    }

    /// As [`predict`](Self::predict), with the [auxiliary](Self::auxiliary) number of each row.
    ///
    /// # Errors
    /// As [`predict`](Self::predict); [`Error::Shape`] for another number of these than of rows, [`Error::Data`] for an
    /// invalid one.
    pub fn predict_with(&self, x: &[f64], auxiliary: Option<&[f64]>) -> Result<Vec<Prediction>> {
        if let [(_, only)] = &self.members[..] {
            return only.predict(x, auxiliary);
        }
        let mut each = Vec::new();
        for (weight, member) in &self.members {
            each.push((*weight, member.predict(x, auxiliary)?.into_iter()));
        }
        let mut all = Vec::new();
        loop {
            let row: Option<Vec<_>> = each.iter_mut().map(|(weight, rest)| Some((*weight, rest.next()?))).collect();
            match row {
                Some(parts) => all.push(Prediction::average(parts)?),
                None => return Ok(all),
            }
        }
    }

    /// The class with the largest probability in a prediction, if targets are labels.
    pub fn class(&self, prediction: &Prediction) -> Option<&str> {
        let (labels, p) = (self.classes()?, prediction.probabilities()?);
        let best = p.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)))?;
        labels.get(best.0).map(String::as_str)
    }
}
