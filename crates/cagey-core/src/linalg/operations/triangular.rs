//! Triangular solves as differentiable operations, for one system or a batch.

use std::sync::Arc;

use burn::tensor::{Shape, Tensor, TensorData};
use faer::MatRef;

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

/// The factors of a batch of systems of order `n` and their solutions, for the adjoint.
pub(in crate::linalg) struct Systems<T> {
    pub l: Vec<T>,
    x: Option<TensorData>,
    pub n: usize,
    /// Entries of one solution.
    pub size: usize,
}

impl<T: Real> Systems<T> {
    /// The factors, without solutions yet; `b` gives the size of a solution.
    pub fn new(l: Vec<T>, n: usize, b: &[T]) -> Self {
        let size = b.len() * n * n / l.len().max(1);
        Self { l, x: None, n, size }
    }

    /// The factor of system `i`.
    pub fn factor(&self, i: usize) -> MatRef<'_, T> {
        let square = self.n * self.n;
        dense::view(&self.l[i * square..][..square], self.n)
    }

    /// The solutions of all systems as an output with its adjoint: `solve` overwrites cotangents by B̄, from which
    /// `in_factors` computes L̄.
    pub fn solved(
        mut self,
        x: Vec<T>,
        dims: Shape,
        solve: impl FnOnce(&Self, &mut [T]) -> Result<()> + Send + 'static,
        in_factors: impl FnOnce(&Self, &[T]) -> Result<Vec<T>> + Send + 'static,
    ) -> (TensorData, Vjp<2>) {
        let (output, x) = shape::share(TensorData::new(x, dims.clone()));
        self.x = Some(x);
        let vjp = move |grad, needs: [bool; 2]| {
            let mut b = into_vec::<T>(grad)?;
            solve(&self, &mut b)?;
            let l = needs[0].then(|| in_factors(&self, &b)).transpose()?;
            let l = l.map(|l| TensorData::new(l, self.dims(&dims)));
            Ok([l, needs[1].then(|| TensorData::new(b, dims))])
        };
        (output, Box::new(vjp))
    }

    /// The solutions of all systems.
    pub fn solutions(&self) -> Result<&[T]> {
        self.x.as_ref().map_or(Ok(&[]), shape::numbers)
    }

    /// The shape of all factors, given that of the right-hand sides.
    fn dims(&self, of_solutions: &[usize]) -> Vec<usize> {
        let mut dims = of_solutions.to_vec();
        dims.truncate(of_solutions.len() - 2);
        dims.extend([self.n, self.n]);
        dims
    }
}

impl Solve {
    /// Solves every system for `b` in place, with `Lᵀ` if `transposed`.
    fn solve<T: Real>(transposed: bool, systems: &Systems<T>, b: &mut [T]) -> Result<()> {
        shape::each(b, systems.size, |i, b| {
            let l = systems.factor(i);
            let cols = b.len() / systems.n.max(1);
            let b = dense::view_mut(b, cols);
            if transposed {
                solve::upper(l.transpose(), b)
            } else {
                solve::lower(l, b)
            }
            Ok(())
        })?;
        Ok(())
    }

    /// `−tril(B̄ Xᵀ)`, or `−tril(X B̄ᵀ)` for the transposed system, for every system.
    fn factor_adjoint<T: Real>(&self, systems: &Systems<T>, b: &[T]) -> Result<Vec<T>> {
        let (n, size, x) = (systems.n, systems.size, systems.solutions()?);
        let mut sum = vec![T::of(0.0); systems.l.len()];
        shape::each(&mut sum, n * n, |i, sum| {
            let [x, b] = [x, b].map(|all| dense::view(&all[i * size..][..size], size / n.max(1)));
            let (left, right) = if self.transposed { (x, b) } else { (b, x) };
            product::add_lower(dense::view_mut(sum, n), left, right.transpose(), T::of(-1.0));
            Ok(())
        })?;
        Ok(sum)
    }
}

impl HostOp<2> for Solve {
    fn forward(self: Arc<Self>, [l, b]: [TensorData; 2]) -> Result<(TensorData, Vjp<2>)> {
        let n = shape::square("L", &l)?;
        let dims = b.shape().clone();
        check_right_hand_side(&l, &b, n)?;
        with_real!(l.dtype(), T => {
            let (l, mut x) = (into_vec::<T>(l)?, into_vec::<T>(b)?);
            check_diagonal(&l, n)?;
            let systems = Systems::new(l, n, &x);
            let transposed = self.transposed;
            Self::solve(transposed, &systems, &mut x)?;
            let back = move |systems: &Systems<T>, b: &mut [T]| Self::solve(!transposed, systems, b);
            Ok(systems.solved(x, dims, back, move |systems, b| self.factor_adjoint(systems, b)))
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
