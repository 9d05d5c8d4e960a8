//! The interface of operations with their own adjoints: on the host, and optionally on a GPU.

use std::sync::Arc;

#[cfg(feature = "gpu")]
use burn::backend::DispatchTensor;
use burn::tensor::TensorData;

use crate::error::{Error, Result};

/// The state that an operation keeps from its forward pass for its adjoint.
pub type Saved = Arc<dyn std::any::Any + Send + Sync>;

/// The saved state as its original type.
///
/// # Errors
/// [`Error::Device`] when it was saved as another type.
pub fn recall<K: Send + Sync + 'static>(saved: Saved) -> Result<Arc<K>> {
    saved.downcast().map_err(|_| Error::Device("the gradient came in another dtype than the value".into()))
}

/// An operation on `N` float tensors with an analytic adjoint, on host buffers.
///
/// Inputs are f32 or f64, usually all of one dtype, and the output usually has the same dtype. The adjoint gets the
/// gradient in the output's dtype and returns gradients in the inputs' dtypes.
pub trait HostOp<const N: usize>: std::fmt::Debug + Send + Sync + 'static {
    /// The output, and what the adjoint needs.
    fn forward(&self, inputs: [TensorData; N]) -> Result<(TensorData, Saved)>;

    /// The adjoint: the gradient for each input with `needs[i]`, given the output's gradient.
    ///
    /// An error becomes that of [`Scope::gradient`](crate::scope::Scope::gradient), and a gradient of NaN for callers
    /// of burn.
    fn adjoint(&self, saved: Saved, grad: TensorData, needs: [bool; N]) -> Result<[Option<TensorData>; N]>;

    /// The same operation on the tensors of a GPU, if it has one.
    #[cfg(feature = "gpu")]
    fn on_device(&self) -> Option<&dyn DeviceOp<N>> {
        None
    }
}

/// An operation on tensors that stay on their GPU, and its adjoint. The tensors record no gradients and may have any
/// rank; `Tensor::from_dispatch` gives them the expected rank.
#[cfg(feature = "gpu")]
pub trait DeviceOp<const N: usize> {
    /// Whether the operation is dense algebra on matrices whose order is the last dimension of its first input. If the
    /// device has no f64, [`Algebra`](crate::device::Algebra) decides where such operations run.
    fn is_algebra(&self) -> bool {
        true
    }

    /// The output, and what the adjoint needs.
    fn forward(&self, inputs: [DispatchTensor; N]) -> Result<(DispatchTensor, Saved)>;

    /// The gradient in each input with `needs[i]`, given the gradient in the output.
    fn adjoint(&self, saved: Saved, grad: DispatchTensor, needs: [bool; N]) -> Result<[Option<DispatchTensor>; N]>;
}
