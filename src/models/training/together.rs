//! Many small models that train at the same time: their evaluations meet, and are computed as one graph.
//!
//! Each model trains on a thread of its own, with its own optimiser. When all that still train wait for an evaluation,
//! one thread evaluates all of them in one pass. So each training makes the steps that it would make alone.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};
use crate::linalg::jitter::record;
use crate::params::Parameters;
use crate::products::stacked::Found;
use crate::train::Evaluation;

/// Models with more rows, or more inducing inputs, gain nothing: their factorisations take longer than all else.
pub const MOST_ROWS: usize = 256;

thread_local! {
    static MEETING: RefCell<Option<Arc<Meeting>>> = const { RefCell::new(None) };
}

/// An evaluation that can be computed with others of its kind.
pub trait Task: Sized + Send + 'static {
    /// Tasks of the same structure are one graph.
    fn structure(&self) -> String;

    /// The answers to tasks of one structure.
    ///
    /// # Errors
    /// What fails for all of them.
    fn answer(tasks: Vec<Self>) -> Answers;
}

/// An objective with its gradient, without priors, and the jitter that it needed.
pub struct Answer {
    evaluation: Evaluation,
    jitter: f64,
}

impl Answer {
    /// The gradient in the raw values of free parameters.
    ///
    /// # Errors
    /// [`Error::NotFinite`] if the objective or a slope is not finite.
    pub fn new(model: &impl Parameters, Found { loss, slopes, jitter }: Found) -> Result<Self> {
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
        Ok(Self { evaluation: Evaluation { loss, gradient }, jitter })
    }
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

/// Tasks of one kind.
type Tasks = Vec<Box<dyn Any + Send>>;
/// What came of each.
pub type Answers = Result<Vec<Result<Answer>>>;

/// A task of some kind.
struct Asked {
    structure: String,
    task: Box<dyn Any + Send>,
    answer: fn(Tasks) -> Answers,
}

impl Asked {
    fn new<T: Task>(task: T) -> Self {
        let answer = |tasks: Tasks| {
            // One structure has one kind of task, which its name begins with.
            T::answer(tasks.into_iter().filter_map(|task| task.downcast().ok()).map(|task| *task).collect())
        };
        let structure = format!("{} {}", std::any::type_name::<T>(), task.structure());
        Self { structure, task: Box::new(task), answer }
    }
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
                self.0.leave();
            }
        }
        MEETING.with(|own| *own.borrow_mut() = Some(self.clone()));
        let _leave = Leave(self);
        training()
    }

    /// This thread's training does not wait for others any more.
    fn leave(&self) {
        if MEETING.with(|own| own.borrow_mut().take()).is_some() {
            self.lock().live -= 1;
            self.changed.notify_all();
        }
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
        groups.entry(asked.structure.clone()).or_default().push((own, asked));
    }
    groups.into_values().flat_map(of_group).collect()
}

fn of_group(group: Vec<(usize, Asked)>) -> Vec<(usize, Result<Answer>)> {
    let answer = group[0].1.answer;
    let (owners, tasks): (Vec<usize>, Vec<_>) = group.into_iter().map(|(own, asked)| (own, asked.task)).unzip();
    let all = |error: &dyn Fn() -> Error| owners.iter().map(|own| (*own, Err(error()))).collect();
    // Whoever waits for an answer gets one.
    match catch_unwind(AssertUnwindSafe(|| answer(tasks))) {
        Ok(Ok(answers)) => owners.into_iter().zip(answers).collect(),
        Ok(Err(error)) => all(&|| Error::Device(error.to_string())),
        Err(_) => all(&panicked),
    }
}

fn panicked() -> Error {
    Error::Usage("a likelihood or kernel of your own panicked: fit these models one by one to see which".into())
}

/// The evaluation of a task with those of other models, if this thread's training [attends](Meeting::attend) a meeting
/// and there is a task, which only small models have. Without one the training leaves the meeting.
pub fn with_others<T: Task>(task: impl FnOnce() -> Option<Result<T>>) -> Option<Result<Evaluation>> {
    let meeting = MEETING.with(|own| own.borrow().clone())?;
    let Some(task) = task() else {
        meeting.leave();
        return None;
    };
    let answer = task.and_then(|task| meeting.ask(Asked::new(task)));
    Some(answer.map(|Answer { evaluation, jitter }| {
        record(jitter);
        evaluation
    }))
}
