//! The kernel: each unit computes the expected log density of a row and its slopes.

use burn::cubecl;
use burn::cubecl::frontend::{max, select};
use burn::cubecl::ir::ElemType;
use burn::cubecl::prelude::*;

use super::super::formula::Formula;
use super::super::quadrature::NODES;
use super::functions::{
    UP, digamma_rise, gamma_parts, ln_1p, ln_factorial_rest, ln_rising_over_factorial, log_normal_cdf, log_softplus,
    logistic, logistic_slope, rise, softplus,
};

/// What a kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Plan {
    /// The formula.
    pub formula: Formula,
    /// Number of latent functions.
    pub latents: usize,
    /// Numbers of variances or covariances.
    pub spreads: usize,
    /// Number of the likelihood's own parameters.
    pub own: usize,
    /// Whether rows have auxiliary numbers.
    pub auxiliary: bool,
    /// Whether rows without one have 0, not 1.
    pub neutral_zero: bool,
}

impl Plan {
    /// Numbers for each row.
    pub fn width(&self) -> usize {
        1 + self.latents + self.spreads + self.own
    }
}

/// `ln 2π`.
const LN_TAU: f32 = 1.837_877;

/// Below this variance slopes in it are taken from second derivatives, which keep their digits there.
const NARROW: f32 = 1e-5;

/// The first of the density's numbers in `table`, after nodes and weights.
const FIRST: usize = 2 * NODES;

/// The numbers that a node contributes: value, slope and second derivative in f, and up to three in own parameters.
const PARTS: usize = 6;

/// The records `[w, b]`: value, slopes in means, in variances and in own parameters. `table` holds the nodes and the
/// weights of the quadrature, and the numbers of the density.
#[cube(launch, address_type = "dynamic")]
pub fn expectations<F: Float>(
    mean: &Tensor<F>,
    variance: &Tensor<F>,
    y: &Tensor<F>,
    auxiliary: &Tensor<F>,
    table: &Tensor<F>,
    records: &mut Tensor<F>,
    #[comptime] plan: Plan,
    #[define(F)] _dtype: ElemType,
) {
    let i = ABSOLUTE_POS_X as usize;
    let b = records.shape(1);
    if i >= b {
        terminate!();
    }
    let target = y[i * y.stride(0)];
    let mut extra = F::new(1.0);
    if comptime!(plan.auxiliary) {
        extra = auxiliary[i * auxiliary.stride(0)];
    } else if comptime!(plan.neutral_zero) {
        extra = F::new(0.0);
    }
    let mut means = Array::<F>::new(comptime!(plan.latents));
    let mut variances = Array::<F>::new(comptime!(plan.latents));
    #[unroll]
    for l in 0..comptime!(plan.latents) {
        means[l] = mean[l * mean.stride(0) + i * mean.stride(1)];
        variances[l] = variance[l * variance.stride(0) + i * variance.stride(1)];
    }
    let mut record = Array::<F>::new(comptime!(plan.width()));
    if comptime!(plan.formula.is_closed()) {
        closed::<F>(target, extra, &means, &variances, table, &mut record, plan);
    } else {
        averaged::<F>(target, extra, means[0], variances[0], table, &mut record, plan);
    }
    #[unroll]
    for k in 0..comptime!(plan.width()) {
        records[k * b + i] = record[k];
    }
}

#[cube]
fn closed<F: Float>(
    y: F,
    extra: F,
    means: &Array<F>,
    variances: &Array<F>,
    table: &Tensor<F>,
    record: &mut Array<F>,
    #[comptime] plan: Plan,
) {
    let (one, half) = (F::new(1.0), F::new(0.5));
    let m = means[0];
    let v = variances[0];
    if comptime!(plan.formula == Formula::Normal) {
        let noise = table[FIRST] + extra;
        let square = ((y - m) * (y - m) + v) / noise;
        record[0] = F::new(-0.5) * (F::new(LN_TAU) + noise.ln() + square);
        record[1] = (y - m) / noise;
        record[2] = F::new(-0.5) / noise;
        if comptime!(plan.own > 0) {
            record[3] = half * (square - one) / noise;
        }
    } else if comptime!(plan.formula == Formula::VaryingNormal) {
        let noise = table[FIRST];
        let precision = (half * variances[1] - means[1]).exp() / noise;
        let square = ((y - m) * (y - m) + v) * precision;
        record[0] = F::new(-0.5) * (F::new(LN_TAU) + noise.ln() + means[1] + square);
        record[1] = (y - m) * precision;
        record[2] = half * (square - one);
        record[3] = F::new(-0.5) * precision;
        record[4] = F::new(-0.25) * square;
        if comptime!(plan.own > 0) {
            record[5] = half * (square - one) / noise;
        }
    } else if comptime!(plan.formula == Formula::Poisson) {
        let rate = extra * (m + half * v).exp();
        let power = y * (m + extra.ln() - (y + F::new(7.0)).ln());
        record[0] = power + (y - rate) - ln_factorial_rest::<F>(y);
        record[1] = y - rate;
        record[2] = F::new(-0.5) * rate;
    } else {
        let shape = table[FIRST];
        let ratio = y * (half * v - m).exp();
        record[0] = table[FIRST + 1] + (shape - one) * y.ln() - shape * (m + ratio);
        record[1] = shape * (ratio - one);
        record[2] = F::new(-0.5) * shape * ratio;
        if comptime!(plan.own > 0) {
            record[3] = table[FIRST + 2] + y.ln() - m - ratio;
        }
    }
}

/// By quadrature, for one latent function.
#[cube]
fn averaged<F: Float>(
    y: F,
    extra: F,
    mean: F,
    variance: F,
    table: &Tensor<F>,
    record: &mut Array<F>,
    #[comptime] plan: Plan,
) {
    let half = F::new(0.5);
    let sd = max(variance, F::new(0.0)).sqrt();
    let along = half / max(sd, F::new(1e-12));
    let wide = variance > F::new(NARROW);
    let mut sums = Array::<F>::new(PARTS);
    let mut parts = Array::<F>::new(PARTS);
    #[unroll]
    for k in 0..PARTS {
        sums[k] = F::new(0.0);
        parts[k] = F::new(0.0);
    }
    for node in 0..NODES {
        let z = table[node];
        let weight = table[NODES + node];
        at_node::<F>(mean + sd * z, y, extra, table, &mut parts, plan);
        sums[0] += weight * parts[0];
        sums[1] += weight * parts[1];
        sums[2] += weight * select(wide, along * parts[1] * z, half * parts[2]);
        #[unroll]
        for k in 3..PARTS {
            sums[k] += weight * parts[k];
        }
    }
    record[0] = sums[0] + constant::<F>(y, extra, table, plan);
    record[1] = sums[1];
    record[2] = sums[2];
    if comptime!(plan.formula == Formula::Ordered) {
        // The first cut point moves both edges of a class. Gap j moves all cut points beyond j.
        record[3] = sums[3];
        let class = usize::cast_from(y);
        #[unroll]
        for j in 0..comptime!(plan.own - 1) {
            let mut slope = F::new(0.0);
            if class < comptime!(plan.own) && j < class {
                slope += sums[4];
            }
            if j + 1 < class {
                slope += sums[5];
            }
            record[4 + j] = slope;
        }
    } else {
        #[unroll]
        for k in 0..comptime!(plan.own) {
            record[3 + k] = sums[3 + k];
        }
    }
}

/// The part of the log density that does not depend on f.
#[cube]
fn constant<F: Float>(y: F, extra: F, table: &Tensor<F>, #[comptime] plan: Plan) -> F {
    let mut value = F::new(0.0);
    if comptime!(plan.formula == Formula::Student) {
        value = table[FIRST + 2];
    }
    if comptime!(plan.formula == Formula::SoftplusPoisson) {
        value = y - ln_factorial_rest::<F>(y);
    }
    if comptime!(plan.formula == Formula::GammaPoisson) {
        value = ln_rising_over_factorial::<F>(F::new(1.0) / table[FIRST], y);
    }
    if comptime!(plan.formula == Formula::Share) {
        value = table[FIRST + 1] - F::new(UP + 1.0) * (y.ln() + (F::new(1.0) - y).ln());
    }
    if comptime!(plan.formula == Formula::Binomial) {
        let (rest, seven) = (extra - y, F::new(7.0));
        let all = (extra + seven).ln();
        let powers = y * (all - (y + seven).ln()) + rest * (all - (rest + seven).ln());
        let others = ln_factorial_rest::<F>(y) + ln_factorial_rest::<F>(rest);
        value = powers + ln_factorial_rest::<F>(extra) - others;
    }
    value
}

/// Writes the parts of one node.
#[cube]
fn at_node<F: Float>(f: F, y: F, extra: F, table: &Tensor<F>, parts: &mut Array<F>, #[comptime] plan: Plan) {
    let (zero, one, half) = (F::new(0.0), F::new(1.0), F::new(0.5));
    if comptime!(plan.formula == Formula::Logistic) {
        let sign = F::new(2.0) * y - one;
        parts[0] = zero - softplus::<F>(zero - sign * f);
        parts[1] = sign * logistic::<F>(zero - sign * f);
        parts[2] = zero - logistic_slope::<F>(f);
    }
    if comptime!(plan.formula == Formula::Probit) {
        let sign = F::new(2.0) * y - one;
        log_normal_cdf::<F>(sign * f, parts);
        let slope = parts[1];
        parts[1] = sign * slope;
    }
    if comptime!(plan.formula == Formula::Binomial) {
        let rest = extra - y;
        parts[0] = zero - y * softplus::<F>(zero - f) - rest * softplus::<F>(f);
        parts[1] = y * logistic::<F>(zero - f) - rest * logistic::<F>(f);
        parts[2] = zero - extra * logistic_slope::<F>(f);
    }
    if comptime!(plan.formula == Formula::Student) {
        let (noise, df) = (table[FIRST], table[FIRST + 1]);
        let square = (y - f) * (y - f);
        let width = df * noise;
        let sum = width + square;
        let log = ln_1p::<F>(square / width);
        let pull = (df + one) * square / sum;
        parts[0] = F::new(-0.5) * (df + one) * log;
        parts[1] = (df + one) * (y - f) / sum;
        parts[2] = (df + one) * (square - width) / (sum * sum);
        parts[3] = half * (pull - one) / noise;
        parts[4] = table[FIRST + 3] + half * (pull / df - log);
    }
    if comptime!(plan.formula == Formula::SoftplusPoisson) {
        log_softplus::<F>(f, parts);
        let (value, ratio, slope) = (parts[0], parts[1], parts[2]);
        parts[0] = y * (value + extra.ln() - (y + F::new(7.0)).ln()) - extra * softplus::<F>(f);
        parts[1] = y * ratio - extra * logistic::<F>(f);
        parts[2] = y * slope - extra * logistic_slope::<F>(f);
    }
    if comptime!(plan.formula == Formula::GammaPoisson) {
        let dispersion = table[FIRST];
        let r = one / dispersion;
        let t = f + extra.ln() + dispersion.ln();
        let up = logistic::<F>(t);
        let down = logistic::<F>(zero - t);
        let soft = softplus::<F>(t);
        parts[0] = zero - y * softplus::<F>(zero - t) - r * soft;
        parts[1] = y * down - r * up;
        parts[2] = zero - (r + y) * logistic_slope::<F>(t);
        parts[3] = (zero - r * r) * (digamma_rise::<F>(r, y) - soft + up - y * dispersion * down);
    }
    if comptime!(plan.formula == Formula::Share) {
        let concentration = table[FIRST];
        let up = logistic::<F>(f);
        let down = logistic::<F>(zero - f);
        let slope = concentration * logistic_slope::<F>(f);
        let total = concentration + F::new(2.0 * UP);
        // Logarithms of ratios near 1, where sums of logarithms would cancel.
        let one_shape = concentration * up + F::new(UP);
        let other_shape = concentration * down + F::new(UP);
        let ratios = one_shape * (y * total / one_shape).ln() + other_shape * ((one - y) * total / other_shape).ln();
        gamma_parts::<F>(concentration * up, parts);
        let (rest, digamma, trigamma) = (parts[0], parts[1], parts[2]);
        gamma_parts::<F>(concentration * down, parts);
        let pull = slope * (parts[1] - digamma + y.ln() - (one - y).ln());
        let own = up * (y.ln() - digamma) + down * ((one - y).ln() - parts[1]);
        let bend = pull * (down - up) - slope * slope * (trigamma + parts[2]);
        parts[0] = ratios + rest + parts[0];
        parts[1] = pull;
        parts[2] = bend;
        parts[3] = table[FIRST + 2] + own;
    }
    if comptime!(plan.formula == Formula::Ordered) {
        // Edges at infinity are so far away that they do not count.
        let far = F::new(1e4);
        let mut upper = far;
        let mut lower = zero - far;
        let class = usize::cast_from(y);
        if class < comptime!(plan.own) {
            upper = table[FIRST + class] - f;
        }
        if class > 0 {
            lower = table[FIRST + class - 1] - f;
        }
        let inside = rise::<F>(upper - lower);
        let inner = (lower - upper).exp() / inside;
        let above = logistic::<F>(zero - upper);
        let below = logistic::<F>(lower);
        parts[0] = inside.ln() - softplus::<F>(zero - upper) - softplus::<F>(lower);
        parts[1] = below - above;
        parts[2] = zero - logistic_slope::<F>(upper) - logistic_slope::<F>(lower);
        parts[3] = above - below;
        parts[4] = above + inner;
        parts[5] = zero - below - inner;
    }
}
