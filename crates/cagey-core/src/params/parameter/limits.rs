//! What a user says about the values of a parameter: initial values, bounds and priors.

use super::Parameter;
use crate::error::{Error, Result};
use crate::params::constraint::{Constraint, LARGEST, logistic};
use crate::params::{Prior, shown};

impl Parameter {
    /// Sets values that a user gives: one for all entries, or one for each, in the user's units. A positive value below
    /// the floor of the parameter removes the floor.
    ///
    /// # Errors
    /// [`Error::Usage`] if the number of values is wrong, or the constraint does not permit a value.
    pub fn give(&mut self, values: &[f64]) -> Result<()> {
        let (want, got) = (self.len(), values.len());
        if got != 1 && got != want {
            let want = if want == 1 { "1 value".to_string() } else { format!("1 or {want} values") };
            return Err(Error::Usage(format!("initial value of {}: it takes {want}, got {got}", self.name)));
        }
        let values: Vec<f64> = (0..want).map(|i| values[i % got]).collect();
        if let Constraint::Positive { floor } = self.constraint
            && values.iter().zip(&self.scale).any(|(value, scale)| *value > 0.0 && value / scale <= floor)
        {
            self.constraint = Constraint::FREE;
        }
        for (i, &value) in values.iter().enumerate() {
            let (lower, upper) = self.constraint.room(self.scale[i], self.offset(i));
            if !(lower < value && value < upper) {
                let (name, value, lower, upper) = (&self.name, shown(value), shown(lower), shown(upper));
                if value == "0" && !matches!(self.constraint, Constraint::Real) {
                    return Err(Error::Usage(format!(
                        "initial value of {name}: it is positive; for next to none, give a small number such as {}",
                        shown(1e-10 * self.scale[i])
                    )));
                }
                return Err(Error::Usage(format!(
                    "initial value of {name}: {value} does not lie within {lower}..{upper}"
                )));
            }
        }
        self.put(&values);
        self.given = true;
        Ok(())
    }

    /// Confines the user values to `lower..upper`. A value outside that was not [given](Self::given) moves to the
    /// middle, where there is a gradient: the geometric middle for a positive lower bound, else the arithmetic one.
    ///
    /// # Errors
    /// [`Error::Usage`] unless `lower < upper`, when a positive parameter gets a negative lower bound, or when a given
    /// value lies outside.
    pub fn set_bounds(&mut self, lower: f64, upper: f64) -> Result<()> {
        if !(-LARGEST <= lower && lower < upper && upper <= LARGEST) {
            return Err(Error::Usage(format!(
                "bounds of {}: need lower < upper of at most 1e100, got {lower}..{upper}",
                self.name
            )));
        }
        if lower < 0.0 && !matches!(self.constraint, Constraint::Real) {
            return Err(Error::Usage(format!(
                "bounds of {}: it is positive, so the lower bound {lower} must not be negative",
                self.name
            )));
        }
        let mut values = self.values();
        let outside = |value: &f64| !(lower < *value && *value < upper);
        if let Some(value) = values.iter().copied().find(outside).filter(|_| self.given) {
            return Err(Error::Usage(format!(
                "bounds of {}: its initial value {} does not lie within {lower}..{upper}; change one of them",
                self.name,
                shown(value)
            )));
        }
        let middle = if lower > 0.0 { lower.sqrt() * upper.sqrt() } else { 0.5 * (lower + upper) };
        values.iter_mut().filter(|value| outside(value)).for_each(|value| *value = middle);
        self.constraint = Constraint::Interval { lower, upper };
        self.put(&values);
        Ok(())
    }

    /// The priors of the user values: none, one for all entries, or one for each.
    pub fn priors(&self) -> &[Option<Prior>] {
        &self.priors
    }

    /// Gives one entry, or all of them, a prior of the user value.
    ///
    /// # Errors
    /// [`Error::Shape`] if there is no such entry.
    pub fn set_prior(&mut self, entry: Option<usize>, prior: Prior) -> Result<()> {
        match entry {
            None => self.priors = vec![Some(prior)],
            Some(entry) if entry >= self.len() => {
                let (what, entries) = (format!("an entry of `{}`", self.name), self.len());
                return Err(Error::shape(what, format!("one of {entries}, counted from 0"), entry.to_string()));
            }
            Some(entry) => {
                let all = self.priors.first().copied().flatten().filter(|_| self.priors.len() == 1);
                if self.priors.len() != self.len() {
                    self.priors = vec![all; self.len()];
                }
                self.priors[entry] = Some(prior);
            }
        }
        Ok(())
    }

    /// The prior of an entry.
    fn prior(&self, entry: usize) -> Option<Prior> {
        let of_all = self.priors.first().filter(|_| self.priors.len() == 1);
        of_all.or(self.priors.get(entry)).copied().flatten()
    }

    /// The negative log prior density of the user values, and its gradient in the raw values; none without a prior.
    pub fn neg_log_prior(&self) -> Option<(f64, Vec<f64>)> {
        if self.priors.is_empty() {
            return None;
        }
        let (values, slopes) = (self.values(), self.internal_slope());
        let mut total = 0.0;
        let gradient = (0..self.len())
            .map(|i| {
                let (value, slope) = self.prior(i).map_or((0.0, 0.0), |prior| prior.neg_log_density(values[i]));
                total += value;
                slope * self.scale[i] * slopes[i]
            })
            .collect();
        Some((total, gradient))
    }

    /// The [curvature](Prior::curvature) of the negative log prior density in each raw value; zero without a prior.
    pub fn prior_curvature(&self) -> Vec<f64> {
        let (values, slopes) = (self.values(), self.internal_slope());
        let of = |i: usize| self.prior(i).map_or(0.0, |prior| prior.curvature(values[i]));
        (0..self.len()).map(|i| of(i) * (self.scale[i] * slopes[i]).powi(2)).collect()
    }

    /// Whether an entry is within a thousandth of a bound of its interval, or has come to its floor.
    pub fn at_bound(&self) -> bool {
        (0..self.len()).any(|entry| self.entry_at_bound(entry))
    }

    fn entry_at_bound(&self, entry: usize) -> bool {
        match self.constraint {
            Constraint::Real => false,
            Constraint::Positive { floor } => floor > 0.0 && self.internal_at(entry).0 < floor * 1.01,
            Constraint::Interval { .. } => !(1e-3..=1.0 - 1e-3).contains(&logistic(self.raw[entry])),
        }
    }

    /// For each [free](Self::free) value, whether it is at a bound.
    #[doc(hidden)]
    pub fn free_at_bound(&self) -> Vec<bool> {
        match self.tied {
            true => vec![self.at_bound(); self.freedom()],
            false => (0..self.freedom()).map(|entry| self.entry_at_bound(entry)).collect(),
        }
    }
}
