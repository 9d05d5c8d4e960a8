//! The kernel for classes with independent latent functions. The units of a cube share the points of a row's integral,
//! which is that of [`shares`](super::super::shares).

use burn::cubecl;
use burn::cubecl::frontend::{max, min, select};
use burn::cubecl::ir::ElemType;
use burn::cubecl::prelude::*;

use super::super::shares::GUMBEL;
use super::functions::{normal_cdf, rise};

/// Units of a cube.
pub const UNITS: usize = 64;

/// The step of the integral. The error is below 1e-8, as for the largest step in [`curve`].
const STEP: f32 = 0.5;

/// Normal distributions are cut off after so many standard deviations.
const EDGE: f32 = 6.0;

/// From this standard deviation on, the Gauss rule replaces the Gumbel variable.
const SMOOTH: f32 = 8.0;

/// The records `[1 + 2 L, b]`: value, slopes in means and in variances. `table` holds nodes and weights of the Gauss
/// rule for the Gumbel distribution.
#[cube(launch, address_type = "dynamic")]
pub fn expectations<F: Float>(
    mean: &Tensor<F>,
    variance: &Tensor<F>,
    y: &Tensor<F>,
    table: &Tensor<F>,
    records: &mut Tensor<F>,
    #[comptime] classes: usize,
    #[define(F)] _dtype: ElemType,
) {
    let unit = UNIT_POS_X as usize;
    let width = comptime!(1 + 2 * classes);
    let (zero, one, half) = (F::new(0.0), F::new(1.0), F::new(0.5));
    let b = records.shape(1);
    // Cubes beyond the last row repeat it, because all units must meet below.
    let i = min(CUBE_POS_Y as usize * CUBE_COUNT_X as usize + CUBE_POS_X as usize, b - 1);
    let mut top = mean[i * mean.stride(1)];
    for c in 1..classes {
        top = max(top, mean[c * mean.stride(0) + i * mean.stride(1)]);
    }
    let mut means = Array::<F>::new(classes);
    let mut sds = Array::<F>::new(classes);
    let mut reach = F::new(-1e30);
    let mut narrowest = F::new(1e30);
    let mut high = F::new(1e30);
    let mut first = 0usize;
    for c in 0..classes {
        let m = mean[c * mean.stride(0) + i * mean.stride(1)] - top;
        let sd = max(variance[c * variance.stride(0) + i * variance.stride(1)], zero).sqrt();
        reach = max(reach, m + min(F::new(EDGE) * sd, half * sd * sd));
        narrowest = min(narrowest, sd);
        let end = F::new(EDGE) * sd - m;
        if end < high {
            high = end;
            first = c;
        }
        means[c] = m;
        sds[c] = sd;
    }
    let low = zero - reach - F::new(16.0);
    let step = F::new(STEP) * max(one, (F::new(0.25 / STEP) * narrowest).floor());
    let points = usize::cast_from((high + F::new(4.0) - low) / step) + 2;

    let mut sums = Array::<F>::new(width);
    for k in 0..width {
        sums[k] = zero;
    }
    let mut curves = Array::<F>::new(comptime!(3 * classes));
    let mut parts = Array::<F>::new(4usize);
    let mut at = unit;
    while at < points {
        let u = low + step * F::cast_from(at);
        // The product of φ over all classes but the first, subtracted from 1.
        let mut missing = zero;
        let mut own = one;
        // Products over the classes before, then over those behind: no division by small numbers.
        let mut product = one;
        for c in 0..classes {
            curve::<F>(u + means[c], sds[c], table, &mut parts);
            if c == first {
                own = parts[0];
            } else {
                missing += (one - missing) * parts[1];
            }
            curves[c] = parts[0];
            curves[classes + c] = product * parts[2];
            curves[2 * classes + c] = product * parts[3];
            product *= parts[0];
        }
        sums[0] += step * own * missing;
        let mut behind = step;
        for k in 0..classes {
            let c = classes - 1 - k;
            sums[1 + c] += behind * curves[classes + c];
            sums[1 + classes + c] += half * behind * curves[2 * classes + c];
            behind *= curves[c];
        }
        at += UNITS;
    }

    let mut shared = Shared::<[F]>::new_slice(comptime!(UNITS * (1 + 2 * classes)));
    let mut totals = Shared::<[F]>::new_slice(comptime!(1 + 2 * classes));
    for k in 0..width {
        shared[unit * width + k] = sums[k];
    }
    sync_cube();
    let mut k = unit;
    while k < width {
        let mut total = zero;
        for other in 0..UNITS {
            total += shared[other * width + k];
        }
        totals[k] = total;
        k += UNITS;
    }
    sync_cube();
    let class = usize::cast_from(y[i * y.stride(0)]);
    let mut shares = zero;
    for c in 0..classes {
        shares += totals[1 + c];
    }
    let mut k = unit;
    while k < width {
        let mut value = totals[k];
        if k == 0 {
            value = means[class] - means[first] - value;
        } else if k <= classes {
            value = select(k == class + 1, shares - value, zero - value) / shares;
        }
        records[k * b + i] = value;
        k += UNITS;
    }
}

/// Writes `φ = E[exp(−exp(u + sd z))]`, `1 − φ`, `−φ'` and `φ''`.
#[cube]
fn curve<F: Float>(u: F, sd: F, table: &Tensor<F>, out: &mut Array<F>) {
    let zero = F::new(0.0);
    let root = F::new(0.398_942_3);
    let mut value = zero;
    let mut rest = zero;
    let mut slope = zero;
    let mut bend = zero;
    if sd < F::new(SMOOTH) {
        let step = min(F::new(0.8), F::new(STEP) / max(sd, F::new(1e-3)));
        let side = usize::cast_from(F::new(EDGE) / step) + 1;
        for k in 0..2 * side + 1 {
            let z = (F::cast_from(k) - F::cast_from(side)) * step;
            let weight = root * step * (F::new(-0.5) * z * z).exp();
            // Beyond e⁵, exp(−y) is 0.
            let y = min(u + sd * z, F::new(5.0)).exp();
            let power = weight * (zero - y).exp();
            value += power;
            rest += weight * rise::<F>(y);
            slope += y * power;
            bend += (y * y - y) * power;
        }
    } else {
        for node in 0..comptime!(GUMBEL.len()) {
            let z = zero - (u + table[node]) / sd;
            let weight = table[comptime!(GUMBEL.len()) + node];
            let density = weight * root * (F::new(-0.5) * z * z).exp() / sd;
            value += weight * normal_cdf::<F>(z);
            rest += weight * normal_cdf::<F>(zero - z);
            slope += density;
            bend -= z * density / sd;
        }
    }
    out[0] = value;
    out[1] = rest;
    out[2] = slope;
    out[3] = bend;
}
