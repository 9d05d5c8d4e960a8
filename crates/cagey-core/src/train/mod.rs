//! Training: minimises a differentiable loss over a flat vector of unconstrained parameters, in `f64` on the host.
//!
//! [`minimise`] takes an [`Objective`], an initial vector, a [`TrainConfig`] and [observers](Observer). It returns an
//! [`Outcome`] with the best point seen and the [reason](Termination) why training ended. L-BFGS is for exact losses,
//! [`Adam`] for stochastic ones. If the objective fails at a point, the optimiser goes back. A training can be saved
//! and continued with bit for bit the same numbers.

mod adam;
#[doc(hidden)]
pub mod checkpoint;
mod config;
mod cooling;
mod descent;
#[doc(hidden)]
pub mod exact;
mod lbfgs;
mod line_search;
mod objective;
mod observer;
mod penalised;
mod point;
#[cfg(feature = "command")]
mod progress;
mod restarts;
mod run;
mod schedule;
mod stop;
mod trainer;

pub use adam::Adam;
#[doc(hidden)]
pub use adam::AdamState;
pub use checkpoint::CheckpointPlan;
pub use config::{Optimizer, TrainConfig};
pub use cooling::Cooling;
pub use descent::Descent;
pub use lbfgs::Lbfgs;
pub use objective::{Evaluation, FromFn, Group, Objective, Step, from_fn};
#[doc(hidden)]
pub use observer::{Following, Steps};
pub use observer::{History, Log, Observer, Plan, Record, Report};
pub use penalised::{Penalised, Penalty, penalised, proximal};
#[doc(hidden)]
pub use point::shifted;
#[cfg(feature = "command")]
pub use progress::Progress;
pub use restarts::{RestartReport, Restarts};
pub use schedule::Schedule;
#[doc(hidden)]
pub use stop::PAYS;
pub use stop::{EarlyStopping, Fall, Termination};
pub use trainer::{Outcome, Trainer, minimise};
