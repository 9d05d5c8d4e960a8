//! Expected log densities and their slopes in the memory of a GPU, in f32: one launch for all rows of a batch, or a few
//! for each part of it if latent functions are correlated.

mod axes;
mod classes;
mod functions;
mod grid;
mod joint;
mod kernel;
mod lattice;

use std::sync::Arc;

use burn::backend::cubecl::dtype_to_storage_type;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Cube, DispatchTensor};
use burn::cubecl::{CubeCount, CubeDim};
use burn::tensor::{DType, Tensor, TensorData};

use super::formula::Formula;
use super::shares::GUMBEL;
use super::targets::Auxiliary;
use super::{Likelihood, quadrature};
use crate::device::is_host;
use crate::device::transfers::upload;
use crate::error::{Error, Result};
use crate::linalg::host::{HostOp, Saved, apply2, apply3, recall};
use crate::linalg::on_device::{DeviceOp, empty, primitive, tensor};
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
    /// Bytes of work space for correlated functions.
    budget: usize,
}

/// A cube for each row, in as many lines as a launch needs.
fn cubes(rows: usize) -> CubeCount {
    let lines = rows.div_ceil(LINE);
    CubeCount::Static(rows.div_ceil(lines) as u32, lines as u32, 1)
}

/// A tensor without its record of operations.
fn plain<const D: usize>(tensor: &Tensor<D>) -> Tensor<D> {
    if tensor.is_autodiff() { tensor.clone().inner() } else { tensor.clone() }
}

impl Expected {
    /// For data of a GPU in f32; none if the likelihood has no formula. `dims` are the dimensions of the means, and of
    /// variances or covariances. With correlated functions, the work space takes at most `budget` bytes.
    pub fn new(
        likelihood: &(impl Likelihood + ?Sized),
        dims: [[usize; 2]; 2],
        y: &Tensor<1>,
        auxiliary: Option<&Tensor<1>>,
        budget: usize,
    ) -> Option<Self> {
        if is_host(&y.device()) || y.dtype() != DType::F32 {
            return None;
        }
        let (formula, numbers) = likelihood.density().formula()?;
        let own = likelihood.parameters().iter().map(|(_, p)| p.len()).sum();
        let (rows, [of_mean, [spreads, of_spread]]) = (y.dims(), dims);
        let latents = formula.latents();
        let joint = matches!(formula, Formula::Classes(_)) && spreads == latents * latents;
        let fits = of_mean == [latents, rows[0]] && of_spread == rows[0] && (spreads == latents || joint);
        if !fits || !formula.fits_gpu() || auxiliary.is_some_and(|auxiliary| auxiliary.dims() != rows) {
            return None;
        }
        let rule = match formula {
            Formula::Classes(_) => &GUMBEL,
            _ => quadrature::rule(),
        };
        let (nodes, weights): (Vec<f64>, Vec<f64>) = rule.iter().copied().unzip();
        let auxiliary = auxiliary.filter(|_| formula.auxiliary() != Auxiliary::None).map(plain);
        let plan = Plan {
            formula,
            latents,
            spreads,
            own,
            auxiliary: auxiliary.is_some(),
            neutral_zero: formula.auxiliary().neutral() == 0.0,
        };
        Some(Self { plan, table: [nodes, weights, numbers].concat(), y: plain(y), auxiliary, budget })
    }

    /// The expected log densities `[b]`, in the type of the means. Differentiable in means `[L, b]`, in variances
    /// `[L, b]` or covariances `[L L, b]`, and in the own parameters.
    pub fn values(self, mean: Tensor<2>, spread: Tensor<2>, own: Option<Tensor<1>>) -> Result<Tensor<1>> {
        let (wide, [mean, spread]) = (mean.dtype(), [mean, spread].map(|of| of.cast(DType::F32)));
        let values: Tensor<1> = match own {
            Some(own) => apply3(self, mean, spread, own.cast(DType::F32)),
            None => apply2(self, mean, spread),
        }?;
        Ok(values.cast(wide))
    }

    /// The slopes in the means `[L, b]`, and in the variances `[L, b]` or covariances `[L L, b]`.
    pub fn slopes(&self, mean: Tensor<2>, spread: Tensor<2>) -> Result<[Tensor<2>; 2]> {
        let Plan { latents, spreads, .. } = self.plan;
        let records = self.records([mean, spread].map(|of| of.cast(DType::F32)))?;
        Ok([(1, latents), (1 + latents, spreads)].map(|(first, count)| records.clone().narrow(0, first, count)))
    }

    /// The records `[w, b]`: values, then slopes in means, in variances or covariances, and in own parameters.
    fn records(&self, [mean, spread]: [Tensor<2>; 2]) -> Result<Tensor<2>> {
        if self.plan.spreads == self.plan.latents {
            return self.launched([mean, spread], &self.y);
        }
        let apart = Self { plan: Plan { spreads: self.plan.latents, ..self.plan }, ..self.clone() };
        joint::records([mean, spread], &self.y, self.budget, |marginals, y| apart.launched(marginals, y))
    }

    /// The kernel's records `[w, b]`, for independent functions and targets `y [b]`.
    fn launched(&self, marginals: [Tensor<2>; 2], y: &Tensor<1>) -> Result<Tensor<2>> {
        let [mean, variance] = marginals.map(|of| primitive(of.into_dispatch()));
        let (mean, variance, b) = (mean?, variance?, y.dims()[0]);
        let count = self.table.len();
        let table: Tensor<1> = upload(TensorData::new(self.table.clone(), [count]), &y.device(), DType::F32);
        let y = primitive(y.clone().into_dispatch())?;
        let auxiliary =
            self.auxiliary.as_ref().map_or_else(|| Ok(y.clone()), |a| primitive(a.clone().into_dispatch()))?;
        let out = empty(&mean, [self.plan.width(), b]);
        let (size, dtype) = (out.required_address_type(), dtype_to_storage_type(out.dtype));
        let table = primitive(table.into_dispatch())?.into_tensor_arg();
        let [mean, variance, y, records] = [mean, variance, y, out.clone()].map(FloatTensor::<Cube>::into_tensor_arg);
        if let Formula::Classes(classes) = self.plan.formula {
            let units = CubeDim::new_1d(classes::UNITS as u32);
            classes::expectations::launch(
                &out.client,
                cubes(b),
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
        Ok(Tensor::from_dispatch(tensor(out)))
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
        let records = self.records([mean, variance].map(Tensor::from_dispatch))?;
        let values = records.clone().narrow(0, 0, 1).reshape([self.y.dims()[0]]);
        Ok((values.into_dispatch(), Arc::new(records)))
    }

    fn adjoint(&self, saved: Saved, grad: DispatchTensor, _needs: [bool; N]) -> Result<[Option<DispatchTensor>; N]> {
        let (records, grad): (_, Tensor<1>) = (recall::<Tensor<2>>(saved)?, Tensor::from_dispatch(grad));
        let Plan { latents, spreads, own, .. } = self.plan;
        let slopes = records.as_ref().clone() * grad.unsqueeze_dim(0);
        Ok(std::array::from_fn(|input| match input {
            0 => Some(slopes.clone().narrow(0, 1, latents).into_dispatch()),
            1 => Some(slopes.clone().narrow(0, 1 + latents, spreads).into_dispatch()),
            _ => Some(slopes.clone().narrow(0, 1 + latents + spreads, own).sum_dim(1).reshape([own]).into_dispatch()),
        }))
    }
}
