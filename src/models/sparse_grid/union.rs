//! The posterior of one sparse model with the points of all grids.

use burn::tensor::Tensor;

use super::{Domain, SparseGrid};
use crate::advice::Advice;
use crate::error::Result;
use crate::models::Observations;
use crate::models::posterior::{InducingPart, Joint, Marginals, Posterior, SavedPosterior};
use crate::models::sgpr::SgprPosterior;

/// The posterior of an [`Sgpr`](crate::models::sgpr::Sgpr) that also says which rows lie outside of its grid.
#[derive(Debug, Clone)]
pub(super) struct UnionPosterior {
    sparse: SgprPosterior,
    domain: Domain,
}

impl UnionPosterior {
    pub fn new(model: &SparseGrid, sparse: SgprPosterior) -> Self {
        Self { sparse, domain: model.domain() }
    }
}

impl Posterior for UnionPosterior {
    fn predict(&self, x: &[f64]) -> Result<Marginals> {
        self.sparse.predict(x)
    }

    fn mean(&self, x: &[f64]) -> Result<Vec<f64>> {
        self.sparse.mean(x)
    }

    fn moments(&self, x: Tensor<2>) -> Result<Option<[Tensor<1>; 2]>> {
        self.sparse.moments(x)
    }

    fn updated(&self, more: &Observations) -> Result<Option<Box<dyn Posterior>>> {
        Ok(Some(Box::new(Self { sparse: self.sparse.condition(more)?, domain: self.domain.clone() })))
    }

    fn predict_joint(&self, x: &[f64]) -> Result<Joint> {
        self.sparse.predict_joint(x)
    }

    fn saved(&self, factor: bool) -> Result<SavedPosterior> {
        self.sparse.saved(factor)
    }

    fn remarks(&self, x: &[f64]) -> Result<Vec<Advice>> {
        Ok(self.domain.remark(x).map(Advice::from).into_iter().collect())
    }

    fn inducing_parts(&self) -> Vec<InducingPart> {
        let inputs = self.sparse.whitened().inducing().to_vec();
        vec![InducingPart { name: "union of the grids".into(), inputs, coefficient: 1.0, technique: 1.0 }]
    }
}
