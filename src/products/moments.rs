//! Second moments of the covariances between many rows and few inducing inputs, accumulated over chunks of rows.
//!
//! With A = diag(s) K(x, z): AᵀA and Aᵀt. Only a chunk of A exists at a time; the adjoint makes each again. Everything in f64.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use super::dense::Kept;
use super::matvec::{coefficients, features, recall};
use super::program::Program;
use crate::error::Result;
use crate::kernels::form::Lowered;
use crate::linalg::dense::{inverse, product, view, view_mut};
use crate::linalg::host::{HostOp, Saved, apply4};
use crate::linalg::real::into_vec;

/// AᵀA and Aᵀt one after another; `rows [n, 2]` holds s and t, everything is f64.
pub fn packed(x: &Lowered, z: &Lowered, rows: &Tensor<2>, budget: usize) -> Result<Tensor<1>> {
    let op = Moments { program: Program::new(x), budget };
    apply4(op, features(x), coefficients(x), rows.clone(), features(z))
}

#[derive(Debug)]
struct Moments {
    program: Program,
    budget: usize,
}

/// The inputs as they came.
struct Inputs {
    x: Vec<f64>,
    z: Vec<f64>,
    coefficients: Vec<f64>,
    p: usize,
    s: Vec<f64>,
    t: Vec<f64>,
}

/// Most rows of a chunk: more would leave the last cache without making products faster.
const ROWS: usize = 1024;

impl Inputs {
    fn m(&self) -> usize {
        self.z.len() / self.p
    }

    /// Chunks of rows of which two matrices (A and its cotangent) fit the budget.
    fn chunks(&self, budget: usize) -> Vec<std::ops::Range<usize>> {
        let n = self.s.len();
        let rows = (budget / (16 * self.m())).clamp(1, ROWS);
        let count = n.div_ceil(rows).max(1);
        (0..count).map(|i| n * i / count..n * (i + 1) / count).collect()
    }

    /// The covariances of some rows with all inducing inputs.
    fn part(&self, rows: &std::ops::Range<usize>) -> Kept<f64> {
        Kept {
            x1: self.x[rows.start * self.p..rows.end * self.p].to_vec(),
            x2: Some(self.z.clone()),
            coefficients: self.coefficients.clone(),
            p: self.p,
        }
    }

    /// A of some rows.
    fn scaled(&self, part: &Kept<f64>, program: &Program, rows: &std::ops::Range<usize>) -> Vec<f64> {
        let mut a = part.matrix(program);
        a.par_chunks_mut(self.m()).zip(&self.s[rows.clone()]).for_each(|(row, s)| row.iter_mut().for_each(|a| *a *= s));
        a
    }
}

impl HostOp<4> for Moments {
    fn forward(&self, [x, coefficients, rows, z]: [TensorData; 4]) -> Result<(TensorData, Saved)> {
        let p = x.shape()[1];
        let rows = into_vec::<f64>(rows)?;
        let [s, t] = [0, 1].map(|column| rows.iter().skip(column).step_by(2).copied().collect());
        let inputs = Inputs { x: into_vec(x)?, z: into_vec(z)?, coefficients: into_vec(coefficients)?, p, s, t };
        let m = inputs.m();
        let mut results = vec![0.0; m * m + m];
        let (square, projected) = results.split_at_mut(m * m);
        for rows in inputs.chunks(self.budget) {
            let a = inputs.scaled(&inputs.part(&rows), &self.program, &rows);
            let a = view(&a, m);
            product::add_lower(view_mut(square, m), a.transpose(), a, 1.0);
            product::add(view_mut(projected, 1), a.transpose(), view(&inputs.t[rows], 1), 1.0);
        }
        inverse::mirror(view_mut(square, m));
        Ok((TensorData::new(results, [m * m + m]), Arc::new(inputs)))
    }

    fn adjoint(&self, saved: Saved, grad: TensorData, _needs: [bool; 4]) -> Result<[Option<TensorData>; 4]> {
        let inputs = recall::<Inputs>(saved)?;
        let (n, m, p) = (inputs.s.len(), inputs.m(), inputs.p);
        let grad = into_vec::<f64>(grad)?;
        let (square, projected) = grad.split_at(m * m);
        // Ā = A (Ḡ + Ḡᵀ) + t ḡᵀ.
        let both: Vec<f64> = (0..m * m).map(|e| square[e] + square[e % m * m + e / m]).collect();
        let (mut in_x, mut in_z) = (Vec::with_capacity(n * p), vec![0.0; m * p]);
        let mut in_coefficients = vec![0.0; inputs.coefficients.len()];
        let mut in_rows = vec![0.0; 2 * n];
        for rows in inputs.chunks(self.budget) {
            let part = inputs.part(&rows);
            let a = inputs.scaled(&part, &self.program, &rows);
            let mut cotangent = vec![0.0; a.len()];
            product::set(view_mut(&mut cotangent, m), view(&a, m), view(&both, m), 1.0);
            let of_rows = in_rows[2 * rows.start..2 * rows.end].par_chunks_mut(2);
            let numbers = inputs.s[rows.clone()].par_iter().zip(&inputs.t[rows.clone()]);
            cotangent.par_chunks_mut(m).zip(a.par_chunks(m)).zip(of_rows).zip(numbers).for_each(
                |(((cotangent, a), out), (s, t))| {
                    let (mut in_s, mut in_t) = (0.0, 0.0);
                    for ((c, a), g) in cotangent.iter_mut().zip(a).zip(projected) {
                        *c += t * g;
                        in_s += *c * a;
                        in_t += a * g;
                        *c *= s;
                    }
                    out.copy_from_slice(&[in_s / s, in_t]);
                },
            );
            let pulled = part.pull(&self.program, &cotangent);
            in_x.extend(pulled.x1);
            in_z.iter_mut().zip(&pulled.x2).for_each(|(total, g)| *total += g);
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
