//! The span of actions for several latent functions, dense or block-sparse, and products with it.

use burn::tensor::{DType, Tensor};

use super::gram::gram;
use super::products_with;
use crate::device::is_host;
use crate::error::{Error, Result};
use crate::linalg::cholesky;
use crate::models::prior::Prior;
use crate::products::{BlockSparse, diagonal};
use crate::scope::{Scope, to_f64};
use crate::solvers::itergp::Basis;

/// Actions S `[L n, i]`.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "there is one of it; handles of tensors are what is large")]
pub(super) enum Span {
    /// All numbers.
    Dense(Tensor<2>),
    /// Columns with non-zeros only on the rows of one block.
    Blocks {
        /// `[n]` numbers for each latent function.
        blocks: Vec<BlockSparse>,
        /// Whether every latent function has its own columns, function after function.
        apart: bool,
    },
}

impl Span {
    /// K S `[L n, i]`. Dense actions of latent functions that share one covariance need one product.
    pub fn products(&self, priors: &[Prior], scope: &Scope, x: &Tensor<2>) -> Result<Tensor<2>> {
        let n = x.dims()[0];
        let prior = |latent: usize| &priors[latent.min(priors.len() - 1)];
        let each: Vec<Tensor<2>> = match self {
            Self::Dense(s) => {
                let [all, i] = s.dims();
                let latents = all / n;
                if let ([prior], true) = (priors, latents > 1) {
                    let beside = s.clone().reshape([latents, n, i]).swap_dims(0, 1).reshape([n, latents * i]);
                    let products = products_with(prior.covariance(scope, x), &beside)?;
                    return Ok(products.reshape([n, latents, i]).swap_dims(0, 1).reshape([all, i]));
                }
                let part = |l: usize| products_with(prior(l).covariance(scope, x), &s.clone().narrow(0, l * n, n));
                (0..latents).map(part).collect::<Result<_>>()?
            }
            Self::Blocks { blocks, apart } => {
                let part = |(l, own): (usize, &BlockSparse)| {
                    let products = prior(l).covariance(scope, x).times_blocks(own)?;
                    Ok(if *apart { beside(products, l, blocks.len()) } else { products })
                };
                blocks.iter().enumerate().map(part).collect::<Result<_>>()?
            }
        };
        Ok(joined(each, 0))
    }

    /// Block-sparse actions, if each latent function has its own.
    pub fn separate(&self) -> Option<&[BlockSparse]> {
        match self {
            Self::Blocks { blocks, apart } if *apart || blocks.len() == 1 => Some(blocks),
            _ => None,
        }
    }

    /// Block-sparse actions of several latent functions that share them.
    pub fn together(&self) -> Option<&[BlockSparse]> {
        match self {
            Self::Blocks { blocks, apart: false } if blocks.len() > 1 => Some(blocks),
            _ => None,
        }
    }

    /// All non-zeros of block-sparse actions `[L n]`, on the host.
    pub fn values(&self) -> Result<Vec<f64>> {
        match self {
            Self::Dense(s) => to_f64(s.clone()),
            Self::Blocks { blocks, .. } => {
                Ok(blocks.iter().map(|own| to_f64(own.values().clone())).collect::<Result<Vec<_>>>()?.concat())
            }
        }
    }

    /// The columns in the layout of posteriors, `[n, L i]`. The columns of one latent function are consecutive.
    pub fn basis(&self, n: usize) -> Result<Basis> {
        match self {
            Self::Blocks { blocks, .. } if blocks.len() == 1 => Ok(Basis::sparse(blocks[0].clone())),
            Self::Blocks { blocks, apart } => {
                let part = |(l, own): (usize, &BlockSparse)| {
                    let dense = Basis::sparse(own.clone()).into_dense()?;
                    Ok(if *apart { beside(dense, l, blocks.len()) } else { dense })
                };
                let parts = blocks.iter().enumerate().map(part).collect::<Result<_>>()?;
                Ok(Basis::dense(joined(parts, 1)))
            }
            Self::Dense(s) => {
                let parts = (0..s.dims()[0] / n).map(|l| s.clone().narrow(0, l * n, n)).collect();
                Ok(Basis::dense(joined(parts, 1)))
            }
        }
    }

    /// Sᵀ z `[i, t]` for `z` `[L n, t]`.
    pub fn transposed_times(&self, z: &Tensor<2>) -> Result<Tensor<2>> {
        match self {
            Self::Dense(s) => Ok(s.clone().cast(z.dtype()).transpose().matmul(z.clone())),
            Self::Blocks { blocks, apart } => {
                let n = z.dims()[0] / blocks.len();
                let part = |(l, own): (usize, &BlockSparse)| own.transposed_times(&z.clone().narrow(0, l * n, n));
                let parts: Vec<_> = blocks.iter().enumerate().map(part).collect();
                let sum = |parts: Vec<Tensor<2>>| parts.into_iter().reduce(|sum, part| sum + part);
                match apart {
                    true => Ok(joined(parts, 0)),
                    false => sum(parts).ok_or_else(|| Error::Usage("actions of no latent function".into())),
                }
            }
        }
    }

    /// S u `[L n, t]` for `u` `[i, t]`.
    pub fn times(&self, u: Tensor<2>) -> Result<Tensor<2>> {
        match self {
            Self::Dense(s) => Ok(s.clone().cast(u.dtype()).matmul(u)),
            Self::Blocks { blocks, apart } => {
                let part = |(l, own): (usize, &BlockSparse)| {
                    let own_rows = if *apart { u.clone().narrow(0, l * own.len(), own.len()) } else { u.clone() };
                    own.times(own_rows).cast(u.dtype())
                };
                Ok(joined(blocks.iter().enumerate().map(part).collect(), 0))
            }
        }
    }

    /// SᵀKS `[i, i]`, symmetric, for K S `[L n, i]`.
    pub fn gram(&self, ks: &Tensor<2>, wide: DType) -> Result<Tensor<2>> {
        let gram = match self {
            // In one pass on the host, without a copy of K S in f64.
            Self::Blocks { blocks, apart: false } if is_host(&ks.device()) => {
                let values = blocks.iter().map(|blocks| blocks.values().clone()).collect();
                gram(Tensor::cat(values, 0), ks.clone().transpose(), blocks[0].offsets(), wide)?
            }
            _ => self.transposed_times(&ks.clone().cast(wide))?,
        };
        Ok((gram.clone() + gram.transpose()) * 0.5)
    }

    /// SᵀW⁻¹S `[i, i]` for the diagonal of W⁻¹ `[L n, 1]`, and its lower factor.
    pub fn noise(&self, spread: &Tensor<2>) -> Result<[Tensor<2>; 2]> {
        match self {
            Self::Dense(s) => {
                let s = s.clone().cast(spread.dtype());
                let noise = s.clone().transpose().matmul(s * spread.clone());
                Ok([noise.clone(), cholesky(noise, "SᵀW⁻¹S")?])
            }
            Self::Blocks { blocks, .. } => {
                let values = blocks.iter().map(|blocks| blocks.values().clone().cast(spread.dtype())).collect();
                let values: Tensor<2> = Tensor::cat(values, 0).unsqueeze_dim(1);
                Ok(diagonal(self.transposed_times(&(values * spread.clone()))?))
            }
        }
    }
}

/// Columns of one latent function, with zeros for the other functions.
fn beside(columns: Tensor<2>, latent: usize, latents: usize) -> Tensor<2> {
    let zeros = columns.zeros_like();
    joined((0..latents).map(|l| if l == latent { columns.clone() } else { zeros.clone() }).collect(), 1)
}

/// Joins tensors along a dimension.
fn joined(mut parts: Vec<Tensor<2>>, along: usize) -> Tensor<2> {
    if parts.len() == 1 { parts.swap_remove(0) } else { Tensor::cat(parts, along) }
}
