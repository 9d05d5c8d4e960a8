//! Markov factors: stationary and walking processes as linear stochastic differential equations, of unit variance.
//!
//! The states are those of Hartikainen and Särkkä (2010, *Kalman filtering and smoothing solutions to temporal Gaussian
//! process regression models*), made dimensionless: the derivative of order k is divided by rateᵏ. So everything
//! depends on the product of rate and distance alone, and variances are left to the observation.

use serde::{Deserialize, Serialize};

/// Most states of a block.
pub const MOST: usize = 9;

/// Entries of a block's square matrix of up to [`MOST`] states, row-major.
pub type Small = [f64; MOST * MOST];

/// Entries of the square matrix of a single process.
const TINY: usize = 9;

/// A process with a state of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Factor {
    /// Matérn of smoothness order − 1/2, for orders 1 to 3; rate √(2 order − 1)/lengthscale.
    Matern(usize),
    /// The Wiener process (1) or its integral (2) from unit variances at its origin; rate 1/lengthscale.
    Wiener(usize),
    /// A wave; rate 2π/period.
    Rotation,
}

/// A step of a process: s' = A s + noise of covariance Q, and the covariance P of s' before any data. Matrices are
/// row-major in the first places of an array.
#[derive(Debug, Clone, Copy)]
pub struct Step<const N: usize> {
    /// Number of states.
    pub size: usize,
    /// A `[size, size]`.
    pub a: [f64; N],
    /// Q `[size, size]`.
    pub q: [f64; N],
    /// P `[size, size]`.
    pub p: [f64; N],
}

/// The step of a single process.
pub type Tiny = Step<TINY>;

impl<const N: usize> Step<N> {
    /// All zeros.
    pub fn zero(size: usize) -> Self {
        let none = [0.0; N];
        Self { size, a: none, q: none, p: none }
    }

    /// A, Q and P.
    pub fn parts(&self) -> [&[f64]; 3] {
        [&self.a, &self.q, &self.p].map(|part| &part[..self.size * self.size])
    }
}

impl Factor {
    /// Number of states.
    pub fn size(self) -> usize {
        match self {
            Self::Matern(order) | Self::Wiener(order) => order,
            Self::Rotation => 2,
        }
    }

    /// The step over x = rate · distance to a place at `since` = rate · distance from the origin (walks only), and its
    /// derivatives: of A and Q in x, and of P in `since`.
    #[inline(always)]
    pub fn step(self, x: f64, since: f64) -> (Tiny, Tiny) {
        let size = self.size();
        let (mut step, mut slope) = (Tiny::zero(size), Tiny::zero(size));
        match self {
            Self::Rotation => {
                let (sine, cosine) = x.sin_cos();
                step.a[..4].copy_from_slice(&[cosine, sine, -sine, cosine]);
                slope.a[..4].copy_from_slice(&[-sine, cosine, -cosine, -sine]);
                step.p[..4].copy_from_slice(&[1.0, 0.0, 0.0, 1.0]);
            }
            Self::Wiener(order) => {
                walk(order, x, &mut step.a, &mut step.q);
                walk_slope(order, x, &mut slope.a, &mut slope.q);
                let (mut a, mut q, mut da, mut dq) = ([0.0; TINY], [0.0; TINY], [0.0; TINY], [0.0; TINY]);
                walk(order, since, &mut a, &mut q);
                walk_slope(order, since, &mut da, &mut dq);
                for i in 0..size {
                    for j in 0..size {
                        let at = i * size + j;
                        let dot = |x: &[f64; TINY], y: &[f64; TINY]| {
                            (0..size).map(|k| x[i * size + k] * y[j * size + k]).sum::<f64>()
                        };
                        step.p[at] = q[at] + dot(&a, &a);
                        slope.p[at] = dq[at] + dot(&da, &a) + dot(&a, &da);
                    }
                }
            }
            Self::Matern(order) => matern(order, x, &mut step, &mut slope),
        }
        (step, slope)
    }
}

/// A and Q of a walk.
#[inline]
fn walk(order: usize, x: f64, a: &mut [f64; TINY], q: &mut [f64; TINY]) {
    if order == 1 {
        (a[0], q[0]) = (1.0, x);
    } else {
        a[..4].copy_from_slice(&[1.0, x, 0.0, 1.0]);
        q[..4].copy_from_slice(&[x * x * x / 3.0, 0.5 * x * x, 0.5 * x * x, x]);
    }
}

#[inline]
fn walk_slope(order: usize, x: f64, a: &mut [f64; TINY], q: &mut [f64; TINY]) {
    if order == 1 {
        q[0] = 1.0;
    } else {
        a[1] = 1.0;
        q[..4].copy_from_slice(&[x * x, x, x, 1.0]);
    }
}

/// A = exp(Fx) with F the companion matrix of (D + 1)ᵐ, and Q = q ∫₀ˣ v vᵀ for the last column v of A. With I_k =
/// ∫₀ˣ sᵏ e^(−2s) ds, the integrals are sums of terms of one sign at small x, where a difference P − A P Aᵀ would have
/// no digits left.
#[inline]
fn matern(order: usize, x: f64, step: &mut Tiny, slope: &mut Tiny) {
    let e = (-x).exp();
    let moments = moments(order, x);
    match order {
        1 => {
            step.a[0] = e;
            slope.a[0] = -e;
            step.q[0] = 2.0 * moments[0];
            slope.q[0] = 2.0 * e * e;
            step.p[0] = 1.0;
        }
        2 => {
            step.a[..4].copy_from_slice(&[e * (1.0 + x), e * x, -e * x, e * (1.0 - x)]);
            slope.a[..4].copy_from_slice(&[-e * x, e * (1.0 - x), e * (x - 1.0), e * (x - 2.0)]);
            let [i0, i1, i2, ..] = moments;
            step.q[..4].copy_from_slice(&[4.0 * i2, 4.0 * (i1 - i2), 4.0 * (i1 - i2), 4.0 * (i0 - 2.0 * i1 + i2)]);
            outer(4.0, &[e * x, e * (1.0 - x)], &mut slope.q);
            step.p[..4].copy_from_slice(&[1.0, 0.0, 0.0, 1.0]);
        }
        _ => {
            let (x2, half) = (x * x, 0.5 * x * x);
            let rows = [
                [1.0 + x + half, x + x2, half],
                [-half, 1.0 + x - x2, x - half],
                [half - x, x2 - 3.0 * x, 1.0 - 2.0 * x + half],
            ];
            for (i, row) in rows.iter().enumerate() {
                for (j, value) in row.iter().enumerate() {
                    step.a[3 * i + j] = e * value;
                }
            }
            // dA/dx = F A.
            for j in 0..3 {
                slope.a[j] = step.a[3 + j];
                slope.a[3 + j] = step.a[6 + j];
                slope.a[6 + j] = -step.a[j] - 3.0 * step.a[3 + j] - 3.0 * step.a[6 + j];
            }
            let [i0, i1, i2, i3, i4] = moments;
            let c = 16.0 / 3.0;
            // v = e⁻ˢ (s²/2, s − s²/2, 1 − 2s + s²/2).
            let q00 = 0.25 * i4;
            let q01 = 0.5 * i3 - 0.25 * i4;
            let q02 = 0.5 * i2 - i3 + 0.25 * i4;
            let q11 = i2 - i3 + 0.25 * i4;
            let q12 = i1 - 2.5 * i2 + 1.5 * i3 - 0.25 * i4;
            let q22 = i0 - 4.0 * i1 + 5.0 * i2 - 2.0 * i3 + 0.25 * i4;
            let q = [q00, q01, q02, q01, q11, q12, q02, q12, q22];
            step.q.iter_mut().zip(q).for_each(|(to, q)| *to = c * q);
            outer(c, &[e * half, e * (x - half), e * (1.0 - 2.0 * x + half)], &mut slope.q);
            step.p[..9].copy_from_slice(&[1.0, 0.0, -1.0 / 3.0, 0.0, 1.0 / 3.0, 0.0, -1.0 / 3.0, 0.0, 1.0]);
        }
    }
}

#[inline]
fn outer(factor: f64, v: &[f64], to: &mut [f64; TINY]) {
    for (i, a) in v.iter().enumerate() {
        for (j, b) in v.iter().enumerate() {
            to[i * v.len() + j] = factor * a * b;
        }
    }
}

/// I_k for k up to 2 (order − 1), from the regularised incomplete gamma functions P(k + 1, 2x): I_k = k!/2^(k+1) P.
#[inline]
fn moments(order: usize, x: f64) -> [f64; 5] {
    let (z, most) = (2.0 * x, 2 * order - 2);
    let e = (-z).exp();
    let mut all = [0.0; 5];
    // e⁻ᶻ zᵏ/k!, and the constants k!/2^(k+1).
    let mut term = [e; 6];
    for k in 1..6 {
        term[k] = term[k - 1] * z / k as f64;
    }
    const SCALE: [f64; 5] = [0.5, 0.25, 0.25, 0.375, 0.75];
    // P(most + 1): by its series where one minus the other terms would cancel.
    let mut p = if z < 1.5 {
        let (mut next, mut sum) = (term[most + 1], 0.0);
        for k in most + 2..most + 30 {
            sum += next;
            if next < 1e-17 * sum {
                break;
            }
            next *= z / k as f64;
        }
        sum
    } else {
        1.0 - term[..=most].iter().sum::<f64>()
    };
    for k in (0..=most).rev() {
        all[k] = SCALE[k] * p;
        p += term[k];
    }
    all
}

/// e^(−z) I_j(z) for j = 0..=`most`, the modified Bessel functions, by downward recurrence (Abramowitz and Stegun 1964,
/// section 9.12).
pub fn bessel(z: f64, most: usize) -> Vec<f64> {
    let first = most + 20 + (40.0 * z.max(most as f64)).sqrt() as usize;
    let (mut above, mut here, mut sum) = (0.0, 1e-280, 0.0);
    let mut all = vec![0.0; most + 1];
    for j in (0..=first).rev() {
        if j <= most {
            all[j] = here;
        }
        sum += if j == 0 { here } else { 2.0 * here };
        if here > 1e200 {
            (above, here, sum) = (above * 1e-200, here * 1e-200, sum * 1e-200);
            all.iter_mut().for_each(|value| *value *= 1e-200);
        }
        (above, here) = (here, above + 2.0 * j as f64 / z * here);
    }
    all.iter_mut().for_each(|value| *value /= sum);
    all
}
