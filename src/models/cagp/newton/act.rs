//! New actions in Newton's method: their choice, their products with K, and their place in the small system.

use super::linearised::{Linearised, State};
use super::low_rank::LowRank;
use super::options::Stopping;
use super::solve::{Problem, Step, norm};
use super::space::Space;
use crate::error::{Error, Result};
use crate::linalg::Factor;
use crate::linalg::real::dot;
use crate::models::cagp::numbers::Small;
use crate::models::prior::Prior;
use crate::scope::to_f64;
use crate::solvers::blocks::transposed;
use crate::solvers::itergp::{Stop, epsilon};
use crate::solvers::policies::Actor;

/// The smallest share of `sᵀ(K + W⁻¹)s` that a new action must add to the earlier ones, in units of rounding.
const NEW: f64 = 16.0;

/// If less than this share of an action is left, it has lost digits that its product with K needs.
const CANCELLED: f64 = 0.1;

impl Problem<'_> {
    /// `K s`. Latent functions that share one covariance need one product.
    pub fn product(&self, s: &[f64]) -> Result<Vec<f64>> {
        let (at, n) = (&self.observed.at, self.observed.at.rows());
        let of = |prior: &Prior, s: &[f64]| {
            let columns = at.scope.matrix(&transposed(s, n), n, s.len() / n);
            to_f64(prior.covariance(at.scope, &at.batch.x).times(&columns)?.transpose())
        };
        if let [prior] = at.priors {
            return of(prior, s);
        }
        let each = at.priors.iter().zip(s.chunks_exact(n));
        let zero = |s: &[f64]| s.iter().all(|s| *s == 0.0);
        let products = each.map(|(prior, s)| if zero(s) { Ok(s.to_vec()) } else { of(prior, s) });
        Ok(products.collect::<Result<Vec<_>>>()?.concat())
    }

    /// Whether the gradient s of the log posterior, where a step leads, is so small that it takes no more actions.
    fn small_enough(&self, Step { from, sites, .. }: &Step, s: &[f64]) -> bool {
        match self.options.stopping {
            Stopping::Settled => norm(s) <= self.relative * norm(&sites.gradient),
            Stopping::Change => norm(&sites.spread(s)) <= self.relative * norm(&sites.targets(&from.above)).max(1.0),
        }
    }

    /// Takes one more action, or one for each class, or returns why there is none.
    pub(super) fn act(
        &self,
        space: &mut Space,
        step: &mut Step,
        near: Option<(&LowRank, &Factor<f64>)>,
        actor: &mut dyn Actor,
    ) -> Result<Option<Stop>> {
        let Step { from, sites, small, to } = &*step;
        let open: Vec<f64> = from.above.iter().zip(&to.above).map(|(h, t)| h - t).collect();
        let curved = sites.curved(&open);
        let mut s: Vec<f64> = (0..space.n).map(|i| sites.gradient[i] + curved[i] - to.v[i]).collect();
        let size = norm(&s);
        if !size.is_finite() {
            return Err(Error::NotFinite("an action of Newton's method".into()));
        }
        if small.is_some() && self.small_enough(step, &s) {
            return Ok(Some(Stop::Converged));
        }
        if size == 0.0 {
            // Targets at their prior mean: only what they say about the level is left to start with.
            let level = |i: usize| if sites.centred && i >= sites.rows { 0.0 } else { 1.0 };
            s = sites.curved(&(0..space.n).map(level).collect::<Vec<_>>());
        }
        // Steps climb because the gradient is in the span. If the budget is too small for the parts of all classes, the
        // gradient itself is the next action.
        let (mut reason, before, latents) = (None, space.taken, self.observed.at.functions.0);
        if self.policy.per_class() && sites.centred && before + latents <= self.budget {
            let product = if self.observed.at.priors.len() == 1 { Some(self.product(&s)?) } else { None };
            space.multiplied += usize::from(product.is_some());
            for class in 0..latents {
                let own =
                    |all: &[f64]| step.sites.of_function(&all[class * step.sites.rows..][..step.sites.rows], class);
                let (part, known) = (own(&s), product.as_deref().map(own));
                reason = reason.or(self.add(space, step, part, known)?);
            }
            return Ok(reason.filter(|_| space.taken == before));
        }
        let mut tried = Vec::new();
        // Of actions that do not follow the gradient, those of one class may depend on those of the others.
        for _ in 0..latents {
            // One action after another.
            let block = match near {
                Some((near, inner)) => near.preconditioned(inner, &step.sites, &s)?,
                None => {
                    let system = Linearised::new(self.wide, &step.sites, &step.from.above);
                    let state = State { system: &system, sites: &step.sites, space, gradient: &s };
                    let Some(block) = actor.next(&state, 1)? else { return Ok(Some(Stop::Exhausted)) };
                    to_f64(block.transpose())?
                }
            };
            if block == tried {
                break;
            }
            for s in block.chunks_exact(space.n).take(self.budget.saturating_sub(before)) {
                for part in step.sites.parts(s.to_vec()) {
                    let why_not = self.add(space, step, part, None)?;
                    reason = reason.or(why_not);
                    if why_not.is_none() {
                        break;
                    }
                }
            }
            if space.taken > before {
                return Ok(None);
            }
            tried = block;
        }
        Ok(reason)
    }

    /// The number of directions of each prior that so many actions can follow.
    pub fn directions_for(&self, actions: usize) -> usize {
        actions.div_ceil(self.parts())
    }

    /// How many actions each direction gives: one for each latent function, less one if they sum to 0 in each row.
    fn parts(&self) -> usize {
        let (latents, centred) = self.observed.at.functions;
        latents - usize::from(centred)
    }

    /// Takes at most `most` actions along the directions that data say most about at these sites. The mean needs no
    /// more actions then, but variances do.
    ///
    /// # Errors
    /// As [`solve`](Self::solve).
    pub(super) fn explain(&self, space: &mut Space, step: &mut Step, near: &LowRank, most: usize) -> Result<()> {
        let directions = near.directions(&step.sites, self.directions_for(most))?;
        let (parts, before, n) = (self.parts(), space.taken, step.sites.rows);
        // Functions that share a covariance share products.
        let products = match &directions[..] {
            [shared] if !shared.is_empty() => Some(self.product(&shared.concat())?),
            _ => None,
        };
        space.multiplied += products.as_ref().map_or(0, |products| products.len() / n);
        let longest = directions.iter().map(Vec::len).max().unwrap_or(0);
        for place in 0..longest {
            for part in 0..parts {
                if space.taken == before + most {
                    return Ok(());
                }
                let Some(x) = directions[part.min(directions.len() - 1)].get(place) else { continue };
                let own = |x: &[f64]| step.sites.of_function(x, part);
                let (s, known) = (own(x), products.as_ref().map(|products| own(&products[place * n..][..n])));
                self.add(space, step, s, known)?;
            }
        }
        Ok(())
    }

    /// Adds an action, or returns why it cannot be added. Its product with K is computed unless it is known.
    fn add(
        &self,
        space: &mut Space,
        step: &mut Step,
        mut s: Vec<f64>,
        known: Option<Vec<f64>>,
    ) -> Result<Option<Stop>> {
        let Step { from, sites, small, to } = step;
        let size = norm(&s);
        if size == 0.0 {
            return Ok(Some(Stop::Dependent));
        }
        s.iter_mut().for_each(|s| *s /= size);
        sites.centre(&mut s);
        let energy = |s: &[f64], t: &[f64]| dot(s, t) + dot(s, &sites.spread(s));
        let (mut t, mut products) = match known {
            Some(known) => (known.into_iter().map(|t| t / size).collect(), 0),
            None => (self.product(&s)?, 1),
        };
        let mut left = energy(&s, &t);
        if let Some(small) = &*small {
            let whole = left;
            left = space.conjugate(&mut s, &mut t, small, sites, &energy)?;
            if left <= NEW * epsilon(self.observed.at.scope) * whole {
                return Ok(Some(Stop::Dependent));
            }
            if left < CANCELLED * whole {
                // A product that lost digits would pass its error on to all later products.
                let size = norm(&s);
                s.iter_mut().for_each(|s| *s /= size);
                sites.centre(&mut s);
                (t, products) = (self.product(&s)?, products + 1);
                let whole = energy(&s, &t);
                left = space.conjugate(&mut s, &mut t, small, sites, &energy)?;
                if left < CANCELLED * whole {
                    return Ok(Some(Stop::Dependent));
                }
            }
        }
        if left.is_nan() || left <= 0.0 {
            return Err(Error::NotFinite("a product of Newton's method with the covariance matrix".into()));
        }
        for column in [&mut s, &mut t] {
            column.iter_mut().for_each(|c| *c /= left.sqrt());
        }
        let cross = space.crossed(&s, &t, sites);
        if let Some(small) = &*small {
            // If the curvatures of sites span many orders of magnitude, too few digits are left to distinguish actions.
            let mut overlap = cross.clone();
            small.factor.solve_lower(&mut overlap)?;
            if dot(&overlap, &overlap) > 0.5 {
                return Ok(Some(Stop::Dependent));
            }
        }
        let targets: f64 = (0..space.n).map(|i| s[i] * (from.above[i] + sites.gradient[i] / sites.curvature[i])).sum();
        let corner = vec![energy(&s, &t)];
        let grown = match small.take() {
            Some(Small { mut factor, mut projected, .. }) => {
                factor.append_rows(cross, corner, "Sᵀ(K + W⁻¹)S with one more action")?;
                projected.push(targets);
                Small::new(factor, projected)?
            }
            None => Small::new(Factor::new(corner, "sᵀ(K + W⁻¹)s")?, vec![targets])?,
        };
        // The action is conjugate to the earlier ones, which therefore keep their weights.
        let weight = grown.weights.last().copied().unwrap_or_default();
        for (sum, column) in [(&mut to.v, &s), (&mut to.above, &t)] {
            sum.iter_mut().zip(column).for_each(|(sum, c)| *sum += weight * c);
        }
        *small = Some(grown);
        space.actions.extend(s);
        space.products.extend(t);
        (space.taken, space.multiplied) = (space.taken + 1, space.multiplied + products);
        Ok(None)
    }
}
