//! The posterior of a variational GP.

use std::collections::BTreeMap;

use burn::tensor::Tensor;

use crate::error::Result;
use crate::models::functions::{Located, Pathwise};
use crate::models::posterior::{Joint, Marginals, Posterior, several};
use crate::models::whitened::WhitenedPosterior;
use crate::serving::Served;

/// The posterior of an [`Svgp`](super::Svgp).
#[derive(Debug, Clone)]
pub struct SvgpPosterior {
    pub(super) latents: Vec<WhitenedPosterior>,
}

impl SvgpPosterior {
    /// The posteriors of the latent functions. They are independent of each other.
    pub fn latents(&self) -> &[WhitenedPosterior] {
        &self.latents
    }

    fn only(&self) -> Result<&WhitenedPosterior> {
        match self.latents.as_slice() {
            [only] => Ok(only),
            all => several(all.len()),
        }
    }
}

/// For a single latent function, except for [`marginals`](Posterior::marginals). Other methods return an error if there
/// are several latent functions.
impl Posterior for SvgpPosterior {
    fn predict(&self, x: &[f64]) -> Result<Marginals> {
        self.only()?.predict(x)
    }

    fn mean(&self, x: &[f64]) -> Result<Vec<f64>> {
        self.only()?.mean(x)
    }

    fn located(&self, x: Tensor<2>) -> Result<Option<Located>> {
        self.only()?.located(x)
    }

    fn pathwise(&self) -> Result<Option<&dyn Pathwise>> {
        self.only()?.pathwise()
    }

    fn marginals(&self, x: &[f64]) -> Result<Vec<Marginals>> {
        self.latents.iter().map(|latent| latent.predict(x)).collect()
    }

    fn predict_joint(&self, x: &[f64]) -> Result<Joint> {
        self.only()?.predict_joint(x)
    }

    fn served(&self, _factor: bool) -> Result<Served> {
        let mut arrays = BTreeMap::new();
        let each = self.latents.iter().enumerate();
        let latents = each.map(|(l, latent)| latent.latent(&format!("{l}."), &mut arrays)).collect();
        Ok(Served::latents(latents, arrays))
    }

    fn needs_data(&self) -> bool {
        false
    }
}
