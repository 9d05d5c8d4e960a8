//! Steps of blocks from one row to the next: Kronecker products of the steps of their factors.

use super::factor::{Factor, Few, MOST, Step, Tiny};
use super::{Block, Rate};

impl Rate {
    /// What x and `since` of the step from time `from` to `to` grow by with the rate.
    #[inline(always)]
    fn distances(&self, from: f64, to: f64) -> [f64; 2] {
        // A walk does not move before its origin.
        let distance = to.max(self.origin) - from.max(self.origin);
        let since = if matches!(self.factor, Factor::Wiener(_)) { to.max(self.origin) - self.origin } else { 0.0 };
        [distance, since]
    }

    /// The step from time `from` to `to`.
    #[inline(always)]
    fn step<const N: usize>(&self, from: f64, to: f64) -> Step<N> {
        let ([distance, since], mut step) = (self.distances(from, to), Step::zero(self.factor.size()));
        self.factor.step(self.rate * distance, self.rate * since, &mut step);
        step
    }

    /// The derivatives of this step in the rate.
    #[inline(always)]
    fn slope<const N: usize>(&self, a: &[f64], from: f64, to: f64) -> Step<N> {
        let ([distance, since], mut slope) = (self.distances(from, to), Step::zero(self.factor.size()));
        self.factor.slope(a, &mut slope);
        self.factor.slope_of_prior(self.rate * since, &mut slope);
        slope.a.iter_mut().chain(&mut slope.q).for_each(|value| *value *= distance);
        slope.p.iter_mut().for_each(|value| *value *= since);
        slope
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
            [one] if self.size < 3 => put(one.step::<{ Few::ENTRIES }>(from, to).parts()),
            [one] => put(one.step::<{ Tiny::ENTRIES }>(from, to).parts()),
            _ if self.size <= FEW => put(self.whole::<{ FEW * FEW }>(from, to).parts()),
            _ => put(self.whole::<{ MOST * MOST }>(from, to).parts()),
        }
    }

    /// The step of all processes, in arrays with room for it.
    fn whole<const N: usize>(&self, from: f64, to: f64) -> Step<N> {
        let mut all = still();
        for rate in &self.rates {
            let step: Tiny = rate.step(from, to);
            let mut next = Step::zero(all.size * step.size);
            add_product(&all, &step, &mut next);
            all = next;
        }
        all
    }

    /// Adds to `slopes`, for each rate, the derivative of Σ Ā∘A + Q̄∘Q + P̄∘P of the step from `from` to `to`, whose A
    /// is `a`.
    #[inline(always)]
    pub fn contract(&self, (from, to): (f64, f64), a: &[f64], bars: [&[f64]; 3], slopes: &mut [f64]) {
        fn sum<const N: usize>(bars: [&[f64]; 3], own: &Step<N>) -> f64 {
            bars.iter().zip(own.parts()).map(|(bar, own)| inner(bar, own)).sum()
        }
        if let ([one], [slope]) = (self.rates.as_slice(), &mut *slopes) {
            *slope += match self.size {
                ..3 => sum(bars, &one.slope::<{ Few::ENTRIES }>(a, from, to)),
                _ => sum(bars, &one.slope::<{ Tiny::ENTRIES }>(a, from, to)),
            };
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
                let step: Tiny = rate.step(from, to);
                let mut next = Step::zero(all.size * step.size);
                add_product(&derivative, &step, &mut next);
                if i == k {
                    add_product(&all, &rate.slope(&step.a, from, to), &mut next);
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
