//! The same results as graphs of tensors, for products that are not fused and for actions of any kind.

use burn::tensor::Tensor;

use super::Explained;
use crate::error::Result;
use crate::linalg::{cholesky, logdet_from_cholesky, solve_lower, solve_lower_transposed};
use crate::products::BlockSparse;

/// What follows from G `[i, i]`, C `[i, i]` with its lower factor, Sᵀt `[i, 1]`, and a function of L `[i, i]` and v
/// `[i, 1]` that gives [`of_rows`](super::of_rows) for `latents` functions. All are in the wide type.
#[doc(hidden)]
pub fn explained(
    gram: Tensor<2>,
    [noise, root]: [Tensor<2>; 2],
    projected: Tensor<2>,
    latents: usize,
    rows: impl FnOnce(Tensor<2>, Tensor<2>) -> Result<Tensor<2>>,
) -> Result<Explained> {
    let i = gram.dims()[0];
    let lower = cholesky(gram.clone() + noise, "SᵀK̂S")?;
    // Any weights define a distribution: with rounding errors, mean and divergence still use the same weights.
    let solved = solve_lower(lower.clone(), Tensor::cat(vec![projected, root.clone()], 1))?;
    let weights = solve_lower_transposed(lower.clone(), solved.clone().narrow(1, 0, 1))?;
    let quadratic = |gram: Tensor<2>, v: Tensor<2>| (gram.matmul(v.clone()) * v).sum();
    let [sizes, terms] = [&gram, &weights].map(|x| x.clone().detach().abs());
    let log_dets = logdet_from_cholesky(lower.clone())? - logdet_from_cholesky(root)?;
    let spreads = solved.narrow(1, 1, i).powi_scalar(2).sum() - i as f64;
    let divergence = quadratic(gram, weights.clone()) + spreads + log_dets;
    let rows = rows(lower, weights)?;
    let part = |start: usize, count: usize| rows.clone().narrow(0, start, count);
    let (mean, variance) = (part(0, latents), part(latents, rows.dims()[0] - latents));
    Ok(Explained { divergence, magnitude: quadratic(sizes, terms), mean, variance })
}

/// [`explained`] for block-sparse S and the variances `spread [n]` of the noise of `targets [n]`.
pub(in crate::products) fn of_blocks(
    blocks: &BlockSparse,
    [targets, spread]: [&Tensor<1>; 2],
    gram: Tensor<2>,
    rows: impl FnOnce(Tensor<2>, Tensor<2>) -> Result<Tensor<2>>,
) -> Result<Explained> {
    let wide = gram.dtype();
    let column = |x: &Tensor<1>| x.clone().cast(wide).unsqueeze_dim(1);
    let noise = diagonal(blocks.transposed_times(&(column(blocks.values()) * column(spread)), wide)?);
    let projected = blocks.transposed_times(&column(targets), wide)?;
    explained(gram, noise, projected, 1, rows)
}

/// The diagonal matrix of some positive numbers `[i, 1]`, and its lower factor.
#[doc(hidden)]
pub fn diagonal(of: Tensor<2>) -> [Tensor<2>; 2] {
    let eye = Tensor::<2>::eye(of.dims()[0], &of.device()).cast(of.dtype());
    [eye.clone() * of.clone(), eye * of.sqrt()]
}

/// [`of_rows`](super::of_rows) for all pairs of functions, in the type of all operands.
pub(super) fn of_rows(sk: Tensor<2>, lower: Tensor<2>, weights: Tensor<2>, latents: usize) -> Result<Tensor<2>> {
    let (i, n) = (sk.dims()[0], sk.dims()[1] / latents);
    let mean = weights.transpose().matmul(sk.clone()).reshape([latents, n]);
    let a = solve_lower(lower, sk)?;
    let sums = if latents == 1 {
        a.powi_scalar(2).sum_dim(0)
    } else {
        let of_rows = a.reshape([i, latents, n]).permute([2, 1, 0]);
        let sums: Tensor<3> = of_rows.clone().matmul(of_rows.swap_dims(1, 2));
        sums.reshape([n, latents * latents]).transpose()
    };
    Ok(Tensor::cat(vec![mean, sums], 0))
}
