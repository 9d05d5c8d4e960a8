//! Experts: many models of one prior that share out the rows, are trained together and predict together.
//!
//! M experts with n_i rows each have the same hyperparameters θ. Training minimises the sum of their objectives L_i(θ),
//! that is, it treats rows of different experts as independent (Ng and Deisenroth 2014, *Hierarchical
//! mixture-of-experts model for large-scale Gaussian process regression*). It takes Σ n_i³ time in place of n³, and
//! each thread needs memory for one expert. A rule of [`aggregation`] combines the M predictions into one. You choose
//! the rule when you ask for predictions.

pub mod aggregation;
mod beyond;
mod conditioned;
mod expert;
mod federation;
mod near;
mod options;
mod partition;
mod posterior;
mod terms;

use std::sync::Arc;

use aggregation::Rule;
use burn::tensor::Tensor;
pub(crate) use conditioned::Conditioned;
pub(crate) use federation::client;
pub use federation::{Algorithm, Federation, Rounds};
pub use options::{ExpertsOptions, LocalKind};
pub use partition::Partition;
pub use posterior::ExpertsPosterior;

use crate::device::Compute;
use crate::distributed::{Data, FileRows, OfParts, Parts, Question, Ranks, Shards, whole};
use crate::error::{Error, Result};
use crate::likelihoods::{Gaussian, Likelihood};
use crate::models::blueprint::Blueprint;
use crate::models::exact::{ExactGp, ExactOptions};
use crate::models::gp_model::{GpModel, Size, Training, UserUnits};
use crate::models::minibatch::Minibatches;
use crate::models::neighbours::{nearest, scaled};
use crate::models::observations::all_once;
use crate::models::posterior::Posterior;
use crate::models::prior::Prior;
use crate::models::sgpr::{Sgpr, SgprOptions};
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

    fn likelihood(&self) -> &Gaussian {
        match self {
            Self::Exact(model) => &model.likelihood,
            Self::Sparse(model) => &model.likelihood,
        }
    }

    /// Whether the experts are sparse.
    fn is_sparse(&self) -> bool {
        matches!(self, Self::Sparse(_))
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
    /// The rows of each expert, and where they are.
    parts: Parts,
    /// The rows of the communication expert of grBCM, ascending. They are drawn at random, whatever the partition.
    communication: Arc<Vec<usize>>,
}

impl Experts {
    /// Makes experts on these rows: `parts` has the rows of each expert, `communication` the rows that grBCM's experts
    /// have in common.
    ///
    /// # Errors
    /// [`Error::Usage`] if an expert has no rows, or if a row does not belong to exactly one expert.
    pub fn new(shared: Shared, rule: Rule, parts: Vec<Vec<usize>>, mut communication: Vec<usize>) -> Result<Self> {
        let n = parts.iter().map(Vec::len).sum();
        if !all_once(parts.iter().flatten(), n) || parts.iter().any(Vec::is_empty) || communication.is_empty() {
            return Err(Error::Usage("each of the rows must be one expert's, and each expert must have some".into()));
        }
        if communication.iter().any(|row| *row >= n) {
            return Err(Error::Usage(format!("the communication expert's rows must be some of the {n} rows")));
        }
        communication.sort_unstable();
        communication.dedup();
        let labels = parts.iter().enumerate().map(|(expert, rows)| label(expert, parts.len(), rows)).collect();
        Ok(Self::of(shared, rule, Parts::new(parts, labels, 0), communication))
    }

    /// Makes experts that keep their rows for themselves.
    ///
    /// # Errors
    /// [`Error::Usage`] for a rule that needs rows of several experts in one place.
    pub fn apart(shared: Shared, rule: Rule, shards: Arc<Shards>) -> Result<Self> {
        rule.check_apart()?;
        Ok(Self::of(shared, rule, Parts::apart("expert", shards), Vec::new()))
    }

    fn of(shared: Shared, rule: Rule, parts: Parts, communication: Vec<usize>) -> Self {
        Self { shared, rule, federation: Federation::default(), parts, communication: Arc::new(communication) }
    }

    /// Returns the same experts, shared by the processes of a job that this one leads.
    pub fn over(self, crew: Option<Arc<Ranks>>) -> Self {
        Self { parts: self.parts.over(crew), ..self }
    }

    /// Returns the same experts on rows of a file. This process reads the rows of its own experts now, and the others
    /// theirs when they are first asked. Later calls ignore the data that they are given.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn reading(self, source: Arc<FileRows>) -> Result<Self> {
        Ok(Self { parts: self.parts.reading(source)?, ..self })
    }

    /// The rows of each expert.
    pub fn parts(&self) -> &[Vec<usize>] {
        self.parts.rows()
    }

    /// The number of experts M.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// Whether there is no expert. [`new`](Self::new) refuses that.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number n of rows of all experts.
    pub fn rows(&self) -> usize {
        self.parts.count()
    }

    /// The number of rows of the largest expert.
    fn largest(&self) -> usize {
        self.parts().iter().map(Vec::len).max().unwrap_or_default()
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

/// The name of an expert for messages, with its first rows.
fn label(expert: usize, count: usize, rows: &[usize]) -> String {
    let shown: Vec<String> = rows.iter().take(3).map(|row| (row + 1).to_string()).collect();
    let more = if rows.len() > 3 { ", …" } else { "" };
    format!("expert {} of {count} (rows {}{more}; {} in all)", expert + 1, shown.join(", "), rows.len())
}

impl Model for Experts {
    fn objective(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
        batch.check(scope)?;
        whole::over(self, scope, batch)
    }

    fn bears_jitter(&self) -> bool {
        self.shared.is_sparse()
    }
}

impl OfParts for Experts {
    fn parts(&self) -> &Parts {
        &self.parts
    }

    fn member(&self) -> &dyn GpModel {
        self.shared.model()
    }

    fn blueprint(&self, d: usize) -> Blueprint {
        match &self.shared {
            Shared::Exact(model) => Blueprint::new(ExactOptions { objective: model.objective }, model, d),
            Shared::Sparse(model) => Blueprint::new(SgprOptions { inducing: model.process.len() }, model, d),
        }
    }

    fn common(&self) -> &[usize] {
        &self.communication
    }

    /// Σ L_i(θ) `[1]`. Each expert has a graph of its own, which is dropped when its gradient is known. The returned
    /// tensor is linear in the parameters. At their present values it has the value and the gradient of the sum.
    fn objective_over(&self, scope: &Scope, data: Data) -> Result<Tensor<1>> {
        let question = Question::Objective { gradient: scope.device().is_autodiff(), budget: scope.budget() };
        let (loss, slopes) = whole::sum(self, (data, scope.compute()), &question, &[])?;
        Ok(whole::linear(scope, self, loss, &slopes))
    }
}

impl GpModel for Experts {
    fn title(&self) -> String {
        let (least, most) = (self.parts().iter().map(Vec::len).min().unwrap_or_default(), self.largest());
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
        let own = self.parts.own_rows().is_some();
        let share = if own { 1.0 } else { (size.rows as f64 / self.rows() as f64).min(1.0) };
        let largest = (self.largest() as f64 * share).ceil();
        let each = Size { rows: largest as usize, batch: largest as usize, ..size };
        let threads = rayon::current_num_threads().min(self.parts.own().len());
        Size { rows: self.parts.held(size.rows), ..size }.data(compute)
            + threads as f64 * self.shared.model().bytes(compute, each)
    }

    fn is_comparable(&self) -> bool {
        true
    }

    fn seconds(&self, compute: Compute, rows: &Observations, _batches: Option<&Minibatches>) -> Result<f64> {
        whole::seconds(self, compute, rows)
    }

    fn train(&mut self, training: Training, observers: &mut [&mut dyn Observer]) -> Result<Outcome> {
        federation::train(self, training, observers)
    }

    /// Each new row belongs to the expert that has the row nearest to it.
    fn updated(&self, compute: Compute, data: &Observations, more: &Observations) -> Result<Option<Box<dyn GpModel>>> {
        if self.parts.own_rows().is_some() || self.parts.len() != self.parts.own().len() {
            return Ok(None);
        }
        let scope = Scope::new(compute)?;
        let places = |rows: &Observations| scaled(&self.prior().kernel, &scope, &scope.rows(&rows.x, rows.d));
        let ((known, p), (new, _)) = (places(data)?, places(more)?);
        let mut owners = vec![0; data.n()];
        for (expert, rows) in self.parts().iter().enumerate() {
            rows.iter().for_each(|row| owners[*row] = expert);
        }
        let mut parts = self.parts().to_vec();
        let found = nearest(&new, &known, p, 1);
        (0..more.n()).for_each(|k| parts[owners[found.of(k)[0] as usize]].push(data.n() + k));
        let grown = Self::new(self.shared.clone(), self.rule, parts, self.communication.to_vec())?;
        Ok(Some(Box::new(Self { federation: self.federation.clone(), ..grown })))
    }

    fn condition(&self, compute: Compute, data: Observations) -> Result<Box<dyn Posterior>> {
        Ok(Box::new(self.posterior(compute, data)?))
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
