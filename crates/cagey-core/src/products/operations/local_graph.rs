//! The same results as [`local`](super::local), as a tensor graph over batches of small matrices, for GPUs.

use burn::tensor::{Device, Int, Slice, Tensor};

use crate::error::Result;
use crate::kernels::form::{Lowered, Metric, Term};
use crate::linalg::{cholesky, solve_lower};
use crate::products::operations::local::Neighbours;
use crate::scope::indices;

/// The `[3b]` numbers of [`local::packed`](super::local::packed), for the same inputs, in the type of the features.
///
/// With K_I = L Lᵀ, S_I = R Rᵀ, a = L⁻¹k, u = L⁻¹m_I and E = L⁻¹R of a row, they are aᵀu, ‖Eᵀa‖² − ‖a‖² and
/// ½(‖E‖² + ‖u‖² − H) + log|L| − log|R|.
pub fn packed((x, z): (&Lowered, &Lowered), q: Tensor<1>, neighbours: &Neighbours, nugget: f64) -> Result<Tensor<1>> {
    let (device, h) = (q.device(), neighbours.each);
    let (b, u) = (neighbours.indices.len() / h, z.terms()[0].features.dims()[0]);
    let each = each(neighbours, &device);
    let (k, gram) = covariances((x, z), &each, h)?;
    let own = Tensor::<2>::eye(h, &device).cast(gram.dtype()).unsqueeze_dim::<3>(0) * nugget + 1.0;
    let lower = cholesky(gram * own, "K_I of the neighbours")?;

    let mean = q.clone().narrow(0, 0, u).select(0, each.clone()).reshape([b, h, 1]);
    let count = q.dims()[0] - u;
    let root = q.narrow(0, u, count).reshape([u, count / u]).select(0, each);
    let root: Tensor<3> = if count == u {
        let eye = Tensor::<2>::eye(h, &device).cast(root.dtype()).unsqueeze_dim::<3>(0);
        root.abs().reshape([b, h, 1]) * eye
    } else {
        let rows = root.reshape([b, h, count / u]);
        cholesky(rows.clone().matmul(rows.transpose()), "S_I of the neighbours")?
    };
    let logarithms = log_diagonal(&lower) - log_diagonal(&root);

    let solved = solve_lower(lower, Tensor::cat(vec![k, mean, root], 2))?;
    let [a, mean, spread] = [(0, 1), (1, 1), (2, h)].map(|(first, count)| solved.clone().narrow(2, first, count));
    let total = |x: Tensor<3>| -> Tensor<1> { x.reshape([b as i32, -1]).sum_dim(1).squeeze_dim(1) };
    let squares = |x: &Tensor<3>| total(x.clone().powi_scalar(2));
    let change = squares(&spread.clone().transpose().matmul(a.clone())) - squares(&a);
    let divergence = (squares(&spread) + squares(&mean) - h as f64) * 0.5 + logarithms;
    Ok(Tensor::cat(vec![total(a * mean), change, divergence], 0))
}

/// The `[2b]` numbers of [`conditional::packed`](super::conditional::packed), for the same inputs, in the type of the
/// features. With K + D = L Lᵀ, a = L⁻¹k and u = L⁻¹r of a row, they are aᵀu and −‖a‖².
pub fn conditional(
    (x, z): (&Lowered, &Lowered),
    residuals: Tensor<1>,
    noise: Tensor<1>,
    neighbours: &Neighbours,
) -> Result<Tensor<1>> {
    let (device, h) = (residuals.device(), neighbours.each);
    let b = neighbours.indices.len() / h;
    let each = each(neighbours, &device);
    let (k, gram) = covariances((x, z), &each, h)?;
    let eye = Tensor::<2>::eye(h, &device).cast(gram.dtype()).unsqueeze_dim::<3>(0);
    let own = noise.select(0, each.clone()).reshape([b, h, 1]) * eye;
    let lower = cholesky(gram + own, "K + σ²I of the neighbours")?;
    let solved = solve_lower(lower, Tensor::cat(vec![k, residuals.select(0, each).reshape([b, h, 1])], 2))?;
    let [a, u] = [0, 1].map(|column| solved.clone().narrow(2, column, 1).reshape([b, h]));
    let total = |x: Tensor<2>| -> Tensor<1> { x.sum_dim(1).squeeze_dim(1) };
    Ok(Tensor::cat(vec![total(a.clone() * u), -total(a.powi_scalar(2))], 0))
}

/// The neighbours of all rows, one after another.
fn each(neighbours: &Neighbours, device: &Device) -> Tensor<1, Int> {
    indices(&neighbours.indices.iter().map(|&j| j as usize).collect::<Vec<_>>(), device)
}

/// The covariances of every row with its `h` neighbours `[b, h, 1]`, and among these `[b, h, h]`.
fn covariances((x, z): (&Lowered, &Lowered), each: &Tensor<1, Int>, h: usize) -> Result<(Tensor<3>, Tensor<3>)> {
    let b = each.dims()[0] / h;
    let near: Vec<Tensor<2>> = z.terms().into_iter().map(|t| t.features.clone().select(0, each.clone())).collect();
    let terms = || x.terms().into_iter().zip(&near);
    let mut to_row = terms().map(|(term, near)| compared(term, &term.features, 1, near, h));
    let mut among = terms().map(|(term, near)| match term.metric {
        Metric::Delta => {
            let eye = Tensor::<2>::eye(h, &near.device()).cast(near.dtype());
            eye.reshape([1, h * h]).expand([b, h * h])
        }
        _ => compared(term, near, h, near, h),
    });
    Ok((x.of_pairs(&mut to_row)?.reshape([b, h, 1]), z.of_pairs(&mut among)?.reshape([b, h, h])))
}

/// s of a term, for every member of a batch: `r` rows of one matrix, each with `c` rows of the other, `[b, r c]`.
fn compared(term: &Term, rows: &Tensor<2>, r: usize, columns: &Tensor<2>, c: usize) -> Tensor<2> {
    let b = rows.dims()[0] / r;
    let zeros = || Tensor::zeros([b, r, c], (&rows.device(), rows.dtype()));
    let features = if term.metric == Metric::Delta { 0 } else { rows.dims()[1] };
    let each = (0..features).map(|k| {
        let row = rows.clone().narrow(1, k, 1).reshape([b, r, 1]);
        let column = columns.clone().narrow(1, k, 1).reshape([b, 1, c]);
        match term.metric {
            Metric::SquaredDistance => (row - column).powi_scalar(2),
            _ => row * column,
        }
    });
    each.reduce(|a, b| a + b).unwrap_or_else(zeros).reshape([b, r * c])
}

/// Σ log l_jj of every matrix of a batch `[b]`.
fn log_diagonal(matrices: &Tensor<3>) -> Tensor<1> {
    let [b, h, _] = matrices.dims();
    let diagonals = matrices.clone().reshape([b, h * h]).slice([Slice::full(), Slice::new(0, None, h as isize + 1)]);
    diagonals.log().sum_dim(1).squeeze_dim(1)
}
