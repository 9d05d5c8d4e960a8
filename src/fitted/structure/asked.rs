//! The text that asks for structural kernels, and the seasons named in it.

use crate::data::TargetTransform;
use crate::data::calendar::YEAR;
use crate::error::{Error, Result};
use crate::fitted::Settings;

/// The text that stands for a kernel and asks for an average over structural kernels.
pub const AUTO: &str = "auto";

/// Names of seasons of dates, in years.
const NAMED: [(&str, f64); 6] = [
    ("year", 1.0),
    ("quarter", 0.25),
    ("month", 1.0 / 12.0),
    ("week", 7.0 / YEAR),
    ("day", 1.0 / YEAR),
    ("hour", 1.0 / (24.0 * YEAR)),
];

/// The name of a season of dates whose period is so many years.
pub fn name_of_season(period: f64) -> Option<&'static str> {
    NAMED.iter().find(|(_, years)| (period / years - 1.0).abs() < 1e-6).map(|(name, _)| *name)
}

/// What the text asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::fitted) struct Asked {
    /// Whether models of the target's logarithm may be among the members.
    pub log: bool,
    /// The logarithm, if the rows at hand are not all that it has to be for.
    pub logarithm: Option<TargetTransform>,
    /// Seasons by name, or by their period in units of the input; without this, those that the target shows.
    pub seasons: Option<Vec<String>>,
}

/// What settings ask for, if they ask for structural kernels.
///
/// # Errors
/// [`Error::Usage`] for other arguments.
pub(in crate::fitted) fn asked(settings: &Settings) -> Result<Option<Asked>> {
    let text: String = settings.kernel.split_whitespace().collect();
    let mut asked = Asked { log: true, logarithm: None, seasons: None };
    if text == AUTO {
        return Ok(Some(asked));
    }
    let Some(inside) = text.strip_prefix("auto(") else { return Ok(None) };
    let wrong = || {
        let text = format!(
            "kernel `{}`: write `{AUTO}`, `auto(log=false)` without models of the target's logarithm, or with seasons \
             `auto(season=year, season=week)`",
            settings.kernel
        );
        Error::Usage(text).about("Settings::kernel")
    };
    for part in inside.strip_suffix(')').ok_or_else(wrong)?.split(',') {
        match part.split_once('=') {
            Some(("log", "false")) => asked.log = false,
            Some(("season", name)) if !name.is_empty() => {
                asked.seasons.get_or_insert_default().push(name.into());
            }
            _ => return Err(wrong()),
        }
    }
    Ok(Some(asked))
}

/// The period of a season: of dates by its name, or a number.
///
/// # Errors
/// [`Error::Usage`] for unknown names, names without dates, and numbers that are no period.
pub(super) fn period(name: &str, dated: bool) -> Result<f64> {
    let named = NAMED.iter().find(|(known, _)| *known == name).filter(|_| dated);
    match named.map(|(_, years)| *years).or_else(|| name.parse().ok()) {
        Some(period) if period > 0.0 && f64::is_finite(period) => Ok(period),
        _ if dated => {
            let names: Vec<&str> = NAMED.iter().map(|(name, _)| *name).collect();
            Err(Error::Usage(format!("season `{name}`: there are {}, or a number of years", names.join(", "))))
        }
        _ => Err(Error::Usage(format!("season `{name}`: the input is no date, so write a period in its units"))),
    }
}
