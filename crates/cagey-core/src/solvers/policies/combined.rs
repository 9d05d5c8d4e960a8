//! Policies made of others.

use burn::tensor::Tensor;

use super::{Actor, Policy, SolveState};
use crate::error::{Error, Result};
use crate::linalg::{cholesky, cholesky_solve};
use crate::params::{Parameter, prefixed};
use crate::solvers::LinearSystem;

/// Which policy chooses next.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// One action of each in turn.
    Turns,
    /// Switches to the next policy after each of these numbers of actions. They ascend, and there is one fewer than
    /// policies.
    Switch(Vec<usize>),
}

/// Several policies in turn or one after another. A policy without more actions is skipped.
#[derive(Debug, Clone)]
pub struct Mixed {
    policies: Vec<Box<dyn Policy>>,
    order: Order,
}

impl Mixed {
    /// From the policies and their order.
    ///
    /// # Errors
    /// [`Error::Usage`] when there is no policy, or the switches do not ascend or are not one fewer than policies.
    pub fn new(policies: Vec<Box<dyn Policy>>, order: Order) -> Result<Self> {
        if policies.is_empty() {
            return Err(Error::Usage("a mixed policy needs at least one policy".into()));
        }
        if let Order::Switch(after) = &order
            && (after.len() + 1 != policies.len() || !after.is_sorted_by(|a, b| a < b))
        {
            let need = policies.len() - 1;
            return Err(Error::Usage(format!(
                "switches of a mixed policy: need {need} ascending numbers of actions, got {after:?}"
            )));
        }
        Ok(Self { policies, order })
    }
}

impl Policy for Mixed {
    fn name(&self) -> &'static str {
        "mixed"
    }

    fn start(&self, system: &dyn LinearSystem, budget: usize) -> Result<Box<dyn Actor>> {
        let mut actors = self.policies.iter().map(|p| p.start(system, budget)).collect::<Result<Vec<_>>>()?;
        let (order, mut turn) = (self.order.clone(), 0);
        Ok(Box::new(move |state: &dyn SolveState, most: usize| {
            let (count, taken) = (actors.len(), state.taken());
            let (first, most) = match &order {
                Order::Turns => (turn, 1),
                Order::Switch(after) => {
                    let stage = after.iter().filter(|&&a| a <= taken).count();
                    (stage, after.get(stage).map_or(most, |end| most.min(end - taken)))
                }
            };
            for k in 0..count {
                let who = (first + k) % count;
                // The policies of earlier stages do not return.
                if who < first && order != Order::Turns {
                    break;
                }
                if let Some(action) = actors[who].next(state, most)? {
                    turn = (who + 1) % count;
                    return Ok(Some(action));
                }
            }
            Ok(None)
        }))
    }

    fn orthogonal(&self) -> bool {
        self.policies.iter().any(|p| p.orthogonal())
    }

    fn parameters(&self) -> Vec<(String, &Parameter)> {
        let all = self.policies.iter().enumerate();
        all.flat_map(|(i, p)| prefixed(&format!("{}{i}", p.name()), p.parameters())).collect()
    }

    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        let all = self.policies.iter_mut().enumerate();
        all.flat_map(|(i, p)| prefixed(&format!("{}{i}", p.name()), p.parameters_mut())).collect()
    }
}

/// First the actions S₁ of the first policy, then s = P⁻¹s′ for the actions s′ of another policy, where P = diag(noise)
/// + KS₁ (S₁ᵀKS₁)⁻¹ S₁ᵀK. Products of the first stage serve both as actions and as preconditioner.
///
/// In Newton's method, whose noise changes, an approximation of K by `rank` of its columns takes the place of the first
/// stage.
#[derive(Debug, Clone)]
pub struct Preconditioned {
    first: Box<dyn Policy>,
    rank: usize,
    then: Box<dyn Policy>,
}

impl Preconditioned {
    /// `rank` actions of `first`, then those of `then` with the preconditioner.
    pub fn new(first: Box<dyn Policy>, rank: usize, then: Box<dyn Policy>) -> Self {
        Self { first, rank, then }
    }
}

impl Policy for Preconditioned {
    fn name(&self) -> &'static str {
        "preconditioned"
    }

    fn start(&self, system: &dyn LinearSystem, budget: usize) -> Result<Box<dyn Actor>> {
        let rank = self.rank.min(budget);
        let (mut first, mut then) = (self.first.start(system, rank)?, self.then.start(system, budget - rank)?);
        let mut inverse = None;
        Ok(Box::new(move |state: &dyn SolveState, most: usize| {
            let taken = state.taken();
            if inverse.is_none() {
                if taken < rank
                    && let Some(action) = first.next(state, most.min(rank - taken))?
                {
                    return Ok(Some(action));
                }
                inverse = Inverse::new(state)?;
            }
            match (&inverse, then.next(state, most)?) {
                (Some(inverse), Some(action)) => inverse.times(state, &action).map(Some),
                (_, action) => Ok(action),
            }
        }))
    }

    fn rank(&self) -> Option<usize> {
        Some(self.rank)
    }

    fn orthogonal(&self) -> bool {
        self.first.orthogonal() || self.then.orthogonal()
    }

    fn parameters(&self) -> Vec<(String, &Parameter)> {
        let mut all = prefixed("first", self.first.parameters());
        all.extend(prefixed("then", self.then.parameters()));
        all
    }

    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        let mut all = prefixed("first", self.first.parameters_mut());
        all.extend(prefixed("then", self.then.parameters_mut()));
        all
    }
}

/// P⁻¹ = D⁻¹ − D⁻¹T (S₁ᵀT + TᵀD⁻¹T)⁻¹ TᵀD⁻¹ with T = KS₁, D the noise.
struct Inverse {
    /// D⁻¹T.
    scaled: Tensor<2>,
    factor: Tensor<2>,
}

impl Inverse {
    /// From the actions so far; none when there are none.
    fn new(state: &dyn SolveState) -> Result<Option<Self>> {
        let m = state.taken();
        if m == 0 {
            return Ok(None);
        }
        let s = state.actions(0, m)?;
        let t = state.products(0, m)? - state.system().noise_times(&s)?;
        let scaled = state.system().noise_solve(&t)?;
        let inner = s.transpose().matmul(t.clone()) + t.transpose().matmul(scaled.clone());
        let inner = inner.cast(state.system().scope().wide());
        let factor = cholesky((inner.clone() + inner.transpose()) * 0.5, "the inner matrix of the preconditioner")?;
        Ok(Some(Self { scaled, factor }))
    }

    fn times(&self, state: &dyn SolveState, v: &Tensor<2>) -> Result<Tensor<2>> {
        let dtype = v.dtype();
        let inner = self.scaled.clone().transpose().matmul(v.clone()).cast(self.factor.dtype());
        let inner = cholesky_solve(self.factor.clone(), inner)?.cast(dtype);
        Ok(state.system().noise_solve(v)? - self.scaled.clone().matmul(inner))
    }
}
