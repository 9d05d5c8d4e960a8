//! What every posterior offers: marginals in chunks, joint distributions and samples on request.

mod abilities;
mod distributions;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::OnceLock;

use burn::tensor::Tensor;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution, StandardNormal};

pub use abilities::{Aggregates, ComputationAware, Exact};
pub use distributions::{Correlated, InducingPart, Joint, Marginals, Uncertainty, VARIANCE_FLOOR};

use super::Observations;
use super::functions::{Located, Normal, PathOptions, Paths, Pathwise};
use super::leave_one_out::LeaveOneOut;
use crate::advice::Advice;
use crate::error::{Error, Result};
use crate::linalg::Factor;
use crate::model_file::Array;
use crate::serving::Served;
use crate::solvers::itergp::SolveReport;

/// What was made before, or is made now and kept.
pub(super) fn once<T>(slot: &OnceLock<T>, make: impl FnOnce() -> Result<T>) -> Result<&T> {
    match slot.get() {
        Some(known) => Ok(known),
        None => make().map(|made| slot.get_or_init(|| made)),
    }
}

/// The number of rows of `d` columns to predict at.
///
/// # Errors
/// [`Error::Shape`] for an incomplete row, [`Error::Data`] for a value that is not finite.
pub(super) fn rows(x: &[f64], d: usize) -> Result<usize> {
    if !x.len().is_multiple_of(d) {
        return Err(Error::shape("inputs", format!("rows of {d} columns"), format!("{} values", x.len())));
    }
    match x.iter().position(|value| !value.is_finite()) {
        None => Ok(x.len() / d),
        Some(at) => {
            Err(Error::Data(format!("row {}, input {}: {} is no finite number", at / d + 1, at % d + 1, x[at])))
        }
    }
}

/// Why a posterior with numbers for all pairs of rows is not served from its file.
pub(super) const NO_FACTOR: &str =
    "its file lacks the factor that predictions need; save it with `Settings::store_factor` (--store-factor)";

/// The error for a request about one latent function to a posterior of `latents` functions.
pub(super) fn several<T>(latents: usize) -> Result<T> {
    Err(Error::Usage(format!("this posterior has {latents} latent functions; ask for all of their `marginals`")))
}

/// What restores a posterior, together with its model and data, without the solve that found it.
#[derive(Debug, Clone, Default)]
pub struct SavedPosterior {
    /// Arrays by name.
    pub arrays: BTreeMap<String, Array>,
    /// How far the solve that found it went, if there was one.
    pub solve: Option<SolveReport>,
}

impl SavedPosterior {
    /// Adds an array.
    pub fn put(&mut self, name: &str, shape: &[usize], values: impl Into<Vec<f64>>) {
        self.arrays.insert(name.into(), Array::f64(shape, values));
    }

    /// Removes an array and returns its numbers.
    pub fn take(&mut self, name: &str) -> Option<Vec<f64>> {
        self.arrays.remove(name).map(|array| array.data.into_f64())
    }
}

/// A posterior over the latent functions.
pub trait Posterior: Debug + Send + Sync {
    /// Means and variances of f at rows `x` (row-major `[n, d]`), in chunks of bounded memory.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) when `x` has another number of columns, [`Data`](crate::Error::Data) when it
    /// holds a value that is not finite.
    fn predict(&self, x: &[f64]) -> Result<Marginals>;

    /// Means of f at rows `x` without the variances, which may cost far more.
    ///
    /// # Errors
    /// As [`predict`](Self::predict).
    fn mean(&self, x: &[f64]) -> Result<Vec<f64>> {
        Ok(self.predict(x)?.mean)
    }

    /// The posterior at rows `x [r, d]` as tensors, differentiable in x; parameters are constants. None for posteriors
    /// that do not offer this.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) for tensors with other columns, or of another device or type than the
    /// posterior's.
    fn located(&self, _x: Tensor<2>) -> Result<Option<Located>> {
        Ok(None)
    }

    /// Means and variances `[r]` of f at rows `x [r, d]`, differentiable in x.
    ///
    /// # Errors
    /// As [`located`](Self::located).
    fn moments(&self, x: Tensor<2>) -> Result<Option<[Tensor<1>; 2]>> {
        self.located(x)?.map(|located| located.moments()).transpose()
    }

    /// The joint distribution of f at rows `x [r, d]`, differentiable in x.
    ///
    /// # Errors
    /// As [`located`](Self::located).
    fn joint(&self, x: Tensor<2>) -> Result<Option<Normal>> {
        self.located(x)?.map(|located| located.joint()).transpose()
    }

    /// Its update of prior samples, if it has one: for [`paths`](Self::paths).
    ///
    /// # Errors
    /// [`Usage`](crate::Error::Usage) if there are several latent functions.
    fn pathwise(&self) -> Result<Option<&dyn Pathwise>> {
        Ok(None)
    }

    /// Samples of f as functions, which are evaluated and differentiated anywhere.
    ///
    /// # Errors
    /// [`Usage`](crate::Error::Usage) for posteriors without such an update, and naming a kernel form that has no
    /// random functions; for both there is [`sample`](Self::sample).
    fn paths(&self, options: PathOptions) -> Result<Paths> {
        let none = || {
            Error::Usage(
                "sample paths are for exact, sgpr, svgp and cagp; draw joint samples at given points from this \
                 posterior"
                    .into(),
            )
        };
        Paths::draw(self.pathwise()?.ok_or_else(none)?, options)
    }

    /// The posterior given more observations, which reuses what was computed for the earlier ones; none if there is no
    /// such way.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) when the columns differ, and what factorisations report.
    fn updated(&self, _more: &Observations) -> Result<Option<Box<dyn Posterior>>> {
        Ok(None)
    }

    /// Means and variances of every latent function at rows `x`.
    ///
    /// # Errors
    /// As [`predict`](Self::predict).
    fn marginals(&self, x: &[f64]) -> Result<Vec<Marginals>> {
        Ok(vec![self.predict(x)?])
    }

    /// Means and covariances of all latent functions at each row of `x`, where they are correlated.
    ///
    /// # Errors
    /// As [`predict`](Self::predict).
    fn correlated(&self, _x: &[f64]) -> Result<Option<Correlated>> {
        Ok(None)
    }

    /// Whether it knows the covariances between rows at a cost similar to that of the model.
    fn is_joint(&self) -> bool {
        true
    }

    /// Whether it has joint distributions at all.
    fn has_joint(&self) -> bool {
        self.is_joint()
    }

    /// The joint distribution of f at rows `x`. Takes memory n².
    ///
    /// # Errors
    /// As [`predict`](Self::predict).
    fn predict_joint(&self, x: &[f64]) -> Result<Joint>;

    /// Draws `count` joint samples of f at rows `x`. The same seed gives the same samples.
    ///
    /// # Errors
    /// As [`predict`](Self::predict), or when the joint covariance cannot be factorised.
    fn sample(&self, x: &[f64], count: usize, seed: u64) -> Result<Vec<Vec<f64>>> {
        let joint = self.predict_joint(x)?;
        let n = joint.mean.len();
        if n == 0 {
            return Ok(vec![Vec::new(); count]);
        }
        let lower = Factor::new(joint.covariance, "posterior covariance")?.lower();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        Ok((0..count)
            .map(|_| {
                let z: Vec<f64> = (0..n).map(|_| StandardNormal.sample(&mut rng)).collect();
                let deviation = |row: &[f64]| row.iter().zip(&z).map(|(l, z)| l * z).sum::<f64>();
                joint.mean.iter().zip(lower.chunks(n)).map(|(m, row)| m + deviation(row)).collect()
            })
            .collect())
    }

    /// Whether predictions need the observations, so that a file has to hold them all.
    fn needs_data(&self) -> bool {
        true
    }

    /// The numbers that restore this posterior from its model: none if conditioning is as fast. A factor that
    /// conditioning computes anyway is included only if `factor` asks for it.
    ///
    /// # Errors
    /// What reading them from their device reports.
    fn saved(&self, _factor: bool) -> Result<SavedPosterior> {
        Ok(SavedPosterior::default())
    }

    /// The posterior in numbers, for programs that only predict: see [`serving`](crate::serving). If that takes numbers
    /// for all pairs of rows, only `factor` asks for it.
    ///
    /// # Errors
    /// What reading them from their device reports.
    fn served(&self, _factor: bool) -> Result<Served> {
        Ok(Served::refused("it has no form yet in which other programs than cagey can predict with it"))
    }

    /// Remarks on predictions at rows `x` (row-major), for example on rows outside of the region that it knows.
    ///
    /// # Errors
    /// As [`predict`](Self::predict).
    fn remarks(&self, _x: &[f64]) -> Result<Vec<Advice>> {
        Ok(Vec::new())
    }

    /// The sparse models whose sum it is, if it is one.
    fn inducing_parts(&self) -> Vec<InducingPart> {
        Vec::new()
    }

    /// How far the solve that found it went, if there was one.
    fn solve(&self) -> Option<&SolveReport> {
        None
    }

    /// Its closed forms, if it is exact.
    fn exact(&self) -> Option<&dyn Exact> {
        None
    }

    /// The rules that combine its parts, if it has parts.
    fn aggregates(&self) -> Option<&dyn Aggregates> {
        None
    }

    /// Its closed form of leaving rows out, if it has one.
    fn leave_one_out(&self) -> Option<&dyn LeaveOneOut> {
        None
    }

    /// Means and variances of f at the rows conditioned on, each given all targets but its own, at the same
    /// hyperparameters; none if no closed form is known. Targets need not be Gaussian.
    ///
    /// # Errors
    /// What computing them reports.
    fn cavities(&self) -> Result<Option<Marginals>> {
        Ok(None)
    }

    /// What more computation would change, if it would change anything.
    fn computation_aware(&self) -> Option<&dyn ComputationAware> {
        None
    }
}
