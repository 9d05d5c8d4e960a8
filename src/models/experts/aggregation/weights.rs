//! Constant weights of experts from a linear system (Chen and Tuo 2024, section 4).
//!
//! The weights β minimise ‖y − Σ β_i f_i(X)‖² + λ ‖Σ β_i f_i‖²_H if the right-hand side is b_i = Σ_x y f_i(x). This is
//! the normal equation over all rows with λ = σ², the default. The paper's b = diag A gives the same equation only if
//! each f_i is an orthogonal projection in A's inner product. That holds for sparse grids, but not for experts on
//! different rows.

use serde::{Deserialize, Serialize};

use super::Form;
use crate::error::{Error, Result};
use crate::linalg::dense::decompositions::Eigen;
use crate::linalg::dense::{product, view, view_mut};

/// Sums over rows of products of the experts' predictions. Sums over parts of the rows add up.
#[derive(Debug, Clone, PartialEq)]
pub struct WeightSystem {
    /// Σ_x f_i(x) f_j(x), row-major `[M, M]`.
    pub products: Vec<f64>,
    /// Σ_x y f_i(x) `[M]`.
    pub moments: Vec<f64>,
}

impl WeightSystem {
    /// The sums over no rows.
    pub fn new(experts: usize) -> Self {
        Self { products: vec![0.0; experts * experts], moments: vec![0.0; experts] }
    }

    /// Adds rows: means `f`, row-major `[M, r]`, and targets `y [r]`, both less the prior mean.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) when lengths disagree.
    pub fn add(&mut self, f: &[f64], y: &[f64]) -> Result<()> {
        let (m, rows) = (self.moments.len(), y.len());
        if f.len() != m * rows {
            return Err(Error::shape("means of experts", format!("[{m}, {rows}]"), f.len().to_string()));
        }
        product::add(view_mut(&mut self.products, m), view(f, rows), view(f, rows).transpose(), 1.0);
        product::add(view_mut(&mut self.moments, 1), view(f, rows), view(y, 1), 1.0);
        Ok(())
    }

    /// Adds the sums over other rows.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) if the other sums have another number of experts.
    pub fn join(&mut self, other: &Self) -> Result<()> {
        if self.moments.len() != other.moments.len() {
            let [own, got] = [self, other].map(|system| system.moments.len().to_string());
            return Err(Error::shape("weights of experts", own, got));
        }
        self.products.iter_mut().zip(&other.products).for_each(|(sum, more)| *sum += more);
        self.moments.iter_mut().zip(&other.moments).for_each(|(sum, more)| *sum += more);
        Ok(())
    }

    /// A, row-major `[M, M]`, for inner products ⟨f_i, f_j⟩_H `[M, M]`.
    pub fn matrix(&self, inner: &[f64], regularisation: f64) -> Vec<f64> {
        self.products.iter().zip(inner).map(|(sum, inner)| sum + regularisation * inner).collect()
    }

    /// The weights. For exact experts (α_i = K̂_i⁻¹ y_i) the inner products are ⟨f_i, f_j⟩_H = α_iᵀ f_j(X_i), row-major
    /// `[M, M]`; if f_i = k(·, Z) α_i they are α_iᵀ f_j(Z).
    ///
    /// A is scaled to a unit diagonal and decomposed. If several weights predict the same, for example because experts
    /// agree everywhere, the smallest weights are taken. An expert that predicts 0 everywhere gets weight 0.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) when lengths disagree, [`NotFinite`](crate::Error::NotFinite) when A or b is not
    /// finite.
    pub fn solve(&self, form: Form, inner: &[f64], noise: f64) -> Result<Weights> {
        let m = self.moments.len();
        if inner.len() != m * m {
            return Err(Error::shape("inner products of experts", format!("[{m}, {m}]"), inner.len().to_string()));
        }
        let a = self.matrix(inner, noise);
        let b = match form {
            Form::Noise => a.iter().step_by(m + 1).copied().collect(),
            Form::Normal => self.moments.clone(),
        };
        solve(a, b)
    }
}

/// Solves A β = b by the eigenvalues of the scaled A.
fn solve(mut a: Vec<f64>, b: Vec<f64>) -> Result<Weights> {
    let m = b.len();
    if !a.iter().chain(&b).all(|value| value.is_finite()) {
        return Err(Error::NotFinite(format!("the system of the weights of {m} experts")));
    }
    let scale: Vec<f64> = a.iter().step_by(m + 1).map(|d| if *d > 0.0 { 1.0 / d.sqrt() } else { 0.0 }).collect();
    for (i, row) in a.chunks_exact_mut(m.max(1)).enumerate() {
        row.iter_mut().zip(&scale).for_each(|(value, s)| *value *= s * scale[i]);
    }
    let eigen = Eigen::new(&a, m, "the weights of experts")?;
    let largest = eigen.values.iter().copied().fold(0.0, f64::max);
    let mut beta = vec![0.0; m];
    let mut rank = 0;
    for (value, vector) in eigen.pairs() {
        if value > m as f64 * f64::EPSILON * largest {
            rank += 1;
            let along: f64 = vector.iter().zip(&b).zip(&scale).map(|((v, b), s)| v * b * s).sum();
            beta.iter_mut().zip(vector).for_each(|(beta, v)| *beta += along / value * v);
        }
    }
    beta.iter_mut().zip(&scale).for_each(|(beta, s)| *beta *= s);
    let smallest = eigen.values.iter().copied().fold(f64::INFINITY, f64::min);
    let condition = if smallest > 0.0 { largest / smallest } else { f64::INFINITY };
    Ok(Weights { beta, condition, rank })
}

/// Weights, and how well they are determined.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Weights {
    /// β `[M]`.
    pub beta: Vec<f64>,
    /// The condition number of A with a unit diagonal.
    pub condition: f64,
    /// The number of directions of A that are above rounding errors.
    pub rank: usize,
}

/// The largest weight that is not taken for an explosion.
const LARGEST: f64 = 2.0;

impl Weights {
    /// max|β|.
    pub fn largest(&self) -> f64 {
        self.beta.iter().fold(0.0, |largest, beta| f64::max(largest, beta.abs()))
    }

    /// A warning if the weights cannot be trusted: some are above 2 in size, or the condition number is above 1/√ε.
    pub fn warning(&self) -> Option<String> {
        let (largest, condition) = (self.largest(), self.condition);
        let exploded = largest > LARGEST || condition > 1.0 / f64::EPSILON.sqrt();
        exploded.then(|| {
            format!(
                "the weights of experts are poorly determined: the largest is {largest:.3e}, the condition number of \
                 their system {condition:.1e}"
            )
        })
    }
}
