//! Profiles inside GPU kernels: arithmetic on values of a kernel under construction. So the GPU compiles the same
//! definition of each [`Profile`](crate::kernels::profile::Profile) as the CPU.

use burn::cubecl;
use burn::cubecl::frontend::{max, min};
use burn::cubecl::ir::{ConstantValue, Scope};
use burn::cubecl::prelude::*;

use super::pair::Pair;
use crate::arithmetic::{Arithmetic, SMALLEST_SQUARE, largest_square};
use crate::products::engine::program::Program;

/// The covariance of two rows with these features, without the program's factor.
#[cube]
pub fn covariance<F: Float>(
    row: &Array<F>,
    column: &Array<F>,
    same: F,
    coefficients: &Array<F>,
    #[comptime] program: Program,
) -> F {
    intrinsic!(|scope| pair::<F>(scope, row, column, same, coefficients).value(&program).value)
}

/// Adds to `sums` the gradients in the row's features and in the coefficients, given a cotangent of that covariance.
#[cube]
pub fn add_slopes<F: Float>(
    row: &Array<F>,
    column: &Array<F>,
    same: F,
    coefficients: &Array<F>,
    cotangent: F,
    sums: &mut Array<F>,
    #[comptime] program: Program,
) {
    intrinsic!(|scope| {
        let cotangent = Traced { scope, value: cotangent };
        let (_, slopes) = pair::<F>(scope, row, column, same, coefficients).slopes(&program, cotangent);
        add_all::<F>(scope, sums, slopes);
    })
}

/// The same, and adds after them the covariance times `along`.
#[cube]
pub fn add_slopes_and_value<F: Float>(
    row: &Array<F>,
    column: &Array<F>,
    same: F,
    coefficients: &Array<F>,
    cotangent: F,
    along: F,
    sums: &mut Array<F>,
    #[comptime] program: Program,
) {
    intrinsic!(|scope| {
        let cotangent = Traced { scope, value: cotangent };
        let (value, mut slopes) = pair::<F>(scope, row, column, same, coefficients).slopes(&program, cotangent);
        slopes.push(Some(value.mul(Traced { scope, value: along })));
        add_all::<F>(scope, sums, slopes);
    })
}

fn add_all<F: Float>(scope: &Scope, sums: &mut Numbers<F>, slopes: Vec<Option<Traced<F>>>) {
    for (i, slope) in slopes.into_iter().enumerate() {
        if let Some(slope) = slope {
            add_to::expand::<F>(scope, sums, slope.value, i);
        }
    }
}

#[cube]
fn entry<F: Float>(array: &Array<F>, #[comptime] i: usize) -> F {
    array[i]
}

#[cube]
fn add_to<F: Float>(array: &mut Array<F>, value: F, #[comptime] i: usize) {
    array[i] += value;
}

type Numbers<F> = NativeExpand<Array<F>>;

fn pair<'a, F: Float>(
    scope: &'a Scope,
    row: &Numbers<F>,
    column: &Numbers<F>,
    same: NativeExpand<F>,
    coefficients: &Numbers<F>,
) -> Pair<Traced<'a, F>> {
    let all = |of: &Numbers<F>| {
        let count = Array::<F>::__expand_len(scope, of);
        (0..count).map(|i| Traced { scope, value: entry::expand::<F>(scope, of, i) }).collect()
    };
    Pair { row: all(row), column: all(column), same: Traced { scope, value: same }, coefficients: all(coefficients) }
}

/// A value in the scope of a kernel; operations on it are recorded in the kernel.
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
