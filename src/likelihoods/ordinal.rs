//! Ordered classes: P(y ≤ k | f) = 1/(1 + exp(f − c_k)), the proportional-odds model (McCullagh 1980).

use std::sync::Arc;

use super::density::{Density, Support};
use super::formula::Formula;
use super::targets::{Row, Targets};
use super::{Likelihood, class_problem, missing_classes};
use crate::arithmetic::Real;
use crate::arithmetic::special::{logistic, logit};
use crate::params::{Constraint, Parameter, Parameters, Unit};

/// Ordered classes, separated by cut points on the latent function.
#[derive(Debug, Clone)]
pub struct Ordinal {
    /// The cut point between the classes 0 and 1.
    pub first_cut: Parameter,
    /// The distance from each cut point to the next.
    pub gaps: Parameter,
}

impl Ordinal {
    /// Makes the likelihood for two or more classes, with evenly spaced cut points.
    pub fn new(classes: usize) -> Self {
        let cuts = classes.max(2) - 1;
        let first = -0.5 * (cuts - 1) as f64;
        Self {
            first_cut: Parameter::real("first_cut", Unit::None, &[first]),
            gaps: Parameter::new("gaps", Unit::None, Constraint::Positive { floor: 1e-3 }, &vec![1.0; cuts - 1]),
        }
    }

    /// The number of classes.
    pub fn classes(&self) -> usize {
        self.gaps.len() + 2
    }
}

impl Parameters for Ordinal {
    fn parameters(&self) -> Vec<(String, &Parameter)> {
        let mut all = vec![("first_cut".into(), &self.first_cut)];
        if !self.gaps.is_empty() {
            all.push(("gaps".into(), &self.gaps));
        }
        all
    }

    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        let mut all = vec![("first_cut".into(), &mut self.first_cut)];
        if !self.gaps.is_empty() {
            all.push(("gaps".into(), &mut self.gaps));
        }
        all
    }
}

impl Likelihood for Ordinal {
    fn text(&self) -> String {
        format!("ordinal({})", self.classes())
    }

    fn check_row(&self, row: Row) -> Result<(), String> {
        class_problem(row.y, self.classes(), "ordinal")
    }

    fn warnings(&self, targets: Targets) -> Vec<String> {
        missing_classes(targets.y, self.classes())
    }

    /// Puts the cut points at the logits of the cumulative shares, for a latent function around 0.
    fn initialise(&mut self, targets: Targets) -> Vec<f64> {
        let n = targets.y.len() as f64;
        let below = |k: usize| targets.y.iter().filter(|y| **y <= k as f64).count() as f64;
        let cuts: Vec<f64> = (0..self.classes() - 1).map(|k| logit((below(k) + 0.5) / (n + 1.0))).collect();
        if !self.first_cut.given {
            self.first_cut.put(&cuts[..1]);
        }
        if !self.gaps.given && !self.gaps.is_empty() {
            self.gaps.put(&cuts.windows(2).map(|pair| (pair[1] - pair[0]).max(0.1)).collect::<Vec<_>>());
        }
        vec![0.0]
    }

    fn density(&self) -> Arc<dyn Density> {
        let own = [self.first_cut.internal(), self.gaps.internal()].concat();
        let mut cut = 0.0;
        let cuts = own.iter().map(|part| {
            cut += part;
            cut
        });
        Arc::new(Ordered { cuts: cuts.collect(), own })
    }
}

#[derive(Debug)]
struct Ordered {
    /// The first cut point and the gaps.
    own: Vec<f64>,
    cuts: Vec<f64>,
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
