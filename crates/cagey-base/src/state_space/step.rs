//! Steps of blocks from one row to the next: Kronecker products of the steps of their factors.

use super::factor::{Factor, MOST, Step, Tiny};
use super::{Block, Rate};

impl Rate {
    /// The step from time `from` to `to`, its derivatives in x and `since`, and what x and `since` grow by with the
    /// rate.
    #[inline(always)]
    fn step(&self, from: f64, to: f64) -> (Tiny, Tiny, [f64; 2]) {
        // A walk does not move before its origin.
        let distance = to.max(self.origin) - from.max(self.origin);
        let since = if matches!(self.factor, Factor::Wiener(_)) { to.max(self.origin) - self.origin } else { 0.0 };
        let (step, slope) = self.factor.step(self.rate * distance, self.rate * since);
        (step, slope, [distance, since])
    }
}

/// x ⊗ y added to `to`, with a factor.
#[inline]
fn kronecker(factor: f64, (x, n): (&[f64], usize), (y, m): (&[f64], usize), to: &mut [f64]) {
    let size = n * m;
    for i in 0..n {
        for j in 0..n {
            let x = factor * x[i * n + j];
            for k in 0..m {
                for l in 0..m {
                    to[(i * m + k) * size + j * m + l] += x * y[k * m + l];
                }
            }
        }
    }
}

/// Adds the step of the product of two independent processes. As s ⊗ z has the prior covariance P ⊗ P', its noise is Q
/// ⊗ P' + (P − Q) ⊗ Q'. This is linear in each process, so derivatives are sums of such products.
fn add_product<const N: usize>(x: &Step<N>, y: &Tiny, all: &mut Step<N>) {
    let (n, m) = (x.size, y.size);
    kronecker(1.0, (&x.a, n), (&y.a, m), &mut all.a);
    kronecker(1.0, (&x.q, n), (&y.p, m), &mut all.q);
    kronecker(1.0, (&x.p, n), (&y.q, m), &mut all.q);
    kronecker(-1.0, (&x.q, n), (&y.q, m), &mut all.q);
    kronecker(1.0, (&x.p, n), (&y.p, m), &mut all.p);
}

/// Products of so few states have small arrays.
const FEW: usize = 4;

/// Σ a b over the entries of b.
#[inline(always)]
fn inner(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// A state that stays as it is.
fn still<const N: usize>() -> Step<N> {
    let mut one = Step::zero(1);
    (one.a[0], one.p[0]) = (1.0, 1.0);
    one
}

impl Block {
    /// Tells `put` of the A, Q and P of the step from time `from` to `to`.
    #[inline(always)]
    pub fn step(&self, from: f64, to: f64, put: impl FnOnce([&[f64]; 3])) {
        match self.rates.as_slice() {
            [one] => put(one.step(from, to).0.parts()),
            _ if self.size <= FEW => put(self.whole::<{ FEW * FEW }>(from, to).parts()),
            _ => put(self.whole::<{ MOST * MOST }>(from, to).parts()),
        }
    }

    /// The step of all processes, in arrays with room for it.
    fn whole<const N: usize>(&self, from: f64, to: f64) -> Step<N> {
        let mut all = still();
        for rate in &self.rates {
            let (step, ..) = rate.step(from, to);
            let mut next = Step::zero(all.size * step.size);
            add_product(&all, &step, &mut next);
            all = next;
        }
        all
    }

    /// Adds to `slopes`, for each rate, the derivative of Σ Ā∘A + Q̄∘Q + P̄∘P of the step from `from` to `to`.
    #[inline(always)]
    pub fn contract(&self, (from, to): (f64, f64), bars: [&[f64]; 3], slopes: &mut [f64]) {
        if let ([one], [slope]) = (self.rates.as_slice(), &mut *slopes) {
            let (_, own, [distance, since]) = one.step(from, to);
            let [a, q, p] = own.parts();
            *slope += distance * (inner(bars[0], a) + inner(bars[1], q)) + since * inner(bars[2], p);
        } else if self.size <= FEW {
            self.contract_whole::<{ FEW * FEW }>((from, to), bars, slopes);
        } else {
            self.contract_whole::<{ MOST * MOST }>((from, to), bars, slopes);
        }
    }

    fn contract_whole<const N: usize>(&self, (from, to): (f64, f64), bars: [&[f64]; 3], slopes: &mut [f64]) {
        for (i, slope) in slopes.iter_mut().enumerate() {
            let (mut all, mut derivative) = (still::<N>(), Step::<N>::zero(1));
            for (k, rate) in self.rates.iter().enumerate() {
                let (step, mut own, [distance, since]) = rate.step(from, to);
                let mut next = Step::zero(all.size * step.size);
                add_product(&derivative, &step, &mut next);
                if i == k {
                    own.a.iter_mut().chain(&mut own.q).for_each(|value| *value *= distance);
                    own.p.iter_mut().for_each(|value| *value *= since);
                    add_product(&all, &own, &mut next);
                }
                derivative = next;
                let mut next = Step::zero(all.size * step.size);
                add_product(&all, &step, &mut next);
                all = next;
            }
            for (bar, own) in bars.iter().zip(derivative.parts()) {
                *slope += inner(bar, own);
            }
        }
    }

    /// Whether steps over the same distance differ, for times after all origins.
    pub fn depends_on_time(&self) -> bool {
        let walks = self.rates.iter().any(|rate| matches!(rate.factor, Factor::Wiener(_)));
        let noisy = self.rates.iter().filter(|rate| rate.factor != Factor::Rotation).count();
        walks && noisy > 1
    }
}
