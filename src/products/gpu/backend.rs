//! The differentiable operations: forward and adjoint by the kernels, nothing of the covariance's size kept between.

use burn::backend::autodiff::{
    NodeId,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn::backend::{Autodiff, Backend, Cube, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::{Shape, Slice, Tensor};

use super::kernel::Plan;
use super::launch::Kernels;

#[backend_extension(Cube, Autodiff)]
trait Fused: Backend {
    fn fused_covariance(
        rows: FloatTensor<Self>,
        columns: FloatTensor<Self>,
        coefficients: FloatTensor<Self>,
        plan: Plan,
    ) -> FloatTensor<Self>;

    fn fused_product(
        rows: FloatTensor<Self>,
        columns: FloatTensor<Self>,
        right: FloatTensor<Self>,
        coefficients: FloatTensor<Self>,
        plan: Plan,
    ) -> FloatTensor<Self>;
}

/// v · k(rows_i, columns_j) `[n, m]` for features `[n, p]`, `[m, p]` and coefficients (a, v).
pub fn covariance(rows: Tensor<2>, columns: Tensor<2>, coefficients: Tensor<1>, plan: Plan) -> Tensor<2> {
    let (rows, columns, coefficients) = (rows.into_dispatch(), columns.into_dispatch(), coefficients.into_dispatch());
    Tensor::from_dispatch(Dispatch::fused_covariance(rows, columns, coefficients, plan))
}

/// The product of [`covariance`] with `right [m, t]`: `[n, t]`.
pub fn product(
    rows: Tensor<2>,
    columns: Tensor<2>,
    right: Tensor<2>,
    coefficients: Tensor<1>,
    plan: Plan,
) -> Tensor<2> {
    Tensor::from_dispatch(Dispatch::fused_product(
        rows.into_dispatch(),
        columns.into_dispatch(),
        right.into_dispatch(),
        coefficients.into_dispatch(),
        plan,
    ))
}

impl Fused for Cube {
    fn fused_covariance(
        rows: FloatTensor<Self>,
        columns: FloatTensor<Self>,
        coefficients: FloatTensor<Self>,
        plan: Plan,
    ) -> FloatTensor<Self> {
        Self::entries(rows, columns, coefficients, plan)
    }

    fn fused_product(
        rows: FloatTensor<Self>,
        columns: FloatTensor<Self>,
        right: FloatTensor<Self>,
        coefficients: FloatTensor<Self>,
        plan: Plan,
    ) -> FloatTensor<Self> {
        Self::product(rows, columns, right, coefficients, plan)
    }
}

impl<B: Kernels, C: CheckpointStrategy> Fused for Autodiff<B, C> {
    fn fused_covariance(
        rows: FloatTensor<Self>,
        columns: FloatTensor<Self>,
        coefficients: FloatTensor<Self>,
        plan: Plan,
    ) -> FloatTensor<Self> {
        let inputs = [rows, columns, coefficients];
        tracked::<B, C, 3>(inputs, plan, CovarianceAdjoint, |[rows, columns, coefficients]| {
            B::entries(rows, columns, coefficients, plan)
        })
    }

    fn fused_product(
        rows: FloatTensor<Self>,
        columns: FloatTensor<Self>,
        right: FloatTensor<Self>,
        coefficients: FloatTensor<Self>,
        plan: Plan,
    ) -> FloatTensor<Self> {
        let inputs = [rows, columns, coefficients, right];
        tracked::<B, C, 4>(inputs, plan, ProductAdjoint, |[rows, columns, coefficients, right]| {
            B::product(rows, columns, right, coefficients, plan)
        })
    }
}

#[derive(Debug, Clone)]
struct Recorded<B: Backend, const N: usize> {
    inputs: [FloatTensor<B>; N],
    plan: Plan,
}

fn tracked<B: Backend, C: CheckpointStrategy, const N: usize>(
    inputs: [FloatTensor<Autodiff<B, C>>; N],
    plan: Plan,
    adjoint: impl Backward<B, N, State = Recorded<B, N>>,
    forward: impl FnOnce([FloatTensor<B>; N]) -> FloatTensor<B>,
) -> FloatTensor<Autodiff<B, C>> {
    let nodes = inputs.each_ref().map(|t| t.node());
    let inputs = inputs.map(|t| t.into_primitive());
    match adjoint.prepare::<C>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(prep) => {
            let state = Recorded { inputs: inputs.clone(), plan };
            prep.finish(state, forward(inputs))
        }
        OpsKind::UnTracked(prep) => prep.finish(forward(inputs)),
    }
}

#[derive(Debug)]
struct CovarianceAdjoint;

impl<B: Kernels> Backward<B, 3> for CovarianceAdjoint {
    type State = Recorded<B, 3>;

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let cotangents = grads.consume::<B>(&ops.node);
        let Recorded { inputs: [rows, columns, coefficients], plan } = ops.state;
        let [to_rows, to_columns, to_coefficients] = ops.parents.map(|parent| parent.map(|node| node.id));
        if to_columns.is_some() {
            let transposed = B::float_transpose(cotangents.clone());
            let pulled = B::pull(columns.clone(), rows.clone(), transposed, None, coefficients.clone(), plan);
            register::<B>(grads, to_columns, || features::<B>(&pulled, plan));
        }
        if to_rows.is_some() || to_coefficients.is_some() {
            let pulled = B::pull(rows, columns, cotangents, None, coefficients, plan);
            register::<B>(grads, to_rows, || features::<B>(&pulled, plan));
            register::<B>(grads, to_coefficients, || totals::<B>(&pulled, plan));
        }
    }
}

#[derive(Debug)]
struct ProductAdjoint;

impl<B: Kernels> Backward<B, 4> for ProductAdjoint {
    type State = Recorded<B, 4>;

    fn backward(self, ops: Ops<Self::State, 4>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let cotangents = grads.consume::<B>(&ops.node);
        let Recorded { inputs: [rows, columns, coefficients, right], plan } = ops.state;
        let [to_rows, to_columns, to_coefficients, to_right] = ops.parents.map(|parent| parent.map(|node| node.id));
        register::<B>(grads, to_right, || {
            B::product(columns.clone(), rows.clone(), cotangents.clone(), coefficients.clone(), plan)
        });
        if to_columns.is_some() {
            let (left, right) = (right.clone(), Some(cotangents.clone()));
            let pulled = B::pull(columns.clone(), rows.clone(), left, right, coefficients.clone(), plan);
            register::<B>(grads, to_columns, || features::<B>(&pulled, plan));
        }
        if to_rows.is_some() || to_coefficients.is_some() {
            let pulled = B::pull(rows, columns, cotangents, Some(right), coefficients, plan);
            register::<B>(grads, to_rows, || features::<B>(&pulled, plan));
            register::<B>(grads, to_coefficients, || totals::<B>(&pulled, plan));
        }
    }
}

fn register<B: Backend>(grads: &mut Gradients, to: Option<NodeId>, gradient: impl FnOnce() -> FloatTensor<B>) {
    if let Some(node) = to {
        grads.register::<B>(node, gradient());
    }
}

/// The gradient in the features `[n, p]` out of `[n, p + 2]`.
fn features<B: Backend>(pulled: &FloatTensor<B>, plan: Plan) -> FloatTensor<B> {
    B::float_slice(pulled.clone(), &[Slice::full(), Slice::from(0..plan.p)])
}

/// The gradient in (a, v), `[2]`.
fn totals<B: Backend>(pulled: &FloatTensor<B>, plan: Plan) -> FloatTensor<B> {
    let shares = B::float_slice(pulled.clone(), &[Slice::full(), Slice::from(plan.p..plan.p + 2)]);
    B::float_reshape(B::float_sum_dim(shares, 0), Shape::from([2]))
}
