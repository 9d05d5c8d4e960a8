//! What an operation with an adjoint of its own is: on the host, and perhaps on a GPU.

use std::sync::Arc;

#[cfg(feature = "gpu")]
use burn::backend::DispatchTensor;
use burn::tensor::TensorData;

use crate::error::{Error, Result};

/// Anything an operation keeps from its forward pass for its adjoint.
pub type Saved = Arc<dyn std::any::Any + Send + Sync>;

/// What a saved value was saved as.
///
/// # Errors
/// [`Error::Device`] when it was saved as something else.
pub fn recall<K: Send + Sync + 'static>(saved: Saved) -> Result<Arc<K>> {
    saved.downcast().map_err(|_| Error::Device("the gradient came in another dtype than the value".into()))
}

/// An operation of `N` float tensors with an analytic adjoint, on host buffers.
///
/// Inputs are f32 or f64, as a rule all of one dtype. The output usually has the same; the adjoint gets the gradient in
/// the output's dtype and returns gradients in the inputs'.
pub trait HostOp<const N: usize>: std::fmt::Debug + Send + Sync + 'static {
    /// The output, and what the adjoint needs.
    fn forward(&self, inputs: [TensorData; N]) -> Result<(TensorData, Saved)>;

    /// The adjoint: for each input with `needs[i]`, the gradient, given the output's gradient.
    ///
    /// An error becomes a NaN gradient, which every optimiser of this crate rejects.
    fn adjoint(&self, saved: Saved, grad: TensorData, needs: [bool; N]) -> Result<[Option<TensorData>; N]>;

    /// The same operation on the tensors of a GPU, if it has one.
    #[cfg(feature = "gpu")]
    fn on_device(&self) -> Option<&dyn DeviceOp<N>> {
        None
    }
}

/// An operation on tensors that stay on their GPU, and its adjoint. They record no gradients and may have any rank:
/// `Tensor::from_dispatch` gives them the one that is expected.
#[cfg(feature = "gpu")]
pub trait DeviceOp<const N: usize> {
    /// Whether the operation is dense algebra on matrices whose order is the last dimension of its first input: for
    /// those [`Algebra`](crate::device::Algebra) says where they run when the device has no f64.
    fn is_algebra(&self) -> bool {
        true
    }

    /// The output, and what the adjoint needs.
    fn forward(&self, inputs: [DispatchTensor; N]) -> Result<(DispatchTensor, Saved)>;

    /// The gradient in each input with `needs[i]`, given that in the output.
    fn adjoint(&self, saved: Saved, grad: DispatchTensor, needs: [bool; N]) -> Result<[Option<DispatchTensor>; N]>;
}
