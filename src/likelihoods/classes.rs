//! Classes: two, several without an order, or several in order.

use std::sync::Arc;

pub use cagey_base::likelihoods::classes::BernoulliLink;
use cagey_base::likelihoods::classes::{Labels, Ordered};
use cagey_base::likelihoods::softmax::Shares;

use super::lattice::Lattice;
use super::level::level;
use super::{Density, Likelihood, Targets};
use crate::arithmetic::special::{logit, normal_quantile};
use crate::params::{Constraint, Parameter, Parameters, Unit};

/// Two classes, labels 0 and 1: P(y = 1 | f) = g(f).
#[derive(Debug, Clone)]
pub struct Bernoulli {
    /// The map from the latent function to the probability.
    pub link: BernoulliLink,
}

crate::parameters!(Bernoulli {});

impl Likelihood for Bernoulli {
    fn text(&self) -> String {
        self.link.text()
    }

    fn initialise(&mut self, targets: Targets) -> Vec<f64> {
        let share = level(targets.y).clamp(0.01, 0.99);
        vec![match self.link {
            BernoulliLink::Logit => logit(share),
            BernoulliLink::Probit => normal_quantile(share),
        }]
    }

    fn density(&self) -> Arc<dyn Density> {
        Arc::new(Labels { link: self.link })
    }
}

/// Unordered classes: P(y = c | f) = exp(f_c) / Σ exp(f_k), one latent function for each class.
#[derive(Debug, Clone)]
pub struct Softmax {
    classes: usize,
    lattice: Arc<Lattice>,
}

impl Softmax {
    /// Makes the likelihood for two or more classes.
    pub fn new(classes: usize) -> Self {
        Self { classes: classes.max(2), lattice: Arc::default() }
    }

    /// The number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }
}

crate::parameters!(Softmax {});

impl Likelihood for Softmax {
    fn text(&self) -> String {
        format!("softmax({})", self.classes)
    }

    fn latents(&self) -> usize {
        self.classes
    }

    /// The log shares of the classes, less their mean.
    fn initialise(&mut self, targets: Targets) -> Vec<f64> {
        let count = |c: usize| targets.y.iter().filter(|y| **y == c as f64).count() as f64;
        let logs: Vec<f64> = (0..self.classes).map(|c| (count(c) + 0.5).ln()).collect();
        let centre = level(&logs);
        logs.into_iter().map(|log| log - centre).collect()
    }

    fn density(&self) -> Arc<dyn Density> {
        Arc::new(Shares::new(self.classes, Some(self.lattice.clone())))
    }
}

/// Ordered classes, separated by cut points on the latent function: P(y ≤ k | f) = 1/(1 + exp(f − c_k)), the
/// proportional-odds model (McCullagh 1980).
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

/// Two classes have no gaps.
impl Parameters for Ordinal {
    fn parameters(&self) -> Vec<(String, &Parameter)> {
        let all = [("first_cut".into(), &self.first_cut), ("gaps".into(), &self.gaps)];
        all.into_iter().filter(|(_, parameter)| !parameter.is_empty()).collect()
    }

    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        let all = [("first_cut".into(), &mut self.first_cut), ("gaps".into(), &mut self.gaps)];
        all.into_iter().filter(|(_, parameter)| !parameter.is_empty()).collect()
    }
}

impl Likelihood for Ordinal {
    fn text(&self) -> String {
        format!("ordinal({})", self.classes())
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
