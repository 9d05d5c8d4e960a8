//! Forecasts of the last rows of a long series: how good a model is further ahead than the next row.

use super::{Fitted, StateSpaceOptions};
use crate::error::Result;
use crate::fitted::alternatives::in_order;
use crate::fitted::structure::MANY;
use crate::models::minibatch::Rows;
use crate::models::options::Kind;
use crate::threads::helped;

/// The shares of the rows after which forecasts begin, and the share that each predicts.
const BEGIN: [f64; 4] = [0.6, 0.7, 0.8, 0.9];
const AHEAD: f64 = 0.1;

/// Of more rows, the last ones are a series that is long enough.
const LAST: usize = 2500;

/// The independent errors that a forecast has, roughly: those of its rows go together.
const ERRORS: f64 = 8.0;

/// The logarithm of a weight is so many times the mean log density of forecasts.
pub(super) const WORTH: f64 = ERRORS * BEGIN.len() as f64;

impl Fitted {
    /// Whether forecasts tell how good this model is: that of a single series of more than a thousand rows with
    /// Gaussian targets.
    pub(super) fn is_long(&self) -> bool {
        let own = self.settings.model.kind() == StateSpaceOptions::NAME && self.is_gaussian();
        own && self.data.d == 1 && self.data.n() > MANY
    }

    /// Log densities of a [long](Self::is_long) series' last rows, in the units of the target, each predicted from the
    /// rows before one of four times. The parameters are those that all rows have.
    pub(super) fn forecasts(&self) -> Result<Vec<f64>> {
        let rows = in_order(self.data.n(), |row| self.data.x[row]);
        let rows = &rows[rows.len().saturating_sub(LAST)..];
        let share = |share: f64| (share * rows.len() as f64) as usize;
        let (plain, mut densities) = (self.uncalibrated(), Vec::new());
        for begin in BEGIN.map(share) {
            let next = &rows[begin..rows.len().min(begin + share(AHEAD))];
            let (past, next) = (self.data.gather(&rows[..begin])?, self.data.gather(next)?);
            let posterior = helped(|| self.model.condition(self.settings.compute, past))?;
            let known = Self { posterior: posterior.into(), ..plain.clone() };
            let told = known.predict_at(&next.x, next.auxiliary.as_deref())?;
            let y = next.y.iter().map(|z| self.target_scale.inverse(*z));
            densities.extend(told.iter().zip(y).map(|(told, y)| told.log_density(y)));
        }
        Ok(densities)
    }
}
