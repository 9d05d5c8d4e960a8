//! Checks that settings and data fit together.

use super::super::Registry;
use super::super::calibrate::FEW;
use super::super::{Calibrate, Settings};
use crate::data::{Column, Schema, TargetTransform, test_count};
use crate::error::{Error, Result};
use crate::likelihoods::{Auxiliary, Likelihood};
use crate::models::exact::ExactOptions;
use crate::models::laplace::LaplaceOptions;
use crate::models::options::Kind;
use crate::models::state_space::StateSpaceOptions;

/// The share of the rows that is kept from the training for calibration if it is asked for, and the largest number of
/// them.
const APART: f64 = 0.15;
const MOST_APART: f64 = 10_000.0;
/// With this many rows, probabilities of classes, and Gaussian predictions of models that do not leave rows out in
/// closed form, are calibrated by default.
const MANY: usize = 5000;
/// The share of the rows that is kept from the training for that, and the largest number of them.
const TENTH: f64 = 0.1;
const MOST_OF_MANY: f64 = 1000.0;

impl Settings {
    /// How many of `rows` rows a model is trained on: calibration may need a share of its own.
    ///
    /// # Errors
    /// [`Error::Usage`] for a calibration that the model or the likelihood does not take, and for too few rows.
    pub fn trained_rows(&self, rows: usize, registry: &Registry) -> Result<usize> {
        let apart = share_apart(self, rows, registry)?.map(|share| test_count(rows, share)).transpose()?;
        Ok(rows - apart.unwrap_or(0))
    }
}

/// A tenth of `rows` rows, or a thousand of many.
pub(super) fn some(rows: usize) -> f64 {
    TENTH.min(MOST_OF_MANY / rows as f64)
}

/// Whether the model of these settings, for so many classes if targets are classes, leaves rows out in closed form.
pub(super) fn leaves_out(settings: &Settings, classes: Option<usize>, registry: &Registry) -> Result<bool> {
    let options = registry.models.options(&settings.model)?;
    let likelihood = registry.likelihoods.parse(&settings.likelihood, classes)?;
    Ok(match likelihood.noise() {
        Some(_) => options.leaves_one_out(),
        None => options.leaves_targets_out(likelihood.latents()),
    })
}

/// The share of `rows` rows that a calibration needs for itself.
pub(super) fn share_apart(settings: &Settings, rows: usize, registry: &Registry) -> Result<Option<f64>> {
    let of_classes = registry.likelihoods.of_classes(&settings.likelihood);
    let of_numbers = settings.is_gaussian();
    // The text may name the number of classes. Whether there is one latent function does not depend on it.
    let closed = || leaves_out(settings, None, registry).or_else(|_| leaves_out(settings, Some(2), registry));
    match settings.calibrate {
        Calibrate::No => return Ok(None),
        Calibrate::Auto => {
            let takes = (of_classes || of_numbers) && rows >= MANY;
            return Ok((takes && !closed()?).then(|| some(rows)));
        }
        Calibrate::Yes => {}
    }
    if !of_classes && !of_numbers {
        registry.likelihoods.parse(&settings.likelihood, None)?;
        return Err(Error::Usage(format!(
            "predictions are calibrated under the gaussian likelihood and for classes, and this fits {}",
            settings.likelihood
        )));
    }
    Ok((!closed()?).then_some(APART.min(MOST_APART / rows as f64)))
}

/// Refuses intervals from too few residuals to fit a distribution; `apart` is the number of rows set apart for them.
pub(super) fn enough(settings: &Settings, rows: usize, apart: Option<usize>) -> Result<()> {
    let (found, need) = match apart {
        None => (rows, FEW),
        Some(apart) => (apart, ((FEW as f64 - 0.5) / APART).ceil() as usize),
    };
    if settings.calibrate != Calibrate::Yes || found >= FEW {
        return Ok(());
    }
    let how = match apart {
        None => "",
        Some(_) => {
            ", of which 15 in 100 are set apart for them, or with a model that leaves rows out in closed form, such as \
             the exact one"
        }
    };
    Err(Error::Data(format!(
        "calibrated intervals take {FEW} residuals and would have {found}: do not ask for them, or fit to {need} rows \
         or more{how}"
    ))
    .about("Settings::calibrate"))
}

/// Up to this many classes are fitted to any number of rows.
const FEW_CLASSES: usize = 20;

/// Refuses a target that the likelihood does not take, and nearly as many classes as rows.
pub(super) fn check_classes(schema: &Schema, likelihood: &dyn Likelihood, rows: usize) -> Result<()> {
    let taken = likelihood.classes();
    if let Some(classes) = schema.classes.as_ref().filter(|_| taken.is_none()) {
        return Err(Error::Usage(format!(
            "the target `{}` was read as classes ({}), and the {} likelihood takes numbers: choose bernoulli, \
                 softmax or ordinal, or \
                 read the table anew for this likelihood",
            schema.target,
            classes.listing(),
            likelihood.text()
        )));
    }
    if let (Some(classes), Some(taken)) = (&schema.classes, taken)
        && classes.len() > taken
    {
        return Err(Error::Usage(format!(
            "the target `{}` has {} classes ({}), and the {} likelihood takes {taken}: choose one for more \
                 classes, or for numbers",
            schema.target,
            classes.len(),
            classes.listing(),
            likelihood.text()
        )));
    }
    if likelihood.latents() > FEW_CLASSES && 2 * likelihood.latents() > rows {
        return Err(Error::Data(format!(
            "the target `{}` has {} classes in {} rows: nearly every row is a class of its own, and nothing \
             can be learned of a class from one row; choose another target, fewer classes, or for numbers the gaussian \
             likelihood",
            schema.target,
            likelihood.latents(),
            rows
        ))
        .set("Settings::likelihood", "gaussian"));
    }
    Ok(())
}

/// Refuses an auxiliary column with missing cells: a mean says nothing of a row's noise, exposure or trials.
pub(super) fn check_filled(schema: &Schema, auxiliary_column: Option<&str>) -> Result<()> {
    let filled = |column: &&Column| Some(column.name.as_str()) == auxiliary_column && column.fill.is_some();
    match schema.features.iter().find(filled) {
        Some(Column { name, .. }) => {
            let problem =
                format!("the column `{name}` has missing cells, and no mean can stand for them: fill them in");
            Err(Error::Data(problem + ", or leave such rows out").set("ReadOptions::missing", "drop"))
        }
        None => Ok(()),
    }
}

/// The number of the input that tells several series apart, if one does. Refuses models with inputs or regions of their
/// own, which belong to no series.
pub(super) fn series(schema: &Schema, settings: &Settings, names: &[String]) -> Result<Option<usize>> {
    let Some((_, column)) = schema.series() else { return Ok(None) };
    let (kind, takes) = (settings.model.kind(), [ExactOptions::NAME, StateSpaceOptions::NAME, LaplaceOptions::NAME]);
    if !takes.contains(&kind) {
        let problem = format!("several series are for the models {}, and this is {kind}: choose one", takes.join(", "));
        return Err(Error::Usage(problem).set("Settings::model", StateSpaceOptions::NAME));
    }
    if let Some(auxiliary) = &settings.auxiliary_column {
        let problem = format!("several series take no noise, exposure or trials of rows: leave out `{auxiliary}`");
        return Err(Error::Usage(problem));
    }
    Ok(names.iter().position(|name| *name == column.name))
}

/// Refuses a model that does not take the likelihood, and a likelihood that does not take the transform or auxiliary
/// column.
pub(super) fn check_kind(
    settings: &Settings,
    likelihood: &dyn Likelihood,
    auxiliary: bool,
    registry: &Registry,
) -> Result<()> {
    let gaussian = likelihood.noise().is_some();
    let row = registry.models.row(settings.model.kind());
    if row.is_some_and(|row| !row.takes(likelihood)) {
        let (model, others) = (settings.model.kind(), registry.models.that_take(likelihood));
        let only = if row.is_some_and(|row| row.classes) { "softmax and bernoulli" } else { "the gaussian likelihood" };
        let problem = format!("the {model} model is for {only}; for {} choose another", likelihood.text());
        return Err(Error::Usage(problem).set("Settings::model", others));
    }
    if settings.target_transform != TargetTransform::Identity && (!gaussian || auxiliary) {
        let why = if gaussian { "known noise needs" } else { "other likelihoods than the gaussian need" };
        return Err(Error::Usage(format!("{why} an untransformed target")).about("Settings::target_transform"));
    }
    if auxiliary && likelihood.auxiliary() == Auxiliary::None {
        let likelihood = likelihood.text();
        return Err(Error::Usage(format!("the {likelihood} likelihood takes no noise, exposure or trials of rows")));
    }
    Ok(())
}
