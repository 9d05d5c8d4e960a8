//! K S as numbers at the current parameters, from which sites are found.

use burn::tensor::Tensor;

use super::small::Small;
use crate::device::transfers;
use crate::error::Result;
use crate::linalg::Factor;
use crate::linalg::real::{into_vec, with_real};
use crate::models::cagp::rows;
use crate::models::cagp::span::Span;
use crate::models::prior::{Prior, repeated};
use crate::products::Prepared;
use crate::scope::{Scope, to_f64};

/// K S of each latent function, or of all together if they share actions and covariance; none unless products are
/// fused.
pub(super) fn prepared(span: &Span, priors: &[Prior], scope: &Scope, x: &Tensor<2>) -> Result<Option<Vec<Prepared>>> {
    if let Some((blocks, prior)) = span.together().zip(only(priors)) {
        return Ok(prior.covariance(scope, x).prepared(blocks)?.map(|all| vec![all]));
    }
    let Some(blocks) = span.separate() else { return Ok(None) };
    let each = blocks.iter().zip(repeated(priors.iter().collect(), blocks.len()));
    each.map(|(blocks, prior)| prior.covariance(scope, x).prepared(std::slice::from_ref(blocks))).collect()
}

/// The prior that all latent functions share.
pub(super) fn only(priors: &[Prior]) -> Option<&Prior> {
    match priors {
        [prior] => Some(prior),
        _ => None,
    }
}

/// K S in any form of storage.
#[expect(clippy::large_enum_variant, reason = "there is one of it; handles of tensors are what is large")]
pub(super) enum Products<'a> {
    /// For each latent function, or for all together.
    Prepared(Vec<Prepared>),
    /// `[L n, i]` on a device, with S.
    Whole(&'a Span, Tensor<2>),
}

impl<'a> Products<'a> {
    /// From actions without gradients.
    pub fn new(span: &'a Span, priors: &[Prior], scope: &Scope, x: &Tensor<2>) -> Result<Self> {
        Ok(match prepared(span, priors, scope, x)? {
            Some(prepared) => Self::Prepared(prepared),
            None => Self::Whole(span, span.products(priors, scope, x)?),
        })
    }

    /// The prepared products, if there are any.
    pub fn into_prepared(self) -> Option<Vec<Prepared>> {
        match self {
            Self::Prepared(prepared) => Some(prepared),
            Self::Whole(..) => None,
        }
    }

    /// SᵀKS `[i, i]`.
    pub fn gram(&self, scope: &Scope) -> Result<Vec<f64>> {
        match self {
            Self::Prepared(prepared) => {
                let sizes: Vec<usize> = prepared.iter().map(|own| own.gram().len().isqrt()).collect();
                let all: usize = sizes.iter().sum();
                let (mut gram, mut start) = (vec![0.0; all * all], 0);
                for (own, size) in prepared.iter().zip(sizes) {
                    for (to, from) in gram.chunks_exact_mut(all).skip(start).zip(own.gram().chunks_exact(size)) {
                        to[start..][..size].copy_from_slice(from);
                    }
                    start += size;
                }
                Ok(gram)
            }
            Self::Whole(span, ks) => to_f64(span.gram(ks, scope.wide())?),
        }
    }

    /// K S a `[L n]`.
    pub fn times(&self, scope: &Scope, weights: &[f64]) -> Result<Vec<f64>> {
        match self {
            Self::Prepared(prepared) => {
                let own = weights.chunks_exact(weights.len() / prepared.len());
                Ok(prepared.iter().zip(own).flat_map(|(prepared, own)| prepared.times(own)).collect())
            }
            Self::Whole(_, ks) => to_f64(ks.clone().matmul(scope.matrix(weights, weights.len(), 1))),
        }
    }

    /// Latent means minus the prior means `[L, n]`, then the explained part of the rows' variances or covariances.
    pub fn told(&self, scope: &Scope, small: &Small, functions: (usize, bool)) -> Result<Vec<f64>> {
        let Small { factor, weights, .. } = small;
        match self {
            Self::Prepared(prepared) => {
                let mut told = self.times(scope, weights)?;
                for (own, factor) in prepared.iter().zip(of_functions(factor, prepared.len())?) {
                    told.extend(own.explained(&factor));
                }
                Ok(told)
            }
            Self::Whole(_, ks) => {
                let lower = factor.clone().lower();
                let sk = transfers::read(ks.clone().transpose())?;
                with_real!(sk.dtype(), T => Ok(rows::of_numbers(&into_vec::<T>(sk)?, &lower, weights, functions)))
            }
        }
    }
}

/// The factors of the single functions, from a factor that does not couple them.
fn of_functions(factor: &Factor<f64>, functions: usize) -> Result<Vec<Factor<f64>>> {
    let all = factor.clone().lower();
    let (order, size) = (factor.order(), factor.order() / functions);
    let own = |l: usize| {
        let rows = all.chunks_exact(order).skip(l * size).take(size);
        Factor::from_lower(rows.flat_map(|row| &row[l * size..][..size]).copied().collect())
    };
    (0..functions).map(own).collect()
}
