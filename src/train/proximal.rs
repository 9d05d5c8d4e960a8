//! A loss with a term that keeps its parameters near others: what trainings by several clients minimise at each.

use super::{Evaluation, Group, Objective, Step};
use crate::{Error, Result};

/// `L(x) + ψᵀ(x − z) + ρ/2 ‖x − z‖²` for a loss L: of FedProx with ψ = 0 (Li et al. 2020, *Federated optimization in
/// heterogeneous networks*, eq. 2), of ADMM with its dual ψ (Boyd et al. 2011, *Distributed optimization via ADMM*,
/// section 7.1).
#[derive(Debug)]
pub struct Proximal<'a, O: ?Sized> {
    /// L.
    pub loss: &'a mut O,
    /// z.
    pub centre: &'a [f64],
    /// ψ; none for 0.
    pub dual: Option<&'a [f64]>,
    /// ρ.
    pub weight: f64,
}

impl<O: Objective + ?Sized> Objective for Proximal<'_, O> {
    fn dim(&self) -> usize {
        self.loss.dim()
    }

    fn evaluate(&mut self, x: &[f64], step: Step) -> Result<Evaluation> {
        let dim = self.centre.len();
        if x.len() != dim || self.dual.is_some_and(|dual| dual.len() != dim) {
            return Err(Error::shape("the centre of a proximal term", x.len().to_string(), dim.to_string()));
        }
        let Evaluation { mut loss, mut gradient } = self.loss.evaluate(x, step)?;
        for (i, gradient) in gradient.iter_mut().enumerate() {
            let (away, dual) = (x[i] - self.centre[i], self.dual.map_or(0.0, |dual| dual[i]));
            loss += (dual + 0.5 * self.weight * away) * away;
            *gradient += dual + self.weight * away;
        }
        Ok(Evaluation { loss, gradient })
    }

    fn groups(&self) -> Vec<Group> {
        self.loss.groups()
    }

    fn steps_per_epoch(&self) -> usize {
        self.loss.steps_per_epoch()
    }

    fn stochastic(&self) -> bool {
        self.loss.stochastic()
    }

    fn state(&self) -> Vec<f64> {
        self.loss.state()
    }

    fn restore(&mut self, state: &[f64]) -> Result<()> {
        self.loss.restore(state)
    }
}
