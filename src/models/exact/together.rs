//! Many small models that train at the same time: their evaluations meet, and are computed as one graph.
//!
//! Each model trains on a thread of its own, with its own optimiser. When all that still train wait for an evaluation,
//! one thread evaluates all of them in one pass. So each training makes the steps that it would make alone.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::{ExactGp, ExactObjective};
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::linalg::jitter::record;
use crate::models::Batch;
use crate::params::Parameters;
use crate::products::stacked::{Found, Member, likelihoods};
use crate::scope::to_f64;
use crate::train::Evaluation;

/// Models with more rows gain nothing: their factorisations take longer than everything else.
const MOST_ROWS: usize = 256;

thread_local! {
    static MEETING: RefCell<Option<Arc<Meeting>>> = const { RefCell::new(None) };
}

/// Where evaluations of models that train at the same time meet.
#[derive(Default)]
pub struct Meeting {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Trainings that have not ended.
    live: usize,
    /// Who waits for what, by number.
    asked: BTreeMap<usize, Asked>,
    answers: BTreeMap<usize, Result<Answer>>,
    next: usize,
}

struct Asked {
    model: ExactGp,
    compute: Compute,
    x: Vec<f64>,
    y: Vec<f64>,
    d: usize,
}

struct Answer {
    evaluation: Evaluation,
    jitter: f64,
}

impl Meeting {
    /// A meeting of so many trainings, each of which has to [attend](Self::attend).
    pub fn of(live: usize) -> Arc<Self> {
        let state = Mutex::new(State { live, ..State::default() });
        Arc::new(Self { state, ..Self::default() })
    }

    /// Runs a training on this thread. Its evaluations meet the others'.
    pub fn attend<R>(self: &Arc<Self>, training: impl FnOnce() -> R) -> R {
        struct Leave<'a>(&'a Meeting);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                MEETING.with(|own| own.borrow_mut().take());
                self.0.lock().live -= 1;
                self.0.changed.notify_all();
            }
        }
        MEETING.with(|own| *own.borrow_mut() = Some(self.clone()));
        let _leave = Leave(self);
        training()
    }

    /// Evaluates whenever all trainings wait, until all have ended.
    pub fn lead(&self) {
        let mut state = self.lock();
        while state.live > 0 {
            if state.asked.len() < state.live {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let asked = std::mem::take(&mut state.asked);
            drop(state);
            let answers = evaluated(asked);
            state = self.lock();
            state.answers.extend(answers);
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, asked: Asked) -> Result<Answer> {
        let mut state = self.lock();
        let own = state.next;
        state.next += 1;
        state.asked.insert(own, asked);
        if state.asked.len() == state.live {
            self.changed.notify_all();
        }
        loop {
            if let Some(answer) = state.answers.remove(&own) {
                return answer;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Evaluates all that asked, those of one structure together.
fn evaluated(asked: BTreeMap<usize, Asked>) -> Vec<(usize, Result<Answer>)> {
    let mut groups: BTreeMap<String, Vec<(usize, Asked)>> = BTreeMap::new();
    for (own, asked) in asked {
        let prior = &asked.model.prior;
        let key = format!("{} {} {} {:?}", prior.kernel.layout(), prior.mean.name(), asked.d, asked.compute);
        groups.entry(key).or_default().push((own, asked));
    }
    groups.into_values().flat_map(of_group).collect()
}

fn of_group(group: Vec<(usize, Asked)>) -> Vec<(usize, Result<Answer>)> {
    let members: Vec<Member> = group
        .iter()
        .map(|(_, Asked { model, x, y, .. })| {
            let (prior, noise) = (&model.prior, &model.likelihood.noise);
            Member { kernel: &prior.kernel, mean: &prior.mean, noise, x, y }
        })
        .collect();
    let (_, Asked { compute, d, .. }) = &group[0];
    match likelihoods(*compute, &members, *d) {
        Ok(found) => group.iter().zip(found).map(|((own, asked), found)| (*own, answer(&asked.model, found))).collect(),
        Err(error) => {
            let text = error.to_string();
            group.iter().map(|(own, _)| (*own, Err(Error::Device(text.clone())))).collect()
        }
    }
}

/// The gradient in the raw values of free parameters.
fn answer(model: &ExactGp, Found { loss, slopes, jitter }: Found) -> Result<Answer> {
    if !loss.is_finite() {
        return Err(Error::NotFinite("the objective".into()));
    }
    let mut gradient = Vec::new();
    for ((path, parameter), slope) in model.parameters().into_iter().zip(slopes).filter(|((_, p), _)| !p.fixed) {
        if slope.iter().any(|slope| !slope.is_finite()) {
            return Err(Error::NotFinite(format!("the gradient in {path}")));
        }
        gradient.extend(parameter.raw_slope(slope));
    }
    Ok(Answer { evaluation: Evaluation { loss, gradient }, jitter })
}

impl ExactGp {
    /// The objective and its gradient without priors, evaluated with those of other models if this thread's training
    /// [attends](Meeting::attend) a meeting and the model is small.
    pub(super) fn with_others(&self, compute: Compute, batch: &Batch) -> Option<Result<Evaluation>> {
        let meeting = MEETING.with(|own| own.borrow().clone())?;
        let [n, d] = batch.x.dims();
        let likelihood = self.objective == ExactObjective::MarginalLikelihood && batch.auxiliary.is_none();
        if !likelihood || n > MOST_ROWS || !self.prior.kernel.stacks() {
            return None;
        }
        let ask = || {
            let (x, y) = (to_f64(batch.x.clone())?, to_f64(batch.y.clone())?);
            let Answer { evaluation, jitter } = meeting.ask(Asked { model: self.clone(), compute, x, y, d })?;
            record(jitter);
            Ok(evaluation)
        };
        Some(ask())
    }
}
