//! Expectations for classes with correlated latent functions: the rules of [`correlated`](super::super::correlated) in
//! the memory of a GPU.
//!
//! More than three functions: kernels compute the eigenvectors of the covariances, and then the averages with their
//! slopes in the roots. Everything before that is a graph of tensors, through which the slopes are pulled back.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use burn::backend::cubecl::dtype_to_storage_type;
use burn::cubecl::CubeDim;
use burn::tensor::{DType, Device, Tensor, TensorData};

use super::super::correlated::GRID;
use super::super::shift::RIDGE;
use super::super::{difficulty, lattice as rule};
use super::lattice::Plan;
use super::{axes, classes, cubes, grid, lattice};
use crate::device::DeviceKind;
use crate::device::transfers::upload;
use crate::error::{Error, Result};
use crate::linalg::gpu::diagonal;
use crate::linalg::on_device::{empty, primitive, tensor};

/// The smallest eigenvalue of a covariance, relative to its largest. In f32, smaller ones are rounding errors.
const PIVOT: f64 = 1e-7;

/// The smallest largest eigenvalue.
const LEAST: f64 = 1e-20;

/// The work space for a row takes so many times the bytes of its covariance.
const COPIES: usize = 24;

/// The records `[1 + L + L L, b]`: value, slopes in means and in covariances, for means `[L, b]`, covariances
/// `[L L, b]`, and targets `y [b]`. Rows are taken in parts whose work space fits `budget` bytes. `independent` gives
/// the records `[1 + 2 L, b]` of a part for independent functions with these means and variances.
pub fn records(
    [mean, covariance]: [Tensor<2>; 2],
    y: &Tensor<1>,
    budget: usize,
    independent: impl Fn([Tensor<2>; 2], &Tensor<1>) -> Result<Tensor<2>>,
) -> Result<Tensor<2>> {
    let [n, b] = mean.dims();
    if n <= GRID {
        return by_grid(mean, covariance, y);
    }
    let part = (budget / (COPIES * n * n * mean.dtype().size())).max(1);
    let parts = (0..b).step_by(part).map(|first| {
        let rows = part.min(b - first);
        let of = |all: &Tensor<2>| all.clone().narrow(1, first, rows);
        let y = y.clone().narrow(0, first, rows);
        by_lattice(of(&mean), of(&covariance), |marginals| independent(marginals, &y))
    });
    Ok(Tensor::cat(parts.collect::<Result<Vec<_>>>()?, 1))
}

fn by_grid(mean: Tensor<2>, covariance: Tensor<2>, y: &Tensor<1>) -> Result<Tensor<2>> {
    let [n, b] = mean.dims();
    let [mean, covariance, y] =
        [mean.into_dispatch(), covariance.into_dispatch(), y.clone().into_dispatch()].map(primitive);
    let (mean, covariance, y) = (mean?, covariance?, y?);
    let out = empty(&mean, [1 + n + n * n, b]);
    grid::expectations::launch(
        &out.client,
        cubes(b),
        CubeDim::new_1d(classes::UNITS as u32),
        out.required_address_type(),
        mean.into_tensor_arg(),
        covariance.into_tensor_arg(),
        y.into_tensor_arg(),
        out.clone().into_tensor_arg(),
        n,
        dtype_to_storage_type(out.dtype),
    );
    Ok(Tensor::from_dispatch(tensor(out)))
}

fn by_lattice(
    mean: Tensor<2>,
    covariance: Tensor<2>,
    independent: impl Fn([Tensor<2>; 2]) -> Result<Tensor<2>>,
) -> Result<Tensor<2>> {
    let [n, b] = mean.dims();
    let leaf = |of: Tensor<2>| Tensor::<2>::from_inner(of).require_grad();
    let (in_mean, in_covariance) = (leaf(mean.clone()), leaf(covariance));
    // Without the common shift, and with the shifts that leave the smallest correlations.
    let square: Tensor<3> = in_covariance.clone().transpose().reshape([b, n, n]);
    let square = square.clone() - square.mean_dim(1);
    let centred = square.clone() - square.mean_dim(2);
    let shifted = shifted(centred.clone())?;
    let weights = rule::weights(difficulty::of_rows(in_mean.clone().transpose(), centred, shifted.clone()));
    let variance = diagonal(&shifted);

    let alone = independent([mean.clone(), variance.clone().inner().transpose()])?;
    let part = |first: usize, count: usize| alone.clone().narrow(0, first, count);
    let root = Root::new(shifted.clone().inner())?;
    let sd = variance.clone().inner().clamp_min(LEAST).sqrt();
    let changes = Changes::new(mean, root.matrix(), sd.clone(), weights.clone().inner())?;

    // The value is that for independent functions, minus the change.
    let of_variance = part(1 + n, n).transpose() - changes.in_sd / (sd * 2.0);
    let pulled = [
        (shifted * Tensor::from_inner(-root.pull(changes.in_root))).sum(),
        (variance * Tensor::from_inner(of_variance)).sum(),
        (weights * Tensor::from_inner(-changes.each)).sum(),
    ];
    let mut slopes = Tensor::cat(pulled.to_vec(), 0).sum().backward();
    let mut slope = |of: &Tensor<2>| of.grad_remove(&mut slopes).unwrap_or_else(|| of.clone().inner().zeros_like());
    let (of_mean, of_covariance) = (slope(&in_mean), slope(&in_covariance));
    let value = part(0, 1) - changes.value;
    Ok(Tensor::cat(vec![value, part(1, n) - changes.in_mean + of_mean, of_covariance], 0))
}

/// The host's [shift](super::super::shift) of centred covariances `[b, L, L]`, differentiable in them.
fn shifted(centred: Tensor<3>) -> Result<Tensor<3>> {
    let [b, n, _] = centred.dims();
    let diagonal = diagonal(&centred);
    let mean = diagonal.clone().mean_dim(1);
    let common = mean.clone() / (n - 1) as f64;
    let own: Tensor<3> = ((diagonal - mean) / (n - 2) as f64).unsqueeze_dim(2);
    let ridge = Tensor::<2>::eye(n, &centred.device()).cast(centred.dtype()).unsqueeze_dim::<3>(0) * RIDGE + 1.0;
    let system = centred.clone() + ridge * common.clone().unsqueeze_dim(2);
    // δᵀM⁻¹δ and its slopes are those of 2 δᵀw − wᵀM w for a constant w = M⁻¹δ.
    let solved = Tensor::from_inner(Root::new(system.clone().inner())?.solve(own.clone().inner()));
    let product = (own.clone() * 2.0 - system.matmul(solved.clone())) * solved;
    let ratio = product.sum_dim(1).reshape([b, 1]) / common.clone();
    let share = (ratio.powi_scalar(2) + 1.0).powf_scalar(-0.25);
    let shift = (own.clone() + own.swap_dims(1, 2)) * share.unsqueeze_dim::<3>(2);
    Ok(centred + shift + common.unsqueeze_dim(2))
}

/// The symmetric roots of covariances, by their eigenvectors.
struct Root {
    /// The square roots of the eigenvalues `[b, 1, L]`.
    sizes: Tensor<3>,
    /// The vectors, in columns `[b, L, L]`.
    vectors: Tensor<3>,
}

impl Root {
    fn new(matrices: Tensor<3>) -> Result<Self> {
        let [b, n, _] = matrices.dims();
        let matrices = primitive(matrices.into_dispatch())?;
        let out = empty(&matrices, [b, n + 1, n]);
        axes::eigen::launch(
            &out.client,
            cubes(b),
            CubeDim::new_1d(axes::UNITS as u32),
            out.required_address_type(),
            matrices.into_tensor_arg(),
            out.clone().into_tensor_arg(),
            n,
            dtype_to_storage_type(out.dtype),
        );
        let both: Tensor<3> = Tensor::from_dispatch(tensor(out));
        let values = both.clone().narrow(1, 0, 1);
        let least = values.clone().max_dim(2).clamp_min(LEAST) * PIVOT;
        Ok(Self { sizes: values.max_pair(least).sqrt(), vectors: both.narrow(1, 1, n) })
    }

    /// The roots `[b, L, L]`.
    fn matrix(&self) -> Tensor<3> {
        (self.vectors.clone() * self.sizes.clone()).matmul(self.vectors.clone().swap_dims(1, 2))
    }

    /// The covariances' inverse times `b` `[b, L, 1]`.
    fn solve(&self, b: Tensor<3>) -> Tensor<3> {
        let along = self.vectors.clone().swap_dims(1, 2).matmul(b);
        let squares = self.sizes.clone().powi_scalar(2).swap_dims(1, 2);
        self.vectors.clone().matmul(along / squares)
    }

    /// The slopes in the covariances, for those in the roots. With C = S², dC = S dS + dS S. In the basis of the
    /// eigenvectors this is solved by a division by the sum of two roots.
    fn pull(&self, in_root: Tensor<3>) -> Tensor<3> {
        let (vectors, turned) = (self.vectors.clone(), self.vectors.clone().swap_dims(1, 2));
        let seen = turned.clone().matmul(in_root).matmul(vectors.clone());
        let sums = self.sizes.clone() + self.sizes.clone().swap_dims(1, 2);
        let solved = (seen.clone() + seen.swap_dims(1, 2)) / (sums * 2.0);
        vectors.matmul(solved).matmul(turned)
    }
}

/// What correlations change in the average of `ln Σ exp(f)`, with its slopes.
struct Changes {
    /// `[1, b]`.
    value: Tensor<2>,
    /// On each lattice, `[b, k]`.
    each: Tensor<2>,
    /// `[L, b]`.
    in_mean: Tensor<2>,
    /// `[b, L]`.
    in_sd: Tensor<2>,
    /// `[b, L, L]`.
    in_root: Tensor<3>,
}

impl Changes {
    /// For means `[L, b]`, roots `[b, L, L]`, standard deviations `[b, L]` and weights of the lattices `[b, k]`.
    fn new(mean: Tensor<2>, root: Tensor<3>, sd: Tensor<2>, weights: Tensor<2>) -> Result<Self> {
        let ([n, b], k) = (mean.dims(), rule::LATTICES);
        let plan = Plan { classes: n, ends: rule::ends(classes::UNITS) };
        let points = primitive(points(n, &mean.device(), mean.dtype())?.into_dispatch())?;
        let [mean, root, sd, of_lattices] =
            [mean.into_dispatch(), root.into_dispatch(), sd.into_dispatch(), weights.clone().into_dispatch()]
                .map(primitive);
        let mean = mean?;
        let out = empty(&mean, [plan.width(), b]);
        lattice::changes::launch(
            &out.client,
            cubes(b),
            CubeDim::new_1d(classes::UNITS as u32),
            out.required_address_type(),
            mean.into_tensor_arg(),
            root?.into_tensor_arg(),
            sd?.into_tensor_arg(),
            of_lattices?.into_tensor_arg(),
            points.into_tensor_arg(),
            out.clone().into_tensor_arg(),
            plan,
            dtype_to_storage_type(out.dtype),
        );
        let all: Tensor<2> = Tensor::from_dispatch(tensor(out));
        let part = |first: usize, count: usize| all.clone().narrow(0, first, count);
        let each = part(0, k).transpose();
        Ok(Self {
            value: (each.clone() * weights).sum_dim(1).transpose(),
            each,
            in_mean: part(k, n),
            in_sd: part(k + n, n).transpose(),
            in_root: part(k + 2 * n, n * n).transpose().reshape([b, n, n]),
        })
    }
}

/// The points of the lattices for `n` classes. They stay on the device once they are there.
fn points(n: usize, device: &Device, dtype: DType) -> Result<Tensor<1>> {
    static KEPT: Mutex<BTreeMap<(usize, &str), Tensor<1>>> = Mutex::new(BTreeMap::new());
    let kind = DeviceKind::of(device).ok_or_else(|| Error::Device("a device that is not known".into()))?;
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let points = kept.entry((n, kind.name())).or_insert_with(|| {
        let points = rule::blocks(n, classes::UNITS);
        let count = points.len();
        upload(TensorData::new(points, [count]), device, dtype)
    });
    Ok(points.clone())
}
