//! A fitted model as one file.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::registry::Registry;
use super::{Fitted, Settings, build};
use crate::data::{Classes, InputScale, Schema};
use crate::error::{Error, Result};
use crate::kernels::text;
use crate::likelihoods;
use crate::means::Mean;
use crate::model_file::{Array, ArrayData, ModelFile};
use crate::models::Observations;
use crate::models::options::Parts;
use crate::models::posterior::{Posterior, SavedPosterior};
use crate::models::prior::Prior;
use crate::params::Parameter;

impl Fitted {
    /// Writes the model to one file, whole or not at all.
    ///
    /// # Errors
    /// [`Error::Io`] naming the path.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let saved = self.posterior.saved()?;
        let parameters: Vec<&Parameter> = self.model.parameters().into_iter().map(|(_, p)| p).collect();
        let document = json!({
            "model": self.settings.model.kind(),
            "schema": self.schema,
            "settings": self.settings,
            "input_scale": self.input_scale,
            "target_scale": self.target_scale,
            "summary": self.summary,
            "kernel": self.kernel().to_string(),
            "parameters": parameters,
            "solve": saved.solve,
        });
        let data = &self.data;
        let (n, d) = (data.n(), data.d);
        let array =
            |values: &[f64], shape: &[usize]| Array { shape: shape.to_vec(), data: ArrayData::F64(values.to_vec()) };
        let mut arrays: std::collections::BTreeMap<String, Array> =
            [("x".into(), array(&data.x, &[n, d])), ("y".into(), array(&data.y, &[n]))].into();
        if let Some(noise) = &data.noise {
            arrays.insert("noise".into(), array(noise, &[n]));
        }
        arrays.extend(saved.arrays);
        ModelFile { document, arrays }.save(path)
    }

    /// Reads a model that uses built-in kernels only.
    ///
    /// # Errors
    /// As [`load_with`](Self::load_with).
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        Self::load_with(path, &Registry::default())
    }

    /// Reads a model written by [`save`](Self::save), with the kernel forms and transforms of a registry.
    ///
    /// # Errors
    /// [`Error::ModelFile`] when the file is damaged, of another version, or not a model; [`Error::KernelText`] when it
    /// needs a kernel form that the registry lacks.
    pub fn load_with(path: impl AsRef<Path>, registry: &Registry) -> Result<Self> {
        let path = path.as_ref();
        let mut file = ModelFile::load(path)?;
        let bad = |problem: String| Error::ModelFile { path: path.display().to_string(), problem };
        let mut part = |name: &str| file.document.get_mut(name).map(Value::take).unwrap_or_default();
        fn read<T: serde::de::DeserializeOwned>(value: Value, bad: impl Fn(String) -> Error) -> Result<T> {
            serde_json::from_value(value).map_err(|e| bad(format!("its description does not read: {e}")))
        }
        let schema: Schema = read(part("schema"), bad)?;
        let settings: Settings = read(part("settings"), bad)?;
        let kind = settings.model.kind();
        if registry.models.row(kind).is_none() {
            return Err(bad(format!(
                "holds a model of kind `{kind}`, which this program does not know; use a newer cagey, or the program that wrote it"
            )));
        }
        let input_scale: InputScale = read(part("input_scale"), bad)?;
        let target_scale = read(part("target_scale"), bad)?;
        let summary = read(part("summary"), bad)?;
        let kernel: String = read(part("kernel"), bad)?;
        let parameters: Vec<Parameter> = read(part("parameters"), bad)?;
        let solve = read(part("solve"), bad)?;
        let mut array = |name: &str| file.arrays.remove(name).map(|array| array.data.into_f64());
        let mut needed = |name: &str| array(name).ok_or_else(|| bad(format!("lacks the array `{name}`")));
        let (x, y) = (needed("x")?, needed("y")?);
        let noise = array("noise");
        let saved = SavedPosterior { arrays: file.arrays, solve };
        let d = input_scale.mean.len();
        let data = Observations::new(x, d, y, noise).map_err(|e| bad(e.to_string()))?;

        let (kernel, mean) = (text::parse(&kernel, d, &registry.kernels)?, Mean::named(&settings.mean, d)?);
        let likelihood = likelihoods::text::parse(&settings.likelihood, schema.classes.as_ref().map(Classes::len))?;
        let unfit = |error| match error {
            Error::Data(problem) => bad(problem),
            other => other,
        };
        let parts = Parts { likelihood, prior: Prior { kernel, mean } };
        let options = registry.models.options(&settings.model).map_err(|e| bad(e.to_string()))?;
        let model = build::restore(&*options, parts, &data, parameters).map_err(unfit)?;
        let posterior: Arc<dyn Posterior> = model.restore(settings.compute, data.clone(), saved).map_err(unfit)?.into();
        Ok(Self { schema, settings, input_scale, target_scale, model, summary, data, posterior })
    }
}
