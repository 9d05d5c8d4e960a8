//! An objective plus another term.

use super::{Evaluation, Group, Objective, Step};
use crate::error::Result;

/// An objective plus another function of the parameters: a penalty, a proximal term, or a belief that priors cannot
/// express.
#[derive(Clone, Debug)]
pub struct Penalised<O, P> {
    objective: O,
    penalty: P,
}

/// `objective` plus `penalty`. The penalty returns its value and its gradient, on the scale of the objective's total
/// loss.
///
/// ```
/// use cagey::models::exact::ExactGp;
/// use cagey::models::fit::FullBatch;
/// use cagey::models::Observations;
/// use cagey::train::{TrainConfig, Trainer, proximal};
/// use cagey::{device::Compute, kernels::Kernel, params::Parameters};
///
/// let data = Observations::new(vec![0.0, 1.0, 2.0], 1, vec![0.0, 0.8, 0.9], None)?;
/// let mut model = ExactGp::new(Kernel::parse("rbf", 1)?);
/// let start = model.free_raw();
/// // Stays as near the start as the data allow.
/// let mut objective = proximal(FullBatch::new(&mut model, Compute::default(), &data)?, start.clone(), 10.0);
/// let outcome = Trainer::new(&objective, &start, TrainConfig::default())?.go_on(&mut objective, 50, &mut [])?;
/// model.set_free_raw(&outcome.x)?;
/// # Ok::<(), cagey::Error>(())
/// ```
pub fn penalised<O: Objective, P: FnMut(&[f64]) -> Result<Evaluation>>(objective: O, penalty: P) -> Penalised<O, P> {
    Penalised { objective, penalty }
}

/// A penalty: its value and its gradient.
pub type Penalty = Box<dyn FnMut(&[f64]) -> Result<Evaluation> + Send>;

/// `objective` plus `½ weight ‖x − centre‖²`: keeps a training near a point.
pub fn proximal<O: Objective>(objective: O, centre: Vec<f64>, weight: f64) -> Penalised<O, Penalty> {
    // An opaque type would borrow what the objective borrows until it is dropped.
    let penalty: Penalty = Box::new(move |x| {
        let gap: Vec<f64> = x.iter().zip(&centre).map(|(x, c)| x - c).collect();
        let loss = 0.5 * weight * gap.iter().map(|g| g * g).sum::<f64>();
        Ok(Evaluation { loss, gradient: gap.iter().map(|g| weight * g).collect() })
    });
    penalised(objective, penalty)
}

impl<O: Objective, P: FnMut(&[f64]) -> Result<Evaluation>> Objective for Penalised<O, P> {
    fn dim(&self) -> usize {
        self.objective.dim()
    }

    fn evaluate(&mut self, x: &[f64], step: Step) -> Result<Evaluation> {
        let mut found = self.objective.evaluate(x, step)?;
        let penalty = (self.penalty)(x)?;
        if penalty.gradient.len() != x.len() {
            let (want, got) = (x.len().to_string(), penalty.gradient.len().to_string());
            return Err(crate::Error::shape("the gradient of a penalty", want, got));
        }
        found.loss += penalty.loss;
        found.gradient.iter_mut().zip(&penalty.gradient).for_each(|(g, p)| *g += p);
        Ok(found)
    }

    fn groups(&self) -> Vec<Group> {
        self.objective.groups()
    }

    fn steps_per_epoch(&self) -> usize {
        self.objective.steps_per_epoch()
    }

    fn stochastic(&self) -> bool {
        self.objective.stochastic()
    }

    fn refresh(&self) -> Option<usize> {
        self.objective.refresh()
    }

    fn choose(&mut self, x: &[f64]) -> Result<()> {
        self.objective.choose(x)
    }

    fn state(&self) -> Vec<f64> {
        self.objective.state()
    }

    fn restore(&mut self, state: &[f64]) -> Result<()> {
        self.objective.restore(state)
    }
}
