//! A fitted model.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use burn::tensor::Tensor;
use cagey::burn;
use cagey::cli::request;
use cagey::data::{Dataset, Encoding};
use cagey::fitted::{Fitted, Registry};
use cagey::likelihoods::Auxiliary;
use cagey::metrics::{Predictive, TargetPrediction};
use cagey::model_file::ModelFile;
use cagey::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes};
use serde_json::json;

use crate::border;
use crate::errors::{in_parameters, told};
use crate::pool;
use crate::training::Frame;

/// Numbers as bytes.
type Numbers<'py> = Bound<'py, PyByteArray>;

/// A fitted model. Rows are an array of float64 [n, d], or a frame.
#[pyclass(frozen, module = "cagey._cagey")]
pub struct Model {
    fitted: Fitted,
    threads: Option<usize>,
    /// What the package keeps in the file beside the model: parameters of the estimator, and labels of classes.
    note: Mutex<Option<String>>,
}

/// The entry of a file's document that has the note; other readers pass over it.
const NOTE: &str = "python";

/// The note in a file.
fn noted(file: &ModelFile) -> Option<String> {
    file.document.get(NOTE)?.as_str().map(Into::into)
}

/// Rows times training rows below which one thread is as fast as several.
const FEW: usize = 1 << 14;

/// Means and standard deviations.
fn moments(each: &[Predictive]) -> [Vec<f64>; 2] {
    [each.iter().map(Predictive::mean).collect(), each.iter().map(Predictive::sd).collect()]
}

/// Numbers of a tensor.
fn numbers<const D: usize>(tensor: &Tensor<D>) -> Result<Vec<f64>> {
    let data = tensor.to_data().convert::<f64>();
    data.try_to_vec::<f64>().map_err(|e| Error::Device(format!("numbers that cannot be read: {e:?}")))
}

impl Model {
    pub fn new(fitted: Fitted, threads: Option<usize>) -> Self {
        Self { fitted, threads, note: Mutex::default() }
    }

    /// The content of the model's file, if it differs from what the library writes.
    fn with_note(&self) -> Result<Option<ModelFile>> {
        let Some(note) = self.note() else { return Ok(None) };
        let bytes = self.fitted.to_bytes()?;
        let mut file = ModelFile::from_bytes(&bytes).map_err(Error::Data)?;
        file.document[NOTE] = note.into();
        Ok(Some(file))
    }

    /// Rows to predict: in an array that lacks the auxiliary column, it has its neutral value.
    fn rows(&self, x: &Bound<PyAny>) -> PyResult<Rows> {
        match x.cast::<Frame>() {
            Ok(frame) => Ok(Rows::Frame(frame.get().0.clone())),
            Err(_) => border::matrix(x).map(|(x, n, d)| Rows::Array(x, n, d)),
        }
    }

    fn table(&self, rows: Rows, target: Option<Vec<f64>>) -> Result<Dataset> {
        let need = target.is_some();
        let data = match rows {
            Rows::Frame(frame) => request::read(&self.fitted, &frame, false).map_err(kept)?,
            Rows::Array(x, n, d) => {
                let mut names = self.fitted.schema.feature_names();
                let own = self.fitted.settings.auxiliary_column.as_ref();
                if d + 1 == names.len() {
                    names.retain(|name| Some(name) != own);
                }
                if names.len() != d {
                    let (expected, got) = (format!("{} columns", names.len()), d.to_string());
                    return Err(Error::shape("X", expected, got));
                }
                Dataset { n, ..Dataset::new(names, x)? }
            }
        };
        match target {
            Some(y) if need => data.with_target(self.fitted.schema.target.clone(), y),
            _ => Ok(data),
        }
    }

    /// Computes something of the rows, and tells what there is to say about them.
    fn of_rows<R: Send>(
        &self,
        x: &Bound<PyAny>,
        work: impl FnOnce(&Fitted, &Dataset) -> Result<R> + Send,
    ) -> PyResult<R> {
        let (py, rows) = (x.py(), self.rows(x)?);
        let few = matches!(&rows, Rows::Array(_, n, _) if n * self.fitted.data().n() < FEW) && !pool::is_forked();
        let all = move || {
            let (data, messages) = request::collect(|| self.table(rows, None));
            Ok((work(&self.fitted, &data?)?, messages))
        };
        let (result, messages) = if few { pool::briefly(py, all)? } else { pool::compute(py, self.threads, all)? };
        warn(py, told(messages))?;
        Ok(result)
    }
}

/// Rows that are not yet a table of the model's columns.
enum Rows {
    Frame(cagey::data::Frame),
    Array(Vec<f64>, usize, usize),
}

/// The error without the advice to leave rows out by an option: predictions have a place for each row.
fn kept(error: Error) -> Error {
    match error {
        Error::Advised { error, mut settings } => {
            settings.retain(|setting| setting.field != "ReadOptions::missing");
            Error::Advised { error, settings }
        }
        other => other,
    }
}

/// Passes messages to the package, which warns and logs.
fn warn(py: Python, messages: Vec<(bool, String)>) -> PyResult<()> {
    if messages.is_empty() {
        return Ok(());
    }
    py.import("cagey._messages")?.call_method1("tell", (messages,)).map(drop)
}

#[pymethods]
impl Model {
    /// A model from the bytes of its file.
    #[staticmethod]
    #[pyo3(signature = (bytes, threads=None))]
    fn from_bytes(py: Python, bytes: &[u8], threads: Option<usize>) -> PyResult<Self> {
        let bytes = Cow::from(bytes);
        let (fitted, note) = pool::compute(py, threads, || {
            let fitted = Fitted::from_bytes(&bytes, &Registry::default(), None)?;
            Ok((fitted, ModelFile::from_bytes(&bytes).ok().as_ref().and_then(noted)))
        })?;
        Ok(Self { note: Mutex::new(note), ..Self::new(fitted, threads) })
    }

    /// A model from its file.
    #[staticmethod]
    #[pyo3(signature = (path, threads=None))]
    fn load(py: Python, path: PathBuf, threads: Option<usize>) -> PyResult<Self> {
        let (fitted, note) =
            pool::compute(py, threads, || Ok((Fitted::load(&path)?, noted(&ModelFile::load(&path)?))))?;
        Ok(Self { note: Mutex::new(note), ..Self::new(fitted, threads) })
    }

    /// Writes the file that the command reads.
    fn save(&self, py: Python, path: PathBuf) -> PyResult<()> {
        pool::compute(py, self.threads, || match self.with_note()? {
            Some(file) => file.save(&path),
            None => self.fitted.save(&path),
        })
    }

    /// The bytes of that file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = pool::compute(py, self.threads, || match self.with_note()? {
            Some(file) => file.to_bytes(),
            None => self.fitted.to_bytes(),
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// What the package keeps in the file beside the model.
    #[getter]
    fn note(&self) -> Option<String> {
        self.note.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    #[setter]
    fn set_note(&self, note: Option<String>) {
        *self.note.lock().unwrap_or_else(PoisonError::into_inner) = note;
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>, Option<usize>))> {
        let (py, own) = (slf.py(), slf.get());
        Ok((py.get_type::<Self>().getattr("from_bytes")?, (own.to_bytes(py)?, own.threads)))
    }

    /// E[y] of each row.
    fn mean<'py>(&self, x: &Bound<'py, PyAny>) -> PyResult<Numbers<'py>> {
        let mean = self.of_rows(x, |fitted, data| match fitted.without_auxiliary(data) {
            // The plain numbers of a whole row need no check of their names.
            None => fitted.predict_mean(&data.x),
            Some(_) if fitted.is_gaussian() => Ok(fitted.predict(data)?.iter().map(Predictive::mean).collect()),
            Some(_) => Ok(fitted.predict_targets(data)?.iter().map(TargetPrediction::mean).collect()),
        })?;
        border::bytes(x.py(), &mean)
    }

    /// Mean and standard deviation of each target.
    fn predict<'py>(&self, x: &Bound<'py, PyAny>) -> PyResult<(Numbers<'py>, Numbers<'py>)> {
        let [mean, sd] = self.of_rows(x, |fitted, data| {
            if fitted.is_gaussian() {
                return Ok(moments(&fitted.predict(data)?));
            }
            let each = fitted.predict_targets(data)?;
            Ok([each.iter().map(TargetPrediction::mean).collect(), each.iter().map(TargetPrediction::sd).collect()])
        })?;
        Ok((border::bytes(x.py(), &mean)?, border::bytes(x.py(), &sd)?))
    }

    /// Mean and standard deviation of the latent function.
    fn latent<'py>(&self, x: &Bound<'py, PyAny>) -> PyResult<(Numbers<'py>, Numbers<'py>)> {
        let [mean, sd] = self.of_rows(x, |fitted, data| Ok(moments(&fitted.predict_latent(data)?)))?;
        Ok((border::bytes(x.py(), &mean)?, border::bytes(x.py(), &sd)?))
    }

    /// Quantiles of each target: [n, k] for k probabilities.
    fn quantiles<'py>(&self, x: &Bound<'py, PyAny>, probabilities: Vec<f64>) -> PyResult<Numbers<'py>> {
        let quantiles = self.of_rows(x, |fitted, data| {
            if let Some(p) = probabilities.iter().find(|p| !(0.0..=1.0).contains(*p)) {
                return Err(Error::Usage(format!("{p} is no probability; it lies between 0 and 1")));
            }
            if fitted.is_gaussian() {
                let predicted = fitted.predict(data)?;
                return Ok(predicted.iter().flat_map(|one| probabilities.iter().map(|p| one.quantile(*p))).collect());
            }
            let predicted = fitted.predict_targets(data)?;
            Ok(predicted.iter().flat_map(|one| probabilities.iter().map(|p| one.quantile(*p))).collect::<Vec<f64>>())
        })?;
        border::bytes(x.py(), &quantiles)
    }

    /// Probabilities of the classes, [n, k].
    fn probabilities<'py>(&self, x: &Bound<'py, PyAny>) -> PyResult<Numbers<'py>> {
        let all = self.of_rows(x, |fitted, data| {
            let problem = || Error::Usage("probabilities are for models of classes".into());
            let each = fitted.predict_targets(data)?;
            let each: Option<Vec<Vec<f64>>> = each.iter().map(TargetPrediction::probabilities).collect();
            Ok(each.ok_or_else(problem)?.concat())
        })?;
        border::bytes(x.py(), &all)
    }

    /// Means and covariances of new targets as the model says, without its calibration: [n], [n, n].
    fn covariance<'py>(&self, x: &Bound<'py, PyAny>) -> PyResult<(Numbers<'py>, Numbers<'py>)> {
        let joint = self.of_rows(x, |fitted, data| {
            let mut joint = fitted.predict_joint(data)?;
            let (n, latent) = (data.n, fitted.predict_latent(data)?);
            let targets = fitted.uncalibrated().predict(data)?;
            for (row, (target, latent)) in targets.iter().zip(&latent).enumerate() {
                joint.covariance[row * n + row] += target.sd().powi(2) - latent.sd().powi(2);
            }
            Ok(joint)
        })?;
        Ok((border::bytes(x.py(), &joint.mean)?, border::bytes(x.py(), &joint.covariance)?))
    }

    /// Joint samples of the latent function, [count, n].
    fn sample<'py>(&self, x: &Bound<'py, PyAny>, count: usize, seed: u64) -> PyResult<Numbers<'py>> {
        let paths = self.of_rows(x, |fitted, data| Ok(fitted.sample(data, count, seed)?.concat()))?;
        border::bytes(x.py(), &paths)
    }

    /// Name, mean and standard deviation of each summand of the kernel; of a sum only their sum has the prior mean.
    fn components<'py>(&self, x: &Bound<'py, PyAny>) -> PyResult<Vec<(String, Numbers<'py>, Numbers<'py>)>> {
        let parts = self.of_rows(x, |fitted, data| {
            let (exact, (x, _)) = (fitted.exact("a component")?, fitted.standardise(data)?);
            let unit = fitted.target_scale.sd;
            let names = fitted.kernel().summands().into_iter().map(|kernel| kernel.shape());
            let part = |(index, name)| {
                let found = exact.predict_component(index, &x)?;
                let mean = found.mean.iter().map(|mean| mean * unit).collect();
                let sd = found.variance.iter().map(|variance| variance.sqrt() * unit).collect();
                Ok((name, mean, sd))
            };
            names.enumerate().map(part).collect::<Result<Vec<(String, Vec<f64>, Vec<f64>)>>>()
        })?;
        let py = x.py();
        parts
            .into_iter()
            .map(|(name, mean, sd)| Ok((name, border::bytes(py, &mean)?, border::bytes(py, &sd)?)))
            .collect()
    }

    /// Mean and variance of the latent function, [n] each, and their gradients in the rows, [n, d] each.
    fn gradients<'py>(&self, x: &Bound<'py, PyAny>) -> PyResult<[Numbers<'py>; 4]> {
        let all = self.of_rows(x, |fitted, data| {
            // Going back consumes a graph, so each moment has its own.
            let with_slope = |which: usize| -> Result<(Vec<f64>, Vec<f64>)> {
                let points = fitted.points(&data.x)?.require_grad();
                let moment = fitted.moments(points.clone())?[which].clone();
                let values = numbers(&moment)?;
                let found = points.grad(&moment.sum().backward());
                Ok((values, found.map_or_else(|| Ok(vec![0.0; data.x.len()]), |found| numbers(&found))?))
            };
            let ((mean, of_mean), (variance, of_variance)) = (with_slope(0)?, with_slope(1)?);
            Ok([mean, variance, of_mean, of_variance])
        })?;
        let [a, b, c, d] = all;
        let py = x.py();
        Ok([border::bytes(py, &a)?, border::bytes(py, &b)?, border::bytes(py, &c)?, border::bytes(py, &d)?])
    }

    /// The same model with more rows, without another training.
    fn update(&self, x: &Bound<PyAny>, y: &Bound<PyAny>) -> PyResult<Self> {
        let (rows, y) = (self.rows(x)?, border::column(y)?);
        let fitted = pool::compute(x.py(), self.threads, move || self.fitted.update(&self.table(rows, Some(y))?))?;
        Ok(Self { note: Mutex::new(self.note()), ..Self::new(fitted, self.threads) })
    }

    /// Training targets, and mean and standard deviation of their leave-one-out predictions.
    fn leave_one_out<'py>(&self, py: Python<'py>) -> PyResult<[Numbers<'py>; 3]> {
        let (y, predictions) = pool::compute(py, self.threads, || self.fitted.leave_one_out())?;
        let [mean, sd] = moments(&predictions);
        Ok([border::bytes(py, &y)?, border::bytes(py, &mean)?, border::bytes(py, &sd)?])
    }

    /// Training inputs, row by row, and targets, as far as the model holds them.
    fn training<'py>(&self, py: Python<'py>) -> PyResult<[Numbers<'py>; 2]> {
        let data = self.fitted.data();
        let x = self.fitted.input_scale.invert(&data.x).map_err(|error| crate::errors::raised(&error))?;
        let y: Vec<f64> = data.y.iter().map(|z| self.fitted.target_scale.inverse(*z)).collect();
        Ok([border::bytes(py, &x)?, border::bytes(py, &y)?])
    }

    /// Whether intervals hold, in sentences and as JSON; with `advice`, also the settings that predict better.
    fn error_bars(&self, py: Python, advice: bool) -> PyResult<(Vec<String>, String)> {
        let (lines, value) = pool::compute(py, self.threads, || request::error_bars(&self.fitted, advice))?;
        Ok((lines.iter().map(|line| in_parameters(line)).collect(), border::json(&value)))
    }

    /// Scores of rows with known targets, as text and as JSON.
    fn evaluate(&self, x: &Bound<PyAny>, y: &Bound<PyAny>) -> PyResult<(String, String)> {
        let (rows, y) = (self.rows(x)?, border::column(y)?);
        let work = move || request::evaluate(&self.fitted, &self.table(rows, Some(y))?);
        let (text, value) = pool::compute(x.py(), self.threads, work)?;
        Ok((in_parameters(&text), border::json(&value)))
    }

    /// What the model is, as text and as JSON.
    fn describe(&self, py: Python) -> PyResult<(String, String)> {
        let (text, value) = pool::compute(py, self.threads, || Ok(request::description(&self.fitted)))?;
        Ok((in_parameters(&text), border::json(&value)))
    }

    /// A figure as SVG: posterior, components, calibration, learning or parts.
    fn draw(&self, py: Python, kind: &str, path: PathBuf) -> PyResult<()> {
        let work = || request::collect(|| request::draw(&self.fitted, kind, &path));
        let messages = pool::compute(py, self.threads, || {
            let (drawn, messages) = work();
            drawn.map(|()| messages)
        })?;
        warn(py, told(messages))
    }

    /// Warnings about what looks degenerate.
    fn warnings(&self) -> Vec<String> {
        self.fitted.summary.warnings.iter().map(|advice| in_parameters(&request::words(advice))).collect()
    }

    /// The training: objective per row, rows, steps, seconds, how it ended, and the log of the evidence, as JSON. The
    /// log evidence is of the targets in their own unit, without priors; none for other objectives.
    fn summary(&self) -> String {
        let Fitted { summary, settings, target_scale, .. } = &self.fitted;
        let beside = match self.fitted.model.likelihood().auxiliary() {
            Auxiliary::NoiseVariance => Some("noise_sd"),
            Auxiliary::Exposure => Some("exposure"),
            Auxiliary::Trials => Some("trials"),
            _ => None,
        };
        let value = json!({
            "rows": summary.rows,
            "loss": summary.loss,
            "iterations": summary.iterations,
            "seconds": summary.seconds,
            "termination": summary.termination,
            "cut_short": summary.is_cut_short(),
            "kernel": self.fitted.kernel().to_string(),
            "settings": settings,
            "members": self.fitted.members().len(),
            "target_transform": settings.target_transform,
            "likelihood": self.fitted.model.likelihood().text(),
            "model": settings.model.kind(),
            "noise": self.fitted.noise().map(|noise| noise * target_scale.sd.powi(2)),
            "target_sd": target_scale.sd,
            "calibration": self.fitted.calibration,
            "temperature": self.fitted.temperature,
            "inputs": self.fitted.schema.features.iter().map(|column| &column.name).collect::<Vec<_>>(),
            "numeric": self.fitted.schema.features.iter()
                .all(|one| one.encoding == Encoding::Numeric && one.fill.is_none()),
            "target": self.fitted.schema.target,
            "classes": self.fitted.schema.classes.as_ref().map(|classes| classes.labels()),
            "auxiliary": settings.auxiliary_column,
            "auxiliary_kind": beside,
        });
        border::json(&value)
    }

    fn __repr__(&self) -> String {
        format!("<cagey.Model: {}, {} rows>", self.fitted.model.title(), self.fitted.summary.rows)
    }
}
