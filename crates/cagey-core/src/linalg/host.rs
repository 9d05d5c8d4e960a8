//! The interface for operations with their own adjoints: computed on the host, for tensors of any device.
//!
//! burn has no Cholesky factorisation, no triangular solve and no fused covariance. Each such operation is a
//! [`HostOp`]: a forward function on plain buffers and an analytic adjoint. On the CPU devices the buffers are the
//! tensors' own memory (no copy if the tensor is not shared). On a GPU an operation with a `DeviceOp` stays there. For
//! other operations the buffers are read back (in f64 if the device lacks it), and the result is uploaded.

use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use burn::backend::autodiff::{
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn::backend::{Autodiff, Backend, Dispatch, TensorMetadata, backend_extension, tensor::FloatTensor};
use burn::tensor::{DType, Tensor, TensorData};

#[cfg(feature = "gpu")]
use super::on_device;
pub(crate) use super::op::try_map;
pub use super::op::{Anywhere, HostOp, Vjp};
use crate::error::{Error, Result};

/// A running operation: the rule, and a place for its error.
#[derive(Clone)]
struct Call<const N: usize> {
    op: Arc<dyn HostOp<N>>,
    error: Arc<Mutex<Option<Error>>>,
}

/// The adjoint of an operation on the tensors of a backend.
type Reverse<B, const N: usize> =
    Box<dyn FnOnce(FloatTensor<B>, [bool; N]) -> Result<[Option<FloatTensor<B>>; N]> + Send>;

impl<const N: usize> Call<N> {
    /// The output (one NaN if it failed), and its adjoint.
    fn run<B: Runs>(self, inputs: [FloatTensor<B>; N]) -> (FloatTensor<B>, Option<Reverse<B, N>>) {
        let (device, dtype) = (inputs[0].device(), inputs[0].dtype());
        match B::forward(self.op, inputs) {
            Ok((output, reverse)) => (output, Some(reverse)),
            Err(error) => {
                *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                (B::float_from_data(nan(&[1], dtype), &device), None)
            }
        }
    }
}

/// Backends, and where they run operations: by default on the host.
trait Runs: Backend {
    fn forward<const N: usize>(
        op: Arc<dyn HostOp<N>>,
        inputs: [FloatTensor<Self>; N],
    ) -> Result<(FloatTensor<Self>, Reverse<Self, N>)> {
        let device = inputs[0].device();
        let (output, vjp) = op.forward(try_map(inputs, read::<Self>)?)?;
        let reverse = |grad: FloatTensor<Self>, needs| {
            let device = grad.device();
            let gradients = vjp(read::<Self>(grad)?, needs)?;
            Ok(gradients.map(|gradient| gradient.map(|data| Self::float_from_data(data, &device))))
        };
        Ok((Self::float_from_data(output, &device), Box::new(reverse)))
    }
}

#[cfg(feature = "flex")]
impl Runs for burn::backend::Flex {}
#[cfg(feature = "ndarray")]
impl Runs for burn::backend::NdArray {}

// These two only forward to the others.
impl Runs for Dispatch {}
impl<B: Backend, C: CheckpointStrategy> Runs for Autodiff<B, C> {}

#[cfg(feature = "gpu")]
impl Runs for burn::backend::Cube {
    fn forward<const N: usize>(
        op: Arc<dyn HostOp<N>>,
        inputs: [FloatTensor<Self>; N],
    ) -> Result<(FloatTensor<Self>, Reverse<Self, N>)> {
        let (output, vjp) = on_device::forward(op, inputs.map(on_device::tensor))?;
        let reverse = |grad, needs| {
            let gradients = vjp(on_device::tensor(grad), needs)?;
            try_map(gradients, |gradient| gradient.map(on_device::primitive).transpose())
        };
        Ok((on_device::primitive(output)?, Box::new(reverse)))
    }
}

fn nan(shape: &[usize], dtype: DType) -> TensorData {
    TensorData::full(shape.to_vec(), f64::NAN).convert_dtype(dtype)
}

/// The numbers of a tensor.
pub(super) fn read<B: Backend>(tensor: FloatTensor<B>) -> Result<TensorData> {
    burn::tensor::try_read_sync(B::float_into_data(tensor))
        .ok_or_else(|| Error::Device("this device cannot be read synchronously".into()))?
        .map_err(|e| Error::Device(format!("reading a tensor back failed: {e:?}")))
}

/// Backend side of [`HostOp`], and its front: a function for each number of inputs.
macro_rules! host_ops {
    ($($host:ident $apply:ident $n:literal: $($input:ident $rank:ident),+;)+) => {
        #[backend_extension(
            Flex: cfg(feature = "flex"),
            NdArray: cfg(feature = "ndarray"),
            Cube: cfg(feature = "gpu"),
            Autodiff
        )]
        trait HostOps: Runs {
            $(fn $host($($input: FloatTensor<Self>),+, call: Call<$n>) -> FloatTensor<Self> {
                call.run::<Self>([$($input),+]).0
            })+
        }

        impl<B: HostOps, C: CheckpointStrategy> HostOps for Autodiff<B, C> {
            $(fn $host($($input: FloatTensor<Self>),+, call: Call<$n>) -> FloatTensor<Self> {
                tracked::<B, C, $n>([$($input),+], call)
            })+
        }

        $(
            #[doc = concat!("Applies an operation of ", $n, " tensors.")]
            pub fn $apply<$(const $rank: usize,)+ const D: usize>(
                op: impl HostOp<$n>,
                $($input: Tensor<$rank>),+
            ) -> Result<Tensor<D>> {
                call(op, |call| Dispatch::$host($($input.into_dispatch()),+, call))
            }
        )+
    };
}

host_ops! {
    host1 apply1 1: a A;
    host2 apply2 2: a A, b B;
    host3 apply3 3: a A, b B, c C;
    host4 apply4 4: a A, b B, c C, d E;
    host5 apply5 5: a A, b B, c C, d E, e F;
}

#[cfg(feature = "flex")]
impl HostOps for burn::backend::Flex {}
#[cfg(feature = "ndarray")]
impl HostOps for burn::backend::NdArray {}
#[cfg(feature = "gpu")]
impl HostOps for burn::backend::Cube {}

thread_local! {
    /// The first error of an adjoint since it was last asked for.
    static FAILED: RefCell<Option<Error>> = const { RefCell::new(None) };
}

/// Takes the error of the first adjoint that failed on this thread since the last call.
pub(crate) fn failure() -> Option<Error> {
    FAILED.take()
}

/// The error of a second gradient through the same graph. An operation that failed never joins a graph.
pub(crate) fn differentiated() -> Error {
    Error::Usage(
        "this graph was differentiated before, which frees it: compute the tensors again, or take one gradient of a \
         weighted sum"
            .into(),
    )
}

#[derive(Debug)]
struct HostAdjoint;

/// What a graph keeps of a call. The adjoint runs once.
#[derive(Clone)]
struct Recorded<B: Runs, const N: usize> {
    reverse: Arc<Mutex<Option<Reverse<B, N>>>>,
    shapes: [Vec<usize>; N],
    dtypes: [DType; N],
}

impl<B: Runs, const N: usize> fmt::Debug for Recorded<B, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorded").field("shapes", &self.shapes).finish_non_exhaustive()
    }
}

fn tracked<B: Runs, C: CheckpointStrategy, const N: usize>(
    inputs: [FloatTensor<Autodiff<B, C>>; N],
    call: Call<N>,
) -> FloatTensor<Autodiff<B, C>> {
    let shapes = inputs.each_ref().map(|t| t.shape().to_vec());
    let nodes = inputs.each_ref().map(|t| t.node());
    let dtypes = inputs.each_ref().map(|t| t.dtype());
    match Backward::<B, N>::prepare::<C>(HostAdjoint, nodes).compute_bound().stateful() {
        OpsKind::Tracked(prep) => {
            let (output, reverse) = call.run::<B>(inputs.map(|t| t.into_primitive()));
            prep.finish(Recorded { reverse: Arc::new(Mutex::new(reverse)), shapes, dtypes }, output)
        }
        OpsKind::UnTracked(prep) => prep.finish(call.run::<B>(inputs.map(|t| t.into_primitive())).0),
    }
}

impl<B: Runs, const N: usize> Backward<B, N> for HostAdjoint {
    type State = Recorded<B, N>;

    fn backward(self, ops: Ops<Recorded<B, N>, N>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        let device = grad.device();
        let Recorded { reverse, shapes, dtypes } = ops.state;
        let needs = ops.parents.each_ref().map(Option::is_some);
        let reverse = reverse.lock().unwrap_or_else(PoisonError::into_inner).take();
        let gradients =
            reverse.ok_or_else(differentiated).and_then(|reverse| reverse(grad, needs)).unwrap_or_else(|error| {
                FAILED.with_borrow_mut(|first| {
                    first.get_or_insert(error);
                });
                let failed = |i: usize| B::float_from_data(nan(&shapes[i], dtypes[i]), &device);
                std::array::from_fn(|i| needs[i].then(|| failed(i)))
            });
        for (parent, gradient) in ops.parents.into_iter().zip(gradients) {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                grads.register::<B>(parent.id, gradient);
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
