//! The evidence of Laplace's approximation as one operation on tensors, with its adjoint.
//!
//! −ln q(y) = −ln p(y | f) + ½ aᵀ(f − m) + ½ ln|K + R| + ½ Σ ln W at the mode. With q half the derivatives of ln|I + W
//! K| in f, and s = (K + R)⁻¹R q, the derivative in a parameter of the kernel is that of [the dense
//! model](crate::models::laplace), ½ tr (K + R)⁻¹K' − ½ aᵀK'a + sᵀK'a. The pass over observations (K + R)v has slopes
//! G(v) = ½ tr (K + R)⁻¹K' − ½ vᵀK'v, so the sum is G(a − s) − G(s) + G(0).

use std::sync::Arc;

use burn::tensor::TensorData;

use super::program::Program;
use super::rows::Times;
use super::sites::{Mode, Task};
use crate::error::Result;
use crate::likelihoods::{Density, Row};
use crate::linalg::host::{HostOp, Vjp};
use crate::linalg::real::{narrowed, widened};

/// Minus the log evidence `[1]` of rows, differentiable in the kernel's parameters `[p]`, in prior means `[n]` and in
/// the likelihood's own parameters, whose values are those of the density.
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

impl HostOp<3> for Evidence {
    fn forward(self: Arc<Self>, [values, means, _]: [TensorData; 3]) -> Result<(TensorData, Vjp<3>)> {
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
        let vjp = move |grad, _needs: [bool; 3]| {
            let factor: f64 = widened(grad)?.into_iter().sum();
            let task =
                Task { blocks: &blocks, density: &*self.density, rows: &self.rows, times: &self.times, mean: &means };
            let mut all = self.gradients(&task, &mode)?;
            all.iter_mut().flatten().for_each(|slope| *slope *= factor);
            Ok(all.map(|slopes| (!slopes.is_empty()).then(|| narrowed(slopes.clone(), &[slopes.len()], dtype))))
        };
        Ok((narrowed(vec![value], &[1], dtype), Box::new(vjp)))
    }
}

impl Evidence {
    /// The gradients in the kernel's parameters, means and own parameters.
    fn gradients(&self, task: &Task, mode: &Mode) -> Result<[Vec<f64>; 3]> {
        let Mode { f, weights, variances, sites, .. } = mode;
        let mut own = vec![0.0; self.own];
        let mut half = vec![0.0; f.len()];
        for (((row, f), variance), half) in self.rows.iter().zip(f).zip(variances).zip(&mut half) {
            self.density.add_curvature_slopes(*row, &[*f], &[0.5 * variance], std::slice::from_mut(half), &mut own);
            self.density.add_own_gradient(*row, &[*f], -1.0, &mut own);
        }
        let way: Vec<f64> = half.iter().zip(&sites.curvature).map(|(q, curvature)| q / curvature).collect();
        let count = self.program.parameters;
        let less = sites.z.iter().zip(&way).map(|(z, way)| z - way).collect();
        let turned = task.pass(way.clone(), sites)?;
        let s: Vec<f64> = turned.residuals(task.blocks).into_iter().map(|[u, _]| u).collect();
        let [less, same, none] = [task.pass(less, sites)?, turned, task.pass(vec![0.0; f.len()], sites)?]
            .map(|pass| pass.back(task.blocks, Some(count), |_, _| {}));
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
