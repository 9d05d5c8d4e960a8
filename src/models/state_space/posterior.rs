//! Predictions by the filter and the backward pass over all rows, or, after the last of them, by the filter alone.

use std::sync::OnceLock;

use super::StateSpaceGp;
use super::chain::{Pass, Visit};
use super::program::{Blocks, Program};
use super::rows::{Axes, Rows};
use crate::device::Compute;
use crate::error::Result;
use crate::linalg::real::dot;
use crate::models::Observations;
use crate::models::exact::{ExactGp, ExactObjective, changes_little};
use crate::models::leave_one_out::{Influence, LeaveOneOut};
use crate::models::posterior::{self, Exact, Joint, Marginals, Posterior, VARIANCE_FLOOR};
use crate::params::Parameters;
use crate::scope::{Scope, to_f64};
use crate::serving::Served;
use crate::solvers::blocks::scale_rows;

/// The posterior of a [`StateSpaceGp`].
#[derive(Debug, Clone)]
pub struct StateSpacePosterior {
    pub(super) model: StateSpaceGp,
    compute: Compute,
    data: Observations,
    axes: Axes,
    pub(super) blocks: Blocks,
    pub(super) pass: Pass,
    /// (K̂⁻¹(y − m))ᵢ and (K̂⁻¹)ᵢᵢ of each row.
    residuals: OnceLock<Vec<[f64; 2]>>,
    influence: OnceLock<Influence>,
}

impl StateSpacePosterior {
    pub(super) fn new(model: StateSpaceGp, compute: Compute, data: Observations) -> Result<Self> {
        let (axes, blocks) = Program::blocks(&model.prior.kernel, data.d)?;
        let pass = blocks.pass(sorted(&model, compute, (axes, &blocks), &data)?)?;
        Ok(Self::given(model, compute, data, (axes, blocks), pass))
    }

    /// That of a prior given the normal observations of a pass, whether or not they are the data's.
    pub(super) fn given(
        model: StateSpaceGp,
        compute: Compute,
        data: Observations,
        (axes, blocks): (Axes, Blocks),
        pass: Pass,
    ) -> Self {
        let (residuals, influence) = Default::default();
        Self { model, compute, data, axes, blocks, pass, residuals, influence }
    }

    /// The observations conditioned on.
    pub fn data(&self) -> &Observations {
        &self.data
    }

    /// Minus the log density of the targets, in nats.
    pub fn evidence(&self) -> f64 {
        -self.pass.forward.value
    }

    /// Conditions on more observations. Later rows take one step of the filter each; others, and those of several
    /// series, begin anew.
    ///
    /// # Errors
    /// As [`StateSpaceGp::posterior`]; [`Shape`](crate::Error::Shape) when the columns differ.
    pub fn condition(&self, more: &Observations) -> Result<Self> {
        let data = self.data.extended(more)?;
        let new = sorted(&self.model, self.compute, (self.axes, &self.blocks), more)?;
        if new.t.first().is_some_and(|first| *first < self.pass.rows.last()) {
            return Self::new(self.model.clone(), self.compute, data);
        }
        let pass = self.pass.extended(&self.blocks, new)?;
        Ok(Self::given(self.model.clone(), self.compute, data, (self.axes, self.blocks.clone()), pass))
    }

    /// Closed-form leave-one-out predictions of the observations y (not f).
    pub fn leave_one_out(&self) -> Marginals {
        let residuals = self.residuals.get_or_init(|| self.pass.residuals(&self.blocks));
        let rows = self.data.y.iter().zip(residuals);
        let (mean, variance) = rows.map(|(y, [u, m])| (y - u / m, 1.0 / m)).unzip();
        Marginals { mean, variance, floored: 0 }
    }

    /// Prior means at times.
    fn means(&self, x: &[f64]) -> Result<Vec<f64>> {
        let scope = Scope::new(self.compute)?;
        to_f64(self.model.prior.mean.at(&scope, &scope.rows(x, self.axes.d))?)
    }

    /// Mean and variance of the blocks of a summand of the kernel, or of all, at times; without the prior mean.
    fn smoothed(&self, x: &[f64], summand: Option<usize>) -> Result<Marginals> {
        let (own, times) = (self.blocks.of(summand), self.axes.times(x));
        let t = &times.t;
        let mut all = Marginals { mean: vec![0.0; t.len()], variance: vec![0.0; t.len()], floored: 0 };
        let mut h = Vec::new();
        let d = self.blocks.width();
        let mut put = |place: usize, mean: f64, variance: f64| {
            let prior = cagey_base::state_space::variance(&own.blocks, t[place]);
            let (floor, variance) = (VARIANCE_FLOOR * prior, variance + own.noise());
            all.floored += usize::from(variance < floor);
            all.mean[place] = mean;
            all.variance[place] = if variance < floor { floor } else { variance };
        };
        if t.iter().all(|t| *t >= self.pass.rows.last()) {
            let later = Rows::new(times.clone(), Vec::new(), vec![f64::INFINITY; t.len()]);
            let mut seen = |row: usize, mean: &[f64], covariance: &[f64]| {
                own.observed(later.t[row], &mut h);
                put(later.place(row), along(&h, mean), dot(&carried(&h, covariance, d), &spread(&h, d)));
            };
            self.blocks.forward(&later, Some(&self.pass.forward.last), Some(&mut seen))?;
            return Ok(all);
        }
        self.blocks.pass(self.pass.rows.with(&times))?.back(&self.blocks, None, |place, visit| {
            let Some(place) = place.checked_sub(self.data.n()) else { return };
            own.observed(t[place], &mut h);
            let (mean, variance) = visit.smoothed(&h, d);
            put(place, mean, variance);
        });
        Ok(all)
    }

    /// The joint distribution at times `x`. The covariance of states at times i < j is Pᵢ Lᵢᵀ … Lⱼ₋₁ᵀ (I − Nⱼ Pⱼ), with
    /// L = A (I − K H) (de Jong and MacKinnon 1988, *Covariances for smoothed estimates in state space models*).
    fn joint(&self, x: &[f64]) -> Result<Joint> {
        let (times, d, n) = (self.axes.times(x), self.blocks.width(), self.data().n());
        let (t, m) = (&times.t, times.t.len());
        let (mut mean, mut h) = (self.means(x)?, Vec::new());
        let pass = self.blocks.pass(self.pass.rows.with(&times))?;
        // (I − N P) h of each new row.
        let mut ends = vec![Vec::new(); m];
        pass.back(&self.blocks, None, |place, visit| {
            let Some(place) = place.checked_sub(n) else { return };
            self.blocks.observed(t[place], &mut h);
            let ph = carried(&h, visit.covariance, d);
            mean[place] += along(&h, visit.mean) + dot(&ph, visit.r);
            let back = visit.n.chunks(d).map(|row| dot(row, &ph));
            ends[place] = spread(&h, d).iter().zip(back).map(|(h, np)| h - np).collect();
        });
        let (mut covariance, mut seen) = (vec![0.0; m * m], Vec::new());
        self.blocks.carried(&pass.rows, &mut |row, states, vectors| {
            let Some(place) = pass.rows.place(row).checked_sub(n) else { return };
            self.blocks.observed(t[place], &mut h);
            vectors.extend(carried(&h, states, d));
            seen.push(place);
            for (vector, other) in vectors.chunks(d).zip(&seen) {
                let value = dot(vector, &ends[place]);
                covariance[place * m + other] = value;
                covariance[other * m + place] = value;
            }
        });
        let white = self.blocks.noise();
        covariance.iter_mut().step_by(m + 1).for_each(|value| *value += white);
        Ok(Joint { mean, covariance })
    }
}

/// The rows of data in order of time, with all noise.
fn sorted(
    model: &StateSpaceGp,
    compute: Compute,
    (axes, blocks): (Axes, &Blocks),
    data: &Observations,
) -> Result<Rows> {
    let scope = Scope::new(compute)?;
    let batch = data.batch(&scope);
    let white = blocks.noise();
    let noise = to_f64(batch.noise(&scope.widened(), &model.likelihood))?;
    let residual = to_f64(model.prior.residuals(&scope, &batch)?)?;
    Ok(Rows::new(axes.times(&to_f64(batch.x)?), residual, noise.into_iter().map(|noise| noise + white).collect()))
}

/// Σ h s over what a row observes.
fn along(h: &[(usize, f64)], s: &[f64]) -> f64 {
    h.iter().map(|(at, h)| h * s[*at]).sum()
}

/// P hᵀ.
fn carried(h: &[(usize, f64)], covariance: &[f64], d: usize) -> Vec<f64> {
    let mut sums = vec![0.0; d];
    for (at, h) in h {
        sums.iter_mut().zip(&covariance[at * d..]).for_each(|(sum, p)| *sum += h * p);
    }
    sums
}

/// h as a vector of all states.
fn spread(h: &[(usize, f64)], d: usize) -> Vec<f64> {
    let mut all = vec![0.0; d];
    h.iter().for_each(|(at, h)| all[*at] = *h);
    all
}

impl Visit<'_> {
    /// The mean and variance of what is observed, given all rows.
    pub(super) fn smoothed(&self, h: &[(usize, f64)], d: usize) -> (f64, f64) {
        let ph = carried(h, self.covariance, d);
        let mean = along(h, self.mean) + dot(&ph, self.r);
        let explained: f64 = ph.iter().zip(self.n.chunks(d)).map(|(p, row)| p * dot(row, &ph)).sum();
        (mean, along(h, &ph) - explained)
    }
}

impl LeaveOneOut for StateSpacePosterior {
    fn left_out(&self, _data: &Observations) -> Result<Marginals> {
        Ok(self.leave_one_out())
    }

    /// That of the exact model, which is needed for few rows only.
    fn influence(&self) -> Result<Option<&Influence>> {
        let of = || {
            if changes_little(self.data.n(), self.model.free_raw().len()) {
                return Ok(Influence::default());
            }
            let StateSpaceGp { prior, likelihood } = self.model.clone();
            let exact = ExactGp { prior, likelihood, objective: ExactObjective::MarginalLikelihood };
            let exact = exact.posterior(self.compute, self.data.clone())?;
            Ok(exact.influence()?.cloned().unwrap_or_default())
        };
        posterior::once(&self.influence, of).map(Some)
    }

    /// Standardised residuals are D^-½L⁻ᵀ times normal numbers, as those of the exact model.
    fn residuals(&self, mut noise: Vec<f64>, count: usize, variance: &[f64]) -> Result<Vec<f64>> {
        self.pass.solve_transposed(&self.blocks, &mut noise, count);
        scale_rows(&mut noise, &variance.iter().map(|variance| variance.sqrt()).collect::<Vec<_>>());
        Ok(noise)
    }
}

impl Exact for StateSpacePosterior {
    fn predict_component(&self, index: usize, x: &[f64]) -> Result<Marginals> {
        self.model.prior.kernel.summand(index)?;
        posterior::rows(x, self.axes.d)?;
        self.smoothed(x, Some(index))
    }
}

impl Posterior for StateSpacePosterior {
    fn exact(&self) -> Option<&dyn Exact> {
        Some(self)
    }

    fn leave_one_out(&self) -> Option<&dyn LeaveOneOut> {
        Some(self)
    }

    fn predict(&self, x: &[f64]) -> Result<Marginals> {
        posterior::rows(x, self.axes.d)?;
        if x.is_empty() {
            return Ok(Marginals::default());
        }
        let mut all = self.smoothed(x, None)?;
        all.mean.iter_mut().zip(self.means(x)?).for_each(|(mean, prior)| *mean += prior);
        Ok(all)
    }

    fn updated(&self, more: &Observations) -> Result<Option<Box<dyn Posterior>>> {
        Ok(Some(Box::new(self.condition(more)?)))
    }

    fn predict_joint(&self, x: &[f64]) -> Result<Joint> {
        posterior::rows(x, self.axes.d)?;
        if x.is_empty() {
            return Ok(Joint::default());
        }
        self.joint(x)
    }

    fn served(&self, factor: bool) -> Result<Served> {
        Ok(match (factor, self.axes.series) {
            (false, _) => Served::refused(posterior::NO_FACTOR),
            (true, Some(_)) => Served::refused("it has several series"),
            (true, None) => self.states(),
        })
    }
}
