//! A model together with the data it was fitted to: from a table to predictions in its own units, and to one file.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::data::{Dataset, InputScale, Schema, TargetScale, TargetTransform};
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::kernels::registry::Registry;
use crate::kernels::{initial, text};
use crate::metrics::Predictive;
use crate::model_file::{Array, ArrayData, ModelFile};
use crate::models::exact::{ExactGp, ExactObjective, ExactPosterior};
use crate::models::posterior::{Marginals, Posterior};
use crate::models::{Observations, diagnose, fit};
use crate::params::{Parameter, Parameters, Prior};
use crate::suggest::nearest;
use crate::train::{History, Observer, TrainConfig};
use crate::{means::Mean, train};

/// What to fit: the model and what is known of its parameters, all numbers in the units of the data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Kernel text; see [`kernels::text`](mod@crate::kernels::text).
    pub kernel: String,
    /// `zero`, `constant` or `linear`.
    pub mean: String,
    /// What to minimise.
    pub objective: ExactObjective,
    /// Whether inputs and target are standardised for the computation.
    pub standardize: bool,
    /// The function of the target that is modelled.
    pub target_transform: TargetTransform,
    /// Column of known standard deviations of the target per row.
    pub noise_column: Option<String>,
    /// Initial values by parameter name.
    pub init: Vec<(String, Vec<f64>)>,
    /// Parameters to keep at their initial values.
    pub fix: Vec<String>,
    /// Priors by parameter name.
    pub priors: Vec<(String, Prior)>,
    /// Bounds by parameter name.
    pub bounds: Vec<(String, f64, f64)>,
    /// Device and precision.
    pub compute: Compute,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            kernel: "matern32(ard)".into(),
            mean: "zero".into(),
            objective: ExactObjective::MarginalLikelihood,
            standardize: true,
            target_transform: TargetTransform::Identity,
            noise_column: None,
            init: Vec::new(),
            fix: Vec::new(),
            priors: Vec::new(),
            bounds: Vec::new(),
            compute: Compute::default(),
        }
    }
}

/// How a model came to be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Rows of training data.
    pub rows: usize,
    /// `Adam` or `L-BFGS`.
    pub optimizer: String,
    /// Why training ended, in words.
    pub termination: String,
    /// Best objective per row, priors included.
    pub loss: f64,
    /// Steps of the best run.
    pub iterations: usize,
    /// Evaluations of the objective in all runs.
    pub evaluations: usize,
    /// Seconds of training.
    pub seconds: f64,
    /// Seed of restarts and minibatches.
    pub seed: u64,
    /// Final loss of each restart, none where it failed.
    pub restarts: Vec<Option<f64>>,
    /// What looks degenerate, with advice.
    pub warnings: Vec<String>,
    /// The learning curve.
    pub history: History,
}

/// A fitted model: what `cagey fit` writes and every other command reads.
#[derive(Debug, Clone)]
pub struct Fitted {
    /// How columns are read.
    pub schema: Schema,
    /// What was asked for.
    pub settings: Settings,
    /// The inputs' standardisation.
    pub input_scale: InputScale,
    /// The target's transform and standardisation.
    pub target_scale: TargetScale,
    /// The model with its learned parameters.
    pub model: ExactGp,
    /// How it was trained.
    pub summary: Summary,
    posterior: ExactPosterior,
}

impl Fitted {
    /// Fits a model to a table.
    ///
    /// # Errors
    /// [`Error::Data`] for targets that cannot be used, [`Error::KernelText`] and [`Error::Usage`] for settings that do
    /// not fit, and what training reports.
    pub fn fit(
        schema: Schema,
        data: &Dataset,
        settings: Settings,
        config: &TrainConfig,
        registry: &Registry,
        observers: &mut [&mut dyn Observer],
    ) -> Result<Self> {
        let Inputs { x, names, noise: known } = Inputs::of(data, settings.noise_column.as_deref())?;
        let d = names.len();
        if d == 0 {
            return Err(Error::Data("no input column is left beside the target and the noise column".into()));
        }
        let named = |error| match error {
            Error::Data(problem) => Error::Data(format!("{problem} (the input columns are `{}`)", names.join("`, `"))),
            other => other,
        };
        let standardise = settings.standardize;
        let input_scale = if standardise { InputScale::fit(&x, d).map_err(named)? } else { InputScale::identity(d) };
        let mut target_scale = TargetScale::fit(settings.target_transform, data)?;
        if !settings.standardize {
            (target_scale.mean, target_scale.sd) = (0.0, 1.0);
        }
        if known.is_some() && settings.target_transform != TargetTransform::Identity {
            return Err(Error::Usage("known noise needs an untransformed target; drop --target-transform".into()));
        }
        let noise = known.map(|sd| sd.iter().map(|s| (s / target_scale.sd).powi(2)).collect());
        let observations = Observations::new(input_scale.apply(&x)?, d, target_scale.forward(data)?, noise)?;

        let mut model = build(&settings, &observations, &input_scale, &target_scale, registry)?;
        let outcome = fit::fit(&mut model, settings.compute, &observations, config, observers)?;
        let mut warnings = constants(&observations, &names, &data.target_name);
        warnings.extend(diagnose::warnings(&model, &observations));
        let summary = summarise(&outcome, config, observations.n(), warnings);
        let posterior = model.posterior(settings.compute, observations)?;
        Ok(Self { schema, settings, input_scale, target_scale, model, summary, posterior })
    }

    /// The posterior over the latent function, in standardised units.
    pub fn posterior(&self) -> &ExactPosterior {
        &self.posterior
    }

    /// Standardised inputs of a table, and the known noise variances of its rows.
    ///
    /// # Errors
    /// [`Error::Data`] when the noise column is missing, [`Error::Shape`] when columns differ.
    pub fn standardise(&self, data: &Dataset) -> Result<(Vec<f64>, Option<Vec<f64>>)> {
        let Inputs { x, noise: known, .. } = Inputs::of(data, self.settings.noise_column.as_deref())?;
        let noise = known.map(|sd| sd.iter().map(|s| (s / self.target_scale.sd).powi(2)).collect());
        Ok((self.input_scale.apply(&x)?, noise))
    }

    /// Names of the input columns, in the order of the kernel's `dims`.
    pub fn input_names(&self) -> Vec<String> {
        let noise = self.settings.noise_column.as_deref();
        self.schema.feature_names().into_iter().filter(|name| Some(name.as_str()) != noise).collect()
    }

    /// The distribution of y at the rows of a table.
    ///
    /// # Errors
    /// As [`standardise`](Self::standardise).
    pub fn predict(&self, data: &Dataset) -> Result<Vec<Predictive>> {
        let (x, known) = self.standardise(data)?;
        let mut marginals = self.posterior.predict(&x)?;
        let learned = self.model.likelihood.noise.internal()[0];
        for (i, variance) in marginals.variance.iter_mut().enumerate() {
            *variance += learned + known.as_ref().map_or(0.0, |known| known[i]);
        }
        Ok(self.in_user_units(&marginals))
    }

    /// The distribution of the latent function f at the rows of a table.
    ///
    /// # Errors
    /// As [`standardise`](Self::standardise).
    pub fn predict_latent(&self, data: &Dataset) -> Result<Vec<Predictive>> {
        let (x, _) = self.standardise(data)?;
        Ok(self.in_user_units(&self.posterior.predict(&x)?))
    }

    /// Leave-one-out predictions of the training targets, in closed form, with those targets.
    pub fn leave_one_out(&self) -> (Vec<f64>, Vec<Predictive>) {
        let y = self.posterior.data().y.iter().map(|z| self.target_scale.inverse(*z)).collect();
        (y, self.in_user_units(&self.posterior.leave_one_out()))
    }

    /// Marginals in standardised units as distributions in the user's.
    pub fn in_user_units(&self, marginals: &Marginals) -> Vec<Predictive> {
        let pairs = marginals.mean.iter().zip(&marginals.variance);
        pairs.map(|(mean, variance)| self.target_scale.predictive(*mean, variance.sqrt())).collect()
    }

    /// Writes the model to one file, whole or not at all.
    ///
    /// # Errors
    /// [`Error::Io`] naming the path.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let parameters: Vec<&Parameter> = self.model.parameters().into_iter().map(|(_, p)| p).collect();
        let document = json!({
            "model": "exact",
            "schema": self.schema,
            "settings": self.settings,
            "input_scale": self.input_scale,
            "target_scale": self.target_scale,
            "summary": self.summary,
            "kernel": self.model.kernel.to_string(),
            "parameters": parameters,
        });
        let data = self.posterior.data();
        let (n, d) = (data.n(), data.d);
        let array =
            |values: &[f64], shape: &[usize]| Array { shape: shape.to_vec(), data: ArrayData::F64(values.to_vec()) };
        let mut arrays: std::collections::BTreeMap<String, Array> =
            [("x".into(), array(&data.x, &[n, d])), ("y".into(), array(&data.y, &[n]))].into();
        if let Some(noise) = &data.noise {
            arrays.insert("noise".into(), array(noise, &[n]));
        }
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
        let kind: String = read(part("model"), bad)?;
        if kind != "exact" {
            return Err(bad(format!(
                "holds a model of kind `{kind}`, which this version does not know; use a newer cagey"
            )));
        }
        let schema: Schema = read(part("schema"), bad)?;
        let settings: Settings = read(part("settings"), bad)?;
        let input_scale: InputScale = read(part("input_scale"), bad)?;
        let target_scale = read(part("target_scale"), bad)?;
        let summary = read(part("summary"), bad)?;
        let kernel: String = read(part("kernel"), bad)?;
        let parameters: Vec<Parameter> = read(part("parameters"), bad)?;
        let mut array = |name: &str| match file.arrays.remove(name) {
            Some(Array { data: ArrayData::F64(values), .. }) => Ok(values),
            _ => Err(bad(format!("lacks the f64 array `{name}`"))),
        };
        let (x, y) = (array("x")?, array("y")?);
        let noise = array("noise").ok();
        let d = input_scale.mean.len();
        let observations = Observations::new(x, d, y, noise).map_err(|e| bad(e.to_string()))?;

        let mut model = ExactGp::new(text::parse(&kernel, d, registry)?);
        model.mean = Mean::named(&settings.mean, d)?;
        model.objective = settings.objective;
        let slots = model.parameters_mut();
        if slots.len() != parameters.len() {
            return Err(bad(format!("has {} parameters where its kernel has {}", parameters.len(), slots.len())));
        }
        for ((_, slot), parameter) in slots.into_iter().zip(parameters) {
            *slot = parameter;
        }
        let posterior = model.posterior(settings.compute, observations)?;
        Ok(Self { schema, settings, input_scale, target_scale, model, summary, posterior })
    }
}

/// The columns of a table by what a model does with them.
struct Inputs {
    /// Inputs `[n, d]`, row-major, without the noise column.
    x: Vec<f64>,
    /// Their names `[d]`.
    names: Vec<String>,
    /// Known standard deviations of the targets `[n]`.
    noise: Option<Vec<f64>>,
}

impl Inputs {
    fn of(data: &Dataset, noise_column: Option<&str>) -> Result<Self> {
        let Some(column) = noise_column else {
            return Ok(Self { x: data.x.clone(), names: data.feature_names.clone(), noise: None });
        };
        let Some(at) = data.feature_names.iter().position(|name| name == column) else {
            let hint = match nearest(column, data.feature_names.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the input columns are {}", data.feature_names.join(", ")),
            };
            return Err(Error::Data(format!("no input column `{column}` with the known noise; {hint}")));
        };
        let known: Vec<f64> = (0..data.n).map(|i| data.row(i)[at]).collect();
        if let Some(i) = known.iter().position(|sd| *sd < 0.0) {
            let (row, sd) = (data.rows[i], known[i]);
            return Err(Error::Data(format!(
                "row {row}, column `{column}`: {sd} is no standard deviation; it is negative"
            )));
        }
        let keep = |(i, _): &(usize, &f64)| i % data.d != at;
        let x = data.x.iter().enumerate().filter(keep).map(|(_, v)| *v).collect();
        let names = data.feature_names.iter().filter(|name| *name != column).cloned().collect();
        Ok(Self { x, names, noise: Some(known) })
    }
}

fn build(
    settings: &Settings,
    data: &Observations,
    input_scale: &InputScale,
    target_scale: &TargetScale,
    registry: &Registry,
) -> Result<ExactGp> {
    let mut model = ExactGp::new(text::parse(&settings.kernel, data.d, registry)?);
    model.mean = Mean::named(&settings.mean, data.d)?;
    model.objective = settings.objective;
    model.kernel.set_units(&input_scale.sd, target_scale.sd);
    model.mean.set_units(&input_scale.sd, target_scale.mean, target_scale.sd);
    model.likelihood.set_units(target_scale.sd);
    model.likelihood.noise.set_internal(&[0.1]);
    initial::initialise(&mut model.kernel, &data.x, data.d);
    for (name, values) in &settings.init {
        for parameter in model.find_mut(name)? {
            parameter.give(values)?;
        }
    }
    for (name, lower, upper) in &settings.bounds {
        for parameter in model.find_mut(name)? {
            parameter.set_bounds(*lower, *upper)?;
        }
    }
    for (name, prior) in &settings.priors {
        for parameter in model.find_mut(name)? {
            parameter.prior = Some(*prior);
        }
    }
    for name in &settings.fix {
        for parameter in model.find_mut(name)? {
            parameter.fixed = true;
        }
    }
    Ok(model)
}

/// Says which inputs are constant, and whether the target is: nothing can be learned from them.
fn constants(data: &Observations, names: &[String], target: &str) -> Vec<String> {
    let constant = |mut values: Box<dyn Iterator<Item = &f64> + '_>| {
        let first = values.next();
        values.all(|value| Some(value) == first)
    };
    let mut found = Vec::new();
    if data.n() == 1 {
        return vec!["there is one row of data: the model knows its value and nothing of the noise".into()];
    }
    if constant(Box::new(data.y.iter())) {
        found.push(format!("the target `{target}` is constant: error bars rest on no data"));
    }
    let columns = (0..data.d).filter(|column| constant(Box::new(data.x[*column..].iter().step_by(data.d))));
    found.extend(columns.map(|column| {
        format!("the input `{}` is constant and tells nothing: leave it out with `--features`", names[column])
    }));
    found
}

fn summarise(outcome: &train::Outcome, config: &TrainConfig, rows: usize, warnings: Vec<String>) -> Summary {
    Summary {
        rows,
        optimizer: config.optimizer.name().into(),
        termination: outcome.termination.to_string(),
        loss: outcome.loss,
        iterations: outcome.iterations,
        evaluations: outcome.evaluations,
        seconds: outcome.seconds,
        seed: config.seed,
        restarts: outcome.restarts.iter().map(|restart| restart.loss).collect(),
        warnings,
        history: outcome.history.clone(),
    }
}
