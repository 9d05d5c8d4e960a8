//! Matrix operations written on tensors; they run on the device of the tensors.

use std::sync::Arc;

#[cfg(feature = "gpu")]
use burn::backend::DispatchTensor;
use burn::tensor::{Device, Tensor, TensorData};

use crate::device::Compute;
use crate::device::transfers::read;
use crate::error::Result;
use crate::linalg::host::{HostOp, Vjp};
#[cfg(feature = "gpu")]
use crate::linalg::on_device::{DeviceOp, DeviceVjp};

/// An operation on `N` matrices, with its adjoint, on tensors that record no gradients.
pub trait TensorOp<const N: usize>: Send + Sync + 'static {
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
    fn forward(self: Arc<Self>, inputs: [TensorData; N]) -> Result<(TensorData, Vjp<N>)> {
        let device = self.0.compute().device()?;
        let tensor = |data: TensorData, device: &Device| {
            let dtype = data.dtype();
            Tensor::<2>::from_data(data, (device, dtype))
        };
        let inputs = inputs.map(|data| tensor(data, &device));
        let value = self.0.value(&inputs)?;
        let vjp = move |grad, _needs| {
            let mut all = [const { None }; N];
            for (to, from) in all.iter_mut().zip(self.0.slopes(&inputs, tensor(grad, &device))?) {
                *to = from.map(read).transpose()?;
            }
            Ok(all)
        };
        Ok((read(value)?, Box::new(vjp)))
    }

    #[cfg(feature = "gpu")]
    fn on_device(self: Arc<Self>) -> Option<Arc<dyn DeviceOp<N>>> {
        Some(self)
    }
}

#[cfg(feature = "gpu")]
impl<const N: usize, O: TensorOp<N>> DeviceOp<N> for OnTensors<O> {
    fn is_algebra(&self) -> bool {
        false
    }

    fn forward(self: Arc<Self>, inputs: [DispatchTensor; N]) -> Result<(DispatchTensor, DeviceVjp<N>)> {
        let inputs = inputs.map(Tensor::<2>::from_dispatch);
        let value = self.0.value(&inputs)?.into_dispatch();
        let vjp = move |grad, _needs| {
            let slopes = self.0.slopes(&inputs, Tensor::from_dispatch(grad))?;
            Ok(slopes.map(|slope| slope.map(Tensor::into_dispatch)))
        };
        Ok((value, Box::new(vjp)))
    }
}
