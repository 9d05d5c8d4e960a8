//! Structural kernels of a series: a trend, a season and what lasts for a short time, added up.
//!
//! Rows with dates as their only input, or with numbers of constant spacing, are a [series](suits). Numbers may be
//! places on a curve as well, so the curves of a smooth function are among their models.
//!
//! Which of them a series has cannot be known from few rows, so `auto` averages over all in a small grammar (Harvey
//! 1989, *Forecasting, structural time series models and the Kalman filter*): four trends × the season found × with and
//! without an autoregressive part × the target or its logarithm. Each is a [state-space](crate::models::state_space)
//! model, so a fit takes time in proportion to the rows. Weights are those of the evidence, exp(evidence / 8) in units
//! of the target: rows in order of time are predicted one after another there, as forecasts are.

mod asked;
mod season;

pub use asked::AUTO;
pub(super) use asked::{Asked, asked};
pub use season::is_dated;
use season::seasons;
pub(super) use season::{multiples, start};

use super::{Settings, average};
use crate::data::{Dataset, Schema, TargetTransform};
use crate::error::{Error, Result};
use crate::fitted::alternatives::is_even;
use crate::models::options::{Kind, ModelChoice};
use crate::models::registry::usual;
use crate::models::state_space::StateSpaceOptions;

/// Trends: a random walk, one with a drift, an integrated random walk, and the sum of both walks.
const TRENDS: [&str; 4] = ["wiener", "wiener + linear", "wiener(order=2)", "wiener + wiener(order=2)"];

/// What lasts for a short time.
const LOCAL: &str = "matern12";

/// Functions that are no series: nothing walks or repeats.
const CURVES: [&str; 3] = ["linear", "matern32", "matern52"];

/// The smoothest functions. They have no state space, so they are for up to so many rows.
const SMOOTH: (&str, usize) = ("rbf", 1000);

/// With more rows, the rows say which trend there is, and the plain ones are left out.
const MANY: usize = 2000;

/// Whether rows are a series: the only input is a date, or a number of constant spacing (24 values or more, of which a
/// few may be missing). Then structural kernels are the default of the command.
pub fn suits(schema: &Schema, data: &Dataset) -> bool {
    is_dated(schema) || schema.features.len() == 1 && data.d == 1 && is_even(&data.x)
}

/// The largest season of rows, if there is one.
pub fn period(schema: &Schema, data: &Dataset) -> Option<f64> {
    seasons(schema, &data.x, data.y.as_deref().unwrap_or_default()).first().copied()
}

/// The kernel of the local level, trend and season model (ETS with additive parts).
pub fn smoothing(schema: &Schema, data: &Dataset) -> String {
    let season = period(schema, data).map(season);
    [Some(TRENDS[3].into()), season].into_iter().flatten().collect::<Vec<String>>().join(" + ")
}

/// The settings of the models of `auto`: structural kernels for rows of a single input, and for other tables the
/// members of an [average](super::Fitted::average).
///
/// # Errors
/// [`Error::Usage`] for seasons that there are not, and for seasons of other tables.
pub(super) fn candidates(settings: &Settings, schema: &Schema, data: &Dataset, asked: &Asked) -> Result<Vec<Settings>> {
    let (state_space, kind) = (<StateSpaceOptions as Kind>::NAME, settings.model.kind());
    let ours = [usual().kind(), state_space].contains(&kind);
    let single = schema.features.len() == 1 && data.d == 1 && settings.auxiliary_column.is_none();
    if !single || !ours || !settings.likelihood.starts_with("gaussian") {
        if !asked.seasons.is_empty() {
            let problem = "a season is for a single input, a date or a number, and the gaussian likelihood; name the \
                           input, or write the kernel";
            return Err(Error::Usage(problem.into()).about("Settings::kernel"));
        }
        let model = if kind == state_space { usual() } else { settings.model.clone() };
        return Ok(average::candidates(&Settings { model, ..settings.clone() }, data, asked.log));
    }
    let y = data.y.as_deref().unwrap_or_default();
    let positive = data.n >= average::TELL && y.iter().all(|y| *y > 0.0);
    let positive = positive && settings.target_transform == TargetTransform::Identity && asked.log;
    let given = asked.seasons.iter().map(|name| asked::period(name, is_dated(schema))).collect::<Result<Vec<f64>>>()?;
    let periods = if given.is_empty() { period(schema, data).into_iter().collect() } else { given };
    let seasons: Vec<String> = periods.into_iter().map(season).collect();
    let season = (!seasons.is_empty()).then(|| seasons.join(" + "));
    let trends = if data.n > MANY { &TRENDS[2..] } else { &TRENDS };
    let model: ModelChoice = StateSpaceOptions::default().into();
    let curves = CURVES.into_iter().filter(|_| !is_dated(schema));
    let mut all: Vec<Settings> =
        curves.map(|kernel| Settings { kernel: kernel.into(), model: model.clone(), ..settings.clone() }).collect();
    let (smooth, most) = SMOOTH;
    if !is_dated(schema) && data.n <= most {
        all.push(Settings { kernel: smooth.into(), model: usual(), ..settings.clone() });
    }
    for transform in [TargetTransform::Identity, TargetTransform::Log] {
        if transform == TargetTransform::Log && !positive {
            continue;
        }
        for trend in trends {
            for local in [None, Some(LOCAL)] {
                let parts = [Some(*trend), season.as_deref(), local];
                let kernel = parts.into_iter().flatten().collect::<Vec<_>>().join(" + ");
                let target_transform = match transform {
                    TargetTransform::Identity => settings.target_transform,
                    other => other,
                };
                all.push(Settings { kernel, model: model.clone(), target_transform, ..settings.clone() });
            }
        }
    }
    Ok(all)
}

/// A season whose shape walks.
fn season(period: f64) -> String {
    format!("periodic(period={period:?}, fix=period) * wiener")
}
