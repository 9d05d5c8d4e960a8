//! The rows that Newton's method is for, with what is known about them before it.

use burn::tensor::Tensor;

use super::sites::{Sites, of_row};
use crate::error::Result;
use crate::likelihoods::{Density, Row};
use crate::models::prior::{Prior, repeated};
use crate::scope::{Scope, to_f64};

/// How often sites are recomputed from the distribution that they lead to.
const ROUNDS: usize = 3;

/// The smallest variance that remains, as a share of the prior variance.
const LEFT: f64 = 1e-12;

/// Rows with their targets, and the prior means of their latent values.
#[derive(Clone, Copy)]
pub struct Observed<'a> {
    /// The density of targets given latent values f.
    pub density: &'a dyn Density,
    /// The rows.
    pub rows: &'a [Row],
    /// Prior means `[L n]`.
    pub mean: &'a [f64],
}

impl Observed<'_> {
    /// The sites at f `[L n]`.
    pub fn sites(&self, f: Vec<f64>) -> Sites {
        Sites::at(self.density, self.rows, f)
    }

    /// `ln p(y | f)` for f `[L n]`.
    pub fn log_density(&self, f: &[f64]) -> f64 {
        let mut values = Vec::new();
        let of = |(i, row): (usize, &Row)| self.density.log_density(*row, of_row(f, i, self.rows.len(), &mut values));
        self.rows.iter().enumerate().map(of).sum()
    }

    /// f − m for f `[L n]`.
    pub fn above(&self, f: &[f64]) -> Vec<f64> {
        f.iter().zip(self.mean).map(|(f, m)| f - m).collect()
    }

    /// f for f − m `[L n]`.
    pub fn latent(&self, above: &[f64]) -> Vec<f64> {
        above.iter().zip(self.mean).map(|(above, m)| above + m).collect()
    }

    /// Sites averaged over the latent distribution, and the system there, starting from those at its mode. `prior` are
    /// the prior variances `[L n]`. For a system, `tell` gives the latent means minus the prior means `[L, n]`, then
    /// the explained part of the variances `[L, n]`, or for centred likelihoods of the covariances `[L L, n]`. `solve`
    /// gives the system at sites.
    pub fn averaged<S>(
        &self,
        (mut sites, mut system): (Sites, S),
        prior: &[f64],
        tell: impl Fn(&S) -> Result<Vec<f64>>,
        solve: impl Fn(&Sites) -> Result<S>,
    ) -> Result<(Sites, S)> {
        for _ in 0..ROUNDS {
            let told = tell(&system)?;
            let (above, explained) = told.split_at(self.mean.len());
            let spread = left(prior, explained, self.rows.len());
            let next = Sites::expected(self.density, self.rows, self.latent(above), &spread);
            if !next.gradient.iter().chain(&next.curvature).all(|value| value.is_finite()) {
                break;
            }
            (system, sites) = (solve(&next)?, next);
        }
        Ok((sites, system))
    }
}

/// The part that remains of prior variances `[L n]` of n rows, or of the rows' covariances.
fn left(prior: &[f64], explained: &[f64], n: usize) -> Vec<f64> {
    let own = |(prior, explained): (&f64, &f64)| (prior - explained).max(LEFT * prior);
    if explained.len() == prior.len() {
        return prior.iter().zip(explained).map(own).collect();
    }
    let latents = prior.len() / n;
    let mut left: Vec<f64> = explained.iter().map(|explained| -explained).collect();
    for (l, prior) in prior.chunks_exact(n).enumerate() {
        let diagonal = l * (latents + 1) * n..(l * (latents + 1) + 1) * n;
        let each = prior.iter().zip(&explained[diagonal.clone()]).map(own);
        left[diagonal].iter_mut().zip(each).for_each(|(left, own)| *left = own);
    }
    left
}

/// Prior variances `[L n]`.
pub(super) fn variances(priors: &[Prior], scope: &Scope, x: &Tensor<2>, latents: usize) -> Result<Vec<f64>> {
    let each = priors.iter().map(|prior| to_f64(prior.covariance(scope, x).diagonal_wide()?));
    Ok(repeated(each.collect::<Result<_>>()?, latents).concat())
}
