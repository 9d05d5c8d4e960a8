//! Marginals of a whitened variational GP in one operation: the covariances never leave it, and its adjoint makes them again.

use std::any::Any;
use std::sync::Arc;

use burn::tensor::{DType, Tensor, TensorData};

use super::dense::{Gradients, Kept};
use super::lanes::Number;
use super::matvec::{coefficients, features, recall};
use super::program::Program;
use crate::error::{Error, Result};
use crate::kernels::form::Lowered;
use crate::linalg::dense::{solve, view, view_mut};
use crate::linalg::host::{HostOp, Saved, apply5};
use crate::linalg::marginals::{Normal, Projected, Root, Slopes};
use crate::linalg::real::{Real, into_real, into_vec, narrowed, rounded, widened};
use crate::linalg::{Factor, lower, whiten};
use crate::threads;

/// The least square of L's smallest diagonal entry over that of its largest at which solves with L may be in f32: errors of
/// A are then below 1e-4 of the prior's standard deviation, those of gradients below 1e-3 of the largest.
const CONDITION: f64 = 1e-3;

/// What v ~ N(μ, R Rᵀ) with u = m(Z) + L v, K_ZZ = L Lᵀ, says about f at rows `x`, for inputs lowered from the same kernel in f64.
///
/// `mean` holds μ `[m]`, `root` R: its rows up to the diagonal `[m(m + 1)/2]` or only the diagonal `[m]`. K_ZZ is factorised in f64;
/// with `single` products are in f32, and if L is well conditioned solves and K_ZX, too.
pub fn marginals(z: &Lowered, x: &Lowered, mean: Tensor<1>, root: Tensor<1>, single: bool) -> Result<Projected> {
    let op = Whitened { program: Program::new(z), single };
    let packed: Tensor<1> = apply5(op, features(z), coefficients(z), features(x), mean, root)?;
    Ok(Projected::apart(&packed))
}

#[derive(Debug)]
struct Whitened {
    program: Program,
    single: bool,
}

/// The inputs' features and q, as they came.
struct Inputs {
    z: Vec<f64>,
    coefficients: Vec<f64>,
    x: Vec<f64>,
    p: usize,
    mean: Vec<f64>,
    root: TensorData,
}

/// Gradients in the features of Z, the coefficients and the features of x.
type InCovariances = [Vec<f64>; 3];

/// What the forward pass leaves for the adjoint.
trait Reverse: Send + Sync {
    /// Gradients in what the covariances are made of, where wanted, and in μ and R, the latter in its own dtype.
    fn reverse(
        &self,
        program: &Program,
        grad: &[f64],
        covariances: bool,
    ) -> (Option<InCovariances>, Vec<f64>, TensorData);
}

struct State {
    reverse: Box<dyn Reverse>,
    /// Rows of Z and of x, and their features.
    shape: [usize; 3],
    dtypes: [DType; 5],
}

/// What depends on L in the precision of the solves, what depends on R in that of the products.
struct Steps<W, T> {
    gram: Kept<W>,
    cross: Kept<W>,
    lower: Vec<W>,
    a: Vec<W>,
    /// A again, where the precisions differ.
    rounded: Option<Vec<T>>,
    c: Vec<T>,
    normal: Normal<T>,
}

fn well_conditioned(lower: &[f64]) -> bool {
    let diagonal = || lower.iter().step_by(lower.len().isqrt() + 1).copied();
    let (least, most) = (diagonal().fold(f64::INFINITY, f64::min), diagonal().fold(0.0, f64::max));
    least * least >= CONDITION * most * most
}

impl<W: Number, T: Real> Steps<W, T> {
    /// What is kept, and the packed results.
    fn run(program: &Program, lower: Vec<f64>, inputs: Inputs) -> Result<(Box<dyn Reverse>, Vec<f64>)> {
        let Inputs { z, coefficients, x, p, mean, root } = inputs;
        let (m, b) = (mean.len(), x.len() / p);
        let (z, coefficients, x): (Vec<W>, Vec<W>, Vec<W>) = (into_real(z), into_real(coefficients), into_real(x));
        let gram = Kept { x1: z.clone(), x2: None, coefficients: coefficients.clone(), p };
        let cross = Kept { x1: z, x2: Some(x), coefficients, p };
        let (lower, mut a): (Vec<W>, _) = (into_real(lower), cross.matrix(program));
        solve::lower(view(&lower, m), view_mut(&mut a, b));
        let root: Vec<T> = into_vec(root.convert::<T>())?;
        let root = if root.len() == m { Root::Diagonal(root) } else { Root::Lower(lower::unpacked(&root)?) };
        let normal = Normal { mean, root };
        let rounded = same::<T>(&a).is_none().then(|| rounded(&a));
        let (out, c) = normal.marginals(both(&a, rounded.as_deref()), b);
        Ok((Box::new(Self { gram, cross, lower, a, rounded, c, normal }), out))
    }
}

/// A vector of numbers as what it is, if that is one of T.
fn same<T: Real>(values: &dyn Any) -> Option<&[T]> {
    values.downcast_ref::<Vec<T>>().map(Vec::as_slice)
}

/// A in the precision of the products.
fn both<'a, T: Real>(a: &'a dyn Any, rounded: Option<&'a [T]>) -> &'a [T] {
    rounded.or_else(|| same(a)).unwrap_or_default()
}

impl<W: Number, T: Real> Reverse for Steps<W, T> {
    fn reverse(
        &self,
        program: &Program,
        grad: &[f64],
        covariances: bool,
    ) -> (Option<InCovariances>, Vec<f64>, TensorData) {
        let a = both(&self.a, self.rounded.as_deref());
        let Slopes { a, mean, root } = self.normal.adjoint(a, &self.c, grad);
        let root = match self.normal.root {
            Root::Diagonal(_) => root,
            Root::Lower(_) => lower::packed(&root, mean.len()),
        };
        let covariances = covariances.then(|| {
            let (gram, cross) = whiten::adjoint(&self.lower, &self.a, into_real(a));
            let (own, other) = threads::join(|| self.gram.pull(program, &gram), || self.cross.pull(program, &cross));
            together(own, other)
        });
        let length = root.len();
        (covariances, mean, TensorData::new(root, [length]))
    }
}

/// The sums of what K_ZZ and K_ZX contribute.
fn together<W: Real>(own: Gradients<W>, other: Gradients<W>) -> InCovariances {
    let z = own.x1.iter().zip(&other.x1).map(|(a, b)| a.f64() + b.f64()).collect();
    let coefficients = own.coefficients.iter().zip(&other.coefficients).map(|(a, b)| a + b).collect();
    [z, coefficients, into_real(other.x2)]
}

impl HostOp<5> for Whitened {
    fn forward(&self, inputs: [TensorData; 5]) -> Result<(TensorData, Saved)> {
        let dtypes = inputs.each_ref().map(TensorData::dtype);
        let [z, coefficients, x, mean, root] = inputs;
        let ([m, p], b) = ([z.shape()[0], z.shape()[1]], x.shape()[0]);
        let (means, length) = (mean.shape()[0], root.shape()[0]);
        if means != m || ![m, m * (m + 1) / 2].contains(&length) {
            let want = format!("a mean and a triangle or diagonal of order {m}");
            return Err(Error::shape("q", want, format!("{means} and {length} numbers")));
        }
        let (z, coefficients) = (into_vec(z)?, into_vec(coefficients)?);
        let gram = Kept { x1: z, x2: None, coefficients, p };
        let lower = Factor::new(gram.matrix(&self.program), "K_ZZ")?.into_buffer();
        let Kept { x1: z, coefficients, .. } = gram;
        let inputs = Inputs { z, coefficients, x: into_vec(x)?, p, mean: widened(mean)?, root };
        let (reverse, out) = match (self.single, well_conditioned(&lower)) {
            (false, _) => Steps::<f64, f64>::run(&self.program, lower, inputs)?,
            (true, false) => Steps::<f64, f32>::run(&self.program, lower, inputs)?,
            (true, true) => Steps::<f32, f32>::run(&self.program, lower, inputs)?,
        };
        let state = State { reverse, shape: [m, b, p], dtypes };
        Ok((narrowed(out, &[2 * b + 1], dtypes[0]), Arc::new(state)))
    }

    fn adjoint(&self, saved: Saved, grad: TensorData, needs: [bool; 5]) -> Result<[Option<TensorData>; 5]> {
        let state = recall::<State>(saved)?;
        let ([m, b, p], dtypes) = (state.shape, state.dtypes);
        let (covariances, mean, root) =
            state.reverse.reverse(&self.program, &widened(grad)?, needs[..3].contains(&true));
        let [z, coefficients, x] = covariances.map_or([const { None }; 3], |all| all.map(Some));
        let length = coefficients.as_ref().map_or(0, Vec::len);
        Ok([
            z.map(|z| narrowed(z, &[m, p], dtypes[0])),
            coefficients.map(|c| narrowed(c, &[length], dtypes[1])),
            x.map(|x| narrowed(x, &[b, p], dtypes[2])),
            needs[3].then(|| narrowed(mean, &[m], dtypes[3])),
            needs[4].then(|| root.convert_dtype(dtypes[4])),
        ])
    }
}
