//! The matrix `(K + W⁻¹)⁻¹` of a Laplace approximation, computed without `W⁻¹`.

use crate::error::Result;
use crate::linalg::Factor;
use crate::linalg::dense::columns::{column_squares, combine};
use crate::linalg::dense::{product, transpose, view, view_mut};
use crate::solvers::blocks::{dots, scale, scale_rows};

/// The least root of a curvature. Formulas divide by roots, and a product of two is a number still.
const LEAST: f64 = 1e-100;

/// Covariances of the latent functions at n rows: one matrix `[n, n]` for all functions, or one after another for each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gram<'a> {
    values: &'a [f64],
    n: usize,
}

impl<'a> Gram<'a> {
    pub fn new(values: &'a [f64], n: usize) -> Self {
        Self { values, n }
    }

    /// K of a latent function, row-major.
    pub fn of(&self, latent: usize) -> &'a [f64] {
        let square = self.n * self.n;
        let place = latent.min(self.values.len() / square - 1);
        &self.values[place * square..][..square]
    }

    /// `K x` for `x` `[L, n]`.
    pub fn apply(&self, x: &[f64]) -> Vec<f64> {
        x.chunks_exact(self.n).enumerate().flat_map(|(latent, x)| combine(self.of(latent), x)).collect()
    }
}

/// `C = (K + W⁻¹)⁻¹` for the curvature `W` of all rows.
///
/// With `E_l = √d_l B_l⁻¹ √d_l`, `B_l = I + √d_l K_l √d_l`, it is `diag(E_l)` for diagonal curvatures and
/// `E_l δ_lk − E_l M⁻¹E_k`, `M = Σ E_l`, for centred ones (Rasmussen and Williams 2006, eqs. 3.45 and 3.46). The
/// eigenvalues of `B_l` are 1 or more, whatever `d` and `K` are.
#[derive(Debug, Clone)]
pub(super) struct System {
    n: usize,
    /// √d_l `[L][n]`.
    pub roots: Vec<Vec<f64>>,
    /// The factors of B_l.
    pub factors: Vec<Factor<f64>>,
    /// The factor of M, for centred curvatures.
    pub shared: Option<Factor<f64>>,
}

impl System {
    /// For curvatures `d` `[L, n]`.
    pub fn new(gram: Gram, d: &[f64], centred: bool) -> Result<Self> {
        let n = gram.n;
        let root = |d: &f64| d.sqrt().max(LEAST);
        let roots: Vec<Vec<f64>> = d.chunks_exact(n).map(|d| d.iter().map(root).collect()).collect();
        let factor = |(latent, root): (usize, &Vec<f64>)| {
            let mut b = gram.of(latent).to_vec();
            scale(&mut b, root, root);
            b.iter_mut().step_by(n + 1).for_each(|b| *b += 1.0);
            Factor::new(b, "I + W^½ K W^½")
        };
        let factors = roots.iter().enumerate().map(factor).collect::<Result<Vec<_>>>()?;
        let mut system = Self { n, roots, factors, shared: None };
        if centred {
            let mut sum = vec![0.0; n * n];
            for latent in 0..system.roots.len() {
                sum.iter_mut().zip(system.part(latent)).for_each(|(sum, e)| *sum += e);
            }
            system.shared = Some(Factor::new(sum, "the sum of (K + W⁻¹)⁻¹ over classes")?);
        }
        Ok(system)
    }

    fn latents(&self) -> usize {
        self.roots.len()
    }

    /// `B_l⁻¹`, row-major `[n, n]`.
    pub fn inverse(&self, latent: usize) -> Vec<f64> {
        self.factors[latent].clone().inverse()
    }

    /// `ln|I + W K|`.
    pub fn log_det(&self) -> f64 {
        self.factors.iter().chain(&self.shared).map(Factor::log_det).sum()
    }

    /// `C x` for `x` `[L, n]`.
    pub fn apply(&self, x: &[f64]) -> Result<Vec<f64>> {
        let each = |x: &dyn Fn(usize) -> Vec<f64>| -> Result<Vec<Vec<f64>>> {
            let part = |latent| {
                let mut y = x(latent);
                scale_rows(&mut y, &self.roots[latent]);
                self.factors[latent].solve(&mut y)?;
                scale_rows(&mut y, &self.roots[latent]);
                Ok(y)
            };
            (0..self.latents()).map(part).collect()
        };
        let mut y = each(&|latent| x[latent * self.n..][..self.n].to_vec())?.concat();
        if let Some(shared) = &self.shared {
            let mut sum: Vec<f64> = (0..self.n).map(|i| y.iter().skip(i).step_by(self.n).sum()).collect();
            shared.solve(&mut sum)?;
            let taken = each(&|_| sum.clone())?.concat();
            y.iter_mut().zip(taken).for_each(|(y, t)| *y -= t);
        }
        Ok(y)
    }

    /// `(I + W K)⁻¹ b = W^½ B⁻¹ W^-½ b` for diagonal curvatures.
    pub fn solve(&self, b: &[f64]) -> Result<Vec<f64>> {
        let mut all = Vec::with_capacity(b.len());
        for ((b, roots), factor) in b.chunks_exact(self.n).zip(&self.roots).zip(&self.factors) {
            let mut x: Vec<f64> = b.iter().zip(roots).map(|(b, root)| b / root).collect();
            factor.solve(&mut x)?;
            scale_rows(&mut x, roots);
            all.extend(x);
        }
        Ok(all)
    }

    /// `E_l`, row-major `[n, n]`.
    fn part(&self, latent: usize) -> Vec<f64> {
        let mut e = self.inverse(latent);
        scale(&mut e, &self.roots[latent], &self.roots[latent]);
        e
    }

    /// The block of `C` of one latent function, row-major `[n, n]`.
    pub fn block(&self, latent: usize) -> Result<Vec<f64>> {
        let mut block = self.part(latent);
        if let Some(shared) = &self.shared {
            let mut half = block.clone();
            shared.solve_lower(&mut half)?;
            let half = view(&half, self.n);
            product::add_lower(view_mut(&mut block, self.n), half.transpose(), half, -1.0);
            transpose::mirror(view_mut(&mut block, self.n));
        }
        Ok(block)
    }

    /// `L_B⁻¹ √d k` for the covariances `k` `[n, t]` of one latent function's training rows with others.
    pub fn whiten(&self, latent: usize, cross: &[f64]) -> Result<Vec<f64>> {
        let mut white = cross.to_vec();
        scale_rows(&mut white, &self.roots[latent]);
        self.factors[latent].solve_lower(&mut white)?;
        Ok(white)
    }

    /// The part of the prior variances at `t` rows that the data explain, `k*ᵀ C k*` `[t, L, L]`, for covariances
    /// `cross(l)` `[n, t]`.
    pub fn explained<'a>(&self, cross: impl Fn(usize) -> &'a [f64], t: usize) -> Result<Vec<f64>> {
        let latents = self.latents();
        let mut blocks = vec![0.0; t * latents * latents];
        let mut halves = Vec::new();
        for latent in 0..latents {
            let mut white = self.whiten(latent, cross(latent))?;
            for (block, square) in blocks.chunks_exact_mut(latents * latents).zip(column_squares(&white, t)) {
                block[latent * (latents + 1)] = square;
            }
            if let Some(shared) = &self.shared {
                self.factors[latent].solve_lower_transposed(&mut white)?;
                scale_rows(&mut white, &self.roots[latent]);
                shared.solve_lower(&mut white)?;
                halves.push(white);
            }
        }
        for (a, left) in halves.iter().enumerate() {
            for (b, right) in halves[..=a].iter().enumerate() {
                let block = blocks.chunks_exact_mut(latents * latents);
                for (block, shared) in block.zip(dots(left, right, t)) {
                    block[a * latents + b] -= shared;
                    block[b * latents + a] = block[a * latents + b];
                }
            }
        }
        Ok(blocks)
    }
}
