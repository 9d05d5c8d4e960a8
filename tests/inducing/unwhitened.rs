//! Variational models with q of u instead of whitened values v, where u = m(Z) + L v and K_ZZ = L Lᵀ: the model of the
//! library with the same q, and its gradient by the chain rule.

use cagey::linalg::{cholesky, solve_lower};
use cagey::models::svgp::Svgp;
use cagey::scope::{Scope, to_f64};

use crate::F64;

/// q(u − m(Z)) = N(μ, R Rᵀ), the only latent function of a model.
pub struct Unwhitened {
    /// μ `[m]`.
    mean: Vec<f64>,
    /// R, row-major `[m, m]`.
    root: Vec<f64>,
    /// Whether R has only a diagonal.
    diagonal: bool,
    /// The same model with q of v.
    pub whitened: Svgp,
}

/// The rows of a lower triangular matrix up to the diagonal, as a matrix.
fn unpacked(packed: &[f64], m: usize) -> Vec<f64> {
    let entry = |i: usize, j: usize| if j <= i { packed[i * (i + 1) / 2 + j] } else { 0.0 };
    (0..m).flat_map(|i| (0..m).map(move |j| entry(i, j))).collect()
}

fn packed(matrix: &[f64], m: usize) -> Vec<f64> {
    (0..m).flat_map(|i| matrix[i * m..=i * m + i].to_vec()).collect()
}

impl Unwhitened {
    /// Of a model without q, and μ and R: its rows up to the diagonal, or only the diagonal.
    pub fn new(mut model: Svgp, mean: &[f64], root: &[f64]) -> Self {
        let m = mean.len();
        let diagonal = root.len() == m && m > 1;
        let root = match diagonal {
            true => (0..m * m).map(|k| if k % (m + 1) == 0 { root[k / (m + 1)] } else { 0.0 }).collect(),
            false => unpacked(root, m),
        };
        let scope = Scope::new(F64).unwrap();
        let lower = scope.matrix(&model.processes[0].factor(&scope).unwrap(), m, m);
        let solved = |b: &[f64], columns: usize| {
            to_f64(solve_lower(lower.clone(), scope.matrix(b, m, columns)).unwrap()).unwrap()
        };
        model.variational[0].mean.set(&solved(mean, 1)).unwrap();
        model.variational[0].root.set(&packed(&solved(&root, m), m)).unwrap();
        Self { mean: mean.to_vec(), root, diagonal, whitened: model }
    }

    /// The gradient in the free raw values with μ and R, from that of the whitened model.
    pub fn gradient(&self, whitened: &[f64]) -> Vec<f64> {
        let (model, m) = (&self.whitened, self.mean.len());
        let (hyper, q) = whitened.split_at(whitened.len() - m - m * (m + 1) / 2);
        let (of_mean, of_root) = (&q[..m], unpacked(&q[m..], m));
        // v and its root are L⁻¹μ and L⁻¹R, which depend on kernel and Z through L.
        let scope = Scope::training(F64).unwrap();
        let process = &model.processes[0];
        let lower = cholesky(process.prior.covariance(&scope, &process.z(&scope)).matrix_wide().unwrap(), "K").unwrap();
        let pulled = |of: &[f64], adjoint: &[f64], columns: usize| {
            let (of, adjoint) = (scope.matrix(of, m, columns), scope.matrix(adjoint, m, columns));
            (solve_lower(lower.clone(), of).unwrap() * adjoint).sum()
        };
        let loss = pulled(&self.mean, of_mean, 1) + pulled(&self.root, &of_root, m);
        let (_, through) = scope.gradient(loss, model).unwrap();
        let mut all: Vec<f64> = hyper.iter().zip(through).map(|(own, through)| own + through).collect();
        // L⁻ᵀ times the adjoints, by back substitution.
        let lower = process.factor(&Scope::new(F64).unwrap()).unwrap();
        let transposed = |b: &[f64], columns: usize| {
            let mut x = b.to_vec();
            for i in (0..m).rev() {
                for c in 0..columns {
                    let below: f64 = (i + 1..m).map(|k| lower[k * m + i] * x[k * columns + c]).sum();
                    x[i * columns + c] = (x[i * columns + c] - below) / lower[i * m + i];
                }
            }
            x
        };
        all.extend(transposed(of_mean, 1));
        let of_root = transposed(&of_root, m);
        all.extend(if self.diagonal { of_root.into_iter().step_by(m + 1).collect() } else { packed(&of_root, m) });
        all
    }
}
