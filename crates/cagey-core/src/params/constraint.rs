//! The values that a parameter may have, and the map from unconstrained values.

use serde::{Deserialize, Serialize};

/// The set that a parameter's internal value is confined to, with the map from the raw value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Constraint {
    /// Any number; internal = raw.
    Real,
    /// Above a floor; internal = floor + exp(raw).
    Positive {
        /// Smallest internal value, in standardised units.
        floor: f64,
    },
    /// Between two bounds in user units; logistic in raw, on a logarithmic scale when the lower bound is positive.
    Interval {
        /// Lower bound in user units.
        lower: f64,
        /// Upper bound in user units.
        upper: f64,
    },
}

/// The limits for internal values of positive parameters. Within them, squares and ratios are still finite numbers.
const SMALLEST: f64 = 1e-100;
pub(super) const LARGEST: f64 = 1e100;

impl Constraint {
    /// The constraint of a positive parameter without bounds.
    #[doc(hidden)]
    pub const FREE: Self = Self::Positive { floor: 0.0 };

    /// The internal value of a raw one, and d internal / d raw, where user = scale · internal + offset.
    pub(super) fn internal(self, raw: f64, scale: f64, offset: f64) -> (f64, f64) {
        match self {
            Self::Real => (raw, 1.0),
            Self::Positive { floor } => {
                let e = raw.exp();
                let above = e.clamp(SMALLEST, LARGEST);
                (floor + above, if above == e { e } else { 0.0 })
            }
            Self::Interval { lower, upper } => {
                let share = logistic(raw);
                let slope = share * (1.0 - share);
                if lower > 0.0 {
                    let width = (upper / lower).ln();
                    let value = lower * (width * share).exp();
                    ((value - offset) / scale, value * width * slope / scale)
                } else {
                    let value = lower + (upper - lower) * share;
                    ((value - offset) / scale, (upper - lower) * slope / scale)
                }
            }
        }
    }

    /// The raw value for a user value. At or beyond a bound it is moved just inside.
    pub(super) fn raw(self, value: f64, scale: f64, offset: f64) -> f64 {
        let internal = (value - offset) / scale;
        match self {
            Self::Real => internal,
            Self::Positive { floor } => (internal - floor).max(1e-12 * internal.abs().max(1e-150)).ln(),
            Self::Interval { lower, upper } => {
                let share = if lower > 0.0 {
                    (value / lower).ln() / (upper / lower).ln()
                } else {
                    (value - lower) / (upper - lower)
                };
                let share = share.clamp(1e-9, 1.0 - 1e-9);
                (share / (1.0 - share)).ln()
            }
        }
    }

    /// The bounds of the values that a user may give, in the user's units.
    pub(super) fn room(self, scale: f64, offset: f64) -> (f64, f64) {
        match self {
            Self::Real => (offset - LARGEST * scale, offset + LARGEST * scale),
            Self::Positive { floor } => (offset + floor.max(SMALLEST) * scale, offset + LARGEST * scale),
            Self::Interval { lower, upper } => (lower, upper),
        }
    }
}

pub(super) fn logistic(x: f64) -> f64 {
    if x >= 0.0 { 1.0 / (1.0 + (-x).exp()) } else { x.exp() / (1.0 + x.exp()) }
}
