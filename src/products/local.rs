//! Marginals of a latent function each of whose values depends on a few inducing values only, in one operation.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use super::dense::Kept;
use super::matvec::{coefficients, features, recall};
use super::program::Program;
use crate::error::Result;
use crate::kernels::form::Lowered;
use crate::linalg::Factor;
use crate::linalg::dense::{product, view, view_mut};
use crate::linalg::host::{HostOp, Saved, apply4};
use crate::linalg::real::{dot, into_vec};

/// For every row its neighbours among the inducing inputs: indices, all lists of one length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbours {
    /// The lists one after another.
    pub indices: Vec<u32>,
    /// The length of a list.
    pub each: usize,
}

impl Neighbours {
    /// The neighbours of a row.
    pub fn of(&self, row: usize) -> &[u32] {
        &self.indices[row * self.each..][..self.each]
    }
}

/// For rows `x` lowered from the same kernel as inducing inputs `z` (U of them), `[3b]` in f64: A m_I, diag(A(S_I − K_I)Aᵀ) and
/// KL(N(m_I, S_I) ‖ N(0, K_I)) of each row, with A = k(x, Z_I) K_I⁻¹.
///
/// `q` holds m `[U]` and then S, either its diagonal `[U]` or all of it `[U, U]`. With α = Aᵀ, β = K⁻¹m, γ = K⁻¹Sα and the
/// cotangents s̄, c̄, κ̄ of a row: `m̄ = s̄α + κ̄β`, `S̄ = c̄ααᵀ + ½κ̄(K⁻¹ − S⁻¹)`, `k̄ = s̄β + 2c̄(γ − α)`,
/// `K̄ = −½s̄(αβᵀ + βαᵀ) + c̄(ααᵀ − αγᵀ − γαᵀ) + ½κ̄(K⁻¹ − K⁻¹SK⁻¹ − ββᵀ)`.
pub fn packed(x: &Lowered, z: &Lowered, q: Tensor<1>, neighbours: Arc<Neighbours>) -> Result<Tensor<1>> {
    let op = Local { program: Program::new(x), neighbours };
    apply4(op, features(x), coefficients(x), q, features(z))
}

#[derive(Debug)]
struct Local {
    program: Program,
    neighbours: Arc<Neighbours>,
}

struct Inputs {
    x: Vec<f64>,
    z: Vec<f64>,
    coefficients: Vec<f64>,
    p: usize,
    mean: Vec<f64>,
    covariance: Vec<f64>,
}

/// A row's small matrices.
struct Row {
    /// The row and its neighbours, one below the other.
    joint: Kept<f64>,
    inverse: Vec<f64>,
    log_det: f64,
    mean: Vec<f64>,
    /// S_I, full.
    covariance: Vec<f64>,
    /// α = K⁻¹k.
    weights: Vec<f64>,
    /// β = K⁻¹m.
    solved: Vec<f64>,
    /// k.
    k: Vec<f64>,
}

fn times(matrix: &[f64], vector: &[f64]) -> Vec<f64> {
    matrix.chunks_exact(vector.len()).map(|row| dot(row, vector)).collect()
}

impl Inputs {
    fn is_diagonal(&self) -> bool {
        self.covariance.len() == self.mean.len()
    }

    fn row(&self, i: usize, program: &Program, neighbours: &[u32]) -> Result<Row> {
        let (p, h, u) = (self.p, neighbours.len(), self.mean.len());
        let mut points = self.x[i * p..][..p].to_vec();
        points.extend(neighbours.iter().flat_map(|&j| &self.z[j as usize * p..][..p]));
        let joint = Kept { x1: points, x2: None, coefficients: self.coefficients.clone(), p };
        // One matrix for k and K_I: a call costs more than its few numbers.
        let covariances = joint.matrix(program);
        let k = covariances[1..=h].to_vec();
        let gram = covariances.chunks_exact(h + 1).skip(1).flat_map(|row| &row[1..]).copied().collect();
        let factor = Factor::new(gram, "K_I of a row's neighbours")?;
        let log_det = factor.log_det();
        let mean: Vec<f64> = neighbours.iter().map(|&j| self.mean[j as usize]).collect();
        let mut covariance = vec![0.0; h * h];
        for (a, &i) in neighbours.iter().enumerate() {
            if self.is_diagonal() {
                covariance[a * h + a] = self.covariance[i as usize];
            } else {
                let row = &self.covariance[i as usize * u..][..u];
                covariance[a * h..][..h].iter_mut().zip(neighbours).for_each(|(c, &j)| *c = row[j as usize]);
            }
        }
        let (mut weights, mut solved) = (k.clone(), mean.clone());
        factor.solve(&mut weights)?;
        factor.solve(&mut solved)?;
        let inverse = factor.inverse();
        Ok(Row { joint, inverse, log_det, mean, covariance, weights, solved, k })
    }
}

impl Row {
    /// log|S| and S⁻¹.
    fn spread(&self, diagonal: bool) -> Result<(f64, Vec<f64>)> {
        let h = self.mean.len();
        if !diagonal {
            let factor = Factor::new(self.covariance.clone(), "S_I of a row's neighbours")?;
            return Ok((factor.log_det(), factor.inverse()));
        }
        let mut inverse = vec![0.0; h * h];
        let mut log_det = 0.0;
        for a in 0..h {
            inverse[a * h + a] = self.covariance[a * h + a].recip();
            log_det += self.covariance[a * h + a].ln();
        }
        Ok((log_det, inverse))
    }

    /// A m, diag(A(S − K)Aᵀ) and KL.
    fn value(&self, diagonal: bool) -> Result<[f64; 3]> {
        let spread = times(&self.covariance, &self.weights);
        let change = dot(&self.weights, &spread) - dot(&self.weights, &self.k);
        let trace = dot(&self.inverse, &self.covariance);
        let (log_det, _) = self.spread(diagonal)?;
        let h = self.mean.len() as f64;
        let divergence = 0.5 * (trace + dot(&self.mean, &self.solved) - h + self.log_det - log_det);
        Ok([dot(&self.weights, &self.mean), change, divergence])
    }

    /// Gradients in the row's features, its neighbours' features, the coefficients, m_I and S_I.
    fn pull(&self, program: &Program, diagonal: bool, [s, c, kl]: [f64; 3]) -> Result<[Vec<f64>; 5]> {
        let h = self.mean.len();
        let (alpha, beta, inverse) = (&self.weights, &self.solved, &self.inverse);
        let gamma = times(inverse, &times(&self.covariance, alpha));
        let (mut half, mut both) = (vec![0.0; h * h], vec![0.0; h * h]);
        product::set(view_mut(&mut half, h), view(inverse, h), view(&self.covariance, h), 1.0);
        product::set(view_mut(&mut both, h), view(&half, h), view(inverse, h), 1.0);
        let (_, precision) = self.spread(diagonal)?;
        let in_mean = alpha.iter().zip(beta).map(|(a, b)| s * a + kl * b).collect();
        let (mut in_joint, mut in_covariance) = (vec![0.0; (h + 1) * (h + 1)], vec![0.0; h * h]);
        for a in 0..h {
            let in_k = s * beta[a] + 2.0 * c * (gamma[a] - alpha[a]);
            in_joint[a + 1] = 0.5 * in_k;
            in_joint[(a + 1) * (h + 1)] = 0.5 * in_k;
            for b in 0..h {
                let at = a * h + b;
                in_covariance[at] = c * alpha[a] * alpha[b] + 0.5 * kl * (inverse[at] - precision[at]);
                in_joint[(a + 1) * (h + 1) + b + 1] = -0.5 * s * (alpha[a] * beta[b] + beta[a] * alpha[b])
                    + c * (alpha[a] * alpha[b] - alpha[a] * gamma[b] - gamma[a] * alpha[b])
                    + 0.5 * kl * (inverse[at] - both[at] - beta[a] * beta[b]);
            }
        }
        let mut pulled = self.joint.pull(program, &in_joint);
        let in_z = pulled.x1.split_off(self.joint.p);
        Ok([pulled.x1, in_z, pulled.coefficients, in_mean, in_covariance])
    }
}

impl HostOp<4> for Local {
    fn forward(&self, [x, coefficients, q, z]: [TensorData; 4]) -> Result<(TensorData, Saved)> {
        let ([b, p], u) = ([x.shape()[0], x.shape()[1]], z.shape()[0]);
        let mut mean = into_vec::<f64>(q)?;
        let covariance = mean.split_off(u);
        let inputs =
            Inputs { x: into_vec(x)?, z: into_vec(z)?, coefficients: into_vec(coefficients)?, p, mean, covariance };
        let row = |i| inputs.row(i, &self.program, self.neighbours.of(i))?.value(inputs.is_diagonal());
        let rows: Vec<[f64; 3]> = (0..b).into_par_iter().map(row).collect::<Result<_>>()?;
        let values: Vec<f64> = (0..3).flat_map(|k| rows.iter().map(move |row| row[k])).collect();
        Ok((TensorData::new(values, [3 * b]), Arc::new(inputs)))
    }

    fn adjoint(&self, saved: Saved, grad: TensorData, _needs: [bool; 4]) -> Result<[Option<TensorData>; 4]> {
        let inputs = recall::<Inputs>(saved)?;
        let grad = into_vec::<f64>(grad)?;
        let (b, p, u, h) = (grad.len() / 3, inputs.p, inputs.mean.len(), self.neighbours.each);
        let diagonal = inputs.is_diagonal();
        let row = |i: usize| {
            let row = inputs.row(i, &self.program, self.neighbours.of(i))?;
            row.pull(&self.program, diagonal, [grad[i], grad[b + i], grad[2 * b + i]])
        };
        let rows: Vec<[Vec<f64>; 5]> = (0..b).into_par_iter().map(row).collect::<Result<_>>()?;
        let (mut in_x, mut in_z) = (Vec::with_capacity(b * p), vec![0.0; u * p]);
        let mut in_coefficients = vec![0.0; inputs.coefficients.len()];
        let mut in_q = vec![0.0; u + inputs.covariance.len()];
        // One row after another, so that sums are the same each time.
        for (i, [x, z, coefficients, mean, covariance]) in rows.into_iter().enumerate() {
            in_x.extend(x);
            in_coefficients.iter_mut().zip(&coefficients).for_each(|(total, g)| *total += g);
            let neighbours = self.neighbours.of(i);
            for (a, &j) in neighbours.iter().enumerate() {
                let j = j as usize;
                in_z[j * p..][..p].iter_mut().zip(&z[a * p..]).for_each(|(total, g)| *total += g);
                in_q[j] += mean[a];
                if diagonal {
                    in_q[u + j] += covariance[a * h + a];
                } else {
                    let row = &mut in_q[u + j * u..][..u];
                    neighbours.iter().zip(&covariance[a * h..]).for_each(|(&k, g)| row[k as usize] += g);
                }
            }
        }
        let (length, q) = (in_coefficients.len(), in_q.len());
        Ok([
            Some(TensorData::new(in_x, [b, p])),
            Some(TensorData::new(in_coefficients, [length])),
            Some(TensorData::new(in_q, [q])),
            Some(TensorData::new(in_z, [u, p])),
        ])
    }
}
