//! The objective of a model as a function of its parameters, for optimisers and samplers of Python.

use std::sync::{Mutex, PoisonError};

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
    model: Mutex<Box<dyn GpModel>>,
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
            Ok(Self { model: Mutex::new(model), data, compute, threads })
        })
    }

    /// The parameters: name, values in the units of the data, how many numbers of theta it has.
    fn parameters(&self) -> Vec<(String, Vec<f64>, usize)> {
        let model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
        let all = model.parameters().into_iter();
        all.map(|(name, p)| (name, p.values(), p.freedom())).collect()
    }

    /// The free parameters in their unconstrained form.
    fn theta<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyByteArray>> {
        border::bytes(py, &self.model.lock().unwrap_or_else(PoisonError::into_inner).free_raw())
    }

    /// Moves the model to a point.
    fn set_theta(&self, theta: &Bound<PyAny>) -> PyResult<()> {
        let theta = border::column(theta)?;
        let mut model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
        model.set_free_raw(&theta).map_err(|error| raised(&error))
    }

    /// The objective and its gradient at a point.
    fn evaluate<'py>(&self, theta: &Bound<'py, PyAny>) -> PyResult<(f64, Bound<'py, PyByteArray>)> {
        let (py, theta) = (theta.py(), border::column(theta)?);
        let mut model = py.detach(|| self.model.lock().unwrap_or_else(PoisonError::into_inner).clone());
        let found = pool::compute(py, self.threads, || {
            model.set_free_raw(&theta)?;
            evaluate(&*model, self.compute, &self.data.batch(&Scope::new(self.compute)?))
        })?;
        Ok((found.loss, border::bytes(py, &found.gradient)?))
    }
}
