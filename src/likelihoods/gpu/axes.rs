//! The kernel for eigenvalues and eigenvectors of small symmetric matrices: one cube for each, by the one-sided Jacobi
//! method.

use burn::cubecl;
use burn::cubecl::frontend::{max, min, select};
use burn::cubecl::ir::ElemType;
use burn::cubecl::prelude::*;

use super::functions::size;

/// Units of a cube. Each turns two columns at a time.
pub const UNITS: usize = 16;

/// How often every two columns are turned. In f32 all turns are below rounding after six of these for order 30.
const SWEEPS: usize = 9;

/// Columns whose directions differ from a right angle by less than this are left as they are.
const RIGHT: f32 = 1e-7;

/// For matrices A `[b, n, n]`: eigenvalues, none below 0, in the first row of `[b, n + 1, n]`, and the vectors in the
/// columns below.
///
/// Turns the columns of A V until they are orthogonal. Then those of V are the eigenvectors.
#[cube(launch, address_type = "dynamic")]
pub fn eigen<F: Float>(matrices: &Tensor<F>, out: &mut Tensor<F>, #[comptime] n: usize, #[define(F)] _dtype: ElemType) {
    let unit = UNIT_POS_X as usize;
    let i = min(CUBE_POS_Y as usize * CUBE_COUNT_X as usize + CUBE_POS_X as usize, out.shape(0) - 1);
    // Column after column.
    let mut turned = Shared::<[F]>::new_slice(comptime!(n * n));
    let mut vectors = Shared::<[F]>::new_slice(comptime!(n * n));
    let mut at = unit;
    while at < n * n {
        let (row, column) = (at % n, at / n);
        turned[at] = matrices[i * matrices.stride(0) + row * matrices.stride(1) + column * matrices.stride(2)];
        vectors[at] = select(row == column, F::new(1.0), F::new(0.0));
        at += UNITS;
    }
    // A tournament in which every column meets every other one. If their number is odd, one of them pauses.
    let players = comptime!(n + n % 2);
    for _sweep in 0..SWEEPS {
        for round in 0..comptime!(players - 1) {
            sync_cube();
            let p = (round + unit) % (players - 1);
            let mut q = comptime!(players - 1).runtime();
            if unit > 0 {
                q = (round + players - 1 - unit) % (players - 1);
            }
            if unit < players / 2 && max(p, q) < n {
                let (mut of_p, mut of_q, mut both) = (F::new(0.0), F::new(0.0), F::new(0.0));
                for k in 0..n {
                    let (a, c) = (turned[p * n + k], turned[q * n + k]);
                    of_p += a * a;
                    of_q += c * c;
                    both += a * c;
                }
                if size::<F>(both) > F::new(RIGHT) * of_p.sqrt() * of_q.sqrt() {
                    let ratio = (of_q - of_p) / (F::new(2.0) * both);
                    let length = size::<F>(ratio) + (F::new(1.0) + ratio * ratio).sqrt();
                    let tangent = select(ratio < F::new(0.0), F::new(-1.0), F::new(1.0)) / length;
                    let cosine = F::new(1.0) / (F::new(1.0) + tangent * tangent).sqrt();
                    let sine = cosine * tangent;
                    for k in 0..n {
                        let (a, c) = (turned[p * n + k], turned[q * n + k]);
                        turned[p * n + k] = cosine * a - sine * c;
                        turned[q * n + k] = sine * a + cosine * c;
                        let (a, c) = (vectors[p * n + k], vectors[q * n + k]);
                        vectors[p * n + k] = cosine * a - sine * c;
                        vectors[q * n + k] = sine * a + cosine * c;
                    }
                }
            }
        }
    }
    sync_cube();
    let start = i * (n + 1) * n;
    let mut at = unit;
    while at < n * n {
        let (row, column) = (at % n, at / n);
        out[start + (1 + row) * n + column] = vectors[at];
        if row == 0 {
            let mut value = F::new(0.0);
            for k in 0..n {
                value += vectors[column * n + k] * turned[column * n + k];
            }
            out[start + column] = max(value, F::new(0.0));
        }
        at += UNITS;
    }
}
