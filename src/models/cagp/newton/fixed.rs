//! Newton's method for given actions. It needs no products with K except those of the actions.

use super::observed::Observed;
use super::sites::{Sites, largest};
use super::solve::{HALVINGS, keeps, longest};
use crate::device::is_host;
use crate::error::{Error, Result};
use crate::linalg::real::dot;
use crate::models::cagp::SiteRule;
use crate::models::cagp::numbers::{Numbers, Small};
use crate::models::cagp::products::Products;
use crate::scope::to_f64;

/// Most steps.
const STEPS: usize = 50;

/// Full steps settle if each changes f by less than this share of the change before.
const SHORTER: f64 = 0.9;

/// Most full steps: as many as the slowest of these take to become a billion times shorter.
const FULL_STEPS: usize = 200;

/// How often sites are recomputed from the distribution that they lead to. In training a few times: the bound holds for
/// any sites. For a posterior until they settle, because its variances are those of its sites.
const ROUNDS: usize = 3;
const MOST_ROUNDS: usize = 300;

/// Sites have settled when neither latent means nor curvatures change by more than this share of the largest.
const SETTLED: f64 = 1e-7;
/// The same where products with K are in f32.
const SETTLED_ON_GPU: f64 = 1e-4;

/// The shortest part of a step towards the next sites.
const SHORTEST: f64 = 1e-3;

/// The fall of the bound that counts as a rounding error, relative to its size.
const FALL: f64 = 1e-9;
/// The same where products with K are in f32.
const FALL_ON_GPU: f64 = 1e-6;

/// The smallest variance that remains, as a share of the prior variance.
const LEFT: f64 = 1e-12;

/// Actions that stay, with all that is known about them.
pub(in crate::models::cagp) struct Fixed<'a> {
    /// The rows, and the prior means of their latent values.
    observed: &'a Observed<'a>,
    /// S.
    s: Numbers<'a>,
    /// SᵀKS `[i, i]`.
    gram: Vec<f64>,
    /// K S.
    ks: &'a dyn Products,
    /// Newton's method has settled when the largest change of f is below this. The change is relative to the largest
    /// distance of f from the prior mean, or to 1.
    settled: f64,
}

impl<'a> Fixed<'a> {
    /// With SᵀKS from the products.
    pub fn new(observed: &'a Observed<'a>, s: Numbers<'a>, ks: &'a dyn Products, settled: f64) -> Result<Self> {
        Ok(Self { observed, s, gram: ks.gram()?, ks, settled })
    }

    /// Solves the system at sites.
    pub fn at(&self, sites: &Sites) -> Result<Small> {
        Small::at(&self.s, self.gram.clone(), sites, &self.observed.above(&sites.f))
    }

    /// `SᵀW⁻¹S` `[i, i]`.
    pub fn noise(&self, sites: &Sites) -> Vec<f64> {
        let mut noise = vec![0.0; self.gram.len()];
        self.s.add_noise(&sites.curvature, &mut noise);
        noise
    }

    /// `aᵀSᵀKSb` for weights a and b.
    fn pull(&self, a: &[f64], b: &[f64]) -> f64 {
        self.gram.chunks_exact(self.s.len()).zip(a).map(|(row, a_)| a_ * dot(row, b)).sum()
    }

    /// The relative change of f.
    fn change(&self, from: &[f64], to: &[f64]) -> f64 {
        let change = from.iter().zip(to).map(|(from, to)| (to - from).abs()).fold(0.0, f64::max);
        change / largest(&self.observed.above(to), 1.0)
    }

    /// The sites at the latent mean that they lead to. Steps are halved while the log
    /// posterior decreases. Actions that are not its gradients may stop its increase before such a mean. Then full
    /// steps go on as long as they get shorter. If they do not settle, the next one, which gives the posterior's mean,
    /// may lead astray. If it does, pseudo-targets `f + W⁻¹ S a` make f the mean.
    ///
    /// # Errors
    /// [`Error::NotFinite`] when latent values are not, and what factorisations report.
    pub fn sites(&self) -> Result<Sites> {
        let value = |f: &[f64], a: &[f64]| self.observed.likely.log_density(f) - 0.5 * self.pull(a, a);
        let (mut weights, mut settled) = (vec![0.0; self.s.len()], false);
        let mut height = vec![0.0; self.observed.mean.len()];
        let mut sites = self.observed.likely.sites(self.observed.mean.to_vec());
        for _ in 0..STEPS {
            let target = self.at(&sites)?.weights;
            // Products are linear: those of a part of a step need no other products.
            let top = self.ks.times(&target)?;
            let forces = sites.gradient.iter().zip(top.iter().zip(&height)).map(|(g, (to, from))| g * (to - from));
            if forces.sum::<f64>() <= self.pull(&weights, &target) - self.pull(&weights, &weights) {
                break;
            }
            let found = longest(value(&sites.f, &weights), HALVINGS, |length| {
                let along = |from: &[f64], to: &[f64]| -> Vec<f64> {
                    from.iter().zip(to).map(|(from, to)| from + length * (to - from)).collect()
                };
                let (moved, height) = (along(&weights, &target), along(&height, &top));
                let f = self.observed.latent(&height);
                (value(&f, &moved), (moved, height, f))
            });
            let Some((halvings, (moved, reached, f))) = found else { break };
            let change = self.change(&sites.f, &f);
            (weights, height) = (moved, reached);
            sites = self.observed.likely.sites(f);
            if change <= self.settled {
                // Halving can make a step as small as this far from where full steps settle.
                settled = halvings == 0;
                break;
            }
        }
        if !settled {
            let (start, reached) = (self.observed.likely.log_density(&self.observed.mean), value(&sites.f, &weights));
            let (mut now, mut last, mut astray) = (sites.clone(), f64::INFINITY, None);
            for _ in 0..FULL_STEPS {
                let to = self.at(&now)?.weights;
                let f = self.observed.latent(&self.ks.times(&to)?);
                let (change, kept) = (self.change(&now.f, &f), keeps(start, reached, value(&f, &to)));
                astray = astray.or(Some(!kept));
                if !kept || change.is_nan() || change > SHORTER * last {
                    break;
                }
                (last, now) = (change, self.observed.likely.sites(f));
                settled = change <= self.settled;
                if settled {
                    break;
                }
            }
            match astray {
                _ if settled => sites = now,
                Some(true) => sites.gradient = self.s.times(&weights),
                _ => {}
            }
        }
        match sites.f.iter().chain(&sites.gradient).all(|value| value.is_finite()) {
            true => Ok(sites),
            false => Err(Error::NotFinite("the latent values of Newton's method".into())),
        }
    }

    /// The sites that the rule requires, with the system there, from those at the mode: the same, or averages over the
    /// latent distribution. They are averaged anew over the distribution that they lead to, unless the evidence lower
    /// bound falls. Sites that have to settle then go a shorter part of the way.
    pub fn averaged(&self, mut now: (Sites, Small)) -> Result<(Sites, Small)> {
        let observed = self.observed;
        if observed.rule == SiteRule::Mode {
            return Ok(now);
        }
        let prior = to_f64(observed.at.variances()?)?;
        let host = is_host(observed.at.scope.device());
        let (rounding, settled) = if host { (FALL, SETTLED) } else { (FALL_ON_GPU, SETTLED_ON_GPU) };
        // The last sites with their system, the highest bound so far, and the averages over the sites' distribution.
        let mut best: Option<((Sites, Small), f64, Sites)> = None;
        let mut length = 1.0;
        for round in 0..=if observed.settle { MOST_ROUNDS } else { ROUNDS } {
            let rows = self.ks.rows(&now.0, &now.1)?;
            let (above, explained) = rows.split_at(observed.mean.len());
            let spread = left(&prior, explained, observed.at.rows());
            let (next, expected) = Sites::expected(observed, observed.latent(above), &spread)?;
            let bound = expected - now.1.divergence(self.noise(&now.0))?;
            let falls = |(_, highest, _): &(_, f64, _)| bound < highest - rounding * highest.abs();
            if bound.is_nan() || best.as_ref().is_some_and(falls) {
                let Some((kept, highest, next)) = best else { return Ok(now) };
                length *= 0.5;
                if !observed.settle || length < SHORTEST {
                    return Ok(kept);
                }
                let sites = kept.0.towards(&next, length);
                now = (sites.clone(), self.at(&sites)?);
                best = Some((kept, highest, next));
                continue;
            }
            let last = round == if observed.settle { MOST_ROUNDS } else { ROUNDS };
            let finite = next.gradient.iter().chain(&next.curvature).all(|value| value.is_finite());
            if last || !finite || (observed.settle && now.0.distance(&next) <= settled) {
                break;
            }
            let sites = now.0.towards(&next, length);
            let small = self.at(&sites)?;
            // Rounding errors of many rounds must not add up to a fall.
            let highest = best.as_ref().map_or(bound, |(_, highest, _)| bound.max(*highest));
            best = Some((std::mem::replace(&mut now, (sites, small)), highest, next));
        }
        Ok(now)
    }
}

/// The part that remains of prior variances `[L n]` of n rows, or of the rows' covariances.
fn left(prior: &[f64], explained: &[f64], n: usize) -> Vec<f64> {
    let own = |(prior, explained): (&f64, &f64)| (prior - explained).max(LEFT * prior);
    if explained.len() == prior.len() {
        return prior.iter().zip(explained).map(own).collect();
    }
    let latents = prior.len() / n;
    let mut left: Vec<f64> = explained.iter().map(|explained| -explained).collect();
    for (l, prior) in prior.chunks_exact(n).enumerate() {
        let diagonal = l * (latents + 1) * n..(l * (latents + 1) + 1) * n;
        let each = prior.iter().zip(&explained[diagonal.clone()]).map(own);
        left[diagonal].iter_mut().zip(each).for_each(|(left, own)| *left = own);
    }
    left
}
