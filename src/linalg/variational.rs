//! From covariances to the marginals of a whitened variational GP, in one operation with its adjoint.

use std::any::Any;
use std::sync::Arc;

use burn::tensor::{DType, Tensor, TensorData};

use super::dense::{solve, view, view_mut};
use super::factor::Factor;
use super::host::{HostOp, Saved, apply4, recall};
use super::marginals::{Normal, Projected, Root, Slopes};
use super::real::{Real, into_real, into_vec, narrowed, widened};
use super::{lower, shape, whiten};
use crate::error::{Error, Result};
use crate::scope::to_f64;

/// The least square of L's smallest diagonal entry over that of its largest at which solves with L may be in f32: errors of
/// A are then below 1e-4 of the prior's standard deviation, those of gradients below 1e-3 of the largest.
const CONDITION: f64 = 1e-3;

/// The factor of K_ZZ = L Lᵀ, made in f64, and the precision of what is done with it.
#[derive(Debug, Clone)]
pub struct Whitening {
    lower: Arc<Vec<f64>>,
    arithmetic: Arithmetic,
    name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arithmetic {
    /// All in f64.
    Wide,
    /// Solves with L in f64, products with R in f32.
    Mixed,
    /// All in f32.
    Single,
}

impl Whitening {
    /// Factorises K_ZZ `[m, m]`. With `single`, products are in f32, and if L is well conditioned solves, too.
    ///
    /// # Errors
    /// [`Error::Shape`], or [`Error::NotPositiveDefinite`] by the policy of [`jitter`](super::jitter) with `name` for the matrix.
    pub fn new(k: &Tensor<2>, single: bool, name: &str) -> Result<Self> {
        let values = if k.device().is_autodiff() { k.clone().inner() } else { k.clone() };
        let lower = Factor::new(to_f64(values)?, name)?.lower();
        let arithmetic = match (single, well_conditioned(&lower)) {
            (false, _) => Arithmetic::Wide,
            (true, false) => Arithmetic::Mixed,
            (true, true) => Arithmetic::Single,
        };
        Ok(Self { lower: Arc::new(lower), arithmetic, name: name.into() })
    }

    /// Whether all is in f32, so that K_ZX may be.
    pub fn is_single(&self) -> bool {
        self.arithmetic == Arithmetic::Single
    }

    /// What v ~ N(μ, R Rᵀ) with u = L v says about f at the columns of K_ZX.
    ///
    /// `k` is K_ZZ again, `cross` K_ZX `[m, b]`, `mean` μ `[m]`, `root` R: its rows up to the diagonal `[m(m + 1)/2]` or only the
    /// diagonal `[m]`; their dtypes may differ.
    ///
    /// # Errors
    /// [`Error::Shape`] when shapes disagree.
    pub fn marginals(self, k: Tensor<2>, cross: Tensor<2>, mean: Tensor<1>, root: Tensor<1>) -> Result<Projected> {
        let packed: Tensor<1> = apply4(self, k, cross, mean, root)?;
        Ok(Projected::apart(&packed))
    }
}

fn well_conditioned(lower: &[f64]) -> bool {
    let diagonal = || lower.iter().step_by(lower.len().isqrt() + 1).copied();
    let (least, most) = (diagonal().fold(f64::INFINITY, f64::min), diagonal().fold(0.0, f64::max));
    least * least >= CONDITION * most * most
}

/// What the forward pass leaves for the adjoint.
trait Reverse: Send + Sync {
    /// Gradients in K_ZZ, K_ZX, μ and R, where wanted, in these dtypes.
    fn reverse(&self, grad: &[f64], needs: [bool; 4], dtypes: [DType; 4]) -> [Option<TensorData>; 4];
}

struct Kept {
    state: Box<dyn Reverse>,
    dtypes: [DType; 4],
}

/// L and A in the precision of the solves, the rest in that of the products.
struct State<W, T> {
    lower: Vec<W>,
    a: Vec<W>,
    /// A again, where the precisions differ.
    rounded: Option<Vec<T>>,
    c: Vec<T>,
    normal: Normal<T>,
}

impl<W: Real, T: Real> State<W, T> {
    /// What is kept, and the packed results.
    fn run(
        lower: &[f64],
        cross: TensorData,
        mean: TensorData,
        root: TensorData,
    ) -> Result<(Box<dyn Reverse>, Vec<f64>)> {
        let (m, b) = (mean.shape()[0], cross.shape()[1]);
        let (lower, mut a) = (lower.iter().map(|x| W::of(*x)).collect::<Vec<W>>(), into_vec(cross.convert::<W>())?);
        solve::lower(view(&lower, m), view_mut(&mut a, b));
        let root: Vec<T> = into_vec(root.convert::<T>())?;
        let root = if root.len() == m { Root::Diagonal(root) } else { Root::Lower(lower::unpacked(&root)?) };
        let normal = Normal { mean: widened(mean)?, root };
        let rounded = same::<T>(&a).is_none().then(|| into_real(a.clone()));
        let (out, c) = normal.marginals(both(&a, rounded.as_deref()), b);
        Ok((Box::new(Self { lower, a, rounded, c, normal }), out))
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

impl<W: Real, T: Real> Reverse for State<W, T> {
    fn reverse(&self, grad: &[f64], needs: [bool; 4], dtypes: [DType; 4]) -> [Option<TensorData>; 4] {
        let a = both(&self.a, self.rounded.as_deref());
        let Slopes { a, mean, root } = self.normal.adjoint(a, &self.c, grad);
        let (m, b) = (mean.len(), (grad.len() - 1) / 2);
        let root = match self.normal.root {
            Root::Diagonal(_) => root,
            Root::Lower(_) => lower::packed(&root, m),
        };
        let (k, cross) = whiten::adjoint(&self.lower, &self.a, into_real(a), [needs[0], needs[1]]);
        let length = root.len();
        [
            k.map(|k| TensorData::new(k, [m, m]).convert_dtype(dtypes[0])),
            cross.map(|cross| TensorData::new(cross, [m, b]).convert_dtype(dtypes[1])),
            needs[2].then(|| narrowed(mean, &[m], dtypes[2])),
            needs[3].then(|| TensorData::new(root, [length]).convert_dtype(dtypes[3])),
        ]
    }
}

impl HostOp<4> for Whitening {
    fn forward(&self, inputs: [TensorData; 4]) -> Result<(TensorData, Saved)> {
        let dtypes = inputs.each_ref().map(TensorData::dtype);
        let [k, cross, mean, root] = inputs;
        let (m, b) = (shape::square(&self.name, &k)?, shape::matrices("K_ZX", &cross)?.1);
        shape::expect(&self.name, &k, &[self.lower.len().isqrt(); 2])?;
        shape::expect("K_ZX", &cross, &[m, b])?;
        shape::expect("mean of q", &mean, &[m])?;
        let length = root.shape()[0];
        if ![m, m * (m + 1) / 2].contains(&length) {
            let want = format!("a triangle or diagonal of order {m}");
            return Err(Error::shape("root of q", want, length.to_string()));
        }
        let (state, out) = match self.arithmetic {
            Arithmetic::Wide => State::<f64, f64>::run(&self.lower, cross, mean, root)?,
            Arithmetic::Mixed => State::<f64, f32>::run(&self.lower, cross, mean, root)?,
            Arithmetic::Single => State::<f32, f32>::run(&self.lower, cross, mean, root)?,
        };
        Ok((narrowed(out, &[2 * b + 1], dtypes[0]), Arc::new(Kept { state, dtypes }) as Saved))
    }

    fn adjoint(&self, saved: Saved, grad: TensorData, needs: [bool; 4]) -> Result<[Option<TensorData>; 4]> {
        let kept = recall::<Kept>(saved)?;
        Ok(kept.state.reverse(&widened(grad)?, needs, kept.dtypes))
    }
}
