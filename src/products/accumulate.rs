//! What computation-aware objectives need of K and block-sparse S, accumulated over chunks of rows in one pass:
//! Sᵀ K S, (K S)ᵀ(K S) and (K S)ᵀ y.
//!
//! K S is in the precision of the data, the sums over it in f64.

use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use super::blocks::{BlockSparse, owners};
use super::lanes::{Lanes, Number, Work};
use super::matvec::{coefficients, features, recall};
use super::projections::{Frame, Inputs, Projections, Total};
use super::strips::{Part, Strip};
use crate::error::Result;
use crate::kernels::form::Lowered;
use crate::linalg::dense::{product, transpose, view, view_mut};
use crate::linalg::host::{HostOp, Saved, apply4};
use crate::linalg::real::{Real, dot, into_vec, with_real};
use crate::threads;

/// Sᵀ K S, (K S)ᵀ(K S) and (K S)ᵀ y one after another, in f64, with chunks that fit `budget` bytes.
pub fn packed(lowered: &Lowered, blocks: &BlockSparse, y: &Tensor<1>, budget: usize) -> Result<Tensor<1>> {
    let op = Accumulate(Frame::new(lowered, blocks, budget));
    apply4(op, features(lowered), coefficients(lowered), blocks.values().clone(), y.clone())
}

#[derive(Debug)]
struct Accumulate(Frame);

/// The inputs as they came, the results without the kernel's factor, and (K S)ᵀ if it fits.
struct Kept<T> {
    inputs: Inputs<T>,
    y: Vec<T>,
    results: Vec<f64>,
    whole: Mutex<Option<Vec<Part<T>>>>,
}

impl HostOp<4> for Accumulate {
    fn forward(&self, [x, coefficients, s, y]: [TensorData; 4]) -> Result<(TensorData, Saved)> {
        with_real!(x.dtype(), T => {
            let p = x.shape()[1];
            let inputs = Inputs::<T> { x: into_vec(x)?, p, coefficients: into_vec(coefficients)?, s: into_vec(s)? };
            let y = into_vec(y)?;
            let (results, whole) = T::vectorised(Forward { all: self.0.of(&inputs), y: &y });
            let kept = Kept { inputs, y, results, whole: Mutex::new(whole) };
            let factor = self.0.program.factor(&kept.inputs.coefficients).f64();
            let (i, length) = (self.0.blocks(), kept.results.len());
            let squared = i * i..2 * i * i;
            let power = |at: usize| if squared.contains(&at) { factor * factor } else { factor };
            let scaled: Vec<f64> = kept.results.iter().enumerate().map(|(at, v)| v * power(at)).collect();
            Ok((TensorData::new(scaled, [length]), Arc::new(kept) as Saved))
        })
    }

    fn adjoint(&self, saved: Saved, grad: TensorData, _needs: [bool; 4]) -> Result<[Option<TensorData>; 4]> {
        let grad = into_vec::<f64>(grad)?;
        match saved.downcast::<Kept<f64>>() {
            Ok(kept) => self.gradients(&kept, &grad),
            Err(saved) => self.gradients(&*recall::<Kept<f32>>(saved)?, &grad),
        }
    }
}

impl Accumulate {
    fn gradients<T: Number>(&self, kept: &Kept<T>, grad: &[f64]) -> Result<[Option<TensorData>; 4]> {
        let (mut total, y) = T::vectorised(Adjoint { op: self, kept, grad });
        let (i, factor) = (self.0.blocks(), self.0.program.factor(&kept.inputs.coefficients).f64());
        let along = |range: std::ops::Range<usize>| {
            grad[range.clone()].iter().zip(&kept.results[range]).map(|(a, b)| a * b).sum::<f64>()
        };
        let in_factor = along(0..i * i) + 2.0 * factor * along(i * i..2 * i * i) + along(2 * i * i..grad.len());
        self.0.program.pull_factor(in_factor, &mut total.coefficients);
        let (n, p, length) = (kept.y.len(), kept.inputs.p, total.coefficients.len());
        let coefficients: Vec<T> = total.coefficients.into_iter().map(T::of).collect();
        Ok([
            Some(TensorData::new(total.x, [n, p])),
            Some(TensorData::new(coefficients, [length])),
            Some(TensorData::new(total.s, [n])),
            Some(TensorData::new(y, [n])),
        ])
    }
}

struct Forward<'a, T> {
    all: Projections<'a, T>,
    y: &'a [T],
}

impl<T: Number> Work<T> for Forward<'_, T> {
    type Output = (Vec<f64>, Option<Vec<Part<T>>>);

    fn run<L: Lanes<Element = T>>(self) -> Self::Output {
        let i = self.all.blocks();
        let mut results = vec![0.0; 2 * i * i + i];
        let mut whole = self.all.whole::<L>();
        self.all.visit::<L>(whole.as_mut(), |parts| {
            let strips = parts.iter().flat_map(Part::strips).collect();
            self.all.sum(strips, &mut results, |strip, sums| self.add(strip, sums));
        });
        transpose::mirror(view_mut(&mut results[i * i..2 * i * i], i));
        (results, whole)
    }
}

impl<T: Number> Forward<'_, T> {
    /// Adds a strip's contribution; of (K S)ᵀ(K S), the lower triangle.
    fn add(&self, strip: &Strip<&[T]>, sums: &mut [f64]) {
        let i = self.all.blocks();
        let (sks, rest) = sums.split_at_mut(i * i);
        let (ksks, ksy) = rest.split_at_mut(i * i);
        self.all.add_sks(strip, sks);
        for (ksy, ks) in ksy.iter_mut().zip(&strip.columns) {
            *ksy += dot(&self.y[strip.rows.clone()], ks);
        }
        // Multiplied in f64: the objective takes differences of this product that rounding in f32 would drown.
        let ks_t: Vec<f64> = strip.copied();
        let ks_t = view(&ks_t, strip.rows.len());
        product::add_lower(view_mut(ksks, i), ks_t, ks_t.transpose(), 1.0);
    }
}

struct Adjoint<'a, T> {
    op: &'a Accumulate,
    kept: &'a Kept<T>,
    grad: &'a [f64],
}

impl<T: Number> Work<T> for Adjoint<'_, T> {
    /// All gradients but the factor's, and the one in y.
    type Output = (Total<T>, Vec<T>);

    fn run<L: Lanes<Element = T>>(self) -> Self::Output {
        let Self { op, kept, grad } = self;
        let cotangents = Cotangents::new(op, kept, grad);
        let mut direct = Direct { s: vec![0.0; kept.y.len()], y: vec![T::of(0.0); kept.y.len()] };
        let saved = kept.whole.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut total = op.0.of(&kept.inputs).adjoint::<L>(saved, |parts, _| cotangents.replace(parts, &mut direct));
        total.s.iter_mut().zip(direct.s).for_each(|(s, g)| *s += T::of(g));
        (total, direct.y)
    }
}

/// What S on the left and y receive directly.
struct Direct<T> {
    s: Vec<f64>,
    y: Vec<T>,
}

/// From cotangents of the results to those of M = (K S)ᵀ: with Ā, B̄, c̄ those of Sᵀ K S, (K S)ᵀ(K S) and (K S)ᵀ y and
/// v the kernel's factor, M̄ = v Āᵀ Sᵀ + v² (B̄ + B̄ᵀ) M + v c̄ yᵀ, a difference of large terms: in f64 until it is
/// whole.
struct Cotangents<'a, T> {
    op: &'a Accumulate,
    kept: &'a Kept<T>,
    /// v Ā.
    sks: Vec<f64>,
    /// v² (B̄ + B̄ᵀ).
    ksks: Vec<f64>,
    /// v c̄.
    ksy: Vec<f64>,
    owners: Vec<usize>,
}

impl<'a, T: Number> Cotangents<'a, T> {
    fn new(op: &'a Accumulate, kept: &'a Kept<T>, grad: &[f64]) -> Self {
        let i = op.0.blocks();
        let factor = op.0.program.factor(&kept.inputs.coefficients).f64();
        let times = |values: &[f64]| values.iter().map(|v| v * factor).collect();
        let (in_sks, rest) = grad.split_at(i * i);
        let (in_ksks, in_ksy) = rest.split_at(i * i);
        let both = (0..i * i).map(|e| factor * factor * (in_ksks[e] + in_ksks[e % i * i + e / i]));
        let owners = owners(&op.0.offsets);
        Self { op, kept, sks: times(in_sks), ksks: both.collect(), ksy: times(in_ksy), owners }
    }

    /// Puts M̄ in the place of parts of M.
    fn replace(&self, parts: &mut [Part<T>], direct: &mut Direct<T>) {
        let strips: Vec<_> = parts.iter_mut().flat_map(Part::strips_mut).collect();
        let gradients = threads::map(strips.into_par_iter(), |strip| (strip.rows.start, self.of(strip)));
        for (start, [in_s, in_y]) in gradients {
            direct.s[start..].iter_mut().zip(in_s).for_each(|(s, g)| *s += g);
            direct.y[start..].iter_mut().zip(in_y).for_each(|(y, g)| *y += T::of(g));
        }
    }

    /// Puts M̄ in the place of a strip of M; returns the gradients in its rows of S, on the left, and of y.
    fn of(&self, mut strip: Strip<&mut [T]>) -> [Vec<f64>; 2] {
        let (i, width, rows) = (self.op.0.blocks(), strip.rows.len(), strip.rows.clone());
        let (ks_t, mut grad): (Vec<f64>, _) = (strip.copied(), vec![0.0; i * width]);
        product::set(view_mut(&mut grad, width), view(&self.ksks, i), view(&ks_t, width), 1.0);
        let (s, y, owners) = (&self.kept.inputs.s[rows.clone()], &self.kept.y[rows.clone()], &self.owners[rows]);
        let (mut in_s, mut in_y) = (vec![0.0; width], vec![0.0; width]);
        let columns = strip.columns.iter_mut().zip(grad.chunks_exact(width)).zip(ks_t.chunks_exact(width));
        for (a, ((out, grad), ks)) in columns.enumerate() {
            let (of_sks, of_y) = (&self.sks[a * i..(a + 1) * i], self.ksy[a]);
            for r in 0..width {
                let of_s = of_sks[owners[r]];
                out[r] = T::of(grad[r] + of_s * s[r].f64() + of_y * y[r].f64());
                in_s[r] += of_s * ks[r];
                in_y[r] += of_y * ks[r];
            }
        }
        [in_s, in_y]
    }
}
