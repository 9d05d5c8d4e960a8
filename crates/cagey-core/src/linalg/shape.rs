//! Common parts of the operations: the shapes of their inputs, outputs that adjoints share, the loop over a batch, and
//! gradients in a covariance with noise.

use burn::tensor::TensorData;
use rayon::prelude::*;

use super::dense::clear_upper;
use super::real::{Real, vector};
use crate::error::{Error, Result};
use crate::threads;

fn mismatch(what: &str, expected: impl Into<String>, data: &TensorData) -> Error {
    Error::shape(what, expected, format!("{:?}", &data.shape()[..]))
}

/// The rows and columns (the last two dimensions) of a matrix, or of every matrix of a batch.
pub fn matrices(what: &str, data: &TensorData) -> Result<(usize, usize)> {
    match data.shape()[..] {
        [.., rows, cols] => Ok((rows, cols)),
        _ => Err(mismatch(what, "a matrix", data)),
    }
}

/// The order of a square matrix, or of every matrix of a batch.
pub fn square(what: &str, data: &TensorData) -> Result<usize> {
    match matrices(what, data)? {
        (n, m) if n == m => Ok(n),
        _ => Err(mismatch(what, "a square matrix", data)),
    }
}

/// Checks a shape.
pub fn expect(what: &str, data: &TensorData, shape: &[usize]) -> Result<()> {
    if data.shape()[..] == *shape { Ok(()) } else { Err(mismatch(what, format!("{shape:?}"), data)) }
}

/// An output, and a second handle to the same memory for the adjoint; copied only if somebody writes to it.
pub fn share(data: TensorData) -> (TensorData, TensorData) {
    let (bytes, shape, dtype) = data.into_parts();
    let bytes = bytes.shared();
    let share = |bytes| TensorData::from_bytes(bytes, shape.clone(), dtype);
    (share(bytes.clone()), share(bytes))
}

/// The numbers of a shared output.
pub fn numbers<T: Real>(data: &TensorData) -> Result<&[T]> {
    data.as_slice().map_err(|e| Error::Device(format!("expected {} values: {e:?}", T::NAME)))
}

/// Applies `f` to every chunk of `size` numbers, in parallel if there are several.
pub fn each<T: Real, R: Send>(batch: &mut [T], size: usize, f: impl Fn(usize, &mut [T]) -> R + Sync) -> Vec<R> {
    if batch.len() <= size {
        return vec![f(0, batch)];
    }
    threads::map(batch.par_chunks_mut(size.max(1)).enumerate(), |(i, matrix)| f(i, matrix))
}

/// Zeroes the strict upper triangles of a batch of matrices of order `n`.
pub fn clear_uppers<T: Real>(batch: &mut [T], n: usize) {
    each(batch, n * n, |_, matrix| clear_upper(matrix, n));
}

/// What an adjoint gives for a covariance matrix `[n, n]` and for noise on its diagonal `[n]`, if `needs` has either.
pub fn with_diagonal<T: Real>(needs: [bool; 2], n: usize, matrix: impl FnOnce() -> Vec<T>) -> [Option<TensorData>; 2] {
    if needs == [false; 2] {
        return [None, None];
    }
    let full = matrix();
    let noise = needs[1].then(|| vector(full.iter().step_by(n + 1).copied().collect::<Vec<T>>()));
    [needs[0].then(|| TensorData::new(full, [n, n])), noise]
}
