//! The two kernels that are not matrix products: Cholesky factorisation and forward substitution of one tile.

use faer::{MatMut, MatRef};

use crate::linalg::real::Real;

/// The order of a diagonal tile.
pub const ORDER: usize = 64;

/// Right-hand sides substituted together: four AVX-512 registers of f64 a row.
const WIDTH: usize = 32;

/// Factors the tile `A = L Lᵀ` in its lower triangle.
///
/// # Errors
/// The index of the first pivot that is not a positive finite number.
pub fn factor<T: Real>(mut a: MatMut<'_, T>) -> Result<(), usize> {
    let n = a.nrows();
    let mut upper = [T::of(0.0); ORDER * ORDER];
    for i in 0..n {
        for j in 0..=i {
            upper[j * ORDER + i] = a[(i, j)];
        }
    }
    pulp::Arch::new().dispatch(FactorUpper { a: &mut upper, n })?;
    for i in 0..n {
        for j in 0..=i {
            a[(i, j)] = upper[j * ORDER + i];
        }
    }
    Ok(())
}

/// `UᵀU = A` in the upper triangle of a row-major tile, right-looking: every update runs along a row.
struct FactorUpper<'a, T> {
    a: &'a mut [T; ORDER * ORDER],
    n: usize,
}

impl<T: Real> pulp::WithSimd for FactorUpper<'_, T> {
    type Output = Result<(), usize>;

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) -> Self::Output {
        let Self { a, n } = self;
        for k in 0..n {
            let (head, tail) = a.split_at_mut((k + 1) * ORDER);
            let row = &mut head[k * ORDER..][..n];
            let pivot = row[k];
            if !(pivot > T::of(0.0) && pivot.is_finite()) {
                return Err(k);
            }
            let root = pivot.sqrt();
            row[k] = root;
            for x in &mut row[k + 1..] {
                *x /= root;
            }
            for (i, other) in tail.chunks_exact_mut(ORDER).take(n - k - 1).enumerate() {
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

/// A triangular tile in the order of its substitution: row-major, lower, padded to [`ORDER`].
pub struct Triangle<T> {
    entries: [T; ORDER * ORDER],
    order: usize,
    backward: bool,
}

impl<T: Real> Triangle<T> {
    /// A lower triangular tile.
    pub fn lower(l: MatRef<'_, T>) -> Self {
        Self::packed(l.nrows(), false, |i, j| l[(i, j)])
    }

    /// An upper triangular tile; its substitution runs backwards.
    pub fn upper(u: MatRef<'_, T>) -> Self {
        let last = u.nrows().saturating_sub(1);
        Self::packed(u.nrows(), true, |i, j| u[(last - i, last - j)])
    }

    fn packed(order: usize, backward: bool, entry: impl Fn(usize, usize) -> T) -> Self {
        let mut entries = [T::of(0.0); ORDER * ORDER];
        for i in 0..order {
            for j in 0..=i {
                entries[i * ORDER + j] = entry(i, j);
            }
        }
        if order < ORDER {
            entries[order * ORDER + order] = T::of(1.0);
        }
        Self { entries, order, backward }
    }

    /// Solves for the right-hand sides in the columns of `b`, in place.
    pub fn solve(&self, b: MatMut<'_, T>) {
        let cols = b.ncols();
        let mut rest = b;
        let mut done = 0;
        let mut x = [[T::of(0.0); WIDTH]; ORDER];
        while done < cols {
            let width = WIDTH.min(cols - done);
            let (mut block, tail) = rest.split_at_col_mut(width);
            self.load(&mut x, block.as_ref());
            pulp::Arch::new().dispatch(Substitute { l: &self.entries, x: &mut x, n: self.order });
            self.store(&x, block.as_mut());
            rest = tail;
            done += width;
        }
    }

    fn row(&self, i: usize) -> usize {
        if self.backward { self.order - 1 - i } else { i }
    }

    fn load(&self, x: &mut [[T; WIDTH]; ORDER], b: MatRef<'_, T>) {
        let rows = x.iter_mut().enumerate().take(self.order);
        if let Some(b) = b.try_as_row_major() {
            rows.for_each(|(i, x)| x[..b.ncols()].copy_from_slice(b.row(self.row(i)).as_slice()));
        } else {
            rows.for_each(|(i, x)| x.iter_mut().zip(b.row(self.row(i)).iter()).for_each(|(x, &b)| *x = b));
        }
    }

    fn store(&self, x: &[[T; WIDTH]; ORDER], mut b: MatMut<'_, T>) {
        let cols = b.ncols();
        let rows = x.iter().enumerate().take(self.order);
        if let Some(mut b) = b.as_mut().try_as_row_major_mut() {
            rows.for_each(|(i, x)| b.as_mut().row_mut(self.row(i)).as_slice_mut().copy_from_slice(&x[..cols]));
        } else {
            rows.for_each(|(i, x)| b.as_mut().row_mut(self.row(i)).iter_mut().zip(x).for_each(|(b, &x)| *b = x));
        }
    }
}

/// Forward substitution, two rows at a time so that every loaded row of `x` serves two updates.
struct Substitute<'a, T> {
    l: &'a [T; ORDER * ORDER],
    x: &'a mut [[T; WIDTH]; ORDER],
    n: usize,
}

impl<T: Real> pulp::WithSimd for Substitute<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let Self { l, x, n } = self;
        for i in (0..n).step_by(2) {
            let (known, rest) = x.split_at_mut(i);
            let [a, b, ..] = rest else { return };
            let (first, second) = l[i * ORDER..][..2 * ORDER].split_at(ORDER);
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
