//! Whether intervals hold, and whether the rows can tell.

use serde::Serialize;

/// With fewer rows, nothing is said about intervals.
pub(super) const FEW: usize = 20;
/// Rows can tell whether intervals hold only if 50 % intervals that hold so seldom would not pass.
const POWERLESS: f64 = 0.25;

/// How often a central interval held.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Held {
    /// Its probability.
    pub level: f64,
    /// The share of targets in it.
    pub share: f64,
    /// The lower end of the range that is expected if the model is right: 99 of 100 cases of independent rows
    /// (binomial), nearly all draws, and a few points on either side of the probability.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Whether the share is in that range.
    pub holds: bool,
}

/// Whether intervals hold, as far as the rows can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verdict {
    /// They do.
    Hold,
    /// They hold less often than they say.
    TooNarrow,
    /// They hold more often than they say.
    TooWide,
    /// Some hold less often, others more often.
    WrongShape,
    /// Too few independent rows: intervals that fail badly would pass as well.
    TooFew,
    /// The noise is at its floor: rows left out in turn lie farther from other rows than new ones between them, and
    /// nearer than new ones beyond.
    Noiseless,
    /// They are as wide as the errors, but predictions are far worse than the mean.
    Worse,
}

impl Verdict {
    /// Whether intervals hold; none if it cannot be told.
    pub fn holds(self) -> Option<bool> {
        match self {
            Self::Hold => Some(true),
            Self::TooNarrow | Self::TooWide | Self::WrongShape => Some(false),
            Self::TooFew | Self::Noiseless | Self::Worse => None,
        }
    }

    /// The verdict on the intervals of `n` rows.
    pub(super) fn of(n: usize, [half, most]: &[Held; 2]) -> Self {
        let narrow = |held: &Held| held.holds || held.share < held.level;
        let wide = |held: &Held| held.holds || held.share > held.level;
        match (half.holds && most.holds, narrow(half) && narrow(most), wide(half) && wide(most)) {
            _ if n < FEW => Self::TooFew,
            (true, ..) if half.low <= POWERLESS => Self::TooFew,
            (true, ..) => Self::Hold,
            (_, true, _) => Self::TooNarrow,
            (.., true) => Self::TooWide,
            _ => Self::WrongShape,
        }
    }
}
