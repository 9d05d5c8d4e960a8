//! Triangular solves as differentiable operations, for one system or a batch.

use std::sync::Arc;

use burn::tensor::{Shape, Tensor, TensorData};
use faer::{MatMut, MatRef};

use crate::error::{Error, Result};
use crate::linalg::dense::{self, product, solve};
use crate::linalg::host::{Anywhere, HostOp, Vjp, apply2};
use crate::linalg::real::{Real, into_vec, with_real};
use crate::linalg::shape;

/// `X = L⁻¹ B` for a lower triangular `l`, `[.., n, n]`, and `b`, `[.., n, t]`.
///
/// `B̄ = L⁻ᵀ X̄` and `L̄ = −tril(B̄ Xᵀ)`; the strict upper triangle of `l` is not read and has gradient zero.
///
/// # Errors
/// [`Error::Shape`], or [`Error::NotFinite`] if the diagonal of `l` has a zero, NaN or infinite entry.
pub fn solve_lower<const D: usize>(l: Tensor<D>, b: Tensor<D>) -> Result<Tensor<D>> {
    apply2(Anywhere::new(Solve { transposed: false }), l, b)
}

/// `X = L⁻ᵀ B`, as [`solve_lower`]; `B̄ = L⁻¹ X̄` and `L̄ = −tril(X B̄ᵀ)`.
///
/// # Errors
/// As [`solve_lower`].
pub fn solve_lower_transposed<const D: usize>(l: Tensor<D>, b: Tensor<D>) -> Result<Tensor<D>> {
    apply2(Anywhere::new(Solve { transposed: true }), l, b)
}

/// `X = L⁻¹ B`, or `L⁻ᵀ B`.
pub(in crate::linalg) struct Solve {
    pub(in crate::linalg) transposed: bool,
}

/// The factors of a batch of systems of order `n`.
pub(in crate::linalg) struct Systems<T> {
    l: Vec<T>,
    n: usize,
    /// Entries of one solution.
    size: usize,
}

impl<T: Real> Systems<T> {
    /// The factors; `b` gives the size of a solution.
    pub fn new(l: Vec<T>, n: usize, b: &[T]) -> Self {
        let size = b.len() * n * n / l.len().max(1);
        Self { l, n, size }
    }

    /// The factor of system `i`.
    fn factor(&self, i: usize) -> MatRef<'_, T> {
        let square = self.n * self.n;
        dense::view(&self.l[i * square..][..square], self.n)
    }

    /// Calls `solve` with every factor and its right-hand sides, which it overwrites.
    pub fn each(&self, b: &mut [T], solve: impl Fn(MatRef<'_, T>, MatMut<'_, T>) + Sync) {
        let columns = self.size / self.n.max(1);
        shape::each(b, self.size, |i, b| solve(self.factor(i), dense::view_mut(b, columns)));
    }

    /// The solutions of all systems as an output with its adjoint: `solve` overwrites cotangents by B̄. From a system's
    /// factor, X and B̄, `in_factor` adds L̄ to a zero matrix.
    pub fn solved(
        self,
        x: Vec<T>,
        dims: Shape,
        solve: impl FnOnce(&Self, &mut [T]) + Send + 'static,
        in_factor: impl Fn(MatRef<'_, T>, [MatRef<'_, T>; 2], MatMut<'_, T>) + Send + Sync + 'static,
    ) -> (TensorData, Vjp<2>) {
        let (output, x) = shape::share(TensorData::new(x, dims.clone()));
        let vjp = move |grad, needs: [bool; 2]| {
            let (mut b, x) = (into_vec::<T>(grad)?, shape::numbers::<T>(&x)?);
            let (n, size) = (self.n, self.size);
            solve(&self, &mut b);
            let in_factors = || {
                let mut all = vec![T::of(0.0); self.l.len()];
                shape::each(&mut all, n * n, |i, sum| {
                    let own = [x, &b].map(|all| dense::view(&all[i * size..][..size], size / n.max(1)));
                    in_factor(self.factor(i), own, dense::view_mut(sum, n));
                });
                TensorData::new(all, [&dims[..dims.len() - 2], &[n, n]].concat())
            };
            Ok([needs[0].then(in_factors), needs[1].then(|| TensorData::new(b, dims))])
        };
        (output, Box::new(vjp))
    }
}

/// Solves with `L`, or with `Lᵀ` if `transposed`, in place.
fn substitute<T: Real>(transposed: bool) -> impl Fn(MatRef<'_, T>, MatMut<'_, T>) {
    move |l, b| if transposed { solve::upper(l.transpose(), b) } else { solve::lower(l, b) }
}

impl HostOp<2> for Solve {
    fn forward(self: Arc<Self>, [l, b]: [TensorData; 2]) -> Result<(TensorData, Vjp<2>)> {
        let n = shape::square("L", &l)?;
        let dims = b.shape().clone();
        check_right_hand_side(&l, &b, n)?;
        with_real!(l.dtype(), T => {
            let (l, mut x) = (into_vec::<T>(l)?, into_vec::<T>(b)?);
            check_diagonal(&l, n)?;
            let (systems, transposed) = (Systems::new(l, n, &x), self.transposed);
            systems.each(&mut x, substitute(transposed));
            let back = move |systems: &Systems<T>, b: &mut [T]| systems.each(b, substitute(!transposed));
            // −tril(B̄ Xᵀ), or −tril(X B̄ᵀ) for the transposed system.
            let in_factor = move |_: MatRef<'_, T>, [x, b]: [MatRef<'_, T>; 2], sum: MatMut<'_, T>| {
                let (left, right) = if transposed { (x, b) } else { (b, x) };
                product::add_lower(sum, left, right.transpose(), T::of(-1.0));
            };
            Ok(systems.solved(x, dims, back, in_factor))
        })
    }
}

/// Checks that `b` is `[.., n, t]` with the batch of `l`.
pub(in crate::linalg) fn check_right_hand_side(l: &TensorData, b: &TensorData, n: usize) -> Result<()> {
    let (_, cols) = shape::matrices("B", b)?;
    let depth = b.shape().len() - 2;
    shape::expect("B", b, &[&l.shape()[..depth], &[n, cols]].concat())
}

/// Checks that every triangular matrix of order `n` has an inverse.
pub(in crate::linalg) fn check_diagonal<T: Real>(l: &[T], n: usize) -> Result<()> {
    for (m, matrix) in l.chunks_exact((n * n).max(1)).enumerate() {
        for (i, &x) in matrix.iter().step_by(n + 1).enumerate() {
            if x == T::of(0.0) || !x.is_finite() {
                let of = if l.len() == n * n { String::new() } else { format!(" of matrix {m}") };
                return Err(Error::NotFinite(format!("L⁻¹: the diagonal entry {i}{of} is {x}, so the inverse")));
            }
        }
    }
    Ok(())
}
