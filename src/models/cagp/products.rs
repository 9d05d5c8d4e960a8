//! K S, for actions of any kind.

use burn::tensor::{DType, Tensor};

use super::evaluation::{Evaluation, Noisy};
use super::newton::Sites;
use super::numbers::Small;
use crate::error::Result;
use crate::linalg::{Factor, cholesky};
use crate::products::{BlockSparse, Covariance, Prepared, diagonal, of_rows, whole};
use crate::scope::{joined, to_f64};
use crate::solvers::Group;
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
    let (of_dense, of_blocks) = (|l, s: &_| dense(at.covariance(l), s), |l, s: &_| at.covariance(l).times_blocks(s));
    of_functions(s, (at.functions.0, at.priors.len() == 1), of_dense, of_blocks)
}

/// Products `[L m, i]` with S `[L n, i]`, from those of single latent functions with dense columns or blocks. If the
/// functions share one covariance, dense actions need one product.
pub(super) fn of_functions(
    s: &Basis,
    (latents, shared): (usize, bool),
    of_dense: impl Fn(usize, &Tensor<2>) -> Result<Tensor<2>>,
    of_blocks: impl Fn(usize, &BlockSparse) -> Result<Tensor<2>>,
) -> Result<Tensor<2>> {
    let columns = |group: &Group| -> Result<Tensor<2>> {
        let each: Vec<Tensor<2>> = match group {
            Group::Dense(s) => {
                let [all, i] = s.dims();
                let n = all / latents;
                if shared && latents > 1 {
                    let beside = s.clone().reshape([latents, n, i]).swap_dims(0, 1).reshape([n, latents * i]);
                    let products = of_dense(0, &beside)?;
                    let rows = products.dims()[0];
                    return Ok(products.reshape([rows, latents, i]).swap_dims(0, 1).reshape([latents * rows, i]));
                }
                (0..latents).map(|l| of_dense(l, &s.clone().narrow(0, l * n, n))).collect::<Result<_>>()?
            }
            Group::Sparse { blocks, apart } => {
                let of = |(l, own): (usize, &BlockSparse)| {
                    let products = of_blocks(l, own)?;
                    Ok(if *apart { among(products, l, latents) } else { products })
                };
                blocks.iter().enumerate().map(of).collect::<Result<_>>()?
            }
        };
        Ok(joined(each, 0))
    };
    Ok(joined(s.groups().iter().map(columns).collect::<Result<_>>()?, 1))
}

/// Columns of one latent function, with zeros for the other functions.
pub(super) fn among(columns: Tensor<2>, latent: usize, latents: usize) -> Tensor<2> {
    let zeros = columns.zeros_like();
    joined((0..latents).map(|l| if l == latent { columns.clone() } else { zeros.clone() }).collect(), 1)
}

/// SᵀKS `[i, i]`, symmetric, for K S `[L n, i]`.
pub(super) fn gram(s: &Basis, ks: &Tensor<2>, wide: DType) -> Result<Tensor<2>> {
    let gram = s.transposed_times_in(ks, wide)?;
    Ok((gram.clone() + gram.transpose()) * 0.5)
}

/// SᵀW⁻¹S `[i, i]` for the diagonal of W⁻¹ `[L n, 1]`.
pub(super) fn noise(s: &Basis, spread: &Tensor<2>) -> Result<Tensor<2>> {
    if let Some([noise, _]) = noise_of_blocks(s, spread)? {
        return Ok(noise);
    }
    let s = s.clone().into_dense()?.cast(spread.dtype());
    Ok(s.clone().transpose().matmul(s * spread.clone()))
}

/// The same, and its lower factor.
pub(super) fn factored_noise(s: &Basis, spread: &Tensor<2>) -> Result<[Tensor<2>; 2]> {
    if let Some(both) = noise_of_blocks(s, spread)? {
        return Ok(both);
    }
    let noise = noise(s, spread)?;
    Ok([noise.clone(), cholesky(noise, "SᵀW⁻¹S")?])
}

/// The same if actions are block-sparse: both are diagonal.
fn noise_of_blocks(s: &Basis, spread: &Tensor<2>) -> Result<Option<[Tensor<2>; 2]>> {
    let Some(Group::Sparse { blocks, .. }) = s.single() else { return Ok(None) };
    let values = blocks.iter().map(|blocks| blocks.values().clone().cast(spread.dtype())).collect();
    let values: Tensor<2> = Tensor::cat(values, 0).unsqueeze_dim(1);
    Ok(Some(diagonal(s.transposed_times(&(values * spread.clone()))?)))
}

/// K S, in the form that suits the actions and the device.
#[expect(clippy::large_enum_variant, reason = "a step has one")]
pub(super) enum Ks {
    /// Fused products on the CPU, of each latent function with its own actions, or of all together.
    Fused(Vec<Prepared>),
    /// A tensor `[L n, i]`.
    Whole(Tensor<2>),
    /// Not stored: every use computes it anew. As numbers it comes in chunks, of each latent function with its own
    /// actions.
    Anew,
}

impl Ks {
    /// Without storing K S; none where a tensor is the best.
    pub fn in_chunks(at: &Evaluation, s: &Basis) -> Result<Option<Self>> {
        let Some(Group::Sparse { blocks, apart }) = s.single() else { return Ok(None) };
        let separate = *apart || blocks.len() == 1;
        let fused: Option<Vec<Prepared>> = match separate {
            true => {
                let of = |(l, own)| at.covariance(l).prepared(std::slice::from_ref(own));
                blocks.iter().enumerate().map(of).collect::<Result<_>>()?
            }
            false if at.priors.len() == 1 => at.covariance(0).prepared(blocks)?.map(|all| vec![all]),
            false => None,
        };
        let entries = at.rows().saturating_mul(blocks.len()).saturating_mul(blocks.len() * blocks[0].len());
        // More than a bound stores of it.
        let large = entries.saturating_mul(at.scope.wide().size()) > whole(at.scope.compute().kind);
        Ok(fused.map(Self::Fused).or((separate && large).then_some(Self::Anew)))
    }

    /// In the best form.
    pub fn best(at: &Evaluation, s: &Basis) -> Result<Self> {
        match Self::in_chunks(at, s)? {
            Some(ks) => Ok(ks),
            None => Ok(Self::Whole(times(at, s)?)),
        }
    }
}

/// K S at the current parameter values, as numbers.
pub(super) trait Products {
    /// SᵀKS `[i, i]`.
    fn gram(&self) -> Result<Vec<f64>>;

    /// K S a `[L n]` for weights a `[i]`.
    fn times(&self, weights: &[f64]) -> Result<Vec<f64>>;

    /// Latent means minus the prior means `[L, n]`, then the explained part of the rows' variances or covariances, for
    /// sites and the system there.
    fn rows(&self, sites: &Sites, small: &Small) -> Result<Vec<f64>>;
}

/// K S of actions that stay, without gradients.
pub(super) struct OfActions<'a> {
    pub at: Evaluation<'a>,
    pub s: &'a Basis,
    pub ks: &'a Ks,
}

impl OfActions<'_> {
    /// Block-sparse actions of each latent function.
    fn blocks(&self) -> &[BlockSparse] {
        if let Some(Group::Sparse { blocks, .. }) = self.s.single() { blocks } else { &[] }
    }
}

impl Products for OfActions<'_> {
    fn gram(&self) -> Result<Vec<f64>> {
        match self.ks {
            Ks::Fused(each) => Ok(beside(&each.iter().map(Prepared::gram).collect::<Vec<_>>())),
            Ks::Whole(ks) => to_f64(gram(self.s, ks, self.at.scope.wide())?),
            Ks::Anew => {
                let own = |(l, own)| to_f64(self.at.covariance(l).projected(own)?);
                let each: Vec<Vec<f64>> = self.blocks().iter().enumerate().map(own).collect::<Result<_>>()?;
                Ok(beside(&each.iter().map(Vec::as_slice).collect::<Vec<_>>()))
            }
        }
    }

    fn times(&self, weights: &[f64]) -> Result<Vec<f64>> {
        let scope = self.at.scope;
        let own = |functions: usize| weights.chunks_exact(weights.len() / functions);
        match self.ks {
            Ks::Fused(each) => Ok(each.iter().zip(own(each.len())).flat_map(|(ks, own)| ks.times(own)).collect()),
            Ks::Whole(ks) => to_f64(ks.clone().matmul(scope.matrix(weights, weights.len(), 1))),
            Ks::Anew => {
                let each = self.blocks().iter().zip(own(self.blocks().len())).enumerate().map(|(l, (blocks, own))| {
                    to_f64(self.at.covariance(l).times(&blocks.times(scope.matrix(own, own.len(), 1)))?)
                });
                Ok(each.collect::<Result<Vec<_>>>()?.concat())
            }
        }
    }

    fn rows(&self, sites: &Sites, Small { factor, weights, .. }: &Small) -> Result<Vec<f64>> {
        let (scope, i) = (self.at.scope, weights.len());
        match self.ks {
            Ks::Fused(each) => {
                let (mut means, mut variances) = (Vec::new(), Vec::new());
                let own = weights.chunks_exact(i / each.len());
                for ((ks, own), factor) in each.iter().zip(own).zip(single_factors(factor, each.len())?) {
                    let rows = ks.rows(&factor, own);
                    let (mean, variance) = rows.split_at(sites.f.len() / each.len());
                    means.extend_from_slice(mean);
                    variances.extend_from_slice(variance);
                }
                means.extend(variances);
                Ok(means)
            }
            Ks::Whole(ks) => {
                let lower = scope.matrix_in(&factor.clone().lower(), i, i, scope.wide());
                let weights = scope.matrix_in(weights, i, 1, scope.wide());
                to_f64(of_rows(ks.clone().transpose(), lower, weights, self.at.functions)?)
            }
            Ks::Anew => {
                let explained = self.at.explained(self.s, Ks::Anew, &Noisy::of(scope, sites))?;
                to_f64(Tensor::cat(vec![explained.mean, explained.variance], 0))
            }
        }
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
