//! K S, for actions of any kind.

use burn::tensor::{DType, Tensor};

use super::evaluation::Evaluation;
use super::gram::gram as sparse_gram;
use super::newton::{Sites, Small};
use super::noisy::Noisy;
use super::rows;
use crate::device::is_host;
use crate::error::Result;
use crate::linalg::{Factor, cholesky};
use crate::products::{BlockSparse, Covariance, Prepared, diagonal, whole};
use crate::scope::{Scope, to_f64};
use crate::solvers::Sparse;
use crate::solvers::itergp::Basis;

/// Columns of a product at once: enough for full speed, but few enough that the work space is small compared with S.
const COLUMNS: usize = 128;

/// K S `[n, i]` of one latent function for dense actions.
fn dense(covariance: Covariance, s: &Tensor<2>) -> Result<Tensor<2>> {
    let i = s.dims()[1];
    let parts =
        (0..i).step_by(COLUMNS).map(|first| covariance.times(&s.clone().narrow(1, first, COLUMNS.min(i - first))));
    Ok(Tensor::cat(parts.collect::<Result<_>>()?, 1))
}

/// K S `[L n, i]`, differentiable.
pub(super) fn times(at: &Evaluation, s: &Basis) -> Result<Tensor<2>> {
    of_functions(s, at.functions.0, at.priors.len() == 1, |latent, part| match part {
        Ok(s) => dense(at.covariance(latent), s),
        Err(blocks) => at.covariance(latent).times_blocks(blocks),
    })
}

/// Products `[L m, i]` with S `[L n, i]`, from those of single latent functions. If the functions share one covariance,
/// dense actions need one product.
pub(super) fn of_functions(
    s: &Basis,
    latents: usize,
    shared: bool,
    product: impl Fn(usize, std::result::Result<&Tensor<2>, &BlockSparse>) -> Result<Tensor<2>>,
) -> Result<Tensor<2>> {
    let columns = |part: std::result::Result<&Tensor<2>, &Sparse>| -> Result<Tensor<2>> {
        let each: Vec<Tensor<2>> = match part {
            Ok(s) => {
                let [all, i] = s.dims();
                let n = all / latents;
                if shared && latents > 1 {
                    let beside = s.clone().reshape([latents, n, i]).swap_dims(0, 1).reshape([n, latents * i]);
                    let products = product(0, Ok(&beside))?;
                    let rows = products.dims()[0];
                    return Ok(products.reshape([rows, latents, i]).swap_dims(0, 1).reshape([latents * rows, i]));
                }
                (0..latents).map(|l| product(l, Ok(&s.clone().narrow(0, l * n, n)))).collect::<Result<_>>()?
            }
            Err(Sparse { blocks, apart }) => {
                let of = |(l, own): (usize, &BlockSparse)| {
                    let products = product(l, Err(own))?;
                    Ok(if *apart { among(products, l, latents) } else { products })
                };
                blocks.iter().enumerate().map(of).collect::<Result<_>>()?
            }
        };
        Ok(joined(each, 0))
    };
    Ok(joined(s.parts().map(columns).collect::<Result<_>>()?, 1))
}

/// Columns of one latent function, with zeros for the other functions.
pub(super) fn among(columns: Tensor<2>, latent: usize, latents: usize) -> Tensor<2> {
    let zeros = columns.zeros_like();
    joined((0..latents).map(|l| if l == latent { columns.clone() } else { zeros.clone() }).collect(), 1)
}

/// Joins tensors along a dimension.
pub(super) fn joined(mut parts: Vec<Tensor<2>>, along: usize) -> Tensor<2> {
    if parts.len() == 1 { parts.swap_remove(0) } else { Tensor::cat(parts, along) }
}

/// SᵀKS `[i, i]`, symmetric, for K S `[L n, i]`.
pub(super) fn gram(s: &Basis, ks: &Tensor<2>, wide: DType) -> Result<Tensor<2>> {
    let gram = match s.single() {
        // In one pass on the host, without a copy of K S in f64.
        Some(Err(Sparse { blocks, apart: false })) if is_host(&ks.device()) => {
            let values = blocks.iter().map(|blocks| blocks.values().clone()).collect();
            sparse_gram(Tensor::cat(values, 0), ks.clone().transpose(), blocks[0].offsets(), wide)?
        }
        _ => s.transposed_times(&ks.clone().cast(wide))?,
    };
    Ok((gram.clone() + gram.transpose()) * 0.5)
}

/// SᵀW⁻¹S `[i, i]` for the diagonal of W⁻¹ `[L n, 1]`, and its lower factor.
pub(super) fn noise(s: &Basis, spread: &Tensor<2>) -> Result<[Tensor<2>; 2]> {
    if let Some(Err(Sparse { blocks, .. })) = s.single() {
        let values = blocks.iter().map(|blocks| blocks.values().clone().cast(spread.dtype())).collect();
        let values: Tensor<2> = Tensor::cat(values, 0).unsqueeze_dim(1);
        return Ok(diagonal(s.transposed_times(&(values * spread.clone()))?));
    }
    let s = s.clone().into_dense()?.cast(spread.dtype());
    let noise = s.clone().transpose().matmul(s * spread.clone());
    Ok([noise.clone(), cholesky(noise, "SᵀW⁻¹S")?])
}

/// K S at the current parameter values, on the host.
pub(super) trait Products {
    /// SᵀKS `[i, i]`.
    fn gram(&self) -> Result<Vec<f64>>;

    /// K S a `[L n]` for weights a `[i]`.
    fn times(&self, weights: &[f64]) -> Result<Vec<f64>>;

    /// Latent means minus the prior means `[L, n]`, then the explained part of the rows' variances or covariances, for
    /// sites and the system there.
    fn rows(&self, sites: &Sites, small: &Small) -> Result<Vec<f64>>;

    /// Hands over products that serve a bound as well, if there are any.
    fn prepared(self: Box<Self>) -> Option<Vec<Prepared>> {
        None
    }
}

impl<'a> Evaluation<'a> {
    /// K S in chunks, for each latent function or for all together, unless the best is to store it as a tensor.
    pub fn in_chunks(&self, s: &'a Basis) -> Result<Option<Box<dyn Products + 'a>>> {
        let Some(Err(sparse)) = s.single() else { return Ok(None) };
        let Sparse { blocks, apart } = sparse;
        let separate = *apart || blocks.len() == 1;
        let fused: Option<Vec<Prepared>> = match separate {
            true => {
                let of = |(l, own)| self.covariance(l).prepared(std::slice::from_ref(own));
                blocks.iter().enumerate().map(of).collect::<Result<_>>()?
            }
            false if self.priors.len() == 1 => self.covariance(0).prepared(blocks)?.map(|all| vec![all]),
            false => None,
        };
        let entries = self.rows().saturating_mul(blocks.len()).saturating_mul(blocks.len() * blocks[0].len());
        // More than a bound stores of it.
        let large = entries.saturating_mul(self.scope.wide().size()) > whole(self.scope.compute().kind);
        Ok(match fused {
            Some(each) => Some(Box::new(Fused(each))),
            None if separate && large => Some(Box::new(Anew { at: *self, blocks })),
            None => None,
        })
    }

    /// K S as a tensor without gradients, of which these are the numbers.
    pub fn stored(&self, s: &'a Basis, ks: Tensor<2>) -> Box<dyn Products + 'a> {
        Box::new(Stored { scope: self.scope, functions: self.functions, s, ks })
    }

    /// K S in the best form.
    pub fn products(&self, s: &'a Basis) -> Result<Box<dyn Products + 'a>> {
        match self.in_chunks(s)? {
            Some(products) => Ok(products),
            None => Ok(self.stored(s, times(self, s)?)),
        }
    }
}

/// Fused products on the CPU, of each latent function with its own actions, or of all together.
struct Fused(Vec<Prepared>);

impl Products for Fused {
    fn gram(&self) -> Result<Vec<f64>> {
        Ok(beside(&self.0.iter().map(Prepared::gram).collect::<Vec<_>>()))
    }

    fn times(&self, weights: &[f64]) -> Result<Vec<f64>> {
        let own = weights.chunks_exact(weights.len() / self.0.len());
        Ok(self.0.iter().zip(own).flat_map(|(prepared, own)| prepared.times(own)).collect())
    }

    fn rows(&self, _sites: &Sites, Small { factor, weights, .. }: &Small) -> Result<Vec<f64>> {
        let mut rows = self.times(weights)?;
        for (own, factor) in self.0.iter().zip(single_factors(factor, self.0.len())?) {
            rows.extend(own.explained(&factor));
        }
        Ok(rows)
    }

    fn prepared(self: Box<Self>) -> Option<Vec<Prepared>> {
        Some(self.0)
    }
}

/// K S `[L n, i]` on a device.
struct Stored<'a> {
    scope: &'a Scope,
    functions: (usize, bool),
    s: &'a Basis,
    ks: Tensor<2>,
}

impl Products for Stored<'_> {
    fn gram(&self) -> Result<Vec<f64>> {
        to_f64(gram(self.s, &self.ks, self.scope.wide())?)
    }

    fn times(&self, weights: &[f64]) -> Result<Vec<f64>> {
        to_f64(self.ks.clone().matmul(self.scope.matrix(weights, weights.len(), 1)))
    }

    fn rows(&self, _sites: &Sites, Small { factor, weights, .. }: &Small) -> Result<Vec<f64>> {
        let (i, wide) = (weights.len(), self.scope.wide());
        let lower = self.scope.matrix_in(&factor.clone().lower(), i, i, wide);
        let weights = self.scope.matrix_in(weights, i, 1, wide);
        to_f64(rows::rows(self.ks.clone().transpose(), lower, weights, self.functions)?)
    }
}

/// Products of each latent function with its own actions, in chunks that every use computes anew.
struct Anew<'a> {
    at: Evaluation<'a>,
    blocks: &'a [BlockSparse],
}

impl Products for Anew<'_> {
    fn gram(&self) -> Result<Vec<f64>> {
        let each = self.blocks.iter().enumerate().map(|(l, own)| to_f64(self.at.covariance(l).projected(own)?));
        let each: Vec<Vec<f64>> = each.collect::<Result<_>>()?;
        Ok(beside(&each.iter().map(Vec::as_slice).collect::<Vec<_>>()))
    }

    fn times(&self, weights: &[f64]) -> Result<Vec<f64>> {
        let own = weights.chunks_exact(weights.len() / self.blocks.len());
        let each = self.blocks.iter().zip(own).enumerate().map(|(l, (blocks, own))| {
            let spread = blocks.times(self.at.scope.matrix(own, own.len(), 1));
            to_f64(self.at.covariance(l).times(&spread)?)
        });
        Ok(each.collect::<Result<Vec<_>>>()?.concat())
    }

    fn rows(&self, sites: &Sites, _small: &Small) -> Result<Vec<f64>> {
        let noisy = Noisy::of(self.at.scope, sites);
        let explained = self.at.explained_apart(self.blocks, None, &noisy)?;
        to_f64(Tensor::cat(vec![explained.mean, explained.variance], 0))
    }
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
fn single_factors(factor: &Factor<f64>, functions: usize) -> Result<Vec<Factor<f64>>> {
    let all = factor.clone().lower();
    let (order, size) = (factor.order(), factor.order() / functions);
    let own = |l: usize| {
        let rows = all.chunks_exact(order).skip(l * size).take(size);
        Factor::from_lower(rows.flat_map(|row| &row[l * size..][..size]).copied().collect())
    };
    (0..functions).map(own).collect()
}
