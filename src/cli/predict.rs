//! `cagey predict`

use std::path::PathBuf;

use cagey::data::{Dataset, ReadOptions, TargetTransform};
use cagey::fitted::Fitted;
use cagey::likelihoods::Auxiliary;
use cagey::metrics::{Predictive, TargetPrediction, most_probable, quantiles};
use cagey::models::label_regression::LabelRegressionOptions;
use cagey::models::options::Kind;
use cagey::models::posterior::{Marginals, Uncertainty};
use cagey::params::shown;
use cagey::{Error, Result, threads};
use clap::Args;
use rayon::prelude::*;

use super::aggregation::{self, Aggregation};
use super::data::{Reading, in_table, read};
use super::output::{self, Columns};
use super::report;
use super::saved::Saved;
use super::scoring::{class_labels, probabilities};
use super::shards::Shards;
use super::trust::outside_in_words;
use crate::values;

/// Predict the target, with error bars or probabilities, for the rows of a table
#[derive(Debug, Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "\
Examples:
  cagey predict model.cagey new.csv -o predictions.csv
  cat new.csv | cagey predict model.cagey - -o - --keep
  cagey predict model.cagey new.csv --levels 0.1,0.5,0.9 -o quantiles.csv
  cagey predict model.cagey new.csv --aggregation npae -o predictions.csv"
)]
pub struct Predict {
    #[command(flatten)]
    model: Saved,
    /// Table with the input columns; `-` for standard input
    data: PathBuf,
    /// Where to write mean, sd, lower and upper of each row, and quantiles of --levels, as CSV; `-` for standard
    /// output. If the likelihood is not gaussian, rate_lower and rate_upper follow: the interval of the target's
    /// expectation. For classes, the columns are the predicted class and the probability of each class
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Predict the latent function f instead of the target: no observation noise. If there are several, their column
    /// names end in the class, or in log_noise for the logarithm of a varying noise variance
    #[arg(long)]
    latent: bool,
    /// Also write the standard deviation of the latent function by source: mathematical_sd, which only more data lower,
    /// and computational_sd, which more computation lowers; for computation-aware models
    #[arg(long)]
    split: bool,
    #[command(flatten)]
    aggregation: Aggregation,
    /// Keep the input columns in front
    #[arg(long)]
    keep: bool,
    /// Probability between lower and upper [default: 0.95]
    #[arg(long, value_name = "SHARE", value_parser = values::share)]
    level: Option<f64>,
    /// Also write quantiles: for `--levels 0.1,0.5` the columns q0.1 and q0.5, below which the target (with --latent,
    /// the latent function) lies with these probabilities
    #[arg(long, value_name = "PROBABILITIES", value_delimiter = ',', value_parser = values::share)]
    levels: Vec<f64>,
    #[command(flatten)]
    shards: Shards,
    #[command(flatten)]
    reading: Reading,
}

/// The interval and the quantiles that are written.
pub struct Quantiles<'a> {
    /// The probability between the ends of the interval.
    pub level: f64,
    /// The probabilities below the quantiles.
    pub levels: &'a [f64],
}

impl Quantiles<'_> {
    /// Refuses a level that is given twice: its column would be there twice.
    pub fn check(levels: &[f64]) -> Result<()> {
        match (1..levels.len()).find(|at| levels[..*at].contains(&levels[*at])) {
            Some(at) => Err(Error::Usage(format!("--levels: {} is given twice", levels[at]))),
            None => Ok(()),
        }
    }

    fn tails(&self) -> [f64; 2] {
        let tail = 0.5 * (1.0 - self.level);
        [tail, 1.0 - tail]
    }

    /// The columns of distributions in closed form; their names end in `suffix`.
    pub fn normal(&self, suffix: &str, predictions: &[Predictive]) -> Columns {
        let columns = self.columns(predictions, Predictive::mean, Predictive::sd, quantiles);
        columns.into_iter().map(|(name, values)| (name + suffix, values)).collect()
    }

    /// Mean, standard deviation, the ends of the interval, and the quantiles asked for.
    fn columns<D: Sync>(
        &self,
        predictions: &[D],
        mean: impl Fn(&D) -> f64 + Sync,
        sd: impl Fn(&D) -> f64 + Sync,
        quantiles: impl Fn(&[D], f64) -> Vec<f64>,
    ) -> Columns {
        let column =
            |name: &str, f: &(dyn Fn(&D) -> f64 + Sync)| (name.to_string(), threads::map(predictions.par_iter(), f));
        let [low, high] = self.tails();
        let ends = [("lower".to_string(), low), ("upper".to_string(), high)];
        let asked = self.levels.iter().map(|level| (format!("q{level}"), *level));
        let quantiles = ends.into_iter().chain(asked).map(|(name, p)| (name, quantiles(predictions, p)));
        [column("mean", &mean), column("sd", &sd)].into_iter().chain(quantiles).collect()
    }
}

impl Predict {
    /// Reads, predicts, writes.
    pub fn run(self) -> Result<()> {
        if self.split && self.aggregation.all() {
            return Err(Error::Usage("--split is for one prediction; leave out --aggregation all".into()));
        }
        Quantiles::check(&self.levels)?;
        let quantiles = Quantiles { level: self.level.unwrap_or(0.95), levels: &self.levels };
        output::check_table(&self.output, &[&self.model.path, &self.data])?;
        let fitted = self.model.chosen(self.shards.load(&self.model.path)?)?;
        let labelled = fitted.model.likelihood().classes().is_some();
        let asked =
            [("--level", "intervals", self.level.is_some()), ("--levels", "quantiles", !self.levels.is_empty())];
        if let Some((option, what, _)) = asked.iter().find(|(.., given)| *given && !self.latent && labelled) {
            let problem = format!("{option} is for {what}; for classes the command writes probabilities");
            return Err(Error::Usage(problem));
        }
        let options = ReadOptions { mix_unknown: true, ..self.reading.inputs(&fitted, self.keep) };
        let data = read(&self.data, &fitted.schema, false, &options)?;
        let in_table = in_table(Some(&self.data));
        if let Some(column) = fitted.without_auxiliary(&data).filter(|_| !self.latent) {
            report::warn(&format!("{}: no column `{column}`, so {}", self.data.display(), neutral(&fitted)));
        }
        fitted.caution().iter().for_each(|caution| report::warn(caution));
        fitted.remarks(&data).map_err(&in_table)?.iter().for_each(report::advise);
        let outside = fitted.outside(&data).map_err(&in_table)?;
        outside_in_words(&outside, data.n).iter().for_each(|words| report::warn(words));
        if self.aggregation.all() {
            let mut columns = Vec::new();
            Aggregation::each(&fitted, data.n, |rule, fitted| {
                let predicted = if self.latent { fitted.predict_latent(&data) } else { fitted.predict(&data) };
                columns.extend(quantiles.normal(&format!("_{rule}"), &predicted.map_err(&in_table)?));
                Ok(())
            })?;
            return output::write(&self.output, data.columns.as_ref(), None, columns);
        }
        let fitted = self.aggregation.one(fitted, data.n)?;
        let sources = if self.split { sources(&fitted, &data).map_err(&in_table)? } else { Vec::new() };
        let single = fitted.members().is_empty();
        if self.latent && single && fitted.settings.model.kind() == LabelRegressionOptions::NAME {
            report::say("the latent functions of a regression of labels have no standard deviations; svgp has them");
        }
        let mut columns = if self.latent {
            let latents = latents(&fitted, &data).map_err(in_table)?;
            latents.iter().flat_map(|(suffix, predictions)| quantiles.normal(suffix, predictions)).collect()
        } else if fitted.is_gaussian() {
            let predictions = fitted.predict(&data).map_err(in_table)?;
            if predictions.iter().any(|prediction| !prediction.has_sd()) {
                report::warn(NO_SD);
            }
            quantiles.normal("", &predictions)
        } else {
            let predictions = fitted.predict_targets(&data).map_err(in_table)?;
            if let Some(probabilities) = probabilities(&predictions) {
                return self.write_classes(&fitted, &data, &probabilities);
            }
            let (mean, sd) = (TargetPrediction::mean, TargetPrediction::sd);
            let each = |all: &[TargetPrediction], p| threads::map(all.par_iter(), |d| d.quantile(p));
            let mut columns = quantiles.columns(&predictions, mean, sd, each);
            for (name, p) in ["rate_lower", "rate_upper"].into_iter().zip(quantiles.tails()) {
                columns.push((name.into(), predictions.iter().map(|d| d.response_quantile(p)).collect()));
            }
            columns
        };
        columns.extend(sources);
        aggregation::tell(&fitted);
        output::write(&self.output, data.columns.as_ref(), None, columns)
    }

    /// Writes the most probable class of each row, and the probability of each class.
    fn write_classes(&self, fitted: &Fitted, data: &Dataset, probabilities: &[Vec<f64>]) -> Result<()> {
        let labels = class_labels(fitted, probabilities.first().map_or(0, Vec::len));
        let column = |(code, label): (usize, &String)| {
            (format!("probability_{label}"), probabilities.iter().map(|p| p[code]).collect::<Vec<f64>>())
        };
        let columns = labels.iter().enumerate().map(column).collect();
        let predicted: Vec<&str> = probabilities.iter().map(|p| labels[most_probable(p)].as_str()).collect();
        output::write(&self.output, data.columns.as_ref(), Some(("predicted", &predicted)), columns)
    }
}

/// What predictions are for in a table without the auxiliary column.
fn neutral(fitted: &Fitted) -> String {
    match fitted.model.likelihood().auxiliary() {
        Auxiliary::Exposure => "predictions are for an exposure of 1".into(),
        Auxiliary::Trials => "predictions are for one trial".into(),
        _ => {
            let sd = fitted.noise().unwrap_or_default().sqrt() * fitted.target_scale.sd;
            format!(
                "error bars hold the learned noise alone, whose sd is {}; --latent predicts the function without noise",
                shown(sd)
            )
        }
    }
}

/// Said of predictions without a standard deviation.
const NO_SD: &str = "`sd` is a scale: Student's t distribution of so few rows, or its exponential, has no standard \
                     deviation; lower and upper are right";

/// The distributions of the latent functions, each with the suffix of its column names: the label of its class, or its
/// own name.
fn latents(fitted: &Fitted, data: &Dataset) -> Result<Vec<(String, Vec<Predictive>)>> {
    let likelihood = fitted.model.likelihood();
    if likelihood.latents() == 1 {
        return Ok(vec![(String::new(), fitted.predict_latent(data)?)]);
    }
    let names: Vec<(String, f64)> = match likelihood.classes() {
        Some(count) => class_labels(fitted, count).into_iter().map(|label| (label, 0.0)).collect(),
        None => likelihood.others().into_iter().map(|(name, origin)| (name.to_string(), origin)).collect(),
    };
    let mut latents = fitted.marginals(data)?;
    let mut all = Vec::new();
    // If one function has no name, it is the first, and that of the target.
    if names.len() < latents.len() {
        all.push((String::new(), fitted.in_user_units(&latents.remove(0))));
    }
    for ((name, origin), Marginals { mean, variance, .. }) in names.into_iter().zip(latents) {
        let normal = |(mean, variance): (f64, f64)| Predictive::Normal { mean: mean + origin, sd: variance.sqrt() };
        all.push((format!("_{name}"), mean.into_iter().zip(variance).map(normal).collect()));
    }
    Ok(all)
}

/// Standard deviations of the latent function by source, in the target's unit.
fn sources(fitted: &Fitted, data: &Dataset) -> Result<Columns> {
    if !fitted.members().is_empty() {
        return Err(Error::Usage("--split is for one model; choose a --member of this average".into()));
    }
    let Some(split) = fitted.posterior().computation_aware() else {
        return Err(Error::Usage(format!(
            "--split is for computation-aware models, and this is: {}",
            fitted.model.title()
        )));
    };
    if fitted.settings.target_transform != TargetTransform::Identity {
        return Err(Error::Usage("--split is for targets that are modelled as they are, without a transform".into()));
    }
    if !fitted.with_unknown_categories(data).is_empty() {
        return Err(Error::Usage(
            "--split is for categories that the model was trained with; leave out other rows".into(),
        ));
    }
    let (x, _) = fitted.standardise(data)?;
    let Uncertainty { mathematical, computational, .. } = split.uncertainty(&x)?;
    let (Some(mathematical), Some(computational)) = (mathematical, computational) else {
        let rows = fitted.data().n();
        return Err(Error::Usage(format!(
            "--split needs the exact model, which costs too much for {rows} training rows"
        )));
    };
    let sds = |variances: Vec<f64>| variances.iter().map(|v| v.sqrt() * fitted.target_scale.sd).collect();
    Ok(vec![("mathematical_sd".into(), sds(mathematical)), ("computational_sd".into(), sds(computational))])
}
