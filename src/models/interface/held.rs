//! What a model keeps between steps of an optimiser.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};

/// A value that a model [chose](crate::models::Model::choose) and that only this model can read: actions, sites,
/// neighbours.
#[derive(Clone)]
pub struct Held(Arc<dyn Any + Send + Sync>);

impl Held {
    /// Holds a value.
    pub fn new(value: impl Any + Send + Sync) -> Self {
        Self(Arc::new(value))
    }

    /// The value.
    ///
    /// # Errors
    /// [`Error::Usage`] when it has another type, because another model chose it.
    pub fn get<T: Any>(&self) -> Result<&T> {
        self.0.downcast_ref().ok_or_else(|| Error::Usage("what is held was chosen by another model".into()))
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Held")
    }
}
