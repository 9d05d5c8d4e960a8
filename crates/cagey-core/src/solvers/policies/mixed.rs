//! Several policies in one solve.

use super::{Actor, Policy, SolveState};
use crate::error::{Error, Result};
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
