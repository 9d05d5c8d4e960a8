//! Likelihoods: how observations scatter around the latent functions, one file for each.
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

mod bernoulli;
mod beta;
mod binomial;
mod correlated;
mod curvature;
mod custom;
mod difficulty;
pub(crate) mod expected;
mod gamma;
mod gaussian;
mod heteroscedastic;
pub mod infer;
mod lattice;
mod level;
mod negative_binomial;
mod ordinal;
mod poisson;
pub mod registry;
mod shift;
mod softmax;
mod student_t;

use std::sync::Arc;

use burn::tensor::Tensor;

pub use bernoulli::{Bernoulli, BernoulliLink};
pub use beta::Beta;
pub use binomial::Binomial;
pub(crate) use cagey_base::likelihoods::deviance;
pub use cagey_base::likelihoods::quadrature;
pub use cagey_base::likelihoods::{
    Along, Auxiliary, Density, Derivatives, Formula, Marginal, Prediction, Row, Slopes, Support, Targets, tempered,
};
pub use curvature::Root;
pub use custom::Custom;
pub use gamma::{Exponential, Gamma};
pub use gaussian::Gaussian;
pub use heteroscedastic::Heteroscedastic;
pub use negative_binomial::NegativeBinomial;
pub use ordinal::Ordinal;
pub use poisson::{Poisson, RateLink};
pub use softmax::Softmax;
pub use student_t::StudentT;

use crate::error::{Error, Result};
use crate::params::Parameters;
use crate::scope::{Scope, to_f64};

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

    /// Whether targets may be standardised. This holds only for location and scale families.
    fn scaled(&self) -> bool {
        false
    }

    /// Sets the unit of the target in the parameters, for [`scaled`](Self::scaled) likelihoods.
    fn set_units(&mut self, _target_sd: f64) {}

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
        level::problem(support, row.y, text.split('(').next().unwrap_or(&text))
    }

    /// Warnings about the targets as a whole, with advice.
    fn warnings(&self, _targets: Targets) -> Vec<String> {
        Vec::new()
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
        let y = to_f64(y.clone())?;
        let auxiliary = auxiliary.map(|auxiliary| to_f64(auxiliary.clone())).transpose()?;
        let targets = Targets { y: &y, auxiliary: auxiliary.as_deref() };
        self.check(targets, None)?;
        let rows = targets.rows(self.auxiliary()).collect();
        expected::expected_log_density(self.density(), rows, mean, variance, own)
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

/// The mean of targets.
fn level(y: &[f64]) -> f64 {
    y.iter().sum::<f64>() / y.len().max(1) as f64
}

/// The variance of targets, 1 for constant ones.
fn spread(y: &[f64]) -> f64 {
    let centre = level(y);
    let variance = y.iter().map(|y| (y - centre).powi(2)).sum::<f64>() / y.len().max(1) as f64;
    if variance > 0.0 { variance } else { 1.0 }
}

/// The number of events per unit of exposure, never 0.
fn rate_level(targets: Targets) -> f64 {
    let rows = targets.rows(Auxiliary::Exposure);
    let (events, exposure) = rows.fold((0.0, 0.0), |(y, e), row| (y + row.y, e + row.auxiliary));
    f64::max(events, 0.5) / f64::max(exposure, f64::MIN_POSITIVE)
}

/// Warns if no count has an event.
fn all_zero(targets: Targets) -> Vec<String> {
    if targets.y.iter().any(|y| *y != 0.0) {
        return Vec::new();
    }
    vec![format!(
        "all {} counts are 0: only an upper limit of the rate can be learned; check the target column",
        targets.y.len()
    )]
}

/// Checks a count.
fn count_problem(y: f64) -> std::result::Result<(), String> {
    if y < 0.0 {
        Err("is negative, but counts are 0, 1, 2, …; choose the gaussian likelihood for real targets".into())
    } else if y.fract() != 0.0 {
        Err("is no whole number, but counts are 0, 1, 2, …; give rates as counts with an exposure column, or \
             choose the gamma or gaussian likelihood"
            .into())
    } else {
        Ok(())
    }
}

/// Checks a target that must be positive.
fn positive_problem(y: f64, name: &str) -> std::result::Result<(), String> {
    match y {
        y if y > 0.0 => Ok(()),
        0.0 => Err(format!(
            "is 0, but the {name} likelihood takes positive targets; move zeros to half the smallest value that can be \
             measured, or leave such rows out"
        )),
        _ => {
            Err(format!("is negative, but the {name} likelihood takes positive targets; choose gaussian for such data"))
        }
    }
}

/// Warns of classes that do not occur in the targets.
fn missing_classes(y: &[f64], classes: usize) -> Vec<String> {
    let missing: Vec<String> = (0..classes).filter(|c| !y.contains(&(*c as f64))).map(|c| c.to_string()).collect();
    match missing.as_slice() {
        [] => Vec::new(),
        _ if missing.len() + 1 == classes => {
            vec!["all targets are of one class: there is nothing to learn; check the target column".into()]
        }
        _ => vec![format!(
            "no target is of class {}: nothing can be learned about it; check the target column or use fewer classes",
            missing.join(", ")
        )],
    }
}

/// Checks the code of a class.
fn class_problem(y: f64, classes: usize, name: &str) -> std::result::Result<(), String> {
    if y >= 0.0 && y < classes as f64 && y.fract() == 0.0 {
        return Ok(());
    }
    let advice = match (classes, y) {
        (2, -1.0) => "code the classes -1 and 1 as 0 and 1".to_string(),
        (2, _) => "for more classes choose the softmax likelihood, for counts poisson".to_string(),
        _ => "code the classes in this way without gaps".to_string(),
    };
    Err(format!("is no class: the {name} likelihood takes 0 to {}; {advice}", classes - 1))
}
