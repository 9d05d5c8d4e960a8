//! The trainings of section 5 and Table S1: Matérn-3/2 with a lengthscale for each input, standardised data.

use cagey::Result;
use cagey::device::{Compute, Precision};
use cagey::kernels::{Kernel, initial};
use cagey::likelihoods::Gaussian;
use cagey::models::cagp::{ActionPolicy, Actions, Cagp, CagpObjective, CagpOptions};
use cagey::models::cggp::CgGpOptions;
use cagey::models::exact::ExactOptions;
use cagey::models::fit;
use cagey::models::gp_model::GpModel;
use cagey::models::minibatch::Minibatches;
use cagey::models::options::{Context, ModelOptions, Parts};
use cagey::models::ordering::RowOrder;
use cagey::models::sgpr::SgprOptions;
use cagey::models::svgp::SvgpOptions;
use cagey::train::{Adam, Lbfgs, Optimizer, Schedule, TrainConfig};
use clap::ValueEnum;
use serde::Serialize;
use serde_json::json;

use crate::Options;
use crate::common::command::Job;
use crate::common::rows::Task;
use crate::common::training::{Record, Run, is_paused};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// The exact GP by Cholesky's factorisation: n³ time, n² memory
    Cholesky,
    /// The exact GP by conjugate gradients
    Cggp,
    Sgpr,
    Svgp,
    CagpCg,
    /// Rows chosen by pivoted Cholesky as actions
    CagpChol,
    CagpOpt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Optimiser {
    Adam,
    Lbfgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// The averages of their blocks
    Averages,
    /// The targets
    Targets,
    /// Random numbers, as in the paper
    Random,
}

/// A training.
#[derive(Clone, Serialize)]
pub struct Case {
    pub set: String,
    pub method: Method,
    pub optimizer: Optimiser,
    pub rate: f64,
    pub epochs: usize,
    pub seed: u64,
    pub projected: bool,
}

impl Method {
    /// The optimisers, rates and epochs of Table S1.
    pub fn settings(self) -> (Optimiser, &'static [f64], usize) {
        match self {
            Self::Cholesky | Self::Sgpr | Self::Cggp => (Optimiser::Lbfgs, &[1.0, 0.1, 0.01, 1e-3, 1e-4], 100),
            Self::Svgp => (Optimiser::Adam, &[1.0, 0.1, 0.01, 1e-3, 1e-4], 1000),
            Self::CagpCg | Self::CagpChol => (Optimiser::Adam, &[1.0, 0.1], 250),
            Self::CagpOpt => (Optimiser::Adam, &[1.0, 0.1, 0.01], 1000),
        }
    }
}

impl Job<Options> {
    /// The record of a training; none if it is paused.
    pub fn trained(&self, case: &Case) -> Result<Option<Record>> {
        let options = &self.own;
        let precision = match (case.method, case.optimizer) {
            (Method::Cholesky | Method::Cggp, _) | (_, Optimiser::Lbfgs) => Precision::F64,
            _ => Precision::F32,
        };
        let compute = self.compute(precision);
        let (actions, inducing) =
            (self.size(&options.actions, [32, 256, 512]), self.size(&options.inducing, [64, 512, 1024]));
        let every = self.size(&options.every, [case.epochs.div_ceil(5), case.epochs.div_ceil(50), 1]).max(1);
        let rows = self.size(&options.rows, [400, 4000, 20_000]);
        let key = json!({ "item": "training", "case": case, "actions": actions, "inducing": inducing,
            "every": every, "compute": compute,
            "rows": self.common.data.is_none().then_some(rows), "refresh": options.refresh, "start": options.start,
            "data_order": options.data_order, "learned": options.learned });
        let text = key.to_string();
        let record = self.once(key, || {
            let task = self.table(&case.set, case.seed, rows, true)?;
            Setting { job: self, case, compute, sizes: [actions, inducing] }.train(task, every, text)
        });
        match record {
            Err(problem) if is_paused(&problem) => {
                println!("{:?} on {} is paused; the same command goes on with it", case.method, case.set);
                Ok(None)
            }
            other => other.map(Some),
        }
    }
}

/// A training with its sizes.
struct Setting<'a> {
    job: &'a Job<Options>,
    case: &'a Case,
    compute: Compute,
    sizes: [usize; 2],
}

impl Setting<'_> {
    fn train(&self, Task { mut train, test, sd }: Task, every: usize, key: String) -> Result<Record> {
        let Case { method, rate, epochs, seed, .. } = *self.case;
        let ([actions, _], Options { start, data_order, .. }) = (self.sizes, &self.job.own);
        if method == Method::CagpOpt && !data_order {
            train = train.permuted(&RowOrder::Tree.rows(&train, actions)?)?;
        }
        let mut kernel = Kernel::parse("matern32(ard)", train.d)?;
        initial::initialise(&mut kernel, &train.x, train.d);
        let options = self.options();
        let mut parts = Parts { likelihood: Box::new(Gaussian::new(0.1)), prior: kernel.into() };
        if let Some(steps) = self.job.own.learned.filter(|_| method == Method::CagpCg) {
            let ordered = train.permuted(&RowOrder::Tree.rows(&train, actions)?)?;
            let mut first = CagpOptions::default().actions(actions).build(parts, &Context::new(&ordered, &[], seed))?;
            let config = TrainConfig::new(Optimizer::Lbfgs(Lbfgs::default()), steps).seed(seed);
            fit::fit(&mut *first, self.compute, &ordered, &config, &mut [])?;
            parts = Parts { likelihood: first.likelihood().boxed(), prior: first.prior().clone() };
        }
        let first = match start {
            _ if method != Method::CagpOpt => None,
            Start::Averages => None,
            Start::Targets => Some(Actions::from_targets(&train.y, actions)?),
            Start::Random => Some(Actions::random(train.n(), actions, seed)?),
        };
        let mut model: Box<dyn GpModel> = match first {
            Some(first) => {
                let objective = self.objective();
                Box::new(Cagp { objective, ..Cagp::boxed(parts.prior, parts.likelihood, first) })
            }
            None => options.build(parts, &Context::new(&train, &[], seed))?,
        };
        let batches = options.minibatches();
        let per_epoch = batches.map_or(1, |batches| train.n().div_ceil(batches.size));
        let schedule = Schedule::Linear { final_fraction: 0.1 };
        let optimizer = match self.case.optimizer {
            Optimiser::Adam => Optimizer::Adam(Adam { rate, schedule, ..Adam::default() }),
            Optimiser::Lbfgs => Optimizer::Lbfgs(Lbfgs::default()),
        };
        let config = TrainConfig::new(optimizer, epochs * per_epoch).seed(seed);
        let (task, compute) = (Task { train, test, sd }, self.compute);
        let record = self.job.train(&mut model, Run { task: &task, compute, batches, config, every, key })?;
        let (end, Case { set, method, optimizer, .. }) = (record.end(), self.case);
        println!(
            "{set} {method:?} {optimizer:?} {rate} split {seed}: NLL {:.4}, RMSE {:.4}, {:.1} s",
            end.test.nlpd, end.test.error, end.seconds
        );
        Ok(record)
    }

    fn objective(&self) -> CagpObjective {
        if self.case.projected { CagpObjective::Projected } else { CagpObjective::Elbo }
    }

    fn options(&self) -> Box<dyn ModelOptions> {
        let [actions, inducing] = self.sizes;
        let (order, objective, refresh) = (RowOrder::Data, self.objective(), self.job.own.refresh);
        let cagp = |policy| {
            Box::new(
                CagpOptions::default()
                    .actions(actions)
                    .policy(policy)
                    .objective(objective)
                    .order(order)
                    .refresh(refresh),
            )
        };
        match self.case.method {
            Method::CagpOpt => cagp(ActionPolicy::Learned),
            Method::CagpCg => cagp(ActionPolicy::Cg),
            Method::CagpChol => cagp(ActionPolicy::Cholesky),
            Method::Cholesky => Box::new(ExactOptions::default()),
            Method::Cggp => Box::new(CgGpOptions::default()),
            Method::Sgpr => Box::new(SgprOptions::default().inducing(inducing)),
            Method::Svgp => {
                let batches = Minibatches { size: 1024, ..Minibatches::default() };
                Box::new(SvgpOptions::default().inducing(inducing).batches(batches))
            }
        }
    }
}
