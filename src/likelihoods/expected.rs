//! The expected log density as a differentiable tensor: values and slopes of all rows in one pass, in f64.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use super::{Density, Likelihood, Marginal, Row, Slopes, Targets};
use crate::error::{Error, Result};
use crate::linalg::host::{HostOp, Vjp, apply2, apply3};
use crate::linalg::real::{narrowed, widened};
use crate::scope::to_f64;
use crate::threads;

/// The number of rows that are worth a thread of their own.
const SHARE: usize = 64;

/// The rows of a batch under a density with the values of a likelihood's own parameters.
#[derive(Clone)]
pub(crate) struct RowDensities {
    pub density: Arc<dyn Density>,
    pub rows: Vec<Row>,
    /// The number of own values.
    pub own: usize,
}

impl RowDensities {
    /// Reads targets and auxiliary values `[b]` and checks them.
    pub fn new(likelihood: &(impl Likelihood + ?Sized), y: &Tensor<1>, auxiliary: Option<&Tensor<1>>) -> Result<Self> {
        let y = to_f64(y.clone())?;
        let auxiliary = auxiliary.map(|auxiliary| to_f64(auxiliary.clone())).transpose()?;
        let targets = Targets { y: &y, auxiliary: auxiliary.as_deref() };
        likelihood.check(targets, None)?;
        let own = likelihood.parameters().iter().map(|(_, p)| p.len()).sum();
        Ok(Self { density: likelihood.density(), rows: targets.rows(likelihood.auxiliary()).collect(), own })
    }

    /// One record for each row at marginals `[L, b]`: the expected log density, then its slopes in means, variances and
    /// own values, `[b, 1 + 2L + own]`. If covariances `[L L, b]` are given, the slopes are in covariances.
    pub fn records(&self, mean: &[f64], variance: &[f64]) -> Vec<f64> {
        let Self { density, rows, own } = self;
        let (latents, b) = (density.latents(), rows.len());
        let spreads = variance.len() / b.max(1);
        let width = 1 + latents + spreads + own;
        let mut records = vec![0.0; b * width];
        // With correlated functions a single row is enough work.
        let share = if spreads == latents { SHARE } else { 1 };
        threads::for_each(records.par_chunks_mut(share * width).enumerate(), |(place, records)| {
            let (mut m, mut v) = (vec![0.0; latents], vec![0.0; spreads]);
            for (i, record) in (place * share..).zip(records.chunks_exact_mut(width)) {
                m.iter_mut().enumerate().for_each(|(l, m)| *m = mean[l * b + i]);
                v.iter_mut().enumerate().for_each(|(l, v)| *v = variance[l * b + i]);
                let (value, slopes) = record.split_at_mut(1);
                let (in_mean, slopes) = slopes.split_at_mut(latents);
                let (in_variance, own) = slopes.split_at_mut(spreads);
                let slopes = Slopes { mean: in_mean, variance: in_variance, own };
                value[0] = match spreads == latents {
                    true => density.expectation(rows[i], Marginal { mean: &m, variance: &v }, slopes),
                    false => density.joint_expectation(rows[i], &m, &v, slopes),
                };
            }
        });
        records
    }

    /// `E[ln p(y_i | f_i)]` `[b]` for `f_i ~ N(mean [L, b], variance [L, b])`, or with covariances `[L L, b]`. It is
    /// differentiable in both, and in the own values `[P]` if there are any.
    pub fn expectations(self, mean: Tensor<2>, variance: Tensor<2>, own: Option<Tensor<1>>) -> Result<Tensor<1>> {
        let [latents, b] = mean.dims();
        let joint = latents > 1 && variance.dims() == [latents * latents, b];
        let want = [self.density.latents(), self.rows.len()];
        if [latents, b] != want || !(joint || variance.dims() == mean.dims()) {
            let got = format!("means {:?} and variances {:?}", mean.dims(), variance.dims());
            return Err(Error::shape("latent marginals", format!("{want:?}"), got));
        }
        let op = Expected { rows: self, spreads: variance.dims()[0] };
        match own {
            Some(own) => apply3(op, mean, variance, own),
            None => apply2(op, mean, variance),
        }
    }
}

struct Expected {
    rows: RowDensities,
    /// L for variances, L² for covariances.
    spreads: usize,
}

impl Expected {
    /// The values, and the gradients in means, variances and own parameters.
    fn value(
        &self,
        mean: TensorData,
        variance: TensorData,
    ) -> Result<(TensorData, impl FnOnce(TensorData) -> Result<[TensorData; 3]> + Send + use<>)> {
        let RowDensities { density, rows, own } = &self.rows;
        let (dtype, latents, b) = (mean.dtype(), density.latents(), rows.len());
        let (spreads, count) = (self.spreads, *own);
        let records = self.rows.records(&widened(mean)?, &widened(variance)?);
        let width = 1 + latents + spreads + count;
        let values: Vec<f64> = records.iter().step_by(width).copied().collect();
        let vjp = move |grad| {
            let grad = widened(grad)?;
            let column = |place: usize| {
                let slopes = records.iter().skip(place).step_by(width).zip(&grad);
                slopes.map(|(slope, g)| if *g == 0.0 { 0.0 } else { slope * g })
            };
            let block = |from: usize, count: usize| (from..from + count).flat_map(column).collect::<Vec<f64>>();
            let own: Vec<f64> = (0..count).map(|k| column(1 + latents + spreads + k).sum()).collect();
            Ok([
                narrowed(block(1, latents), &[latents, b], dtype),
                narrowed(block(1 + latents, spreads), &[spreads, b], dtype),
                narrowed(own, &[count], dtype),
            ])
        };
        Ok((narrowed(values, &[b], dtype), vjp))
    }
}

impl HostOp<2> for Expected {
    fn forward(self: Arc<Self>, [mean, variance]: [TensorData; 2]) -> Result<(TensorData, Vjp<2>)> {
        let (value, vjp) = self.value(mean, variance)?;
        Ok((value, Box::new(|grad, _needs| vjp(grad).map(|[mean, variance, _]| [Some(mean), Some(variance)]))))
    }
}

impl HostOp<3> for Expected {
    fn forward(self: Arc<Self>, [mean, variance, _]: [TensorData; 3]) -> Result<(TensorData, Vjp<3>)> {
        let (value, vjp) = self.value(mean, variance)?;
        Ok((value, Box::new(|grad, _needs| Ok(vjp(grad)?.map(Some)))))
    }
}
