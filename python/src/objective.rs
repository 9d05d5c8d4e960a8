//! The objective of a model as a function of its parameters, for optimisers and samplers of Python.

use cagey::cli::request::{self, Request};
use cagey::device::Compute;
use cagey::models::Observations;
use cagey::models::fit::evaluate;
use cagey::models::gp_model::GpModel;
use cagey::scope::Scope;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;

use crate::border;
use crate::errors::raised;
use crate::pool;

/// Minus the log of the evidence, or of its bound, minus log priors, of the standardised targets, as a function of the
/// free parameters in their unconstrained form.
#[pyclass(frozen, module = "cagey._cagey")]
pub struct Objective {
    model: Box<dyn GpModel>,
    data: Observations,
    compute: Compute,
    threads: Option<usize>,
}

#[pymethods]
impl Objective {
    #[new]
    #[pyo3(signature = (options, x, y, *, names=None, classes=None, threads=None))]
    fn new(
        options: Vec<String>,
        x: &Bound<PyAny>,
        y: &Bound<PyAny>,
        names: Option<Vec<String>>,
        classes: Option<Vec<String>>,
        threads: Option<usize>,
    ) -> PyResult<Self> {
        let (schema, data) = crate::training::rows(x, Some(y), names, "y".into(), classes)?;
        pool::compute(x.py(), threads, || {
            let (ready, _) = request::collect(|| Request::parse(&options)?.prepare(schema, data));
            let ready = ready?;
            let plan = ready.plan().0;
            let (model, data, compute) = (plan.model().boxed(), plan.rows().clone(), plan.settings().compute);
            Ok(Self { model, data, compute, threads })
        })
    }

    /// The parameters at a point, at first where training begins: name, values in the units of the data, and how many
    /// numbers of theta it has.
    fn parameters(&self, theta: Option<&Bound<PyAny>>) -> PyResult<Vec<(String, Vec<f64>, usize)>> {
        let mut model = self.model.clone();
        if let Some(theta) = theta {
            model.set_free_raw(&border::column(theta)?).map_err(|error| raised(&error))?;
        }
        Ok(model.parameters().into_iter().map(|(name, p)| (name, p.values(), p.freedom())).collect())
    }

    /// The free parameters in their unconstrained form where training begins.
    fn theta<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyByteArray>> {
        border::bytes(py, &self.model.free_raw())
    }

    /// The objective and its gradient at a point.
    fn evaluate<'py>(&self, theta: &Bound<'py, PyAny>) -> PyResult<(f64, Bound<'py, PyByteArray>)> {
        let (py, theta) = (theta.py(), border::column(theta)?);
        let mut model = self.model.clone();
        let found = pool::compute(py, self.threads, || {
            model.set_free_raw(&theta)?;
            evaluate(&*model, self.compute, &self.data.batch(&Scope::new(self.compute)?))
        })?;
        Ok((found.loss, border::bytes(py, &found.gradient)?))
    }
}
