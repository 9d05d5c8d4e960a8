//! The features of the built-in kernels, written once over rows of numbers and over tensor graphs.

use std::f64::consts::PI;
use std::fmt::Debug;

use serde::{Deserialize, Serialize};

use super::profile::Profile;

/// How a term compares the features of two rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Metric {
    /// s = ‖z₁ − z₂‖².
    SquaredDistance,
    /// s = z₁ᵀz₂.
    InnerProduct,
    /// 1 for a row of an input with itself, else 0. Features and profile are ignored.
    Delta,
}

/// The entries of a parameter: one, or one for each column of [`Rows`].
pub trait Values: Clone + Debug {
    /// The roots of the entries.
    fn sqrt(&self) -> Self;

    /// `count` entries from `start` on.
    fn part(&self, start: usize, count: usize) -> Self;
}

/// Rows `[n, d]` in which features are written.
pub trait Rows: Clone + Debug {
    /// The entries of a parameter.
    type Values: Values;

    /// Number of columns.
    fn columns(&self) -> usize;

    /// Each column times its entry.
    fn times(self, by: &Self::Values) -> Self;

    /// Each column divided by its entry.
    fn over(self, by: &Self::Values) -> Self;

    /// All entries times a factor.
    fn scale(self, factor: f64) -> Self;

    /// The sums of the rows, one column.
    fn total(self) -> Self;

    /// The cosines of all columns, then their sines.
    fn waves(self) -> Self;

    /// One column of zeros.
    fn zeros(&self) -> Self;
}

/// A covariance in the form v · profile(s(z₁, z₂); a).
#[derive(Debug, Clone)]
pub struct Term<X: Rows> {
    /// How features are compared.
    pub metric: Metric,
    /// The function of s.
    pub profile: Profile,
    /// Features z of the rows.
    pub features: X,
    /// Shape parameter a, if the profile has one.
    pub shape: Option<X::Values>,
    /// Factor v; 1 if there is none.
    pub variance: Option<X::Values>,
}

/// A covariance lowered to terms, their sums and their products.
#[derive(Debug, Clone)]
pub enum Lowered<X: Rows> {
    /// One term.
    Term(Term<X>),
    /// The sum of its parts.
    Sum(Vec<Lowered<X>>),
    /// The product of its parts.
    Product(Vec<Lowered<X>>),
}

/// A built-in kernel form whose covariance is a function of features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Form {
    /// A profile of the distance: lengthscale, variance.
    Stationary(Profile),
    /// The rational quadratic: lengthscale, alpha, variance.
    RationalQuadratic,
    /// An RBF kernel on circles: period, lengthscale, variance.
    Periodic,
    /// A periodic function of the distance: period, lengthscale, variance.
    PeriodicNorm,
    /// The cosine of the distance: period, variance.
    CosineNorm,
    /// The cosine of a sum: lengthscale, variance.
    CosineSum,
    /// A mixture of so many spectral components: frequency, bandwidth, variance.
    SpectralMixture(usize),
    /// Σ variance x z: variance.
    Linear,
    /// A power of the inner product: offset, variance.
    Polynomial(u32),
    /// The variance alone.
    Constant,
    /// The variance for a row with itself.
    White,
}

fn term<X: Rows>(metric: Metric, profile: Profile, features: X, variance: Option<&X::Values>) -> Lowered<X> {
    Lowered::Term(Term { metric, profile, features, shape: None, variance: variance.cloned() })
}

fn shaped<X: Rows>(metric: Metric, profile: Profile, features: X, [shape, variance]: [&X::Values; 2]) -> Lowered<X> {
    Lowered::Term(Term { metric, profile, features, shape: Some(shape.clone()), variance: Some(variance.clone()) })
}

impl Form {
    /// The terms of the covariance for rows `x` and the values `p` of the form's parameters.
    pub fn lower<X: Rows>(self, p: &[X::Values], x: X) -> Lowered<X> {
        use Metric::{Delta, InnerProduct, SquaredDistance};
        match self {
            Self::Stationary(profile) => term(SquaredDistance, profile, x.over(&p[0]), Some(&p[1])),
            Self::RationalQuadratic => {
                shaped(SquaredDistance, Profile::RationalQuadratic, x.over(&p[0]), [&p[1], &p[2]])
            }
            Self::Periodic => {
                // Every angle has a cosine and a sine, and both have its lengthscale.
                let angles = x.scale(2.0 * PI).over(&p[0]);
                term(SquaredDistance, Profile::Rbf, angles.waves().over(&p[1]), Some(&p[2]))
            }
            Self::PeriodicNorm => shaped(SquaredDistance, Profile::PeriodicNorm, x.over(&p[0]), [&p[1], &p[2]]),
            Self::CosineNorm => term(SquaredDistance, Profile::CosineNorm, x.over(&p[0]), Some(&p[1])),
            Self::CosineSum => {
                let angles = x.scale(2.0 * PI).over(&p[0]).total();
                term(InnerProduct, Profile::Identity, angles.waves(), Some(&p[1]))
            }
            Self::SpectralMixture(components) => {
                let d = x.columns();
                let component = |q: usize| {
                    let by = |p: &X::Values| x.clone().times(&p.part(q * d, d)).scale(2.0 * PI);
                    let (envelope, angles, weight) = (by(&p[1]), by(&p[0]).total(), p[2].part(q, 1));
                    Lowered::Product(vec![
                        term(SquaredDistance, Profile::Rbf, envelope, Some(&weight)),
                        term(InnerProduct, Profile::Identity, angles.waves(), None),
                    ])
                };
                Lowered::Sum((0..components).map(component).collect())
            }
            Self::Linear => term(InnerProduct, Profile::Identity, x.times(&p[0].sqrt()), None),
            Self::Polynomial(power) => shaped(InnerProduct, Profile::Power(power), x, [&p[0], &p[1]]),
            Self::Constant => term(InnerProduct, Profile::One, x.zeros(), Some(&p[0])),
            Self::White => term(Delta, Profile::One, x.zeros(), Some(&p[0])),
        }
    }
}
