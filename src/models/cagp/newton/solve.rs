//! Newton's method in the span of actions. Each step solves part of the problem, and all later steps reuse what it
//! computed.

use super::fixed::Fixed;
use super::linearised::Linearised;
use super::low_rank::LowRank;
use super::observed::Observed;
use super::options::{NewtonOptions, NewtonReport, Stopping};
use super::sites::Sites;
use super::small::Small;
use super::space::Space;
use crate::error::{Error, Result};
use crate::linalg::Factor;
use crate::linalg::real::dot;
use crate::models::cagp::SiteRule;
use crate::models::cagp::evaluation::Evaluation;
use crate::models::cagp::products::Products;
use crate::solvers::itergp::Stop;
use crate::solvers::policies::{Actor, Policy, SolveState};

/// Most halvings of a step.
pub(super) const HALVINGS: usize = 60;

/// The loss of the log posterior that counts as a rounding error, relative to its size.
pub(super) const ROUNDING: f64 = 1e-13;

/// The last full step may give back at most this share of the log posterior's gain over the prior mean.
const LOST: f64 = 0.5;

/// Whether the log posterior keeps what it gained from `start` to `now` if it goes to `then`.
pub(super) fn keeps(start: f64, now: f64, then: f64) -> bool {
    then >= now - LOST * (now - start).abs()
}

/// Below what a step takes no more actions.
#[derive(Clone, Copy)]
pub(super) enum Least {
    /// ‖g − v‖.
    Gradient(f64),
    /// ‖ŷ − m − K̂v‖.
    Residual(f64),
}

fn norm(x: &[f64]) -> f64 {
    dot(x, x).sqrt()
}

/// The result of Newton's method.
#[derive(Debug, Clone)]
pub struct Found {
    /// S, row-major `[i, n]`: one action in each row.
    pub actions: Vec<f64>,
    /// The sites at the latent mean that was found, or over the latent distribution.
    pub sites: Sites,
    /// The factor of `M = Sᵀ(K + W⁻¹)S`.
    pub factor: Factor<f64>,
    /// `Sᵀ(ŷ − m)` `[i]`.
    pub projected: Vec<f64>,
    /// What Newton's method reached.
    pub report: NewtonReport,
}

/// The problem to solve: a posterior mode, with covariances through their products.
pub(in crate::models::cagp) struct Problem<'a> {
    /// The rows, and the prior means of their latent values.
    pub observed: Observed<'a>,
    /// The same model in a wide scope, for policies.
    pub wide: Evaluation<'a>,
    /// Where sites are taken, once the actions are known.
    pub rule: SiteRule,
    /// Most actions in all.
    pub budget: usize,
    /// No more actions are taken when ‖g − v‖ / ‖g‖ is at most this.
    pub relative: f64,
}

/// The state of Newton's method.
struct At {
    f: Vec<f64>,
    v: Vec<f64>,
    sites: Sites,
    /// f − m.
    above: Vec<f64>,
    /// None before the first action.
    small: Option<Small>,
}

/// The solution of a step's system in the present span.
pub(super) struct Solution {
    /// K v.
    pub kv: Vec<f64>,
    pub v: Vec<f64>,
}

impl Solution {
    fn new(space: &Space, small: Option<&Small>) -> Self {
        let weights = small.map_or(&[][..], |small| &small.weights);
        Self { kv: space.combined(&space.products, weights), v: space.combined(&space.actions, weights) }
    }

    /// Adds the last action. It is conjugate to the earlier ones, which therefore keep their weights.
    pub fn extend(&mut self, space: &Space, small: Option<&Small>) {
        let Some(((s, t), weight)) = space.last().zip(small.and_then(|small| small.weights.last())) else { return };
        for (sum, column) in [(&mut self.v, s), (&mut self.kv, t)] {
            sum.iter_mut().zip(column).for_each(|(sum, c)| *sum += weight * c);
        }
    }
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
    pub fn solve(&self, policy: &dyn Policy, options: &NewtonOptions, from: Option<(&[f64], &[f64])>) -> Result<Found> {
        let functions = self.observed.at.functions;
        let mut space = Space { n: self.observed.mean.len(), functions, ..Space::default() };
        // f = m + T a, v = S a.
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
        let mut near = policy.rank().map(|rank| low(rank.max(most))).transpose()?;
        let (mut stop, mut halvings, mut explained) = (None, 0, !options.explain);
        let start = self.observed.sites(self.observed.mean.clone());
        let system = Linearised::new(self.wide, &start, &vec![0.0; space.n]);
        let most = functions.0 * self.directions_for(self.budget);
        // An approximation of K takes the actor's place.
        let mut actor: Box<dyn Actor> = match near {
            Some(_) => Box::new(|_: &dyn SolveState, _| Ok(None)),
            None => policy.start(&system, most)?,
        };
        for step in 1.. {
            let At { f, v, sites, above, mut small } = self.at(&space, &weights)?;
            let (residual, scale) = self.residual(&sites, &v)?;
            let by_change = options.stopping == Stopping::Change;
            if residual <= self.relative * scale && !by_change {
                stop = stop.or(Some(Stop::Converged));
            }
            let (before, mut reason) = (space.taken, None);
            let inner = if stop.is_none() { near.as_ref().map(|near| near.at(&sites)).transpose()? } else { None };
            let solver = near.as_ref().zip(inner.as_ref());
            let mut solution = Solution::new(&space, small.as_ref());
            while small.is_none() || (stop.is_none() && space.taken - before < options.per_step) {
                let least = match by_change {
                    true => Least::Residual(self.relative * norm(&sites.targets(&above)).max(1.0)),
                    false => Least::Gradient(self.relative * scale),
                };
                let chooser = (policy, &mut actor);
                reason = self.act(&mut space, (&mut small, &mut solution), (&sites, &above, solver), chooser, least)?;
                if space.taken == self.budget {
                    stop = stop.or(Some(Stop::Budget));
                }
                if reason.is_some() {
                    break;
                }
            }
            let Some(small) = small else {
                return Err(Error::NotFinite("the first action of Newton's method".into()));
            };
            weights.resize(space.len(), 0.0);
            let value = self.log_posterior(&f, &v);
            let least = value - ROUNDING * value.abs().max(1.0);
            let idle = space.taken == before;
            let found = (0..=if idle { 0 } else { HALVINGS }).find_map(|halving| {
                let length = 0.5f64.powi(halving as i32);
                let weights: Vec<f64> =
                    weights.iter().zip(&small.weights).map(|(from, to)| from + length * (to - from)).collect();
                let (f, v) = self.place(&space, &weights);
                let value = self.log_posterior(&f, &v);
                let accepted = value >= least || ((least.is_nan() || by_change) && value.is_finite());
                accepted.then_some((halving, weights, f))
            });
            let mut change = 0.0;
            if let Some((halving, moved, to)) = found {
                let size = above.iter().fold(1.0f64, |size, h| size.max(h.abs()));
                let by: Vec<f64> = to.iter().zip(&f).map(|(to, from)| to - from).collect();
                change = match by_change {
                    true => norm(&by) / norm(&self.observed.above(&to)).max(f64::MIN_POSITIVE),
                    false => by.iter().fold(0.0f64, |most, by| most.max(by.abs())) / size,
                };
                (weights, halvings) = (moved, halvings + halving);
            }
            if idle && change <= options.settled {
                stop = stop.or(reason);
            }
            if by_change && change <= options.settled {
                stop = stop.or(Some(Stop::Converged));
            }
            let left = self.budget.saturating_sub(space.taken);
            if !explained && idle && stop.is_some() && left > 0 && change <= options.settled {
                let near = match near.take() {
                    Some(near) => near,
                    None => low(self.directions_for(left))?,
                };
                self.explain(&mut space, small, (&sites, &above), &near, left)?;
                weights.resize(space.len(), 0.0);
                explained = true;
                continue;
            }
            if let Some(count) = options.kept.filter(|count| space.len() > *count) {
                weights = space.compress(&small, &weights, (count, options.compression))?;
            }
            if ((idle || by_change) && stop.is_some() && change <= options.settled) || step >= options.steps {
                let At { f, v, mut sites, above, small } = self.at(&space, &weights)?;
                let Some(mut small) = small else { break };
                let (residual, scale) = self.residual(&sites, &v)?;
                // The posterior's mean is one more step, in full. If it leads astray, as it may before the steps have
                // settled, pseudo-targets `f + W⁻¹v` make f the mean.
                let (to, pull) = self.place(&space, &small.weights);
                let start = self.observed.log_density(&self.observed.mean);
                if !by_change && !keeps(start, self.log_posterior(&f, &v), self.log_posterior(&to, &pull)) {
                    sites.gradient = v;
                    small = space.at(&sites, &above)?.unwrap_or(small);
                }
                let report = NewtonReport {
                    stop: stop.unwrap_or(Stop::Exhausted),
                    steps: step,
                    halvings,
                    actions: space.taken,
                    products: space.multiplied,
                    residual,
                    scale,
                    flat: sites.flat() as f64 / self.observed.mean.len() as f64,
                };
                let (sites, Small { factor, projected, .. }) = self.averaged(&space, sites, small)?;
                return Ok(Found { actions: space.actions, sites, factor, projected, report });
            }
        }
        Err(Error::NotFinite("the posterior of Newton's method".into()))
    }

    /// The sites that the rule requires, and the small system there, starting from those at the mode.
    fn averaged(&self, space: &Space, sites: Sites, small: Small) -> Result<(Sites, Small)> {
        if self.rule == SiteRule::Mode {
            return Ok((sites, small));
        }
        let (observed, gram, settled) = (&self.observed, space.gram()?, 0.0);
        let actions = Fixed { observed, s: space.numbers(), gram, ks: space, settled };
        observed.averaged((sites, small), &actions)
    }

    /// f and v for weights of the actions.
    fn place(&self, space: &Space, weights: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let height = space.combined(&space.products, weights);
        (self.observed.latent(&height), space.combined(&space.actions, weights))
    }

    /// The state at given weights.
    fn at(&self, space: &Space, weights: &[f64]) -> Result<At> {
        let (f, v) = self.place(space, weights);
        let (above, sites) = (self.observed.above(&f), self.observed.sites(f.clone()));
        let small = space.at(&sites, &above)?;
        Ok(At { f, v, sites, above, small })
    }

    /// ‖g − v‖ and ‖g‖.
    fn residual(&self, sites: &Sites, v: &[f64]) -> Result<(f64, f64)> {
        let off: Vec<f64> = sites.gradient.iter().zip(v).map(|(g, v)| g - v).collect();
        let [residual, scale] = [&off, &sites.gradient].map(|x| dot(x, x).sqrt());
        if residual.is_finite() {
            return Ok((residual, scale));
        }
        Err(Error::NotFinite("the gradient of the log posterior".into()))
    }

    /// `ln p(y | f) − ½ vᵀ(f − m)`.
    fn log_posterior(&self, f: &[f64], v: &[f64]) -> f64 {
        let density = self.observed.log_density(f);
        let quadratic: f64 = f.iter().zip(&self.observed.mean).zip(v).map(|((f, m), v)| (f - m) * v).sum();
        density - 0.5 * quadratic
    }
}
