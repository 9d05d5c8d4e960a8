//! Options about the model.

mod check;
mod given;
mod names;

use std::str::FromStr;

use cagey::Result;
use cagey::device::{Compute, DeviceKind, Precision};
use cagey::fitted::{ActionPolicy, ModelChoice, Settings};
use cagey::models::cagp::CagpObjective;
use cagey::models::exact::ExactObjective;
use cagey::models::minibatch::Minibatches;
use cagey::models::ordering::RowOrder;
use cagey::models::svgp::Covariance;
use cagey::params::Prior;
use clap::Args;
use given::{initial, interval, pair};
pub use names::ModelName;
use names::{LossName, MeanName, Minimised, OrderName, PolicyName, Transform};

use super::training::OptimizerName;
use super::values;

/// The model.
#[derive(Debug, Clone, Args)]
pub struct ModelOptions {
    /// Kernel, e.g. "rbf(ard) + 2.0 * periodic(period=1.0, fix=period) * rbf"; --help has the grammar
    #[arg(long, default_value = "matern32(ard)", long_help = KERNEL_HELP, allow_hyphen_values = true)]
    pub kernel: String,
    /// Prior mean, where there are no data near
    #[arg(long, value_name = "NAME", value_enum, default_value_t = MeanName::Zero)]
    mean: MeanName,
    /// Model; for the gaussian likelihood exact by default up to 5,000 rows, sgpr up to 50,000 and svgp beyond; svgp for others
    #[arg(long, value_name = "NAME", value_enum)]
    pub model: Option<ModelName>,
    /// Likelihood: gaussian, heteroscedastic, student-t(4), bernoulli(logit), binomial, softmax, ordinal, poisson(exp),
    /// negative-binomial, gamma, exponential or beta; from the target by default
    #[arg(long, value_name = "NAME", value_parser = values::lower_case)]
    pub likelihood: Option<String>,
    /// What an exact model minimises [default: ml]
    #[arg(long, value_name = "NAME", value_enum)]
    objective: Option<Minimised>,
    /// Most actions of a computation-aware model, 512 or one a row by default: more are closer to the exact one
    #[arg(long, value_name = "N", value_parser = values::count(1..=values::MOST))]
    actions: Option<usize>,
    /// How a computation-aware model chooses its actions [default: learned]
    #[arg(long, value_name = "NAME", value_enum)]
    policy: Option<PolicyName>,
    /// Optimiser steps from one choice of actions by a policy, a solve, to the next: more are cheaper and lead less far [default: 1]
    #[arg(long, value_name = "STEPS", value_parser = values::count(1..=values::MOST))]
    refresh: Option<usize>,
    /// Residual over target, in norm, at which a policy's solve ends with fewer actions; 0 takes all that help [default: 1e-4 with cg and
    /// lanczos, else 0]
    #[arg(long, value_name = "SHARE", value_parser = values::rate)]
    tolerance: Option<f64>,
    /// What a computation-aware model minimises [default: elbo]
    #[arg(long, value_name = "NAME", value_enum)]
    loss: Option<LossName>,
    /// Order of rows that blocks of learned actions are cut from [default: tree]
    #[arg(long, value_name = "NAME", value_enum)]
    row_order: Option<OrderName>,
    /// Inducing inputs of a sparse model [default: 512]
    #[arg(long, value_name = "M", value_parser = values::count(1..=values::MOST))]
    inducing: Option<usize>,
    /// Inducing inputs that a row of swsgp sees [default: 16]
    #[arg(long, value_name = "H", value_parser = values::count(1..=values::MOST))]
    neighbors: Option<usize>,
    /// Weight of the divergence from the prior in swsgp's objective: 1 as published; M/H holds each inducing value to it about once
    /// [default: 1]
    #[arg(long, value_name = "WEIGHT", value_parser = values::positive)]
    divergence: Option<f64>,
    /// Let all rows of a minibatch of swsgp see the neighbours of each of them, and predictions all inducing inputs (SWSGP-U): slower and
    /// nearer to svgp
    #[arg(long)]
    union: bool,
    /// Rows of a minibatch of svgp and swsgp [default: 1024]
    #[arg(long, value_name = "ROWS", value_parser = values::count(1..=values::MOST))]
    batch: Option<usize>,
    /// Rate, in (0, 1], of the natural gradients that move svgp's variational distribution; 0 leaves it to the optimiser, as --mean-field
    /// and L-BFGS do [default: 0.1]
    #[arg(long, value_name = "RATE", value_parser = values::rate)]
    natural_gradients: Option<f64>,
    /// Learn only the variances of the variational distribution, not its covariances
    #[arg(long)]
    mean_field: bool,
    /// Model a function of the target instead of the target
    #[arg(long, value_name = "NAME", value_enum, default_value_t = Transform::None)]
    target_transform: Transform,
    /// Column of known standard deviations of the target, added to the learned noise
    #[arg(long, value_name = "COLUMN", conflicts_with_all = ["exposure", "trials"])]
    noise_column: Option<String>,
    /// Column of exposures of counts: time, area or population
    #[arg(long, value_name = "COLUMN", conflicts_with = "trials")]
    exposure: Option<String>,
    /// Column of numbers of trials, for the binomial likelihood
    #[arg(long, value_name = "COLUMN")]
    trials: Option<String>,
    /// Compute with the data as they are instead of standardising them
    #[arg(long)]
    no_standardize: bool,
    /// Initial value(s) of a parameter in the data's units, e.g. lengthscale=2.5 or rbf.lengthscale=1,2; noise is a variance, here as in
    /// --prior and --bounds; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    init: Vec<String>,
    /// Parameter to keep at its initial value, e.g. noise; repeatable
    #[arg(long, value_name = "NAME")]
    fix: Vec<String>,
    /// Prior of a parameter: normal(mean, sd), lognormal(mean, sd), gamma(shape, rate) or halfcauchy(scale); repeatable
    #[arg(long, value_name = "NAME=PRIOR")]
    prior: Vec<String>,
    /// Bounds of a parameter, e.g. noise=0.01..2; repeatable
    #[arg(long, value_name = "NAME=LOW..HIGH")]
    bounds: Vec<String>,
    /// Device: flex (CPU), ndarray (CPU), wgpu or cuda (GPU); see `cagey devices`
    #[arg(long)]
    device: Option<DeviceKind>,
    /// Number type: f32 or f64; f64 on the CPU and f32 on GPUs by default
    #[arg(long)]
    dtype: Option<Precision>,
}

/// Most rows of an exact and of a collapsed sparse model that is not asked for; their trainings take minutes.
const EXACT_ROWS: usize = 5_000;
const SGPR_ROWS: usize = 50_000;

const KERNEL_HELP: &str = "\
Kernel expression. Grammar:
  kernel    = product { \"+\" product }
  product   = factor { \"*\" factor }
  factor    = number | \"(\" kernel \")\" | call
  call      = name [ \"(\" [ argument { \",\" argument } ] \")\" ]
  argument  = value | name \"=\" value
  value     = number | \"ard\" | list | name | kernel
Kernels:
  rbf, matern12, matern32, matern52, rq, periodic, periodic_norm, cosine_norm,
  cosine_sum, spectral_mixture(components=2), linear, polynomial(power=2),
  constant, white; projection(kernel, dim=2) of any of them
  (periodic_norm and cosine_norm are covariances of one column only)
`ard` gives one lengthscale per column, dims=[0, 2] picks columns (from 0;
or by name: dims=[age, \"body mass\"]), fix=period keeps a value. Numbers are in the units of the data; what is not
given is chosen from the data. One lengthscale over several columns is in
units of their standard deviations.";

impl ModelOptions {
    /// The library's settings, for a likelihood, so many rows and the optimiser asked for.
    pub fn settings(&self, likelihood: &str, rows: usize, optimizer: Option<OptimizerName>) -> Result<Settings> {
        self.check_row_column(likelihood)?;
        let default = Compute::default();
        Ok(Settings {
            likelihood: likelihood.into(),
            kernel: self.kernel.clone(),
            mean: self.mean.text().into(),
            model: self.choice(likelihood, rows, optimizer),
            standardize: !self.no_standardize,
            target_transform: self.target_transform.into(),
            row_column: self.row_column().cloned(),
            init: self.init.iter().map(|text| initial(text)).collect::<Result<_>>()?,
            fix: self.fix.clone(),
            priors: self
                .prior
                .iter()
                .map(|text| pair("prior", text).and_then(|(name, prior)| Ok((name, Prior::from_str(prior)?))))
                .collect::<Result<_>>()?,
            bounds: self.bounds.iter().map(|text| interval(text)).collect::<Result<_>>()?,
            compute: Compute::new(self.device.unwrap_or(default.kind), self.dtype),
        })
    }

    /// The same with another model and kernel.
    pub fn with(&self, model: Option<ModelName>, kernel: &str) -> Self {
        Self { model, kernel: kernel.into(), ..self.clone() }
    }

    /// The column that goes with the rows: noise, exposure or trials.
    pub fn row_column(&self) -> Option<&String> {
        self.noise_column.as_ref().or(self.exposure.as_ref()).or(self.trials.as_ref())
    }

    /// The model for so many rows.
    fn model_for(&self, likelihood: &str, rows: usize) -> ModelName {
        self.model.unwrap_or(match likelihood.starts_with("gaussian") {
            true if rows <= EXACT_ROWS => ModelName::Exact,
            true if rows <= SGPR_ROWS => ModelName::Sgpr,
            _ => ModelName::Svgp,
        })
    }

    /// Says that rows are too many for the exact model, where that is the reason for another.
    pub fn approximation(&self, likelihood: &str, rows: usize) -> Option<String> {
        let asked = self.model.is_some() || !likelihood.starts_with("gaussian");
        let name = match self.model_for(likelihood, rows) {
            ModelName::Sgpr => "a sparse one",
            ModelName::Svgp => "a variational one on minibatches",
            _ => return None,
        };
        (!asked)
            .then(|| format!("more than {EXACT_ROWS} rows take an exact model long: fitting {name} (--model chooses)"))
    }

    fn choice(&self, likelihood: &str, rows: usize, optimizer: Option<OptimizerName>) -> ModelChoice {
        let inducing = self.inducing.unwrap_or(512);
        match self.model_for(likelihood, rows) {
            ModelName::Exact => {
                ModelChoice::Exact { objective: self.objective.map_or(ExactObjective::MarginalLikelihood, Into::into) }
            }
            ModelName::Cagp => ModelChoice::Cagp {
                actions: self.actions.unwrap_or(rows.min(512)),
                policy: self.policy.map_or(ActionPolicy::Learned, Into::into),
                objective: self.loss.map_or(CagpObjective::Elbo, Into::into),
                order: self.row_order.map_or(RowOrder::Tree, Into::into),
                refresh: self.refresh.unwrap_or(1),
                tolerance: self.tolerance,
            },
            ModelName::Sgpr => ModelChoice::Sgpr { inducing },
            ModelName::Svgp => ModelChoice::Svgp {
                inducing,
                covariance: self.covariance(),
                batches: self.batches(self.natural(optimizer)),
            },
            ModelName::Swsgp => ModelChoice::Swsgp {
                inducing,
                neighbours: self.neighbors.unwrap_or(16),
                divergence: self.divergence.unwrap_or(1.0),
                union: self.union,
                covariance: self.covariance(),
                batches: self.batches(None),
            },
        }
    }

    fn covariance(&self) -> Covariance {
        if self.mean_field { Covariance::Diagonal } else { Covariance::Full }
    }

    fn batches(&self, natural: Option<f64>) -> Minibatches {
        Minibatches { size: self.batch.unwrap_or(1024), natural, ..Minibatches::default() }
    }

    /// The rate of natural gradients of svgp. L-BFGS compares losses of several steps, between which they would move q.
    fn natural(&self, optimizer: Option<OptimizerName>) -> Option<f64> {
        match self.natural_gradients {
            None if self.mean_field || optimizer == Some(OptimizerName::Lbfgs) => None,
            None => Some(0.1),
            rate => rate.filter(|rate| *rate > 0.0),
        }
    }
}
