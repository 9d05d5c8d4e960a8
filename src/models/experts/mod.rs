//! Experts: many models of one prior that share out the rows, are trained together and predict together.
//!
//! M experts with n_i rows each have the same hyperparameters θ. Training minimises the sum of their objectives L_i(θ),
//! that is, it treats rows of different experts as independent (Ng and Deisenroth 2014, *Hierarchical
//! mixture-of-experts model for large-scale Gaussian process regression*). It takes Σ n_i³ time in place of n³, and
//! each thread needs memory for one expert. A rule of [`aggregation`] combines the M predictions into one. You choose
//! the rule when you ask for predictions.

pub mod aggregation;
mod conditioned;
mod expert;
mod objective;
mod options;
mod partition;
mod pooled;
mod posterior;
mod remote;
mod rows;
mod server;
mod shards;
mod terms;
mod training;
mod whole;

use std::ops::Range;
use std::sync::Arc;

use aggregation::Rule;
use burn::tensor::Tensor;
pub use options::{ExpertsOptions, LocalKind};
pub use partition::Partition;
pub use pooled::Pooled;
pub use posterior::ExpertsPosterior;
use rows::{Data, Window};
pub use server::Server;
pub use shards::{Shards, TOLD, filled, joined, share_of};
pub use training::{Algorithm, Federation, Rounds};
use whole::OfParts;

use crate::device::Compute;
use crate::error::{Error, Result};
use crate::exchange::{self, Ranks};
use crate::likelihoods::Likelihood;
use crate::models::exact::ExactGp;
use crate::models::gp_model::{GpModel, Size, Training, UserUnits};
use crate::models::minibatch::Minibatches;
use crate::models::posterior::{Posterior, SavedPosterior};
use crate::models::prior::Prior;
use crate::models::sgpr::Sgpr;
use crate::models::{Batch, Model, Observations};
use crate::params::{Parameter, Parameters};
use crate::scope::Scope;
use crate::train::{Observer, Outcome};

/// The kind of all experts. They share one set of parameters.
#[derive(Debug, Clone)]
pub enum Shared {
    /// Exact Gaussian processes.
    Exact(ExactGp),
    /// Sparse Gaussian processes with the collapsed bound. They share the inducing inputs.
    Sparse(Sgpr),
}

impl Shared {
    /// Returns the model of a single expert.
    pub fn model(&self) -> &dyn GpModel {
        match self {
            Self::Exact(model) => model,
            Self::Sparse(model) => model,
        }
    }

    fn model_mut(&mut self) -> &mut dyn GpModel {
        match self {
            Self::Exact(model) => model,
            Self::Sparse(model) => model,
        }
    }
}

/// Experts on parts of the data, with one set of parameters.
#[derive(Debug, Clone)]
pub struct Experts {
    /// The kind of the experts.
    pub shared: Shared,
    /// How predictions are combined unless another rule is asked for.
    pub rule: Rule,
    /// How they are trained together.
    pub federation: Federation,
    /// The rows of each expert, ascending.
    parts: Arc<Vec<Vec<usize>>>,
    /// The rows of the communication expert of grBCM, ascending. They are drawn at random, whatever the partition.
    communication: Arc<Vec<usize>>,
    /// The name of each expert in messages.
    labels: Arc<Vec<String>>,
    /// Where the experts are that other processes hold.
    ranks: Option<Arc<Ranks>>,
    /// The experts' rows, if they stay with the experts.
    shards: Option<Arc<Shards>>,
    /// The experts' rows, if every rank reads its own.
    window: Option<Arc<Window>>,
}

impl Experts {
    /// Makes experts on these rows: `parts` has the rows of each expert, `communication` the rows that grBCM's experts
    /// have in common.
    ///
    /// # Errors
    /// [`Error::Usage`] if an expert has no rows, or if a row does not belong to exactly one expert.
    pub fn new(shared: Shared, rule: Rule, parts: Vec<Vec<usize>>, mut communication: Vec<usize>) -> Result<Self> {
        let n = parts.iter().map(Vec::len).sum();
        let mut seen = vec![false; n];
        let once = parts.iter().flatten().all(|&row| row < n && !std::mem::replace(&mut seen[row], true));
        if !once || parts.iter().any(Vec::is_empty) || communication.is_empty() {
            return Err(Error::Usage("each of the rows must be one expert's, and each expert must have some".into()));
        }
        if communication.iter().any(|row| *row >= n) {
            return Err(Error::Usage(format!("the communication expert's rows must be some of the {n} rows")));
        }
        communication.sort_unstable();
        communication.dedup();
        let labels = parts.iter().enumerate().map(|(expert, rows)| label(expert, parts.len(), rows)).collect();
        let (parts, communication, labels) = (Arc::new(parts), Arc::new(communication), Arc::new(labels));
        let federation = Federation::default();
        Ok(Self { shared, rule, federation, parts, communication, labels, ranks: None, shards: None, window: None })
    }

    /// Makes the experts of one rank, as the leader hands them out. Rows of the communication expert may belong to no
    /// expert of this rank.
    fn of_rank(shared: Shared, parts: Vec<Vec<usize>>, communication: Vec<usize>, labels: Vec<String>) -> Self {
        let (parts, communication, labels) = (Arc::new(parts), Arc::new(communication), Arc::new(labels));
        // The leader decides on the rule, so that this one is not used.
        let (rule, federation) = (Rule::Grbcm, Federation::default());
        Self { shared, rule, federation, parts, communication, labels, ranks: None, shards: None, window: None }
    }

    /// Returns the same experts, spread over the ranks of a job that this process leads.
    pub fn over(self, ranks: Arc<Ranks>) -> Self {
        Self { ranks: Some(ranks), ..self }
    }

    /// The experts of this process: all of them, or the first ones if it leads other ranks.
    fn own(&self) -> Range<usize> {
        self.share(0)
    }

    /// The experts of a rank.
    fn share(&self, rank: usize) -> Range<usize> {
        exchange::share(self.len(), rank, self.ranks.as_ref().map_or(1, |ranks| ranks.size()))
    }

    /// The rows of each expert.
    pub fn parts(&self) -> &[Vec<usize>] {
        &self.parts
    }

    /// The number of experts M.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// Whether there is no expert. [`new`](Self::new) refuses that.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The number n of rows of all experts.
    pub fn rows(&self) -> usize {
        self.parts.iter().map(Vec::len).sum()
    }

    /// The number of rows of the largest expert.
    fn largest(&self) -> usize {
        self.parts.iter().map(Vec::len).max().unwrap_or_default()
    }

    /// Names the expert in an error.
    fn of_expert(&self, expert: usize, error: Error) -> Error {
        of(&self.labels[expert], error)
    }

    /// The posterior. It can predict by any rule.
    ///
    /// # Errors
    /// [`Error::Shape`] if the rows are not the ones that were shared out, [`Error::NotPositiveDefinite`] naming the
    /// expert.
    pub fn posterior(&self, compute: Compute, data: Observations) -> Result<ExpertsPosterior> {
        ExpertsPosterior::new(self.clone(), compute, data)
    }
}

/// Names what an error is about in its message.
fn of(what: &str, error: Error) -> Error {
    error.map(|error| match error {
        Error::NotPositiveDefinite { matrix, size, dtype, pivot, jitter, finite } => {
            Error::NotPositiveDefinite { matrix: format!("{what}: {matrix}"), size, dtype, pivot, jitter, finite }
        }
        Error::NotFinite(problem) => Error::NotFinite(format!("{what}: {problem}")),
        Error::Data(problem) => Error::Data(format!("{what}: {problem}")),
        other => other,
    })
}

/// The name of an expert for messages, with its first rows.
fn label(expert: usize, count: usize, rows: &[usize]) -> String {
    let shown: Vec<String> = rows.iter().take(3).map(|row| (row + 1).to_string()).collect();
    let more = if rows.len() > 3 { ", …" } else { "" };
    format!("expert {} of {count} (rows {}{more}; {} in all)", expert + 1, shown.join(", "), rows.len())
}

impl Model for Experts {
    fn objective(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
        objective::sum(self, scope, batch)
    }

    fn bears_jitter(&self) -> bool {
        matches!(self.shared, Shared::Sparse(_))
    }
}

impl OfParts for Experts {
    fn experts(&self) -> &Experts {
        self
    }

    fn objective_over(&self, scope: &Scope, data: Data) -> Result<Tensor<1>> {
        objective::sum_over(self, scope, data)
    }
}

impl GpModel for Experts {
    fn title(&self) -> String {
        let (least, most) = (self.parts.iter().map(Vec::len).min().unwrap_or_default(), self.largest());
        let rows = if least == most { most.to_string() } else { format!("{least} to {most}") };
        let count = self.len();
        let experts = if count == 1 { "expert" } else { "experts, each" };
        let kind = match &self.shared {
            Shared::Exact(_) => "an exact Gaussian process".to_string(),
            Shared::Sparse(model) => format!("a sparse Gaussian process with {} inducing inputs", model.process.len()),
        };
        format!("{count} {experts} {kind} on {rows} rows; aggregation {}", self.rule)
    }

    fn prior(&self) -> &Prior {
        self.shared.model().prior()
    }

    fn likelihood(&self) -> &dyn Likelihood {
        self.shared.model().likelihood()
    }

    fn start(&mut self, data: &Observations, units: &UserUnits) {
        self.shared.model_mut().start(data, units);
    }

    fn bytes(&self, compute: Compute, size: Size) -> f64 {
        // A sample of the rows has smaller experts, unless the experts have rows of their own.
        let own = self.own_rows().is_some();
        let share = if own { 1.0 } else { (size.rows as f64 / self.rows() as f64).min(1.0) };
        let largest = (self.largest() as f64 * share).ceil();
        let each = Size { rows: largest as usize, batch: largest as usize, ..size };
        let threads = rayon::current_num_threads().min(self.own().len());
        Size { rows: self.held_of(size.rows), ..size }.data(compute)
            + threads as f64 * self.shared.model().bytes(compute, each)
    }

    fn is_comparable(&self) -> bool {
        true
    }

    fn seconds(&self, compute: Compute, rows: &Observations, _batches: Option<&Minibatches>) -> Result<f64> {
        whole::seconds(self, compute, rows)
    }

    fn train(&mut self, training: Training, observers: &mut [&mut dyn Observer]) -> Result<Outcome> {
        training::train(self, training, observers)
    }

    fn condition(&self, compute: Compute, data: Observations) -> Result<Box<dyn Posterior>> {
        Ok(Box::new(self.posterior(compute, data)?))
    }

    fn restore(&self, compute: Compute, data: Observations, _saved: SavedPosterior) -> Result<Box<dyn Posterior>> {
        self.condition(compute, data)
    }
}

impl Parameters for Experts {
    fn parameters(&self) -> Vec<(String, &Parameter)> {
        self.shared.model().parameters()
    }

    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        self.shared.model_mut().parameters_mut()
    }
}
