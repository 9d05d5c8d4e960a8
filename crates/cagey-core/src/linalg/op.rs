//! The interface of operations with their own adjoints: on the host, and optionally on a GPU.

use std::sync::Arc;

#[cfg(feature = "gpu")]
use burn::backend::DispatchTensor;
use burn::tensor::TensorData;

use crate::error::{Error, Result};

/// The adjoint of one value of an operation: the gradient in each input with `needs[i]`, in that input's dtype, given
/// the gradient in the output. It owns what it needs of the forward pass.
///
/// An error becomes that of [`Scope::gradient`](crate::scope::Scope::gradient), and a gradient of NaN for callers of
/// burn.
pub type Vjp<const N: usize> = Box<dyn FnOnce(TensorData, [bool; N]) -> Result<[Option<TensorData>; N]> + Send>;

/// An operation on `N` float tensors with an analytic adjoint, on host buffers.
///
/// Inputs are f32 or f64, usually all of one dtype, and the output usually has the same dtype.
pub trait HostOp<const N: usize>: Send + Sync + 'static {
    /// The output, and its adjoint.
    fn forward(self: Arc<Self>, inputs: [TensorData; N]) -> Result<(TensorData, Vjp<N>)>;

    /// The same operation on the tensors of a GPU, if it has one.
    #[cfg(feature = "gpu")]
    fn on_device(&self) -> Option<OnDevice<N>> {
        None
    }
}

/// An operation that is also a `DeviceOp`.
pub struct Anywhere<O>(Arc<O>);

impl<O> Anywhere<O> {
    /// The operation, on the host or on a GPU.
    pub fn new(op: O) -> Self {
        Self(Arc::new(op))
    }
}

impl<const N: usize, O: HostOp<N> + DeviceOp<N>> HostOp<N> for Anywhere<O> {
    fn forward(self: Arc<Self>, inputs: [TensorData; N]) -> Result<(TensorData, Vjp<N>)> {
        HostOp::forward(self.0.clone(), inputs)
    }

    #[cfg(feature = "gpu")]
    fn on_device(&self) -> Option<OnDevice<N>> {
        let op = self.0.clone();
        Some(OnDevice { algebra: O::ALGEBRA, forward: Box::new(|inputs| DeviceOp::forward(op, inputs)) })
    }
}

/// The same as [`Vjp`] on tensors that stay on their GPU.
#[cfg(feature = "gpu")]
pub type DeviceVjp<const N: usize> =
    Box<dyn FnOnce(DispatchTensor, [bool; N]) -> Result<[Option<DispatchTensor>; N]> + Send>;

/// The forward function of a [`DeviceOp`], and whether it is dense algebra.
#[cfg(feature = "gpu")]
pub struct OnDevice<const N: usize> {
    pub(super) algebra: bool,
    pub(super) forward: Box<dyn FnOnce([DispatchTensor; N]) -> Result<(DispatchTensor, DeviceVjp<N>)>>,
}

/// An operation on tensors that stay on their GPU. The tensors record no gradients and may have any rank;
/// `Tensor::from_dispatch` gives them the expected rank.
#[cfg(feature = "gpu")]
pub trait DeviceOp<const N: usize>: Sized {
    /// Whether the operation is dense algebra on matrices whose order is the last dimension of its first input. If the
    /// device has no f64, [`Algebra`](crate::device::Algebra) decides where such operations run.
    const ALGEBRA: bool = true;

    /// The output, and its adjoint.
    fn forward(self: Arc<Self>, inputs: [DispatchTensor; N]) -> Result<(DispatchTensor, DeviceVjp<N>)>;
}

/// Without a GPU, any operation runs wherever it can.
#[cfg(not(feature = "gpu"))]
pub trait DeviceOp<const N: usize> {}

#[cfg(not(feature = "gpu"))]
impl<const N: usize, O: HostOp<N>> DeviceOp<N> for O {}

/// The results of `f` for all of an operation's tensors.
///
/// # Errors
/// Those of `f`.
pub(crate) fn try_map<const N: usize, A, B>(all: [A; N], f: impl FnMut(A) -> Result<B>) -> Result<[B; N]> {
    let all: Vec<B> = all.into_iter().map(f).collect::<Result<_>>()?;
    all.try_into().map_err(|_| Error::Device("an operation lost an input".into()))
}
