//! The kernel for two or three classes with correlated latent functions: a trapezoidal rule over what distinguishes
//! the functions, as on the host. The units of a cube share the nodes of a row.

use burn::cubecl;
use burn::cubecl::frontend::{max, min, select};
use burn::cubecl::ir::ElemType;
use burn::cubecl::prelude::*;

use super::classes::UNITS;
use super::functions::{ln_1p, size};

/// Normal distributions are cut off after so many standard deviations.
const EDGE: f32 = 6.0;

/// The records `[1 + L + L L, b]`: value, slopes in means and in covariances, for means `[L, b]` and covariances
/// `[L L, b]`.
///
/// The differences of the functions from the last one are a linear map, with a triangular matrix, of one or two
/// standard normal numbers.
#[cube(launch, address_type = "dynamic")]
pub fn expectations<F: Float>(
    mean: &Tensor<F>,
    covariance: &Tensor<F>,
    y: &Tensor<F>,
    records: &mut Tensor<F>,
    #[comptime] classes: usize,
    #[define(F)] _dtype: ElemType,
) {
    let unit = UNIT_POS_X as usize;
    let (zero, half) = (F::new(0.0), F::new(0.5));
    let last = comptime!(classes - 1);
    // The weights of all nodes, the log densities, the probabilities, and the products of each two of them.
    let pairs = comptime!(2 + classes);
    let width = comptime!(pairs + classes * (classes - 1) / 2);
    let b = records.shape(1);
    // Cubes beyond the last row repeat it, because all units must meet below.
    let i = min(CUBE_POS_Y as usize * CUBE_COUNT_X as usize + CUBE_POS_X as usize, b - 1);
    let class = usize::cast_from(y[i * y.stride(0)]);

    let mut means = Array::<F>::new(classes);
    let mut spread = Array::<F>::new(comptime!(last * last));
    #[unroll]
    for c in 0..classes {
        means[c] = mean[c * mean.stride(0) + i * mean.stride(1)];
    }
    #[unroll]
    for c in 0..last {
        #[unroll]
        for d in 0..last {
            let pair = entry::<F>(covariance, i, c * classes + d) + entry::<F>(covariance, i, classes * classes - 1);
            let with_last = entry::<F>(covariance, i, c * classes + last);
            spread[c * last + d] = pair - with_last - entry::<F>(covariance, i, d * classes + last);
        }
    }
    let first = max(spread[0], zero).sqrt();
    let mut across = zero;
    let mut second = zero;
    if comptime!(classes == 3) {
        across = spread[1] / max(first, F::new(1e-15));
        second = max(spread[3] - across * across, zero).sqrt();
    }
    let one_step = step::<F>(max(first, max(size::<F>(across), size::<F>(first - across))));
    let other_step = step::<F>(second);
    let one_side = usize::cast_from(F::new(EDGE) / one_step) + 1;
    let mut other_side = 0usize;
    if comptime!(classes == 3) {
        other_side = usize::cast_from(F::new(EDGE) / other_step) + 1;
    }
    let (ones, others) = (2 * one_side + 1, 2 * other_side + 1);

    let mut sums = Array::<F>::new(width);
    #[unroll]
    for k in 0..width {
        sums[k] = zero;
    }
    let mut f = Array::<F>::new(classes);
    let mut at = unit;
    while at < ones * others {
        let z = (F::cast_from(at % ones) - F::cast_from(one_side)) * one_step;
        let w = (F::cast_from(at / ones) - F::cast_from(other_side)) * other_step;
        let weight = (F::new(-0.5) * (z * z + w * w)).exp();
        f[0] = means[0] + first * z;
        if comptime!(classes == 3) {
            f[1] = means[1] + across * z + second * w;
        }
        f[last] = means[last];
        sums[0] += weight;
        sums[1] += weight * shares::<F>(&mut f, class, classes);
        #[unroll]
        for c in 0..classes {
            sums[2 + c] += weight * f[c];
            #[unroll]
            for d in 0..c {
                sums[comptime!(pairs + pair(c, d))] += weight * f[c] * f[d];
            }
        }
        at += UNITS;
    }

    let mut shared = Shared::<[F]>::new_slice(comptime!(UNITS * (2 + classes + classes * (classes - 1) / 2)));
    #[unroll]
    for k in 0..width {
        shared[unit * width + k] = sums[k];
    }
    sync_cube();
    if unit == 0 {
        #[unroll]
        for k in 0..width {
            let mut total = zero;
            for other in 0..UNITS {
                total += shared[other * width + k];
            }
            sums[k] = total;
        }
        let all = sums[0];
        records[i] = sums[1] / all;
        let mut shares = zero;
        #[unroll]
        for c in 0..classes {
            if c != class {
                shares += sums[2 + c];
            }
        }
        #[unroll]
        for c in 0..classes {
            records[(1 + c) * b + i] = select(c == class, shares, zero - sums[2 + c]) / all;
            // π(1 − π) from the products with the other probabilities, which keep their digits as π approaches 1.
            let mut own = zero;
            #[unroll]
            for d in 0..classes {
                if comptime!(c != d) {
                    let both = sums[comptime!(pairs + pair(c, d))];
                    own += both;
                    records[(1 + classes + c * classes + d) * b + i] = half * both / all;
                }
            }
            records[(1 + classes + c * classes + c) * b + i] = zero - half * own / all;
        }
    }
}

/// The place of the product of two probabilities.
fn pair(c: usize, d: usize) -> usize {
    let (larger, smaller) = (c.max(d), c.min(d));
    larger * (larger - 1) / 2 + smaller
}

/// An entry of a row's covariance.
#[cube]
fn entry<F: Float>(covariance: &Tensor<F>, row: usize, place: usize) -> F {
    covariance[place * covariance.stride(0) + row * covariance.stride(1)]
}

/// The step of the rule along an axis on which a difference of two functions varies at most by `reach`. The
/// probabilities have poles where a difference is iπ, so that the error is e⁻¹⁸.
#[cube]
fn step<F: Float>(reach: F) -> F {
    max(min(F::new(0.8), F::new(1.09) / max(reach, F::new(1.0))), F::new(0.02))
}

/// Replaces `f` by the class probabilities and returns the logarithm of that of one class, with its digits.
#[cube]
fn shares<F: Float>(f: &mut Array<F>, class: usize, #[comptime] classes: usize) -> F {
    let mut top = f[0];
    #[unroll]
    for c in 1..classes {
        top = max(top, f[c]);
    }
    let own = f[class];
    let mut others = F::new(0.0);
    #[unroll]
    for c in 0..classes {
        let power = (f[c] - top).exp();
        if c != class {
            others += power;
        }
        f[c] = power;
    }
    let sum = others + f[class];
    #[unroll]
    for c in 0..classes {
        f[c] /= sum;
    }
    let mut log = own - top - sum.ln();
    if own == top {
        log = F::new(0.0) - ln_1p::<F>(others);
    }
    log
}
