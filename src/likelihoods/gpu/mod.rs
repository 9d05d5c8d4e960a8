//! Expected log densities and their slopes in the memory of a GPU: one launch for all rows of a batch.

mod classes;
mod functions;
mod kernel;

use std::sync::Arc;

use burn::backend::cubecl::dtype_to_storage_type;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Cube, DispatchTensor};
use burn::cubecl::{CubeCount, CubeDim};
use burn::tensor::{DType, Shape, Tensor, TensorData};

use super::formula::Formula;
use super::shares::GUMBEL;
use super::targets::Auxiliary;
use super::{Likelihood, quadrature};
use crate::device::is_host;
use crate::device::transfers::upload;
use crate::error::{Error, Result};
use crate::linalg::host::{HostOp, Saved, apply2, apply3, recall};
use crate::linalg::on_device::{DeviceOp, primitive, tensor};
use kernel::Plan;

/// Rows of a cube.
const UNITS: usize = 64;

/// The most cubes along one axis of a launch.
const LINE: usize = 65_535;

/// The rows of a batch, and the likelihood's formula for them.
#[derive(Debug, Clone)]
pub struct Expected {
    plan: Plan,
    /// Nodes, weights and the numbers of the density.
    table: Vec<f64>,
    y: Tensor<1>,
    auxiliary: Option<Tensor<1>>,
}

/// A tensor without its record of operations.
fn plain<const D: usize>(tensor: &Tensor<D>) -> Tensor<D> {
    if tensor.is_autodiff() { tensor.clone().inner() } else { tensor.clone() }
}

impl Expected {
    /// For rows of a GPU in f32; none if the likelihood has no formula, or if the functions are correlated.
    pub fn new(
        likelihood: &(impl Likelihood + ?Sized),
        [mean, variance]: [&Tensor<2>; 2],
        y: &Tensor<1>,
        auxiliary: Option<&Tensor<1>>,
    ) -> Option<Self> {
        if is_host(&y.device()) {
            return None;
        }
        let (formula, numbers) = likelihood.density().formula()?;
        let own = likelihood.parameters().iter().map(|(_, p)| p.len()).sum();
        let rows = y.dims();
        let fits = mean.dims() == [formula.latents(), rows[0]] && variance.dims() == mean.dims();
        let single = mean.dtype() == DType::F32 && variance.dtype() == DType::F32 && y.dtype() == DType::F32;
        if !fits || !single || auxiliary.is_some_and(|auxiliary| auxiliary.dims() != rows) {
            return None;
        }
        let rule = match formula {
            Formula::Classes(classes) if classes > classes::MOST => return None,
            Formula::Classes(_) => &GUMBEL,
            _ => quadrature::rule(),
        };
        let (nodes, weights): (Vec<f64>, Vec<f64>) = rule.iter().copied().unzip();
        let auxiliary = auxiliary.filter(|_| formula.auxiliary() != Auxiliary::None).map(plain);
        let plan = Plan {
            formula,
            latents: formula.latents(),
            own,
            auxiliary: auxiliary.is_some(),
            neutral_zero: formula.auxiliary().neutral() == 0.0,
        };
        Some(Self { plan, table: [nodes, weights, numbers].concat(), y: plain(y), auxiliary })
    }

    /// The expected log densities `[b]`, differentiable in means and variances `[L, b]` and in the own parameters.
    pub fn values(self, mean: Tensor<2>, variance: Tensor<2>, own: Option<Tensor<1>>) -> Result<Tensor<1>> {
        match own {
            Some(own) => apply3(self, mean, variance, own),
            None => apply2(self, mean, variance),
        }
    }

    /// The slopes in the means `[L, b]`, and in the variances `[L, b]`.
    pub fn slopes(&self, mean: Tensor<2>, variance: Tensor<2>) -> Result<[Tensor<2>; 2]> {
        let records: Tensor<2> =
            Tensor::from_dispatch(tensor(self.records(mean.into_dispatch(), variance.into_dispatch())?));
        Ok([1, 1 + self.plan.latents].map(|first| records.clone().narrow(0, first, self.plan.latents)))
    }

    /// The kernel's records `[w, b]`.
    fn records(&self, mean: DispatchTensor, variance: DispatchTensor) -> Result<FloatTensor<Cube>> {
        let (mean, variance) = (primitive(mean)?, primitive(variance)?);
        let b = self.y.dims()[0];
        let count = self.table.len();
        let table: Tensor<1> = upload(TensorData::new(self.table.clone(), [count]), &self.y.device(), DType::F32);
        let y = primitive(self.y.clone().into_dispatch())?;
        let auxiliary =
            self.auxiliary.as_ref().map_or_else(|| Ok(y.clone()), |a| primitive(a.clone().into_dispatch()))?;
        let (client, shape) = (mean.client.clone(), Shape::from([self.plan.width(), b]));
        let buffer = client.empty(shape.num_elements() * mean.dtype.size());
        let out = FloatTensor::<Cube>::new_contiguous(client, mean.device.clone(), shape, buffer, mean.dtype);
        let (size, dtype) = (out.required_address_type(), dtype_to_storage_type(out.dtype));
        let table = primitive(table.into_dispatch())?.into_tensor_arg();
        let [mean, variance, y, records] = [mean, variance, y, out.clone()].map(FloatTensor::<Cube>::into_tensor_arg);
        if let Formula::Classes(classes) = self.plan.formula {
            // A cube for each row, in as many lines as a launch needs.
            let lines = b.div_ceil(LINE);
            let count = CubeCount::Static(b.div_ceil(lines) as u32, lines as u32, 1);
            let units = CubeDim::new_1d(classes::UNITS as u32);
            classes::expectations::launch(
                &out.client,
                count,
                units,
                size,
                mean,
                variance,
                y,
                table,
                records,
                classes,
                dtype,
            );
        } else {
            let auxiliary = auxiliary.into_tensor_arg();
            let count = CubeCount::Static(b.div_ceil(UNITS) as u32, 1, 1);
            let units = CubeDim::new_1d(UNITS as u32);
            kernel::expectations::launch(
                &out.client,
                count,
                units,
                size,
                mean,
                variance,
                y,
                auxiliary,
                table,
                records,
                self.plan,
                dtype,
            );
        }
        Ok(out)
    }
}

fn nowhere<T>() -> Result<T> {
    Err(Error::Device("an expectation of a GPU was asked of the host".into()))
}

/// Inputs are means, variances and, if there are any, own parameters; the values of those are in the table.
impl<const N: usize> HostOp<N> for Expected {
    fn forward(&self, _inputs: [TensorData; N]) -> Result<(TensorData, Saved)> {
        nowhere()
    }

    fn adjoint(&self, _saved: Saved, _grad: TensorData, _needs: [bool; N]) -> Result<[Option<TensorData>; N]> {
        nowhere()
    }

    fn on_device(&self) -> Option<&dyn DeviceOp<N>> {
        Some(self)
    }
}

impl<const N: usize> DeviceOp<N> for Expected {
    fn is_algebra(&self) -> bool {
        false
    }

    fn forward(&self, inputs: [DispatchTensor; N]) -> Result<(DispatchTensor, Saved)> {
        let mut inputs = inputs.into_iter();
        let (Some(mean), Some(variance)) = (inputs.next(), inputs.next()) else {
            return Err(Error::shape("an expectation", "means and variances", format!("{N} inputs")));
        };
        let records: Tensor<2> = Tensor::from_dispatch(tensor(self.records(mean, variance)?));
        let values = records.clone().narrow(0, 0, 1).reshape([self.y.dims()[0]]);
        Ok((values.into_dispatch(), Arc::new(records)))
    }

    fn adjoint(&self, saved: Saved, grad: DispatchTensor, _needs: [bool; N]) -> Result<[Option<DispatchTensor>; N]> {
        let (records, grad): (_, Tensor<1>) = (recall::<Tensor<2>>(saved)?, Tensor::from_dispatch(grad));
        let Plan { latents, own, .. } = self.plan;
        let slopes = records.as_ref().clone() * grad.unsqueeze_dim(0);
        Ok(std::array::from_fn(|input| match input {
            2 => Some(slopes.clone().narrow(0, 1 + 2 * latents, own).sum_dim(1).reshape([own]).into_dispatch()),
            _ => Some(slopes.clone().narrow(0, 1 + input * latents, latents).into_dispatch()),
        }))
    }
}
