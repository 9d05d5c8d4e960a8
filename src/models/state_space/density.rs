//! The evidence as one operation on tensors, with its adjoint.

use std::sync::Arc;

use burn::tensor::TensorData;

use super::chain::Forward;
use super::program::{Blocks, Program};
use super::rows::Sorted;
use crate::error::Result;
use crate::linalg::host::{HostOp, Saved, recall};
use crate::linalg::real::{narrowed, widened};

/// Minus the log density of residuals `[n]`, given the parameters of the kernel `[p]` and noise variances `[n]`.
#[derive(Debug)]
pub struct Density {
    /// The kernel.
    pub program: Program,
    /// The time of each row.
    pub t: Vec<f64>,
}

/// What the adjoint needs.
struct Kept {
    values: Vec<f64>,
    blocks: Blocks,
    rows: Sorted,
    forward: Forward,
}

impl HostOp<3> for Density {
    fn forward(&self, [values, noise, residual]: [TensorData; 3]) -> Result<(TensorData, Saved)> {
        let dtype = values.dtype();
        let values = widened(values)?;
        let blocks = self.program.at(&values)?;
        let white = blocks.noise();
        let noise = widened(noise)?.into_iter().map(|noise| noise + white).collect();
        let rows = Sorted::new(self.t.clone(), widened(residual)?, noise);
        let forward = blocks.forward(rows.rows(), None)?;
        let value = narrowed(vec![forward.value], &[1], dtype);
        Ok((value, Arc::new(Kept { values, blocks, rows, forward }) as Saved))
    }

    fn adjoint(&self, saved: Saved, grad: TensorData, _needs: [bool; 3]) -> Result<[Option<TensorData>; 3]> {
        let (kept, n, dtype) = (recall::<Kept>(saved)?, self.t.len(), grad.dtype());
        let Kept { values: at, blocks, rows, forward } = &*kept;
        let factor: f64 = widened(grad)?.into_iter().sum();
        let (mut residual, mut noise) = (vec![0.0; n], vec![0.0; n]);
        let count = self.program.parameters();
        let mut values = blocks.backward(rows.rows(), forward, Some(count), &mut |visit| {
            let (place, [u, m]) = (rows.place(visit.row), visit.residual);
            residual[place] = factor * u;
            noise[place] = 0.5 * factor * (m - u * u);
        });
        values.iter_mut().for_each(|value| *value *= factor);
        let of_noise: f64 = noise.iter().sum();
        blocks.add_noise_slopes(of_noise, &mut values, at);
        let all = [(values, count), (noise, n), (residual, n)];
        Ok(all.map(|(values, n)| Some(narrowed(values, &[n], dtype))))
    }
}
