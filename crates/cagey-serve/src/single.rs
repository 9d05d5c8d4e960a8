//! One model in numbers.

use std::collections::BTreeMap;
use std::sync::Arc;

use cagey_base::likelihoods::{self, Auxiliary, Density, Prediction as Standardised};
use cagey_base::metrics::TargetPrediction;
use cagey_base::model_file::Array;
use cagey_base::scale::row_values;
use cagey_base::serving::{self, Described, Description, Moments, Posterior, Units};
use cagey_base::{Error, Result};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Prediction;

#[derive(Debug, Clone)]
pub(crate) struct Single {
    description: Description,
    units: Units,
    density: Arc<dyn Density>,
    /// σ², if targets are Gaussian given the function.
    noise: Option<f64>,
    posterior: Posterior,
}

/// Reads a part of a document.
fn read<T: DeserializeOwned>(value: Value) -> std::result::Result<T, String> {
    serde_json::from_value(value).map_err(|problem| format!("its description does not read: {problem}"))
}

impl Single {
    pub fn new(mut document: Value, mut arrays: BTreeMap<String, Array>) -> std::result::Result<Self, String> {
        let Some(description) = document.get_mut(serving::KEY).map(Value::take) else {
            return Err("was written by a version of cagey whose models cannot be served: load it with a newer cagey \
                        and save it again"
                .into());
        };
        let (description, units): (Description, Units) = (read(description)?, read(document)?);
        let refused = |why: &str| Err(format!("cannot be served: {why}"));
        if let Described::Refused(why) = &description.posterior {
            return refused(why);
        }
        let Some((text, own)) = &description.density else {
            let name = &description.likelihood;
            return refused(&format!(
                "the likelihood `{name}` is not one of cagey's own, and only programs with it can use it"
            ));
        };
        let Some(density) = likelihoods::named(text, own) else {
            return refused(&format!("its likelihood `{text}` is of a newer cagey"));
        };
        let d = units.input_scale.mean.len();
        if let Some(problem) = units.problem() {
            return Err(problem);
        }
        if description.inputs.len() != d {
            return Err(format!("has {d} inputs where its table has {}", description.inputs.len()));
        }
        // Functions share points and factors.
        let mut known = BTreeMap::new();
        let mut array = |name: &str| {
            if let Some(array) = arrays.remove(name) {
                known.insert(name.to_string(), array.data.into_f64());
            }
            known.get(name).cloned()
        };
        let posterior = description.posterior.ready(d, density.latents(), &mut array)?;
        let noise = (text == "gaussian").then(|| own[0]);
        Ok(Self { description, units, density, noise, posterior })
    }

    pub fn inputs(&self) -> &[String] {
        &self.description.inputs
    }

    pub fn auxiliary(&self) -> Option<&str> {
        self.description.auxiliary.as_ref().map(|(name, _)| name.as_str())
    }

    pub fn classes(&self) -> Option<&[String]> {
        self.description.classes.as_deref()
    }

    pub fn predict(&self, x: &[f64], auxiliary: Option<&[f64]>) -> Result<Vec<Prediction>> {
        let (d, names) = (self.units.input_scale.mean.len(), self.inputs());
        if !x.len().is_multiple_of(d) {
            let want = format!("rows of {d} numbers: {}", names.join(", "));
            return Err(Error::shape("inputs", want, format!("{} numbers", x.len())));
        }
        if let Some(at) = x.iter().position(|value| !value.is_finite()) {
            let (row, name) = (at / d + 1, &names[at % d]);
            return Err(Error::Data(format!("row {row}, `{name}`: {} is no finite number", x[at])));
        }
        let rows = x.len() / d;
        let auxiliary = auxiliary.map(|values| self.of_rows(values, rows)).transpose()?;
        let scaled = self.units.input_scale.apply(x)?;
        let auxiliary = |row: usize| auxiliary.as_ref().map(|auxiliary| auxiliary[row]);
        let each: Vec<Vec<Moments>> = match &self.posterior {
            Posterior::Apart(functions) => {
                let each = functions.iter().map(|function| function.moments(&scaled).map_err(Error::Data));
                each.collect::<Result<_>>()?
            }
            Posterior::Scores(scores) => scores.moments(&scaled),
            Posterior::Together(together) => {
                let each = together.moments(&scaled).into_iter().enumerate();
                return each.map(|(row, moments)| self.of_classes(row, moments, auxiliary(row))).collect();
            }
        };
        (0..rows)
            .map(|row| {
                let of: Vec<Moments> = each.iter().map(|latent| latent[row]).collect();
                finite(row, of.iter().flat_map(|at| [at.mean, at.variance]))?;
                Ok(self.at(&of, auxiliary(row)))
            })
            .collect()
    }

    /// The auxiliary values of rows, as the model sees them.
    fn of_rows(&self, values: &[f64], rows: usize) -> Result<Vec<f64>> {
        let Some((name, kind)) = &self.description.auxiliary else {
            let problem =
                "the model was fitted without an auxiliary column, and takes no numbers of rows beside inputs";
            return Err(Error::Usage(problem.into()));
        };
        if values.len() != rows {
            return Err(Error::shape(
                format!("`{name}`"),
                format!("one number for each of {rows} rows"),
                values.len().to_string(),
            ));
        }
        for (row, value) in values.iter().enumerate() {
            let negative = (*kind == Auxiliary::NoiseVariance && *value < 0.0).then(|| format!("{value} is negative"));
            if let Some(problem) = negative.or_else(|| kind.problem(*value)) {
                return Err(Error::Data(format!("row {}: {problem}", row + 1)));
            }
        }
        Ok(row_values(*kind, values.to_vec(), &self.units.target_scale))
    }

    /// The prediction of a row.
    fn at(&self, latents: &[Moments], auxiliary: Option<f64>) -> Prediction {
        let scale = &self.units.target_scale;
        if let Some(noise) = self.noise {
            let variance = latents[0].variance + (noise + auxiliary.unwrap_or(0.0));
            let own = scale.predictive(latents[0].mean, variance.sqrt());
            return Prediction::Real(match &self.units.calibration {
                Some(calibration) => calibration.apply(own),
                None => own,
            });
        }
        let (means, variances) = latents.iter().map(|at| (at.mean, at.variance)).unzip();
        let auxiliary = auxiliary.unwrap_or(self.neutral());
        self.of_target(Standardised::new(self.density.clone(), means, variances, auxiliary))
    }

    /// The prediction of a row whose functions have these means and covariances.
    fn of_classes(
        &self,
        row: usize,
        (mean, covariance): (Vec<f64>, Vec<f64>),
        auxiliary: Option<f64>,
    ) -> Result<Prediction> {
        finite(row, mean.iter().chain(&covariance).copied())?;
        let auxiliary = auxiliary.unwrap_or(self.neutral());
        let own = Standardised::joint(self.density.clone(), &mean, &covariance, auxiliary).ok_or_else(|| {
            Error::Data(format!("the likelihood `{}` has no correlated functions", self.description.likelihood))
        })?;
        Ok(self.of_target(own))
    }

    /// A target's distribution in its units.
    fn of_target(&self, own: Standardised) -> Prediction {
        Prediction::Other(TargetPrediction::of(own, &self.units.target_scale, self.units.temperature))
    }

    /// The auxiliary value of rows without one.
    fn neutral(&self) -> f64 {
        self.description.auxiliary.as_ref().map_or(1.0, |(_, kind)| kind.neutral())
    }
}

/// Refuses numbers of a row that are not finite.
fn finite(row: usize, mut numbers: impl Iterator<Item = f64>) -> Result<()> {
    if numbers.all(f64::is_finite) { Ok(()) } else { Err(serving::not_finite(row)) }
}
