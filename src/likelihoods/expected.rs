//! The expected log density as a differentiable tensor: values and slopes of all rows in one pass, in f64.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use super::density::{Density, Marginal, Slopes};
use super::targets::Row;
use crate::error::{Error, Result};
use crate::linalg::host::{HostOp, Saved, apply2, apply3};
use crate::threads;

/// Rows worth a thread of their own.
const SHARE: usize = 64;

/// `E[ln p(y_i | f_i)]` `[b]` for `f_i ~ N(mean [L, b], variance [L, b])`, differentiable in both and in the own
/// parameters `[P]` where there are any. The values of the own parameters are those in `density`.
pub(super) fn expected_log_density(
    density: Arc<dyn Density>,
    rows: Vec<Row>,
    mean: Tensor<2>,
    variance: Tensor<2>,
    own: Option<Tensor<1>>,
) -> Result<Tensor<1>> {
    let [latents, b] = mean.dims();
    if [latents, b] != [density.latents(), rows.len()] || variance.dims() != mean.dims() {
        let got = format!("means {:?} and variances {:?}", mean.dims(), variance.dims());
        return Err(Error::shape("latent marginals", format!("[{}, {}]", density.latents(), rows.len()), got));
    }
    let op = Expected { density, rows, own: own.as_ref().map_or(0, |own| own.dims()[0]) };
    match own {
        Some(own) => apply3(op, mean, variance, own),
        None => apply2(op, mean, variance),
    }
}

#[derive(Debug)]
struct Expected {
    density: Arc<dyn Density>,
    rows: Vec<Row>,
    own: usize,
}

/// One record a row: the expected log density, then its slopes in means, variances and `own` parameters,
/// `[b, 1 + 2L + own]`, at marginals `[L, b]`.
pub(crate) fn records(density: &dyn Density, rows: &[Row], own: usize, mean: &[f64], variance: &[f64]) -> Vec<f64> {
    let (latents, b) = (density.latents(), rows.len());
    let width = 1 + 2 * latents + own;
    let mut records = vec![0.0; b * width];
    threads::for_each(records.par_chunks_mut(SHARE * width).enumerate(), |(share, records)| {
        let (mut m, mut v) = (vec![0.0; latents], vec![0.0; latents]);
        for (i, record) in (share * SHARE..).zip(records.chunks_exact_mut(width)) {
            for l in 0..latents {
                (m[l], v[l]) = (mean[l * b + i], variance[l * b + i]);
            }
            let (value, slopes) = record.split_at_mut(1);
            let (in_mean, slopes) = slopes.split_at_mut(latents);
            let (in_variance, own) = slopes.split_at_mut(latents);
            let slopes = Slopes { mean: in_mean, variance: in_variance, own };
            value[0] = density.expectation(rows[i], Marginal { mean: &m, variance: &v }, slopes);
        }
    });
    records
}

impl Expected {
    fn forward(&self, mean: TensorData, variance: TensorData) -> Result<(TensorData, Saved)> {
        let dtype = mean.dtype();
        let records = records(&*self.density, &self.rows, self.own, &numbers(mean)?, &numbers(variance)?);
        let width = 1 + 2 * self.density.latents() + self.own;
        let values: Vec<f64> = records.iter().step_by(width).copied().collect();
        let output = TensorData::new(values, [self.rows.len()]).convert_dtype(dtype);
        Ok((output, Arc::new(records)))
    }

    /// The gradients in means, variances and own parameters.
    fn adjoint(&self, saved: Saved, grad: TensorData) -> Result<[TensorData; 3]> {
        let dtype = grad.dtype();
        let records = saved.downcast_ref::<Vec<f64>>().ok_or_else(|| Error::Device("a saved value was lost".into()))?;
        let grad = numbers(grad)?;
        let (latents, b) = (self.density.latents(), self.rows.len());
        let width = 1 + 2 * latents + self.own;
        let column = |place: usize| {
            records
                .iter()
                .skip(place)
                .step_by(width)
                .zip(&grad)
                .map(|(slope, g)| if *g == 0.0 { 0.0 } else { slope * g })
        };
        let block = |from: usize| (from..from + latents).flat_map(column).collect::<Vec<f64>>();
        let own: Vec<f64> = (0..self.own).map(|k| column(1 + 2 * latents + k).sum()).collect();
        Ok([
            TensorData::new(block(1), [latents, b]).convert_dtype(dtype),
            TensorData::new(block(1 + latents), [latents, b]).convert_dtype(dtype),
            TensorData::new(own, [self.own]).convert_dtype(dtype),
        ])
    }
}

impl HostOp<2> for Expected {
    fn forward(&self, [mean, variance]: [TensorData; 2]) -> Result<(TensorData, Saved)> {
        self.forward(mean, variance)
    }

    fn adjoint(&self, saved: Saved, grad: TensorData, _needs: [bool; 2]) -> Result<[Option<TensorData>; 2]> {
        let [mean, variance, _] = self.adjoint(saved, grad)?;
        Ok([Some(mean), Some(variance)])
    }
}

impl HostOp<3> for Expected {
    fn forward(&self, [mean, variance, _]: [TensorData; 3]) -> Result<(TensorData, Saved)> {
        self.forward(mean, variance)
    }

    fn adjoint(&self, saved: Saved, grad: TensorData, _needs: [bool; 3]) -> Result<[Option<TensorData>; 3]> {
        Ok(self.adjoint(saved, grad)?.map(Some))
    }
}

fn numbers(data: TensorData) -> Result<Vec<f64>> {
    data.convert::<f64>().try_into_vec::<f64>().map_err(|e| Error::Device(format!("unexpected tensor type: {e:?}")))
}
