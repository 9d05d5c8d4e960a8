//! What options about the model are called, and what the library calls it.

use cagey::data::TargetTransform;
use cagey::fitted::ActionPolicy;
use cagey::models::cagp::CagpObjective;
use cagey::models::exact::ExactObjective;
use cagey::models::ordering::RowOrder;
use clap::ValueEnum;

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum MeanName {
    /// 0 as the model sees the target: the mean of the training targets where these are standardised
    Zero,
    /// A learned constant
    Constant,
    /// Learned slopes and a constant, the mean where all inputs are at their averages
    Linear,
}

/// A model and its approximation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ModelName {
    /// Without approximation: time grows with the cube of the rows
    Exact,
    /// Computation-aware: error bars include what was not computed
    Cagp,
    /// Sparse, through inducing inputs and the collapsed bound
    Sgpr,
    /// Sparse and variational: minibatches, any likelihood
    Svgp,
    /// Sparse within sparse: each row sees its nearest inducing inputs only
    Swsgp,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum PolicyName {
    /// Block-sparse actions, learned with the hyperparameters
    Learned,
    /// Residuals: conjugate gradients
    Cg,
    /// Rows by pivoted Cholesky
    Cholesky,
    /// Lanczos vectors
    Lanczos,
    /// Eigenvectors of the largest eigenvalues
    Eigenvector,
    /// Gaussian random vectors
    Random,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum LossName {
    /// A bound of the negative log marginal likelihood
    Elbo,
    /// Negative log likelihood of the projected data
    Projected,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum OrderName {
    /// Rows of a block are near each other
    Tree,
    /// As the data come
    Data,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Minimised {
    /// Negative log marginal likelihood
    Ml,
    /// Negative leave-one-out log predictive probability
    Loo,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Transform {
    /// The target as it is
    None,
    /// Its logarithm; the target must be positive
    Log,
    /// log(1 + target), above -1
    Log1p,
}

impl MeanName {
    /// As settings have it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Zero => "zero",
            Self::Constant => "constant",
            Self::Linear => "linear",
        }
    }
}

impl From<PolicyName> for ActionPolicy {
    fn from(name: PolicyName) -> Self {
        match name {
            PolicyName::Learned => Self::Learned,
            PolicyName::Cg => Self::Cg,
            PolicyName::Cholesky => Self::Cholesky,
            PolicyName::Lanczos => Self::Lanczos,
            PolicyName::Eigenvector => Self::Eigenvector,
            PolicyName::Random => Self::Random,
        }
    }
}

impl From<LossName> for CagpObjective {
    fn from(name: LossName) -> Self {
        match name {
            LossName::Elbo => Self::Elbo,
            LossName::Projected => Self::Projected,
        }
    }
}

impl From<OrderName> for RowOrder {
    fn from(name: OrderName) -> Self {
        match name {
            OrderName::Tree => Self::Tree,
            OrderName::Data => Self::Data,
        }
    }
}

impl From<Minimised> for ExactObjective {
    fn from(name: Minimised) -> Self {
        match name {
            Minimised::Ml => Self::MarginalLikelihood,
            Minimised::Loo => Self::LeaveOneOut,
        }
    }
}

impl From<Transform> for TargetTransform {
    fn from(name: Transform) -> Self {
        match name {
            Transform::None => Self::Identity,
            Transform::Log => Self::Log,
            Transform::Log1p => Self::Log1p,
        }
    }
}
