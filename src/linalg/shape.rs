//! What the operations share: shapes of their inputs, and what they saved for their adjoints.

use std::any::Any;
use std::sync::Arc;

use burn::tensor::TensorData;

use super::host::Saved;
use crate::error::{Error, Result};

/// The order of a square matrix.
pub fn square(what: &str, data: &TensorData) -> Result<usize> {
    match data.shape()[..] {
        [n, m] if n == m => Ok(n),
        _ => Err(Error::shape(what, "a square matrix", format!("{:?}", &data.shape()[..]))),
    }
}

/// Checks a shape.
pub fn expect(what: &str, data: &TensorData, shape: &[usize]) -> Result<()> {
    if data.shape()[..] == *shape {
        return Ok(());
    }
    Err(Error::shape(what, format!("{shape:?}"), format!("{:?}", &data.shape()[..])))
}

/// What the forward pass saved; without a copy unless the graph still holds it.
pub fn take<S: Any + Send + Sync + Clone>(saved: Saved) -> Result<S> {
    let saved = saved.downcast::<S>().map_err(|_| Error::Device("an adjoint got another operation's state".into()))?;
    Ok(Arc::unwrap_or_clone(saved))
}
