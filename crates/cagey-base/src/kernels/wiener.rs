//! The covariance of a random walk, which is no function of a distance.

use serde::{Deserialize, Serialize};

use crate::arithmetic::Arithmetic;

/// Numbers with an absolute value.
pub trait Magnitude: Arithmetic {
    /// |self|.
    fn abs(self) -> Self;
}

impl Magnitude for f64 {
    fn abs(self) -> Self {
        f64::abs(self)
    }
}

/// The Wiener process (order 1) or its integral (order 2), from a start of the same prior variance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wiener {
    /// 1 or 2.
    pub order: usize,
}

impl Wiener {
    /// The covariance without its variance of steps u = max(x − origin, 0)/lengthscale and v: 1 + m for order 1, 1 +
    /// uv + m²(3M − m)/6 for order 2, with m and M the smaller and the larger of the two (Rasmussen and Williams 2006,
    /// eq. 6.28).
    pub fn of_steps<A: Magnitude>(self, u: A, v: A) -> A {
        let apart = u.clone().add(v.clone().scale(-1.0)).abs();
        let (sum, product) = (u.clone().add(v.clone()), u.mul(v));
        let least = sum.clone().add(apart.clone().scale(-1.0)).scale(0.5);
        match self.order {
            1 => least.shift(1.0),
            _ => {
                let rest = sum.add(apart).scale(1.5).add(least.clone().scale(-1.0));
                least.clone().mul(least).mul(rest).scale(1.0 / 6.0).add(product).shift(1.0)
            }
        }
    }
}
