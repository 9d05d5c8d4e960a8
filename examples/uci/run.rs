//! One run: a model on one split of one data set.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use cagey::data::{Dataset, InputScale, Split, TargetScale, TargetTransform, atomic_write};
use cagey::device::{Compute, DeviceKind, Precision};
use cagey::kernels::{Kernel, initial};
use cagey::likelihoods::Gaussian;
use cagey::models::cagp::{ActionPolicy, Actions, Cagp, CagpObjective, CagpOptions};
use cagey::models::cggp::CgGpOptions;
use cagey::models::exact::ExactOptions;
use cagey::models::gp_model::{GpModel, Training};
use cagey::models::minibatch::{self, Minibatches};
use cagey::models::options::{Context, ModelOptions, Parts};
use cagey::models::ordering::RowOrder;
use cagey::models::sgpr::SgprOptions;
use cagey::models::svgp::SvgpOptions;
use cagey::models::variational::Covariance;
use cagey::models::{Observations, fit};
use cagey::train::{Adam, CheckpointPlan, Lbfgs, Optimizer, Schedule, Termination, TrainConfig};
use cagey::{Error, Result};

use super::watch::{Record, Scene, Watch};
use super::{Kind, Method, Options, Start};

/// Most steps of the first training on few rows.
const WARM_STEPS: usize = 50;

/// A data set, a model and a seed.
pub struct Case<'a> {
    pub set: &'a str,
    pub kind: Kind,
    pub seed: u64,
    pub options: &'a Options,
}

impl Case<'_> {
    fn batched(&self) -> bool {
        self.kind == Kind::Svgp
    }

    fn epochs(&self) -> usize {
        let usual = match (self.optimizer(), self.kind) {
            (Method::Lbfgs, _) => 100,
            (Method::Adam, Kind::CagpCg | Kind::CagpChol) => 250,
            (Method::Adam, _) => 1000,
        };
        self.options.epochs.unwrap_or(usual)
    }

    fn optimizer(&self) -> Method {
        if self.batched() { Method::Adam } else { self.options.optimizer }
    }

    fn rate(&self) -> f64 {
        self.options.rate.unwrap_or(if self.batched() { 0.01 } else { 0.1 })
    }

    /// A name made of everything that decides the numbers, except the seed.
    fn name(&self) -> String {
        let Options { actions, inducing, batch, .. } = self.options;
        let size = match self.kind {
            Kind::CagpOpt => format!("cagp-opt-{actions}"),
            Kind::CagpCg => format!("cagp-cg-{actions}"),
            Kind::CagpChol => format!("cagp-chol-{actions}"),
            Kind::Cholesky => "cholesky".into(),
            Kind::Cggp => "cggp".into(),
            Kind::Sgpr => format!("sgpr-{inducing}"),
            Kind::Svgp => format!("svgp-{inducing}-batch-{batch}"),
        };
        let method = match self.optimizer() {
            Method::Adam => format!("adam-{}", self.rate()),
            Method::Lbfgs => "lbfgs".into(),
        };
        let mut name = format!("{}-{size}-{method}-{}", self.set, self.epochs());
        if let Some(length) = self.options.lengthscale {
            name = format!("{name}-from-{length}");
        }
        if let Some(rows) = self.options.warm {
            name = format!("{name}-warm-{rows}");
        }
        if let Some(steps) = self.options.learned {
            name = format!("{name}-learned-{steps}");
        }
        let Options { data_order, start, projected, f64, refresh, .. } = self.options;
        if self.kind == Kind::CagpCg && *refresh != 1 {
            name = format!("{name}-refresh-{refresh}");
        }
        if self.kind == Kind::CagpCg
            && let Some(tolerance) = self.options.tolerance
        {
            name = format!("{name}-to-{tolerance}");
        }
        let named = [
            ("data-order", data_order),
            ("from-targets", &(*start == Start::Targets)),
            ("from-random", &(*start == Start::Random)),
            ("projected", projected),
            ("f64", f64),
        ];
        named.iter().filter(|(_, on)| **on).for_each(|(text, _)| name = format!("{name}-{text}"));
        name
    }

    pub fn file(&self, extension: &str) -> PathBuf {
        self.options.output.join(format!("{}-seed-{}{extension}", self.name(), self.seed))
    }

    /// The record of an earlier run, if there is one.
    pub fn load(&self) -> Result<Option<Record>> {
        let path = self.file(".json");
        if !path.exists() {
            return Ok(None);
        }
        let text = std::fs::read_to_string(&path).map_err(|e| Error::io(&path, &e))?;
        serde_json::from_str(&text).map(Some).map_err(|e| Error::Data(format!("{}: {e}", path.display())))
    }

    /// Runs to the end, or as long as is allowed; in the latter case there is no record.
    pub fn run(&self, data: &Dataset) -> Result<Option<Record>> {
        let Options { data: folder, actions, .. } = self.options;
        let masks = folder.join("splits").join(format!("{}.csv.gz", self.set));
        let split = if masks.exists() {
            Split::from_mask_file(masks, Some(&format!("split{}", self.seed)), data)?
        } else {
            Split::random(data.n, 0.1, self.seed)?
        };
        let (train, test) = (data.subset(&split.train), data.subset(&split.test));
        let inputs = InputScale::fit(&train.x, train.d)?;
        let targets = TargetScale::fit(TargetTransform::Identity, &train)?;
        let d = train.d;
        let mut rows = Observations::new(inputs.apply(&train.x)?, d, targets.forward(&train)?, None)?;
        let held_out = Observations::new(inputs.apply(&test.x)?, d, targets.forward(&test)?, None)?;
        if self.kind == Kind::CagpOpt && !self.options.data_order {
            rows = rows.permuted(&RowOrder::Tree.rows(&rows, *actions)?)?;
        }
        let text = match self.options.lengthscale {
            Some(length) => format!("matern32({:?})", vec![length; d]),
            None => "matern32(ard)".into(),
        };
        let mut kernel = Kernel::parse(&text, d)?;
        initial::initialise(&mut kernel, &rows.x, d);
        println!(
            "{} seed {}: {} training rows, {} test rows, {d} inputs",
            self.name(),
            self.seed,
            rows.n(),
            held_out.n()
        );
        if self.kind != Kind::CagpCg && self.options.learned.is_some() {
            return Err(Error::Usage("only CaGP-CG has other actions: leave `--learned` out".into()));
        }
        if self.batched() && self.options.warm.is_some() {
            return Err(Error::Usage("SVGP trains on minibatches: leave `--warm` out".into()));
        }
        let options = self.model(self.kind);
        let mut parts = Parts { likelihood: Box::new(Gaussian::new(0.1)), prior: kernel.into() };
        if !self.file(".checkpoint").exists() {
            if let Some(count) = self.options.warm {
                let drawn = Split::random(rows.n(), count as f64 / rows.n() as f64, self.seed)?.test;
                parts = self.warmed(&*options, parts, &minibatch::Rows::gather(&rows, &drawn)?, WARM_STEPS)?;
            }
            if let Some(steps) = self.options.learned {
                let ordered = rows.permuted(&RowOrder::Tree.rows(&rows, *actions)?)?;
                parts = self.warmed(&*self.model(Kind::CagpOpt), parts, &ordered, steps)?;
            }
        }
        let model: Box<dyn GpModel> = match (self.kind, self.options.start) {
            (Kind::CagpOpt, Start::Targets) => self.cagp(parts, Actions::from_targets(&rows.y, *actions)?),
            (Kind::CagpOpt, Start::Random) => self.cagp(parts, Actions::random(rows.n(), *actions, self.seed)?),
            _ => options.build(parts, &Context::new(&rows, &[], self.seed))?,
        };
        self.train(model, options.minibatches(), &rows, &held_out)
    }

    /// A computation-aware model whose first actions are not averages.
    fn cagp(&self, parts: Parts, actions: Actions) -> Box<dyn GpModel> {
        let objective = self.objective();
        Box::new(Cagp { objective, ..Cagp::boxed(parts.prior, parts.likelihood, actions) })
    }

    fn objective(&self) -> CagpObjective {
        if self.options.projected { CagpObjective::Projected } else { CagpObjective::Elbo }
    }

    /// The options of a model.
    fn model(&self, kind: Kind) -> Box<dyn ModelOptions> {
        let Options { actions, inducing, refresh, tolerance, batch, .. } = *self.options;
        let (order, objective) = (RowOrder::Data, self.objective());
        let cagp = |policy| {
            Box::new(CagpOptions { actions, policy, objective, order, refresh, tolerance, ..CagpOptions::default() })
        };
        match kind {
            Kind::CagpOpt => cagp(ActionPolicy::Learned),
            Kind::CagpCg => cagp(ActionPolicy::Cg),
            Kind::CagpChol => cagp(ActionPolicy::Cholesky),
            Kind::Cholesky => Box::new(ExactOptions::default()),
            Kind::Cggp => Box::new(CgGpOptions::default()),
            Kind::Sgpr => Box::new(SgprOptions { inducing }),
            Kind::Svgp => {
                let batches = Minibatches { size: batch, ..Minibatches::default() };
                Box::new(SvgpOptions { inducing, covariance: Covariance::Full, batches })
            }
        }
    }

    /// The prior and the noise after the first training, with some model.
    fn warmed(&self, options: &dyn ModelOptions, parts: Parts, rows: &Observations, steps: usize) -> Result<Parts> {
        let mut model = options.build(parts, &Context::new(rows, &[], self.seed))?;
        let config = TrainConfig::new(Optimizer::Lbfgs(Lbfgs::default()), steps).seed(self.seed);
        let outcome = fit::fit(&mut *model, self.compute(), rows, &config, &mut [])?;
        println!(
            "first on {} rows: loss {:.4} after {:.0} s: {}",
            rows.n(),
            outcome.loss,
            outcome.seconds,
            outcome.termination
        );
        Ok(Parts { likelihood: model.likelihood().boxed(), prior: model.prior().clone() })
    }

    fn compute(&self) -> Compute {
        let precision = if self.options.f64 { Precision::F64 } else { Precision::F32 };
        Compute { kind: DeviceKind::Flex, precision }
    }

    fn train(
        &self,
        mut model: Box<dyn GpModel>,
        batches: Option<&Minibatches>,
        rows: &Observations,
        test: &Observations,
    ) -> Result<Option<Record>> {
        let per_epoch = batches.map_or(1, |batches| rows.n().div_ceil(batches.size));
        let compute = self.compute();
        let optimizer = match self.optimizer() {
            Method::Adam => {
                let schedule = Schedule::Linear { final_fraction: 0.1 };
                Optimizer::Adam(Adam { rate: self.rate(), schedule, ..Adam::default() })
            }
            Method::Lbfgs => Optimizer::Lbfgs(Lbfgs::default()),
        };
        let every = self.options.every.max(1) * per_epoch;
        let checkpoint = self.file(".checkpoint");
        let mut config = TrainConfig::new(optimizer, self.epochs() * per_epoch)
            .seed(self.seed)
            .checkpoint(CheckpointPlan::every_steps(&checkpoint, every))
            .fingerprint(format!("{} {}", self.name(), self.seed));
        let limit = self.options.minutes.map(|minutes| Duration::try_from_secs_f64(60.0 * minutes)).transpose();
        config.max_time = limit.map_err(|e| Error::Usage(format!("--minutes: {e}")))?;
        config.resume = checkpoint.exists().then(|| checkpoint.clone());
        let record = self.load()?.unwrap_or_else(|| Record { name: self.name(), seed: self.seed, ..Record::default() });
        let scene = Scene { model: model.clone(), compute, rows, test };
        let mut watch = Watch { scene, every, per_epoch, case: self, record, since: Instant::now(), problem: None };
        let training = Training { compute, data: rows, rows, batches, config: &config, spread: None };
        let termination = model.train(training, &mut [&mut watch])?.termination;
        let Watch { mut scene, mut record, problem, .. } = watch;
        if let Some(problem) = problem {
            return Err(problem);
        }
        if termination == Termination::MaxTime {
            self.save(&record)?;
            return Ok(None);
        }
        scene.model = model;
        record.end = Some(scene.score(record.steps.div_ceil(per_epoch))?);
        self.save(&record)?;
        println!("{termination}");
        Ok(Some(record))
    }

    pub fn save(&self, record: &Record) -> Result<()> {
        let text = serde_json::to_string(record).map_err(|e| Error::Data(e.to_string()))?;
        atomic_write(self.file(".json"), |to| to.write_all(text.as_bytes()))
    }
}
