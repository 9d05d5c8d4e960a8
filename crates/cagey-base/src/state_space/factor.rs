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

/// The step of a single process of one or two states.
pub type Few = Step<4>;

/// The step of a single process.
pub type Tiny = Step<9>;

impl<const N: usize> Step<N> {
    /// Room in each matrix.
    pub const ENTRIES: usize = N;

    /// All zeros.
    #[inline(always)]
    pub fn zero(size: usize) -> Self {
        let none = [0.0; N];
        Self { size, a: none, q: none, p: none }
    }

    /// A, Q and P.
    #[inline(always)]
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

    /// The step over x = rate · distance to a place at `since` = rate · distance from the origin (walks only). It goes
    /// to a `step` of zeros: arrays that are returned are copied more than once.
    #[inline(always)]
    pub fn step<const N: usize>(self, x: f64, since: f64, step: &mut Step<N>) {
        match self {
            Self::Rotation => {
                let (sine, cosine) = x.sin_cos();
                step.a[..4].copy_from_slice(&[cosine, sine, -sine, cosine]);
                step.p[..4].copy_from_slice(&[1.0, 0.0, 0.0, 1.0]);
            }
            Self::Wiener(order) => {
                walk(order, x, &mut step.a, &mut step.q);
                let mut prior = Self::walked(order, since);
                let a = prior.a;
                entries(order, |i, j| prior.q[i * order + j] += rows(order, (&a, i), (&a, j)));
                step.p[..order * order].copy_from_slice(&prior.q[..order * order]);
            }
            Self::Matern(order) => matern(order, x, step),
        }
    }

    /// The derivatives of A and Q of such a step in x: dA/dx = F A with the companion matrix F, and dQ/dx = q v vᵀ for
    /// the last column v of A.
    #[inline(always)]
    pub fn slope<const N: usize>(self, a: &[f64], slope: &mut Step<N>) {
        // Minus the last row of F, and q.
        let (last, q) = match self {
            Self::Rotation => ([1.0, 0.0, 0.0], 0.0),
            Self::Wiener(_) => ([0.0; 3], 1.0),
            Self::Matern(1) => ([1.0, 0.0, 0.0], 2.0),
            Self::Matern(2) => ([1.0, 2.0, 0.0], 4.0),
            Self::Matern(_) => ([1.0, 3.0, 3.0], 16.0 / 3.0),
        };
        let size = self.size();
        let v = |i: usize| a[i * size + size - 1];
        entries(size, |i, j| {
            let own = if i + 1 < size {
                a[(i + 1) * size + j]
            } else {
                -(0..size).map(|k| last[k] * a[k * size + j]).sum::<f64>()
            };
            slope.a[i * size + j] = own;
            slope.q[i * size + j] = q * v(i) * v(j);
        });
    }

    /// The derivative of P in `since`, of a walk.
    #[inline(always)]
    pub fn slope_of_prior<const N: usize>(self, since: f64, slope: &mut Step<N>) {
        let Self::Wiener(order) = self else { return };
        let (step, mut own) = (Self::walked(order, since), Few::zero(order));
        self.slope(&step.a, &mut own);
        entries(order, |i, j| {
            let both = rows(order, (&own.a, i), (&step.a, j)) + rows(order, (&step.a, i), (&own.a, j));
            slope.p[i * order + j] = own.q[i * order + j] + both;
        });
    }

    /// A and Q of a walk over x.
    #[inline(always)]
    fn walked(order: usize, x: f64) -> Few {
        let mut step = Few::zero(order);
        walk(order, x, &mut step.a, &mut step.q);
        step
    }
}

#[inline(always)]
fn entries(size: usize, mut each: impl FnMut(usize, usize)) {
    (0..size).for_each(|i| (0..size).for_each(|j| each(i, j)));
}

/// Row i of x times row j of y.
#[inline(always)]
fn rows(size: usize, (x, i): (&[f64], usize), (y, j): (&[f64], usize)) -> f64 {
    (0..size).map(|k| x[i * size + k] * y[j * size + k]).sum()
}

/// A and Q of a walk.
#[inline]
fn walk(order: usize, x: f64, a: &mut [f64], q: &mut [f64]) {
    if order == 1 {
        (a[0], q[0]) = (1.0, x);
    } else {
        a[..4].copy_from_slice(&[1.0, x, 0.0, 1.0]);
        q[..4].copy_from_slice(&[x * x * x / 3.0, 0.5 * x * x, 0.5 * x * x, x]);
    }
}

/// A = exp(Fx) with F the companion matrix of (D + 1)ᵐ, and Q = q ∫₀ˣ v vᵀ for the last column v of A. With I_k =
/// ∫₀ˣ sᵏ e^(−2s) ds, the integrals are sums of terms of one sign at small x, where a difference P − A P Aᵀ would have
/// no digits left.
#[inline(always)]
fn matern<const N: usize>(order: usize, x: f64, step: &mut Step<N>) {
    let e = (-x).exp();
    match order {
        1 => {
            let [i0, ..] = moments::<1>(x, e * e);
            (step.a[0], step.q[0], step.p[0]) = (e, 2.0 * i0, 1.0);
        }
        2 => {
            step.a[..4].copy_from_slice(&[e * (1.0 + x), e * x, -e * x, e * (1.0 - x)]);
            let [i0, i1, i2, ..] = moments::<2>(x, e * e);
            step.q[..4].copy_from_slice(&[4.0 * i2, 4.0 * (i1 - i2), 4.0 * (i1 - i2), 4.0 * (i0 - 2.0 * i1 + i2)]);
            step.p[..4].copy_from_slice(&[1.0, 0.0, 0.0, 1.0]);
        }
        _ => {
            step.a[..9].copy_from_slice(&exponential(x, e));
            let [i0, i1, i2, i3, i4] = moments::<3>(x, e * e);
            let c = 16.0 / 3.0;
            // v = e⁻ˢ (s²/2, s − s²/2, 1 − 2s + s²/2).
            let q00 = 0.25 * i4;
            let q01 = 0.5 * i3 - 0.25 * i4;
            let q02 = 0.5 * i2 - i3 + 0.25 * i4;
            let q11 = i2 - i3 + 0.25 * i4;
            let q12 = i1 - 2.5 * i2 + 1.5 * i3 - 0.25 * i4;
            let q22 = i0 - 4.0 * i1 + 5.0 * i2 - 2.0 * i3 + 0.25 * i4;
            step.q[..9].copy_from_slice(&[q00, q01, q02, q01, q11, q12, q02, q12, q22].map(|q| c * q));
            step.p[..9].copy_from_slice(&[1.0, 0.0, -1.0 / 3.0, 0.0, 1.0 / 3.0, 0.0, -1.0 / 3.0, 0.0, 1.0]);
        }
    }
}

/// A of three states, for e = e⁻ˣ.
#[inline(always)]
fn exponential(x: f64, e: f64) -> [f64; 9] {
    let (x2, half) = (x * x, 0.5 * x * x);
    [1.0 + x + half, x + x2, half, -half, 1.0 + x - x2, x - half, half - x, x2 - 3.0 * x, 1.0 - 2.0 * x + half]
        .map(|value| e * value)
}

/// 1/k.
const INVERSE: [f64; 34] = {
    let mut all = [0.0; 34];
    let mut k = 1;
    while k < all.len() {
        all[k] = 1.0 / k as f64;
        k += 1;
    }
    all
};

/// I_k for k up to 2 (`ORDER` − 1), from the regularised incomplete gamma functions P(k + 1, 2x): I_k = k!/2^(k+1) P.
/// `e` is e⁻²ˣ.
#[inline(always)]
fn moments<const ORDER: usize>(x: f64, e: f64) -> [f64; 5] {
    let (z, most) = (2.0 * x, 2 * ORDER - 2);
    let mut all = [0.0; 5];
    // e⁻ᶻ zᵏ/k!, and the constants k!/2^(k+1).
    let mut term = [e; 6];
    for k in 1..6 {
        term[k] = term[k - 1] * z * INVERSE[k];
    }
    const SCALE: [f64; 5] = [0.5, 0.25, 0.25, 0.375, 0.75];
    // P(most + 1): by its series where one minus the other terms would cancel.
    let mut p = if z < 1.5 {
        let (mut next, mut sum) = (term[most + 1], 0.0);
        for inverse in &INVERSE[most + 2..most + 30] {
            sum += next;
            if next < 1e-17 * sum {
                break;
            }
            next *= z * inverse;
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
