//! Profiles: scalar functions from a distance or an inner product to a covariance, each written once.

use serde::{Deserialize, Serialize};

use crate::arithmetic::{Arithmetic, largest_square};

/// The same limit for the rational quadratic, which decays slowly.
const LARGEST_OF_POWERS: f64 = 1e30;

/// The covariance as a function of s and at most one shape parameter a; s is a squared distance or an inner product of
/// features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Profile {
    /// exp(−s/2).
    Rbf,
    /// exp(−r), r = √s.
    Matern12,
    /// (1 + √3 r) exp(−√3 r).
    Matern32,
    /// (1 + √5 r + 5s/3) exp(−√5 r).
    Matern52,
    /// (1 + s/2a)^(−a).
    RationalQuadratic,
    /// exp(−2 sin²(πr)/a²).
    PeriodicNorm,
    /// cos(πr).
    CosineNorm,
    /// s.
    Identity,
    /// (s + a)^power.
    Power(u32),
    /// 1.
    One,
}

const SQRT_3: f64 = 1.732_050_807_568_877_2;
const SQRT_5: f64 = 2.236_067_977_499_79;
const PI: f64 = std::f64::consts::PI;

impl Profile {
    /// k(s; a).
    #[inline(always)]
    pub fn value<A: Arithmetic>(self, s: A, a: A) -> A {
        match self {
            Self::Rbf => s.scale(-0.5).exp(),
            Self::Matern12 => s.safe_sqrt().scale(-1.0).exp(),
            Self::Matern32 => {
                let t = s.safe_sqrt().scale(SQRT_3);
                t.clone().shift(1.0).mul(t.scale(-1.0).exp())
            }
            Self::Matern52 => {
                let t = s.safe_sqrt().scale(SQRT_5);
                let polynomial = t.clone().mul(t.clone().scale(1.0 / 3.0).shift(1.0)).shift(1.0);
                polynomial.mul(t.scale(-1.0).exp())
            }
            Self::RationalQuadratic => ratio(s, a.clone()).ln_1p().mul(a.scale(-1.0)).exp(),
            Self::PeriodicNorm => {
                let q = s.safe_sqrt().scale(PI).sin().div(a);
                q.clone().mul(q).scale(-2.0).exp()
            }
            Self::CosineNorm => s.safe_sqrt().scale(PI).cos(),
            Self::Identity => s,
            Self::Power(power) => s.add(a).powi(power),
            Self::One => s.scale(0.0).shift(1.0),
        }
    }

    /// (k, ∂k/∂s, ∂k/∂a); the last has a meaning only for profiles with a shape parameter.
    #[inline(always)]
    pub fn slopes<A: Arithmetic>(self, s: A, a: A) -> (A, A, A) {
        match self {
            Self::Rbf => {
                let k = s.scale(-0.5).exp();
                (k.clone(), k.clone().scale(-0.5), k)
            }
            Self::Matern12 => {
                let r = s.safe_sqrt();
                let k = r.clone().scale(-1.0).exp();
                (k.clone(), k.clone().scale(-0.5).div(r), k)
            }
            Self::Matern32 => {
                let t = s.safe_sqrt().scale(SQRT_3);
                let e = t.clone().scale(-1.0).exp();
                (t.shift(1.0).mul(e.clone()), e.clone().scale(-1.5), e)
            }
            Self::Matern52 => {
                let t = s.safe_sqrt().scale(SQRT_5);
                let e = t.clone().scale(-1.0).exp();
                let polynomial = t.clone().mul(t.clone().scale(1.0 / 3.0).shift(1.0)).shift(1.0);
                (polynomial.mul(e.clone()), t.shift(1.0).mul(e.clone()).scale(-5.0 / 6.0), e)
            }
            Self::RationalQuadratic => {
                let x = ratio(s, a.clone());
                let log = x.clone().ln_1p();
                let k = log.clone().mul(a.scale(-1.0)).exp();
                let ratio = k.clone().div(x.clone().shift(1.0));
                let shape = ratio.clone().mul(x).add(k.clone().mul(log).scale(-1.0));
                (k, ratio.scale(-0.5), shape)
            }
            Self::PeriodicNorm => {
                let r = s.safe_sqrt();
                let angle = r.clone().scale(PI);
                let (sine, cosine) = (angle.clone().sin(), angle.cos());
                let q = sine.clone().div(a.clone());
                let q2 = q.clone().mul(q);
                let k = q2.clone().scale(-2.0).exp();
                let inner = sine.mul(cosine).div(a.clone().mul(a.clone()).mul(r)).scale(-2.0 * PI);
                (k.clone(), k.clone().mul(inner), k.mul(q2).div(a).scale(4.0))
            }
            Self::CosineNorm => {
                let r = s.safe_sqrt();
                let angle = r.clone().scale(PI);
                let k = angle.clone().cos();
                (k.clone(), angle.sin().div(r).scale(-0.5 * PI), k)
            }
            Self::Identity => {
                let one = s.clone().scale(0.0).shift(1.0);
                (s, one.clone(), one)
            }
            Self::Power(power) => {
                let base = s.add(a);
                let slope = base.clone().powi(power.saturating_sub(1)).scale(f64::from(power));
                (base.powi(power), slope.clone(), slope)
            }
            Self::One => {
                let zero = s.scale(0.0);
                (zero.clone().shift(1.0), zero.clone(), zero)
            }
        }
    }

    /// The squared distance beyond which the covariance counts as constant; `bytes` is the size of a number.
    #[inline(always)]
    pub const fn end(self, bytes: usize) -> f64 {
        match self {
            Self::RationalQuadratic => LARGEST_OF_POWERS,
            _ => largest_square(bytes),
        }
    }
}

/// s/2a of the rational quadratic.
#[inline(always)]
fn ratio<A: Arithmetic>(s: A, a: A) -> A {
    s.at_most(LARGEST_OF_POWERS).div(a.scale(2.0))
}
