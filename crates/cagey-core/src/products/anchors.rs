//! Covariances with rows that do not change, for predictions of few rows at a time. The scaled features of the fixed
//! rows are computed and packed once.

use std::any::Any;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use burn::tensor::Tensor;

use crate::error::Result;
use crate::kernels::Kernel;
use crate::kernels::form::Lowered;
use crate::products::engine::lanes::{Lanes, Number, Work};
use crate::products::engine::program::Program;
use crate::products::engine::sweep::Sweep;
use crate::products::engine::tile::{GROUP, Groups, Panels};
use crate::products::operations::dense;
use crate::products::operations::matvec::{coefficients, features};
use crate::scope::{Scope, to_f64};

/// The most rows that are compared with packed features: four tiles. For more, packing costs little beside the rest.
pub const MOST: usize = 4 * GROUP;

/// The packed features of fixed rows under a fixed kernel. The first request for few rows computes them.
#[derive(Debug, Clone, Default)]
pub struct Anchors(OnceLock<Option<Packed>>);

#[derive(Debug, Clone)]
struct Packed {
    program: Program,
    coefficients: Vec<f64>,
    /// Number of features.
    p: usize,
    /// Number of rows.
    n: usize,
    /// [`Panels`] of the vectors in use at that time.
    panels: Arc<dyn Any + Send + Sync>,
}

impl Anchors {
    /// k(x, anchors) `[rows, n]` in f64, row-major, for a few rows `x [rows, d]` and anchors `[n, d]`. None for more
    /// rows, for devices other than the CPU, and for kernels that cannot be lowered; use the other products there.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn cross(
        &self,
        kernel: &Kernel,
        scope: &Scope,
        (anchors, d): (&[f64], usize),
        x: &Tensor<2>,
    ) -> Result<Option<Vec<f64>>> {
        if x.dims()[0] > MOST {
            return Ok(None);
        }
        let Some(x) = crate::products::lowered_wide(kernel, scope, x)? else { return Ok(None) };
        if self.0.get().is_none() {
            let fixed = scope.rows(anchors, d);
            let packed = crate::products::lowered_wide(kernel, scope, &fixed)?.map(|lowered| Packed::new(&lowered));
            // Threads that arrive together each compute it; none waits for another.
            let _ = self.0.set(packed.transpose()?);
        }
        let Some(Some(packed)) = self.0.get() else { return Ok(None) };
        Ok(f64::vectorised(Meet { packed, x: &to_f64(features(&x))? }))
    }
}

impl Packed {
    fn new(lowered: &Lowered) -> Result<Self> {
        let features = features(lowered);
        let [n, p] = features.dims();
        let panels = f64::vectorised(Pack { features: &to_f64(features)?, p });
        Ok(Self { program: Program::new(lowered), coefficients: to_f64(coefficients(lowered))?, p, n, panels })
    }
}

struct Pack<'a> {
    features: &'a [f64],
    p: usize,
}

impl Work<f64> for Pack<'_> {
    type Output = Arc<dyn Any + Send + Sync>;

    fn run<L: Lanes<Element = f64>>(self) -> Self::Output {
        Arc::new(Panels::<L>::pack(self.features, self.p))
    }
}

struct Meet<'a> {
    packed: &'a Packed,
    x: &'a [f64],
}

impl Work<f64> for Meet<'_> {
    /// None if the vectors in use differ from those at packing.
    type Output = Option<Vec<f64>>;

    fn run<L: Lanes<Element = f64>>(self) -> Self::Output {
        let Packed { program, coefficients, p, n, panels } = self.packed;
        let columns = Cow::Borrowed(panels.downcast_ref::<Panels<L>>()?);
        let rows = Groups::pack(self.x, *p);
        let sweep = Sweep::<L> { program, coefficients, rows, columns, symmetric: false, own: None };
        Some(dense::evaluate(&sweep, self.x.len() / p, *n))
    }
}
