//! Increasing functions of single input columns, which bring heavy tails in before columns are standardised.
//!
//! Every function has the units of its column and slope 1 at the column's median. So lengthscales and other parameters
//! of a warped column are in the units of the data there, and mean less far from it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::metrics::Predictive;
use crate::suggest::hint;

/// A kind of function of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum WarpKind {
    /// The column as it is.
    None,
    /// asinh((x − median) / s), where s is the distance between the outer tenths, as a standard deviation: linear
    /// around the median, logarithmic on both sides.
    Asinh,
    /// The normal quantile of the share of smaller values: the column becomes normal.
    Ranks,
    /// The logarithm, for positive columns.
    Log,
}

impl WarpKind {
    const ALL: [(&'static str, Self); 4] =
        [("none", Self::None), ("asinh", Self::Asinh), ("ranks", Self::Ranks), ("log", Self::Log)];
}

impl fmt::Display for WarpKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(_, kind)| kind == self).map_or("none", |(name, _)| name);
        f.pad(name)
    }
}

/// What is asked of the inputs: a kind for all columns, or none if the data decide, and others for single columns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Warping {
    /// The kind for all columns that are not named. None: [`asinh`](WarpKind::Asinh) for heavy-tailed columns if
    /// targets are classes, and otherwise the columns as they are; an average over kernels has a member on ranks
    /// besides, and one of models for many rows what trials propose.
    pub all: Option<WarpKind>,
    /// The kinds of single columns; none as for `all`.
    pub columns: Vec<(String, Option<WarpKind>)>,
}

impl Warping {
    /// The same function for all columns.
    pub fn all(kind: WarpKind) -> Self {
        Self { all: Some(kind), columns: Vec::new() }
    }

    /// Whether nothing is asked.
    pub fn is_auto(&self) -> bool {
        self.all.is_none() && self.columns.iter().all(|(_, kind)| kind.is_none())
    }

    /// Adds what a text asks: `asinh`, `none`, `ranks`, `log` or `auto`, or one of these for a column: `income=log`.
    ///
    /// # Errors
    /// [`Error::Usage`] for another text.
    pub fn add(&mut self, text: &str) -> Result<()> {
        let (column, name) = text.rsplit_once('=').map_or((None, text), |(column, name)| (Some(column.trim()), name));
        let kind = match name.trim() {
            "auto" => None,
            name => Some(name.parse()?),
        };
        match column {
            Some(column) => self.columns.push((column.into(), kind)),
            None => self.all = kind,
        }
        Ok(())
    }

    /// The functions for columns `x`, row-major `[n, d]`; for none of them if all stay as they are. `classes` says
    /// whether targets are.
    ///
    /// # Errors
    /// [`Error::Usage`] for a column that is not there, [`Error::Data`] for a logarithm of what is not positive.
    pub fn fit(&self, x: &[f64], names: &[String], classes: bool) -> Result<Vec<Warp>> {
        if let Some((name, _)) = self.columns.iter().find(|(name, _)| !names.contains(name)) {
            let problem = format!("there is no input `{name}` to transform; {}", hint(name, names, "the inputs are"));
            return Err(Error::Usage(problem).about("Settings::input_transform"));
        }
        let d = names.len();
        let column = |(at, name): (usize, &String)| {
            let own = self.columns.iter().rfind(|(column, _)| column == name).map_or(self.all, |(_, kind)| *kind);
            let values = || x[at..].iter().step_by(d).copied();
            if own == Some(WarpKind::None) || (own.is_none() && !classes) {
                return Ok(Warp::Identity);
            }
            let sorted = Sorted::of(values());
            match own {
                Some(kind) => Warp::fit(kind, &sorted).map_err(|least| {
                    let problem =
                        format!("the input `{name}` has the value {least}, and a logarithm needs more than 0");
                    Error::Data(problem).about("Settings::input_transform")
                }),
                None if sorted.is_heavy() => Ok(sorted.asinh()),
                None => Ok(Warp::Identity),
            }
        };
        let warps: Vec<Warp> = names.iter().enumerate().map(column).collect::<Result<_>>()?;
        Ok(if warps.iter().all(|warp| *warp == Warp::Identity) { Vec::new() } else { warps })
    }
}

impl FromStr for WarpKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind);
        found.ok_or_else(|| {
            let problem = format!("`{name}` is no transform of inputs: choose none, asinh, ranks, log or auto");
            Error::Usage(problem).about("Settings::input_transform")
        })
    }
}

/// The function of a column, increasing and finite everywhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Warp {
    /// x.
    Identity,
    /// c + s asinh((x − c) / s).
    Asinh {
        /// c: the median.
        centre: f64,
        /// s: about a standard deviation.
        scale: f64,
    },
    /// c + c ln(x / c), and its tangent below the least value.
    Log {
        /// c: the median.
        centre: f64,
        /// The least value of the training rows.
        least: f64,
    },
    /// Lines between these points, and the outer lines beyond them.
    Ranks {
        /// Values of the column, increasing.
        from: Vec<f64>,
        /// Theirs, increasing.
        to: Vec<f64>,
    },
}

impl Warp {
    /// Fits a kind. A column of two values or one stays as it is.
    ///
    /// # Errors
    /// The least value, if it is not positive and the logarithm was asked for.
    fn fit(kind: WarpKind, sorted: &Sorted) -> std::result::Result<Self, f64> {
        let least = sorted.values.first().copied().unwrap_or(1.0);
        Ok(match kind {
            WarpKind::Log if least <= 0.0 => return Err(least),
            _ if sorted.is_binary() => Self::Identity,
            WarpKind::None => Self::Identity,
            WarpKind::Asinh => sorted.asinh(),
            WarpKind::Log => Self::Log { centre: sorted.quantile(0.5), least },
            WarpKind::Ranks => sorted.ranks(),
        })
    }

    /// The function.
    pub fn forward(&self, x: f64) -> f64 {
        match self {
            Self::Identity => x,
            Self::Asinh { centre, scale } => centre + scale * ((x - centre) / scale).asinh(),
            Self::Log { centre, least } => {
                centre * (1.0 + (x.max(*least) / centre).ln()) + centre / least * (x - least).min(0.0)
            }
            Self::Ranks { from, to } => line(from, to, x),
        }
    }

    /// The inverse function.
    pub fn inverse(&self, w: f64) -> f64 {
        match self {
            Self::Identity => w,
            Self::Asinh { centre, scale } => centre + scale * ((w - centre) / scale).sinh(),
            Self::Log { centre, least } => {
                let at = self.forward(*least);
                centre * (w.max(at) / centre - 1.0).exp() + least / centre * (w - at).min(0.0)
            }
            Self::Ranks { from, to } => line(to, from, w),
        }
    }

    /// Its kind.
    pub fn kind(&self) -> WarpKind {
        match self {
            Self::Identity => WarpKind::None,
            Self::Asinh { .. } => WarpKind::Asinh,
            Self::Log { .. } => WarpKind::Log,
            Self::Ranks { .. } => WarpKind::Ranks,
        }
    }

    /// Whether it is an increasing function. Files can contain anything.
    pub fn is_sound(&self) -> bool {
        let positive = |value: &f64| value.is_finite() && *value > 0.0;
        match self {
            Self::Identity => true,
            Self::Asinh { centre, scale } => centre.is_finite() && positive(scale),
            Self::Log { centre, least } => positive(centre) && positive(least),
            Self::Ranks { from, to } => {
                let rises = |all: &[f64]| all.iter().all(|x| x.is_finite()) && all.windows(2).all(|w| w[0] < w[1]);
                from.len() == to.len() && from.len() >= 2 && rises(from) && rises(to)
            }
        }
    }
}

/// The broken line through points, at x; beyond them, the outer lines.
fn line(from: &[f64], to: &[f64], x: f64) -> f64 {
    let above = from.partition_point(|knot| *knot < x).clamp(1, from.len() - 1);
    let slope = (to[above] - to[above - 1]) / (from[above] - from[above - 1]);
    // From the nearer end, so that knots are met exactly, and those far away add no rounding errors.
    let near = if from[above] - x < x - from[above - 1] { above } else { above - 1 };
    to[near] + slope * (x - from[near])
}

/// The share of a normal distribution's values in the outer tenths, in standard deviations between them.
const TENTHS: f64 = 0.39;
/// Most points of the line of ranks, without the two beyond the values.
const KNOTS: usize = 129;
/// A column has a heavy tail if its largest distance from the median is this many standard deviations, as the outer
/// tenths give them: more than a normal distribution reaches in any table, and less than a log-normal one.
const HEAVY: f64 = 8.0;

/// The values of a column, increasing.
struct Sorted {
    values: Vec<f64>,
}

impl Sorted {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_unstable_by(f64::total_cmp);
        Self { values }
    }

    fn quantile(&self, share: f64) -> f64 {
        let at = (share * (self.values.len().max(1) - 1) as f64).round() as usize;
        self.values.get(at).copied().unwrap_or_default()
    }

    /// Whether there are two values or one.
    fn is_binary(&self) -> bool {
        let (first, last) = (self.quantile(0.0), self.quantile(1.0));
        self.values.iter().all(|value| *value == first || *value == last)
    }

    /// About a standard deviation, by the outer tenths. Where most values are the same, the median distance of the
    /// others from them.
    fn scale(&self) -> f64 {
        let (centre, tenths) = (self.quantile(0.5), TENTHS * (self.quantile(0.9) - self.quantile(0.1)));
        if tenths > 0.0 {
            return tenths;
        }
        let others = self.values.iter().map(|value| (value - centre).abs()).filter(|distance| *distance > 0.0);
        Some(Self::of(others).quantile(0.5)).filter(|scale| *scale > 0.0).unwrap_or(1.0)
    }

    /// Whether a tail is heavy.
    fn is_heavy(&self) -> bool {
        let centre = self.quantile(0.5);
        let far = (self.quantile(1.0) - centre).max(centre - self.quantile(0.0));
        !self.is_binary() && far > HEAVY * self.scale()
    }

    fn asinh(&self) -> Warp {
        Warp::Asinh { centre: self.quantile(0.5), scale: self.scale() }
    }

    /// The line through normal quantiles of ranks, with slope about 1 in the middle. Equal values have the mean rank.
    fn ranks(&self) -> Warp {
        let n = self.values.len() as f64;
        let normal = Predictive::Normal { mean: self.quantile(0.5), sd: self.scale() };
        let mut points: Vec<[f64; 2]> = Vec::new();
        let mut below = 0;
        for equal in self.values.chunk_by(|a, b| a == b) {
            let rank = (below as f64 + 0.5 * equal.len() as f64) / n;
            points.push([equal[0], normal.quantile(rank)]);
            below += equal.len();
        }
        let last = points.len() - 1;
        let kept = last.min(KNOTS - 1);
        let mut at: Vec<usize> = (0..=kept).map(|k| (k * last).div_ceil(kept.max(1)).min(last)).collect();
        at.dedup();
        // Values that differ by rounding only may have the same place.
        at.dedup_by(|b, a| points[*b][0] <= points[*a][0] || points[*b][1] <= points[*a][1]);
        if at.len() < 2 {
            return Warp::Identity;
        }
        let kept: Vec<[f64; 2]> = at.iter().map(|k| points[*k]).collect();
        // The last ranks of a column without tails are far apart, but a row a little beyond its values must not be far
        // from all others: the outer lines are no steeper than the middle.
        let (first, last) = (kept[0], kept[kept.len() - 1]);
        let width = last[0] - first[0];
        let beyond = |end: [f64; 2], next: [f64; 2], by: f64| {
            [end[0] + by, end[1] + by * ((next[1] - end[1]) / (next[0] - end[0])).min(1.0)]
        };
        let below = beyond(first, kept[1], -width);
        let above = beyond(last, kept[kept.len() - 2], width);
        let all = || std::iter::once(below).chain(kept.iter().copied()).chain([above]);
        Warp::Ranks { from: all().map(|point| point[0]).collect(), to: all().map(|point| point[1]).collect() }
    }
}
