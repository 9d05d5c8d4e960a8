//! Numbers and documents on their way between Python and Rust.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyByteArray;
use serde_json::Value;

use crate::errors;

/// A copy of an array of float64 in the order of its rows, and its shape.
pub fn array(values: &Bound<PyAny>) -> PyResult<(Vec<f64>, Vec<usize>)> {
    let wrong = |_| PyTypeError::new_err("expected an array of float64");
    let buffer = PyBuffer::<f64>::get(values).map_err(wrong)?;
    Ok((buffer.to_vec(values.py())?, buffer.shape().to_vec()))
}

/// The same for rows: numbers, rows and columns.
pub fn matrix(values: &Bound<PyAny>) -> PyResult<(Vec<f64>, usize, usize)> {
    match array(values)? {
        (values, shape) if shape.len() == 2 => Ok((values, shape[0], shape[1])),
        (_, shape) => Err(PyValueError::new_err(format!("expected 2D array, got an array of shape {shape:?}"))),
    }
}

/// The same for a column.
pub fn column(values: &Bound<PyAny>) -> PyResult<Vec<f64>> {
    match array(values)? {
        (values, shape) if shape.len() == 1 => Ok(values),
        (_, shape) => Err(PyValueError::new_err(format!("expected 1D array, got an array of shape {shape:?}"))),
    }
}

/// Numbers as bytes, from which NumPy makes an array without a copy.
pub fn bytes<'py>(py: Python<'py>, values: &[f64]) -> PyResult<Bound<'py, PyByteArray>> {
    PyByteArray::new_with(py, size_of_val(values), |bytes| {
        bytes.chunks_exact_mut(8).zip(values).for_each(|(bytes, value)| bytes.copy_from_slice(&value.to_ne_bytes()));
        Ok(())
    })
}

/// A document as JSON, with parameters in place of options in its texts.
pub fn json(value: &Value) -> String {
    in_parameters(value).to_string()
}

fn in_parameters(value: &Value) -> Value {
    match value {
        Value::String(text) => errors::in_parameters(text).into(),
        Value::Array(all) => all.iter().map(in_parameters).collect(),
        Value::Object(all) => all.iter().map(|(name, value)| (name.clone(), in_parameters(value))).collect(),
        other => other.clone(),
    }
}
