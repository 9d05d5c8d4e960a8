//! A fitted model as one file.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::columns::input_names;
use super::{Fitted, Member, Registry, Rows, Settings, Summary, Whereabouts, precision};
use crate::data::{Classes, Schema};
use crate::device::{Compute, Precision};
use crate::distributed::Closed;
use crate::error::{Error, Result};
use crate::kernels::text;
use crate::model_file::{Array, ModelFile};
use crate::models::Observations;
use crate::models::blueprint::Blueprint;
use crate::models::options::Context;
use crate::models::posterior::{Posterior, SavedPosterior};
use crate::params::Parameter;
use crate::serving::{self, Described, Served};
use crate::solvers::itergp::SolveReport;
use crate::threads;

impl Fitted {
    /// Writes the model to one file, whole or not at all.
    ///
    /// # Errors
    /// [`Error::Io`] naming the path, [`Error::Data`] naming a number that a file cannot hold.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.file()?.save(path)
    }

    /// The content of the file that [`save`](Self::save) writes.
    ///
    /// # Errors
    /// [`Error::Data`] naming a number that a file cannot hold.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.file()?.to_bytes()
    }

    fn file(&self) -> Result<ModelFile> {
        if !self.members().is_empty() {
            return self.file_of_members();
        }
        let not_saved = |what: &str| Err(Error::Data(format!("{what}, so the model is not saved")));
        if let Some((path, problem)) =
            self.model.parameters().into_iter().find_map(|(path, p)| Some((path, p.problem()?)))
        {
            return not_saved(&format!("the parameter `{path}` {problem}"));
        }
        if !self.summary.loss.is_finite() {
            return not_saved("the training ended at an objective that is not finite");
        }
        let saved = self.posterior.saved(self.settings.store_factor)?;
        let Served { posterior, arrays: of_service } = self.posterior.served(self.settings.store_factor)?;
        let parameters: Vec<&Parameter> = self.model.parameters().into_iter().map(|(_, p)| p).collect();
        let document = json!({
            "model": self.settings.model.kind(),
            "schema": self.schema,
            "settings": self.settings,
            "input_scale": self.input_scale,
            "target_scale": self.target_scale,
            "summary": self.summary,
            "kernel": self.kernel_text(),
            "parameters": parameters,
            "solve": saved.solve,
            "calibration": self.calibration,
            "temperature": self.temperature,
            "whereabouts": self.whereabouts,
            serving::KEY: self.description(posterior),
        });
        if let Err(problem) = Description::read(document.clone()) {
            return not_saved(&format!("the model would not read back ({problem})"));
        }
        let data = &self.data;
        let (n, d) = (data.n(), data.d);
        let (x, y) = (Array::f64(&[n, d], &*data.x), Array::f64(&[n], &*data.y));
        let mut arrays = BTreeMap::from([("x".into(), x), ("y".into(), y)]);
        if let Some(values) = &data.auxiliary {
            arrays.insert("noise".into(), Array::f64(&[n], &**values));
        }
        arrays.extend(saved.arrays);
        arrays.extend(of_service);
        Ok(ModelFile { document, arrays })
    }

    /// What programs that only predict need to know.
    fn description(&self, posterior: Described) -> serving::Description {
        let (likelihood, schema) = (self.model.likelihood(), &self.schema);
        let density = likelihood.density();
        let posterior = match posterior {
            Described::Latents(_) | Described::Experts(_) if self.whereabouts.is_some() => {
                Described::Refused("its rows stay elsewhere".into())
            }
            other => other,
        };
        let own = || density.own().to_vec();
        serving::Description {
            inputs: self.input_names(),
            auxiliary: self.settings.auxiliary_column.clone().map(|name| (name, likelihood.auxiliary())),
            classes: schema.classes.as_ref().map(|classes| classes.labels().to_vec()),
            density: density.built_in().map(|text| (text, own())),
            likelihood: likelihood.text(),
            posterior,
        }
    }

    /// The file of an average: the documents of its members with their weights, and their arrays.
    fn file_of_members(&self) -> Result<ModelFile> {
        let mut whole = ModelFile::default();
        let mut members = Vec::new();
        for (k, Member { weight, evidence, left_out, fitted }) in self.members().iter().enumerate() {
            let ModelFile { document, arrays } = fitted.file()?;
            members.push(json!({ "weight": weight, "evidence": evidence, "left_out": left_out, "model": document }));
            whole.add_member(k, arrays);
        }
        let Summary { iterations, evaluations, seconds, .. } = self.summary;
        whole.document = json!({ "average": members, "training": Effort { iterations, evaluations, seconds } });
        Ok(whole)
    }

    /// The average that [`file_of_members`](Self::file_of_members) wrote.
    fn read_members(
        members: Vec<MemberDocument>,
        mut file: ModelFile,
        name: &str,
        (registry, rows): (&Registry, Rows),
        compute: Option<Compute>,
    ) -> Result<Self> {
        let bad = |problem: String| Error::ModelFile { path: name.into(), problem };
        let mut read = Vec::new();
        for (k, MemberDocument { weight, evidence, left_out, model }) in members.into_iter().enumerate() {
            let own = ModelFile { document: model, arrays: file.take_member(k) };
            let fitted = Self::read(own, name, (registry, rows), compute)?;
            read.push(Member { weight, evidence, left_out, fitted });
        }
        let effort = part::<Option<Effort>>(&mut file.document, "training").map_err(bad)?;
        let sum: f64 = read.iter().map(|member| member.weight).sum();
        if !read.iter().all(|member| member.weight >= 0.0) || (sum - 1.0).abs() > 1e-9 {
            return Err(bad("the weights of its average are not shares of 1".into()));
        }
        let average = Self::of_members(read).map_err(|error| bad(error.to_string()))?;
        let Some(Effort { iterations, evaluations, seconds }) = effort else { return Ok(average) };
        Ok(Self { summary: Summary { iterations, evaluations, seconds, ..average.summary.clone() }, ..average })
    }

    /// The kernel in the units of the data, or as the model sees it if its numbers are too small or too large in these
    /// units. Only its form is read back.
    fn kernel_text(&self) -> String {
        let (kernel, d) = (self.kernel(), self.data.d);
        let text = kernel.to_string();
        match text::parse(&text, d, &Registry::default().kernels) {
            Ok(_) => text,
            Err(_) => text::form(kernel, d),
        }
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
    /// [`Error::ModelFile`] when the file is damaged, of another version, not a model, or needs a kernel form that the
    /// registry lacks.
    pub fn load_with(path: impl AsRef<Path>, registry: &Registry) -> Result<Self> {
        Self::open(path, registry, None, Rows::Named)
    }

    /// As [`load_with`](Self::load_with), to compute on another device than the model was trained on: for example, a
    /// model trained on a GPU predicts on a machine without one. If single precision may not be enough for that, a
    /// [warning](super::Summary::warnings) says so.
    ///
    /// # Errors
    /// As [`load_with`](Self::load_with); [`Error::Device`] if there is no such device.
    pub fn load_on(path: impl AsRef<Path>, registry: &Registry, compute: Compute) -> Result<Self> {
        Self::open(path, registry, Some(compute), Rows::Named)
    }

    /// As [`load_with`](Self::load_with) or, with a device, [`load_on`](Self::load_on), with a choice of the tables for
    /// a model whose rows stayed where they are.
    ///
    /// # Errors
    /// As [`load_on`](Self::load_on); [`Error::Usage`] for another number of tables, and for tables that only the file
    /// names and that are not below the working directory.
    pub fn open(path: impl AsRef<Path>, registry: &Registry, compute: Option<Compute>, rows: Rows) -> Result<Self> {
        let name = path.as_ref().display().to_string();
        Self::read(ModelFile::load(&path)?, &name, (registry, rows), compute)
    }

    /// The model in the bytes of a file; without a given device, on the one it was trained on.
    ///
    /// # Errors
    /// As [`load_on`](Self::load_on).
    pub fn from_bytes(bytes: &[u8], registry: &Registry, compute: Option<Compute>) -> Result<Self> {
        const NAME: &str = "model";
        let file = ModelFile::from_bytes(bytes).map_err(|problem| Error::ModelFile { path: NAME.into(), problem })?;
        Self::read(file, NAME, (registry, Rows::Named), compute)
    }

    fn read(
        mut file: ModelFile,
        name: &str,
        (registry, rows): (&Registry, Rows),
        compute: Option<Compute>,
    ) -> Result<Self> {
        let bad = |problem: String| Error::ModelFile { path: name.into(), problem };
        if let Some(members) = part::<Option<Vec<MemberDocument>>>(&mut file.document, "average").map_err(bad)? {
            return Self::read_members(members, file, name, (registry, rows), compute);
        }
        let description = Description::read(std::mem::take(&mut file.document)).map_err(bad)?;
        let Description { schema, mut settings, units, mut summary, kernel, parameters, solve, whereabouts } =
            description;
        let serving::Units { input_scale, target_scale, calibration, temperature } = units;
        let kind = settings.model.kind();
        if registry.models.row(kind).is_none() {
            return Err(bad(format!(
                "holds a model of kind `{kind}`, which this program does not know; use a newer cagey, or the program \
                 that wrote it"
            )));
        }
        let mut array = |name: &str| file.arrays.remove(name).map(|array| array.data.into_f64());
        let mut needed = |name: &str| array(name).ok_or_else(|| bad(format!("lacks the array `{name}`")));
        let (x, y) = (needed("x")?, needed("y")?);
        let noise = array("noise");
        file.arrays.retain(|name, _| !name.starts_with(serving::PREFIX));
        let saved = SavedPosterior { arrays: file.arrays, solve };
        let d = input_scale.mean.len();
        let data = match &whereabouts {
            Some(_) => Observations::unchecked(x, d, y, noise),
            None => Observations::new(x, d, y, noise).map_err(|e| bad(e.to_string()))?,
        };
        let opened = whereabouts.as_ref().map(|at| -> Result<_> {
            let tables =
                at.open(&schema, settings.target_transform, settings.auxiliary_column.as_ref(), rows, registry)?;
            Ok(match tables {
                Some(tables) => (Some(tables.whereabouts()), tables.observed(&input_scale, target_scale)?),
                None => (None, at.closed(d)),
            })
        });
        let (found, shards) = opened.transpose()?.unzip();
        let closed = matches!(found, Some(None));
        // Tables that were given are where they are now.
        let whereabouts = found.flatten().or(whereabouts);

        // Errors that a user could otherwise correct with other options are the file's fault here.
        let unfit = |error: Error| {
            error.map(|error| match error {
                Error::Data(problem) | Error::Usage(problem) => bad(problem),
                error @ (Error::KernelText { .. } | Error::Shape { .. }) => bad(error.to_string()),
                other => other,
            })
        };
        let blueprint = Blueprint {
            model: settings.model.clone(),
            likelihood: settings.likelihood.clone(),
            classes: schema.classes.as_ref().map(Classes::len),
            mean: settings.mean.clone(),
            kernel,
            columns: d,
            parameters,
        };
        let names = input_names(&schema, settings.auxiliary_column.as_deref());
        let (shards, crew) = (shards.as_ref(), registry.crew.as_ref());
        let context = Context { shards, crew, ..Context::new(&data, &names, 0) };
        let model = blueprint.model(registry, context, &saved).map_err(unfit)?;
        let trained = settings.compute;
        let compute = compute.unwrap_or(trained);
        settings.compute = compute;
        if compute != trained {
            let coarser = if trained.precision == Precision::F32 { trained.precision } else { compute.precision };
            let warning = precision::warning(&*model, Compute { precision: coarser, ..compute }, &data);
            summary.warnings.extend(warning);
        }
        let posterior: Arc<dyn Posterior> = match closed {
            true => Arc::new(Closed),
            false => threads::helped(|| model.restore(compute, data.clone(), saved)).map_err(unfit)?.into(),
        };
        Ok(Self {
            schema,
            settings,
            input_scale,
            target_scale,
            model,
            summary,
            calibration,
            temperature,
            data,
            whereabouts,
            posterior,
            members: Arc::default(),
        })
    }
}

/// What a file says about a member of an average.
#[derive(Deserialize)]
struct MemberDocument {
    weight: f64,
    evidence: f64,
    left_out: f64,
    model: Value,
}

/// What the trainings of all models took from which an average was made, those that are hardly heard among them.
#[derive(Serialize, Deserialize)]
struct Effort {
    iterations: usize,
    evaluations: usize,
    seconds: f64,
}

/// What a file says about a model, without its arrays.
struct Description {
    schema: Schema,
    settings: Settings,
    units: serving::Units,
    summary: Summary,
    kernel: String,
    parameters: Vec<Parameter>,
    solve: Option<SolveReport>,
    whereabouts: Option<Whereabouts>,
}

impl Description {
    /// Reads the document of a file, or says what is wrong with it.
    fn read(mut document: Value) -> std::result::Result<Self, String> {
        let read = Self {
            schema: part(&mut document, "schema")?,
            settings: part(&mut document, "settings")?,
            units: serving::Units {
                input_scale: part(&mut document, "input_scale")?,
                target_scale: part(&mut document, "target_scale")?,
                calibration: part(&mut document, "calibration")?,
                temperature: part(&mut document, "temperature")?,
            },
            parameters: part(&mut document, "parameters")?,
            summary: part(&mut document, "summary")?,
            kernel: part(&mut document, "kernel")?,
            solve: part(&mut document, "solve")?,
            whereabouts: part(&mut document, "whereabouts")?,
        };
        let Self { schema, units, parameters, settings, .. } = &read;
        let of_parameter = |p: &Parameter| Some(format!("the parameter `{}` {}", p.name, p.problem()?));
        let problem = schema.problem().or_else(|| units.problem());
        if let Some(problem) = problem.or_else(|| parameters.iter().find_map(of_parameter)) {
            return Err(problem);
        }
        let inputs = input_names(schema, settings.auxiliary_column.as_deref()).len();
        let d = units.input_scale.mean.len();
        if inputs != d {
            return Err(format!("has {d} inputs where its table has {inputs}"));
        }
        Ok(read)
    }
}

fn part<T: DeserializeOwned>(document: &mut Value, name: &str) -> std::result::Result<T, String> {
    let value = document.get_mut(name).map(Value::take).unwrap_or_default();
    serde_json::from_value(value).map_err(|e| format!("its description does not read: {name}: {e}"))
}
