//! Likelihoods: how observations scatter around the latent functions, a file for each kind of target.
//!
//! A [`Likelihood`] holds parameters and knows which targets it takes. [`Likelihood::density`] freezes it into a
//! [`Density`]. Its [`Formula`] is the log density of a row, written once; derivatives in `f` and in own parameters
//! (Newton's method), expectations under a Gaussian (variational inference) and predictions follow by differentiation
//! and quadrature, on the host in f64, unless the density has closed forms. [`Custom`] makes a likelihood of a formula.
//! [`Likelihood::expected_log_density`] is the same expectation as a differentiable tensor, and [`Likelihood::predict`]
//! gives a [`Prediction`].
//!
//! Classes are codes 0, 1, …; counts are whole numbers as f64. A row may have one number besides its target: a known
//! noise variance, an exposure or a number of trials. [`Likelihood::auxiliary`] says which.

mod classes;
mod correlated;
mod counts;
mod curvature;
mod custom;
pub(crate) mod expected;
pub mod infer;
mod lattice;
mod level;
mod positive;
mod real;
pub mod registry;

use std::sync::Arc;

use burn::tensor::Tensor;

pub(crate) use cagey_base::likelihoods::deviance;
pub use cagey_base::likelihoods::quadrature;
pub use cagey_base::likelihoods::{
    Along, Auxiliary, Density, Derivatives, Formula, Marginal, Prediction, Row, Slopes, Support, Targets, tempered,
};
pub use classes::{Bernoulli, BernoulliLink, Ordinal, Softmax};
pub use counts::{Binomial, NegativeBinomial, Poisson, RateLink};
pub use curvature::Root;
pub use custom::Custom;
pub use positive::{Beta, Exponential, Gamma};
pub use real::{Gaussian, Heteroscedastic, StudentT};

use crate::error::{Error, Result};
use crate::params::{Parameters, Unit};
use crate::scope::Scope;

/// A conditional distribution of targets given latent functions, with its parameters.
pub trait Likelihood: Parameters + std::fmt::Debug + Send + Sync + CloneLikelihood {
    /// The text that names the likelihood with its options, such as `bernoulli(logit)`.
    fn text(&self) -> String;

    /// Number of latent functions.
    fn latents(&self) -> usize {
        1
    }

    /// The latent functions besides the first, unless they are classes: for each its name, and the quantity that its
    /// value 0 stands for.
    fn others(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    /// The kind of the rows' auxiliary column.
    fn auxiliary(&self) -> Auxiliary {
        Auxiliary::None
    }

    /// The noise variance, as the model sees it, if targets are Gaussian given one latent function. Predictions then
    /// have a closed form.
    fn noise(&self) -> Option<f64> {
        None
    }

    /// If there is such [noise](Self::noise): its variance for each of `n` rows `[n]`, in the scope's wide type, with
    /// the rows' `known` variances added.
    fn noise_of_rows(&self, _scope: &Scope, _n: usize, _known: Option<&Tensor<1>>) -> Option<Tensor<1>> {
        None
    }

    /// The number of classes, if targets are classes.
    fn classes(&self) -> Option<usize> {
        match self.density().support(self.auxiliary().neutral()) {
            Support::Classes(count) => Some(count),
            _ => None,
        }
    }

    /// Whether targets may be standardised. This holds only for location and scale families.
    fn scaled(&self) -> bool {
        false
    }

    /// Sets the unit of the target in the parameters, for [`scaled`](Self::scaled) likelihoods; by default in
    /// variances.
    fn set_units(&mut self, target_sd: f64) {
        for (_, parameter) in self.parameters_mut().into_iter().filter(|(_, p)| p.unit == Unit::Variance) {
            parameter.put_scale(vec![target_sd * target_sd; parameter.len()], 0.0);
        }
    }

    /// Says what is wrong with a target and what to do about it; by default, if it is outside the density's support.
    ///
    /// # Errors
    /// The problem, to be read after "row 3: the target -1".
    fn check_row(&self, row: Row) -> std::result::Result<(), String> {
        let support = self.density().support(row.auxiliary);
        if support.contains(row.y) {
            return Ok(());
        }
        let text = self.text();
        Err(level::problem(support, row.y, text.split('(').next().unwrap_or(&text)))
    }

    /// Warnings about the targets as a whole, with advice; by default of classes without rows and of counts that are
    /// all 0.
    fn warnings(&self, targets: Targets) -> Vec<String> {
        level::warnings(self.density().support(self.auxiliary().neutral()), targets.y)
    }

    /// Sets parameters that the user did not give to values that suit the targets. Returns the constant level `[L]` of
    /// each latent function that fits them; by default the levels under which the targets are most likely.
    fn initialise(&mut self, targets: Targets) -> Vec<f64> {
        level::constant(&*self.density(), targets.rows(self.auxiliary()))
    }

    /// The mathematics for the present parameter values.
    fn density(&self) -> Arc<dyn Density>;

    /// Checks all targets. `rows [n]` are their row numbers for messages; if absent, rows count from 1.
    ///
    /// # Errors
    /// [`Error::Shape`] when lengths disagree, [`Error::Data`] naming the first target that does not fit.
    fn check(&self, targets: Targets, rows: Option<&[usize]>) -> Result<()> {
        let n = targets.y.len();
        let lengths = [targets.auxiliary.map(<[f64]>::len), rows.map(<[usize]>::len)];
        if let Some(other) = lengths.into_iter().flatten().find(|length| *length != n) {
            return Err(Error::shape("rows of targets", n.to_string(), other.to_string()));
        }
        for (i, row) in targets.rows(self.auxiliary()).enumerate() {
            let finite = if row.y.is_finite() { Ok(()) } else { Err("is not a number; leave such rows out".into()) };
            let number = || rows.map_or(i + 1, |rows| rows[i]);
            if let Some(problem) = self.auxiliary().problem(row.auxiliary) {
                return Err(Error::Data(format!("row {}: {problem}", number())));
            }
            if let Err(problem) = finite.and_then(|()| self.check_row(row)) {
                return Err(Error::Data(format!("row {}: the target {} {problem}", number(), row.y)));
            }
        }
        Ok(())
    }

    /// `E[ln p(y_i | f_i)]` `[b]` for targets `y [b]` and their auxiliary values `auxiliary [b]`. The latent functions
    /// are independent with `f_li ~ N(mean_li, variance_li)` and marginals `[L, b]`, or they have covariances
    /// `[L L, b]` in place of variances. Differentiable in means, variances and the likelihood's own parameters.
    ///
    /// The host computes it in f64, wherever the tensors are and whatever their type; see [`Density::expectation`] and
    /// [`Density::joint_expectation`].
    ///
    /// # Errors
    /// [`Error::Shape`] when shapes disagree, [`Error::Device`] when the device cannot be read.
    fn expected_log_density(
        &self,
        scope: &Scope,
        mean: Tensor<2>,
        variance: Tensor<2>,
        y: &Tensor<1>,
        auxiliary: Option<&Tensor<1>>,
    ) -> Result<Tensor<1>> {
        let own: Vec<Tensor<1>> = self.parameters().into_iter().map(|(_, p)| scope.value(p)).collect();
        let (own_count, known) = (own.iter().map(|own| own.dims()[0]).sum::<usize>(), self.density().own().len());
        if known < own_count {
            let what = format!("the density of the likelihood `{}`", self.text());
            let want = format!("the {own_count} values of its parameters in `Density::own`, or they are never learned");
            return Err(Error::shape(what, want, known.to_string()));
        }
        let own = (!own.is_empty()).then(|| Tensor::cat(own, 0));
        expected::RowDensities::new(self, y, auxiliary)?.expectations(mean, variance, own)
    }

    /// The predictive distribution of a target with latent marginals `mean [L]` and `variance [L]` and this auxiliary
    /// value (the neutral one if absent).
    ///
    /// # Errors
    /// [`Error::Shape`] if there is not one mean and one variance for each latent function.
    fn predict(&self, mean: &[f64], variance: &[f64], auxiliary: Option<f64>) -> Result<Prediction> {
        let latents = self.latents();
        if mean.len() != latents || variance.len() != latents {
            let got = format!("{} and {}", mean.len(), variance.len());
            return Err(Error::shape("latent means and variances", format!("{latents} each"), got));
        }
        let auxiliary = auxiliary.unwrap_or(self.auxiliary().neutral());
        Ok(Prediction::new(self.density(), mean.to_vec(), variance.to_vec(), auxiliary))
    }

    /// As [`predict`](Self::predict), for latent functions with covariances `[L, L]`.
    ///
    /// # Errors
    /// [`Error::Shape`] if the numbers of means or covariances are wrong; [`Error::Usage`] if correlations would be
    /// lost. Only likelihoods of classes take them into account.
    fn predict_joint(&self, mean: &[f64], covariance: &[f64], auxiliary: Option<f64>) -> Result<Prediction> {
        let latents = mean.len();
        if covariance.len() != latents * latents || latents != self.latents() {
            let (want, got) = (self.latents(), format!("{latents} means and {} covariances", covariance.len()));
            return Err(Error::shape("latent means and covariances", format!("{want} and their square"), got));
        }
        if latents == 1 {
            return self.predict(mean, covariance, auxiliary);
        }
        let auxiliary = auxiliary.unwrap_or(self.auxiliary().neutral());
        Prediction::joint(self.density(), mean, covariance, auxiliary)
            .ok_or_else(|| Error::Usage(format!("the {} likelihood has no correlated latent functions", self.text())))
    }
}

/// Cloning behind a pointer. Every likelihood that is [`Clone`] implements it.
pub trait CloneLikelihood {
    /// A copy with parameters of its own.
    fn boxed(&self) -> Box<dyn Likelihood>;
}

impl<L: Likelihood + Clone + 'static> CloneLikelihood for L {
    fn boxed(&self) -> Box<dyn Likelihood> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Likelihood> {
    fn clone(&self) -> Self {
        (**self).boxed()
    }
}
