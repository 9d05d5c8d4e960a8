//! Options about the model.

mod check;
pub mod device;
mod given;
pub mod kinds;

use std::time::Duration;

use cagey::Result;
use cagey::data::{Dataset, Schema, TargetTransform, Warping};
use cagey::fitted::average::{self, AVERAGE, OF_MODELS, UNTRIED_MODELS};
use cagey::fitted::structure::{self, AUTO};
use cagey::fitted::{Calibrate, Cost, Settings, knows_noise};
use cagey::kernels::text::{GRAMMAR, parse_named};
use cagey::models::command::Given;
use cagey::models::laplace::LaplaceOptions;
use cagey::models::nearest::NearestOptions;
use cagey::models::options::{Kind, ModelChoice};
use cagey::models::registry::{Row, usual};
use cagey::models::state_space::{StateSpaceGp, StateSpaceOptions};
use cagey::models::svgp::SvgpOptions;
use clap::{Args, ValueEnum};
use device::DeviceOptions;
use given::{MeanName, belief, initial, interval};
use kinds::KindArguments;

use super::training::{OptimizerName, TrainOptions};
use super::{memory, registry, report};
use crate::values;

/// An average over kernels is the default up to so many seconds on one core.
const A_FEW: f64 = 10.0;

/// With less time, transforms are not tried.
const FOR_TRIALS: Duration = Duration::from_secs(30);

/// The model.
#[derive(Debug, Clone, Args)]
pub struct ModelOptions {
    /// Kernel, e.g. "rbf(ard) + 2.0 * periodic(period=1.0, fix=period) * rbf", or `average`, which weighs several;
    /// --help has the grammar [default: auto for a series (a date, or evenly spaced numbers, as the only input),
    /// average where that takes a few seconds, average(models) where rows are too many for the exact model, else
    /// matern32(ard)]
    #[arg(long, long_help = kernel_help(), allow_hyphen_values = true)]
    pub kernel: Option<String>,
    /// Seasons of a series in place of those that the target shows: year, quarter, month, week, day or hour of dates,
    /// or periods in units of the input, separated by commas; with the kernel `auto`
    #[arg(long, value_delimiter = ',', value_name = "SEASONS", conflicts_with = "kernel")]
    season: Vec<String>,
    /// Column that tells several series in the table apart: they share the kernel and its parameters, and each has a
    /// function of its own
    #[arg(long, value_name = "COLUMN")]
    series: Option<String>,
    /// Likelihood
    #[arg(long, value_name = "NAME", help = likelihood_help(), value_parser = values::lower_case)]
    pub likelihood: Option<String>,
    /// Model. By default, with the gaussian likelihood: the exact one up to 5,000 rows, up to 50,000 an average of
    /// nearest and experts (nearest alone if options are given), nearest alone beyond. For counts (poisson,
    /// negative-binomial) and two classes, Laplace's approximation up to 2,000 rows. With other likelihoods,
    /// and for more rows, a variational one
    #[arg(long, value_name = "NAME", value_parser = kinds::names())]
    pub model: Option<String>,
    /// Prior mean: what the model predicts far from the data
    #[arg(long, value_name = "NAME", value_enum, default_value_t = MeanName::Auto)]
    mean: MeanName,
    #[command(flatten)]
    kinds: KindArguments,
    /// Model functions of this transform of every input, or of one as COLUMN=TRANSFORM, repeatable: none; asinh, for
    /// heavy tails on one side or both; ranks, which makes the column normal; log, for positive columns; auto, asinh
    /// for inputs with heavy tails if the target holds classes, and otherwise none, but for a member on ranks of an
    /// average over kernels [default: auto]
    #[arg(long, value_name = "TRANSFORM")]
    input_transform: Vec<String>,
    /// Model this function of the target instead of the target itself. By default none; an average over kernels has
    /// members of both kinds, if the target is positive
    #[arg(long, value_name = "NAME", value_enum)]
    target_transform: Option<TargetTransform>,
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
    /// Initial value(s) of a parameter in the units of the data, e.g. lengthscale=2.5 or rbf.lengthscale=1,2; `noise`
    /// is a variance, also in --prior and --bounds; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    init: Vec<String>,
    /// Parameter to keep at its initial value, e.g. noise; repeatable
    #[arg(long, value_name = "NAME")]
    fix: Vec<String>,
    /// Prior of a parameter: normal(mean, sd), lognormal(mean, sd), gamma(shape, rate), halfcauchy(scale) or
    /// logstudent(df, location, scale). A name in brackets is for one column only: "lengthscale[age]=gamma(2, 1)". With
    /// ` sd` at the end the unit is the standard deviation of the column: lengthscale="lognormal(0, 1) sd". `none`
    /// leaves out the weak prior that lengthscales get when there are few rows for the number of columns; repeatable
    #[arg(long, value_name = "NAME=PRIOR")]
    prior: Vec<String>,
    /// Bounds of a parameter, e.g. noise=0.01..2; repeatable
    #[arg(long, value_name = "NAME=LOW..HIGH")]
    bounds: Vec<String>,
    /// Whether intervals come from residuals instead of the normal distribution. The residuals are those of the
    /// training rows, each predicted from all others. If the model has no closed form for that, they are those of rows
    /// set apart, which are not trained on: 15 % of the rows if asked for; by default, for classes and real targets
    /// alike, a tenth of 5,000 rows or more (at most 1,000), and none of fewer. For classes, they determine a
    /// temperature of the probabilities
    #[arg(long, value_enum, value_name = "WHEN", num_args = 0..=1)]
    #[arg(default_missing_value = "yes", default_value = "auto")]
    calibrate: Calibrate,
    #[command(flatten)]
    pub device: DeviceOptions,
    /// Whether other models are fitted with the same options.
    #[arg(skip)]
    compared: bool,
}

fn likelihood_help() -> String {
    let names: Vec<&str> = registry().likelihoods.rows().iter().map(|row| row.name).collect();
    format!(
        "Likelihood: {}. Some take an argument, as student-t(4) and bernoulli(logit). By default chosen from the \
         values of the target",
        names.join(", ")
    )
}

fn kernel_help() -> String {
    let names = registry().kernels.names().join(", ");
    format!(
        "\
Kernel expression. Grammar:
{GRAMMAR}\
average: a weighted average of models with matern12(ard), matern32(ard),
  rbf(ard), rbf, linear + matern32(ard) and linear, on ranks of the inputs, and
  of the logarithm of a target that is not negative; average(models): of
  nearest and experts, for many rows, with the logarithm or transformed inputs
  where trials gain by them; of classes, of label-regression and svgp
auto: the same for series, with structural kernels: a trend that walks
  (wiener), the season that the target shows (periodic * wiener), and
  matern12
Kernels: {names}
  With numbers: spectral_mixture(components=2), polynomial(power=2), wiener(order=2);
  projection(kernel, dim=2) of any of them;
  same(dims=[c]): 1 for rows with the same value of a column, 0 for others
  (periodic_norm and cosine_norm are covariances of one column only)
`ard` gives one lengthscale per column, dims=[0, 2] picks columns (from 0;
or by name: dims=[age, \"body mass\"]), fix=period keeps a value. Numbers are in the units of the data; what is not
given is chosen from the data. One lengthscale over several columns is in
units of their standard deviations."
    )
}

impl ModelOptions {
    /// The library's settings, for a likelihood, a number of rows and the training asked for.
    pub fn settings(&self, likelihood: &str, rows: usize, training: &TrainOptions) -> Result<Settings> {
        self.check_auxiliary_column(likelihood)?;
        let mut settings = Settings {
            likelihood: likelihood.into(),
            kernel: self.kernel_text(),
            mean: self.mean.to_possible_value().map_or_else(String::new, |mean| mean.get_name().into()),
            model: self.choice(likelihood, (rows, rows), training.optimizer)?,
            standardize: !self.no_standardize,
            input_transform: self.input_transform()?,
            target_transform: self.target_transform(),
            auxiliary_column: self.auxiliary_column().cloned(),
            init: self.init.iter().map(|text| initial(text)).collect::<Result<_>>()?,
            fix: self.fix.clone(),
            priors: self.priors().map(|text| belief(text)).collect::<Result<_>>()?,
            weak_prior: self.priors().count() == self.prior.len(),
            bounds: self.bounds.iter().map(|text| interval(text)).collect::<Result<_>>()?,
            starts: training.starts(),
            calibrate: self.calibrate,
            compute: self.device.choose(),
            store_factor: false,
        };
        // Some defaults depend on the number of rows that are left for the training. The plan reports errors.
        if let Some(trained) = settings.trained_rows(rows, registry()).ok().filter(|trained| *trained < rows) {
            settings.model = self.choice(likelihood, (rows, trained), training.optimizer)?;
        }
        Ok(settings)
    }

    /// These options, or what is the default where nothing else is asked, which is said: structural kernels for a
    /// series, the exact model in linear time along one input, an average over kernels if that takes a few seconds, and
    /// of models if rows are many. If something is asked of the training, or its states are saved, it is one model.
    pub fn usual(
        &self,
        (schema, data): (&Schema, &Dataset),
        likelihood: &str,
        rows: usize,
        (training, saved): (&TrainOptions, bool),
    ) -> Self {
        let alone = || self.linear(schema, likelihood, rows);
        let unless_asked = |model: Option<String>, kernel: &str, said: Option<&str>| {
            if saved || !training.is_usual() {
                let one = alone().unwrap_or_else(|| self.clone());
                let why = if saved { "its states are saved or read" } else { "something is asked of the training" };
                report::say(&format!("one model, as {why}: --kernel \"{kernel}\" fits what else is the default"));
                return one;
            }
            said.into_iter().for_each(report::say);
            self.with(model, Some(kernel.into()))
        };
        if structure::suits(schema, data) && self.takes_structure(likelihood, rows) {
            let said = "a series: its trend and season are found (--kernel chooses other functions)";
            return unless_asked(Some(StateSpaceOptions::NAME.into()), AUTO, Some(said));
        }
        if let Some(linear) = alone() {
            return linear;
        }
        match self.average_seconds(likelihood, (rows, schema.d())) {
            Some(few) if few <= A_FEW => unless_asked(self.model.clone(), AVERAGE, None),
            Some(many) => {
                let seconds = many / rayon::current_num_threads() as f64;
                let (time, unit) = if seconds < 100.0 { (seconds, "s") } else { (seconds / 60.0, "min") };
                report::say(&format!("--kernel average would average over kernels, in about {time:.0} {unit}"));
                self.clone()
            }
            None if self.averages_models(likelihood, rows, training) => {
                let short = training.max_time.is_some_and(|time| time < FOR_TRIALS);
                let classes = !likelihood.starts_with("gaussian");
                let said = "many rows of classes: label-regression, and svgp where it may add to that (--model)";
                unless_asked(None, if short { UNTRIED_MODELS } else { OF_MODELS }, classes.then_some(said))
            }
            None => self.clone(),
        }
    }

    /// The state-space model of a kernel over a single input, exact in linear time, which is said: if no model is asked
    /// for, it knows the kernel, and rows are too many for the exact one.
    pub fn linear(&self, schema: &Schema, likelihood: &str, rows: usize) -> Option<Self> {
        let names = self.inputs(schema);
        let open = self.is_silent() && likelihood.starts_with("gaussian");
        let many = open && names.len() == 1 && !self.kind(likelihood, rows).is_ok_and(|row| row.name == usual().kind());
        let kernel = || parse_named(&self.kernel_text(), &names, &registry().kernels);
        if !(many && kernel().is_ok_and(|kernel| StateSpaceGp::knows(&kernel, 1))) {
            return None;
        }
        report::say(&format!("{rows} rows along one input: exact by --model {}", StateSpaceOptions::NAME));
        Some(self.with(Some(StateSpaceOptions::NAME.into()), self.kernel.clone()))
    }

    /// The seconds that an average over kernels takes on one core, if it may be the default: if nothing is asked of the
    /// kernel and its parameters, and the model is exact, or Laplace's approximation of two classes.
    fn average_seconds(&self, likelihood: &str, (rows, columns): (usize, usize)) -> Option<f64> {
        // With noise known to be small, even few rows say which kernel is right, and a temperature hides it.
        let open = self.is_open() && self.auxiliary_column().is_none();
        let kind = self.kind(likelihood, rows).ok().filter(|_| open)?.name;
        let exact = likelihood.starts_with("gaussian") && kind == usual().kind();
        // Counts gain nothing by it.
        let classes = likelihood.starts_with("bernoulli") && kind == LaplaceOptions::NAME;
        (exact || classes).then(|| average::seconds(rows, columns, exact))
    }

    /// Whether an average of models for many rows is the default: if nothing is asked, and rows are too many for the
    /// exact model, or Laplace's approximation of classes, and few enough for the models of the average and the time.
    fn averages_models(&self, likelihood: &str, rows: usize, training: &TrainOptions) -> bool {
        let open = self.is_open() && self.is_silent();
        let usual = |name: &str| self.kind(likelihood, rows).is_ok_and(|row| row.name == name);
        open && match likelihood.split('(').next() {
            Some("gaussian") => usual(NearestOptions::NAME) && rows <= average::MANY,
            Some("softmax" | "bernoulli") => {
                let time = training.max_time.map_or(f64::INFINITY, |time| time.as_secs_f64());
                let Cost { seconds, bytes } = average::cost_of_labels(rows);
                let many = rows >= average::OF_LABELS && seconds < time && memory::has(bytes);
                usual(SvgpOptions::NAME) && many
            }
            _ => false,
        }
    }

    /// Whether structural kernels may be the default for so many rows of a series: if nothing is asked.
    fn takes_structure(&self, likelihood: &str, rows: usize) -> bool {
        let open = self.is_open() && self.is_silent() && self.auxiliary_column().is_none();
        open && likelihood.starts_with("gaussian") && rows <= structure::MOST
    }

    /// Whether nothing is asked of the kernel, its parameters and the device.
    fn is_open(&self) -> bool {
        let asked = [&self.init, &self.fix, &self.prior, &self.bounds].into_iter().any(|given| !given.is_empty());
        self.kernel.is_none() && self.season.is_empty() && !asked && self.device.choose().kind.is_cpu()
    }

    /// Whether nothing is asked of the kind of model and its options.
    fn is_silent(&self) -> bool {
        self.model.is_none() && self.kinds.is_silent()
    }

    /// The priors asked for, except `none`.
    fn priors(&self) -> impl Iterator<Item = &String> {
        self.prior.iter().filter(|text| text.trim() != "none")
    }

    /// The same with another model and kernel.
    pub fn with(&self, model: Option<String>, kernel: Option<String>) -> Self {
        Self { model, kernel, ..self.clone() }
    }

    /// The kernel asked for, or the default one.
    fn kernel_text(&self) -> String {
        if let (None, [_, ..]) = (&self.kernel, self.season.as_slice()) {
            let plain = (self.target_transform == Some(TargetTransform::Identity)).then(|| "log=false".to_string());
            let parts = self.season.iter().map(|season| format!("season={season}")).chain(plain);
            return format!("{AUTO}({})", parts.collect::<Vec<_>>().join(", "));
        }
        match (&self.kernel, self.target_transform) {
            (Some(kernel), Some(TargetTransform::Identity)) if [AVERAGE, AUTO].contains(&kernel.trim()) => {
                format!("{}(log=false)", kernel.trim())
            }
            (Some(kernel), Some(TargetTransform::Identity)) if kernel.trim() == OF_MODELS => {
                OF_MODELS.replace(')', ", log=false)")
            }
            (Some(kernel), _) => kernel.clone(),
            (None, _) => Settings::default().kernel,
        }
    }

    /// The same options for all of these models and kernels.
    pub fn each(&self, models: &[Option<String>], kernels: &[Option<String>]) -> Vec<Self> {
        let of = |model: &Option<String>, kernel: &Option<String>| Self {
            compared: models.len() > 1,
            ..self.with(model.clone(), kernel.clone())
        };
        models.iter().flat_map(|model| kernels.iter().map(move |kernel| of(model, kernel))).collect()
    }

    /// The functions of inputs that are asked for.
    fn input_transform(&self) -> Result<Warping> {
        let mut warping = Warping::default();
        self.input_transform.iter().try_for_each(|text| warping.add(text))?;
        Ok(warping)
    }

    /// The function of the target that is modelled.
    pub fn target_transform(&self) -> TargetTransform {
        self.target_transform.unwrap_or_default()
    }

    /// The auxiliary column: noise, exposure or trials.
    pub fn auxiliary_column(&self) -> Option<&String> {
        self.noise_column.as_ref().or(self.exposure.as_ref()).or(self.trials.as_ref())
    }

    /// Whether the options say what the noise is.
    pub fn knows_noise(&self) -> bool {
        knows_noise(self.auxiliary_column(), &self.fix)
    }

    /// The column that tells several series apart.
    pub fn series(&self) -> Option<&String> {
        self.series.as_ref()
    }

    /// The names of the inputs of the kernel: all of a table but the auxiliary column and that of the series.
    pub fn inputs(&self, schema: &Schema) -> Vec<String> {
        let names = schema.feature_names();
        names.into_iter().filter(|name| ![self.auxiliary_column(), self.series()].contains(&Some(name))).collect()
    }

    /// The kind of model for a number of rows.
    fn kind(&self, likelihood: &str, rows: usize) -> Result<&'static Row> {
        let gaussian = likelihood.starts_with("gaussian");
        // Models of many rows know no series.
        let structural = if gaussian { self.kernel_text().starts_with(AUTO) } else { self.series.is_some() };
        let usual = if structural && self.kinds.is_silent() { Some(StateSpaceOptions::NAME) } else { None };
        self.kinds.kind(self.model.as_deref().or(usual), likelihood, rows)
    }

    /// A note that there are too many rows for the exact model, if that is why another is fitted.
    pub fn approximation(&self, likelihood: &str, rows: usize) -> Result<Option<String>> {
        let asked = self.model.is_some() || !likelihood.starts_with("gaussian");
        let name = self.kind(likelihood, rows)?.command.instead_of_exact.filter(|_| !asked);
        let several = self.kernel_text().starts_with(OF_MODELS.trim_end_matches(')'));
        let name = name.map(|name| if several { "an average of nearest and experts" } else { name });
        Ok(name.map(|name| format!("an exact model takes long for {rows} rows: fitting {name} (--model chooses)")))
    }

    /// The kind of model for all rows, with its options for the rows that it is trained on.
    fn choice(
        &self,
        likelihood: &str,
        (rows, trained): (usize, usize),
        optimizer: Option<OptimizerName>,
    ) -> Result<ModelChoice> {
        let lbfgs = optimizer == Some(OptimizerName::Lbfgs);
        let given = Given { rows: trained, lbfgs, likelihood, compared: self.compared };
        self.kinds.choice(self.kind(likelihood, rows)?, &given)
    }
}
