//! Moments of a latent function in one operation, each value given a few noisy observations.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use crate::error::Result;
use crate::kernels::form::Lowered;
use crate::linalg::Factor;
use crate::linalg::host::{HostOp, Vjp, apply4};
use crate::linalg::real::{dot, into_vec, vector};
use crate::products::engine::program::Program;
use crate::products::operations::dense::{Gradients, Operands};
use crate::products::operations::local::Neighbours;
use crate::products::operations::matvec::{coefficients, features};
use crate::threads;

/// αᵀr and −kᵀα of each row, with α = (K + D)⁻¹k: `[2b]` in f64. k and K are the covariances of the row with its
/// neighbours and among them. `observed` holds the residuals r `[n]` of all rows that may be neighbours, then the
/// variances D `[n]` of their noise. The rows `x` and the n others `z` are lowered from the same kernel.
///
/// With β = (K + D)⁻¹r and the cotangents s̄, c̄ of a row: `r̄ = s̄α`, `k̄ = s̄β − 2c̄α`,
/// `K̄ = −½s̄(αβᵀ + βαᵀ) + c̄ααᵀ`, and D̄ is the diagonal of K̄.
pub fn packed((x, z): (&Lowered, &Lowered), observed: Tensor<1>, neighbours: Arc<Neighbours>) -> Result<Tensor<1>> {
    let op = Conditional { program: Program::new(x), neighbours };
    apply4(op, features(x), coefficients(x), observed, features(z))
}

struct Conditional {
    program: Program,
    neighbours: Arc<Neighbours>,
}

struct Inputs {
    x: Vec<f64>,
    z: Vec<f64>,
    coefficients: Vec<f64>,
    p: usize,
    residuals: Vec<f64>,
    noise: Vec<f64>,
}

/// α and β of a row.
struct Row {
    weights: Vec<f64>,
    solved: Vec<f64>,
}

impl Inputs {
    /// A row and its neighbours, one below the other.
    fn points(&self, i: usize, near: &[u32]) -> Operands<f64> {
        let p = self.p;
        let mut x1 = Vec::with_capacity((near.len() + 1) * p);
        x1.extend_from_slice(&self.x[i * p..][..p]);
        near.iter().for_each(|&j| x1.extend_from_slice(&self.z[j as usize * p..][..p]));
        Operands { x1, x2: None, coefficients: self.coefficients.clone(), p }
    }

    fn row(&self, program: &Program, i: usize, near: &[u32]) -> Result<(Row, [f64; 2])> {
        let (all, h) = (self.points(i, near).matrix(program), near.len());
        let k = &all[1..=h];
        let mut gram = Vec::with_capacity(h * h);
        all.chunks_exact(h + 1).skip(1).for_each(|row| gram.extend_from_slice(&row[1..]));
        gram.iter_mut().step_by(h + 1).zip(near).for_each(|(own, &j)| *own += self.noise[j as usize]);
        let factor = Factor::new(gram, "K + σ²I of a row's neighbours")?;
        let mut solved: Vec<f64> = near.iter().map(|&j| self.residuals[j as usize]).collect();
        let mut weights = k.to_vec();
        factor.solve(&mut weights)?;
        let value = [dot(&weights, &solved), -dot(&weights, k)];
        factor.solve(&mut solved)?;
        Ok((Row { weights, solved }, value))
    }
}

impl Row {
    /// The gradient in the covariances of a row and its neighbours `[h + 1, h + 1]`, for the cotangents s̄ and c̄. That
    /// in k is in the first row.
    fn pull(&self, [s, c]: [f64; 2]) -> Vec<f64> {
        let (alpha, beta) = (&self.weights, &self.solved);
        let h = alpha.len();
        let mut grad = vec![0.0; (h + 1) * (h + 1)];
        let (first, rest) = grad.split_at_mut(h + 1);
        let of_k = alpha.iter().zip(beta).map(|(alpha, beta)| s * beta - 2.0 * c * alpha);
        first[1..].iter_mut().zip(of_k).for_each(|(to, g)| *to = g);
        for ((row, a), b) in rest.chunks_exact_mut(h + 1).zip(alpha).zip(beta) {
            let (of_alpha, of_beta) = (c * a - 0.5 * s * b, -0.5 * s * a);
            row[1..].iter_mut().zip(alpha).zip(beta).for_each(|((to, a), b)| *to = of_alpha * a + of_beta * b);
        }
        grad
    }
}

impl HostOp<4> for Conditional {
    fn forward(self: Arc<Self>, [x, coefficients, observed, z]: [TensorData; 4]) -> Result<(TensorData, Vjp<4>)> {
        let ([b, p], n) = ([x.shape()[0], x.shape()[1]], z.shape()[0]);
        let mut residuals = into_vec::<f64>(observed)?;
        let noise = residuals.split_off(n);
        let [x, z, coefficients] = [into_vec(x)?, into_vec(z)?, into_vec(coefficients)?];
        let inputs = Inputs { x, z, coefficients, p, residuals, noise };
        let rows = threads::map((0..b).into_par_iter(), |i| inputs.row(&self.program, i, self.neighbours.of(i)));
        let (rows, values): (Vec<Row>, Vec<[f64; 2]>) =
            rows.into_iter().collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let values: Vec<f64> = (0..2).flat_map(|k| values.iter().map(move |row| row[k])).collect();
        let vjp = move |grad, _needs: [bool; 4]| {
            let grad = into_vec::<f64>(grad)?;
            let pull = |i: usize| {
                let full = rows[i].pull([grad[i], grad[b + i]]);
                let pulled = inputs.points(i, self.neighbours.of(i)).pull(&self.program, &full);
                let own: Vec<f64> = full.into_iter().step_by(self.neighbours.each + 2).skip(1).collect();
                (pulled, own)
            };
            let pulled = threads::map((0..b).into_par_iter(), pull);
            let (mut in_x, mut in_z) = (Vec::<f64>::with_capacity(b * p), vec![0.0; n * p]);
            let (mut in_coefficients, mut in_observed) = (vec![0.0; inputs.coefficients.len()], vec![0.0; 2 * n]);
            // One row after another, so that sums are reproducible.
            for (i, (Gradients { x1, coefficients, .. }, own)) in pulled.into_iter().enumerate() {
                in_coefficients.iter_mut().zip(&coefficients).for_each(|(total, g)| *total += g);
                let (x, z) = x1.split_at(p);
                in_x.extend(x);
                for (a, j) in self.neighbours.of(i).iter().map(|j| *j as usize).enumerate() {
                    in_z[j * p..][..p].iter_mut().zip(&z[a * p..]).for_each(|(total, g)| *total += g);
                    in_observed[j] += grad[i] * rows[i].weights[a];
                    in_observed[n + j] += own[a];
                }
            }
            Ok([
                Some(TensorData::new(in_x, [b, p])),
                Some(vector(in_coefficients)),
                Some(vector(in_observed)),
                Some(TensorData::new(in_z, [n, p])),
            ])
        };
        Ok((vector(values), Box::new(vjp)))
    }
}
