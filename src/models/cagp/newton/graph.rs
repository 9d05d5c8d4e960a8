//! Newton's method for a policy as one tensor graph, on any device.
//!
//! Its steps are those of [`Problem`](super::Problem), which searches on the host in f64, for policies that choose from
//! the residual or by rows: each solves in the span of the earlier actions and of new ones, and is halved while the log
//! posterior falls. Here actions, products, solves and sites are tensors, so that a gradient goes through all of them:
//! through sites into later actions, too. Lengths of steps are plain numbers.

use burn::tensor::Tensor;

use super::linearised::Linearised;
use super::observed::{Derivatives, Observed};
use super::options::{NewtonOptions, NewtonReport};
use super::sites::largest;
use super::solve::{HALVINGS, longest, norm};
use crate::error::Result;
use crate::linalg::real::dot;
use crate::models::cagp::SiteRule;
use crate::models::cagp::evaluation::{Evaluation, Noisy};
use crate::scope::to_f64;
use crate::solvers::Policy;
use crate::solvers::itergp::{IterGpOptions, Recycled, Stop};

/// Where Newton's method ends, in the scope's wide type. In a training scope it is differentiable.
#[derive(Debug, Clone)]
pub struct NewtonGraph {
    /// The actions S `[L n, i]`, with unit columns.
    pub actions: Tensor<2>,
    /// K S `[L n, i]`.
    pub products: Tensor<2>,
    /// The latent mean f `[L n]`.
    pub latent: Tensor<1>,
    /// Gradient and curvature of the log density there `[2, L n]`.
    pub derivatives: Tensor<2>,
    /// What it reached.
    pub report: NewtonReport,
}

/// Takes steps from the prior mean, with at most `budget` actions in all, for a model in a wide scope.
///
/// # Errors
/// [`NotFinite`](crate::Error::NotFinite) when values are not finite, and what the policy and products report.
pub(in crate::models::cagp) fn climb(
    at: Evaluation,
    policy: &dyn Policy,
    options: NewtonOptions,
    budget: usize,
) -> Result<NewtonGraph> {
    let observed = Observed::new(at, SiteRule::Mode, false)?;
    let (derivatives, means) = (Derivatives::new(&at, observed.likely.clone()), at.means()?);
    let latent = |above: &Tensor<2>| (means.clone() + above.clone()).squeeze_dim::<1>(1);
    let system = |above: &Tensor<2>| -> Result<Linearised> {
        let f = latent(above);
        Ok(Linearised::of(at, Noisy::new(f.clone(), derivatives.at(f)?), &means))
    };
    // f − m = K v and v = S a.
    let [mut above, mut v] = [means.zeros_like(), means.zeros_like()];
    let mut recycled = Recycled::new(&system(&above)?, policy, budget)?;
    let (mut steps, mut halvings) = (0, 0);
    let stop = loop {
        let known = recycled.actions().len();
        let more = options.per_step.min(budget - known);
        let to = recycled.solve(&system(&above)?, &IterGpOptions::budget(more))?.coefficients;
        steps += 1;
        let along = [recycled.products().times(&to)? - above.clone(), recycled.actions().times(&to)? - v.clone()];
        let Some((halved, change)) = part(&observed, [&above, &v], along.each_ref())? else { break Stop::Converged };
        let [change_of_above, change_of_v] = along.map(|change| change * 0.5f64.powi(halved as i32));
        (above, v, halvings) = (above + change_of_above, v + change_of_v, halvings + halved);
        let idle = recycled.actions().len() == known;
        if idle && change <= options.settled {
            break Stop::Converged;
        }
        if steps == options.steps {
            break Stop::Budget;
        }
    };
    let f = latent(&above);
    let found = derivatives.at(f.clone())?;
    let gradient = to_f64(found.clone().narrow(0, 0, 1))?;
    let left: Vec<f64> = gradient.iter().zip(to_f64(v)?).map(|(g, v)| g - v).collect();
    let (residual, scale, actions) = (norm(&left), norm(&gradient), recycled.actions().len());
    let flat = observed.likely.sites(to_f64(f.clone())?).flat() as f64 / gradient.len() as f64;
    let report = NewtonReport { stop, steps, halvings, actions, products: actions, residual, scale, flat };
    let [actions, products] = [recycled.actions(), recycled.products()].map(|basis| basis.clone().into_dense());
    Ok(NewtonGraph { actions: actions?, products: products?, latent: f, derivatives: found, report })
}

/// The longest part of a step at which the log posterior does not fall: how often the step is halved, and its change of
/// f, relative to the largest distance from the prior mean, or to 1. None if it falls at all of them.
fn part(
    observed: &Observed,
    [above, v]: [&Tensor<2>; 2],
    [along_above, along_v]: [&Tensor<2>; 2],
) -> Result<Option<(usize, f64)>> {
    let [above, v, along_above, along_v] = [above, v, along_above, along_v].map(|x| to_f64(x.clone()));
    let (above, v, along_above, along_v) = (above?, v?, along_above?, along_v?);
    let moved = |from: &[f64], by: &[f64], length: f64| -> Vec<f64> {
        from.iter().zip(by).map(|(from, by)| from + length * by).collect()
    };
    let value = |length: f64| {
        let (above, v) = (moved(&above, &along_above, length), moved(&v, &along_v, length));
        observed.likely.log_density(&observed.latent(&above)) - 0.5 * dot(&above, &v)
    };
    let size = largest(&along_above, 0.0) / largest(&above, 1.0);
    Ok(longest(value(0.0), HALVINGS, |length| (value(length), length * size)))
}
