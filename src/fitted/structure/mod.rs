//! Structural kernels of a series: a trend, a season and what lasts for a short time, added up.
//!
//! Rows with dates as their only input, or with numbers of constant spacing, are a [series](suits). Numbers may be
//! places on a curve as well, so the curves of a smooth function are among their models.
//!
//! Which of them a series has cannot be known from few rows, so `auto` averages over all in a small grammar (Harvey
//! 1989, *Forecasting, structural time series models and the Kalman filter*): four trends × the season found × with and
//! without an autoregressive part × the target or its logarithm. Each is a [state-space](crate::models::state_space)
//! model, so a fit takes time in proportion to the rows. Weights are those of the evidence, exp(evidence / 8) in units
//! of the target: rows in order of time are predicted one after another there, as forecasts are. Of many rows, whose
//! forecasts go much further than that, weights are those of [forecasts](average) of the last ones.
//!
//! The search goes from simple models to those with more parts. Each begins at the parameters of a simpler one, so its
//! training is short and does not end above it; where the simpler one is hopeless, it is left out. Bounds keep
//! parameters from ridges. Of many rows, the last are searched, and all rows are for the best models there.

mod asked;
mod many;
mod season;
mod single;
mod starts;

pub use asked::{AUTO, name_of_season};
pub(super) use asked::{Asked, asked};
pub(super) use many::{BEST, best, carry, last, of_all, said};
pub use season::is_dated;
use season::seasons;
pub(super) use season::{multiples, start};
use single::longest;
pub(super) use single::{along, inputs, start_within};
pub use single::{apart, in_order};
pub(super) use starts::{Link, bound, extend, spread, unbound};

use std::ops::Range;

use super::{Settings, average};
use crate::data::{Column, Dataset, Schema, TargetTransform};
use crate::error::{Error, Result};
use crate::fitted::alternatives::{is_even, is_single};
use crate::models::options::Kind;
use crate::models::registry::usual;
use crate::models::state_space::StateSpaceOptions;

/// Trends, and the number of the one that each begins at with whether it is hopeless if that is: a random walk, one
/// with a drift, an integrated random walk, and the sum of both walks, which a rough level needs however poor a smooth
/// one is.
const TRENDS: [(&str, Option<(usize, bool)>); 4] = [
    ("wiener", None),
    ("wiener + linear", Some((0, true))),
    (SMOOTH_TREND, Some((0, false))),
    (BOTH_WALKS, Some((2, false))),
];
const SMOOTH_TREND: &str = "wiener(order=2)";
const BOTH_WALKS: &str = "wiener + wiener(order=2)";

/// What lasts for a short time.
const LOCAL: &str = "matern12";

/// What lasts longer than that and yet comes back, such as cycles of business and climate; beside the smooth trend
/// only, and with more rows than this, as with fewer it is hardly longer.
const LASTING: (&str, usize) = ("matern32", 200);

/// Functions that are no series: nothing walks or repeats. The last begins at the one before it.
const CURVES: [&str; 3] = ["linear", "matern32", "matern52"];

/// The smoothest functions. They have no state space, so they are for up to so many rows.
const SMOOTH: (&str, usize) = ("rbf", 1000);

/// With more rows, the rows say how much a trend walks, and the plain ones, which are cases of the others, are left
/// out. And there are enough for forecasts of some of them to say which models are good.
pub(in crate::fitted) const MANY: usize = 1000;

/// A season is repeated up to so many times in another, and a whole number of times if it is within this share of that.
const TIMES: f64 = 9.0;
const NEAR: f64 = 0.01;
/// Lengthscales of a season that stays and of a shorter one that walks beside it. They need 122 states or fewer
/// together with a trend, of which there are at most 128.
const FINE: f64 = 0.14;
const WITHIN: f64 = 0.45;

/// Structural kernels are the default of the command up to so many rows.
pub const MOST: usize = 200_000;

/// Whether rows are a series, or the longest of several is: the only input is a date, or a number of constant spacing
/// (24 values or more, of which a few may be missing, and hardly any twice). Then structural kernels are the default of
/// the command.
pub fn suits(schema: &Schema, data: &Dataset) -> bool {
    let (schema, data) = longest(schema, data);
    is_dated(&schema) || schema.features.len() == 1 && data.d == 1 && is_even(&data.x) && is_single(&data.x)
}

/// The periods of the seasons of rows, of several series those of the longest, the shortest first.
pub fn periods(schema: &Schema, data: &Dataset) -> Vec<f64> {
    let (schema, data) = longest(schema, data);
    seasons(&schema, &data.x, data.y.as_deref().unwrap_or_default())
}

/// The kernel of the local level, trend and season model (ETS with additive parts).
pub fn smoothing(schema: &Schema, data: &Dataset) -> String {
    let seasons = periods(schema, data).into_iter().map(season);
    std::iter::once(BOTH_WALKS.into()).chain(seasons).collect::<Vec<String>>().join(" + ")
}

/// Whether structural kernels are for such rows and settings: a single input, Gaussian targets, and no other model.
fn takes(settings: &Settings, schema: &Schema) -> bool {
    let ours = [usual().kind(), StateSpaceOptions::NAME].contains(&settings.model.kind());
    let single = inputs(schema).map(Column::width).sum::<usize>() == 1;
    ours && single && settings.auxiliary_column.is_none() && settings.is_gaussian()
}

/// A model of `auto`, and where its training begins.
#[derive(Debug)]
pub(super) struct Candidate {
    /// The model.
    pub settings: Settings,
    /// The earlier one whose parameters it begins at.
    pub link: Option<Link>,
}

/// The models of `auto`: structural kernels for rows of a single input, and for other tables the members of an
/// [average](super::Fitted::average).
///
/// # Errors
/// [`Error::Usage`] for seasons that there are not, and for seasons of other tables.
pub(super) fn candidates(
    settings: &Settings,
    schema: &Schema,
    data: &Dataset,
    asked: &Asked,
) -> Result<Vec<Candidate>> {
    let (state_space, kind) = (<StateSpaceOptions as Kind>::NAME, settings.model.kind());
    if !takes(settings, schema) {
        if asked.seasons.is_some() {
            let problem = "a season is for a single input, a date or a number, and the gaussian likelihood; name the \
                           input, or write the kernel";
            return Err(Error::Usage(problem.into()).about("Settings::kernel"));
        }
        let model = if kind == state_space { usual() } else { settings.model.clone() };
        let all = average::of_table(&Settings { model, ..settings.clone() }, schema, data, asked.log);
        return Ok(all.into_iter().map(|settings| Candidate { settings, link: None }).collect());
    }
    let y = data.y.as_deref().unwrap_or_default();
    let open = data.n >= average::TELL && settings.target_transform == TargetTransform::Identity && asked.log;
    let logarithm = asked.logarithm.or_else(|| TargetTransform::logarithm(y)).filter(|_| open);
    let periods = match &asked.seasons {
        Some(given) => given.iter().map(|name| asked::period(name, is_dated(schema))).collect::<Result<Vec<f64>>>()?,
        None => periods(schema, data),
    };
    let nested = nested(&periods).filter(|_| data.n > MANY);
    let seasons: Vec<String> = periods.into_iter().map(season).collect();
    let base = Settings { model: StateSpaceOptions::default().into(), ..settings.clone() };
    let mut all = Vec::new();
    // No smooth curve has a season within a season.
    if !is_dated(schema) && nested.is_none() {
        curves(&base, data.n, &mut all);
    }
    // Many rows do without the plain trends, and beside a season within a season the smooth one has to do.
    let trends = if data.n > MANY { 2 } else { 0 }..if nested.is_some() { 3 } else { TRENDS.len() };
    let plain = structural(&base, &seasons, (data.n, trends.clone(), None), &mut all);
    let of_logarithm = logarithm.map(|target_transform| Settings { target_transform, ..base.clone() });
    if let Some(log) = &of_logarithm {
        structural(log, &seasons, (data.n, trends, Some(plain)), &mut all);
    }
    if let Some(kernel) = nested {
        let mut add = |settings: &Settings, trend: &str| {
            let settings = Settings { kernel: format!("{trend} + {kernel}"), ..settings.clone() };
            all.push(Candidate { settings, link: None });
        };
        add(&base, TRENDS[0].0);
        // A walk of a logarithm may go so far that a forecast has no useful mean; what comes back does not.
        if let Some(log) = &of_logarithm {
            [TRENDS[0].0, LASTING.0].into_iter().for_each(|trend| add(log, trend));
        }
    }
    Ok(all)
}

/// Adds the curves of smooth functions of `n` rows.
fn curves(base: &Settings, n: usize, all: &mut Vec<Candidate>) {
    let (smooth, most) = SMOOTH;
    for kernel in CURVES.into_iter().chain((n <= most).then_some(smooth)) {
        let model = if kernel == smooth { usual() } else { base.model.clone() };
        let settings = Settings { kernel: kernel.into(), model, ..base.clone() };
        // The smoothest function would not leave a start at the lengthscale of a rough one.
        let link = (all.len() > 1 && kernel != smooth).then(|| Link { of: all.len() - 1, adds: false });
        all.push(Candidate { settings, link });
    }
}

/// Adds the structural kernels of `n` rows with some of the trends and returns the number of the first, which begins at
/// the model with the number `first`, if there is one.
fn structural(
    base: &Settings,
    seasons: &[String],
    (n, trends, first): (usize, Range<usize>, Option<usize>),
    all: &mut Vec<Candidate>,
) -> usize {
    let begin = all.len();
    let mut add = |trend: &str, locals: &[&str], link: Option<Link>| {
        let parts = std::iter::once(trend).chain(seasons.iter().map(String::as_str));
        let kernel = parts.chain(locals.iter().copied()).collect::<Vec<_>>().join(" + ");
        all.push(Candidate { settings: Settings { kernel, ..base.clone() }, link });
        all.len() - 1
    };
    let (left_out, several) = (trends.start, trends.len() > 1);
    let trends = &TRENDS[trends];
    let mut plain = Vec::new();
    for (trend, from) in trends {
        let earlier = from.and_then(|(at, adds): (usize, bool)| Some((*plain.get(at.checked_sub(left_out)?)?, adds)));
        let link = earlier.or(first.map(|first| (first, false))).map(|(of, adds)| Link { of, adds });
        plain.push(add(trend, &[], link));
    }
    for ((trend, _), of) in trends.iter().zip(plain) {
        let local = add(trend, &[LOCAL], Some(Link { of, adds: true }));
        let (lasting, least) = LASTING;
        if *trend == SMOOTH_TREND && n > least && several {
            add(trend, &[LOCAL, lasting], Some(Link { of: local, adds: true }));
        }
    }
    begin
}

/// A season whose shape walks.
fn season(period: f64) -> String {
    format!("periodic(period={period:?}, fix=period) * wiener")
}

/// The kernel, beside a trend, of a season in which another is repeated a few times, as days are in a week: it stays as
/// it is, and fine enough to make each day another; the shape of the day walks. None for seasons of which one does not
/// fit into the other.
fn nested(periods: &[f64]) -> Option<String> {
    let [short, long] = periods else { return None };
    let times = long / short;
    let whole = (2.0..=TIMES).contains(&times.round()) && (times / times.round() - 1.0).abs() < NEAR;
    let fixed = |period: f64, lengthscale: f64| {
        format!("periodic(period={period:?}, lengthscale={lengthscale:?}, fix=[period, lengthscale])")
    };
    whole.then(|| format!("{} * wiener + {} + {LOCAL}", fixed(*short, WITHIN), fixed(*long, FINE)))
}
