//! Marginals of a whitened variational GP in one operation. The covariances never leave it; its adjoint computes them
//! again.

use std::any::Any;
use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::kernels::form::Lowered;
use crate::linalg::dense::{solve, view, view_mut};
use crate::linalg::host::{HostOp, Vjp, apply5};
use crate::linalg::marginals::{self, Normal, Projected, Root, Slopes};
use crate::linalg::real::{Real, into_real, into_vec, narrowed, rounded, widened};
use crate::linalg::{Factor, jitter, lower, whiten};
use crate::products::engine::lanes::Number;
use crate::products::engine::program::Program;
use crate::products::operations::dense::{Gradients, Operands};
use crate::products::operations::matvec::{coefficients, features};
use crate::threads;

/// Solves with L may be in f32 if the squared ratio of L's smallest to its largest diagonal entry is at least this.
/// Errors of A are then below 1e-4 of the prior's standard deviation, those of gradients below 1e-3 of the largest.
const CONDITION: f64 = 1e-3;

/// The effect of v ~ N(μ, R Rᵀ) on the marginals of f at rows `x`, where u = m(Z) + L v and K_ZZ = L Lᵀ. The inputs are
/// lowered from the same kernel in f64.
///
/// `mean` holds μ `[m]`; `root` holds R, its rows up to the diagonal `[m(m + 1)/2]` or only the diagonal `[m]`. K_ZZ is
/// factorised in f64. With `single`, products are in f32; if L is well conditioned, solves and K_ZX are in f32, too.
pub fn marginals(z: &Lowered, x: &Lowered, mean: Tensor<1>, root: Tensor<1>, single: bool) -> Result<Projected> {
    let op = Whitened { program: Program::new(z), single };
    let packed: Tensor<1> = apply5(op, features(z), coefficients(z), features(x), mean, root)?;
    Ok(Projected::apart(&packed))
}

pub(super) struct Whitened {
    pub(super) program: Program,
    pub(super) single: bool,
}

/// The operands of the covariances.
struct Inputs {
    z: Vec<f64>,
    coefficients: Vec<f64>,
    x: Vec<f64>,
    p: usize,
}

impl Inputs {
    /// L, and q in the precision of the products.
    fn factor<T: Real>(&self, program: &Program, mean: Vec<f64>, root: &[f64]) -> Result<(Vec<f64>, Q<T>)> {
        let gram = Operands { x1: self.z.clone(), x2: None, coefficients: self.coefficients.clone(), p: self.p };
        let (factor, q) = threads::join(|| Factor::new(gram.matrix(program), "K_ZZ"), || Q::new(mean, root));
        let factor = factor?;
        // Record it on this thread, whichever thread factorised.
        jitter::record(factor.jitter());
        Ok((factor.into_buffer(), q?))
    }
}

/// q, and its Rᵀ stored row by row.
struct Q<T> {
    normal: Normal<T>,
    transposed: Vec<T>,
}

impl<T: Real> Q<T> {
    fn new(mean: Vec<f64>, root: &[f64]) -> Result<Self> {
        let diagonal = root.len() == mean.len();
        let root = if diagonal { Root::Diagonal(rounded(root)) } else { Root::Lower(lower::unpacked(root)?) };
        let normal = Normal { mean, root };
        Ok(Self { transposed: normal.transposed(), normal })
    }
}

/// Gradients in the features of Z, the coefficients and the features of x.
type InCovariances = [Vec<f64>; 3];

/// Gradients in the operands of the covariances, if wanted, and in μ and R.
struct InInputs {
    covariances: Option<InCovariances>,
    mean: Vec<f64>,
    root: Vec<f64>,
}

/// The gradients, given the cotangents; those in the covariances only if wanted.
type Reverse = Box<dyn FnOnce(&[f64], bool) -> InInputs + Send>;

/// Rows of x that go through all steps together, so that their columns of A and C stay in a thread's cache.
const ROWS: usize = 256;

/// The most blocks of rows: each has its own gradients in Z until these are added up.
const BLOCKS: usize = 32;

/// Matrices that depend on L are in the precision of the solves, those that depend on R in that of the products.
struct Steps<W, T> {
    gram: Operands<W>,
    lower: Vec<W>,
    normal: Normal<T>,
    blocks: Vec<Block<W, T>>,
}

/// The matrices of some rows of x.
struct Block<W, T> {
    x: Vec<W>,
    a: Vec<W>,
    /// A again, if the precisions differ.
    rounded: Option<Vec<T>>,
    c: Vec<T>,
}

fn well_conditioned(lower: &[f64]) -> bool {
    let diagonal = || lower.iter().step_by(lower.len().isqrt() + 1).copied();
    let (least, most) = (diagonal().fold(f64::INFINITY, f64::min), diagonal().fold(0.0, f64::max));
    least * least >= CONDITION * most * most
}

impl<W: Number, T: Real> Steps<W, T> {
    /// The packed results and their adjoint.
    fn run(op: Arc<Whitened>, lower: Vec<f64>, inputs: Inputs, q: Q<T>) -> (Vec<f64>, Reverse) {
        let (Inputs { z, coefficients, x, p }, Q { normal, transposed }) = (inputs, q);
        let m = normal.mean.len();
        let (z, coefficients, x): (Vec<W>, Vec<W>, Vec<W>) = (into_real(z), into_real(coefficients), into_real(x));
        let lower: Vec<W> = into_real(lower);
        let gram = Operands { x1: z, x2: None, coefficients, p };
        let rows = (x.len() / p).div_ceil(BLOCKS).max(ROWS);
        let blocks = threads::map(x.par_chunks(rows * p), |x| {
            let (mut a, b) = (gram.with(x).matrix(&op.program), x.len() / p);
            solve::lower(view(&lower, m), view_mut(&mut a, b));
            let rounded = same::<T>(&a).is_none().then(|| rounded(&a));
            let marginals::Block { shift, change, c } = normal.block(&transposed, both(&a, rounded.as_deref()), b);
            (Block { x: x.to_vec(), a, rounded, c }, shift, change)
        });
        let (mut out, mut changes, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        for (block, shift, change) in blocks {
            out.extend(shift);
            changes.extend(change);
            kept.push(block);
        }
        out.extend(changes);
        out.push(normal.divergence());
        let steps = Self { gram, lower, normal, blocks: kept };
        (out, Box::new(move |grad, covariances| steps.reverse(&op.program, grad, covariances)))
    }

    fn reverse(&self, program: &Program, grad: &[f64], covariances: bool) -> InInputs {
        let blocks: Vec<_> =
            self.blocks.iter().map(|block| (both(&block.a, block.rounded.as_deref()), block.c.as_slice())).collect();
        let Slopes { a, mean, root } = self.normal.adjoint(&blocks, grad);
        let in_covariances = || {
            let blocks = self.blocks.iter().zip(a).map(|(block, in_a)| (block.a.as_slice(), into_real(in_a)));
            let own = |in_gram: Vec<W>| self.gram.pull(program, &in_gram);
            let other = |k: usize, in_cross: Vec<W>| self.gram.with(&self.blocks[k].x).pull(program, &in_cross);
            let (own, others) = whiten::adjoint(&self.lower, blocks.collect(), own, other);
            together(own, others)
        };
        let in_root = || match self.normal.root {
            Root::Diagonal(_) => into_real(root),
            Root::Lower(_) => lower::packed(&root, mean.len()),
        };
        let (covariances, root) = threads::join(|| covariances.then(in_covariances), in_root);
        InInputs { covariances, mean, root }
    }
}

/// The vector itself, if it is one of T.
fn same<T: Real>(values: &dyn Any) -> Option<&[T]> {
    values.downcast_ref::<Vec<T>>().map(Vec::as_slice)
}

/// A in the precision of the products.
fn both<'a, T: Real>(a: &'a dyn Any, rounded: Option<&'a [T]>) -> &'a [T] {
    rounded.or_else(|| same(a)).unwrap_or_default()
}

/// The sums of the contributions of K_ZZ and of the blocks of K_ZX.
fn together<W: Real>(own: Gradients<W>, others: Vec<Gradients<W>>) -> InCovariances {
    let mut z: Vec<f64> = own.x1.iter().map(|g| g.f64()).collect();
    let (mut coefficients, mut x) = (own.coefficients, Vec::new());
    for other in others {
        z.iter_mut().zip(&other.x1).for_each(|(sum, g)| *sum += g.f64());
        coefficients.iter_mut().zip(&other.coefficients).for_each(|(sum, g)| *sum += g);
        x.extend(other.x2.iter().map(|g| g.f64()));
    }
    [z, coefficients, x]
}

impl HostOp<5> for Whitened {
    fn forward(self: Arc<Self>, inputs: [TensorData; 5]) -> Result<(TensorData, Vjp<5>)> {
        let dtypes = inputs.each_ref().map(TensorData::dtype);
        let [z, coefficients, x, mean, root] = inputs;
        let ([m, p], b) = ([z.shape()[0], z.shape()[1]], x.shape()[0]);
        let (means, length) = (mean.shape()[0], root.shape()[0]);
        if means != m || ![m, m * (m + 1) / 2].contains(&length) {
            let want = format!("a mean and a triangle or diagonal of order {m}");
            return Err(Error::shape("q", want, format!("{means} and {length} numbers")));
        }
        let inputs = Inputs { z: into_vec(z)?, coefficients: into_vec(coefficients)?, x: into_vec(x)?, p };
        let (mean, root, program) = (widened(mean)?, widened(root)?, &self.program);
        let (out, reverse) = if self.single {
            let (lower, q) = inputs.factor(program, mean, &root)?;
            if well_conditioned(&lower) {
                Steps::<f32, f32>::run(self, lower, inputs, q)
            } else {
                Steps::<f64, f32>::run(self, lower, inputs, q)
            }
        } else {
            let (lower, q) = inputs.factor(program, mean, &root)?;
            Steps::<f64, f64>::run(self, lower, inputs, q)
        };
        let vjp = move |grad, needs: [bool; 5]| {
            let InInputs { covariances, mean, root } = reverse(&widened(grad)?, needs[..3].contains(&true));
            let [z, coefficients, x] = covariances.map_or([const { None }; 3], |all| all.map(Some));
            let lengths = [coefficients.as_ref().map_or(0, Vec::len), root.len()];
            Ok([
                z.map(|z| narrowed(z, &[m, p], dtypes[0])),
                coefficients.map(|c| narrowed(c, &lengths[..1], dtypes[1])),
                x.map(|x| narrowed(x, &[b, p], dtypes[2])),
                needs[3].then(|| narrowed(mean, &[m], dtypes[3])),
                needs[4].then(|| narrowed(root, &lengths[1..], dtypes[4])),
            ])
        };
        Ok((narrowed(out, &[2 * b + 1], dtypes[0]), Box::new(vjp)))
    }
}
