//! Options about the training.

use std::path::PathBuf;
use std::time::Duration;

use cagey::models::options::ModelOptions;
use cagey::models::race::Starts;
use cagey::train::{
    Adam, CheckpointPlan, Cooling, Descent, EarlyStopping, Lbfgs, Optimizer, Restarts, Schedule, TrainConfig,
};
use cagey::{Error, Result};
use clap::{Args, ValueEnum};

use crate::values;

/// The training.
#[derive(Debug, Args)]
pub struct TrainOptions {
    /// Optimiser of the parameters; lbfgs by default, adam with minibatches
    #[arg(long, value_enum, value_name = "NAME")]
    pub optimizer: Option<OptimizerName>,
    /// Largest number of steps. By default training stops when more steps no longer pay, at the latest after 1000, or
    /// 2000 with natural gradients; with other minibatches it stops after 2000
    #[arg(long, value_name = "N", value_parser = values::count(0..=values::MOST))]
    steps: Option<usize>,
    /// Learning rate of Adam and of gradient descent; 0.05 by default, 0.01 for minibatches without natural gradients
    #[arg(long, value_name = "RATE", value_parser = values::positive)]
    lr: Option<f64>,
    /// Learning-rate schedule of Adam and of gradient descent; constant by default; with natural gradients
    /// constant as long as it pays and then linear, or linear over --steps
    #[arg(long, value_name = "NAME", value_enum)]
    schedule: Option<ScheduleName>,
    /// Number of starting points: the first is chosen from the data, the others are random changes of it
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = values::count(1..=10_000))]
    restarts: usize,
    /// Where training begins: at the better result of two short trainings (race), or at values chosen from the data
    /// (data) [default: race, but data with --restarts]
    #[arg(long, value_enum, value_name = "NAME")]
    starts: Option<Starts>,
    /// Seed of the starting points
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Stop after this time, e.g. 120s, 15m, 2h, or the step that then runs. It includes the choice of inducing inputs
    /// and starts; the posterior, the check of error bars and the scores follow
    #[arg(long, value_parser = values::duration, value_name = "TIME", allow_hyphen_values = true)]
    pub max_time: Option<Duration>,
    /// Stop after this many steps without improvement. By default 50; with --steps or minibatches, training does not
    /// stop early
    #[arg(long, value_name = "STEPS", value_parser = values::count(1..=values::MOST))]
    patience: Option<usize>,
}

/// Options to save and resume the state of a training.
#[derive(Debug, Args)]
pub struct SavingOptions {
    /// Save the state of the training here while it runs
    #[arg(long, value_name = "FILE")]
    pub checkpoint: Option<PathBuf>,
    /// Steps between saved states
    #[arg(long, default_value_t = 10, value_name = "STEPS", requires = "checkpoint")]
    #[arg(value_parser = values::count(1..=values::MOST))]
    checkpoint_every: usize,
    /// Continue from a saved state
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OptimizerName {
    /// L-BFGS, for smooth objectives such as these
    Lbfgs,
    /// Adam, with --lr and --schedule
    Adam,
    /// Gradient descent, with --lr and --schedule: for local steps, see --training
    Descent,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ScheduleName {
    /// The same in every step
    Constant,
    /// Falls linearly to a tenth
    Linear,
    /// Falls along half a cosine to a hundredth
    Cosine,
}

impl TrainOptions {
    /// Refuses options of an optimiser that trains none of the models, and L-BFGS if losses cannot be compared.
    pub fn check(&self, models: &[&dyn ModelOptions], rows: usize) -> Result<()> {
        let rates = [("--lr", self.lr.is_some()), ("--schedule", self.schedule.is_some())];
        let lbfgs = models.iter().all(|model| self.optimizer(*model, rows) == OptimizerName::Lbfgs);
        let searched = models.iter().filter(|model| self.optimizer(**model, rows) == OptimizerName::Lbfgs);
        if searched.filter_map(|model| model.minibatches()).any(|batches| batches.size < rows) {
            return Err(Error::Usage(
                "L-BFGS compares losses, and those of minibatches differ by their rows: add --optimizer adam, or \
                 --batch of all rows"
                    .into(),
            ));
        }
        match rates.into_iter().find(|(_, given)| *given && lbfgs) {
            Some((option, _)) => Err(Error::Usage(format!("{option} is for Adam: add --optimizer adam"))),
            None => Ok(()),
        }
    }

    /// Where training begins.
    pub fn starts(&self) -> Starts {
        self.starts.unwrap_or(if self.restarts > 1 { Starts::Data } else { Starts::Race })
    }

    /// Whether nothing is asked but a time and a seed.
    pub fn is_usual(&self) -> bool {
        let starts = self.starts.is_none() && self.restarts == 1;
        let rates = self.optimizer.is_none() && self.lr.is_none() && self.schedule.is_none();
        starts && rates && self.steps.is_none() && self.patience.is_none()
    }

    fn optimizer(&self, model: &dyn ModelOptions, rows: usize) -> OptimizerName {
        let rates = self.lr.is_some() || self.schedule.is_some();
        self.optimizer.unwrap_or(match model.training(rows).optimizer {
            Optimizer::Adam(_) => OptimizerName::Adam,
            // It needs none of these.
            Optimizer::Lbfgs(_) if rates && model.minibatches().is_some() => OptimizerName::Adam,
            Optimizer::Descent(_) => OptimizerName::Descent,
            _ => OptimizerName::Lbfgs,
        })
    }

    /// The library's configuration for a model of so many rows.
    pub fn config(&self, model: &dyn ModelOptions, rows: usize) -> TrainConfig {
        let usual = model.training(rows);
        let steps = usual.steps;
        let adam = match usual.optimizer {
            Optimizer::Adam(adam) => adam,
            _ => Adam { rate: 0.05, ..Adam::default() },
        };
        let schedule = match self.schedule {
            None => adam.schedule,
            Some(ScheduleName::Constant) => Schedule::Constant,
            Some(ScheduleName::Linear) => Schedule::Linear { final_fraction: 0.1 },
            Some(ScheduleName::Cosine) => Schedule::Cosine { final_fraction: 0.01 },
        };
        let optimizer = match self.optimizer(model, rows) {
            OptimizerName::Lbfgs => Optimizer::Lbfgs(Lbfgs::default()),
            OptimizerName::Descent => Optimizer::Descent(Descent { rate: self.lr.unwrap_or(adam.rate), schedule }),
            OptimizerName::Adam => Optimizer::Adam(Adam { rate: self.lr.unwrap_or(adam.rate), schedule, ..adam }),
        };
        // A given number of steps is made, with a rate that falls from the first to the last.
        let cooling = usual.cooling.filter(|_| self.schedule.is_none()).map(|cooling| match self.steps {
            Some(steps) => Cooling { steps },
            None => cooling,
        });
        let as_long_as_it_pays = usual.early_stopping.filter(|_| self.steps.is_none());
        TrainConfig {
            max_time: self.max_time,
            seed: self.seed,
            restarts: Restarts::new(self.restarts, 1.0),
            early_stopping: self
                .patience
                .map(|patience| EarlyStopping { patience, improvement: 1e-6 })
                .or(as_long_as_it_pays),
            cooling,
            ..TrainConfig::new(optimizer, self.steps.unwrap_or(steps))
        }
    }
}

impl SavingOptions {
    /// A configuration that saves and resumes; `fingerprint` ties saved states to data and model.
    pub fn extend(&self, config: TrainConfig, fingerprint: String) -> TrainConfig {
        TrainConfig {
            checkpoint: self.checkpoint.as_ref().map(|path| CheckpointPlan::every_steps(path, self.checkpoint_every)),
            resume: self.resume.clone(),
            fingerprint,
            ..config
        }
    }
}
