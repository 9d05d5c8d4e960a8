//! The work of one part in a round of a federated training.

use std::cell::Cell;

use serde::{Deserialize, Serialize};

use super::{Algorithm, Federation};
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::models::fit::add_priors;
use crate::models::gp_model::GpModel;
use crate::models::{Batch, Observations};
use crate::scope::{Scope, scalar};
use crate::train::{
    self, AdamState, Evaluation, Objective, Optimizer, Step, TrainConfig, penalised, proximal, shifted,
};

/// What the clients of a round need to know.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Round {
    /// The algorithm.
    pub federation: Federation,
    /// The optimiser of local steps.
    pub optimizer: Optimizer,
    /// ρ.
    pub penalty: f64,
    /// ℓ.
    pub curvature: f64,
    /// Rows of all parts.
    pub rows: usize,
}

/// What a client keeps from one round to the next.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Client {
    /// θ_i.
    pub(super) x: Vec<f64>,
    /// ψ_i.
    pub(super) dual: Vec<f64>,
    /// The moments of its Adam.
    moments: AdamState,
}

impl Client {
    pub(super) fn new(x: &[f64]) -> Self {
        Self { x: x.to_vec(), dual: vec![0.0; x.len()], moments: AdamState::new(x.len()) }
    }

    /// How many numbers [`write`](Self::write) makes for `dim` parameters.
    pub(super) fn size(dim: usize) -> usize {
        4 * dim + 1
    }

    pub(super) fn write(&self, into: &mut Vec<f64>) {
        into.extend(&self.x);
        into.extend(&self.dual);
        self.moments.write(into);
    }

    pub(super) fn read(numbers: &[f64], dim: usize) -> Result<Self> {
        if numbers.len() != Self::size(dim) {
            let got = format!("{} numbers", numbers.len());
            return Err(Error::shape("saved state of a client", Self::size(dim).to_string(), got));
        }
        let (x, rest) = numbers.split_at(dim);
        let (dual, rest) = rest.split_at(dim);
        Ok(Self { x: x.to_vec(), dual: dual.to_vec(), moments: AdamState::read(rest) })
    }

    /// The client after a round from z, and its loss at z.
    fn after(&self, round: &Round, z: &[f64], mut loss: LocalObjective) -> Result<(Self, f64)> {
        let Round { federation, penalty, curvature, .. } = round;
        let mut next = self.clone();
        let rows = loss.rows;
        match federation.algorithm {
            Algorithm::Fact | Algorithm::Fedavg | Algorithm::Fedprox => {
                let weight = if federation.algorithm == Algorithm::Fedprox { federation.proximal } else { 0.0 };
                let mut near = proximal(loss, z.to_vec(), weight);
                let (x, at) = descend(&mut near, z, &mut next.moments, round, rows)?;
                next.x = x;
                Ok((next, at))
            }
            Algorithm::Admm => {
                let at = loss.value(z)?;
                let mut augmented = penalised(loss, |x| Ok(augmentation(x, z, &self.dual, *penalty)));
                (next.x, _) = descend(&mut augmented, &self.x, &mut next.moments, round, rows)?;
                next.dual = dual(&self.dual, &next.x, z, *penalty);
                Ok((next, at))
            }
            Algorithm::Pxadmm => {
                let Evaluation { loss: at, gradient } = loss.evaluate(z, FIRST)?;
                let step = 1.0 / (penalty + curvature);
                next.x = (z.iter().zip(gradient).zip(&self.dual)).map(|((z, g), dual)| z - step * (g + dual)).collect();
                next.dual = dual(&self.dual, &next.x, z, *penalty);
                Ok((next, at))
            }
        }
    }
}

/// What a client answers: its loss at z, the count of its gradients, and its next state.
///
/// # Errors
/// [`Error::Shape`] for a state of other numbers, and what the objective reports.
pub(crate) fn answer(
    round: &Round,
    (model, compute, rows): (&dyn GpModel, Compute, &Observations),
    z: &[f64],
    state: &[f64],
) -> Result<Vec<f64>> {
    let (client, gradients) = (Client::read(state, z.len())?, Cell::new(0));
    let local = LocalObjective::new(model, compute, rows, round.rows, &gradients)?;
    let (next, loss) = client.after(round, z, local)?;
    let mut made = vec![loss, gradients.get() as f64];
    next.write(&mut made);
    Ok(made)
}

/// ψᵀ(x − z) + ρ/2 ‖x − z‖² (Boyd et al. 2011, section 7.1).
fn augmentation(x: &[f64], z: &[f64], dual: &[f64], penalty: f64) -> Evaluation {
    let (mut loss, mut gradient) = (0.0, Vec::with_capacity(x.len()));
    for ((x, z), dual) in x.iter().zip(z).zip(dual) {
        let away = x - z;
        loss += (dual + 0.5 * penalty * away) * away;
        gradient.push(dual + penalty * away);
    }
    Evaluation { loss, gradient }
}

/// ψ + ρ(θ − z).
fn dual(before: &[f64], x: &[f64], z: &[f64], penalty: f64) -> Vec<f64> {
    before.iter().zip(x.iter().zip(z)).map(|(dual, (x, z))| dual + penalty * (x - z)).collect()
}

/// The step for evaluations of a local loss, which does not depend on it.
const FIRST: Step = Step { iteration: 0, epoch: 0.0, seed: 0, factor: 1.0 };

/// Takes local steps from `x`. Returns where they end, and the loss at `x`. Stops before a step that would leave the
/// domain of the loss.
fn descend(
    objective: &mut dyn Objective,
    x: &[f64],
    moments: &mut AdamState,
    round: &Round,
    rows: f64,
) -> Result<(Vec<f64>, f64)> {
    let (steps, scale) = (round.federation.steps(), rows);
    if let Optimizer::Lbfgs(_) = &round.optimizer {
        let config = TrainConfig::new(round.optimizer.clone(), steps).loss_scale(scale);
        let outcome = train::minimise(objective, x, &config, &mut [])?;
        let first = outcome.history.records.first().map_or(outcome.loss, |record| record.loss);
        return Ok((outcome.x, first * scale));
    }
    let mut here = x.to_vec();
    let mut first = None;
    for _ in 0..steps {
        let found = match objective.evaluate(&here, FIRST) {
            Err(error) if first.is_none() => return Err(error),
            Err(_) => break,
            Ok(found) => found,
        };
        first.get_or_insert(found.loss);
        let gradient: Vec<f64> = found.gradient.iter().map(|g| g / scale).collect();
        here = match &round.optimizer {
            Optimizer::Adam(adam) => moments.update(adam, &here, &gradient),
            Optimizer::Descent(descent) => shifted(&here, -descent.rate, &gradient),
            _ => here,
        };
    }
    Ok((here, first.unwrap_or(f64::NAN)))
}

/// A part's objective with its share of the priors, as a function of the free parameters.
#[derive(Debug)]
struct LocalObjective<'a> {
    model: Box<dyn GpModel>,
    compute: Compute,
    batch: Batch,
    /// n_i.
    rows: f64,
    /// n_i/n.
    share: f64,
    /// How often its gradient was computed.
    gradients: &'a Cell<usize>,
}

impl<'a> LocalObjective<'a> {
    /// For rows of a part, where all parts together have `all` rows.
    fn new(
        model: &dyn GpModel,
        compute: Compute,
        rows: &Observations,
        all: usize,
        gradients: &'a Cell<usize>,
    ) -> Result<Self> {
        let (model, batch) = (model.boxed(), rows.batch(&Scope::new(compute)?));
        let count = rows.n() as f64;
        Ok(Self { model, compute, batch, rows: count, share: count / all as f64, gradients })
    }

    /// The objective without its gradient.
    fn value(&mut self, x: &[f64]) -> Result<f64> {
        self.model.set_free_raw(x)?;
        let loss = scalar(self.model.objective(&Scope::new(self.compute)?, &self.batch)?)?;
        Ok(loss + self.share * add_priors(&*self.model, &mut vec![0.0; x.len()]))
    }
}

impl Objective for LocalObjective<'_> {
    fn dim(&self) -> usize {
        self.model.free_raw().len()
    }

    fn evaluate(&mut self, x: &[f64], _step: Step) -> Result<Evaluation> {
        self.model.set_free_raw(x)?;
        self.gradients.set(self.gradients.get() + 1);
        let scope = Scope::training(self.compute)?;
        let loss = self.model.objective(&scope, &self.batch)?;
        let (loss, mut gradient) = scope.gradient(loss, &*self.model)?;
        let mut slopes = vec![0.0; gradient.len()];
        let priors = add_priors(&*self.model, &mut slopes);
        gradient.iter_mut().zip(slopes).for_each(|(gradient, slope)| *gradient += self.share * slope);
        Ok(Evaluation { loss: loss + self.share * priors, gradient })
    }
}
