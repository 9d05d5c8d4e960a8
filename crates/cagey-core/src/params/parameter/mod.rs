//! One parameter: a named vector of numbers.

mod limits;

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::constraint::{Constraint, LARGEST};
use super::{Prior, Unit, all_finite, entries};
use crate::error::{Error, Result};

/// A named vector of numbers that a model learns.
#[derive(Debug, Serialize, Deserialize)]
pub struct Parameter {
    #[serde(skip, default = "fresh_id")]
    id: u64,
    /// The field's name: `lengthscale`, `variance`, `noise`, …
    pub name: String,
    raw: Vec<f64>,
    constraint: Constraint,
    /// Priors of the user values: none, one for all entries, or one for each.
    #[serde(rename = "prior", with = "entries")]
    priors: Vec<Option<Prior>>,
    /// A fixed parameter keeps its value in training.
    pub fixed: bool,
    /// Tied entries move together in training: the differences of their raw values stay the same.
    #[serde(skip)]
    #[doc(hidden)]
    pub tied: bool,
    /// Whether the user gave the value. Otherwise it is chosen from the data before training.
    pub given: bool,
    /// The unit of its numbers.
    pub unit: Unit,
    scale: Vec<f64>,
    /// One for all entries, or one for each.
    #[serde(with = "entries")]
    offset: Vec<f64>,
}

fn fresh_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Clone for Parameter {
    /// A clone is a parameter of its own: it has another identity and learns separately.
    fn clone(&self) -> Self {
        let Self { name, raw, scale, offset, priors, .. } = self;
        let (name, raw, priors) = (name.clone(), raw.clone(), priors.clone());
        let (scale, offset) = (scale.clone(), offset.clone());
        Self { id: fresh_id(), name, raw, scale, offset, priors, ..*self }
    }
}

impl Parameter {
    /// A positive parameter (lengthscale, variance, …) with values in user units.
    pub fn positive(name: &str, unit: Unit, values: &[f64]) -> Self {
        Self::new(name, unit, Constraint::FREE, values)
    }

    /// An unconstrained parameter with values in user units.
    pub fn real(name: &str, unit: Unit, values: &[f64]) -> Self {
        Self::new(name, unit, Constraint::Real, values)
    }

    /// A parameter with any constraint. Values outside the constraint are moved to the nearest point inside.
    pub fn new(name: &str, unit: Unit, constraint: Constraint, values: &[f64]) -> Self {
        let mut parameter = Self {
            id: fresh_id(),
            name: name.into(),
            raw: vec![0.0; values.len()],
            constraint,
            priors: Vec::new(),
            fixed: false,
            tied: false,
            given: false,
            unit,
            scale: vec![1.0; values.len()],
            offset: vec![0.0],
        };
        parameter.put(values);
        parameter
    }

    /// The problem that makes its numbers invalid, if any. Files can contain anything, and a training can end anywhere.
    #[doc(hidden)]
    pub fn problem(&self) -> Option<&'static str> {
        let Self { raw, scale, offset, .. } = self;
        let bounds = match self.constraint {
            Constraint::Real => true,
            Constraint::Positive { floor } => (0.0..=LARGEST).contains(&floor),
            Constraint::Interval { lower, upper } => -LARGEST <= lower && lower < upper && upper <= LARGEST,
        };
        if scale.len() != raw.len() || !(offset.len() == 1 || offset.len() == raw.len()) {
            Some("does not have as many scales and offsets as values")
        } else if !all_finite(raw) || !all_finite(&self.internal()) {
            Some("has a value that is not finite")
        } else if !all_finite(scale) || !all_finite(offset) || scale.iter().any(|scale| *scale <= 0.0) {
            Some("has a unit too small or too large for numbers: rescale the columns")
        } else if !bounds {
            Some("has invalid bounds")
        } else {
            None
        }
    }

    /// The identity of this parameter within the process.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Whether the parameter is a lengthscale along the inputs.
    pub fn is_length(&self) -> bool {
        self.unit == Unit::Length && self.name == "lengthscale"
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.raw.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// The constraint in force.
    pub fn constraint(&self) -> Constraint {
        self.constraint
    }

    /// The unconstrained values that an optimiser moves.
    pub fn raw(&self) -> &[f64] {
        &self.raw
    }

    /// Replaces the unconstrained values.
    ///
    /// # Errors
    /// [`Error::Shape`] if there is not one for each entry.
    pub fn set_raw(&mut self, raw: &[f64]) -> Result<()> {
        self.fits(raw)?;
        self.put_raw(raw);
        Ok(())
    }

    /// [`set_raw`](Self::set_raw) for values whose number is right.
    #[doc(hidden)]
    pub fn put_raw(&mut self, raw: &[f64]) {
        self.raw.iter_mut().zip(raw).for_each(|(own, raw)| *own = *raw);
    }

    /// Refuses values unless there is one for each entry.
    fn fits(&self, values: &[f64]) -> Result<()> {
        let (want, got) = (self.len(), values.len());
        let wrong = || Error::shape(format!("values of `{}`", self.name), want.to_string(), got.to_string());
        if got == want { Ok(()) } else { Err(wrong()) }
    }

    /// The number of values that an optimiser moves.
    pub fn freedom(&self) -> usize {
        match (self.fixed, self.tied) {
            (true, _) => 0,
            (false, true) => self.len().min(1),
            (false, false) => self.len(),
        }
    }

    /// The values that an optimiser moves.
    pub(crate) fn free(&self) -> &[f64] {
        &self.raw[..self.freedom()]
    }

    /// Sets the [free](Self::free) values. If entries are tied, the others move with the first.
    pub(crate) fn set_free(&mut self, free: &[f64]) {
        match free {
            [first] if self.tied => {
                let by = first - self.raw[0];
                self.raw.iter_mut().for_each(|raw| *raw += by);
            }
            free => self.raw[..free.len()].copy_from_slice(free),
        }
    }

    /// Turns a gradient in the raw values into one in the [free](Self::free) values.
    #[doc(hidden)]
    pub fn freed(&self, gradient: Vec<f64>) -> Vec<f64> {
        if self.tied && !self.fixed { vec![gradient.iter().sum()] } else { gradient }
    }

    /// A gradient in the internal values as one in the raw values that an optimiser moves.
    pub fn raw_slope(&self, slope: Vec<f64>) -> Vec<f64> {
        self.freed(match self.constraint {
            Constraint::Real => slope,
            _ => slope.iter().zip(self.internal_slope()).map(|(g, s)| g * s).collect(),
        })
    }

    /// Values in standardised units, as tensors use them.
    pub fn internal(&self) -> Vec<f64> {
        match self.constraint {
            Constraint::Real => self.raw.clone(),
            _ => (0..self.len()).map(|i| self.internal_at(i).0).collect(),
        }
    }

    /// d internal / d raw of each entry.
    pub fn internal_slope(&self) -> Vec<f64> {
        match self.constraint {
            Constraint::Real => vec![1.0; self.len()],
            _ => (0..self.len()).map(|i| self.internal_at(i).1).collect(),
        }
    }

    fn internal_at(&self, i: usize) -> (f64, f64) {
        self.constraint.internal(self.raw[i], self.scale[i], self.offset(i))
    }

    fn offset(&self, i: usize) -> f64 {
        self.offset.get(i).or(self.offset.last()).copied().unwrap_or(0.0)
    }

    /// Converts standardised values to the user's units.
    fn in_units(&self, internal: &[f64]) -> Vec<f64> {
        internal.iter().zip(&self.scale).enumerate().map(|(i, (v, s))| v * s + self.offset(i)).collect()
    }

    /// Values in the user's units.
    pub fn values(&self) -> Vec<f64> {
        self.in_units(&self.internal())
    }

    /// Sets values in the user's units, one for each entry. A value at or beyond a bound is moved just inside.
    ///
    /// # Errors
    /// [`Error::Shape`] if there is not one for each entry.
    pub fn set(&mut self, values: &[f64]) -> Result<()> {
        self.fits(values)?;
        self.put(values);
        Ok(())
    }

    /// [`set`](Self::set) for values whose number is right.
    #[doc(hidden)]
    pub fn put(&mut self, values: &[f64]) {
        self.raw = values
            .iter()
            .zip(&self.scale)
            .enumerate()
            .map(|(i, (&value, &scale))| self.constraint.raw(value, scale, self.offset(i)))
            .collect();
        self.scale.resize(self.raw.len(), 1.0);
    }

    /// Sets values in standardised units, as [`set`](Self::set) does for the user's units.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn set_internal(&mut self, values: &[f64]) -> Result<()> {
        self.fits(values)?;
        self.put_internal(values);
        Ok(())
    }

    /// [`set_internal`](Self::set_internal) for values whose number is right.
    #[doc(hidden)]
    pub fn put_internal(&mut self, values: &[f64]) {
        self.put(&self.in_units(values));
    }

    /// Replaces the entries by `values`, of any number. Keeps constraint and prior.
    pub fn resize(&mut self, values: &[f64]) {
        self.scale = vec![1.0; values.len()];
        self.put(values);
    }

    /// Adds entries with these raw values. Their scales and offsets are those of the first `period` entries, in turn.
    #[doc(hidden)]
    pub fn extend(&mut self, raw: &[f64], period: usize) {
        for (i, value) in raw.iter().enumerate() {
            self.raw.push(*value);
            self.scale.push(self.scale[i % period]);
            if self.offset.len() > 1 {
                self.offset.push(self.offset[i % period]);
            }
        }
    }

    /// Sets how internal values relate to user values (user = scale · internal + offset). Keeps the user values.
    ///
    /// # Errors
    /// [`Error::Shape`] if there is not one scale for each entry.
    pub fn set_scale(&mut self, scale: Vec<f64>, offset: f64) -> Result<()> {
        self.fits(&scale)?;
        self.put_scale(scale, offset);
        Ok(())
    }

    /// [`set_scale`](Self::set_scale) for scales whose number is right.
    #[doc(hidden)]
    pub fn put_scale(&mut self, scale: Vec<f64>, offset: f64) {
        self.put_scales(scale, vec![offset]);
    }

    /// [`put_scale`](Self::put_scale) with an offset for each entry.
    #[doc(hidden)]
    pub fn put_scales(&mut self, scale: Vec<f64>, offset: Vec<f64>) {
        let values = self.values();
        self.scale = scale;
        self.offset = offset;
        self.put(&values);
    }

    /// The user value of an entry that is 1 in standardised units; 1 if there is no such entry.
    pub fn unit_of(&self, entry: usize) -> f64 {
        self.scale.get(entry).copied().unwrap_or(1.0)
    }
}
