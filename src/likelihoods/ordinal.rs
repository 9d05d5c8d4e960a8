//! Ordered classes: P(y ≤ k | f) = 1/(1 + exp(f − c_k)), the proportional-odds model (McCullagh 1980).

use std::sync::Arc;

use cagey_base::likelihoods::Density;
use cagey_base::likelihoods::ordinal::Ordered;
use cagey_base::likelihoods::{Row, Targets};

use super::{Likelihood, class_problem, missing_classes};
use crate::arithmetic::special::logit;
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
        Arc::new(Ordered::new([self.first_cut.internal(), self.gaps.internal()].concat()))
    }
}
