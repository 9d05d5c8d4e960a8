//! What actions of any kind explain about the rows, from their stored products with K.

use burn::tensor::Tensor;

use super::rows;
use super::span::Span;
use crate::error::Result;
use crate::products::{Explained, from_products};

/// From actions S `[L n, i]`, their products K S, targets `[L n, 1]`, and their noise SᵀW⁻¹S `[i, i]` with its lower
/// factor. `functions` are L and whether a row's latent functions are correlated.
///
/// With `M = Sᵀ(K + W⁻¹)S = L Lᵀ`: `A = L⁻¹SᵀK`, `a = M⁻¹Sᵀ(ŷ − m)`, `q(f) = N(m + K S a, K − AᵀA)`.
pub(super) fn explained(
    (span, ks): (&Span, Tensor<2>),
    targets: &Tensor<2>,
    noise: [Tensor<2>; 2],
    functions: (usize, bool),
) -> Result<Explained> {
    let (gram, projected) = (span.gram(&ks, targets.dtype())?, span.transposed_times(targets)?);
    from_products(gram, noise, projected, functions.0, |lower, weights| {
        rows::rows(ks.transpose(), lower, weights, functions)
    })
}
