//! The span of the actions, and the small systems in it.

use std::borrow::Cow;

use super::options::Compression;
use super::sites::Sites;
use crate::error::Result;
use crate::linalg::Factor;
use crate::linalg::dense::columns::combine;
use crate::linalg::dense::decompositions::Eigen;
use crate::linalg::dense::{congruence, product, view, view_mut};
use crate::linalg::real::dot;
use crate::models::cagp::numbers::{Numbers, Small};
use crate::models::cagp::products::Products;
use crate::products::of_numbers;

/// Actions and their products with K, `[i, n]`, for n latent values, function after function.
#[derive(Default)]
pub struct Space {
    /// The number of latent values.
    pub n: usize,
    /// The number of latent functions, and whether those of a row are correlated.
    pub functions: (usize, bool),
    /// S.
    pub actions: Vec<f64>,
    /// T = K S.
    pub products: Vec<f64>,
    /// Number of actions taken, including those that compression removed.
    pub taken: usize,
    /// Number of products computed for them.
    pub multiplied: usize,
}

impl Space {
    pub fn len(&self) -> usize {
        self.actions.len() / self.n
    }

    /// S.
    pub fn numbers(&self) -> Numbers<'_> {
        Numbers::Dense(Cow::Borrowed(&self.actions), self.n)
    }

    /// `S u` or `T u`.
    pub fn combined(&self, columns: &[f64], u: &[f64]) -> Vec<f64> {
        if u.is_empty() { vec![0.0; self.n] } else { combine(columns, u) }
    }

    /// `Sᵀ(K + W⁻¹)s`, for the product `t = K s`.
    pub fn crossed(&self, s: &[f64], t: &[f64], sites: &Sites) -> Vec<f64> {
        let product: Vec<f64> = t.iter().zip(sites.spread(s)).map(|(known, noise)| known + noise).collect();
        self.numbers().project(&product)
    }

    /// The system at sites. Needs no product with K.
    pub fn at(&self, sites: &Sites, above: &[f64]) -> Result<Option<Small>> {
        if self.len() == 0 {
            return Ok(None);
        }
        Small::at(&self.numbers(), self.gram()?, sites, above).map(Some)
    }

    /// Removes from `s` and its product `t` the part in the span of the actions, in the metric of M. Returns the
    /// remaining energy of `s`.
    pub fn conjugate(
        &self,
        s: &mut [f64],
        t: &mut [f64],
        small: &Small,
        sites: &Sites,
        energy: &impl Fn(&[f64], &[f64]) -> f64,
    ) -> Result<f64> {
        // Twice, because the first time leaves the rounding errors of large parts.
        for _ in 0..2 {
            let mut u = self.crossed(s, t, sites);
            small.factor.solve(&mut u)?;
            for (column, known) in [(&mut *s, &self.actions), (&mut *t, &self.products)] {
                column.iter_mut().zip(self.combined(known, &u)).for_each(|(c, known)| *c -= known);
            }
        }
        Ok(energy(s, t))
    }

    /// Keeps `count` directions. By information, they are those of the largest eigenvalues of `SᵀKS` against `M`, and
    /// the direction of the mean, which has these weights; otherwise those of the largest eigenvalues of `M` against
    /// `SᵀS`. Returns the mean's new weights.
    pub fn compress(&mut self, small: &Small, weights: &[f64], (count, by): (usize, Compression)) -> Result<Vec<f64>> {
        let i = self.len();
        let (s, informed) = (view(&self.actions, self.n), by == Compression::Information);
        let (factor, mut large, from_eigen) = if informed {
            (small.factor.clone(), self.gram()?, count.max(2) - 1)
        } else {
            let lower = small.factor.clone().lower();
            let [mut squares, mut matrix] = [vec![0.0; i * i], vec![0.0; i * i]];
            product::set(view_mut(&mut squares, i), s, s.transpose(), 1.0);
            product::set(view_mut(&mut matrix, i), view(&lower, i), view(&lower, i).transpose(), 1.0);
            (Factor::new(squares, "SᵀS")?, matrix, count.max(1))
        };
        let lower = factor.clone().lower();
        congruence::whiten(view(&lower, i), view_mut(&mut large, i));
        let eigen = Eigen::new(&large, i, "actions")?;
        // Rows in the metric of M or SᵀS. The largest eigenvalues come last.
        let mut rows: Vec<Vec<f64>> = (0..from_eigen).map(|k| eigen.vector(i - 1 - k).to_vec()).collect();
        let mut mean: Vec<f64> = (0..i).map(|j| (j..i).map(|k| lower[k * i + j] * weights[k]).sum()).collect();
        let (whole, size) = (mean.clone(), dot(&mean, &mean).sqrt());
        for _ in 0..2 {
            for row in &rows {
                let along = dot(row, &mean);
                mean.iter_mut().zip(row).for_each(|(m, r)| *m -= along * r);
            }
        }
        let rest = dot(&mean, &mean).sqrt();
        if informed && rest > f64::EPSILON * size {
            rows.push(mean.into_iter().map(|m| m / rest).collect());
        }
        let kept_weights = rows.iter().map(|row| dot(row, &whole)).collect();
        // U = L⁻ᵀQ, so that UᵀMU or UᵀSᵀSU is I.
        let kept = rows.len();
        let mut turned: Vec<f64> = (0..i * kept).map(|e| rows[e % kept][e / kept]).collect();
        factor.solve_lower_transposed(&mut turned)?;
        for columns in [&mut self.actions, &mut self.products] {
            let mut fewer = vec![0.0; kept * self.n];
            product::set(view_mut(&mut fewer, self.n), view(&turned, kept).transpose(), view(columns, self.n), 1.0);
            *columns = fewer;
        }
        Ok(kept_weights)
    }
}

impl Products for Space {
    fn gram(&self) -> Result<Vec<f64>> {
        let i = self.len();
        let mut gram = vec![0.0; i * i];
        let (s, t) = (view(&self.actions, self.n), view(&self.products, self.n));
        product::set(view_mut(&mut gram, i), s, t.transpose(), 1.0);
        Ok((0..i * i).map(|e| 0.5 * (gram[e] + gram[e % i * i + e / i])).collect())
    }

    fn times(&self, weights: &[f64]) -> Result<Vec<f64>> {
        Ok(self.combined(&self.products, weights))
    }

    fn rows(&self, _sites: &Sites, small: &Small) -> Result<Vec<f64>> {
        Ok(of_numbers(&self.products, &small.factor.clone().lower(), &small.weights, self.functions))
    }
}
