//! Ordered classes: P(y ≤ k | f) = 1/(1 + exp(f − c_k)), the proportional-odds model (McCullagh 1980).

use std::sync::Arc;

use rand::{Rng, RngExt};

use super::density::{Density, Support};
use super::special::{logistic, logistic_bend, logistic_slope, logit, softplus};
use super::targets::{Row, Targets};
use super::{Likelihood, class_problem, missing_classes};
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
        let mut cut = self.first_cut.internal()[0];
        let mut cuts = vec![cut];
        for gap in self.gaps.internal() {
            cut += gap;
            cuts.push(cut);
        }
        Arc::new(Ordered { cuts })
    }

    fn boxed(&self) -> Box<dyn Likelihood> {
        Box::new(self.clone())
    }
}

#[derive(Debug)]
struct Ordered {
    cuts: Vec<f64>,
}

impl Ordered {
    /// The distances `(a, b)` from `f` up to the class's upper and lower cut points, infinite at the ends.
    fn edges(&self, y: f64, f: f64) -> (f64, f64) {
        let class = (y as usize).min(self.cuts.len());
        let upper = self.cuts.get(class).map_or(f64::INFINITY, |cut| cut - f);
        let lower = if class == 0 { f64::NEG_INFINITY } else { self.cuts[class - 1] - f };
        (upper, lower)
    }

    /// Adds `weight` times the slopes in the cut points. `both` is the slope in the first cut point, which moves both
    /// edges of a class. The slopes in the gaps follow from those in the upper and the lower edge.
    fn add_to_cuts(&self, y: f64, both: f64, [upper, lower]: [f64; 2], weight: f64, own: &mut [f64]) {
        let class = y as usize;
        own[0] += weight * both;
        // Gap j moves all cut points beyond j.
        for (j, own) in own[1..].iter_mut().enumerate() {
            let upper = if class < self.cuts.len() && j < class { upper } else { 0.0 };
            let lower = if j + 1 < class { lower } else { 0.0 };
            *own += weight * (upper + lower);
        }
    }
}

impl Density for Ordered {
    fn support(&self, _auxiliary: f64) -> Support {
        Support::Classes(self.cuts.len() + 1)
    }

    /// `ln(σ(a) − σ(b)) = ln σ(a) + ln σ(−b) + ln(1 − exp(b − a))`.
    fn log_density(&self, row: Row, f: &[f64]) -> f64 {
        let (a, b) = self.edges(row.y, f[0]);
        let inner = if a.is_finite() && b.is_finite() { (-(b - a).exp_m1()).ln() } else { 0.0 };
        inner - softplus(-a) - softplus(b)
    }

    fn derivatives(&self, row: Row, f: &[f64], gradient: &mut [f64], hessian: &mut [f64]) -> f64 {
        let (a, b) = self.edges(row.y, f[0]);
        gradient[0] = logistic(b) - logistic(-a);
        hessian[0] = -logistic_slope(a) - logistic_slope(b);
        self.log_density(row, f)
    }

    fn add_own_gradient(&self, row: Row, f: &[f64], weight: f64, own: &mut [f64]) {
        let (a, b) = self.edges(row.y, f[0]);
        let inner = if a.is_finite() && b.is_finite() { (a - b).exp_m1().recip() } else { 0.0 };
        let (in_upper, in_lower) = (logistic(-a) + inner, -logistic(b) - inner);
        // The sum of both slopes, in a form without cancellation.
        self.add_to_cuts(row.y, logistic(-a) - logistic(b), [in_upper, in_lower], weight, own);
    }

    fn add_curvature_slopes(&self, row: Row, f: &[f64], weights: &[f64], slopes: &mut [f64], own: &mut [f64]) {
        let (a, b) = self.edges(row.y, f[0]);
        let edges = [logistic_bend(a), logistic_bend(b)];
        slopes[0] -= weights[0] * (edges[0] + edges[1]);
        if !own.is_empty() {
            self.add_to_cuts(row.y, edges[0] + edges[1], edges, weights[0], own);
        }
    }

    fn add_pull_slopes(&self, row: Row, f: &[f64], weights: &[f64], own: &mut [f64]) {
        let (a, b) = self.edges(row.y, f[0]);
        let edges = [logistic_slope(a), logistic_slope(b)];
        self.add_to_cuts(row.y, edges[0] + edges[1], edges, weights[0], own);
    }

    fn mean(&self, f: &[f64], _auxiliary: f64) -> f64 {
        self.cuts.iter().map(|cut| logistic(f[0] - cut)).sum()
    }

    fn variance(&self, f: &[f64], auxiliary: f64) -> f64 {
        // E[y²] = Σ (2k − 1) P(y ≥ k).
        let square: f64 = self.cuts.iter().enumerate().map(|(k, cut)| (2 * k + 1) as f64 * logistic(f[0] - cut)).sum();
        (square - self.mean(f, auxiliary).powi(2)).max(0.0)
    }

    fn cdf(&self, row: Row, f: &[f64]) -> f64 {
        if row.y < 0.0 {
            return 0.0;
        }
        self.cuts.get(row.y as usize).map_or(1.0, |cut| logistic(cut - f[0]))
    }

    fn sample(&self, f: &[f64], _auxiliary: f64, rng: &mut dyn Rng) -> f64 {
        let u = rng.random::<f64>();
        self.cuts.iter().filter(|cut| logistic(*cut - f[0]) < u).count() as f64
    }

    fn peak(&self, row: Row) -> f64 {
        match self.edges(row.y, 0.0) {
            (a, f64::NEG_INFINITY) => a - 3.0,
            (f64::INFINITY, b) => b + 3.0,
            (a, b) => 0.5 * (a + b),
        }
    }
}
