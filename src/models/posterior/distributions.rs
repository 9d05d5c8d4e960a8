//! What posteriors say of the latent functions at some rows.

pub use cagey_base::serving::VARIANCE_FLOOR;

/// Means and variances of the latent function, row by row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Marginals {
    /// Means `[n]`.
    pub mean: Vec<f64>,
    /// Variances `[n]`, floored at [`VARIANCE_FLOOR`] of the prior variance.
    pub variance: Vec<f64>,
    /// How many variances were floored.
    pub floored: usize,
}

impl Marginals {
    /// Appends rows, given their means, their prior variances and the part of these variances that the data explain.
    pub(in crate::models) fn extend(&mut self, mean: impl Iterator<Item = f64>, prior: &[f64], explained: &[f64]) {
        self.mean.extend(mean);
        for (prior, explained) in prior.iter().zip(explained) {
            let (variance, floor) = (prior - explained, VARIANCE_FLOOR * prior);
            self.floored += usize::from(variance < floor);
            // A NaN stays a NaN.
            self.variance.push(if variance < floor { floor } else { variance });
        }
    }
}

/// A joint normal distribution of the latent function at several rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Joint {
    /// Means `[n]`.
    pub mean: Vec<f64>,
    /// Covariances, row-major `[n, n]`.
    pub covariance: Vec<f64>,
}

/// Normal distributions of all latent functions at each row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Correlated {
    /// Means, row-major `[n, L]`.
    pub mean: Vec<f64>,
    /// Covariances, row-major `[n, L, L]`.
    pub covariance: Vec<f64>,
}

/// Means and variances, with the two sources of the variances.
#[derive(Debug, Clone, PartialEq)]
pub struct Uncertainty {
    /// Means `[n]`.
    pub mean: Vec<f64>,
    /// Variances `[n]`: mathematical and computational together.
    pub total: Vec<f64>,
    /// The variances `[n]` without approximation by actions, which only more data can lower; none if they cost too
    /// much. For targets that are not Gaussian, they are those around the mode (Laplace's approximation).
    pub mathematical: Option<Vec<f64>>,
    /// The rest `[n]`, which more computation can lower.
    pub computational: Option<Vec<f64>>,
}

/// One sparse posterior of a weighted sum.
#[derive(Debug, Clone, PartialEq)]
pub struct InducingPart {
    /// Its name.
    pub name: String,
    /// Its inducing inputs, row-major `[m, d]`.
    pub inputs: Vec<f64>,
    /// The factor of its mean in the sum.
    pub coefficient: f64,
    /// The factor that it has regardless of the data.
    pub technique: f64,
}
