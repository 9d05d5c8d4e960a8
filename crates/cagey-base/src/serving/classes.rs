//! Latent functions that depend on each other given the data: those of classes.
//!
//! With a_l = L_l⁻¹s_l of each function, covariances are δ_lk k** − a_l·a_k if all functions share what explains them,
//! as actions do. About the mode of a softmax they are δ_lk (k** − ‖a_l‖²) + b_l·b_k with b_l = L_M⁻¹ √d_l L_l⁻ᵀ a_l,
//! where M is the sum of (K_l + W_l⁻¹)⁻¹ over classes (Rasmussen and Williams 2006, eq. 3.46).

use serde::{Deserialize, Serialize};

use super::latent::{Latent, Part, ROWS, Ready, dot, solve_packed};
use super::{Find, left, sized};

/// The functions, and what ties them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Classes {
    /// One for each class.
    pub latents: Vec<Latent>,
    /// The array of L_M, its rows up to the diagonal; none if all functions share what explains them.
    pub shared: Option<String>,
}

/// [`Classes`], ready to predict.
#[derive(Debug, Clone)]
pub struct Together {
    d: usize,
    latents: Vec<Ready>,
    shared: Option<Vec<f64>>,
}

impl Classes {
    /// Reads the arrays, for inputs with `d` columns.
    ///
    /// # Errors
    /// What is missing or does not fit.
    pub fn ready(&self, d: usize, array: Find) -> Result<Together, String> {
        let latents = self.latents.iter().map(|latent| latent.ready(d, array)).collect::<Result<Vec<_>, _>>()?;
        let size = latents.first().map(Ready::size).ok_or("lacks its latent functions")?;
        if latents.iter().any(|latent| latent.size() != size) {
            return Err("has latent functions of different sizes".into());
        }
        let shared = self.shared.as_ref().map(|name| sized(array, name, size * (size + 1) / 2)).transpose()?;
        Ok(Together { d, latents, shared })
    }
}

impl Together {
    /// Means `[L]` and covariances `[L, L]` of the functions at each of the rows `x`.
    pub fn moments(&self, x: &[f64]) -> Vec<(Vec<f64>, Vec<f64>)> {
        x.chunks(ROWS * self.d).flat_map(|x| self.chunk(x)).collect()
    }

    fn chunk(&self, x: &[f64]) -> Vec<(Vec<f64>, Vec<f64>)> {
        let rows = x.len() / self.d;
        let each: Vec<(Vec<Part>, Vec<Vec<f64>>)> = (self.latents.iter())
            .map(|latent| {
                let mut solved = Vec::new();
                let parts = latent.parts(x, Some(&mut solved));
                if let Some(shared) = &self.shared {
                    for a in &mut solved {
                        latent.solve_transposed(a);
                        solve_packed(shared, a);
                    }
                }
                (parts, solved)
            })
            .collect();
        let (count, sign) = (each.len(), if self.shared.is_some() { 1.0 } else { -1.0 });
        let of_row = |row: usize| {
            let part = |l: usize| &each[l].0[row];
            let along = |l: usize, k: usize| sign * dot(&each[l].1[row], &each[k].1[row]);
            let covariance = |place: usize| match (place / count, place % count) {
                (l, k) if l != k => along(l, k),
                // All that explains a function of actions is what it shares.
                (l, _) if self.shared.is_none() => part(l).variance(),
                (l, _) => left(part(l).prior, part(l).explained - along(l, l)),
            };
            let mean = (0..count).map(|l| part(l).level + part(l).shift).collect();
            (mean, (0..count * count).map(covariance).collect())
        };
        (0..rows).map(of_row).collect()
    }
}
