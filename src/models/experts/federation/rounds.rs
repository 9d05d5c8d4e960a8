//! Rounds of clients as an objective of the common parameters z.

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::index;

use super::client::{Client, Round};
use super::{Algorithm, Experts};
use crate::device::Compute;
use crate::distributed::{Question, whole};
use crate::error::{Error, Result};
use crate::models::Observations;
use crate::models::gp_model::Training;
use crate::params::Parameters;
use crate::train::{self, Descent, Evaluation, Objective, Observer, Optimizer, Outcome, Schedule, Step, TrainConfig};

/// The loss Σ L_i(z) of the experts of a round, and as gradient n (z − z⁺) where z⁺ is the point that the round leads
/// to. A trainer that divides by the number of rows n and takes the whole step arrives at z⁺.
#[derive(Debug)]
pub struct Rounds<'a> {
    experts: Experts,
    compute: Compute,
    data: &'a Observations,
    round: Round,
    clients: Vec<Client>,
    gradients: usize,
}

impl<'a> Rounds<'a> {
    /// Makes rounds that start from the experts' present parameters, with local steps of the configured optimiser.
    ///
    /// # Errors
    /// [`Error::Usage`] for settings without a meaning, [`Error::Shape`] if the rows are not the ones that were shared
    /// out.
    pub fn new(experts: Experts, compute: Compute, data: &'a Observations, config: &TrainConfig) -> Result<Self> {
        experts.parts.check(experts.parts.seen(data))?;
        experts.federation.check()?;
        let constant = match &config.optimizer {
            Optimizer::Adam(adam) => adam.schedule == Schedule::Constant,
            Optimizer::Descent(descent) => descent.schedule == Schedule::Constant,
            _ => true,
        };
        if !constant {
            return Err(
                Error::Usage("local steps have a constant learning rate".into()).set("Adam::schedule", "constant")
            );
        }
        let rows = experts.rows();
        let each = rows as f64 / experts.len() as f64;
        let federation = experts.federation.clone();
        let (penalty, curvature) = (federation.penalty.unwrap_or(each), federation.curvature.unwrap_or(each));
        let round = Round { federation, optimizer: config.optimizer.clone(), penalty, curvature, rows };
        let clients = vec![Client::new(&experts.free_raw()); experts.len()];
        Ok(Self { experts, compute, data, round, clients, gradients: 0 })
    }

    /// The number of gradients of single experts that were computed so far.
    pub fn gradients(&self) -> usize {
        self.gradients
    }

    /// The experts that take part in a step.
    fn drawn(&self, step: Step) -> Vec<usize> {
        let m = self.experts.len();
        let count = ((self.round.federation.share * m as f64).ceil() as usize).clamp(1, m);
        if !self.stochastic() {
            return (0..m).collect();
        }
        let seed = step.seed.wrapping_add((step.iteration as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut drawn = index::sample(&mut Xoshiro256PlusPlus::seed_from_u64(seed), m, count).into_vec();
        drawn.sort_unstable();
        drawn
    }
}

impl Objective for Rounds<'_> {
    fn dim(&self) -> usize {
        self.experts.free_raw().len()
    }

    fn evaluate(&mut self, z: &[f64], step: Step) -> Result<Evaluation> {
        let drawn = self.drawn(step);
        let (experts, n) = (&self.experts, self.round.rows as f64);
        let mut numbers = vec![z.to_vec()];
        numbers.extend(drawn.iter().map(|expert| {
            let mut state = Vec::new();
            self.clients[*expert].write(&mut state);
            state
        }));
        let question = Question::Round { round: self.round.clone(), drawn: drawn.clone() };
        let answers = whole::ask(experts, (experts.parts.seen(self.data), self.compute), &question, &numbers)?;
        let mut made = Vec::new();
        for answer in &answers {
            let Some(([loss, gradients], state)) = answer.split_first_chunk() else {
                return Err(Error::Device("an expert answers without the state of its client".into()));
            };
            self.gradients += *gradients as usize;
            made.push((Client::read(state, z.len())?, *loss));
        }
        let rows = |expert: usize| experts.parts()[expert].len() as f64;
        let taking_part: f64 = drawn.iter().map(|expert| rows(*expert)).sum();
        let loss = made.iter().map(|(_, loss)| loss).sum::<f64>() * n / taking_part;
        let mut next = vec![0.0; z.len()];
        for ((client, _), expert) in made.iter().zip(&drawn) {
            let consensus = matches!(self.round.federation.algorithm, Algorithm::Admm | Algorithm::Pxadmm);
            let share = if consensus { 1.0 / drawn.len() as f64 } else { rows(*expert) / taking_part };
            for ((next, x), dual) in next.iter_mut().zip(&client.x).zip(&client.dual) {
                *next += share * if consensus { x + dual / self.round.penalty } else { *x };
            }
        }
        for ((client, _), expert) in made.into_iter().zip(&drawn) {
            self.clients[*expert] = client;
        }
        Ok(Evaluation { loss, gradient: z.iter().zip(next).map(|(z, next)| n * (z - next)).collect() })
    }

    fn stochastic(&self) -> bool {
        let sampled = matches!(self.round.federation.algorithm, Algorithm::Fedavg | Algorithm::Fedprox);
        sampled && self.round.federation.share < 1.0
    }

    /// The numbers that clients keep.
    fn state(&self) -> Vec<f64> {
        let mut state = Vec::new();
        self.clients.iter().for_each(|client| client.write(&mut state));
        state
    }

    fn restore(&mut self, state: &[f64]) -> Result<()> {
        let (dim, m) = (self.dim(), self.experts.len());
        if state.len() != m * Client::size(dim) {
            let wanted = format!("{m} clients of {dim} parameters");
            return Err(Error::shape("saved state of the clients", wanted, format!("{} numbers", state.len())));
        }
        self.clients =
            state.chunks(Client::size(dim)).map(|numbers| Client::read(numbers, dim)).collect::<Result<_>>()?;
        Ok(())
    }
}

/// Trains experts and leaves them at the best point found.
///
/// # Errors
/// As [`fit`](crate::models::fit::fit).
pub(in crate::models::experts) fn train(
    experts: &mut Experts,
    training: Training,
    observers: &mut [&mut dyn Observer],
) -> Result<Outcome> {
    let Training { compute, data, config, .. } = training;
    if experts.federation.algorithm == Algorithm::Fact {
        return whole::train(experts, compute, data, config, observers);
    }
    let start = experts.free_raw();
    let scaled = config.clone().loss_scale(experts.rows() as f64);
    // A step of descent from z against z − z⁺ ends at z⁺.
    let scaled = TrainConfig { optimizer: Optimizer::Descent(Descent { rate: 1.0, ..Descent::default() }), ..scaled };
    let mut rounds = Rounds::new(experts.clone(), compute, data, config)?;
    let mut outcome = train::minimise(&mut rounds, &start, &scaled, observers)?;
    experts.set_free_raw(&outcome.x)?;
    // Losses on the way may have been those of some experts only. If this evaluation fails, keep the trained model all
    // the same: it is worth more than the number.
    if let Ok(found) = whole::evaluate(experts, compute, data) {
        outcome.loss = found.loss / outcome.loss_scale;
        outcome.restarts[outcome.best_restart].loss = Some(outcome.loss);
    }
    Ok(outcome)
}
