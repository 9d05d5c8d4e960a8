//! Predictions of the rows conditioned on, each from all others.

use super::Observations;
use super::posterior::Marginals;
use crate::error::Result;

/// What leaving each row out of the training of the hyperparameters changes in its left-out prediction, to first order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Influence {
    /// Changes of the means `[n]`; empty if they are negligible or unknown.
    pub mean: Vec<f64>,
    /// Changes of the logarithms of the variances `[n]`; likewise.
    pub log_variance: Vec<f64>,
    /// Why they are unknown, if they are.
    pub unknown: Option<String>,
}

impl Influence {
    /// Left-out predictions with these changes.
    pub fn applied(&self, left: &Marginals) -> Marginals {
        let mut moved = left.clone();
        moved.mean.iter_mut().zip(&self.mean).for_each(|(mean, by)| *mean += by);
        moved.variance.iter_mut().zip(&self.log_variance).for_each(|(variance, by)| *variance *= by.exp());
        moved
    }

    pub(super) fn unknown(why: &str) -> Self {
        Self { unknown: Some(why.into()), ..Self::default() }
    }
}

/// A posterior that predicts each of its rows from all others in closed form, with the hyperparameters as they are.
pub trait LeaveOneOut: Sync {
    /// Means and variances of the targets y (not f) of the rows conditioned on, in the order of these rows.
    ///
    /// # Errors
    /// What computing them reports.
    fn left_out(&self, data: &Observations) -> Result<Marginals>;

    /// What leaving each row out of the training of the hyperparameters too would change. None if it is unknown.
    ///
    /// # Errors
    /// What computing it reports.
    fn influence(&self) -> Result<Option<&Influence>> {
        Ok(None)
    }

    /// Draws standardised residuals from the model, row-major `[n, count]`, from independent standard normal numbers.
    /// Their correlations are those that leaving out causes; if these are unknown, the residuals are independent.
    /// `variance` is that of [`left_out`](Self::left_out).
    ///
    /// # Errors
    /// What computing them reports.
    fn residuals(&self, noise: Vec<f64>, _count: usize, _variance: &[f64]) -> Result<Vec<f64>> {
        Ok(noise)
    }

    /// Whether the rows are in the order of the table.
    fn in_order(&self) -> bool {
        true
    }
}
