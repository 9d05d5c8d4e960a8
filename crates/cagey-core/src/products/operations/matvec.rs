//! The operations K(x1, x2) V and K(x, x) V, with their adjoints.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};

use crate::error::Result;
use crate::kernels::form::Lowered;
use crate::linalg::host::{Anywhere, HostOp, Vjp, apply4};
use crate::linalg::real::{into_real, into_vec, vector, with_real};
use crate::products::drivers::multiply::{Multiply, Product};
use crate::products::drivers::pull::Pull;
use crate::products::engine::lanes::Number;
use crate::products::engine::program::Program;
use crate::products::engine::sweep::scale;

/// The features of all terms, side by side `[n, p]`.
pub fn features(lowered: &Lowered) -> Tensor<2> {
    Tensor::cat(lowered.terms().into_iter().map(|t| t.features.clone()).collect(), 1)
}

/// Variances and shapes in the order of [`Program`]; a single 1 if there are none, because tensors cannot be empty.
pub fn coefficients(lowered: &Lowered) -> Tensor<1> {
    let terms = lowered.terms();
    let all: Vec<Tensor<1>> = terms.iter().flat_map(|t| t.variance.iter().chain(t.shape.iter())).cloned().collect();
    match all.is_empty() {
        false => Tensor::cat(all, 0),
        true => Tensor::ones([1], (&terms[0].features.device(), terms[0].features.dtype())),
    }
}

/// K(x1, x2) V `[n, t]`, for inputs lowered from the same kernel.
pub fn cross(a: &Lowered, b: &Lowered, v: Tensor<2>) -> Result<Tensor<2>> {
    let op = Matvec { program: Program::new(a), same: false };
    apply4(Anywhere::new(op), features(a), coefficients(a), v, features(b))
}

/// K(x, x) V `[n, t]`, with white noise.
pub fn gram(lowered: &Lowered, v: Tensor<2>) -> Result<Tensor<2>> {
    let (op, x) = (Matvec { program: Program::new(lowered), same: true }, features(lowered));
    apply4(Anywhere::new(op), x.clone(), coefficients(lowered), v, x)
}

#[derive(Debug)]
pub struct Matvec {
    pub(in crate::products) program: Program,
    /// Whether x2 is x1, with white noise; all of its gradient is then that in x1.
    pub(in crate::products) same: bool,
}

/// The inputs as given.
struct SavedMatvec<T> {
    x1: Vec<T>,
    x2: Option<Vec<T>>,
    p: usize,
    coefficients: Vec<T>,
    v: Vec<T>,
    t: usize,
}

impl<T> SavedMatvec<T> {
    fn product<'a>(&'a self, program: &'a Program) -> Product<'a, T> {
        let Self { x1, x2, p, coefficients, v, t } = self;
        Product { program, coefficients, x1, x2: x2.as_deref(), p: *p, v, t: *t }
    }
}

impl HostOp<4> for Matvec {
    fn forward(self: Arc<Self>, [x1, coefficients, v, x2]: [TensorData; 4]) -> Result<(TensorData, Vjp<4>)> {
        with_real!(x1.dtype(), T => {
            let ([n, p], t) = ([x1.shape()[0], x1.shape()[1]], v.shape()[1]);
            let x2 = (!self.same).then(|| into_vec(x2)).transpose()?;
            let (x1, coefficients, v) = (into_vec(x1)?, into_vec(coefficients)?, into_vec(v)?);
            let kept = SavedMatvec::<T> { x1, x2, p, coefficients, v, t };
            let value = T::vectorised(Multiply { of: kept.product(&self.program), unscaled: false });
            let vjp = move |grad, needs: [bool; 4]| Ok(self.gradients(&kept, &into_vec::<T>(grad)?, needs));
            Ok((TensorData::new(value, [n, t]), Box::new(vjp)))
        })
    }
}

impl Matvec {
    /// Gradients in x1, coefficients, V and x2, if wanted.
    fn gradients<T: Number>(
        &self,
        kept: &SavedMatvec<T>,
        grad: &[T],
        [in_x1, in_coefficients, in_v, in_x2]: [bool; 4],
    ) -> [Option<TensorData>; 4] {
        let in_x2 = in_x2 && !self.same;
        let SavedMatvec { p, t, .. } = *kept;
        let (n, m) = (kept.x1.len() / p, kept.v.len() / t);
        let (mut x1, mut x2, mut v, along);
        let mut coefficients = vec![0.0; kept.coefficients.len()];
        if in_x1 || in_x2 || (in_coefficients && !self.program.is_scaled_profile()) {
            let pulled = T::vectorised(Pull { of: kept.product(&self.program), grad, in_v });
            (x1, x2, v, coefficients) = (pulled.x1, pulled.x2, pulled.v, pulled.coefficients);
            along = pulled.factor;
        } else {
            // V̄ = Kᵀ Ḡ.
            let (rows, columns) = (kept.x2.as_deref().unwrap_or(&kept.x1), kept.x2.is_some().then_some(&kept.x1[..]));
            v = T::vectorised(Multiply {
                of: Product { x1: rows, x2: columns, v: grad, ..kept.product(&self.program) },
                unscaled: true,
            });
            (x1, x2) = (Vec::new(), Vec::new());
            along = kept.v.iter().zip(&v).map(|(a, b)| a.f64() * b.f64()).sum();
        }
        let factor = self.program.factor(&kept.coefficients);
        [&mut x1, &mut x2, &mut v].into_iter().for_each(|g| scale(g, factor));
        let coefficients: Vec<T> = into_real(self.program.with_factor(&kept.coefficients, coefficients, along));
        [
            in_x1.then(|| TensorData::new(x1, [n, p])),
            in_coefficients.then(|| vector(coefficients)),
            in_v.then(|| TensorData::new(v, [m, t])),
            in_x2.then(|| TensorData::new(x2, [m, p])),
        ]
    }
}
