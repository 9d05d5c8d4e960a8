//! Dates after those of a series, and round dates of an axis: months and years as the calendar has them, not as so many
//! days.
//!
//! Dates are decimal years in tables: years of 365.25 days, of which the first of January 2000 is 2000.0. So a day and
//! a week are the same part of every year, and seasons of both keep their phase; from 1900 to 2100, the first of
//! January is at most a day away from a whole year. Conversions between days and dates are those of the proleptic
//! Gregorian calendar (Hinnant 2021, *chrono-compatible low-level date algorithms*).

/// Seconds of a day.
const DAY: i64 = 86_400;

/// Days of a year in tables.
pub const YEAR: f64 = 365.25;

/// Days from 1970 to 2000.
const ORIGIN: i64 = 10_957;

/// The distance between the dates of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// So many calendar months; 12 are a year. Dates at the end of a month stay there.
    Months {
        /// Months.
        count: i64,
        /// Whether all dates are the last day of their month.
        ends: bool,
    },
    /// So many seconds.
    Seconds(i64),
}

/// A date: year, month, day, and seconds of the day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Civil {
    year: i64,
    month: i64,
    day: i64,
    second: i64,
}

impl Step {
    /// The usual distance between dates, given as decimal years in any order; none for fewer than two different ones.
    /// Dates on the same day of different months are months apart.
    pub fn of(years: &[f64]) -> Option<Self> {
        let mut all: Vec<i64> = years.iter().map(|year| seconds(*year)).collect();
        all.sort_unstable();
        all.dedup();
        if all.len() < 2 {
            return None;
        }
        let dates: Vec<Civil> = all.iter().map(|second| Civil::of(*second)).collect();
        let clock = dates.iter().all(|date| date.second == dates[0].second);
        let ends = clock && dates.iter().all(|date| date.day == days_in_month(date.year, date.month));
        if clock && (ends || dates.iter().all(|date| date.day == dates[0].day)) {
            let months: Vec<i64> = dates.iter().map(|date| 12 * date.year + date.month).collect();
            return Some(Self::Months { count: median_gap(&months), ends });
        }
        Some(Self::Seconds(median_gap(&all)))
    }

    /// The decimal years of the `count` dates after a last one.
    pub fn after(self, last: f64, count: usize) -> Vec<f64> {
        let last = seconds(last);
        let later = |i: usize| {
            let i = i as i64 + 1;
            match self {
                Self::Seconds(step) => last + i * step,
                Self::Months { count, ends } => {
                    let date = Civil::of(last);
                    let month = 12 * date.year + date.month - 1 + i * count;
                    let (year, month) = (month.div_euclid(12), month.rem_euclid(12) + 1);
                    let most = days_in_month(year, month);
                    let day = if ends { most } else { date.day.min(most) };
                    DAY * days(year, month, day) + date.second
                }
            }
        };
        (0..count).map(|i| decimal(later(i))).collect()
    }
}

/// Decimal years as ISO dates, with the time of day if one has any.
pub fn written(years: &[f64]) -> Vec<String> {
    let dates: Vec<Civil> = years.iter().map(|year| Civil::of(seconds(*year))).collect();
    let timed = dates.iter().any(|date| date.second != 0);
    let one = |Civil { year, month, day, second }: &Civil| {
        let date = format!("{year:04}-{month:02}-{day:02}");
        match timed {
            false => date,
            true => format!("{date}T{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60),
        }
    };
    dates.iter().map(one).collect()
}

/// Seconds between ticks of less than a month.
const FINE: [i64; 15] = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, DAY, 2 * DAY, 7 * DAY];
/// Months between ticks.
const COARSE: [i64; 13] = [1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 6000, 12_000];

/// At most `count` round dates between two decimal years, with their labels: years, months, days or times, Mondays for
/// weeks. None outside the years 1 to 9999.
pub fn ticks(low: f64, high: f64, count: usize) -> Vec<(f64, String)> {
    if !(low >= 1.0 && high < 10_000.0 && low < high) {
        return Vec::new();
    }
    let (first, last) = (seconds(low), seconds(high));
    let fits = |step: i64| (last - first) / step < count.max(1) as i64;
    if let Some(step) = FINE.into_iter().find(|step| fits(*step)) {
        // The first of January 1970 was a Thursday.
        let shift = if step == 7 * DAY { 4 * DAY } else { 0 };
        let start = (first - shift).div_euclid(step) * step + shift;
        let label = |Civil { year, month, day, second }: Civil| match step {
            DAY.. => format!("{year:04}-{month:02}-{day:02}"),
            60..DAY => format!("{month:02}-{day:02} {:02}:{:02}", second / 3600, second / 60 % 60),
            _ => format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60),
        };
        let times = (0..).map(|i| start + i * step).skip_while(|t| *t < first).take_while(|t| *t <= last);
        return times.map(|t| (decimal(t), label(Civil::of(t)))).collect();
    }
    let (begin, end) = (Civil::of(first), Civil::of(last));
    let (begin, end) = (12 * begin.year + begin.month - 1, 12 * end.year + end.month - 1);
    let found = COARSE.into_iter().find(|step| (end - begin) / step < count.max(1) as i64);
    let Some(step) = found else { return Vec::new() };
    let start = begin.div_euclid(step) * step;
    let months = (0..).map(|i| start + i * step).take_while(|month| *month <= end);
    let tick = |month: i64| {
        let (year, month) = (month.div_euclid(12), month.rem_euclid(12) + 1);
        let label = if step % 12 == 0 { format!("{year}") } else { format!("{year:04}-{month:02}") };
        (decimal(DAY * days(year, month, 1)), label)
    };
    months.map(tick).filter(|(at, _)| *at >= low && *at <= high).collect()
}

/// The median distance between sorted numbers, of which there are two or more.
fn median_gap(sorted: &[i64]) -> i64 {
    let mut gaps: Vec<i64> = sorted.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    gaps[gaps.len() / 2]
}

/// Seconds since 1970 of a decimal year.
fn seconds(year: f64) -> i64 {
    DAY * ORIGIN + ((year - 2000.0) * YEAR * DAY as f64).round() as i64
}

/// The decimal year of seconds since 1970, as tables have it.
fn decimal(second: i64) -> f64 {
    of_days(second.div_euclid(DAY), second.rem_euclid(DAY) as f64)
}

/// The decimal year of a date and seconds of its day.
#[cfg(feature = "table")]
pub(super) fn decimal_year([year, month, day]: [i64; 3], seconds: f64) -> f64 {
    of_days(days(year, month, day), seconds)
}

fn of_days(since_1970: i64, seconds: f64) -> f64 {
    2000.0 + ((since_1970 - ORIGIN) as f64 + seconds / DAY as f64) / YEAR
}

/// Days since 1970 of a date.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn days_in_month(year: i64, month: i64) -> i64 {
    let (next_year, next) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    days(next_year, next, 1) - days(year, month, 1)
}

impl Civil {
    fn of(second: i64) -> Self {
        let shifted = second.div_euclid(DAY) + 719_468;
        let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let shifted_month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = year + era * 400 + i64::from(month <= 2);
        Self { year, month, day, second: second.rem_euclid(DAY) }
    }
}
