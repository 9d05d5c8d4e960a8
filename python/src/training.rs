//! Fits and comparisons.

use cagey::Error;
use cagey::cli::request::{self, Request};
use cagey::data::{self, Cells, Classes, Dataset, Schema};
use cagey::kernels::registry::Registry;
use pyo3::prelude::*;

use crate::border;
use crate::errors::{raised, told};
use crate::model::Model;
use crate::pool::{self, Watching};

/// A table of named columns: arrays of float64, or lists of texts in which an empty one is a missing cell.
#[pyclass(frozen, module = "cagey._cagey")]
pub struct Frame(pub data::Frame);

#[pymethods]
impl Frame {
    #[new]
    fn new(columns: Vec<(String, Bound<PyAny>)>) -> PyResult<Self> {
        let cells = |(name, column): (String, Bound<PyAny>)| match column.extract::<Vec<String>>() {
            Ok(texts) => Ok((name, Cells::Texts(texts))),
            Err(_) => Ok((name, Cells::Numbers(border::column(&column)?))),
        };
        let columns = columns.into_iter().map(cells).collect::<PyResult<Vec<_>>>()?;
        data::Frame::new("table", columns).map(Self).map_err(|error| raised(&error))
    }
}

/// What a fit is made from.
enum Given {
    Frame(data::Frame),
    Rows(Schema, Dataset),
}

/// The classes with these labels.
fn in_order(labels: Option<Vec<String>>) -> cagey::Result<Option<Classes>> {
    let same = |error: Error| {
        let reason = "blanks around labels do not count, nor how a whole number is written";
        Error::Usage(format!("labels of y: {error}, because {reason}; rename one of the two"))
    };
    labels.map(|labels| Classes::in_order(labels).map_err(same)).transpose()
}

/// A table of numbers.
pub fn rows(
    x: &Bound<PyAny>,
    y: Option<&Bound<PyAny>>,
    names: Option<Vec<String>>,
    target: String,
    classes: Option<Vec<String>>,
) -> PyResult<(Schema, Dataset)> {
    let (x, n, d) = border::matrix(x)?;
    let names = names.unwrap_or_else(|| (0..d).map(|column| format!("x{column}")).collect());
    let y = y.map(border::column).transpose()?.unwrap_or_default();
    let made = || {
        let data = Dataset { n, ..Dataset::new(names, x)? }.with_target(target, y)?;
        let classes = in_order(classes)?;
        Ok((Schema { classes, ..Schema::numeric(&data) }, data))
    };
    made().map_err(|error| raised(&error))
}

/// A model, its messages, the report as text and JSON if asked for, and whether the training was interrupted.
type Fitted = (Model, Vec<(bool, String)>, Option<(String, String)>, Option<Py<PyAny>>);

/// Fits a model to an array and its targets, or to a frame, as the options of `cagey fit` say.
#[pyfunction]
#[pyo3(signature = (
    options, x, y=None, *, names=None, target="y".to_string(), classes=None, threads=None, progress=None, report=false
))]
#[allow(clippy::too_many_arguments, reason = "they are keywords")]
pub fn fit(
    py: Python,
    options: Vec<String>,
    x: &Bound<PyAny>,
    y: Option<&Bound<PyAny>>,
    names: Option<Vec<String>>,
    target: String,
    classes: Option<Vec<String>>,
    threads: Option<usize>,
    progress: Option<&Bound<PyAny>>,
    report: bool,
) -> PyResult<Fitted> {
    let given = match x.cast::<Frame>() {
        Ok(frame) => Given::Frame(frame.get().0.clone()),
        Err(_) => rows(x, y, names, target, classes.clone()).map(|(schema, data)| Given::Rows(schema, data))?,
    };
    let work = |watch: &pool::Watch| {
        let (trained, messages) = request::collect(|| {
            let request = Request::parse(&options)?;
            let (schema, data) = match given {
                Given::Frame(frame) => {
                    // Codes stand for the classes until they get their labels.
                    let (schema, data) = request.read(&frame)?;
                    let classes = in_order(classes)?.or(schema.classes);
                    (Schema { classes, ..schema }, data)
                }
                Given::Rows(schema, data) => (schema, data),
            };
            let trained = request.prepare(schema, data)?.train(&mut [&mut Watching(watch)])?;
            let told = if report { Some(trained.report()?) } else { None };
            Ok((trained.fitted, told))
        });
        trained.map(|(fitted, told)| (fitted, told, messages))
    };
    let ((fitted, report, messages), interrupt) = pool::watched(py, threads, progress, work)?;
    let report = report.map(|(text, json)| (crate::errors::in_parameters(&text), border::json(&json)));
    let interrupt = interrupt.map(|error| error.into_value(py).into_any());
    Ok((Model::new(fitted, threads), told(messages), report, interrupt))
}

/// Fits several models to a frame and compares their held-out scores: candidates as JSON, the best first, and messages.
#[pyfunction]
#[pyo3(signature = (options, frame, *, threads=None, progress=None))]
pub fn compare(
    py: Python,
    options: Vec<String>,
    frame: &Bound<Frame>,
    threads: Option<usize>,
    progress: Option<&Bound<PyAny>>,
) -> PyResult<(String, Vec<(bool, String)>)> {
    let frame = frame.get().0.clone();
    let work = |watch: &pool::Watch| {
        let (found, messages) = request::collect(|| request::compare(&options, &frame, &mut [&mut Watching(watch)]));
        found.map(|found| (found, messages))
    };
    let ((found, messages), interrupt) = pool::watched(py, threads, progress, work)?;
    match interrupt {
        Some(interrupt) => Err(interrupt),
        None => Ok((border::json(&found), told(messages))),
    }
}

/// Every option of a fit: its name, what its value is called (none for a switch), heading, help, possible values and
/// default.
#[pyfunction]
#[allow(clippy::type_complexity, reason = "rows of a table")]
pub fn options() -> Vec<(String, Option<String>, String, String, Vec<String>, Option<String>)> {
    let row = |row: request::OptionRow| {
        (row.name.replace('-', "_"), row.value, row.heading, row.help, row.values, row.default)
    };
    Request::options().into_iter().map(row).collect()
}

/// The names of the parameters of a kernel or an input transform; none if there is no such name.
#[pyfunction]
pub fn kernel_parameters(name: &str) -> Vec<String> {
    let registry = Registry::default();
    let of_form = registry.form(name).map(|form| form.parameters(1));
    let all = of_form.or_else(|| Some(registry.transform(name)?.parameters(1)));
    all.unwrap_or_default().into_iter().map(|parameter| parameter.name).collect()
}
