//! The two kernels that are not matrix products: Cholesky factorisation and forward substitution for one tile.
//!
//! Tiles are packed into `N × N` arrays on the stack. `N` is usually [`ORDER`], but [`SMALL`] for the matrices of a
//! batch, whose packing would otherwise cost more than their arithmetic.

use faer::{MatMut, MatRef};

use super::product;
use crate::linalg::real::Real;
use crate::threads;

/// The largest order of a diagonal tile.
pub const ORDER: usize = 64;

/// The largest order of a small tile.
const SMALL: usize = 16;

/// The number of right-hand sides substituted together: four AVX-512 registers of f64 per row.
const WIDTH: usize = 32;

/// Factors the tile `A = L Lᵀ` in its lower triangle.
///
/// # Errors
/// The index of the first pivot that is not a positive finite number.
pub fn factor<T: Real>(a: MatMut<'_, T>) -> Result<(), usize> {
    if a.nrows() <= SMALL { factor_packed::<T, SMALL>(a) } else { factor_packed::<T, ORDER>(a) }
}

fn factor_packed<T: Real, const N: usize>(mut a: MatMut<'_, T>) -> Result<(), usize> {
    let n = a.nrows();
    let mut upper = [[T::of(0.0); N]; N];
    for i in 0..n {
        for j in 0..=i {
            upper[j][i] = a[(i, j)];
        }
    }
    pulp::Arch::new().dispatch(FactorUpper { a: &mut upper, n })?;
    for i in 0..n {
        for j in 0..=i {
            a[(i, j)] = upper[j][i];
        }
    }
    Ok(())
}

/// `UᵀU = A` in the upper triangle of a row-major tile, right-looking: every update runs along a row.
struct FactorUpper<'a, T, const N: usize> {
    a: &'a mut [[T; N]; N],
    n: usize,
}

impl<T: Real, const N: usize> pulp::WithSimd for FactorUpper<'_, T, N> {
    type Output = Result<(), usize>;

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) -> Self::Output {
        let Self { a, n } = self;
        for k in 0..n {
            let (head, tail) = a.split_at_mut(k + 1);
            let row = &mut head[k][..n];
            let pivot = row[k];
            if !(pivot > T::of(0.0) && pivot.is_finite()) {
                return Err(k);
            }
            let root = pivot.sqrt();
            row[k] = root;
            for x in &mut row[k + 1..] {
                *x /= root;
            }
            for (i, other) in tail.iter_mut().take(n - k - 1).enumerate() {
                let j = k + 1 + i;
                let factor = -row[j];
                for (x, &u) in other[j..n].iter_mut().zip(&row[j..n]) {
                    *x = u.mul_add(factor, *x);
                }
            }
        }
        Ok(())
    }
}

/// `B ← L⁻¹ B` for a lower triangular tile.
pub fn lower<T: Real>(l: MatRef<'_, T>, b: MatMut<'_, T>) {
    let n = l.nrows();
    let entry = |i, j| l[(i, j)];
    if n <= SMALL {
        Triangle::<T, SMALL>::new(n, false, entry).share(b)
    } else {
        Triangle::<T, ORDER>::new(n, false, entry).share(b)
    }
}

/// `B ← U⁻¹ B` for an upper triangular tile: a forward substitution with rows and columns reversed.
pub fn upper<T: Real>(u: MatRef<'_, T>, b: MatMut<'_, T>) {
    let n = u.nrows();
    let entry = |i, j| u[(n - 1 - i, n - 1 - j)];
    if n <= SMALL {
        Triangle::<T, SMALL>::new(n, true, entry).share(b)
    } else {
        Triangle::<T, ORDER>::new(n, true, entry).share(b)
    }
}

/// A triangular tile in the order of its substitution: row-major, lower triangular.
struct Triangle<T, const N: usize> {
    entries: [[T; N]; N],
    order: usize,
    backward: bool,
}

impl<T: Real, const N: usize> Triangle<T, N> {
    fn new(order: usize, backward: bool, entry: impl Fn(usize, usize) -> T) -> Self {
        let mut entries = [[T::of(0.0); N]; N];
        for (i, row) in entries.iter_mut().enumerate().take(order) {
            for (j, x) in row[..=i].iter_mut().enumerate() {
                *x = entry(i, j);
            }
        }
        if order < N {
            // Rows are substituted in pairs; the partner of the last row is divided by this.
            entries[order][order] = T::of(1.0);
        }
        Self { entries, order, backward }
    }

    /// Solves for the right-hand sides in the columns of `b`, shared among the threads.
    fn share(&self, b: MatMut<'_, T>) {
        if b.ncols() <= WIDTH || !product::splits(self.order * self.order * b.ncols()) {
            return self.solve(b);
        }
        let middle = (b.ncols() / 2).next_multiple_of(WIDTH);
        let (left, right) = b.split_at_col_mut(middle);
        threads::join(|| self.share(left), || self.share(right));
    }

    fn solve(&self, b: MatMut<'_, T>) {
        let mut rest = b;
        let mut x = [[T::of(0.0); WIDTH]; N];
        while rest.ncols() > 0 {
            let width = WIDTH.min(rest.ncols());
            let (mut block, tail) = rest.split_at_col_mut(width);
            self.load(&mut x, block.as_ref());
            pulp::Arch::new().dispatch(Substitute { l: &self.entries, x: &mut x, n: self.order });
            self.store(&x, block.as_mut());
            rest = tail;
        }
    }

    fn row(&self, i: usize) -> usize {
        if self.backward { self.order - 1 - i } else { i }
    }

    fn load(&self, x: &mut [[T; WIDTH]; N], b: MatRef<'_, T>) {
        if let Some(b) = b.try_as_row_major() {
            let rows = x.iter_mut().enumerate().take(self.order);
            rows.for_each(|(i, x)| x[..b.ncols()].copy_from_slice(b.row(self.row(i)).as_slice()));
            return;
        }
        // By columns: in a transposed matrix they are contiguous, and its rows are far apart.
        for (c, column) in b.col_iter().enumerate() {
            for (i, x) in x.iter_mut().enumerate().take(self.order) {
                x[c] = column[self.row(i)];
            }
        }
    }

    fn store(&self, x: &[[T; WIDTH]; N], mut b: MatMut<'_, T>) {
        let cols = b.ncols();
        if let Some(mut b) = b.as_mut().try_as_row_major_mut() {
            let rows = x.iter().enumerate().take(self.order);
            rows.for_each(|(i, x)| b.as_mut().row_mut(self.row(i)).as_slice_mut().copy_from_slice(&x[..cols]));
            return;
        }
        for (c, mut column) in b.col_iter_mut().enumerate() {
            for (i, x) in x.iter().enumerate().take(self.order) {
                column[self.row(i)] = x[c];
            }
        }
    }
}

/// Forward substitution, two rows at a time, so that every loaded row of `x` serves two updates.
struct Substitute<'a, T, const N: usize> {
    l: &'a [[T; N]; N],
    x: &'a mut [[T; WIDTH]; N],
    n: usize,
}

impl<T: Real, const N: usize> pulp::WithSimd for Substitute<'_, T, N> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let Self { l, x, n } = self;
        for i in (0..n).step_by(2) {
            let (known, rest) = x.split_at_mut(i);
            let ([a, b, ..], [first, second, ..]) = (rest, &l[i..]) else { return };
            let (mut s, mut t) = (*a, *b);
            for ((row, &u), &v) in known.iter().zip(first).zip(second) {
                for c in 0..WIDTH {
                    s[c] = row[c].mul_add(-u, s[c]);
                    t[c] = row[c].mul_add(-v, t[c]);
                }
            }
            for c in 0..WIDTH {
                s[c] /= first[i];
                t[c] = s[c].mul_add(-second[i], t[c]) / second[i + 1];
            }
            (*a, *b) = (s, t);
        }
    }
}
