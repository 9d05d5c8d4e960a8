//! Predictions in the user's units, for tables and for plain rows of numbers.

use std::borrow::Cow;

use rayon::prelude::*;

use super::Fitted;
use super::columns::{Inputs, row_values};
use super::mixing::joined;
use crate::advice::Advice;
use crate::data::{Dataset, TargetTransform};
use crate::error::{Error, Result};
use crate::likelihoods::Prediction;
use crate::metrics::{Predictive, TargetPrediction};
use crate::models::posterior::{Correlated, Marginals};
use crate::serving;
use crate::threads::{self, GRAIN, helped};

/// Runs `work` in threads that can get help, or in this thread if there are only a few `numbers` to compute.
fn computed<R: Send>(numbers: usize, work: impl FnOnce() -> Result<R> + Send) -> Result<R> {
    if numbers < GRAIN { work() } else { helped(work) }
}

/// Refuses predictions that are not finite, `width` of them for each row.
fn finite(values: &[f64], width: usize) -> Result<()> {
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(at) => Err(serving::not_finite(at / width)),
    }
}

impl Fitted {
    /// Rows of numbers as a table: in the order of the schema's columns, row-major, with one-hot columns as 0 and 1.
    ///
    /// # Errors
    /// [`Error::Shape`] if they do not fill whole rows.
    pub fn table(&self, x: &[f64]) -> Result<Dataset> {
        Dataset::new(self.schema.feature_names(), x.to_vec())
    }

    /// The auxiliary column, if the model has one and a table lacks it.
    pub fn without_auxiliary(&self, data: &Dataset) -> Option<&str> {
        self.settings.auxiliary_column.as_deref().filter(|own| data.feature_names.iter().all(|name| name != own))
    }

    /// Standardised inputs of a table, and the auxiliary values of its rows; none of these if the table lacks the
    /// column.
    ///
    /// # Errors
    /// [`Error::Data`] if the auxiliary column has an invalid value, [`Error::Shape`] if columns differ from the
    /// schema's.
    pub fn standardise(&self, data: &Dataset) -> Result<(Vec<f64>, Option<Vec<f64>>)> {
        let absent = self.without_auxiliary(data);
        self.schema.check_without(data, absent)?;
        let own = self.settings.auxiliary_column.as_deref().filter(|_| absent.is_none());
        let Inputs { x, auxiliary, .. } = Inputs::of(data, own)?;
        let kind = self.model.likelihood().auxiliary();
        for (i, value) in auxiliary.iter().flatten().enumerate() {
            if let Some(problem) = kind.problem(*value) {
                return Err(Error::Data(format!("row {}: {problem}", data.numbers()[i])));
            }
        }
        Ok((self.input_scale.apply(&x)?, auxiliary.map(|auxiliary| row_values(kind, auxiliary, &self.target_scale))))
    }

    /// The distribution of y at the rows of a table, for a Gaussian likelihood; with the
    /// [calibration](Fitted::calibration) if there is one. In a table without the auxiliary column, rows have the
    /// learned noise only. A row with a category that the model was not trained with gets mean and variance of the
    /// mixture over all categories.
    ///
    /// # Errors
    /// As [`standardise`](Self::standardise); [`Error::Usage`] for other likelihoods, for which there is
    /// [`predict_targets`](Self::predict_targets); [`Error::Data`] for inputs too far away for finite predictions.
    pub fn predict(&self, data: &Dataset) -> Result<Vec<Predictive>> {
        let of = |own: &Self| {
            let predict = |data: &Dataset| {
                let (x, known) = own.standardise(data)?;
                own.with_noise(&x, known.as_deref())
            };
            Ok(own.calibrated(own.in_user_units(&in_columns(own.mixed(data, predict, joined)?))))
        };
        self.averaged(of, Predictive::Average)
    }

    /// [`predict`](Self::predict) at standardised inputs, row-major, with the known noise variances of rows if there
    /// are any.
    ///
    /// # Errors
    /// As [`predict`](Self::predict).
    pub fn predict_at(&self, x: &[f64], known: Option<&[f64]>) -> Result<Vec<Predictive>> {
        let of = |own: &Self| {
            let pairs = own.with_noise(&own.rescaled(self, x)?, known)?;
            Ok(own.calibrated(own.in_user_units(&in_columns(pairs))))
        };
        self.averaged(of, Predictive::Average)
    }

    /// Mean and variance of standardised targets at standardised inputs.
    fn with_noise(&self, x: &[f64], known: Option<&[f64]>) -> Result<Vec<[f64; 2]>> {
        let Some(learned) = self.noise() else {
            let likelihood = self.model.likelihood().text();
            return Err(Error::Usage(format!("predictions under the {likelihood} likelihood have no closed form")));
        };
        let mut pairs = self.latent(x)?;
        for (i, [_, variance]) in pairs.iter_mut().enumerate() {
            *variance += learned + known.map_or(0.0, |known| known[i]);
        }
        Ok(pairs)
    }

    /// Remarks on predictions at the rows of a table, for example on rows outside the region that the model knows.
    ///
    /// # Errors
    /// As [`standardise`](Self::standardise).
    pub fn remarks(&self, data: &Dataset) -> Result<Vec<Advice>> {
        let (x, _) = self.standardise(data)?;
        computed(data.n * self.data.n(), || self.posterior.remarks(&x))
    }

    /// [`predict`](Self::predict) for rows of numbers, as [`table`](Self::table) takes them.
    ///
    /// # Errors
    /// As both.
    pub fn predict_rows(&self, x: &[f64]) -> Result<Vec<Predictive>> {
        self.predict(&self.table(x)?)
    }

    /// `E[y]` at rows of numbers, as [`table`](Self::table) takes them, for any likelihood. Variances are not computed
    /// if they are not needed: for a Gaussian likelihood and an untransformed target.
    ///
    /// # Errors
    /// As [`predict`](Self::predict).
    pub fn predict_mean(&self, x: &[f64]) -> Result<Vec<f64>> {
        let data = self.table(x)?;
        if self.noise().is_none() {
            return Ok(self.predict_targets(&data)?.iter().map(TargetPrediction::mean).collect());
        }
        if !self.members.is_empty() || self.target_scale.transform != TargetTransform::Identity {
            return Ok(self.predict(&data)?.iter().map(Predictive::mean).collect());
        }
        let predict = |data: &Dataset| -> Result<Vec<f64>> {
            let (x, _) = self.standardise(data)?;
            computed(data.n * self.data.n(), || self.posterior.mean(&x))
        };
        let means = self.mixed(&data, predict, |parts| parts.iter().map(|(weight, mean)| weight * mean).sum())?;
        finite(&means, 1)?;
        Ok(means.into_iter().map(|mean| self.target_scale.inverse(mean)).collect())
    }

    /// The distribution of y at the rows of a table, for any likelihood and an untransformed target. In a table without
    /// the auxiliary column, rows have its neutral value. A row with a category that the model was not trained with
    /// gets the mixture over all categories.
    ///
    /// # Errors
    /// As [`standardise`](Self::standardise).
    pub fn predict_targets(&self, data: &Dataset) -> Result<Vec<TargetPrediction>> {
        let of = |own: &Self| {
            let predict = |data: &Dataset| {
                let (x, auxiliary) = own.standardise(data)?;
                own.targets_at(&x, auxiliary.as_deref())
            };
            own.mixed(data, predict, TargetPrediction::mixture)
        };
        self.averaged(of, TargetPrediction::mixture)
    }

    /// The distribution of y at standardised inputs, row-major, for any likelihood and an untransformed target. Without
    /// auxiliary values, it takes the neutral one: exposure 1, one trial.
    ///
    /// # Errors
    /// As the posterior's; [`Error::Shape`] if there is not one auxiliary value for each row, [`Error::Data`] for an
    /// invalid one.
    pub fn targets_at(&self, x: &[f64], auxiliary: Option<&[f64]>) -> Result<Vec<TargetPrediction>> {
        if !self.members.is_empty() {
            let of = |member: &Self| member.targets_at(&member.rescaled(self, x)?, auxiliary);
            return self.averaged(of, TargetPrediction::mixture);
        }
        let rows = x.len() / self.data.d;
        let likelihood = self.model.likelihood();
        if let Some(auxiliary) = auxiliary.filter(|auxiliary| auxiliary.len() != rows) {
            return Err(Error::shape(
                "auxiliary values",
                format!("one for each of {rows} rows"),
                auxiliary.len().to_string(),
            ));
        }
        for (row, value) in auxiliary.into_iter().flatten().enumerate() {
            if let Some(problem) = likelihood.auxiliary().problem(*value) {
                return Err(Error::Data(format!("row {}: {problem}", row + 1)));
            }
        }
        let auxiliary = |i: usize| auxiliary.map(|auxiliary| auxiliary[i]);
        let work = rows * self.data.n();
        if let Some(Correlated { mean, covariance }) = computed(work, || self.posterior.correlated(x))? {
            let (latents, pairs) = (likelihood.latents(), likelihood.latents().pow(2));
            finite(&mean, latents).and_then(|()| finite(&covariance, pairs))?;
            let each: Vec<_> = mean.chunks(latents).zip(covariance.chunks(pairs)).collect();
            let predicted = threads::map(each.into_par_iter().enumerate(), |(i, (mean, covariance))| {
                Ok(self.target(likelihood.predict_joint(mean, covariance, auxiliary(i))?))
            });
            return predicted.into_iter().collect();
        }
        self.targets_of(&computed(work, || self.posterior.marginals(x))?, auxiliary)
    }

    /// The distribution of y for the distributions of f at some rows, and their auxiliary values.
    fn targets_of(
        &self,
        latents: &[Marginals],
        auxiliary: impl Fn(usize) -> Option<f64>,
    ) -> Result<Vec<TargetPrediction>> {
        for latent in latents {
            finite(&latent.mean, 1).and_then(|()| finite(&latent.variance, 1))?;
        }
        let likelihood = self.model.likelihood();
        (0..latents.first().map_or(0, |latent| latent.mean.len()))
            .map(|i| {
                let means: Vec<f64> = latents.iter().map(|latent| latent.mean[i]).collect();
                let variances: Vec<f64> = latents.iter().map(|latent| latent.variance[i]).collect();
                Ok(self.target(likelihood.predict(&means, &variances, auxiliary(i))?))
            })
            .collect()
    }

    /// The training targets of any likelihood, and the distribution of each given all others, at the hyperparameters
    /// that all have learned.
    ///
    /// # Errors
    /// [`Error::Usage`] for models that leave no row out in closed form.
    pub fn left_out_targets(&self) -> Result<(Vec<f64>, Vec<TargetPrediction>)> {
        Ok((self.targets(), self.averaged(Self::cavities, TargetPrediction::mixture)?))
    }

    /// The distribution of each training target of a single model given all others.
    fn cavities(&self) -> Result<Vec<TargetPrediction>> {
        let cavities = helped(|| self.posterior.cavities())?;
        let Some(cavities) = cavities.filter(|all| all.mean.len() == self.data.n()) else {
            return Err(Error::Usage(format!(
                "leaving one out in closed form is for models that solve one linear system of all rows: with gaussian \
                 targets, and laplace and state-space with one latent function; this is: {}",
                self.model.title()
            )));
        };
        let auxiliary = self.data.auxiliary.as_ref();
        self.targets_of(&[cavities], |row| auxiliary.map(|auxiliary| auxiliary[row]))
    }

    /// The distribution of y, from that of the standardised target.
    fn target(&self, standardised: Prediction) -> TargetPrediction {
        TargetPrediction::of(standardised, &self.target_scale, self.temperature)
    }

    /// The distribution of the latent function f at the rows of a table.
    ///
    /// # Errors
    /// As [`standardise`](Self::standardise).
    pub fn predict_latent(&self, data: &Dataset) -> Result<Vec<Predictive>> {
        let of = |own: &Self| {
            let predict = |data: &Dataset| own.latent(&own.standardise(data)?.0);
            Ok(own.in_user_units(&in_columns(own.mixed(data, predict, joined)?)))
        };
        self.averaged(of, Predictive::Average)
    }

    /// [`predict_latent`](Self::predict_latent) at standardised inputs, row-major.
    ///
    /// # Errors
    /// As [`predict_latent`](Self::predict_latent).
    pub fn latent_at(&self, x: &[f64]) -> Result<Vec<Predictive>> {
        let of = |own: &Self| Ok(own.in_user_units(&in_columns(own.latent(&own.rescaled(self, x)?)?)));
        self.averaged(of, Predictive::Average)
    }

    /// Inputs as another model of the same rows has standardised them, as this one does: it may transform them.
    fn rescaled<'a>(&self, other: &Self, x: &'a [f64]) -> Result<Cow<'a, [f64]>> {
        match self.input_scale == other.input_scale {
            true => Ok(Cow::Borrowed(x)),
            false => Ok(Cow::Owned(self.input_scale.apply(&other.input_scale.invert(x)?)?)),
        }
    }

    /// Mean and variance of every latent function at the rows of a table, as the model sees them; of an average, of
    /// the mixture of its members' functions.
    ///
    /// # Errors
    /// As [`standardise`](Self::standardise).
    pub fn marginals(&self, data: &Dataset) -> Result<Vec<Marginals>> {
        let latents = self.model.likelihood().latents();
        let join = |parts: Vec<(f64, Vec<[f64; 2]>)>| {
            let of = |latent: usize| joined(parts.iter().map(|(weight, part)| (*weight, part[latent])).collect());
            (0..latents).map(of).collect()
        };
        let of = |own: &Self| {
            let predict = |data: &Dataset| {
                let all = own.posterior.marginals(&own.standardise(data)?.0)?;
                let of_row = |i: usize| all.iter().map(|latent| [latent.mean[i], latent.variance[i]]).collect();
                Ok((0..data.n).map(of_row).collect())
            };
            own.mixed(data, predict, join)
        };
        let rows = self.averaged(of, join)?;
        Ok((0..latents).map(|latent| in_columns(rows.iter().map(|row| row[latent]).collect())).collect())
    }

    /// Marginals in standardised units as distributions in the user's units.
    pub fn in_user_units(&self, marginals: &Marginals) -> Vec<Predictive> {
        let pairs = marginals.mean.iter().zip(&marginals.variance);
        pairs.map(|(mean, variance)| self.target_scale.predictive(*mean, variance.sqrt())).collect()
    }

    /// Mean and variance of a single latent function at standardised inputs.
    fn latent(&self, x: &[f64]) -> Result<Vec<[f64; 2]>> {
        let marginals = computed(x.len() / self.data.d * self.data.n(), || self.posterior.predict(x))?;
        finite(&marginals.mean, 1).and_then(|()| finite(&marginals.variance, 1))?;
        Ok(marginals.mean.into_iter().zip(marginals.variance).map(|(mean, variance)| [mean, variance]).collect())
    }
}

/// Means and variances in a column each.
fn in_columns(pairs: Vec<[f64; 2]>) -> Marginals {
    let (mean, variance) = pairs.into_iter().map(|[mean, variance]| (mean, variance)).unzip();
    Marginals { mean, variance, floored: 0 }
}
