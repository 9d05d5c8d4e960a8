//! K S and SᵀKS as plain numbers, for use before they become part of a differentiable operation.

use std::any::Any;
use std::fmt;

use rayon::prelude::*;

use super::{place, rows, values};
use crate::error::Result;
use crate::kernels::form::Lowered;
use crate::linalg::Factor;
use crate::linalg::real::{into_real, into_vec, vectorised, widened, with_real};
use crate::products::blocks::BlockSparse;
use crate::products::drivers::projections::{Frame, Inputs};
use crate::products::engine::lanes::{Lanes, Number, Work};
use crate::products::engine::strips::{RowsTimesS, Strip};
use crate::products::operations::matvec::{coefficients, features};
use crate::threads;

/// (K S)ᵀ, if it fits the budget, and SᵀKS, for block-sparse S with the numbers of L functions.
pub struct Prepared {
    frame: Frame,
    products: Box<dyn Products>,
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared").field("frame", &self.frame).finish_non_exhaustive()
    }
}

impl Prepared {
    /// The products for a kernel lowered in f64, in the precision of S, with chunks that fit `budget` bytes.
    pub(in crate::products) fn new(lowered: &Lowered, blocks: &[BlockSparse], budget: usize) -> Result<Self> {
        let frame = Frame::new(lowered, blocks, budget);
        let features = features(lowered);
        let p = features.dims()[1];
        let [x, coefficients] = [features.into_data(), coefficients(lowered).into_data()].map(widened);
        let (x, coefficients, s) = (x?, coefficients?, values(blocks).into_data());
        let products: Box<dyn Products> = with_real!(s.dtype(), T => {
            let inputs = Inputs::<T> { x: into_real(x), p, coefficients: into_real(coefficients), s: into_vec(s)? };
            Ok::<_, crate::Error>(Box::new(Ready::new(&frame, inputs)) as Box<dyn Products>)
        })?;
        Ok(Self { frame, products })
    }

    /// SᵀKS `[i, i]`.
    pub fn gram(&self) -> &[f64] {
        self.products.gram()
    }

    /// K S a `[L n]` for weights a `[i]`. Visits all pairs of rows again if K S did not fit.
    pub fn times(&self, weights: &[f64]) -> Vec<f64> {
        self.products.times(&self.frame, weights)
    }

    /// The rows' means K S a `[L, n]`, then what is explained of their covariances `[L L, n]`, for the factor of M and
    /// weights a `[i]`; may visit all pairs again, like [`times`](Self::times).
    pub fn rows(&self, factor: &Factor<f64>, weights: &[f64]) -> Vec<f64> {
        self.products.rows(&self.frame, &factor.clone().lower(), weights)
    }

    pub(super) fn into_any(self) -> Box<dyn Any + Send> {
        self.products
    }
}

/// Products in some precision.
trait Products: Any + Send + Sync {
    fn gram(&self) -> &[f64];
    fn times(&self, frame: &Frame, weights: &[f64]) -> Vec<f64>;
    fn rows(&self, frame: &Frame, lower: &[f64], weights: &[f64]) -> Vec<f64>;
}

/// Products in the precision `T`.
pub(super) struct Ready<T> {
    pub inputs: Inputs<T>,
    /// G = SᵀKS `[i, i]`.
    pub gram: Vec<f64>,
    /// (K S)ᵀ without the kernel's factor, if it fits.
    pub whole: Option<Vec<RowsTimesS<T>>>,
}

impl<T: Number> Ready<T> {
    pub fn new(frame: &Frame, inputs: Inputs<T>) -> Self {
        let (gram, whole) = T::vectorised(Make { frame, inputs: &inputs });
        Self { inputs, gram, whole }
    }

    fn scale(&self, frame: &Frame) -> f64 {
        frame.program.factor(&self.inputs.coefficients).f64()
    }

    /// `count` numbers for each row, from strips of (K S)ᵀ that `cut` makes.
    fn of_rows(
        &self,
        frame: &Frame,
        count: usize,
        cut: fn(&RowsTimesS<T>) -> Vec<Strip<&[T]>>,
        of: impl Fn(Strip<&[T]>) -> Vec<f64> + Sync,
    ) -> Vec<f64> {
        let n = frame.rows();
        let mut all = vec![0.0; count * n];
        let mut see = |parts: &[RowsTimesS<T>]| {
            let strips: Vec<_> = parts.iter().flat_map(cut).collect();
            let each = threads::map(strips.into_par_iter(), |strip| (strip.rows.clone(), of(strip)));
            each.iter().for_each(|(rows, part)| place(&mut all, n, rows, part));
        };
        match &self.whole {
            Some(parts) => see(parts),
            None => T::vectorised(Anew { frame, inputs: &self.inputs, see }),
        }
        all
    }
}

impl<T: Number> Products for Ready<T> {
    fn gram(&self) -> &[f64] {
        &self.gram
    }

    fn times(&self, frame: &Frame, weights: &[f64]) -> Vec<f64> {
        let weights: Vec<f64> = weights.iter().map(|weight| weight * self.scale(frame)).collect();
        let latents = frame.functions;
        self.of_rows(frame, latents, RowsTimesS::long_strips, |strip| {
            let rows = strip.rows.len();
            let mut sums = vec![0.0; latents * rows];
            vectorised(|| {
                for (columns, weight) in strip.columns.chunks_exact(latents).zip(&weights) {
                    for (sums, column) in sums.chunks_exact_mut(rows).zip(columns) {
                        sums.iter_mut().zip(*column).for_each(|(sum, value)| *sum += weight * value.f64());
                    }
                }
            });
            sums
        })
    }

    fn rows(&self, frame: &Frame, lower: &[f64], weights: &[f64]) -> Vec<f64> {
        let (latents, scale) = (frame.functions, self.scale(frame));
        self.of_rows(frame, latents * (1 + latents), RowsTimesS::strips, |strip| {
            rows::tell(&mut strip.scaled(scale), latents, lower, weights)
        })
    }
}

struct Make<'a, T> {
    frame: &'a Frame,
    inputs: &'a Inputs<T>,
}

impl<T: Number> Work<T> for Make<'_, T> {
    type Output = (Vec<f64>, Option<Vec<RowsTimesS<T>>>);

    fn run<L: Lanes<Element = T>>(self) -> Self::Output {
        let all = self.frame.of(self.inputs);
        let mut whole = all.whole::<L>();
        (all.square::<L>(whole.as_mut(), self.frame.program.factor(&self.inputs.coefficients).f64()), whole)
    }
}

struct Anew<'a, T, F> {
    frame: &'a Frame,
    inputs: &'a Inputs<T>,
    see: F,
}

impl<T: Number, F: FnMut(&[RowsTimesS<T>])> Work<T> for Anew<'_, T, F> {
    type Output = ();

    fn run<L: Lanes<Element = T>>(mut self) {
        self.frame.of(self.inputs).visit::<L>(None, |parts| (self.see)(parts));
    }
}
