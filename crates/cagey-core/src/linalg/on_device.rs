//! Runs operations on the tensors of a GPU: on the device, or on the host.

use std::sync::Arc;

use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{BackendTensor, Cube, Dispatch, DispatchKindConversion, DispatchTensor, TensorMetadata};
use burn::tensor::{DType, Device, Shape, Tensor, TensorData};

use super::host;
pub use super::op::{DeviceOp, DeviceVjp};
use super::op::{HostOp, OnDevice, try_map};
use crate::device::{self, DeviceKind, transfers};
use crate::error::{Error, Result};

/// A backend primitive as a tensor.
pub(crate) fn tensor(primitive: FloatTensor<Cube>) -> DispatchTensor {
    <DispatchTensor as DispatchKindConversion<Cube>>::from_backend(BackendTensor::Float(primitive))
}

/// The primitive of a tensor.
pub(crate) fn primitive(tensor: DispatchTensor) -> Result<FloatTensor<Cube>> {
    let tensor = <DispatchTensor as DispatchKindConversion<Cube>>::try_into_backend(tensor);
    tensor.map(BackendTensor::float).map_err(|e| Error::Device(format!("an operation left its device: {e}")))
}

/// A tensor to write to, on the device and of the type of another.
pub(crate) fn empty(like: &FloatTensor<Cube>, shape: impl Into<Shape>) -> FloatTensor<Cube> {
    let (client, shape) = (like.client.clone(), shape.into());
    let buffer = client.empty(shape.num_elements() * like.dtype.size());
    FloatTensor::<Cube>::new_contiguous(client, like.device.clone(), shape, buffer, like.dtype)
}

/// Matrices `[.., n, t]` as a batch `[b, n, t]`.
///
/// # Errors
/// [`Error::Shape`] for fewer than two dimensions.
pub(crate) fn batch(tensor: DispatchTensor, what: &str) -> Result<Tensor<3>> {
    let shape = tensor.shape();
    let &[.., rows, columns] = shape.as_slice() else {
        return Err(Error::shape(what, "a matrix", format!("{:?}", shape.as_slice())));
    };
    let count = shape.num_elements() / (rows * columns).max(1);
    Ok(Tensor::from_dispatch(shaped(tensor, &[count, rows, columns])))
}

/// The same numbers in another shape.
pub(crate) fn shaped(tensor: DispatchTensor, shape: &[usize]) -> DispatchTensor {
    <Dispatch as FloatTensorOps<Dispatch>>::float_reshape(tensor, Shape::from(shape.to_vec()))
}

/// Whether a device has f64 arithmetic.
fn has_f64(device: &Device) -> bool {
    DeviceKind::of(device).is_some_and(|kind| kind.has_f64(device))
}

/// Runs the operation, on the device if it can; its adjoint runs where it ran.
pub(super) fn forward<const N: usize>(
    op: Arc<dyn HostOp<N>>,
    inputs: [DispatchTensor; N],
) -> Result<(DispatchTensor, DeviceVjp<N>)> {
    let device = Device::new(inputs[0].device());
    let wide = has_f64(&device);
    if let Some(OnDevice { algebra, forward }) = op.on_device() {
        let order = inputs[0].shape().as_slice().last().copied().unwrap_or_default();
        // If the right-hand sides hold more numbers than the matrices, they stay on the device.
        let rest: usize = inputs[1..].iter().map(|input| input.shape().num_elements()).sum();
        let many = rest > inputs[0].shape().num_elements();
        if wide || !algebra || many || device::algebra().stays_on_device(order) {
            return forward(inputs);
        }
    }
    let dtypes = inputs.each_ref().map(|input| input.dtype());
    let (output, vjp) = op.forward(try_map(inputs, |input| Ok(widened(read(input)?, wide)))?)?;
    let dtype = if wide { output.dtype() } else { DType::F32 };
    let output = upload(output, &device, dtype);
    let reverse = move |grad: DispatchTensor, needs| {
        let gradients = vjp(widened(read(grad)?, wide), needs)?;
        let mut dtypes = dtypes.into_iter();
        Ok(gradients.map(|gradient| {
            let dtype = dtypes.next().unwrap_or(DType::F32);
            gradient.map(|gradient| upload(gradient, &device, dtype))
        }))
    };
    Ok((output, Box::new(reverse)))
}

/// Numbers for the host, in f64 if the device lacks it.
fn widened(data: TensorData, wide: bool) -> TensorData {
    if wide { data } else { data.convert_dtype(DType::F64) }
}

fn read(tensor: DispatchTensor) -> Result<TensorData> {
    transfers::came_down(tensor.shape().num_elements() * tensor.dtype().size());
    host::read::<Dispatch>(tensor)
}

fn upload(data: TensorData, device: &Device, dtype: DType) -> DispatchTensor {
    transfers::went_up(data.num_elements() * dtype.size());
    let data = data.convert_dtype(dtype);
    <Dispatch as FloatTensorOps<Dispatch>>::float_from_data(data, device.as_dispatch())
}
