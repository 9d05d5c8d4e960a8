//! The kernel for more than three classes with correlated latent functions: what correlations change in the average of
//! `ln Σ exp(f)`, on the points of the host's lattices. The units of a cube share the points of a row.

use burn::cubecl;
use burn::cubecl::frontend::{max, min, select};
use burn::cubecl::ir::ElemType;
use burn::cubecl::prelude::*;

use super::super::lattice::LATTICES;
use super::classes::UNITS;
use super::functions::{rise, size};

/// What the kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Plan {
    /// Number of classes.
    pub classes: usize,
    /// For each lattice, the number of blocks of [`UNITS`] points in it and in those before it.
    pub ends: [usize; LATTICES],
}

impl Plan {
    /// The numbers that each unit adds up: the changes on each lattice, slopes in means and in standard deviations.
    fn sums(&self) -> usize {
        LATTICES + 2 * self.classes
    }

    /// Numbers for each row: these, and the slopes in the root.
    pub fn width(&self) -> usize {
        self.sums() + self.classes * self.classes
    }
}

/// The records `[w, b]` for means `[L, b]`, roots `[b, L, L]`, standard deviations `[b, L]` and the weights `[b, k]` of
/// the lattices: the changes on each lattice, then the slopes of their weighted sum in means, standard deviations and
/// roots. `points` has `L` numbers for each point, in blocks `[L, UNITS]`.
///
/// Loops over classes are unrolled. Their arrays are registers then, and a unit makes fewer than 65,535 turns, after
/// which Mesa's software Vulkan ends its loops without a word.
#[cube(launch, address_type = "dynamic")]
pub fn changes<F: Float>(
    mean: &Tensor<F>,
    root: &Tensor<F>,
    sd: &Tensor<F>,
    weights: &Tensor<F>,
    points: &Tensor<F>,
    records: &mut Tensor<F>,
    #[comptime] plan: Plan,
    #[define(F)] _dtype: ElemType,
) {
    let unit = UNIT_POS_X as usize;
    let zero = F::new(0.0);
    let n = comptime!(plan.classes);
    let (count, entries) = (comptime!(plan.sums()), comptime!((plan.classes * plan.classes).div_ceil(UNITS)));
    let b = records.shape(1);
    // Cubes beyond the last row repeat it, because all units must meet below.
    let i = min(CUBE_POS_Y as usize * CUBE_COUNT_X as usize + CUBE_POS_X as usize, b - 1);
    let mut means = Array::<F>::new(n);
    let mut top = mean[i * mean.stride(1)];
    #[unroll]
    for c in 0..n {
        means[c] = mean[c * mean.stride(0) + i * mean.stride(1)];
        top = max(top, means[c]);
    }
    #[unroll]
    for c in 0..n {
        means[c] -= top;
    }
    let mut sums = Array::<F>::new(count);
    #[unroll]
    for k in 0..count {
        sums[k] = zero;
    }
    let mut partial = Array::<F>::new(entries);
    let mut in_root = Array::<F>::new(entries);
    #[unroll]
    for k in 0..entries {
        in_root[k] = zero;
    }
    let mut z = Array::<F>::new(n);
    let mut step = Array::<F>::new(n);
    let mut shares = Array::<F>::new(n);
    let mut turn = Array::<F>::new(n);
    // First the differences between points and their mirror images, in the end the sums of all units.
    let mut shared = Shared::<[F]>::new_slice(comptime!(UNITS * plan.sums()));

    for block in 0..comptime!(plan.ends[LATTICES - 1]) {
        let mut lattice = 0usize;
        let mut blocks = comptime!(plan.ends[0]).runtime();
        #[unroll]
        for k in 1..LATTICES {
            if block >= comptime!(plan.ends[k - 1]) {
                lattice = k.runtime();
                blocks = comptime!(plan.ends[k] - plan.ends[k - 1]).runtime();
            }
        }
        let weight = weights[i * weights.stride(0) + lattice * weights.stride(1)];
        // Every point is used with its mirror image.
        let each = F::new(0.5 / UNITS as f32) / F::cast_from(blocks);
        // All units meet in every block, also in those that are skipped.
        sync_cube();
        if weight > zero {
            #[unroll]
            for c in 0..n {
                z[c] = points[(block * n + c) * UNITS + unit];
            }
            #[unroll]
            for c in 0..n {
                let mut sum = zero;
                #[unroll]
                for d in 0..n {
                    sum += root[i * root.stride(0) + c * root.stride(1) + d * root.stride(2)] * z[d];
                }
                step[c] = sum;
            }
            let together = mirrored::<F>(&means, &step, &mut shares, &mut turn, n);
            #[unroll]
            for c in 0..n {
                sums[LATTICES + c] += weight * each * shares[c];
                shared[c * UNITS + unit] = weight * each * turn[c];
                step[c] = sd[i * sd.stride(0) + c * sd.stride(1)] * z[c];
            }
            let apart = mirrored::<F>(&means, &step, &mut shares, &mut turn, n);
            #[unroll]
            for c in 0..n {
                sums[LATTICES + c] -= weight * each * shares[c];
                sums[LATTICES + n + c] -= weight * each * turn[c] * z[c];
            }
            #[unroll]
            for k in 0..LATTICES {
                if lattice == k {
                    sums[k] += each * (together - apart);
                }
            }
        }
        sync_cube();
        if weight > zero {
            // From zero within the block: sums of sums are more accurate.
            #[unroll]
            for k in 0..entries {
                partial[k] = zero;
            }
            for point in 0..UNITS {
                #[unroll]
                for k in 0..entries {
                    let entry = unit + k * UNITS;
                    if entry < n * n {
                        let (row, column) = (entry / n, entry % n);
                        partial[k] += shared[row * UNITS + point] * points[(block * n + column) * UNITS + point];
                    }
                }
            }
            #[unroll]
            for k in 0..entries {
                in_root[k] += partial[k];
            }
        }
    }

    sync_cube();
    #[unroll]
    for k in 0..count {
        shared[k * UNITS + unit] = sums[k];
    }
    sync_cube();
    let mut k = unit;
    while k < count {
        let mut total = zero;
        for other in 0..UNITS {
            total += shared[k * UNITS + other];
        }
        records[k * b + i] = total;
        k += UNITS;
    }
    #[unroll]
    for k in 0..entries {
        let entry = unit + k * UNITS;
        if entry < n * n {
            records[(count + entry) * b + i] = in_root[k];
        }
    }
}

/// The sum of `ln Σ exp(f)` for `f = m ± step`. Writes the sums of the class probabilities, and their differences.
#[cube]
fn mirrored<F: Float>(
    mean: &Array<F>,
    step: &Array<F>,
    shares: &mut Array<F>,
    turn: &mut Array<F>,
    #[comptime] n: usize,
) -> F {
    let zero = F::new(0.0);
    let (mut ahead, mut back) = (mean[0] + step[0], mean[0] - step[0]);
    #[unroll]
    for c in 1..n {
        ahead = max(ahead, mean[c] + step[c]);
        back = max(back, mean[c] - step[c]);
    }
    let (mut all_ahead, mut all_back) = (zero, zero);
    #[unroll]
    for c in 0..n {
        shares[c] = (mean[c] + step[c] - ahead).exp();
        turn[c] = (mean[c] - step[c] - back).exp();
        all_ahead += shares[c];
        all_back += turn[c];
    }
    let (log_ahead, log_back) = (ahead + all_ahead.ln(), back + all_back.ln());
    // The ratio of a class's probabilities is exp(x): their difference follows without cancellation.
    let mut rest = zero;
    #[unroll]
    for c in 0..n {
        let (one, other) = (shares[c] / all_ahead, turn[c] / all_back);
        let x = F::new(2.0) * step[c] - (log_ahead - log_back);
        let risen = rise::<F>(size::<F>(x));
        shares[c] = one + other;
        turn[c] = select(x > zero, one * risen, zero - other * risen);
        rest += turn[c];
    }
    // Differences add up to 0. What is left is the rounding of the logarithms, which all classes share.
    #[unroll]
    for c in 0..n {
        turn[c] -= F::new(0.5) * shares[c] * rest;
    }
    log_ahead + log_back
}
