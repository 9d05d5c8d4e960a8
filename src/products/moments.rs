//! Second moments of whitened covariances between few inducing inputs and many rows, accumulated over chunks of rows.
//!
//! With K_ZZ = L Lᵀ and A = L⁻¹ K_ZX diag(s): A Aᵀ and A t. Rounding of K_ZX Kᵀ_ZX, whitened afterwards, would weigh as much as
//! the condition number of K_ZZ and of A Aᵀ only as much as its root. A chunk of A exists at a time; the adjoint makes each again.
//! Everything in f64.

use std::ops::Range;
use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use super::dense::Kept;
use super::matvec::{coefficients, features, recall};
use super::program::Program;
use crate::error::Result;
use crate::kernels::form::Lowered;
use crate::linalg::Factor;
use crate::linalg::dense::{congruence, product, solve, transpose, view, view_mut};
use crate::linalg::host::{HostOp, Saved, apply4};
use crate::linalg::real::{dot, into_vec};

/// A Aᵀ and A t one after another; `rows [n, 2]` holds s and t, everything is f64.
pub fn packed(x: &Lowered, z: &Lowered, rows: &Tensor<2>, budget: usize) -> Result<Tensor<1>> {
    let op = Moments { program: Program::new(x), budget };
    apply4(op, features(x), coefficients(x), rows.clone(), features(z))
}

#[derive(Debug)]
struct Moments {
    program: Program,
    budget: usize,
}

/// The inputs as they came, and what was made of them.
struct State {
    x: Vec<f64>,
    s: Vec<f64>,
    t: Vec<f64>,
    gram: Kept<f64>,
    lower: Vec<f64>,
    results: Vec<f64>,
}

/// Most rows of a chunk: more would leave the last cache without making products faster.
const ROWS: usize = 1024;

impl State {
    fn m(&self) -> usize {
        self.gram.x1.len() / self.gram.p
    }

    /// Chunks of rows of which two matrices (A and its cotangent) fit the budget.
    fn chunks(&self, budget: usize) -> Vec<Range<usize>> {
        let n = self.s.len();
        let rows = (budget / (16 * self.m())).clamp(1, ROWS);
        let count = n.div_ceil(rows).max(1);
        (0..count).map(|i| n * i / count..n * (i + 1) / count).collect()
    }

    /// The covariances of all inducing inputs with some rows.
    fn part(&self, rows: &Range<usize>) -> Kept<f64> {
        let Kept { x1, coefficients, p, .. } = &self.gram;
        let x2 = self.x[rows.start * p..rows.end * p].to_vec();
        Kept { x1: x1.clone(), x2: Some(x2), coefficients: coefficients.clone(), p: *p }
    }

    /// A of some rows `[m, rows]`.
    fn whitened(&self, part: &Kept<f64>, program: &Program, rows: &Range<usize>) -> Vec<f64> {
        let mut a = part.matrix(program);
        solve::lower(view(&self.lower, self.m()), view_mut(&mut a, rows.len()));
        self.scale(&mut a, rows);
        a
    }

    /// Multiplies the columns of some rows by their s.
    fn scale(&self, a: &mut [f64], rows: &Range<usize>) {
        let s = &self.s[rows.clone()];
        a.par_chunks_mut(rows.len()).for_each(|a| a.iter_mut().zip(s).for_each(|(a, s)| *a *= s));
    }
}

impl HostOp<4> for Moments {
    fn forward(&self, [x, coefficients, rows, z]: [TensorData; 4]) -> Result<(TensorData, Saved)> {
        let p = x.shape()[1];
        let rows = into_vec::<f64>(rows)?;
        let [s, t] = [0, 1].map(|column| rows.iter().skip(column).step_by(2).copied().collect());
        let gram = Kept { x1: into_vec(z)?, x2: None, coefficients: into_vec(coefficients)?, p };
        let lower = Factor::new(gram.matrix(&self.program), "K_ZZ")?.into_buffer();
        let mut kept = State { x: into_vec(x)?, s, t, gram, lower, results: Vec::new() };
        let m = kept.m();
        let mut results = vec![0.0; m * m + m];
        let (square, projected) = results.split_at_mut(m * m);
        for rows in kept.chunks(self.budget) {
            let a = kept.whitened(&kept.part(&rows), &self.program, &rows);
            let (a, t) = (view(&a, rows.len()), view(&kept.t[rows.clone()], 1));
            product::add_lower(view_mut(square, m), a, a.transpose(), 1.0);
            product::add(view_mut(projected, 1), a, t, 1.0);
        }
        transpose::mirror(view_mut(square, m));
        kept.results.clone_from(&results);
        Ok((TensorData::new(results, [m * m + m]), Arc::new(kept)))
    }

    /// With cotangents G and g: Ā = (G + Gᵀ)A + g tᵀ, so that Ā Aᵀ = (G + Gᵀ)A Aᵀ + g (A t)ᵀ, of which K̄_ZZ is made, needs no rows.
    fn adjoint(&self, saved: Saved, grad: TensorData, _needs: [bool; 4]) -> Result<[Option<TensorData>; 4]> {
        let kept = recall::<State>(saved)?;
        let (n, m, p) = (kept.s.len(), kept.m(), kept.gram.p);
        let grad = into_vec::<f64>(grad)?;
        let ((square, projected), (q, b)) = (grad.split_at(m * m), kept.results.split_at(m * m));
        let both: Vec<f64> = (0..m * m).map(|e| square[e] + square[e % m * m + e / m]).collect();
        let lower = view(&kept.lower, m);

        let mut in_gram = vec![0.0; m * m];
        product::add_lower(view_mut(&mut in_gram, m), view(&both, m), view(q, m), -0.5);
        product::add_lower(view_mut(&mut in_gram, m), view(projected, 1), view(b, m), -0.5);
        congruence::whiten_transposed(lower, view_mut(&mut in_gram, m));
        let own = kept.gram.pull(&self.program, &in_gram);

        let (mut in_x, mut in_z, mut in_coefficients) = (Vec::with_capacity(n * p), own.x1, own.coefficients);
        let mut in_rows = vec![0.0; 2 * n];
        for rows in kept.chunks(self.budget) {
            let (part, count) = (kept.part(&rows), rows.len());
            let a = kept.whitened(&part, &self.program, &rows);
            let mut cotangent = vec![0.0; a.len()];
            product::set(view_mut(&mut cotangent, count), view(&both, m), view(&a, count), 1.0);
            product::add(view_mut(&mut cotangent, count), view(projected, 1), view(&kept.t[rows.clone()], count), 1.0);
            let transposed = |values: &[f64]| {
                let mut out = vec![0.0; values.len()];
                transpose::transpose_into(view_mut(&mut out, m), view(values, count));
                out
            };
            let (a, along) = (transposed(&a), transposed(&cotangent));
            let of_rows = in_rows[2 * rows.start..2 * rows.end].par_chunks_mut(2);
            of_rows
                .zip(a.par_chunks(m))
                .zip(along.par_chunks(m))
                .zip(&kept.s[rows.clone()])
                .for_each(|(((out, a), along), s)| out.copy_from_slice(&[dot(along, a) / s, dot(a, projected)]));
            kept.scale(&mut cotangent, &rows);
            solve::upper(lower.transpose(), view_mut(&mut cotangent, count));
            let pulled = part.pull(&self.program, &cotangent);
            in_x.extend(pulled.x2);
            in_z.iter_mut().zip(&pulled.x1).for_each(|(total, g)| *total += g);
            in_coefficients.iter_mut().zip(&pulled.coefficients).for_each(|(total, g)| *total += g);
        }
        let length = in_coefficients.len();
        Ok([
            Some(TensorData::new(in_x, [n, p])),
            Some(TensorData::new(in_coefficients, [length])),
            Some(TensorData::new(in_rows, [n, 2])),
            Some(TensorData::new(in_z, [m, p])),
        ])
    }
}
