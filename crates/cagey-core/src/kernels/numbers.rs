//! A kernel as numbers, for programs that only predict.

use cagey_base::kernels as base;

use super::form::BuiltIn;
use super::{Kernel, Leaf, Transformed};
use crate::error::{Error, Result};

impl Kernel {
    /// The kernel with its values as numbers on the host.
    ///
    /// # Errors
    /// [`Error::Usage`] naming a form or a transform that does not come with the library.
    pub fn numbers(&self) -> Result<base::Kernel> {
        let custom = |what: &str, name: &str| {
            Error::Usage(format!("the {what} `{name}` is not one of cagey's own, and only programs with it can use it"))
        };
        let all = |parts: &[Self]| parts.iter().map(Self::numbers).collect::<Result<Vec<_>>>();
        Ok(match self {
            Self::Leaf(Leaf { form, dims, parameters }) => {
                let (dims, values) = (dims.clone(), parameters.iter().map(|p| p.internal()).collect());
                match form.built_in().ok_or_else(|| custom("kernel", form.name()))? {
                    BuiltIn::Form(form) => base::Kernel::Form { form, dims, values },
                    BuiltIn::Wiener(walk) => base::Kernel::Wiener { walk, dims, values },
                }
            }
            Self::Sum(parts) => base::Kernel::Sum(all(parts)?),
            Self::Product(parts) => base::Kernel::Product(all(parts)?),
            Self::Transformed(Transformed { transform, parameters, kernel }) => match &parameters[..] {
                [weights] if transform.is_projection() => base::Kernel::Projected {
                    weights: weights.internal(),
                    // A projection's number of columns does not depend on that of its inputs.
                    dim: transform.output_dim(0),
                    kernel: Box::new(kernel.numbers()?),
                },
                _ => return Err(custom("input transform", transform.name())),
            },
        })
    }
}
