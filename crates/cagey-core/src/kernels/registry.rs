//! The names that kernel text can use: built-in forms and transforms, and a user's own.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::form::Form;
use super::transform::{InputTransform, projection};
use super::{linear, periodic, same, stationary, wiener};

/// Forms and input transforms by name. To load a model that uses your own, you need a registry with them.
#[derive(Debug, Clone)]
pub struct Registry {
    forms: BTreeMap<String, Arc<dyn Form>>,
    transforms: BTreeMap<String, Arc<dyn InputTransform>>,
}

impl Default for Registry {
    fn default() -> Self {
        let forms = [
            stationary::rbf(),
            stationary::matern12(),
            stationary::matern32(),
            stationary::matern52(),
            stationary::rational_quadratic(),
            periodic::periodic(),
            periodic::periodic_norm(),
            periodic::cosine_norm(),
            periodic::cosine_sum(),
            periodic::spectral_mixture(2),
            linear::linear(),
            linear::polynomial(2),
            linear::constant(),
            linear::white(),
            wiener::wiener(1),
            same::same(),
        ];
        let registry = Self { forms: BTreeMap::new(), transforms: BTreeMap::new() };
        forms.into_iter().fold(registry, Self::with_form).with_transform(projection(1))
    }
}

impl Registry {
    /// Adds a form under its own name.
    pub fn with_form(mut self, form: Arc<dyn Form>) -> Self {
        self.forms.insert(form.name().to_string(), form);
        self
    }

    /// Adds an input transform under its own name.
    pub fn with_transform(mut self, transform: Arc<dyn InputTransform>) -> Self {
        self.transforms.insert(transform.name().to_string(), transform);
        self
    }

    /// The form with this name.
    pub fn form(&self, name: &str) -> Option<Arc<dyn Form>> {
        self.forms.get(name).cloned()
    }

    /// The transform with this name.
    pub fn transform(&self, name: &str) -> Option<Arc<dyn InputTransform>> {
        self.transforms.get(name).cloned()
    }

    /// All names, sorted.
    pub fn names(&self) -> Vec<&str> {
        self.forms.keys().chain(self.transforms.keys()).map(String::as_str).collect()
    }
}
