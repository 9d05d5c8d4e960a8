//! The evidence of Laplace's approximation as one operation on tensors, with its adjoint.
//!
//! −ln q(y) = −ln p(y | f) + ½ aᵀ(f − m) + ½ ln|K + R| + ½ Σ ln W at the mode. With q half the derivatives of ln|I + W
//! K| in f, and s = (K + R)⁻¹R q, the derivative in a parameter of the kernel is that of [the dense
//! model](crate::models::laplace), ½ tr (K + R)⁻¹K' − ½ aᵀK'a + sᵀK'a. The pass over observations (K + R)v has slopes
//! G(v) = ½ tr (K + R)⁻¹K' − ½ vᵀK'v, so the sum is G(a − s) − G(s) + G(0).

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};

use super::axes::Times;
use super::program::Program;
use super::sites::{Mode, Task};
use crate::error::Result;
use crate::likelihoods::{Density, Row};
use crate::linalg::host::{HostOp, Vjp, apply2, apply3};
use crate::linalg::real::{narrowed, widened};

/// Rows, and what they are rows of.
pub(super) struct Evidence {
    /// The kernel.
    pub program: Program,
    /// The likelihood.
    pub density: Arc<dyn Density>,
    /// Targets.
    pub rows: Vec<Row>,
    /// Times.
    pub times: Times,
    /// The number of the likelihood's own parameters.
    pub own: usize,
}

impl Evidence {
    /// Minus the log evidence `[1]`, differentiable in the kernel's parameters `[p]`, in prior means `[n]` and in the
    /// likelihood's own parameters, whose values are those of the density.
    pub fn of(self, values: Tensor<1>, means: Tensor<1>, own: Option<Tensor<1>>) -> Result<Tensor<1>> {
        match own {
            Some(own) => apply3(self, values, means, own),
            None => apply2(self, values, means),
        }
    }

    /// The value, and the gradients in the kernel's parameters, means and own parameters.
    fn value(
        self: Arc<Self>,
        values: TensorData,
        means: TensorData,
    ) -> Result<(TensorData, impl FnOnce(TensorData) -> Result<[TensorData; 3]> + Send)> {
        let dtype = values.dtype();
        let (values, means) = (widened(values)?, widened(means)?);
        let blocks = self.program.at(&values)?;
        let task =
            Task { blocks: &blocks, density: &*self.density, rows: &self.rows, times: &self.times, mean: &means };
        let mode = task.mode()?;
        let n = self.times.t.len();
        let quadratic: f64 = mode.weights.iter().zip(&mode.f).zip(&means).map(|((a, f), m)| a * (f - m)).sum();
        let silent = task.pass(vec![0.0; n], &mode.sites)?.forward.value - 0.5 * n as f64 * std::f64::consts::TAU.ln();
        let logs: f64 = mode.sites.curvature.iter().map(|curvature| curvature.ln()).sum();
        let value = 0.5 * quadratic - mode.log_density + silent + 0.5 * logs;
        let vjp = move |grad| {
            let factor: f64 = widened(grad)?.into_iter().sum();
            let task =
                Task { blocks: &blocks, density: &*self.density, rows: &self.rows, times: &self.times, mean: &means };
            let mut all = self.gradients(&task, &mode)?;
            all.iter_mut().flatten().for_each(|slope| *slope *= factor);
            Ok(all.map(|slopes| narrowed(slopes.clone(), &[slopes.len()], dtype)))
        };
        Ok((narrowed(vec![value], &[1], dtype), vjp))
    }

    fn gradients(&self, task: &Task, mode: &Mode) -> Result<[Vec<f64>; 3]> {
        let Mode { f, weights, variances, sites, .. } = mode;
        let mut own = vec![0.0; self.own];
        let mut half = vec![0.0; f.len()];
        for (((row, f), variance), half) in self.rows.iter().zip(f).zip(variances).zip(&mut half) {
            self.density.add_curvature_slopes(*row, &[*f], &[0.5 * variance], std::slice::from_mut(half), &mut own);
            self.density.add_own_gradient(*row, &[*f], -1.0, &mut own);
        }
        let way: Vec<f64> = half.iter().zip(&sites.curvature).map(|(q, curvature)| q / curvature).collect();
        let count = self.program.parameters();
        let less = sites.z.iter().zip(&way).map(|(z, way)| z - way).collect();
        let turned = task.pass(way.clone(), sites)?;
        let s = turned.residuals(task.blocks);
        let [less, same, none] = [task.pass(less, sites)?, turned, task.pass(vec![0.0; f.len()], sites)?]
            .map(|pass| pass.slopes(task.blocks, count));
        let slopes = less.iter().zip(&same).zip(&none).map(|((less, same), none)| less - same + none).collect();
        if self.own > 0 {
            for ((((row, f), q), s), curvature) in self.rows.iter().zip(f).zip(&half).zip(&s).zip(&sites.curvature) {
                // K s.
                self.density.add_pull_slopes(*row, &[*f], &[(q - s) / curvature], &mut own);
            }
        }
        let means = s.iter().zip(weights).map(|(s, a)| s - a).collect();
        Ok([slopes, means, own])
    }
}

impl HostOp<2> for Evidence {
    fn forward(self: Arc<Self>, [values, means]: [TensorData; 2]) -> Result<(TensorData, Vjp<2>)> {
        let (value, vjp) = self.value(values, means)?;
        Ok((value, Box::new(|grad, _needs| vjp(grad).map(|[k, m, _]| [Some(k), Some(m)]))))
    }
}

impl HostOp<3> for Evidence {
    fn forward(self: Arc<Self>, [values, means, _]: [TensorData; 3]) -> Result<(TensorData, Vjp<3>)> {
        let (value, vjp) = self.value(values, means)?;
        Ok((value, Box::new(|grad, _needs| Ok(vjp(grad)?.map(Some)))))
    }
}
