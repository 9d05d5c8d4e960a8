//! Several classes: P(y = c | f) = exp(f_c) / Σ exp(f_k), one latent function for each class.

use std::sync::Arc;

use cagey_base::likelihoods::Density;
use cagey_base::likelihoods::softmax::Shares;
use cagey_base::likelihoods::{Row, Targets};

use super::lattice::Lattice;
use super::{Likelihood, class_problem, missing_classes};

/// Unordered classes.
#[derive(Debug, Clone)]
pub struct Softmax {
    classes: usize,
    lattice: Arc<Lattice>,
}

impl Softmax {
    /// Makes the likelihood for two or more classes.
    pub fn new(classes: usize) -> Self {
        let classes = classes.max(2);
        Self { classes, lattice: Arc::default() }
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

    fn check_row(&self, row: Row) -> Result<(), String> {
        class_problem(row.y, self.classes, "softmax")
    }

    fn warnings(&self, targets: Targets) -> Vec<String> {
        missing_classes(targets.y, self.classes)
    }

    /// The log shares of the classes, less their mean.
    fn initialise(&mut self, targets: Targets) -> Vec<f64> {
        let count = |c: usize| targets.y.iter().filter(|y| **y == c as f64).count() as f64;
        let logs: Vec<f64> = (0..self.classes).map(|c| (count(c) + 0.5).ln()).collect();
        let centre = logs.iter().sum::<f64>() / self.classes as f64;
        logs.into_iter().map(|log| log - centre).collect()
    }

    fn density(&self) -> Arc<dyn Density> {
        Arc::new(Shares::new(self.classes, Some(self.lattice.clone())))
    }
}
