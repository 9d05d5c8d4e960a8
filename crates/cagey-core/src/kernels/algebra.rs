//! Sums, products and multiples of kernels.

use std::borrow::Borrow;
use std::ops::{Add, Mul};

use super::{Kernel, linear};
use crate::params::Unit;

impl Kernel {
    /// One product of kernels. In factors after the first, a variance that was not given stays at 1, because only the
    /// product of the variances matters.
    pub fn product(factors: Vec<Kernel>) -> Self {
        let inner = |factor| match factor {
            Self::Product(inner) => inner,
            other => vec![other],
        };
        let mut flat: Vec<Self> = factors.into_iter().flat_map(inner).collect();
        for factor in flat.iter_mut().skip(1) {
            if let Self::Leaf(leaf) = factor {
                for p in leaf.parameters.iter_mut().filter(|p| p.unit == Unit::Variance && p.len() == 1 && !p.given) {
                    p.put(&[1.0]);
                    p.fixed = true;
                }
            }
        }
        Self::Product(flat)
    }

    /// One sum of kernels, flattened.
    pub fn sum(terms: Vec<Kernel>) -> Self {
        let inner = |term| match term {
            Self::Sum(inner) => inner,
            other => vec![other],
        };
        Self::Sum(terms.into_iter().flat_map(inner).collect())
    }

    /// `factor` times this kernel. Multiplies the variance of a leaf, or of a product's first factor. Any other kernel
    /// gets a constant kernel as its first factor.
    pub fn scaled(mut self, factor: f64) -> Self {
        let first = match &mut self {
            Self::Product(parts) => parts.first_mut(),
            other => Some(other),
        };
        if let Some(Self::Leaf(leaf)) = first
            && let Some(variance) = leaf.parameters.iter_mut().find(|p| p.name == "variance")
        {
            let values: Vec<f64> = variance.values().iter().map(|v| v * factor).collect();
            variance.put(&values);
            variance.given = true;
            return self;
        }
        let mut constant = Self::leaf(linear::constant(), 1);
        if let Self::Leaf(leaf) = &mut constant {
            leaf.parameters[0].put(&[factor]);
            leaf.parameters[0].given = true;
        }
        Self::product(vec![constant, self])
    }
}

impl Add for Kernel {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self::sum(vec![self, other])
    }
}

impl Mul for Kernel {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self::product(vec![self, other])
    }
}

impl Mul<f64> for Kernel {
    type Output = Self;
    fn mul(self, factor: f64) -> Self {
        self.scaled(factor)
    }
}

impl<K: Borrow<Kernel>> Add<K> for &Kernel {
    type Output = Kernel;
    fn add(self, other: K) -> Kernel {
        self.clone() + other.borrow().clone()
    }
}

impl Mul for &Kernel {
    type Output = Kernel;
    fn mul(self, other: Self) -> Kernel {
        self.clone() * other.clone()
    }
}

impl Mul<f64> for &Kernel {
    type Output = Kernel;
    fn mul(self, factor: f64) -> Kernel {
        self.clone() * factor
    }
}
