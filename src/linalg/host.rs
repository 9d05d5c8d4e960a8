//! The seam for operations with an adjoint of their own: computed on the host, on tensors of any device.
//!
//! burn has no Cholesky factorisation, no triangular solve and no fused covariance. Each such operation is a
//! [`HostOp`]: a forward function on plain buffers and an analytic adjoint. On the CPU devices the buffers are the
//! tensors' own memory (no copy when the tensor is not shared); on a GPU they are read back and the result is uploaded.

use std::sync::{Arc, Mutex, PoisonError};

use burn::backend::autodiff::{
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn::backend::{Autodiff, Backend, Dispatch, TensorMetadata, backend_extension, tensor::FloatTensor};
use burn::tensor::{DType, Tensor, TensorData};

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
}

/// A running operation: the rule, the device-independent output of a failed forward, and the place for its error.
#[derive(Debug, Clone)]
struct Call<const N: usize> {
    op: Arc<dyn HostOp<N>>,
    error: Arc<Mutex<Option<Error>>>,
}

impl<const N: usize> Call<N> {
    fn run<B: Backend>(&self, inputs: [FloatTensor<B>; N]) -> (FloatTensor<B>, Option<Saved>) {
        let device = inputs[0].device();
        let dtype = inputs[0].dtype();
        let outcome = read_all::<B, N>(inputs).and_then(|data| self.op.forward(data));
        match outcome {
            Ok((data, saved)) => (B::float_from_data(data, &device), Some(saved)),
            Err(error) => {
                *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                (B::float_from_data(nan(&[1], dtype), &device), None)
            }
        }
    }
}

fn nan(shape: &[usize], dtype: DType) -> TensorData {
    TensorData::full(shape.to_vec(), f64::NAN).convert_dtype(dtype)
}

fn read_all<B: Backend, const N: usize>(inputs: [FloatTensor<B>; N]) -> Result<[TensorData; N]> {
    let mut data = Vec::with_capacity(N);
    for input in inputs {
        data.push(read::<B>(input)?);
    }
    data.try_into().map_err(|_| Error::Device("an operation lost an input".into()))
}

fn read<B: Backend>(tensor: FloatTensor<B>) -> Result<TensorData> {
    burn::tensor::try_read_sync(B::float_into_data(tensor))
        .ok_or_else(|| Error::Device("this device cannot be read synchronously".into()))?
        .map_err(|e| Error::Device(format!("reading a tensor back failed: {e:?}")))
}

/// Backend side of [`HostOp`]: the default bodies serve every backend.
#[backend_extension(
    Flex: cfg(feature = "flex"),
    NdArray: cfg(feature = "ndarray"),
    Cube: cfg(any(feature = "wgpu", feature = "cuda")),
    Autodiff
)]
trait HostOps: Backend {
    fn host1(a: FloatTensor<Self>, call: Call<1>) -> FloatTensor<Self> {
        call.run::<Self>([a]).0
    }
    fn host2(a: FloatTensor<Self>, b: FloatTensor<Self>, call: Call<2>) -> FloatTensor<Self> {
        call.run::<Self>([a, b]).0
    }
    fn host3(a: FloatTensor<Self>, b: FloatTensor<Self>, c: FloatTensor<Self>, call: Call<3>) -> FloatTensor<Self> {
        call.run::<Self>([a, b, c]).0
    }
    fn host4(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        d: FloatTensor<Self>,
        call: Call<4>,
    ) -> FloatTensor<Self> {
        call.run::<Self>([a, b, c, d]).0
    }
    fn host5(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        d: FloatTensor<Self>,
        e: FloatTensor<Self>,
        call: Call<5>,
    ) -> FloatTensor<Self> {
        call.run::<Self>([a, b, c, d, e]).0
    }
}

#[cfg(feature = "flex")]
impl HostOps for burn::backend::Flex {}
#[cfg(feature = "ndarray")]
impl HostOps for burn::backend::NdArray {}
#[cfg(any(feature = "wgpu", feature = "cuda"))]
impl HostOps for burn::backend::Cube {}

impl<B: HostOps, C: CheckpointStrategy> HostOps for Autodiff<B, C> {
    fn host1(a: FloatTensor<Self>, call: Call<1>) -> FloatTensor<Self> {
        tracked::<B, C, 1>([a], call)
    }
    fn host2(a: FloatTensor<Self>, b: FloatTensor<Self>, call: Call<2>) -> FloatTensor<Self> {
        tracked::<B, C, 2>([a, b], call)
    }
    fn host3(a: FloatTensor<Self>, b: FloatTensor<Self>, c: FloatTensor<Self>, call: Call<3>) -> FloatTensor<Self> {
        tracked::<B, C, 3>([a, b, c], call)
    }
    fn host4(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        d: FloatTensor<Self>,
        call: Call<4>,
    ) -> FloatTensor<Self> {
        tracked::<B, C, 4>([a, b, c, d], call)
    }
    fn host5(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        d: FloatTensor<Self>,
        e: FloatTensor<Self>,
        call: Call<5>,
    ) -> FloatTensor<Self> {
        tracked::<B, C, 5>([a, b, c, d, e], call)
    }
}

#[derive(Debug)]
struct Adjoint;

#[derive(Debug, Clone)]
struct State<const N: usize> {
    call: Call<N>,
    saved: Option<Saved>,
    shapes: [Vec<usize>; N],
    dtypes: [DType; N],
}

fn tracked<B: Backend, C: CheckpointStrategy, const N: usize>(
    inputs: [FloatTensor<Autodiff<B, C>>; N],
    call: Call<N>,
) -> FloatTensor<Autodiff<B, C>> {
    let shapes = inputs.each_ref().map(|t| t.shape().to_vec());
    let nodes = inputs.each_ref().map(|t| t.node());
    let dtypes = inputs.each_ref().map(|t| t.dtype());
    match Backward::<B, N>::prepare::<C>(Adjoint, nodes).compute_bound().stateful() {
        OpsKind::Tracked(prep) => {
            let (output, saved) = call.run::<B>(inputs.map(|t| t.into_primitive()));
            prep.finish(State { call, saved, shapes, dtypes }, output)
        }
        OpsKind::UnTracked(prep) => prep.finish(call.run::<B>(inputs.map(|t| t.into_primitive())).0),
    }
}

impl<B: Backend, const N: usize> Backward<B, N> for Adjoint {
    type State = State<N>;

    fn backward(self, ops: Ops<State<N>, N>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        let device = grad.device();
        let State { call, saved, shapes, dtypes } = ops.state;
        let needs = ops.parents.each_ref().map(Option::is_some);
        let gradients = saved
            .ok_or_else(|| Error::NotFinite("the output of a failed operation".into()))
            .and_then(|saved| call.op.adjoint(saved, read::<B>(grad)?, needs))
            .unwrap_or_else(|_| std::array::from_fn(|i| needs[i].then(|| nan(&shapes[i], dtypes[i]))));
        for (parent, gradient) in ops.parents.into_iter().zip(gradients) {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                grads.register::<B>(parent.id, B::float_from_data(gradient, &device));
            }
        }
    }
}

fn call<const N: usize, const D: usize>(
    op: impl HostOp<N>,
    run: impl FnOnce(Call<N>) -> FloatTensor<Dispatch>,
) -> Result<Tensor<D>> {
    let call = Call { op: Arc::new(op) as Arc<dyn HostOp<N>>, error: Arc::default() };
    let error = call.error.clone();
    let output = run(call);
    match error.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(error) => Err(error),
        None => Ok(Tensor::from_dispatch(output)),
    }
}

/// Applies an operation of one tensor.
pub fn apply1<const A: usize, const D: usize>(op: impl HostOp<1>, a: Tensor<A>) -> Result<Tensor<D>> {
    call(op, |call| Dispatch::host1(a.into_dispatch(), call))
}

/// Applies an operation of two tensors.
pub fn apply2<const A: usize, const B: usize, const D: usize>(
    op: impl HostOp<2>,
    a: Tensor<A>,
    b: Tensor<B>,
) -> Result<Tensor<D>> {
    call(op, |call| Dispatch::host2(a.into_dispatch(), b.into_dispatch(), call))
}

/// Applies an operation of three tensors.
pub fn apply3<const A: usize, const B: usize, const C: usize, const D: usize>(
    op: impl HostOp<3>,
    a: Tensor<A>,
    b: Tensor<B>,
    c: Tensor<C>,
) -> Result<Tensor<D>> {
    call(op, |call| Dispatch::host3(a.into_dispatch(), b.into_dispatch(), c.into_dispatch(), call))
}

/// Applies an operation of four tensors.
pub fn apply4<const A: usize, const B: usize, const C: usize, const E: usize, const D: usize>(
    op: impl HostOp<4>,
    a: Tensor<A>,
    b: Tensor<B>,
    c: Tensor<C>,
    d: Tensor<E>,
) -> Result<Tensor<D>> {
    call(op, |call| Dispatch::host4(a.into_dispatch(), b.into_dispatch(), c.into_dispatch(), d.into_dispatch(), call))
}

/// Applies an operation of five tensors.
pub fn apply5<const A: usize, const B: usize, const C: usize, const E: usize, const F: usize, const D: usize>(
    op: impl HostOp<5>,
    a: Tensor<A>,
    b: Tensor<B>,
    c: Tensor<C>,
    d: Tensor<E>,
    e: Tensor<F>,
) -> Result<Tensor<D>> {
    let run = |call| {
        let (a, b, c) = (a.into_dispatch(), b.into_dispatch(), c.into_dispatch());
        Dispatch::host5(a, b, c, d.into_dispatch(), e.into_dispatch(), call)
    };
    call(op, run)
}
