//! Products with block-diagonal matrices.

use cagey_base::state_space::MOST;

use super::filter::{Chain, Matrix};
use super::program::STATES;

/// Matrices of at most so many states are multiplied as if they had one block.
pub(super) const FEW: usize = 4;

/// A block-diagonal matrix.
#[derive(Debug, Clone)]
pub(super) struct Banded<const D: usize> {
    /// In each row, the entries of its block; of few states, the whole row.
    rows: [[f64; MOST]; D],
    /// The diagonals, of which the main one is in the middle: entry c of diagonal d is that of row c and column c + d.
    bands: [[f64; D]; 2 * MOST - 1],
}

impl<const D: usize> Banded<D> {
    /// All zeros.
    pub(super) fn zero() -> Self {
        Self { rows: [[0.0; MOST]; D], bands: [[0.0; D]; 2 * MOST - 1] }
    }
}

impl<const D: usize> Chain<'_, D> {
    /// Sets an entry of a block.
    #[inline(always)]
    pub(super) fn set(&self, m: &mut Banded<D>, row: usize, column: usize, value: f64) {
        m.rows[row][column - self.first[row]] = value;
        if D > FEW {
            m.bands[MOST - 1 + column - row][row] = value;
        }
    }

    /// The columns of a row's block, in which the number is known if there are few states.
    #[inline(always)]
    pub(super) fn columns(&self, row: usize) -> (usize, usize) {
        if D <= FEW { (0, D) } else { (self.first[row], self.size[row]) }
    }

    /// B M for block-diagonal B.
    #[inline(always)]
    pub(super) fn left(&self, b: &Banded<D>, m: &Matrix<D>, out: &mut Matrix<D>) {
        for (r, out) in out.iter_mut().enumerate() {
            let (first, size) = self.columns(r);
            let mut sums = [0.0; D];
            for (factor, m) in b.rows[r][..size].iter().zip(&m[first..]) {
                sums.iter_mut().zip(m).for_each(|(sum, m)| *sum += factor * m);
            }
            *out = sums;
        }
    }

    /// M Bᵀ for block-diagonal B.
    #[inline(always)]
    pub(super) fn right(&self, m: &Matrix<D>, b: &Banded<D>, out: &mut Matrix<D>) {
        // Loops of known length for the blocks that most kernels have.
        match self.reach {
            _ if D <= FEW => m.iter().zip(out).for_each(|(m, out)| *out = self.times(b, m)),
            0 | 1 => self.right_by_diagonals(1, m, b, out),
            2 => self.right_by_diagonals(2, m, b, out),
            reach => self.right_by_diagonals(reach, m, b, out),
        }
    }

    /// The diagonals have zeros where they leave the matrix, so it does not matter that entries of the rows before and
    /// after are read there.
    #[inline(always)]
    fn right_by_diagonals(&self, reach: usize, m: &Matrix<D>, b: &Banded<D>, out: &mut Matrix<D>) {
        let all = m.as_flattened();
        for (r, (m, out)) in m.iter().zip(out).enumerate() {
            *out = match (r * D).checked_sub(reach).and_then(|from| all.get(from..from + D + 2 * reach)) {
                Some(window) => diagonals(reach, b, window),
                None => self.times(b, m),
            };
        }
    }

    /// B v for block-diagonal B.
    #[inline(always)]
    pub(super) fn times(&self, b: &Banded<D>, v: &[f64; D]) -> [f64; D] {
        if D <= FEW {
            return std::array::from_fn(|r| b.rows[r].iter().zip(v).map(|(b, v)| b * v).sum());
        }
        let mut padded = [0.0; STATES + 2 * MOST];
        padded[self.reach..self.reach + D].copy_from_slice(v);
        diagonals(self.reach, b, &padded)
    }
}

/// B v for block-diagonal B; before v, the window has `reach` other entries.
#[inline(always)]
fn diagonals<const D: usize>(reach: usize, b: &Banded<D>, window: &[f64]) -> [f64; D] {
    let mut out = [0.0; D];
    for (d, band) in b.bands[MOST - 1 - reach..MOST + reach].iter().enumerate() {
        out.iter_mut().zip(band).zip(&window[d..d + D]).for_each(|((out, b), v)| *out += b * v);
    }
    out
}
