//! Newton's method in the span of actions. Each step solves part of the problem, and all later steps reuse what it
//! computed.

use super::fixed::Fixed;
use super::linearised::Linearised;
use super::low_rank::LowRank;
use super::observed::Observed;
use super::options::{NewtonOptions, NewtonReport, Stopping};
use super::sites::{Sites, largest};
use super::space::Space;
use crate::error::{Error, Result};
use crate::linalg::real::dot;
use crate::models::cagp::SiteRule;
use crate::models::cagp::evaluation::Evaluation;
use crate::models::cagp::numbers::Small;
use crate::solvers::itergp::Stop;
use crate::solvers::policies::{Actor, Policy, SolveState};

/// Most halvings of a step.
pub(super) const HALVINGS: usize = 60;

/// The loss of the log posterior that counts as a rounding error, relative to its size.
const ROUNDING: f64 = 1e-13;

/// Halves a step, at most so many times, until the log posterior does not fall below `now`, or is finite if `now` is
/// not a number. `to` gives the log posterior and the place after a part of the step. Returns the halvings and the
/// place; none if the log posterior falls at all of them.
pub(super) fn longest<T>(now: f64, most: usize, to: impl Fn(f64) -> (f64, T)) -> Option<(usize, T)> {
    let least = now - ROUNDING * now.abs().max(1.0);
    (0..=most).find_map(|halvings| {
        let (then, place) = to(0.5f64.powi(halvings as i32));
        (then >= least || (least.is_nan() && then.is_finite())).then_some((halvings, place))
    })
}

/// The last full step may give back at most this share of the log posterior's gain over the prior mean.
const LOST: f64 = 0.5;

/// Whether the log posterior keeps what it gained from `start` to `now` if it goes to `then`.
pub(super) fn keeps(start: f64, now: f64, then: f64) -> bool {
    then >= now - LOST * (now - start).abs()
}

pub(super) fn norm(x: &[f64]) -> f64 {
    dot(x, x).sqrt()
}

/// The result of Newton's method.
pub struct Found {
    /// S, row-major `[i, n]`: one action in each row.
    pub actions: Vec<f64>,
    /// The sites at the latent mean that was found, or over the latent distribution.
    pub sites: Sites,
    /// The system there.
    pub small: Small,
    /// What Newton's method reached.
    pub report: NewtonReport,
}

/// The problem to solve: a posterior mode, with covariances through their products.
pub(in crate::models::cagp) struct Problem<'a> {
    /// The rows, and the prior means of their latent values.
    pub observed: Observed<'a>,
    /// The same model in a wide scope, for policies.
    pub wide: Evaluation<'a>,
    /// What chooses the actions.
    pub policy: &'a dyn Policy,
    /// How far the method goes.
    pub options: NewtonOptions,
    /// Most actions in all.
    pub budget: usize,
    /// No more actions are taken when ‖g − v‖ / ‖g‖ is at most this.
    pub relative: f64,
}

/// Where weights of the actions lead.
pub(super) struct Place {
    /// f − m = K v.
    pub above: Vec<f64>,
    /// v = S a.
    pub v: Vec<f64>,
}

/// A step of Newton's method.
pub(super) struct Step {
    /// Where it starts.
    pub from: Place,
    /// The sites there.
    pub sites: Sites,
    /// The system at these sites; none before the first action.
    pub small: Option<Small>,
    /// Its solution in the present span.
    pub to: Place,
}

impl Problem<'_> {
    /// Climbs from the prior mean, or from given actions `[i, L n]` with their weights.
    ///
    /// A step solves `(K + W⁻¹)v = ŷ − m` in the span of the earlier actions and some new ones, and moves to the
    /// solution. The first new action is the gradient of the log posterior. If the log posterior
    /// `ln p(y | f) − ½ vᵀ(f − m)` would decrease, the step is halved, once or more. It increases for short steps
    /// because the gradient is in the span. When no more actions are taken, steps continue as long as it increases.
    /// Actions that are left then explain variances, if the options ask for it.
    ///
    /// # Errors
    /// [`Error::NotFinite`] when values are not finite, and what products report.
    pub fn solve(&self, from: Option<(&[f64], &[f64])>) -> Result<Found> {
        let (options, functions) = (self.options, self.observed.at.functions);
        let by_change = options.stopping == Stopping::Change;
        let mut space = Space { n: self.observed.mean.len(), functions, ..Space::default() };
        let mut weights: Vec<f64> = Vec::new();
        if let Some((actions, known)) = from {
            for s in actions.chunks_exact(space.n) {
                space.products.extend(self.product(s)?);
            }
            (space.actions, weights) = (actions.to_vec(), known.to_vec());
            (space.taken, space.multiplied) = (known.len(), known.len());
        }
        let low = |rank: usize| LowRank::new(&self.observed.at, rank);
        let most = if options.explain { self.directions_for(self.budget) } else { 0 };
        let mut near = self.policy.rank().map(|rank| low(rank.max(most))).transpose()?;
        let (mut stop, mut halvings, mut explained) = (None, 0, !options.explain);
        let start = self.observed.likely.sites(self.observed.mean.clone());
        let system = Linearised::new(self.wide, &start, &vec![0.0; space.n]);
        let most = functions.0 * self.directions_for(self.budget);
        // An approximation of K takes the actor's place.
        let mut actor: Box<dyn Actor> = match near {
            Some(_) => Box::new(|_: &dyn SolveState, _| Ok(None)),
            None => self.policy.start(&system, most)?,
        };
        let mut count = 0;
        loop {
            count += 1;
            let mut step = self.step(&space, &weights)?;
            let (residual, scale) = self.residual(&step)?;
            if residual <= self.relative * scale && !by_change {
                stop = stop.or(Some(Stop::Converged));
            }
            let (before, mut reason) = (space.taken, None);
            let inner = if stop.is_none() { near.as_ref().map(|near| near.at(&step.sites)).transpose()? } else { None };
            let near_here = near.as_ref().zip(inner.as_ref());
            while step.small.is_none() || (stop.is_none() && space.taken - before < options.per_step) {
                reason = self.act(&mut space, &mut step, near_here, &mut *actor)?;
                if space.taken == self.budget {
                    stop = stop.or(Some(Stop::Budget));
                }
                if reason.is_some() {
                    break;
                }
            }
            let Some(small) = &step.small else {
                return Err(Error::NotFinite("the first action of Newton's method".into()));
            };
            weights.resize(space.len(), 0.0);
            let idle = space.taken == before;
            let mut change = 0.0;
            if let Some((halved, part)) = self.part(&space, &step, (&weights, &small.weights), !idle) {
                ((weights, change), halvings) = (part, halvings + halved);
            }
            let settled = change <= options.settled;
            if idle && settled {
                stop = stop.or(reason);
            }
            if by_change && settled {
                stop = stop.or(Some(Stop::Converged));
            }
            let left = self.budget.saturating_sub(space.taken);
            if !explained && idle && stop.is_some() && left > 0 && settled {
                let near = match near.take() {
                    Some(near) => near,
                    None => low(self.directions_for(left))?,
                };
                self.explain(&mut space, &mut step, &near, left)?;
                weights.resize(space.len(), 0.0);
                explained = true;
                continue;
            }
            if let Some(kept) = options.kept.filter(|kept| space.len() > *kept) {
                weights = space.compress(small, &weights, (kept, options.compression))?;
            }
            if ((idle || by_change) && stop.is_some() && settled) || count >= options.steps {
                let report = NewtonReport {
                    stop: stop.unwrap_or(Stop::Exhausted),
                    steps: count,
                    halvings,
                    actions: space.taken,
                    products: space.multiplied,
                    residual,
                    scale,
                    flat: 0.0,
                };
                return self.finish(space, &weights, report);
            }
        }
    }

    /// The longest part of a step, between these weights, that keeps the log posterior; all of it or none unless it may
    /// be `halved`. Returns the halvings, the weights after it and its change of f, as a share.
    fn part(
        &self,
        space: &Space,
        step: &Step,
        (from, to): (&[f64], &[f64]),
        halved: bool,
    ) -> Option<(usize, (Vec<f64>, f64))> {
        let by_change = self.options.stopping == Stopping::Change;
        // Steps that end by their change are taken in full where that is finite.
        let now = if by_change { f64::NAN } else { self.log_posterior(&step.from) };
        longest(now, if halved { HALVINGS } else { 0 }, |length| {
            let weights: Vec<f64> = from.iter().zip(to).map(|(from, to)| from + length * (to - from)).collect();
            let to = self.place(space, &weights);
            let by: Vec<f64> = to.above.iter().zip(&step.from.above).map(|(to, from)| to - from).collect();
            let change = match by_change {
                true => norm(&by) / norm(&to.above).max(f64::MIN_POSITIVE),
                false => largest(&by, 0.0) / largest(&step.from.above, 1.0),
            };
            (self.log_posterior(&to), (weights, change))
        })
    }

    /// The posterior at given weights.
    fn finish(&self, space: Space, weights: &[f64], report: NewtonReport) -> Result<Found> {
        let mut step = self.step(&space, weights)?;
        let (residual, scale) = self.residual(&step)?;
        // The posterior's mean is one more step, in full. If it leads astray, as it may before the steps have settled,
        // pseudo-targets `f + W⁻¹v` make f the mean.
        let start = self.observed.likely.log_density(&self.observed.mean);
        let by_change = self.options.stopping == Stopping::Change;
        if !by_change && !keeps(start, self.log_posterior(&step.from), self.log_posterior(&step.to)) {
            step.sites.gradient = step.from.v;
            step.small = space.at(&step.sites, &step.from.above)?;
        }
        let Step { sites, small: Some(small), .. } = step else {
            return Err(Error::NotFinite("the posterior of Newton's method".into()));
        };
        let report = NewtonReport { residual, scale, flat: sites.flat() as f64 / space.n as f64, ..report };
        if self.observed.rule == SiteRule::Mode {
            return Ok(Found { actions: space.actions, sites, small, report });
        }
        let (sites, small) = Fixed::new(&self.observed, space.numbers(), &space, 0.0)?.averaged((sites, small))?;
        Ok(Found { actions: space.actions, sites, small, report })
    }

    fn place(&self, space: &Space, weights: &[f64]) -> Place {
        Place { above: space.combined(&space.products, weights), v: space.combined(&space.actions, weights) }
    }

    /// The step from given weights.
    fn step(&self, space: &Space, weights: &[f64]) -> Result<Step> {
        let from = self.place(space, weights);
        let sites = self.observed.likely.sites(self.observed.latent(&from.above));
        let small = space.at(&sites, &from.above)?;
        let to = self.place(space, small.as_ref().map_or(&[], |small| &small.weights));
        Ok(Step { from, sites, small, to })
    }

    /// ‖g − v‖ and ‖g‖.
    fn residual(&self, Step { from, sites, .. }: &Step) -> Result<(f64, f64)> {
        let off: Vec<f64> = sites.gradient.iter().zip(&from.v).map(|(g, v)| g - v).collect();
        match norm(&off) {
            residual if residual.is_finite() => Ok((residual, norm(&sites.gradient))),
            _ => Err(Error::NotFinite("the gradient of the log posterior".into())),
        }
    }

    /// `ln p(y | f) − ½ vᵀ(f − m)`.
    fn log_posterior(&self, Place { above, v }: &Place) -> f64 {
        self.observed.likely.log_density(&self.observed.latent(above)) - 0.5 * dot(above, v)
    }
}
