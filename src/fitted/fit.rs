//! A fit, step by step: what to fit, how to train it, and on which rows.

use std::borrow::Cow;

use rayon::current_num_threads;

use super::{Calibrate, Fitted, Plan, Registry, Settings};
use crate::data::{Dataset, Schema, TargetTransform, Warping};
use crate::device::Compute;
use crate::error::Result;
use crate::models::exact::ExactOptions;
use crate::models::options::Kind;
use crate::models::options::ModelChoice;
use crate::models::svgp::SvgpOptions;
use crate::models::together::{MOST_ROWS, Meeting};
use crate::params::Belief;
use crate::threads;
use crate::train::{Observer, TrainConfig};

/// A fit of a model to a table. Everything but the table has a default: that of [`Settings`], the training that suits
/// the model, the built-in [`Registry`], and a schema of numbers.
///
/// ```
/// use cagey::data::Dataset;
/// use cagey::fitted::Fit;
/// use cagey::models::sgpr::SgprOptions;
///
/// let x: Vec<f64> = (0..40).map(|i| 0.1 * f64::from(i)).collect();
/// let y = x.iter().map(|x| x.sin()).collect();
/// let data = Dataset::new(["x"], x)?.with_target("y", y)?;
/// let model = Fit::new(&data).kernel("matern52 + linear").model(SgprOptions::default().inducing(10)).run()?;
/// let prediction = model.predict_rows(&[1.25])?.remove(0);
/// assert!((prediction.mean() - 1.25f64.sin()).abs() < 0.05);
/// # Ok::<(), cagey::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "a fit does nothing until it runs"]
pub struct Fit<'a> {
    data: &'a Dataset,
    schema: Option<Schema>,
    settings: Settings,
    config: Option<TrainConfig>,
    steps: Option<usize>,
    seed: Option<u64>,
    registry: Option<&'a Registry>,
}

impl<'a> Fit<'a> {
    /// A fit to all rows of a table, which has targets.
    pub fn new(data: &'a Dataset) -> Self {
        let settings = Settings::default();
        Self { data, schema: None, settings, config: None, steps: None, seed: None, registry: None }
    }

    /// How columns are read, for tables with categories or labels; by default all are numbers.
    pub fn schema(mut self, schema: Schema) -> Self {
        self.schema = Some(schema);
        self
    }

    /// All settings at once. Later calls change single ones.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// The kernel, as [text](mod@crate::kernels::text).
    pub fn kernel(mut self, text: impl Into<String>) -> Self {
        self.settings.kernel = text.into();
        self
    }

    /// The prior mean: `zero`, `constant` or `linear`.
    pub fn mean(mut self, name: impl Into<String>) -> Self {
        self.settings.mean = name.into();
        self
    }

    /// The likelihood, as [text](crate::likelihoods::registry).
    pub fn likelihood(mut self, text: impl Into<String>) -> Self {
        self.settings.likelihood = text.into();
        self
    }

    /// The model: the options of its kind.
    pub fn model(mut self, options: impl Into<ModelChoice>) -> Self {
        self.settings.model = options.into();
        self
    }

    /// Functions of input columns, before they are standardised.
    pub fn input_transform(mut self, warping: Warping) -> Self {
        self.settings.input_transform = warping;
        self
    }

    /// The function of the target that is modelled.
    pub fn target_transform(mut self, transform: TargetTransform) -> Self {
        self.settings.target_transform = transform;
        self
    }

    /// The column of known standard deviations, exposures or numbers of trials.
    pub fn auxiliary_column(mut self, name: impl Into<String>) -> Self {
        self.settings.auxiliary_column = Some(name.into());
        self
    }

    /// Initial values of a parameter, in the units of the data: one for all entries, or one for each.
    pub fn init(mut self, name: impl Into<String>, values: &[f64]) -> Self {
        self.settings.init.push((name.into(), values.to_vec()));
        self
    }

    /// A parameter that keeps its initial value.
    pub fn fix(mut self, name: impl Into<String>) -> Self {
        self.settings.fix.push(name.into());
        self
    }

    /// The prior of a parameter.
    pub fn prior(mut self, name: impl Into<String>, prior: impl Into<Belief>) -> Self {
        self.settings.priors.push((name.into(), prior.into()));
        self
    }

    /// Bounds of a parameter, in the units of the data.
    pub fn bounds(mut self, name: impl Into<String>, lower: f64, upper: f64) -> Self {
        self.settings.bounds.push((name.into(), lower, upper));
        self
    }

    /// Whether intervals come from residuals.
    pub fn calibrate(mut self, when: Calibrate) -> Self {
        self.settings.calibrate = when;
        self
    }

    /// Whether the file holds all that other programs need to predict with the model: see
    /// [`store_factor`](Settings::store_factor).
    pub fn store_factor(mut self, store: bool) -> Self {
        self.settings.store_factor = store;
        self
    }

    /// Device and precision.
    pub fn compute(mut self, compute: Compute) -> Self {
        self.settings.compute = compute;
        self
    }

    /// How to train. By default it is the training that suits the model, as long as it pays.
    pub fn config(mut self, config: TrainConfig) -> Self {
        self.config = Some(config);
        self
    }

    /// The largest number of steps of the optimiser.
    pub fn steps(mut self, steps: usize) -> Self {
        self.steps = Some(steps);
        self
    }

    /// The seed of all random choices.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Kernels, likelihoods and models of your own.
    pub fn registry(mut self, registry: &'a Registry) -> Self {
        self.registry = Some(registry);
        self
    }

    /// Runs the fit.
    ///
    /// # Errors
    /// As [`Plan::new`] and [`Plan::train`].
    pub fn run(self) -> Result<Fitted> {
        self.watched(&mut [])
    }

    /// Runs the fit and tells `observers` of every step.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn watched(self, observers: &mut [&mut dyn Observer]) -> Result<Fitted> {
        let registry = self.registry.map_or_else(|| Cow::Owned(Registry::default()), Cow::Borrowed);
        let mut config = match self.config {
            Some(config) => config,
            None => registry.models.options(&self.settings.model)?.training(self.data.n),
        };
        config.steps = self.steps.unwrap_or(config.steps);
        config.seed = self.seed.unwrap_or(config.seed);
        let schema = self.schema.unwrap_or_else(|| Schema::numeric(self.data));
        Plan::new(schema, self.data, self.settings, config.seed, &registry)?.train(&config, observers)
    }
}

impl Fitted {
    /// Runs fits that do not depend on each other: as many at a time as the pool has threads, each on one thread. If
    /// all are of `exact` or `svgp` with up to 256 rows, they train side by side instead, and the objectives of those
    /// that can be are evaluated as one graph. A fit makes the steps that it makes alone but for rounding, which line
    /// searches may amplify; a limit of its time includes waiting for others. A single fit runs on all threads.
    ///
    /// # Errors
    /// Each fit has its own, as [`Fit::run`].
    pub fn fit_many(fits: Vec<Fit>) -> Vec<Result<Self>> {
        if fits.len() >= MANY && fits.iter().all(Fit::is_small) {
            let all: Result<Vec<_>> = fits.chunks(AT_ONCE).map(together).collect();
            if let Ok(all) = all {
                return all.into_iter().flatten().collect();
            }
        }
        if fits.len() > 1
            && current_num_threads() > 1
            && let Ok(all) = threads::apart(fits.len(), |i| Ok(fits[i].clone().run()))
        {
            return all;
        }
        // One after another, also if the system has no more threads.
        fits.into_iter().map(Fit::run).collect()
    }
}

/// From so many fits on, evaluating them together pays.
const MANY: usize = 4;
/// The most fits that train at the same time.
const AT_ONCE: usize = 256;

impl Fit<'_> {
    /// Whether it trains a small model of a kind that trains with others, to which [`Fitted::fit_many`] gives a thread.
    fn is_small(&self) -> bool {
        [ExactOptions::NAME, SvgpOptions::NAME].contains(&self.settings.model.kind()) && self.data.n <= MOST_ROWS
    }
}

/// Runs fits, a thread each, whose evaluations meet.
fn together(fits: &[Fit]) -> Result<Vec<Result<Fitted>>> {
    let meeting = Meeting::of(fits.len());
    threads::apart_by(fits.len(), fits.len(), || meeting.lead(), |i| Ok(meeting.attend(|| fits[i].clone().run())))
}
