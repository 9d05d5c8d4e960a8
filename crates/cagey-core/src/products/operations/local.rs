//! Marginals of a latent function in one operation, where each value depends on only a few inducing values.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use crate::error::Result;
use crate::kernels::form::Lowered;
use crate::linalg::Factor;
use crate::linalg::dense::{product, view, view_mut};
use crate::linalg::host::{HostOp, Vjp, apply4};
use crate::linalg::real::{dot, into_vec, vector};
use crate::products::drivers::pairs::Sets;
use crate::products::engine::program::Program;
use crate::products::operations::matvec::{coefficients, features};
use crate::threads;

/// For every row, its neighbours among the inducing inputs. Each row has a list of indices; all lists have the same
/// length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbours {
    /// The lists, one after another.
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

/// A m_I, diag(A(S_I − K_I)Aᵀ) and KL(N(m_I, S_I) ‖ N(0, K_I)) of each row, with A = k(x, Z_I) K_I⁻¹: `[3b]` in f64.
/// K_I is the covariance of the inducing inputs, whose diagonal is multiplied by 1 + `nugget`. The rows `x` and the U
/// inducing inputs `z` are lowered from the same kernel.
///
/// `q` holds m `[U]` and then a root of S: either that of a diagonal `[U]`, or R `[U, C]` with S = R Rᵀ, of which only
/// the blocks S_I are computed. With α = Aᵀ, β = K⁻¹m, γ = K⁻¹Sα and the cotangents s̄, c̄, κ̄ of a row:
/// `m̄ = s̄α + κ̄β`, `S̄ = c̄ααᵀ + ½κ̄(K⁻¹ − S⁻¹)`, `R̄ = 2S̄R`, `k̄ = s̄β + 2c̄(γ − α)`,
/// `K̄ = −½s̄(αβᵀ + βαᵀ) + c̄(ααᵀ − αγᵀ − γαᵀ) + ½κ̄(K⁻¹ − K⁻¹SK⁻¹ − ββᵀ)`.
pub fn packed(
    (x, z): (&Lowered, &Lowered),
    q: Tensor<1>,
    neighbours: Arc<Neighbours>,
    nugget: f64,
) -> Result<Tensor<1>> {
    let op = Local { program: Program::new(x), neighbours, nugget };
    apply4(op, features(x), coefficients(x), q, features(z))
}

struct Local {
    program: Program,
    neighbours: Arc<Neighbours>,
    nugget: f64,
}

struct Inputs {
    x: Vec<f64>,
    z: Vec<f64>,
    coefficients: Vec<f64>,
    p: usize,
    mean: Vec<f64>,
    root: Vec<f64>,
    nugget: f64,
}

/// A row's small matrices.
struct Row {
    inverse: Vec<f64>,
    /// The factor of S_I, unless that is diagonal.
    spread: Option<Factor<f64>>,
    mean: Vec<f64>,
    /// S_I, full.
    covariance: Vec<f64>,
    /// α = K⁻¹k.
    weights: Vec<f64>,
    /// β = K⁻¹m.
    solved: Vec<f64>,
}

/// Some rows, each with the features of itself and of its neighbours, one below the other.
struct Neighbourhoods {
    points: Vec<Vec<f64>>,
    rows: Vec<Row>,
}

/// The pairs of a row (point 0) and its neighbours (points 1 to h): each neighbour with the row, with the earlier
/// neighbours and with itself.
fn pairs(h: usize) -> Vec<[usize; 2]> {
    (1..=h).flat_map(|a| (0..=a).map(move |b| [a, b])).collect()
}

fn times(matrix: &[f64], vector: &[f64]) -> Vec<f64> {
    matrix.chunks_exact(vector.len()).map(|row| dot(row, vector)).collect()
}

impl Inputs {
    fn is_diagonal(&self) -> bool {
        self.root.len() == self.mean.len()
    }

    /// The row of R for an inducing value, or its number on the diagonal.
    fn root(&self, j: u32) -> &[f64] {
        let columns = self.root.len() / self.mean.len();
        &self.root[j as usize * columns..][..columns]
    }

    fn points(&self, i: usize, neighbours: &[u32]) -> Vec<f64> {
        let mut points = self.x[i * self.p..][..self.p].to_vec();
        points.extend(neighbours.iter().flat_map(|&j| &self.z[j as usize * self.p..][..self.p]));
        points
    }

    /// R̄ for a row's neighbours, one row below the other, from the symmetric S̄_I.
    fn pull_root(&self, in_covariance: &[f64], neighbours: &[u32]) -> Vec<f64> {
        let h = neighbours.len();
        let mut out = Vec::with_capacity(h * self.root.len() / self.mean.len());
        for (a, &i) in neighbours.iter().enumerate() {
            if self.is_diagonal() {
                out.push(2.0 * in_covariance[a * h + a] * self.root(i)[0]);
                continue;
            }
            let mut sum = vec![0.0; self.root(i).len()];
            for (&j, g) in neighbours.iter().zip(&in_covariance[a * h..]) {
                sum.iter_mut().zip(self.root(j)).for_each(|(sum, r)| *sum += 2.0 * g * r);
            }
            out.append(&mut sum);
        }
        out
    }

    /// A row's matrices, and A m, diag(A(S − K)Aᵀ) and KL, from the covariances of its [`pairs`].
    fn row(&self, pairs: &[[usize; 2]], covariances: &[f64], neighbours: &[u32]) -> Result<(Row, [f64; 3])> {
        let h = neighbours.len();
        let (mut k, mut gram) = (vec![0.0; h], vec![0.0; h * h]);
        for (&[a, b], value) in pairs.iter().zip(covariances) {
            match b {
                0 => k[a - 1] = *value,
                b => {
                    gram[(a - 1) * h + b - 1] = *value;
                    gram[(b - 1) * h + a - 1] = *value;
                }
            }
        }
        gram.iter_mut().step_by(h + 1).for_each(|own| *own *= 1.0 + self.nugget);
        let factor = Factor::new(gram, "K_I of a row's neighbours")?;
        let mean: Vec<f64> = neighbours.iter().map(|&j| self.mean[j as usize]).collect();
        let mut covariance = vec![0.0; h * h];
        for (a, &i) in neighbours.iter().enumerate() {
            let others = if self.is_diagonal() { a..a + 1 } else { 0..a + 1 };
            for b in others {
                let value = dot(self.root(i), self.root(neighbours[b]));
                (covariance[a * h + b], covariance[b * h + a]) = (value, value);
            }
        }
        let (mut weights, mut solved) = (k.clone(), mean.clone());
        factor.solve(&mut weights)?;
        factor.solve(&mut solved)?;
        let (own, inverse) = (factor.log_det(), factor.inverse());
        let (log_det, spread) = match self.is_diagonal() {
            true => (covariance.iter().step_by(h + 1).map(|s| s.ln()).sum(), None),
            false => {
                let spread = Factor::new(covariance.clone(), "S_I of a row's neighbours")?;
                (spread.log_det(), Some(spread))
            }
        };
        let change = dot(&weights, &times(&covariance, &weights)) - dot(&weights, &k);
        let quadratic = dot(&inverse, &covariance) + dot(&mean, &solved) - h as f64;
        let value = [dot(&weights, &mean), change, 0.5 * (quadratic + own - log_det)];
        Ok((Row { inverse, spread, mean, covariance, weights, solved }, value))
    }
}

impl Row {
    /// S⁻¹.
    fn precision(&self) -> Vec<f64> {
        let h = self.mean.len();
        match &self.spread {
            Some(factor) => factor.clone().inverse(),
            None => {
                let mut inverse = vec![0.0; h * h];
                let variances = self.covariance.iter().step_by(h + 1);
                inverse.iter_mut().step_by(h + 1).zip(variances).for_each(|(inverse, s)| *inverse = s.recip());
                inverse
            }
        }
    }

    /// Gradients in the covariances of the row's [`pairs`], in m_I and in S_I.
    fn pull(&self, pairs: &[[usize; 2]], nugget: f64, [s, c, kl]: [f64; 3]) -> [Vec<f64>; 3] {
        let h = self.mean.len();
        let (alpha, beta, inverse) = (&self.weights, &self.solved, &self.inverse);
        let gamma = times(inverse, &times(&self.covariance, alpha));
        let (mut half, mut both) = (vec![0.0; h * h], vec![0.0; h * h]);
        product::set(view_mut(&mut half, h), view(inverse, h), view(&self.covariance, h), 1.0);
        product::set(view_mut(&mut both, h), view(&half, h), view(inverse, h), 1.0);
        let precision = self.precision();
        let in_mean = alpha.iter().zip(beta).map(|(a, b)| s * a + kl * b).collect();
        let mut in_covariance = vec![0.0; h * h];
        for a in 0..h {
            for b in 0..h {
                let at = a * h + b;
                in_covariance[at] = c * alpha[a] * alpha[b] + 0.5 * kl * (inverse[at] - precision[at]);
            }
        }
        let in_gram = |a: usize, b: usize| {
            let at = a * h + b;
            -0.5 * s * (alpha[a] * beta[b] + beta[a] * alpha[b])
                + c * (alpha[a] * alpha[b] - alpha[a] * gamma[b] - gamma[a] * alpha[b])
                + 0.5 * kl * (inverse[at] - both[at] - beta[a] * beta[b])
        };
        let in_pairs = pairs.iter().map(|&[a, b]| match b {
            0 => s * beta[a - 1] + 2.0 * c * (gamma[a - 1] - alpha[a - 1]),
            b if b == a => (1.0 + nugget) * in_gram(a - 1, a - 1),
            b => in_gram(a - 1, b - 1) + in_gram(b - 1, a - 1),
        });
        [in_pairs.collect(), in_mean, in_covariance]
    }
}

impl Local {
    /// Rows of a part: few enough that all threads get some.
    fn part(rows: usize) -> usize {
        rows.div_ceil(threads::parts()).max(1)
    }

    fn sets<'a>(&'a self, inputs: &'a Inputs, points: &'a [Vec<f64>], pairs: &'a [[usize; 2]]) -> Sets<'a, f64> {
        Sets { program: &self.program, coefficients: &inputs.coefficients, points, p: inputs.p, pairs }
    }
}

impl HostOp<4> for Local {
    fn forward(self: Arc<Self>, [x, coefficients, q, z]: [TensorData; 4]) -> Result<(TensorData, Vjp<4>)> {
        let ([b, p], u) = ([x.shape()[0], x.shape()[1]], z.shape()[0]);
        let mut mean = into_vec::<f64>(q)?;
        let root = mean.split_off(u);
        let [x, z, coefficients] = [into_vec(x)?, into_vec(z)?, into_vec(coefficients)?];
        let inputs = Inputs { x, z, coefficients, p, mean, root, nugget: self.nugget };
        let (pairs, size) = (pairs(self.neighbours.each), Self::part(b));
        let part = |first: usize| {
            let rows = first..(first + size).min(b);
            let points: Vec<Vec<f64>> = rows.clone().map(|i| inputs.points(i, self.neighbours.of(i))).collect();
            let covariances = self.sets(&inputs, &points, &pairs).covariances();
            let rows = rows.zip(covariances.chunks_exact(pairs.len()));
            let rows = rows.map(|(i, covariances)| inputs.row(&pairs, covariances, self.neighbours.of(i)));
            let (rows, values): (Vec<Row>, Vec<[f64; 3]>) = rows.collect::<Result<Vec<_>>>()?.into_iter().unzip();
            Ok((Neighbourhoods { points, rows }, values))
        };
        let parts = threads::map((0..b).into_par_iter().step_by(size), part).into_iter().collect::<Result<Vec<_>>>()?;
        let (parts, values): (Vec<Neighbourhoods>, Vec<_>) = parts.into_iter().unzip();
        let rows = || values.iter().flatten();
        let values: Vec<f64> = (0..3).flat_map(|k| rows().map(move |row| row[k])).collect();
        let vjp = move |grad, _needs: [bool; 4]| Ok(self.gradients(&inputs, &parts, size, &into_vec::<f64>(grad)?));
        Ok((vector(values), Box::new(vjp)))
    }
}

impl Local {
    /// Gradients in x, coefficients, q and z; each part except the last has `size` rows.
    fn gradients(
        &self,
        inputs: &Inputs,
        parts: &[Neighbourhoods],
        size: usize,
        grad: &[f64],
    ) -> [Option<TensorData>; 4] {
        let (b, p, u, h) = (grad.len() / 3, inputs.p, inputs.mean.len(), self.neighbours.each);
        let pairs = pairs(h);
        let part = |(k, part): (usize, &Neighbourhoods)| {
            let slopes = |(i, row): (usize, &Row)| {
                let [in_pairs, in_mean, in_covariance] =
                    row.pull(&pairs, self.nugget, [grad[i], grad[b + i], grad[2 * b + i]]);
                [in_pairs, in_mean, inputs.pull_root(&in_covariance, self.neighbours.of(i))]
            };
            let slopes: Vec<[Vec<f64>; 3]> = (k * size..).zip(&part.rows).map(slopes).collect();
            let in_pairs: Vec<f64> = slopes.iter().flat_map(|[in_pairs, ..]| in_pairs).copied().collect();
            let (points, coefficients) = self.sets(inputs, &part.points, &pairs).pull(&in_pairs);
            (slopes, points, coefficients)
        };
        type Slopes = (Vec<[Vec<f64>; 3]>, Vec<Vec<f64>>, Vec<f64>);
        let slopes: Vec<Slopes> = threads::map(parts.par_iter().enumerate(), part);
        let (mut in_x, mut in_z) = (Vec::<f64>::with_capacity(b * p), vec![0.0; u * p]);
        let mut in_coefficients = vec![0.0; inputs.coefficients.len()];
        let mut in_q = vec![0.0; u + inputs.root.len()];
        let columns = inputs.root.len() / u;
        // One part after another, so that sums are reproducible.
        for (k, (rows, points, coefficients)) in slopes.into_iter().enumerate() {
            in_coefficients.iter_mut().zip(&coefficients).for_each(|(total, g)| *total += g);
            for (i, ([_, mean, root], points)) in (k * size..).zip(rows.into_iter().zip(points)) {
                let (x, z) = points.split_at(p);
                in_x.extend(x);
                let neighbours = self.neighbours.of(i);
                for (a, &j) in neighbours.iter().enumerate() {
                    let j = j as usize;
                    in_z[j * p..][..p].iter_mut().zip(&z[a * p..]).for_each(|(total, g)| *total += g);
                    in_q[j] += mean[a];
                    let to = &mut in_q[u + j * columns..][..columns];
                    to.iter_mut().zip(&root[a * columns..]).for_each(|(total, g)| *total += g);
                }
            }
        }
        [
            Some(TensorData::new(in_x, [b, p])),
            Some(vector(in_coefficients)),
            Some(vector(in_q)),
            Some(TensorData::new(in_z, [u, p])),
        ]
    }
}
