//! Profiles inside GPU kernels: arithmetic on values of a kernel under construction, so that the one definition of each
//! [`Profile`] is what the GPU compiles, too.

use burn::cubecl;
use burn::cubecl::frontend::{max, min};
use burn::cubecl::ir::{ConstantValue, Scope};
use burn::cubecl::prelude::*;

use crate::kernels::profile::{Arithmetic, Profile, SMALLEST_SQUARE, largest_square};

/// k(s; a).
#[cube]
pub fn value<F: Float>(s: F, a: F, #[comptime] profile: Profile) -> F {
    intrinsic!(|scope| profile.value(Traced { scope, value: s }, Traced { scope, value: a }).value)
}

/// (k, ∂k/∂s, ∂k/∂a).
#[cube]
pub fn slopes<F: Float>(s: F, a: F, #[comptime] profile: Profile) -> (F, F, F) {
    intrinsic!(|scope| {
        let (k, in_s, in_a) = profile.slopes(Traced { scope, value: s }, Traced { scope, value: a });
        (k.value, in_s.value, in_a.value)
    })
}

/// A value in the scope of a kernel; operations on it are written into the kernel.
#[derive(Clone, Copy)]
struct Traced<'a, F> {
    scope: &'a Scope,
    value: NativeExpand<F>,
}

impl<F: Float> Traced<'_, F> {
    fn constant(&self, value: f64) -> NativeExpand<F> {
        F::elem_type(self.scope).constant(ConstantValue::Float(value)).into()
    }

    fn with(self, operation: impl FnOnce(&Scope, NativeExpand<F>) -> NativeExpand<F>) -> Self {
        Self { scope: self.scope, value: operation(self.scope, self.value) }
    }
}

impl<F: Float> Arithmetic for Traced<'_, F> {
    fn add(self, other: Self) -> Self {
        self.with(|scope, value| F::__expand_add(scope, value, other.value))
    }
    fn mul(self, other: Self) -> Self {
        self.with(|scope, value| F::__expand_mul(scope, value, other.value))
    }
    fn div(self, other: Self) -> Self {
        self.with(|scope, value| F::__expand_div(scope, value, other.value))
    }
    fn scale(self, factor: f64) -> Self {
        let factor = self.constant(factor);
        self.with(|scope, value| F::__expand_mul(scope, value, factor))
    }
    fn shift(self, constant: f64) -> Self {
        let constant = self.constant(constant);
        self.with(|scope, value| F::__expand_add(scope, value, constant))
    }
    fn exp(self) -> Self {
        self.with(F::__expand_exp)
    }
    fn ln(self) -> Self {
        self.with(F::__expand_ln)
    }
    fn at_most(self, bound: f64) -> Self {
        let bound = self.constant(bound);
        self.with(|scope, value| min::expand(scope, value, bound))
    }
    fn safe_sqrt(self) -> Self {
        let smallest = self.constant(SMALLEST_SQUARE);
        let largest = largest_square(F::elem_type(self.scope).size());
        let above = self.with(|scope, value| max::expand(scope, value, smallest));
        above.at_most(largest).with(F::__expand_sqrt)
    }
    fn sin(self) -> Self {
        self.with(F::__expand_sin)
    }
    fn cos(self) -> Self {
        self.with(F::__expand_cos)
    }
}
