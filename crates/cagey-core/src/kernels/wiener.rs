//! Random walks: processes that wander from where they are, and never return to a mean of their own.

use std::sync::Arc;

use burn::tensor::Tensor;

use super::form::{BuiltIn, Form, fold};
use super::graph::Graph;
use crate::error::Result;
use crate::params::{Parameter, Unit};

/// The Wiener process (order 1: a random walk) or its integral (order 2: a trend whose slope walks), from a start of
/// the same prior variance.
///
/// With u = max(x − origin, 0)/lengthscale, v likewise of z, m = min(u, v) and M = max(u, v), the covariance is
/// variance · (1 + m) for order 1, and variance · (1 + uv + m²(3M − m)/6) for order 2 (Rasmussen and Williams 2006, eq.
/// 6.28). So the variance is that of the level at the origin, and the lengthscale is the distance after which the walk
/// has added as much again; for order 2, the level and the slope for one lengthscale begin with this variance. A large
/// variance is a diffuse start. Of several columns, the kernel is the product over them.
#[derive(Debug)]
pub struct Wiener(cagey_base::kernels::Wiener);

/// The kernel of a random walk (order 1) or of an integrated one (order 2).
pub fn wiener(order: usize) -> Arc<dyn Form> {
    Arc::new(Wiener(cagey_base::kernels::Wiener { order }))
}

impl Wiener {
    /// The covariance without its variance of columns of steps `u` and `v` that broadcast against each other.
    fn of_steps(&self, u: Tensor<2>, v: Tensor<2>) -> Tensor<2> {
        self.0.of_steps(Graph(u), Graph(v)).0
    }

    /// u of each column, `[n, d]`.
    fn steps(p: &[Tensor<1>], x: Tensor<2>) -> Tensor<2> {
        (x - p[2].clone().unsqueeze::<2>()).clamp_min(0.0) / p[0].clone().unsqueeze::<2>()
    }
}

impl Form for Wiener {
    fn name(&self) -> &str {
        "wiener"
    }

    fn ard(&self) -> &[&str] {
        &["lengthscale", "origin"]
    }

    fn options(&self) -> Vec<(&str, usize)> {
        vec![("order", self.0.order)]
    }

    fn with_option(&self, name: &str, value: usize) -> Option<Arc<dyn Form>> {
        (name == "order" && (1..=2).contains(&value)).then(|| wiener(value))
    }

    fn parameters(&self, _d: usize) -> Vec<Parameter> {
        let mut origin = Parameter::real("origin", Unit::Length, &[0.0]);
        origin.fixed = true;
        vec![
            Parameter::positive("lengthscale", Unit::Length, &[1.0]),
            Parameter::positive("variance", Unit::Variance, &[1.0]),
            origin,
        ]
    }

    fn built_in(&self) -> Option<BuiltIn> {
        Some(BuiltIn::Wiener(self.0))
    }

    fn cross(&self, p: &[Tensor<1>], x1: Tensor<2>, x2: Tensor<2>) -> Result<Tensor<2>> {
        let (u, v) = (Self::steps(p, x1), Self::steps(p, x2));
        let columns = (0..u.dims()[1])
            .map(|k| Ok(self.of_steps(u.clone().narrow(1, k, 1), v.clone().narrow(1, k, 1).transpose())));
        Ok(fold(columns, |a, b| a * b)? * p[1].clone().unsqueeze::<2>())
    }

    fn diag(&self, p: &[Tensor<1>], x: Tensor<2>) -> Result<Tensor<1>> {
        let u = Self::steps(p, x);
        let columns = (0..u.dims()[1]).map(|k| u.clone().narrow(1, k, 1)).map(|u| Ok(self.of_steps(u.clone(), u)));
        Ok(fold(columns, |a, b| a * b)?.squeeze_dim(1) * p[1].clone())
    }
}
