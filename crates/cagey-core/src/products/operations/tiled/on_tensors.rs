//! Matrix operations written on tensors; they run on the device of the tensors.

use std::sync::Arc;

#[cfg(feature = "gpu")]
use burn::backend::DispatchTensor;
use burn::tensor::{Device, Tensor, TensorData};

use crate::device::Compute;
use crate::device::transfers::read;
use crate::error::Result;
use crate::linalg::host::{HostOp, Vjp, try_map};
#[cfg(feature = "gpu")]
use crate::linalg::on_device::{DeviceOp, DeviceVjp};

/// An operation on four matrices, with its adjoint, on tensors that record no gradients.
pub trait TensorOp: Send + Sync + 'static {
    /// The device for matrices that come as host buffers.
    fn compute(&self) -> Compute;

    /// The output.
    fn value(&self, inputs: &[Tensor<2>; 4]) -> Result<Tensor<2>>;

    /// The gradients in the inputs, given the gradient in the output.
    fn slopes(&self, inputs: &[Tensor<2>; 4], grad: Tensor<2>) -> Result<[Option<Tensor<2>>; 4]>;
}

/// Makes such an operation a `HostOp` and a `DeviceOp`.
#[derive(Debug)]
pub struct OnTensors<O>(pub O);

impl<O: TensorOp> HostOp<4> for OnTensors<O> {
    fn forward(self: Arc<Self>, inputs: [TensorData; 4]) -> Result<(TensorData, Vjp<4>)> {
        let device = self.0.compute().device()?;
        let tensor = |data: TensorData, device: &Device| {
            let dtype = data.dtype();
            Tensor::<2>::from_data(data, (device, dtype))
        };
        let inputs = inputs.map(|data| tensor(data, &device));
        let value = self.0.value(&inputs)?;
        let vjp = move |grad, _needs| {
            let slopes = self.0.slopes(&inputs, tensor(grad, &device))?;
            try_map(slopes, |slope| slope.map(read).transpose())
        };
        Ok((read(value)?, Box::new(vjp)))
    }
}

#[cfg(feature = "gpu")]
impl<O: TensorOp> DeviceOp<4> for OnTensors<O> {
    const ALGEBRA: bool = false;

    fn forward(self: Arc<Self>, inputs: [DispatchTensor; 4]) -> Result<(DispatchTensor, DeviceVjp<4>)> {
        let inputs = inputs.map(Tensor::<2>::from_dispatch);
        let value = self.0.value(&inputs)?.into_dispatch();
        let vjp = move |grad, _needs| {
            let slopes = self.0.slopes(&inputs, Tensor::from_dispatch(grad))?;
            Ok(slopes.map(|slope| slope.map(Tensor::into_dispatch)))
        };
        Ok((value, Box::new(vjp)))
    }
}
