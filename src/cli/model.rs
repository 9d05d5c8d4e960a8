//! Options about the model.

use std::str::FromStr;

use cagey::data::TargetTransform;
use cagey::device::{Compute, DeviceKind, Precision};
use cagey::fitted::{ActionPolicy, ModelChoice, Settings};
use cagey::likelihoods::{Auxiliary, text};
use cagey::models::cagp::CagpObjective;
use cagey::models::exact::ExactObjective;
use cagey::models::minibatch::Minibatches;
use cagey::models::ordering::RowOrder;
use cagey::models::svgp::Covariance;
use cagey::params::Prior;
use cagey::{Error, Result};
use clap::{Args, ValueEnum};

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
    #[arg(long, value_name = "NAME")]
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
    /// Initial value(s) of a parameter in the data's units, e.g. lengthscale=2.5 or rbf.lengthscale=1,2; repeatable
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
`ard` gives one lengthscale per column, dims=[0, 2] picks columns (from 0),
fix=period keeps a value. Numbers are in the units of the data; what is not
given is chosen from the data. One lengthscale over several columns is in
units of their standard deviations.";

#[derive(Debug, Clone, Copy, ValueEnum)]
enum MeanName {
    /// The mean of the training targets
    Zero,
    /// A learned constant
    Constant,
    /// Learned slopes and a constant, the mean where all inputs are at their averages
    Linear,
}

/// A model and its approximation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ModelName {
    /// Without approximation: time grows with the cube of the rows
    Exact,
    /// Computation-aware: error bars include what was not computed
    Cagp,
    /// Sparse, through inducing inputs and the collapsed bound
    Sgpr,
    /// Sparse and variational: minibatches, any likelihood
    Svgp,
    /// Sparse within sparse: each row sees its nearest inducing inputs only
    Swsgp,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum PolicyName {
    /// Block-sparse actions, learned with the hyperparameters
    Learned,
    /// Residuals: conjugate gradients
    Cg,
    /// Rows by pivoted Cholesky
    Cholesky,
    /// Lanczos vectors
    Lanczos,
    /// Eigenvectors of the largest eigenvalues
    Eigenvector,
    /// Gaussian random vectors
    Random,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LossName {
    /// A bound of the negative log marginal likelihood
    Elbo,
    /// Negative log likelihood of the projected data
    Projected,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum OrderName {
    /// Rows of a block are near each other
    Tree,
    /// As the data come
    Data,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Minimised {
    /// Negative log marginal likelihood
    Ml,
    /// Negative leave-one-out log predictive probability
    Loo,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Transform {
    /// The target as it is
    None,
    /// Its logarithm; the target must be positive
    Log,
    /// log(1 + target), above -1
    Log1p,
}

impl ModelOptions {
    /// The library's settings, for a likelihood, so many rows and the optimiser asked for.
    pub fn settings(&self, likelihood: &str, rows: usize, optimizer: Option<OptimizerName>) -> Result<Settings> {
        self.check_row_column(likelihood)?;
        let default = Compute::default();
        Ok(Settings {
            likelihood: likelihood.into(),
            kernel: self.kernel.clone(),
            mean: match self.mean {
                MeanName::Zero => "zero",
                MeanName::Constant => "constant",
                MeanName::Linear => "linear",
            }
            .into(),
            model: self.choice(likelihood, rows, optimizer),
            standardize: !self.no_standardize,
            target_transform: match self.target_transform {
                Transform::None => TargetTransform::Identity,
                Transform::Log => TargetTransform::Log,
                Transform::Log1p => TargetTransform::Log1p,
            },
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
            ModelName::Exact => ModelChoice::Exact {
                objective: match self.objective {
                    None | Some(Minimised::Ml) => ExactObjective::MarginalLikelihood,
                    Some(Minimised::Loo) => ExactObjective::LeaveOneOut,
                },
            },
            ModelName::Cagp => ModelChoice::Cagp {
                actions: self.actions.unwrap_or(rows.min(512)),
                policy: match self.policy {
                    None | Some(PolicyName::Learned) => ActionPolicy::Learned,
                    Some(PolicyName::Cg) => ActionPolicy::Cg,
                    Some(PolicyName::Cholesky) => ActionPolicy::Cholesky,
                    Some(PolicyName::Lanczos) => ActionPolicy::Lanczos,
                    Some(PolicyName::Eigenvector) => ActionPolicy::Eigenvector,
                    Some(PolicyName::Random) => ActionPolicy::Random,
                },
                objective: match self.loss {
                    None | Some(LossName::Elbo) => CagpObjective::Elbo,
                    Some(LossName::Projected) => CagpObjective::Projected,
                },
                order: match self.row_order {
                    None | Some(OrderName::Tree) => RowOrder::Tree,
                    Some(OrderName::Data) => RowOrder::Data,
                },
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
                covariance: self.covariance(),
                batches: self.batches(None),
            },
        }
    }

    /// Refuses options of other models than the one that will be fitted.
    pub fn check_model(&self, likelihood: &str, rows: usize) -> Result<()> {
        Self::check_models(std::slice::from_ref(self), likelihood, rows)
    }

    /// Refuses options that are of none of the models that will be fitted.
    pub fn check_models(all: &[Self], likelihood: &str, rows: usize) -> Result<()> {
        let mut fitted: Vec<ModelName> = all.iter().map(|options| options.model_for(likelihood, rows)).collect();
        fitted.dedup();
        all.iter().try_for_each(|options| options.check_options(&fitted))
    }

    fn check_options(&self, fitted: &[ModelName]) -> Result<()> {
        use ModelName::{Cagp, Exact, Sgpr, Svgp, Swsgp};
        let options: [(&str, bool, &[ModelName]); 13] = [
            ("--objective", self.objective.is_some(), &[Exact]),
            ("--actions", self.actions.is_some(), &[Cagp]),
            ("--policy", self.policy.is_some(), &[Cagp]),
            ("--refresh", self.refresh.is_some(), &[Cagp]),
            ("--tolerance", self.tolerance.is_some(), &[Cagp]),
            ("--loss", self.loss.is_some(), &[Cagp]),
            ("--row-order", self.row_order.is_some(), &[Cagp]),
            ("--inducing", self.inducing.is_some(), &[Sgpr, Svgp, Swsgp]),
            ("--neighbors", self.neighbors.is_some(), &[Swsgp]),
            ("--divergence", self.divergence.is_some(), &[Swsgp]),
            ("--batch", self.batch.is_some(), &[Svgp, Swsgp]),
            ("--natural-gradients", self.natural_gradients.is_some(), &[Svgp]),
            ("--mean-field", self.mean_field, &[Svgp, Swsgp]),
        ];
        let name = |model: &ModelName| model.to_possible_value().map_or(String::new(), |value| value.get_name().into());
        let names = |models: &[ModelName], join: &str| models.iter().map(name).collect::<Vec<_>>().join(join);
        let foreign = |models: &[ModelName]| !models.iter().any(|model| fitted.contains(model));
        if let Some((option, _, models)) = options.into_iter().find(|(_, given, models)| *given && foreign(models)) {
            return Err(Error::Usage(format!(
                "{option} is for --model {}, and this fits {}",
                names(models, " or "),
                names(fitted, " and ")
            )));
        }
        match matches!(self.policy, None | Some(PolicyName::Learned)) {
            true if self.refresh.is_some() => Err(Error::Usage(
                "--refresh is for another --policy than learned: such actions change in every step".into(),
            )),
            true if self.tolerance.is_some() => {
                Err(Error::Usage("--tolerance is for another --policy than learned, which takes all actions".into()))
            }
            false if self.row_order.is_some() => {
                Err(Error::Usage("--row-order is for --policy learned: others do not cut rows into blocks".into()))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a column of rows of another kind than the likelihood takes.
    fn check_row_column(&self, likelihood: &str) -> Result<()> {
        let options = [
            ("--noise-column", &self.noise_column, Auxiliary::NoiseVariance, "gaussian"),
            ("--exposure", &self.exposure, Auxiliary::Exposure, "poisson or negative-binomial"),
            ("--trials", &self.trials, Auxiliary::Trials, "binomial"),
        ];
        // What no likelihood is called is told where it is made.
        let Ok(takes) = text::parse(likelihood, None).map(|likelihood| likelihood.auxiliary()) else { return Ok(()) };
        match options.into_iter().find(|(_, column, kind, _)| column.is_some() && *kind != takes) {
            None => Ok(()),
            Some((option, _, _, likelihoods)) => {
                Err(Error::Usage(format!("{option} is for --likelihood {likelihoods}, and this fits {likelihood}")))
            }
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

fn pair<'a>(option: &str, text: &'a str) -> Result<(String, &'a str)> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| Error::Usage(format!("--{option} {text}: write it as NAME=…")))?;
    Ok((name.trim().to_string(), value.trim()))
}

fn number(option: &str, text: &str) -> Result<f64> {
    values::number(text).map_err(|problem| Error::Usage(format!("--{option}: {problem}")))
}

fn initial(text: &str) -> Result<(String, Vec<f64>)> {
    let (name, values) = pair("init", text)?;
    let values = values.split(',').map(|v| number("init", v)).collect::<Result<_>>()?;
    Ok((name, values))
}

fn interval(text: &str) -> Result<(String, f64, f64)> {
    let (name, range) = pair("bounds", text)?;
    let (low, high) = range
        .split_once("..")
        .ok_or_else(|| Error::Usage(format!("--bounds {text}: write the interval as LOW..HIGH, e.g. noise=0.01..2")))?;
    Ok((name, number("bounds", low)?, number("bounds", high)?))
}
