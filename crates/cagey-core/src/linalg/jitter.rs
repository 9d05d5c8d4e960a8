//! The only jitter policy: every Cholesky factorisation on the host goes through [`factor`], and those on a GPU try the
//! same jitters.
//!
//! The first attempt uses no jitter. If it fails, a multiple of the mean diagonal is added, from 1e-10 (f64) or 1e-6
//! (f32) in steps of ten up to 1e-4. If that fails, too, the matrix is reported as not positive definite.

use std::cell::Cell;
use std::ops::RangeInclusive;

use super::dense::{self, cholesky};
use super::real::Real;
use crate::error::{Error, Result};

/// Decimal exponent of the largest relative jitter.
pub(crate) const LARGEST: i32 = -4;

/// Decimal exponents of the relative jitters that are tried, one after another.
pub(crate) fn exponents(single: bool) -> RangeInclusive<i32> {
    if single { -6..=LARGEST } else { -10..=LARGEST }
}

thread_local! {
    static SEEN: Cell<f64> = const { Cell::new(0.0) };
}

/// Runs `body` and returns its result, with the largest relative jitter that a factorisation in it needed on this
/// thread.
///
/// Zero when every factorisation succeeded without jitter.
pub fn watch<R>(body: impl FnOnce() -> R) -> (R, f64) {
    let outer = SEEN.replace(0.0);
    let result = body();
    let seen = SEEN.get();
    SEEN.set(outer.max(seen));
    (result, seen)
}

/// As [`watch`], unseen by an enclosing one: for one of several bodies that a thread may run inside each other.
pub fn watch_apart<R>(body: impl FnOnce() -> R) -> (R, f64) {
    let outer = SEEN.replace(0.0);
    let result = body();
    (result, SEEN.replace(outer))
}

/// [`check_rounding`] reports rounding errors above this share of the noise. Rounding errors of variances are then a
/// thousandth of the noise.
const BLUR: f64 = 1e-2;

/// Reports to the enclosing [`watch`] if rounding errors of a covariance matrix of order `n` with this mean diagonal
/// are no longer small beside the noise on it. Like a jitter, such errors change the model: its error bars become too
/// wide and its likelihood wrong. Assumes f64; matrices in f32 would seldom pass.
pub(crate) fn check_rounding(n: usize, mean_diagonal: f64, noise: f64) {
    let relative = f64::EPSILON * (n as f64).sqrt();
    if relative * mean_diagonal > BLUR * noise {
        record(relative);
    }
}

/// Reports a jitter to the enclosing [`watch`]: for factorisations that ran on other threads.
#[doc(hidden)]
pub fn record(jitter: f64) {
    SEEN.set(SEEN.get().max(jitter));
}

/// Factors a symmetric row-major matrix of order `n` in the lower triangle of its buffer. Returns the relative jitter
/// used.
///
/// The strict upper triangle keeps the matrix. `name` is the matrix in the papers' notation, and appears in the error.
///
/// # Errors
/// [`Error::NotPositiveDefinite`] if the largest jitter is not enough, or at once if the matrix is not finite.
pub fn factor<T: Real>(a: &mut [T], n: usize, name: &str) -> Result<f64> {
    let scale = a.iter().step_by(n + 1).map(|x| x.f64()).sum::<f64>() / n as f64;
    factor_scaled(a, n, scale, name)
}

/// [`factor`] with jitter relative to `scale` instead of the mean diagonal, for a Schur complement, which may be tiny.
///
/// # Errors
/// As [`factor`].
pub fn factor_scaled<T: Real>(a: &mut [T], n: usize, scale: f64, name: &str) -> Result<f64> {
    let jitter = attempts(a, n, scale, name)?;
    record(jitter);
    Ok(jitter)
}

fn attempts<T: Real>(a: &mut [T], n: usize, scale: f64, name: &str) -> Result<f64> {
    let diagonal: Vec<T> = a.iter().step_by(n + 1).copied().collect();
    let Err(mut pivot) = cholesky::factor(dense::view_mut(a, n)) else { return Ok(0.0) };
    restore(a, n, &diagonal, T::of(0.0));
    let failed = |pivot, jitter, finite| Error::NotPositiveDefinite {
        matrix: name.into(),
        size: n,
        dtype: T::NAME,
        pivot,
        jitter,
        finite,
    };
    if !a.iter().all(|x| x.is_finite()) {
        return Err(failed(pivot, 0.0, false));
    }
    for exponent in exponents(T::NAME == "f32") {
        let jitter = 10f64.powi(exponent);
        restore(a, n, &diagonal, T::of(jitter * scale));
        match cholesky::factor(dense::view_mut(a, n)) {
            Ok(()) => return Ok(jitter),
            Err(p) => pivot = p,
        }
    }
    Err(failed(pivot, 10f64.powi(LARGEST), true))
}

/// Rebuilds the matrix, with `shift` on its diagonal, from the triangle that a factorisation does not touch.
fn restore<T: Real>(a: &mut [T], n: usize, diagonal: &[T], shift: T) {
    for i in 0..n {
        for j in 0..i {
            a[i * n + j] = a[j * n + i];
        }
        a[i * n + i] = diagonal[i] + shift;
    }
}
