//! Functions of input columns as tensor graphs, for gradients in the inputs.

use burn::tensor::{Tensor, TensorData};

use crate::data::Warp;
use crate::device::transfers::upload;

/// The columns of `x [r, d]`, each after its function; with no functions, as they are.
pub(super) fn columns(warps: &[Warp], x: Tensor<2>) -> Tensor<2> {
    if warps.is_empty() {
        return x;
    }
    let column = |(at, warp): (usize, &Warp)| column(warp, x.clone().narrow(1, at, 1));
    Tensor::cat(warps.iter().enumerate().map(column).collect(), 1)
}

/// One column `[r, 1]`.
fn column(warp: &Warp, x: Tensor<2>) -> Tensor<2> {
    match warp {
        Warp::Identity => x,
        Warp::Asinh { centre, scale } => {
            let t = (x - *centre) / *scale;
            // The sign is a constant, and so the gradient at the centre is right too.
            let sign = t.clone().detach().lower_elem(0.0).float().cast(t.dtype()) * -2.0 + 1.0;
            let size = t * sign.clone();
            (size.clone() + (size.square() + 1.0).sqrt()).log() * sign * *scale + *centre
        }
        Warp::Log { centre, least } => {
            let inside = (x.clone().clamp_min(*least) / *centre).log() * *centre + *centre;
            inside + (x - *least).clamp_max(0.0) * (centre / least)
        }
        Warp::Ranks { from, to } => {
            let slopes: Vec<f64> =
                from.windows(2).zip(to.windows(2)).map(|(x, w)| (w[1] - w[0]) / (x[1] - x[0])).collect();
            // Every knot changes the slope above it.
            let before = std::iter::once(0.0).chain(slopes.iter().copied());
            let changes: Vec<f64> = slopes.iter().zip(before).map(|(slope, before)| slope - before).collect();
            let (device, dtype, knots) = (x.device(), x.dtype(), slopes.len());
            let row = |values: &[f64]| upload::<2, _>(TensorData::new(values.to_vec(), [1, knots]), &device, dtype);
            let above = (x.clone() - row(&from[..knots])).clamp_min(0.0);
            (above * row(&changes)).sum_dim(1) + (x - from[0]).clamp_max(0.0) * slopes[0] + to[0]
        }
    }
}
