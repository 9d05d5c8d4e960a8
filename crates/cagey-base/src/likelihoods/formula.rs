//! Log densities, written once, and their derivatives.

use super::density::{Marginal, Slopes, Support};
use super::quadrature;
use super::targets::Row;
use crate::arithmetic::{Jet, Real};

/// `ln p(y | f)` of one row, written once over [`Real`] numbers: latent values f `[L]` and the likelihood's own
/// parameters `[P]` (internal values, in the order of its list). Its derivatives in both follow.
pub trait Formula: std::fmt::Debug + Send + Sync + 'static {
    /// The values that a target can take.
    fn support(&self, auxiliary: f64) -> Support;

    /// Number of latent functions `L`.
    fn latents(&self) -> usize {
        1
    }

    /// Whether `ln p(y | f)` is concave in `f` for all targets. If not, [`curvature`](Self::curvature) has to be the
    /// Fisher information.
    fn is_log_concave(&self) -> bool {
        true
    }

    /// `ln p(y | f)`, without its [`rest`](Self::rest). It holds for all finite f, also in the tails.
    fn log_density<A: Real>(&self, row: Row, f: &[A], own: &[A]) -> A;

    /// The part of `ln p(y | f)` that does not depend on f, if it is worth computing once for many f.
    fn rest<A: Real>(&self, _row: Row, _own: &[A]) -> A {
        A::constant(0.0)
    }

    /// The numbers `d` `[L]` of the curvature: see [`Density::curvature`](super::Density::curvature). By default minus
    /// the second derivatives of the log density; a density that is not log-concave needs its Fisher information here.
    fn curvature<A: Real>(&self, row: Row, f: &[A], own: &[A], d: &mut [A]) {
        for (l, d) in d.iter_mut().enumerate() {
            let seed = |k: usize| A::constant(if k == l { 1.0 } else { 0.0 });
            let twice = |k: usize, f: A| Jet::new(Jet::new(f, seed(k)), Jet::new(seed(k), A::constant(0.0)));
            let fixed = |_: usize, own: A| Jet::new(Jet::new(own, A::constant(0.0)), Jet::constant(0.0));
            let value = lifted(f, twice, |f| lifted(own, fixed, |own| self.log_density(row, f, own)));
            *d = -value.slope.slope;
        }
    }
}

/// The most numbers that [`lifted`] keeps without an allocation.
const FEW: usize = 3;

/// Calls `then` with other kinds of numbers.
#[inline(always)]
fn lifted<A: Copy, B: Real, R>(numbers: &[A], to: impl Fn(usize, A) -> B, then: impl FnOnce(&[B]) -> R) -> R {
    if numbers.len() > FEW {
        return then(&numbers.iter().enumerate().map(|(k, x)| to(k, *x)).collect::<Vec<_>>());
    }
    let mut few = [B::constant(0.0); FEW];
    few.iter_mut().zip(numbers).enumerate().for_each(|(k, (few, x))| *few = to(k, *x));
    then(&few[..numbers.len()])
}

/// Makes a type whose [`Formula`] is a log density: a likelihood for `Custom` in three lines. The expression is over
/// [`Real`] numbers; it sees the row, the latent values and the likelihood's own parameters. What does not depend on
/// the latent values may be a second one, its [rest](Formula::rest), which is computed once for many of them.
///
/// ```
/// use cagey::likelihoods::{Custom, Support};
/// use cagey::params::{Parameter, Unit};
///
/// cagey::log_density!(Weibull: Support::Positive, |row, f, own| {
///     let t = own[0] * (-f[0] + row.y.ln());
///     t - t.exp()
/// }, |row, own| own[0].ln() - row.y.ln());
///
/// let weibull = Custom::new("weibull", Weibull, [Parameter::positive("shape", Unit::None, &[1.0])]);
/// # let rows = [cagey::likelihoods::Row { y: 0.7, auxiliary: 1.0 }];
/// # cagey::check::likelihood(&weibull, &rows).unwrap();
/// ```
#[macro_export]
macro_rules! log_density {
    (
        $(#[$about:meta])*
        $visible:vis $name:ident: $support:expr,
        |$row:ident, $f:ident, $own:pat_param| $value:expr
        $(, |$row_alone:pat_param, $own_alone:pat_param| $rest:expr)? $(,)?
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy)]
        $visible struct $name;

        impl $crate::likelihoods::Formula for $name {
            fn support(&self, _auxiliary: f64) -> $crate::likelihoods::Support {
                $support
            }

            fn log_density<A: $crate::arithmetic::Real>(
                &self,
                $row: $crate::likelihoods::Row,
                $f: &[A],
                $own: &[A],
            ) -> A {
                $value
            }

            $(fn rest<A: $crate::arithmetic::Real>(&self, $row_alone: $crate::likelihoods::Row, $own_alone: &[A]) -> A {
                $rest
            })?
        }
    };
}

/// A direction in which to differentiate.
#[derive(Debug, Clone, Copy)]
pub enum Along<'a> {
    /// One latent function.
    Latent(usize),
    /// All latent functions, with weights.
    Latents(&'a [f64]),
    /// An own parameter.
    Own(usize),
}

impl Along<'_> {
    #[inline(always)]
    fn latent(self, at: usize) -> f64 {
        match self {
            Self::Latent(l) => f64::from(u8::from(l == at)),
            Self::Latents(weights) => weights[at],
            Self::Own(_) => 0.0,
        }
    }

    #[inline(always)]
    fn own(self, at: usize) -> f64 {
        f64::from(u8::from(matches!(self, Self::Own(k) if k == at)))
    }
}

/// A [`Formula`] as an object: its values and derivatives in numbers.
pub trait Derivatives: std::fmt::Debug + Send + Sync + 'static {
    /// The values that a target can take.
    fn support(&self, auxiliary: f64) -> Support;

    /// Number of latent functions `L`.
    fn latents(&self) -> usize;

    /// Whether `ln p(y | f)` is concave in `f` for all targets. If not, the curvature is the Fisher information. It is
    /// never negative, but it is an approximation, not the density's own curvature.
    fn is_log_concave(&self) -> bool;

    /// `ln p(y | f)`.
    fn value(&self, row: Row, f: &[f64], own: &[f64]) -> f64;

    /// The [rest](Formula::rest) of the log density.
    fn rest(&self, row: Row, own: &[f64]) -> f64;

    /// The slope of the rest in an own parameter.
    fn rest_slope(&self, row: Row, own: &[f64], at: usize) -> f64;

    /// The log density without its rest, and its slope.
    fn slope(&self, row: Row, f: &[f64], own: &[f64], along: Along) -> [f64; 2];

    /// The log density without its rest, its slopes along two directions, and its second derivative.
    fn bend(&self, row: Row, f: &[f64], own: &[f64], along: [Along; 2]) -> [f64; 4];

    /// The numbers `d` `[L]` of the curvature.
    fn curved(&self, row: Row, f: &[f64], own: &[f64], d: &mut [f64]);

    /// The average of the log density under Gaussian marginals by Gauss–Hermite quadrature, and the exact slopes of
    /// that rule.
    fn average(&self, row: Row, at: Marginal, own: &[f64], slopes: Slopes) -> f64;

    /// The slope of `Σ B_ll d_l` for weights B `[L, L]`.
    fn curved_slope(&self, row: Row, f: &[f64], own: &[f64], along: Along, weights: &[f64]) -> f64;
}

impl<F: Formula> Derivatives for F {
    fn support(&self, auxiliary: f64) -> Support {
        Formula::support(self, auxiliary)
    }

    fn latents(&self) -> usize {
        Formula::latents(self)
    }

    fn is_log_concave(&self) -> bool {
        Formula::is_log_concave(self)
    }

    fn value(&self, row: Row, f: &[f64], own: &[f64]) -> f64 {
        self.log_density(row, f, own) + Formula::rest(self, row, own)
    }

    fn rest(&self, row: Row, own: &[f64]) -> f64 {
        Formula::rest(self, row, own)
    }

    fn rest_slope(&self, row: Row, own: &[f64], at: usize) -> f64 {
        let along = Along::Own(at);
        lifted(own, |k, own| Jet::new(own, along.own(k)), |own| Formula::rest(self, row, own).slope)
    }

    #[inline]
    fn slope(&self, row: Row, f: &[f64], own: &[f64], along: Along) -> [f64; 2] {
        let f_to = |k: usize, f: f64| Jet::new(f, along.latent(k));
        let own_to = |k: usize, own: f64| Jet::new(own, along.own(k));
        let Jet { value, slope } = lifted(f, f_to, |f| lifted(own, own_to, |own| self.log_density(row, f, own)));
        [value, slope]
    }

    fn bend(&self, row: Row, f: &[f64], own: &[f64], [first, second]: [Along; 2]) -> [f64; 4] {
        let twice = |x: f64, a: f64, b: f64| Jet::new(Jet::new(x, a), Jet::new(b, 0.0));
        let f_to = |k: usize, f: f64| twice(f, first.latent(k), second.latent(k));
        let own_to = |k: usize, own: f64| twice(own, first.own(k), second.own(k));
        let Jet { value, slope } = lifted(f, f_to, |f| lifted(own, own_to, |own| self.log_density(row, f, own)));
        [value.value, value.slope, slope.value, slope.slope]
    }

    fn curved(&self, row: Row, f: &[f64], own: &[f64], d: &mut [f64]) {
        self.curvature(row, f, own, d);
    }

    fn average(&self, row: Row, at: Marginal, own: &[f64], slopes: Slopes) -> f64 {
        let mut total = Formula::rest(self, row, own);
        let fixed = |_: usize, x: f64| Jet::constant(x);
        for l in 0..at.mean.len() {
            let narrow = at.variance[l] <= NARROW;
            lifted(own, fixed, |of_own| {
                at_nodes(at, &mut |f, z, weight| {
                    let along = |k: usize, f: f64| Jet::new(f, Along::Latent(l).latent(k));
                    let Jet { value, slope } = lifted(f, along, |f| self.log_density(row, f, of_own));
                    total += if l == 0 { weight * value } else { 0.0 };
                    slopes.mean[l] += weight * slope;
                    slopes.variance[l] += 0.5
                        * weight
                        * match narrow {
                            true => self.bend(row, f, own, [Along::Latent(l); 2])[3],
                            false => slope * z[l] / at.variance[l].sqrt(),
                        };
                });
            });
        }
        for (k, in_own) in slopes.own.iter_mut().enumerate() {
            *in_own += self.rest_slope(row, own, k);
            lifted(
                own,
                |at, x| Jet::new(x, Along::Own(k).own(at)),
                |own| {
                    at_nodes(at, &mut |f, _, weight| {
                        *in_own += weight * lifted(f, fixed, |f| self.log_density(row, f, own)).slope;
                    });
                },
            );
        }
        total
    }

    fn curved_slope(&self, row: Row, f: &[f64], own: &[f64], along: Along, weights: &[f64]) -> f64 {
        let f_to = |k: usize, f: f64| Jet::new(f, along.latent(k));
        let own_to = |k: usize, own: f64| Jet::new(own, along.own(k));
        let weigh =
            |d: &mut [Jet<f64>]| d.iter().zip(weights.iter().step_by(f.len() + 1)).map(|(d, w)| d.slope * w).sum();
        lifted(f, f_to, |f| {
            lifted(own, own_to, |own| {
                let mut few = [Jet::constant(0.0); FEW];
                if f.len() <= FEW {
                    self.curvature(row, f, own, &mut few[..f.len()]);
                    return weigh(&mut few[..f.len()]);
                }
                let mut many = vec![Jet::constant(0.0); f.len()];
                self.curvature(row, f, own, &mut many);
                weigh(&mut many)
            })
        })
    }
}

/// Below this variance the rule's own slope `Σ w ℓ'(m + sz) z / 2s` loses digits, and `½ E[ℓ'']` is as exact.
const NARROW: f64 = 1e-10;

/// Visits the nodes of the product rule with their latent values, standard normal numbers and weights.
#[inline(always)]
pub fn at_nodes(at: Marginal, visit: &mut impl FnMut(&[f64], &[f64], f64)) {
    let rule = quadrature::rule();
    if let ([mean], [variance]) = (at.mean, at.variance) {
        let sd = variance.max(0.0).sqrt();
        return rule.iter().for_each(|(z, weight)| visit(&[mean + sd * z], &[*z], *weight));
    }
    let (mut f, mut z) = (at.mean.to_vec(), vec![0.0; at.mean.len()]);
    for mut code in 0..rule.len().pow(f.len() as u32) {
        let mut weight = 1.0;
        for (l, (f, z)) in f.iter_mut().zip(&mut z).enumerate() {
            let (node, share) = rule[code % rule.len()];
            code /= rule.len();
            (*z, *f) = (node, at.mean[l] + at.variance[l].max(0.0).sqrt() * node);
            weight *= share;
        }
        visit(&f, &z, weight);
    }
}
