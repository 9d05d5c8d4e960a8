//! What is trained: tables × the models that suit them.

use cagey::models::cagp::CagpOptions;
use cagey::models::cggp::CgGpOptions;
use cagey::models::exact::ExactOptions;
use cagey::models::experts::ExpertsOptions;
use cagey::models::label_regression::LabelRegressionOptions;
use cagey::models::laplace::LaplaceOptions;
use cagey::models::minibatch::Minibatches;
use cagey::models::nearest::NearestOptions;
use cagey::models::options::ModelChoice;
use cagey::models::sgpr::SgprOptions;
use cagey::models::sparse_grid::SparseGridOptions;
use cagey::models::svgp::SvgpOptions;
use cagey::models::swsgp::SwsgpOptions;
use cagey::models::variational::Covariance;

/// A model to be trained on a table.
pub struct Entry {
    /// The table.
    pub table: &'static str,
    /// The text of the likelihood.
    pub likelihood: &'static str,
    /// The text of the kernel.
    pub kernel: &'static str,
    /// The model.
    pub model: ModelChoice,
    /// Most steps.
    pub steps: usize,
    /// Whether `--quick` trains it.
    pub quick: bool,
}

impl Entry {
    /// What the entry is called.
    pub fn name(&self) -> String {
        format!("{} {} {}", self.table, self.model.kind(), self.likelihood)
    }

    /// Whether targets are classes.
    pub fn classes(&self) -> bool {
        self.likelihood.starts_with("bernoulli") || self.likelihood.starts_with("softmax")
    }
}

const ARD: &str = "matern32(ard)";

fn labels() -> ModelChoice {
    LabelRegressionOptions::default().into()
}

fn svgp(inducing: usize) -> ModelChoice {
    let batches = Minibatches { natural: Some(0.1), ..Minibatches::default() };
    SvgpOptions::default().inducing(inducing).covariance(Covariance::Full).batches(batches).into()
}

fn swsgp(inducing: usize) -> ModelChoice {
    let (covariance, batches) = (Covariance::Diagonal, Minibatches { size: 256, ..Minibatches::default() });
    SwsgpOptions::default()
        .inducing(inducing)
        .neighbours(8)
        .divergence(1.0)
        .union(false)
        .nugget(1e-3)
        .covariance(covariance)
        .batches(batches)
        .into()
}

fn cagp(actions: usize) -> ModelChoice {
    CagpOptions::default().actions(actions).into()
}

/// All entries.
pub fn entries() -> Vec<Entry> {
    let exact: fn() -> ModelChoice = || ExactOptions::default().into();
    let laplace: fn() -> ModelChoice = || LaplaceOptions::default().into();
    let sgpr = |inducing| SgprOptions::default().inducing(inducing).into();
    let experts = |experts| ExpertsOptions::default().experts(Some(experts)).into();
    let entry =
        |table, likelihood, kernel, model, steps| Entry { table, likelihood, kernel, model, steps, quick: false };
    let quick =
        |table, likelihood, kernel, model, steps| Entry { table, likelihood, kernel, model, steps, quick: true };
    vec![
        quick("friedman", "gaussian", ARD, exact(), 60),
        quick("friedman", "gaussian", ARD, sgpr(64), 60),
        quick("friedman", "gaussian", ARD, svgp(64), 100),
        entry("friedman", "gaussian", ARD, cagp(64), 30),
        quick("friedman", "gaussian", ARD, experts(4), 60),
        entry("friedman", "gaussian", ARD, CgGpOptions::default().into(), 20),
        entry("friedman", "gaussian", ARD, swsgp(64), 500),
        quick("wide", "gaussian", ARD, exact(), 60),
        quick("series", "gaussian", "matern32", exact(), 60),
        entry("surface", "gaussian", "rbf(ard)", sgpr(128), 60),
        quick("surface", "gaussian", ARD, NearestOptions::default().into(), 200),
        entry("surface", "gaussian", ARD, SparseGridOptions::default().level(4).into(), 30),
        entry("surface", "gaussian", "rbf(ard)", svgp(128), 200),
        entry("mauna_loa_co2", "gaussian", "rbf + periodic(period=1) * rbf + rq", sgpr(200), 60),
        entry("tails", "student-t", ARD, laplace(), 60),
        entry("tails", "student-t", ARD, svgp(48), 100),
        quick("coal_yearly", "poisson", "matern32", laplace(), 60),
        quick("coal_yearly", "poisson", "matern32", svgp(32), 100),
        entry("moons", "bernoulli", ARD, laplace(), 40),
        quick("moons", "bernoulli", ARD, svgp(48), 100),
        entry("moons", "bernoulli", ARD, cagp(64), 20),
        quick("moons", "bernoulli", ARD, labels(), 40),
        quick("rings", "bernoulli", ARD, svgp(96), 150),
        entry("sectors", "softmax", ARD, svgp(48), 150),
        entry("digits", "softmax", ARD, svgp(96), 60),
        entry("digits", "softmax", ARD, labels(), 40),
        entry("visits", "poisson", ARD, svgp(96), 250),
        entry("visits", "negative-binomial", ARD, svgp(48), 150),
        entry("hours", "poisson", ARD, svgp(128), 250),
        entry("hours", "negative-binomial", ARD, svgp(128), 250),
        entry("hours", "poisson", ARD, swsgp(256), 1000),
    ]
}
