//! The evidence as one operation on tensors, with its adjoint.

use std::sync::Arc;

use burn::tensor::TensorData;

use super::program::Program;
use super::rows::{Rows, Times};
use crate::error::Result;
use crate::linalg::host::{HostOp, Vjp};
use crate::linalg::real::{narrowed, widened};

/// Minus the log density of residuals `[n]`, given the parameters of the kernel `[p]` and noise variances `[n]`.
#[derive(Debug)]
pub struct Density {
    /// The kernel.
    pub program: Program,
    /// The time of each row.
    pub times: Times,
}

impl HostOp<3> for Density {
    fn forward(self: Arc<Self>, [values, noise, residual]: [TensorData; 3]) -> Result<(TensorData, Vjp<3>)> {
        let dtype = values.dtype();
        let values = widened(values)?;
        let blocks = self.program.at(&values)?;
        let white = blocks.noise();
        let noise = widened(noise)?.into_iter().map(|noise| noise + white).collect();
        let pass = blocks.pass(Rows::new(self.times.clone(), widened(residual)?, noise))?;
        let value = narrowed(vec![pass.forward.value], &[1], dtype);
        let (n, count) = (self.times.t.len(), self.program.parameters);
        let vjp = move |grad, _needs: [bool; 3]| {
            let factor: f64 = widened(grad)?.into_iter().sum();
            let (mut residual, mut noise) = (vec![0.0; n], vec![0.0; n]);
            let mut slopes = pass.back(&blocks, Some(count), |place, visit| {
                let [u, m] = visit.residual;
                residual[place] = factor * u;
                noise[place] = 0.5 * factor * (m - u * u);
            });
            slopes.iter_mut().for_each(|slope| *slope *= factor);
            blocks.add_noise_slopes(noise.iter().sum(), &mut slopes, &values);
            let all = [(slopes, count), (noise, n), (residual, n)];
            Ok(all.map(|(values, n)| Some(narrowed(values, &[n], dtype))))
        };
        Ok((value, Box::new(vjp)))
    }
}
