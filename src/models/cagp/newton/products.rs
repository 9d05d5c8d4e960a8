//! K S as numbers at the current parameters, from which sites are found.

use burn::tensor::Tensor;

use super::bound;
use super::sites::Sites;
use super::small::Small;
use super::tied::Noisy;
use crate::error::Result;
use crate::linalg::Factor;
use crate::models::cagp::rows;
use crate::models::cagp::span::Span;
use crate::models::prior::{Prior, repeated};
use crate::products::{BlockSparse, Prepared, whole};
use crate::scope::{Scope, to_f64};

/// K S of each latent function, or of all together if they share actions and covariance; none unless products are
/// fused.
pub(super) fn prepared(span: &Span, priors: &[Prior], scope: &Scope, x: &Tensor<2>) -> Result<Option<Vec<Prepared>>> {
    if let Some((blocks, prior)) = span.together().zip(only(priors)) {
        return Ok(prior.covariance(scope, x).prepared(blocks)?.map(|all| vec![all]));
    }
    let Some(blocks) = span.separate() else { return Ok(None) };
    of_each(blocks, priors)
        .map(|(blocks, prior)| prior.covariance(scope, x).prepared(std::slice::from_ref(blocks)))
        .collect()
}

/// The prior that all latent functions share.
pub(super) fn only(priors: &[Prior]) -> Option<&Prior> {
    match priors {
        [prior] => Some(prior),
        _ => None,
    }
}

/// Whether K S takes too much memory to be stored: more than a bound stores of it.
fn too_large(blocks: &[BlockSparse], scope: &Scope, rows: usize) -> bool {
    let columns: usize = blocks.iter().map(BlockSparse::len).sum();
    let entries = rows.saturating_mul(blocks.len()).saturating_mul(columns);
    entries.saturating_mul(scope.wide().size()) > whole(scope.compute().kind)
}

/// K S in any form of storage.
#[expect(clippy::large_enum_variant, reason = "there is one of it; handles of tensors are what is large")]
pub(super) enum Products<'a> {
    /// For each latent function, or for all together.
    Prepared(Vec<Prepared>),
    /// `[L n, i]` on a device, with S.
    Whole(&'a Span, Tensor<2>),
    /// S of each latent function with its own actions. Every use computes products anew, in chunks.
    Anew(&'a [BlockSparse], &'a [Prior], &'a Tensor<2>),
}

impl<'a> Products<'a> {
    /// From actions without gradients.
    pub fn new(span: &'a Span, priors: &'a [Prior], scope: &Scope, x: &'a Tensor<2>) -> Result<Self> {
        match Self::in_chunks(span, priors, scope, x)? {
            Some(products) => Ok(products),
            None => Ok(Self::Whole(span, span.products(priors, scope, x)?)),
        }
    }

    /// The same, unless the best is to store K S as a tensor.
    pub fn in_chunks(span: &'a Span, priors: &'a [Prior], scope: &Scope, x: &'a Tensor<2>) -> Result<Option<Self>> {
        if let Some(prepared) = prepared(span, priors, scope, x)? {
            return Ok(Some(Self::Prepared(prepared)));
        }
        let large = span.separate().filter(|blocks| too_large(blocks, scope, x.dims()[0]));
        Ok(large.map(|blocks| Self::Anew(blocks, priors, x)))
    }

    /// The prepared products, if there are any.
    pub fn into_prepared(self) -> Option<Vec<Prepared>> {
        match self {
            Self::Prepared(prepared) => Some(prepared),
            Self::Whole(..) | Self::Anew(..) => None,
        }
    }

    /// SᵀKS `[i, i]`.
    pub fn gram(&self, scope: &Scope) -> Result<Vec<f64>> {
        match self {
            Self::Prepared(prepared) => Ok(beside(&prepared.iter().map(Prepared::gram).collect::<Vec<_>>())),
            Self::Anew(blocks, priors, x) => {
                let each = of_each(blocks, priors);
                let each = each.map(|(own, prior)| to_f64(prior.covariance(scope, x).projected(own)?));
                let each: Vec<Vec<f64>> = each.collect::<Result<_>>()?;
                Ok(beside(&each.iter().map(Vec::as_slice).collect::<Vec<_>>()))
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
            Self::Anew(blocks, priors, x) => {
                let own = weights.chunks_exact(weights.len() / blocks.len());
                let each = of_each(blocks, priors).zip(own).map(|((blocks, prior), own)| {
                    let spread = blocks.times(scope.matrix(own, own.len(), 1));
                    to_f64(prior.covariance(scope, x).times(&spread)?)
                });
                Ok(each.collect::<Result<Vec<_>>>()?.concat())
            }
        }
    }

    /// Latent means minus the prior means `[L, n]`, then the explained part of the rows' variances or covariances, for
    /// sites and the system there.
    pub fn told(&self, scope: &Scope, (sites, small): (&Sites, &Small), functions: (usize, bool)) -> Result<Vec<f64>> {
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
                let (i, wide) = (weights.len(), scope.wide());
                let lower = scope.matrix_in(&factor.clone().lower(), i, i, wide);
                let weights = scope.matrix_in(weights, i, 1, wide);
                to_f64(rows::rows(ks.clone().transpose(), lower, weights, functions)?)
            }
            Self::Anew(blocks, priors, x) => {
                let told = bound::told_apart(priors, scope, x, (blocks, None), &Noisy::of(scope, sites))?;
                to_f64(Tensor::cat(vec![told.mean, told.variance], 0))
            }
        }
    }
}

/// The actions of each latent function, with its prior.
fn of_each<'a>(blocks: &'a [BlockSparse], priors: &'a [Prior]) -> impl Iterator<Item = (&'a BlockSparse, &'a Prior)> {
    blocks.iter().zip(repeated(priors.iter().collect(), blocks.len()))
}

/// Square matrices along the diagonal of a larger one.
fn beside(each: &[&[f64]]) -> Vec<f64> {
    let sizes: Vec<usize> = each.iter().map(|own| own.len().isqrt()).collect();
    let all: usize = sizes.iter().sum();
    let (mut joined, mut start) = (vec![0.0; all * all], 0);
    for (own, size) in each.iter().zip(sizes) {
        for (to, from) in joined.chunks_exact_mut(all).skip(start).zip(own.chunks_exact(size)) {
            to[start..][..size].copy_from_slice(from);
        }
        start += size;
    }
    joined
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
