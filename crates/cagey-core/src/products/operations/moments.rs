//! Second moments of whitened covariances between few inducing inputs and many rows, accumulated over chunks of rows.
//!
//! They are A Aᵀ and A t for A = L⁻¹ K_ZX diag(s) with K_ZZ = L Lᵀ. If K_ZX Kᵀ_ZX were whitened afterwards, the
//! condition number of K_ZZ would amplify its rounding errors; those of A Aᵀ are amplified only by its root. A thread
//! has one chunk of A at a time. The adjoint computes each chunk again, unless all of them fit the budget. Everything
//! is in f64.

use std::ops::Range;
use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use crate::error::Result;
use crate::kernels::form::Lowered;
use crate::linalg::Factor;
use crate::linalg::dense::{congruence, product, solve, transpose, view, view_mut};
use crate::linalg::host::{HostOp, Vjp, apply4};
use crate::linalg::real::{into_vec, vector};
use crate::products::engine::program::Program;
use crate::products::operations::dense::{Gradients, Operands};
use crate::products::operations::matvec::{coefficients, features};
use crate::threads;

/// A Aᵀ and A t, one after another; `rows [n, 2]` holds s and t. Everything is in f64.
pub fn packed(x: &Lowered, z: &Lowered, rows: &Tensor<2>, budget: usize) -> Result<Tensor<1>> {
    let op = Moments { program: Program::new(x), budget };
    apply4(op, features(x), coefficients(x), rows.clone(), features(z))
}

struct Moments {
    program: Program,
    budget: usize,
}

/// The inputs as given, and results computed from them.
struct SavedMoments {
    x: Vec<f64>,
    s: Vec<f64>,
    t: Vec<f64>,
    gram: Operands<f64>,
    lower: Vec<f64>,
    results: Vec<f64>,
    /// Chunks of rows.
    chunks: Vec<Range<usize>>,
    /// A, chunk by chunk, if all of it fits half of the budget.
    whole: Option<Vec<Vec<f64>>>,
}

/// The most rows of a chunk. With more, its matrices leave the cache, and products do not become faster.
const ROWS: usize = 512;

/// Chunks of `n` rows. Each thread takes one at a time; all threads' K_ZX, A and cotangents together fit half of the
/// budget.
fn cut(n: usize, m: usize, budget: usize) -> Vec<Range<usize>> {
    let rows = (budget / 2 / (24 * m * rayon::current_num_threads())).clamp(1, ROWS);
    let count = n.div_ceil(rows).max(1);
    (0..count).map(|i| n * i / count..n * (i + 1) / count).collect()
}

impl SavedMoments {
    fn m(&self) -> usize {
        self.gram.x1.len() / self.gram.p
    }

    /// The covariances of all inducing inputs with some rows.
    fn part(&self, rows: &Range<usize>) -> Operands<f64> {
        self.gram.with(&self.x[rows.start * self.gram.p..rows.end * self.gram.p])
    }

    /// A for some rows `[m, rows]`; overwrites their covariances.
    fn whiten(&self, mut covariances: Vec<f64>, rows: &Range<usize>) -> Vec<f64> {
        solve::lower(view(&self.lower, self.m()), view_mut(&mut covariances, rows.len()));
        scale(&mut covariances, &self.s[rows.clone()]);
        covariances
    }
}

/// The number of chunks for each thread, if the sums of at most `room` threads fit.
fn share(chunks: usize, room: usize) -> usize {
    chunks.div_ceil(rayon::current_num_threads().min(room).max(1)).max(1)
}

/// Gradients from some chunks.
struct Pulled {
    /// In s and t, side by side.
    in_rows: Vec<f64>,
    /// In the operands of K_ZX: its rows are Z, its columns the chunks' rows of x.
    covariances: Gradients<f64>,
}

impl Pulled {
    /// Joins these gradients with those of the chunks that follow.
    fn join(mut self, next: Self) -> Self {
        let (to, from) = (&mut self.covariances, next.covariances);
        self.in_rows.extend(next.in_rows);
        to.x2.extend(from.x2);
        to.x1.iter_mut().zip(from.x1).for_each(|(to, from)| *to += from);
        to.coefficients.iter_mut().zip(from.coefficients).for_each(|(to, from)| *to += from);
        self
    }
}

/// Multiplies the columns of a matrix by some numbers.
fn scale(matrix: &mut [f64], s: &[f64]) {
    threads::for_each(matrix.par_chunks_mut(s.len()), |row| row.iter_mut().zip(s).for_each(|(v, s)| *v *= s));
}

impl HostOp<4> for Moments {
    fn forward(self: Arc<Self>, [x, coefficients, rows, z]: [TensorData; 4]) -> Result<(TensorData, Vjp<4>)> {
        let p = x.shape()[1];
        let rows = into_vec::<f64>(rows)?;
        let [s, t] = [0, 1].map(|column| rows.iter().skip(column).step_by(2).copied().collect());
        let gram = Operands { x1: into_vec(z)?, x2: None, coefficients: into_vec(coefficients)?, p };
        let lower = Factor::new(gram.matrix(&self.program), "K_ZZ")?.into_buffer();
        let (x, n, m) = (into_vec(x)?, rows.len() / 2, gram.x1.len() / p);
        let mut kept =
            SavedMoments { x, s, t, gram, lower, results: Vec::new(), chunks: cut(n, m, self.budget), whole: None };
        let keep = size_of::<f64>() * n * m <= self.budget / 2;
        let room = self.budget / (size_of::<f64>() * (m * m + m));
        let shares = threads::map(kept.chunks.par_chunks(share(kept.chunks.len(), room)), |chunks| {
            let (mut sums, mut whole) = (vec![0.0; m * m + m], Vec::new());
            let (square, projected) = sums.split_at_mut(m * m);
            for rows in chunks {
                let numbers = kept.whiten(kept.part(rows).matrix(&self.program), rows);
                let (a, t) = (view(&numbers, rows.len()), view(&kept.t[rows.clone()], 1));
                product::add_lower(view_mut(square, m), a, a.transpose(), 1.0);
                product::add(view_mut(projected, 1), a, t, 1.0);
                whole.extend(keep.then_some(numbers));
            }
            (sums, whole)
        });
        let (mut results, mut whole) = (vec![0.0; m * m + m], Vec::new());
        for (sums, part) in shares {
            results.iter_mut().zip(sums).for_each(|(result, sum)| *result += sum);
            whole.extend(part);
        }
        kept.whole = keep.then_some(whole);
        transpose::mirror(view_mut(&mut results[..m * m], m));
        kept.results.clone_from(&results);
        let vjp = move |grad, _needs: [bool; 4]| Ok(self.gradients(&kept, &into_vec::<f64>(grad)?));
        Ok((vector(results), Box::new(vjp)))
    }
}

impl Moments {
    /// With cotangents G and g: Ā = (G + Gᵀ)A + g tᵀ. So Ā Aᵀ = (G + Gᵀ)A Aᵀ + g (A t)ᵀ, from which K̄_ZZ is computed,
    /// needs no rows. K̄_ZX = C diag(s) with C = L⁻ᵀĀ = (L⁻ᵀ(G + Gᵀ))A + (L⁻ᵀg)tᵀ. The gradient in s_j is the product
    /// of K_ZX and C in column j.
    fn gradients(&self, kept: &SavedMoments, grad: &[f64]) -> [Option<TensorData>; 4] {
        let (n, m, p) = (kept.s.len(), kept.m(), kept.gram.p);
        let ((square, projected), (q, b)) = (grad.split_at(m * m), kept.results.split_at(m * m));
        let both: Vec<f64> = (0..m * m).map(|e| square[e] + square[e % m * m + e / m]).collect();
        let lower = view(&kept.lower, m);

        let mut in_gram = vec![0.0; m * m];
        product::add_lower(view_mut(&mut in_gram, m), view(&both, m), view(q, m), -0.5);
        product::add_lower(view_mut(&mut in_gram, m), view(projected, 1), view(b, m), -0.5);
        congruence::whiten_transposed(lower, view_mut(&mut in_gram, m));
        let own = kept.gram.pull(&self.program, &in_gram);

        let (mut spread, mut along) = (both, projected.to_vec());
        solve::upper(lower.transpose(), view_mut(&mut spread, m));
        solve::upper(lower.transpose(), view_mut(&mut along, 1));
        let pull = |(i, rows): &(usize, Range<usize>)| {
            let (part, count) = (kept.part(rows), rows.len());
            let covariances = part.matrix(&self.program);
            let again = kept.whole.is_none().then(|| kept.whiten(covariances.clone(), rows));
            let a = again.as_deref().or(kept.whole.as_ref().map(|whole| whole[*i].as_slice())).unwrap_or_default();
            let mut cotangent = vec![0.0; a.len()];
            product::set(view_mut(&mut cotangent, count), view(&spread, m), view(a, count), 1.0);
            product::add(view_mut(&mut cotangent, count), view(&along, 1), view(&kept.t[rows.clone()], count), 1.0);
            let mut in_rows = vec![0.0; 2 * count];
            let terms = covariances.chunks_exact(count).zip(cotangent.chunks_exact(count)).zip(a.chunks_exact(count));
            for (((k, c), a), g) in terms.zip(projected) {
                for (((out, k), c), a) in in_rows.chunks_exact_mut(2).zip(k).zip(c).zip(a) {
                    out[0] += k * c;
                    out[1] += g * a;
                }
            }
            scale(&mut cotangent, &kept.s[rows.clone()]);
            Pulled { in_rows, covariances: part.pull(&self.program, &cotangent) }
        };
        let chunks: Vec<_> = kept.chunks.iter().cloned().enumerate().collect();
        let share = share(chunks.len(), usize::MAX);
        let shares = threads::map(chunks.par_chunks(share), |chunks| chunks.iter().map(pull).reduce(Pulled::join));
        let start = Pulled { in_rows: Vec::with_capacity(2 * n), covariances: own };
        let Pulled { in_rows, covariances } = shares.into_iter().flatten().fold(start, Pulled::join);
        let Gradients { x1: in_z, x2: in_x, coefficients: in_coefficients } = covariances;
        [
            Some(TensorData::new(in_x, [n, p])),
            Some(vector(in_coefficients)),
            Some(TensorData::new(in_rows, [n, 2])),
            Some(TensorData::new(in_z, [m, p])),
        ]
    }
}
