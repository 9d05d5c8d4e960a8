//! Covariances and their products on GPUs, as one kernel each: what the tensor graph computes in a dozen passes over
//! the matrix, without a temporary of its size.

mod backend;
mod kernel;
mod launch;
mod traced;

use burn::tensor::{DType, Tensor};

use crate::kernels::form::{Lowered, Metric, Term};
use kernel::Plan;

/// Most features of a fused term: more do not fit the memory that the units of a cube share.
const MOST_FEATURES: usize = 48;

/// Whether a term has kernels: comparisons of at most 48 features in f32.
pub fn fuses(term: &Term) -> bool {
    term.metric != Metric::Delta && term.features.dims()[1] <= MOST_FEATURES && term.features.dtype() == DType::F32
}

/// The covariance of two inputs lowered from the same kernel `[n, m]`: fused terms, joined as tensors.
pub fn cross(a: &Lowered, b: &Lowered) -> Tensor<2> {
    match (a, b) {
        (Lowered::Term(a), Lowered::Term(b)) if fuses(a) => {
            backend::covariance(a.features.clone(), b.features.clone(), coefficients(a), plan(a))
        }
        (Lowered::Sum(a), Lowered::Sum(b)) => join(a.iter().zip(b).map(|(a, b)| cross(a, b)), |x, y| x + y),
        (Lowered::Product(a), Lowered::Product(b)) => join(a.iter().zip(b).map(|(a, b)| cross(a, b)), |x, y| x * y),
        _ => a.cross(b),
    }
}

/// The covariance of an input with itself `[n, n]`, white noise included.
pub fn gram(a: &Lowered) -> Tensor<2> {
    match a {
        Lowered::Term(term) if !fuses(term) => a.gram(),
        Lowered::Term(_) => cross(a, a),
        Lowered::Sum(parts) => join(parts.iter().map(gram), |x, y| x + y),
        Lowered::Product(parts) => join(parts.iter().map(gram), |x, y| x * y),
    }
}

/// K(a, b) V `[n, t]` for one term with kernels and `v [m, t]`, without storing K.
pub fn product(a: &Term, b: &Term, v: Tensor<2>) -> Tensor<2> {
    backend::product(a.features.clone(), b.features.clone(), v, coefficients(a), plan(a))
}

fn join(mut parts: impl Iterator<Item = Tensor<2>>, with: impl Fn(Tensor<2>, Tensor<2>) -> Tensor<2>) -> Tensor<2> {
    let first = parts.next().expect("sums and products are never empty");
    parts.fold(first, with)
}

fn plan(term: &Term) -> Plan {
    Plan { metric: term.metric, profile: term.profile, p: term.features.dims()[1] }
}

/// Shape and variance `[2]`, 1 where the term has none.
fn coefficients(term: &Term) -> Tensor<1> {
    let options = (&term.features.device(), term.features.dtype());
    let or_one = |value: &Option<Tensor<1>>| value.clone().unwrap_or_else(|| Tensor::ones([1], options));
    Tensor::cat(vec![or_one(&term.shape), or_one(&term.variance)], 0)
}
