//! Averages of `softmax(f)` and of `ln Σ exp(f)` over independent Gaussian `f`, by one integral of bounded cost.
//!
//! Add a standard Gumbel variable to each `f_c`: the class with the largest sum has the probabilities `softmax(f)`. Let
//! `φ_c(u) = E[exp(−exp(u + f_c))]`, the probability that the sum of class c is below `−u`. Then
//! `P_c = −∫ φ_c' Π_{k≠c} φ_k du`, and `E[ln Σ exp(f)] = m_r + ∫ φ_r − Π φ_k du` for any class r. As `∂φ/∂v = φ''/2`,
//! slopes are integrals of the same kind.

use std::sync::OnceLock;

use super::density::Marginal;
use super::quadrature::{hermite, over};
use super::softmax::{normalise, others};
use crate::arithmetic::special::{FRAC_1_SQRT_TAU, normal_cdf};
use crate::vectors::vectorised;

/// The results of the integral.
pub struct Averages {
    /// `E[softmax(f)]`.
    pub shares: Vec<f64>,
    /// `−∂E[ln Σ exp(f)]/∂v_c`, the slope in the variance of each class.
    pub bends: Vec<f64>,
    /// `E[ln Σ exp(f)]`.
    pub log_sum: f64,
}

/// Smaller variances change the averages less than the integral errs.
const NONE: f64 = 1e-10;

/// The step of the trapezoidal rule over `u`. Its error for such functions is below 1e-8.
const STEP: f64 = 0.4;

/// Normal distributions are cut off after so many standard deviations.
const EDGE: f64 = 8.0;

/// From this standard deviation on, the points of the integral follow the marginals, not the Gumbel distribution.
const WIDE: f64 = 20.0;

/// From this standard deviation on, the Gauss rule can replace the Gumbel variable.
const SMOOTH: f64 = 8.0;

/// Nodes and weights of the Gauss rule for the standard Gumbel distribution.
const GUMBEL: [(f64, f64); 8] = [
    (-1.439_934_040_621_453, 0.061_480_545_808_363_54),
    (-0.366_323_503_132_648_9, 0.409_132_602_168_318_2),
    (1.039_328_147_733_598_7, 0.409_910_759_440_997_55),
    (3.011_184_818_338_464, 0.109_056_543_463_616_8),
    (5.751_379_683_866_92, 0.010_079_895_238_525_845),
    (9.445_240_768_664_46, 3.364_684_695_096_691e-4),
    (14.417_925_261_875_896, 3.181_415_903_186_947_6e-6),
    (21.534_534_367_409_458, 3.954_811_247_062_921e-9),
];

/// `φ`, `−φ'` and `φ''` at the points of the integral.
type Curve = [Vec<f64>; 3];

/// The averages at marginals of two or more classes.
pub fn averages(at: Marginal) -> Averages {
    if at.variance.iter().all(|v| *v <= NONE) {
        return without_variance(at.mean);
    }
    // Relative to the largest mean: far from 0, numbers lack the digits of a small standard deviation.
    let top = at.mean.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let classes: Vec<(f64, f64)> = at.mean.iter().zip(at.variance).map(|(m, v)| (m - top, v.max(0.0).sqrt())).collect();
    // 1 − φ is below exp(u + m + s²/2), and below its value at m + 8s except with a probability of 1e-15.
    let reach = |(m, s): &(f64, f64)| m + f64::min(EDGE * s, 0.5 * s * s);
    let low = -classes.iter().map(reach).fold(f64::NEG_INFINITY, f64::max) - 20.0;
    let end = |(m, s): (f64, f64)| EDGE * s - m;
    let first = (1..classes.len()).fold(0, |best, c| if end(classes[c]) < end(classes[best]) { c } else { best });
    let high = end(classes[first]) + 4.0;
    let widest = classes.iter().map(|(_, s)| *s).fold(0.0, f64::max);
    let (weights, curves): (Vec<f64>, Vec<Curve>) = if widest < WIDE {
        let narrowest = classes.iter().map(|(_, s)| *s).fold(widest, f64::min);
        let stride = ((0.25 * narrowest / STEP) as usize).max(1);
        let count = ((high - low) / (STEP * stride as f64)).ceil() as usize + 1;
        (vec![STEP * stride as f64; count], classes.iter().map(|class| even(*class, low, stride, count)).collect())
    } else {
        let (points, weights): (Vec<f64>, Vec<f64>) = over(&breaks(&classes, low, high)).into_iter().unzip();
        (weights, classes.iter().map(|class| uneven(*class, &points)).collect())
    };
    let (mut shares, mut bends) = (vec![0.0; classes.len()], vec![0.0; classes.len()]);
    let mut excess = 0.0;
    for (i, weight) in weights.into_iter().enumerate() {
        let others = curves.iter().enumerate().filter(|(c, _)| *c != first).map(|(_, [value, ..])| value[i]);
        // Π φ and 1 − Π φ, each computed so that small values keep their digits.
        let (product, missing) = others
            .fold((1.0, 0.0), |(product, missing), value| (product * value, missing + (1.0 - missing) * (1.0 - value)));
        let own = weight * curves[first][0][i];
        excess += own * missing;
        let product = own * product;
        if product > 0.0 {
            for (c, [value, slope, bend]) in curves.iter().enumerate() {
                shares[c] += product * slope[i] / value[i];
                bends[c] += 0.5 * product * bend[i] / value[i];
            }
        }
    }
    let sum: f64 = shares.iter().sum();
    shares.iter_mut().for_each(|p| *p = (*p / sum).max(f64::MIN_POSITIVE));
    Averages { shares, bends, log_sum: top + classes[first].0 + excess }
}

/// The averages of a fixed `f`.
fn without_variance(f: &[f64]) -> Averages {
    let mut shares = f.to_vec();
    let log_sum = normalise(&mut shares);
    shares.iter_mut().for_each(|p| *p = p.max(f64::MIN_POSITIVE));
    let bends = shares.iter().enumerate().map(|(c, p)| -0.5 * p * others(&shares, c)).collect();
    Averages { shares, bends, log_sum }
}

/// `exp(−y)`, the negative of its slope, and its second derivative, both in `ln y`.
fn gumbel(y: f64) -> [f64; 3] {
    if y > 700.0 {
        return [0.0; 3];
    }
    let value = (-y).exp();
    [value, y * value, (y * y - y) * value]
}

/// Places and weights of a normal distribution around 0 with distance `step`.
fn comb(sd: f64, step: f64) -> Vec<(f64, f64)> {
    let half = (EDGE * sd / step).ceil() as i32;
    let place = |k: i32| f64::from(k) * step;
    let density = |f: f64| (-0.5 * (f / sd).powi(2)).exp();
    let total: f64 = (-half..=half).map(|k| density(place(k))).sum();
    (-half..=half).map(|k| (place(k), density(place(k)) / total)).collect()
}

/// Below this standard deviation a few nodes are enough for a marginal.
const NARROW: f64 = 0.125;

fn few() -> &'static [(f64, f64)] {
    static RULE: OnceLock<Vec<(f64, f64)>> = OnceLock::new();
    RULE.get_or_init(|| hermite(6))
}

/// The number of steps of its [`comb`] in a [`STEP`].
fn parts(sd: f64) -> usize {
    (0.5 / sd).ceil() as usize
}

/// The number of values of [`even`] that share an exponential.
const ROW: usize = 8;

/// The curve at `count` points from `low` on, `stride` steps apart. The values of one comb serve all points.
fn even((mean, sd): (f64, f64), low: f64, stride: usize, count: usize) -> Curve {
    if sd < NARROW {
        return uneven((mean, sd), &(0..count).map(|i| low + STEP * (stride * i) as f64).collect::<Vec<_>>());
    }
    let parts = parts(sd);
    let step = STEP / parts as f64;
    let (places, weights): (Vec<f64>, Vec<f64>) = comb(sd, step).into_iter().unzip();
    let apart = stride * parts;
    let first = low + mean + places[0];
    // Whole blocks of points, so that their sums stay in registers.
    let padded = count.next_multiple_of(BLOCK);
    let length = padded + weights.len() / apart;
    let rises: [f64; ROW] = std::array::from_fn(|k| ((k * apart) as f64 * step).exp());
    // Values that a weight is multiplied with stand side by side.
    let values = |phase: usize| -> Curve {
        // One exponential for several values in a row.
        let lead = |i: usize| (first + (i * apart + phase) as f64 * step).exp();
        let all: Vec<[f64; 3]> =
            (0..length).step_by(ROW).map(lead).flat_map(|lead| rises.map(|rise| gumbel(lead * rise))).collect();
        std::array::from_fn(|k| all.iter().map(|values| values[k]).collect())
    };
    let mut curve: Curve = std::array::from_fn(|_| vec![0.0; padded]);
    for phase in 0..apart.min(weights.len()) {
        let values = values(phase);
        let weights: Vec<f64> = weights[phase..].iter().step_by(apart).copied().collect();
        for (curve, values) in curve.iter_mut().zip(&values) {
            vectorised(
                #[inline(always)]
                || add_comb(curve, values, &weights),
            );
        }
    }
    curve.iter_mut().for_each(|curve| curve.truncate(count));
    curve
}

/// The number of sums that [`add_comb`] keeps in registers.
const BLOCK: usize = 16;

/// Adds `Σ_k weights[k] values[i + k]` to each sum i. Their number is a multiple of [`BLOCK`].
#[inline(always)]
fn add_comb(sums: &mut [f64], values: &[f64], weights: &[f64]) {
    let (blocks, _) = sums.as_chunks_mut::<BLOCK>();
    for (block, sums) in blocks.iter_mut().enumerate() {
        let mut own = *sums;
        for (weight, values) in weights.iter().zip(values[block * BLOCK..].windows(BLOCK)) {
            own.iter_mut().zip(values).for_each(|(sum, value)| *sum += weight * value);
        }
        *sums = own;
    }
}

/// The curve at arbitrary points.
fn uneven((mean, sd): (f64, f64), points: &[f64]) -> Curve {
    let smooth = |u: f64, (x, weight): (f64, f64)| {
        let z = -(u + x) / sd;
        let density = weight * FRAC_1_SQRT_TAU * (-0.5 * z * z).exp() / sd;
        [weight * normal_cdf(z), density, -z * density / sd]
    };
    let narrow = |y: f64, (rise, weight): (f64, f64)| gumbel(y * rise).map(|value| weight * value);
    let sharp = sd < SMOOTH;
    let rule = match sd {
        _ if !sharp => GUMBEL.to_vec(),
        sd if sd < NARROW => few().iter().map(|(z, w)| ((sd * z).exp(), *w)).collect(),
        _ => comb(sd, STEP / parts(sd) as f64).into_iter().map(|(f, w)| (f.exp(), w)).collect(),
    };
    let mut curve: Curve = Default::default();
    for u in points.iter().map(|u| u + mean) {
        let y = u.exp();
        let terms = rule.iter().map(|&node| if sharp { narrow(y, node) } else { smooth(u, node) });
        let sums = terms.fold([0.0; 3], |[a, b, c], [d, e, f]| [a + d, b + e, c + f]);
        curve.iter_mut().zip(sums).for_each(|(curve, sum)| curve.push(sum));
    }
    curve
}

/// The points that divide the integral: evenly spaced through the distribution of each class, closer where one of them
/// is narrow.
fn breaks(classes: &[(f64, f64)], low: f64, high: f64) -> Vec<f64> {
    let mut all = vec![(low, 0.0), (high, 0.0)];
    for (mean, sd) in classes {
        let width = sd.hypot(1.0);
        let even = (-6..=6).map(|k| 1.5 * f64::from(k));
        // The left tail of a narrow distribution is exponential.
        let tail = [13.0, 18.0, 26.0].map(|k| -k).into_iter().filter(|_| *sd < SMOOTH);
        all.extend(even.chain(tail).map(|k| (k * width - mean, 0.5 * width)).filter(|(u, _)| low < *u && *u < high));
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut kept: Vec<f64> = Vec::with_capacity(all.len());
    for (u, width) in all {
        if kept.last().is_none_or(|last| u - last > width) {
            kept.push(u);
        }
    }
    kept
}
