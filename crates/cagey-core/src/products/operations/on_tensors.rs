//! Matrix operations written on tensors; they run on the device of the tensors.

use std::fmt::Debug;
use std::sync::Arc;

#[cfg(feature = "gpu")]
use burn::backend::DispatchTensor;
use burn::tensor::{Tensor, TensorData};

use crate::device::Compute;
use crate::device::transfers::read;
use crate::error::Result;
use crate::linalg::host::{HostOp, Saved, recall};
#[cfg(feature = "gpu")]
use crate::linalg::on_device::DeviceOp;

/// An operation on `N` matrices, with its adjoint, on tensors that record no gradients.
pub trait TensorOp<const N: usize>: Debug + Send + Sync + 'static {
    /// The device for matrices that come as host buffers.
    fn compute(&self) -> Compute;

    /// The output.
    fn value(&self, inputs: &[Tensor<2>; N]) -> Result<Tensor<2>>;

    /// The gradients in the inputs, given the gradient in the output.
    fn slopes(&self, inputs: &[Tensor<2>; N], grad: Tensor<2>) -> Result<[Option<Tensor<2>>; N]>;
}

/// Makes such an operation a `HostOp` and a `DeviceOp`.
#[derive(Debug)]
pub struct OnTensors<O>(pub O);

impl<const N: usize, O: TensorOp<N>> HostOp<N> for OnTensors<O> {
    fn forward(&self, inputs: [TensorData; N]) -> Result<(TensorData, Saved)> {
        let device = self.0.compute().device()?;
        let inputs = inputs.map(|data| {
            let dtype = data.dtype();
            Tensor::<2>::from_data(data, (&device, dtype))
        });
        let value = self.0.value(&inputs)?;
        Ok((read(value)?, Arc::new(inputs)))
    }

    fn adjoint(&self, saved: Saved, grad: TensorData, _needs: [bool; N]) -> Result<[Option<TensorData>; N]> {
        let (device, dtype) = (self.0.compute().device()?, grad.dtype());
        let inputs = recall::<[Tensor<2>; N]>(saved)?;
        let slopes = self.0.slopes(&inputs, Tensor::from_data(grad, (&device, dtype)))?;
        let mut all = [const { None }; N];
        for (to, from) in all.iter_mut().zip(slopes) {
            *to = from.map(read).transpose()?;
        }
        Ok(all)
    }

    #[cfg(feature = "gpu")]
    fn on_device(&self) -> Option<&dyn DeviceOp<N>> {
        Some(self)
    }
}

#[cfg(feature = "gpu")]
impl<const N: usize, O: TensorOp<N>> DeviceOp<N> for OnTensors<O> {
    fn is_algebra(&self) -> bool {
        false
    }

    fn forward(&self, inputs: [DispatchTensor; N]) -> Result<(DispatchTensor, Saved)> {
        let inputs = inputs.map(Tensor::<2>::from_dispatch);
        Ok((self.0.value(&inputs)?.into_dispatch(), Arc::new(inputs)))
    }

    fn adjoint(&self, saved: Saved, grad: DispatchTensor, _needs: [bool; N]) -> Result<[Option<DispatchTensor>; N]> {
        let inputs = recall::<[Tensor<2>; N]>(saved)?;
        let slopes = self.0.slopes(&inputs, Tensor::from_dispatch(grad))?;
        Ok(slopes.map(|slope| slope.map(Tensor::into_dispatch)))
    }
}
