//! Questions about parts of the rows, and what a part answers.

use serde::{Deserialize, Serialize};

use crate::device::Compute;
use crate::error::{Error, Result};
use crate::linalg::jitter::watch;
use crate::models::experts::client::{self, Round};
use crate::models::gp_model::GpModel;
use crate::models::{Batch, Observations};
use crate::scope::{Scope, scalar, to_f64};

/// What is asked about each part of the rows. Lists of numbers go with a question, and an answer is a list of numbers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Question {
    /// The objective, the jitter of its factorisations and, if wanted, the gradient in the internal values of each free
    /// parameter.
    Objective {
        /// Whether the gradient is wanted.
        gradient: bool,
        /// Bytes of temporary memory.
        budget: usize,
    },
    /// The [sums over rows](GpModel::sums) through which the data enter the objective. A total.
    Sums {
        /// Bytes of temporary memory.
        budget: usize,
    },
    /// The same answer as for [`Objective`](Self::Objective), about Σ ⟨sums, adjoints⟩. The numbers are the adjoints.
    Pull {
        /// Bytes of temporary memory.
        budget: usize,
    },
    /// The share of a minibatch's objective and, if wanted, of its gradient in the free raw values. A total.
    Batch {
        /// Whether the gradient is wanted.
        gradient: bool,
    },
    /// The sums for a natural-gradient step. A total.
    Natural,
    /// The loss at z, the count of gradients and the next state of clients. The numbers are z and the clients' states.
    Round {
        /// What clients need to know.
        round: Round,
        /// The parts that take part, ascending.
        drawn: Vec<usize>,
    },
    /// Means, then variances of predictions. The numbers are the inputs and, if not every part predicts every row, the
    /// parts of each row.
    Predict {
        /// Whether each part has the communication expert's rows as well.
        augmented: bool,
    },
}

impl Question {
    /// Whether only the total over all parts is wanted.
    pub(super) fn is_total(&self) -> bool {
        match self {
            Self::Sums { .. } | Self::Batch { .. } | Self::Natural => true,
            Self::Objective { .. } | Self::Pull { .. } | Self::Round { .. } | Self::Predict { .. } => false,
        }
    }
}

/// What a part answers: `rows`, each of which stands for `scale` rows. Of the numbers of all parts, its own are at the
/// place `at`.
pub(super) fn answer(
    model: &dyn GpModel,
    compute: Compute,
    question: &Question,
    (numbers, at): (&[Vec<f64>], usize),
    (rows, scale): (&Observations, f64),
) -> Result<Vec<f64>> {
    let batch = |scope: &Scope| Batch { scale, ..rows.batch(scope) };
    let scope = |gradient: bool| if gradient { Scope::training(compute) } else { Scope::new(compute) };
    match question {
        Question::Objective { gradient, budget } => {
            let (found, jitter) = watch(|| {
                let scope = scope(*gradient)?.with_budget(*budget);
                let loss = model.objective(&scope, &batch(&scope))?;
                if *gradient { scope.slopes(loss, model) } else { Ok((scalar(loss)?, Vec::new())) }
            });
            let (loss, slopes) = found?;
            Ok([vec![loss, jitter], slopes.concat()].concat())
        }
        Question::Sums { budget } => {
            let scope = scope(false)?.with_budget(*budget);
            let sums = model.sums(&scope, &batch(&scope))?.into_iter().map(to_f64);
            Ok(sums.collect::<Result<Vec<_>>>()?.concat())
        }
        Question::Pull { budget } => {
            let scope = scope(true)?.with_budget(*budget);
            let pulled = model.sums(&scope, &batch(&scope))?.into_iter().zip(numbers).map(|(sum, adjoint)| {
                let adjoint = scope.widened().vector(adjoint).cast(sum.dtype());
                (sum * adjoint).sum()
            });
            let Some(loss) = pulled.reduce(|all, more| all + more) else { return Err(unknown("sums over rows")) };
            let (loss, slopes) = scope.slopes(loss, model)?;
            Ok([vec![loss, 0.0], slopes.concat()].concat())
        }
        Question::Batch { gradient } => {
            let scope = scope(*gradient)?.with_budget(model.budget(rows.n(), compute.precision));
            let loss = model.objective(&scope, &batch(&scope))?;
            let (loss, slopes) = if *gradient { scope.gradient(loss, model)? } else { (scalar(loss)?, Vec::new()) };
            Ok([vec![loss], slopes].concat())
        }
        Question::Natural => {
            let Some(model) = model.sum_over_rows() else { return Err(unknown("natural gradients")) };
            model.natural_sums(compute, &batch(&scope(false)?))?.numbers()
        }
        Question::Round { round, .. } => match (numbers.first(), numbers.get(at + 1)) {
            (Some(z), Some(state)) => client::answer(round, (model, compute, rows), z, state),
            _ => Err(unknown("clients without a state")),
        },
        Question::Predict { .. } => Err(unknown("predictions before its parts are conditioned")),
    }
}

/// The error of a part that cannot answer.
fn unknown(what: &str) -> Error {
    Error::Device(format!("this model of parts of the rows has no {what}"))
}
