//! Two classes, and classes in order.

use rand::{Rng, RngExt};

use super::density::{Density, Marginal, Support};
use super::formula::Formula;
use super::predictive;
use super::targets::Row;
use crate::arithmetic::Real;
use crate::arithmetic::special::{log_normal_cdf, logistic, normal_cdf};

/// The map from the latent function to the probability of class 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BernoulliLink {
    /// `1/(1 + e⁻ᶠ)`.
    Logit,
    /// `Φ(f)`.
    Probit,
}

impl BernoulliLink {
    /// The text of the likelihood with this link.
    pub fn text(self) -> String {
        match self {
            Self::Logit => "bernoulli(logit)".into(),
            Self::Probit => "bernoulli(probit)".into(),
        }
    }
}

/// +1 for class 1, −1 for class 0.
fn sign(y: f64) -> f64 {
    if y > 0.5 { 1.0 } else { -1.0 }
}

/// Labels 0 and 1 with a link: P(y = 1 | f) = g(f).
#[derive(Debug)]
pub struct Labels {
    /// The map to the probability.
    pub link: BernoulliLink,
}

impl Labels {
    /// `m/√(1 + v)`, whose probit is the average of probits.
    fn shrunk(at: Marginal) -> f64 {
        at.mean[0] / (1.0 + at.variance[0]).sqrt()
    }
}

impl Formula for Labels {
    fn support(&self, _auxiliary: f64) -> Support {
        Support::Classes(2)
    }

    fn log_density<A: Real>(&self, row: Row, f: &[A], _own: &[A]) -> A {
        let f = f[0] * sign(row.y);
        match self.link {
            BernoulliLink::Logit => -(-f).softplus(),
            BernoulliLink::Probit => f.ln_normal_cdf(),
        }
    }
}

impl Density for Labels {
    fn built_in(&self) -> Option<String> {
        Some(self.link.text())
    }

    fn mean(&self, f: &[f64], _auxiliary: f64) -> f64 {
        match self.link {
            BernoulliLink::Logit => logistic(f[0]),
            BernoulliLink::Probit => normal_cdf(f[0]),
        }
    }

    fn sample(&self, f: &[f64], auxiliary: f64, rng: &mut dyn Rng) -> f64 {
        f64::from(u8::from(rng.random::<f64>() < self.mean(f, auxiliary)))
    }

    /// A value at which the row's class is nearly certain.
    fn peak(&self, row: Row) -> f64 {
        3.0 * sign(row.y)
    }

    fn predictive_mean(&self, at: Marginal, auxiliary: f64) -> f64 {
        match self.link {
            BernoulliLink::Logit => predictive::average_of(at, 0.0, &|f| self.mean(f, auxiliary)),
            BernoulliLink::Probit => normal_cdf(Self::shrunk(at)),
        }
    }

    fn predictive_variance(&self, at: Marginal, auxiliary: f64) -> f64 {
        let one = self.predictive_mean(at, auxiliary);
        one * (1.0 - one)
    }

    /// With the probit, `ln Φ(±m/√(1 + v))` (Rasmussen and Williams 2006, eq. 3.82).
    fn predictive_log_density(&self, row: Row, at: Marginal) -> f64 {
        match self.link {
            BernoulliLink::Logit => predictive::log_density(self, row, at),
            BernoulliLink::Probit => log_normal_cdf(sign(row.y) * Self::shrunk(at)).0,
        }
    }

    fn predictive_cdf(&self, row: Row, at: Marginal) -> f64 {
        match row.y {
            y if y < 0.0 => 0.0,
            y if y < 1.0 => 1.0 - self.predictive_mean(at, row.auxiliary),
            _ => 1.0,
        }
    }
}

/// Ordered classes: P(y ≤ k | f) = 1/(1 + exp(f − c_k)), the proportional-odds model (McCullagh 1980).
#[derive(Debug)]
pub struct Ordered {
    /// The first cut point and the gaps.
    own: Vec<f64>,
    cuts: Vec<f64>,
}

impl Ordered {
    /// With the first cut point and the gaps that follow.
    pub fn new(own: Vec<f64>) -> Self {
        let mut cut = 0.0;
        let cuts = own.iter().map(|part| {
            cut += part;
            cut
        });
        Self { cuts: cuts.collect(), own }
    }
}

impl Formula for Ordered {
    fn support(&self, _auxiliary: f64) -> Support {
        Support::Classes(self.own.len() + 1)
    }

    /// `ln(σ(a) − σ(b)) = ln σ(a) + ln σ(−b) + ln(1 − exp(b − a))` for the distances `a` and `b` from `f` to the
    /// class's upper and lower cut points.
    fn log_density<A: Real>(&self, row: Row, f: &[A], own: &[A]) -> A {
        let (class, zero) = (row.y as usize, A::constant(0.0));
        let to = |cut: usize| own[..=cut].iter().fold(-f[0], |sum, part| sum + *part);
        let above = if class < own.len() { (-to(class)).softplus() } else { zero };
        let below = if class > 0 { to(class - 1).softplus() } else { zero };
        -above - below
    }

    /// The last term: `a − b` is a gap.
    fn rest<A: Real>(&self, row: Row, own: &[A]) -> A {
        let class = row.y as usize;
        if class == 0 || class >= own.len() {
            return A::constant(0.0);
        }
        own[class].smooth(|gap, _| [(-(-gap).exp_m1()).ln(), gap.exp_m1().recip(), 0.0, 0.0])
    }
}

impl Density for Ordered {
    fn built_in(&self) -> Option<String> {
        Some("ordinal".into())
    }

    fn own(&self) -> &[f64] {
        &self.own
    }

    fn mean(&self, f: &[f64], _auxiliary: f64) -> f64 {
        self.cuts.iter().map(|cut| logistic(f[0] - cut)).sum()
    }

    fn cdf(&self, row: Row, f: &[f64]) -> f64 {
        if row.y < 0.0 {
            return 0.0;
        }
        self.cuts.get(row.y as usize).map_or(1.0, |cut| logistic(cut - f[0]))
    }

    fn peak(&self, row: Row) -> f64 {
        let class = (row.y as usize).min(self.cuts.len());
        match (self.cuts.get(class), class.checked_sub(1).map(|below| self.cuts[below])) {
            (Some(upper), None) => upper - 3.0,
            (Some(upper), Some(lower)) => 0.5 * (upper + lower),
            (None, lower) => lower.unwrap_or_default() + 3.0,
        }
    }
}
