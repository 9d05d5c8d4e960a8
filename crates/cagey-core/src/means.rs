//! Prior mean functions.

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::params::{Parameter, Parameters, Unit, keeping_internal};
use crate::scope::Scope;

/// The mean of the prior, as a function of the inputs that the model sees (for standardised data, centred at their
/// mean).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Mean {
    /// 0 (for standardised targets, the mean of the targets).
    Zero,
    /// A learned constant.
    Constant(Parameter),
    /// A learned constant plus a learned slope per input column.
    Linear {
        /// The value at the origin of the inputs.
        constant: Parameter,
        /// One slope per column.
        slopes: Parameter,
    },
}

impl Mean {
    /// The name of the mean that suits the likelihood.
    pub const AUTO: &'static str = "auto";

    /// The mean with this name (`zero`, `constant` or `linear`), for `d` input columns.
    ///
    /// # Errors
    /// [`Error::Usage`] for any other name.
    pub fn named(name: &str, d: usize) -> Result<Self> {
        let constant = || Parameter::real("constant", Unit::Level, &[0.0]);
        match name {
            "zero" => Ok(Self::Zero),
            "constant" => Ok(Self::Constant(constant())),
            "linear" => {
                Ok(Self::Linear { constant: constant(), slopes: Parameter::real("slopes", Unit::Slope, &vec![0.0; d]) })
            }
            _ => Err(Error::Usage(format!("unknown mean `{name}`; use auto, zero, constant or linear"))),
        }
    }

    /// The name, as in [`named`](Self::named).
    pub fn name(&self) -> &'static str {
        match self {
            Self::Zero => "zero",
            Self::Constant(_) => "constant",
            Self::Linear { .. } => "linear",
        }
    }

    /// The mean at rows `x [n, d]`, as `[n]`.
    ///
    /// # Errors
    /// [`Error::Shape`] when the number of slopes differs from the number of columns.
    pub fn at(&self, scope: &Scope, x: &Tensor<2>) -> Result<Tensor<1>> {
        let [n, d] = x.dims();
        match self {
            Self::Zero => Ok(Tensor::zeros([n], (scope.device(), scope.dtype()))),
            Self::Constant(constant) => Ok(scope.value(constant).expand([n])),
            Self::Linear { slopes, .. } if slopes.len() != d => Err(Error::shape(
                "inputs",
                format!("{} columns, one for each slope of the linear mean", slopes.len()),
                d.to_string(),
            )),
            Self::Linear { constant, slopes } => {
                let trend = x.clone() * scope.value(slopes).unsqueeze::<2>();
                Ok(trend.sum_dim(1).squeeze_dim::<1>(1) + scope.value(constant).expand([n]))
            }
        }
    }

    /// The mean as numbers on the host.
    pub fn numbers(&self) -> cagey_base::serving::Mean {
        let (constant, slopes) = match self {
            Self::Zero => (0.0, Vec::new()),
            Self::Constant(constant) => (constant.internal()[0], Vec::new()),
            Self::Linear { constant, slopes } => (constant.internal()[0], slopes.internal()),
        };
        cagey_base::serving::Mean { constant, slopes }
    }

    /// Tells the parameters the units of the data. The function on standardised inputs does not change.
    pub fn set_units(&mut self, input_sd: &[f64], target_mean: f64, target_sd: f64) {
        keeping_internal(self, |mean| match mean {
            Self::Zero => {}
            Self::Constant(constant) => constant.put_scale(vec![target_sd], target_mean),
            Self::Linear { constant, slopes } => {
                constant.put_scale(vec![target_sd], target_mean);
                slopes.put_scale(input_sd.iter().map(|sd| target_sd / sd).collect(), 0.0);
            }
        });
    }
}

impl Parameters for Mean {
    fn parameters(&self) -> Vec<(String, &Parameter)> {
        match self {
            Self::Zero => vec![],
            Self::Constant(constant) => vec![("constant".into(), constant)],
            Self::Linear { constant, slopes } => vec![("constant".into(), constant), ("slopes".into(), slopes)],
        }
    }

    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        match self {
            Self::Zero => vec![],
            Self::Constant(constant) => vec![("constant".into(), constant)],
            Self::Linear { constant, slopes } => vec![("constant".into(), constant), ("slopes".into(), slopes)],
        }
    }
}
