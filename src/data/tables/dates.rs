//! Dates in the forms that people write them, as decimal years.

use jiff::civil::{Date, DateTime, Time};
use jiff::{Timestamp, tz::Offset};

use super::options::DateOrder;
use crate::data::calendar;

/// A date as a decimal year.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum When {
    /// Only one reading is possible.
    Known(f64),
    /// Day and month are numbers before the year. A reading that no calendar has is absent; one is there.
    Slashed { day_first: Option<f64>, month_first: Option<f64> },
    /// The year has two digits.
    ShortYear,
}

impl When {
    /// The decimal year, if day and month come in this order.
    pub(super) fn year(self, order: Option<DateOrder>) -> Option<f64> {
        match (self, order) {
            (Self::Known(year), _) => Some(year),
            (Self::Slashed { day_first, .. }, Some(DateOrder::Day)) => day_first,
            (Self::Slashed { month_first, .. }, Some(DateOrder::Month)) => month_first,
            (Self::Slashed { day_first, month_first }, None) => match (day_first, month_first) {
                (Some(year), None) | (None, Some(year)) => Some(year),
                (day, month) => day.filter(|_| day == month),
            },
            (Self::ShortYear, _) => None,
        }
    }

    /// The only order in which this is a date.
    pub(super) fn order(self) -> Option<DateOrder> {
        match self {
            Self::Slashed { day_first: Some(_), month_first: None } => Some(DateOrder::Day),
            Self::Slashed { day_first: None, month_first: Some(_) } => Some(DateOrder::Month),
            _ => None,
        }
    }
}

/// A date or date-time: ISO 8601, or year, month and day as numbers or with the month's name, or a month or quarter of
/// a year (its first day). Times with an offset from UTC are converted to UTC.
pub(super) fn when(text: &str) -> Option<When> {
    let text = text.trim();
    if !text.contains(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let iso = match text.parse::<Timestamp>() {
        Ok(instant) => Some(Offset::UTC.to_datetime(instant)),
        Err(_) => text.parse::<DateTime>().ok(),
    };
    if let Some(when) = iso {
        return Some(When::Known(decimal_year(when)));
    }
    if let Some(day) = day(text, Time::midnight()) {
        return Some(day);
    }
    let (date, time) = text.split_once(' ').filter(|(date, _)| date.contains(['/', '.', '-']))?;
    day(date, clock(time.trim())?)
}

/// Whether a text that is a date has an offset from UTC.
pub(super) fn has_offset(text: &str) -> bool {
    let time = text.trim().split_once(['T', 't', ' ']).map_or("", |(_, time)| time);
    time.ends_with(['Z', 'z']) || time.contains(['+', '-']) && time.contains(':')
}

/// The time of a day, also with AM or PM.
fn clock(text: &str) -> Option<Time> {
    let upper = text.to_ascii_uppercase();
    let half = [("AM", 0), ("PM", 12)].into_iter().find_map(|(mark, add)| Some((upper.strip_suffix(mark)?, add)));
    let padded = |text: &str| if text.find(':') == Some(1) { format!("0{text}") } else { text.to_string() };
    let (text, add) = half.map_or((upper.as_str(), None), |(text, add)| (text.trim(), Some(add)));
    let time: Time = padded(text).parse().ok()?;
    match add {
        None => Some(time),
        Some(add) => Time::new(time.hour() % 12 + add, time.minute(), time.second(), time.subsec_nanosecond()).ok(),
    }
}

/// A day without its time, a month or a quarter.
fn day(text: &str, time: Time) -> Option<When> {
    let known = |year: i16, month: i8, day: i8| {
        Date::new(year, month, day).ok().map(|date| When::Known(decimal_year(date.to_datetime(time))))
    };
    let parts: Vec<&str> = text.split(['-', '/', '.', ' ', ',']).filter(|part| !part.is_empty()).collect();
    let year = |part: &str| (part.len() == 4).then(|| part.parse::<i16>().ok()).flatten();
    let number = |part: &str| (part.len() <= 2).then(|| part.parse::<i8>().ok()).flatten();
    match parts[..] {
        [one] => {
            // `1960Q1`, `1960M01`.
            let (whole, rest) = (year(one.get(..4)?)?, one.get(4..)?.to_ascii_uppercase());
            match (quarter(&rest), rest.strip_prefix('M').and_then(number)) {
                (Some(month), _) | (None, Some(month)) => known(whole, month, 1),
                _ => None,
            }
        }
        [a, b] => {
            let month = |part| quarter(part).or_else(|| month(part)).or_else(|| number(part));
            match (year(a), year(b)) {
                (Some(year), None) => known(year, month(b)?, 1),
                (None, Some(year)) => known(year, month(a)?, 1),
                (None, None) if month_and_short_year(a, b) => Some(When::ShortYear),
                _ => None,
            }
        }
        [a, b, c] => match (year(a), year(c)) {
            (Some(year), _) => known(year, month(b).or_else(|| number(b))?, number(c)?),
            (None, Some(year)) => match (month(a), month(b)) {
                (Some(month), _) => known(year, month, number(b)?),
                (None, Some(month)) => known(year, month, number(a)?),
                (None, None) => {
                    let reading = |day, month| known(year, month, day).and_then(|when| when.year(None));
                    let (a, b) = (number(a)?, number(b)?);
                    // Points stand between day, month and year, in this order.
                    let [day_first, month_first] = [reading(a, b), reading(b, a).filter(|_| !text.contains('.'))];
                    (day_first.or(month_first)).map(|_| When::Slashed { day_first, month_first })
                }
            },
            (None, None) => {
                let short = c.len() == 2 && number(c).is_some() && number(a).is_some_and(|a| (1..=31).contains(&a));
                let named = month(b).is_some();
                let slashed = text.contains('/') && number(b).is_some_and(|b| (1..=31).contains(&b));
                (short && (named || slashed)).then_some(When::ShortYear)
            }
        },
        _ => None,
    }
}

/// `Jan` and `49` of `Jan-49`.
fn month_and_short_year(a: &str, b: &str) -> bool {
    let short = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    (month(a).is_some() && short(b)) || (short(a) && month(b).is_some())
}

/// The first month of `Q1`, `q2`, ….
fn quarter(text: &str) -> Option<i8> {
    let number: i8 = text.strip_prefix(['Q', 'q'])?.parse().ok()?;
    (1..=4).contains(&number).then_some(3 * number - 2)
}

/// The number of a month from its English name or the first three letters of it.
pub(super) fn month(text: &str) -> Option<i8> {
    const NAMES: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let text = text.trim().trim_end_matches('.').to_ascii_lowercase();
    let named = |name: &&str| **name == text || name[..3] == text || (text == "sept" && name.starts_with("sept"));
    NAMES.iter().position(named).map(|at| at as i8 + 1)
}

/// The decimal year of a time.
fn decimal_year(when: DateTime) -> f64 {
    let seconds = f64::from(when.hour()) * 3600.0
        + f64::from(when.minute()) * 60.0
        + f64::from(when.second())
        + f64::from(when.subsec_nanosecond()) * 1e-9;
    calendar::decimal_year([when.year().into(), when.month().into(), when.day().into()], seconds)
}
