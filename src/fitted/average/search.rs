//! The search of structural models: which of them are trained, which take part, and its trail.

use std::collections::HashSet;

use super::Member;
use crate::error::Result;
use crate::fitted::structure::Link;
use crate::train::{Lbfgs, Optimizer};

/// The evidence by which a model is behind the best before those that add to it are left out, in logarithms of weights.
const HOPELESS: f64 = 5.0;

/// The nats of evidence that parts have to add to a model to be worth their parameters, of which they have two at the
/// least or one that chance fits as well (Akaike 1974). With less, the simpler model stays, and the same function
/// counts once.
const WORTH: f64 = 2.0;

/// What training left of a model: its measures, and the log densities of rows set apart, if there are some.
pub(super) type Trained = Result<(Member, Vec<f64>)>;

/// The usual optimiser, ended where the evidence would hardly change weights any more.
pub(super) fn near(optimizer: &Optimizer) -> Optimizer {
    match optimizer {
        usual if *usual == Optimizer::default() => {
            Optimizer::Lbfgs(Lbfgs { gradient_tolerance: 1e-5, loss_tolerance: 1e-6, ..Lbfgs::default() })
        }
        asked => asked.clone(),
    }
}

/// How many others each plan waits for, one after another.
pub(super) fn levels(links: &[Option<Link>]) -> Vec<usize> {
    let mut levels: Vec<usize> = Vec::new();
    for link in links {
        levels.push(link.map_or(0, |link| 1 + levels[link.of]));
    }
    levels
}

/// The largest logarithm of the weight by evidence of some members.
pub(super) fn best<'a>(members: impl Iterator<Item = &'a Member>) -> f64 {
    members.map(Member::log_of_evidence).fold(f64::NEG_INFINITY, f64::max)
}

/// Whether a plan adds to a model that is far behind the best of its family so far, or to one that was left out for
/// this reason. A family are the plans that begin at one another: a smooth curve has in itself what a plain trend with
/// its season still lacks.
pub(super) fn is_hopeless(k: usize, links: &[Option<Link>], members: &[Option<Trained>]) -> bool {
    let Some(Link { of, adds: true }) = links[k] else { return false };
    let first = |k: usize| std::iter::successors(Some(k), |k| links[*k].map(|link| link.of)).last();
    match &members[of] {
        Some(Ok((simpler, _))) => {
            let family = members.iter().enumerate().filter(|(other, _)| first(*other) == first(k));
            let family = family.flat_map(|(_, member)| member).flatten().map(|(member, _)| member);
            simpler.log_of_evidence() < best(family) - HOPELESS
        }
        Some(Err(_)) => false,
        None => true,
    }
}

/// Whether a model has all parts of the one that it begins at and more, and yet hardly more evidence.
pub(super) fn is_idle(own: Option<&Trained>, link: Option<Link>, members: &[Option<Trained>]) -> bool {
    let simpler = link.and_then(|link| members[link.of].as_ref());
    let (Some(Ok((own, _))), Some(Ok((simpler, _)))) = (own, simpler) else { return false };
    let parts = |member: &Member| member.fitted.settings.kernel.split(" + ").map(str::to_string).collect();
    let (more, fewer): (HashSet<String>, HashSet<String>) = (parts(own), parts(simpler));
    let same = own.fitted.settings.target_transform == simpler.fitted.settings.target_transform;
    let whole = |member: &Member| !member.fitted.summary.is_cut_short();
    let adds = same && more.len() > fewer.len() && more.is_superset(&fewer);
    adds && whole(own) && whole(simpler) && nats(own) < nats(simpler) + WORTH
}

/// The evidence of a member, in nats.
fn nats(member: &Member) -> f64 {
    -(member.fitted.summary.rows as f64) * member.evidence
}

/// What became of each model, in words.
pub(super) fn told(
    names: &[String],
    links: &[Option<Link>],
    members: &[Option<Trained>],
    idle: &[bool],
) -> Vec<String> {
    let found = |k: usize| members[k].as_ref()?.as_ref().ok().map(|(member, _)| nats(member));
    let line = |k: usize| {
        let simpler = links[k].map_or(k, |link| link.of);
        let became = match (&members[k], found(k), found(simpler)) {
            (None, ..) => format!("not trained, as it adds to {}, which is hopeless", names[simpler]),
            (Some(Err(error)), ..) => error.to_string(),
            (_, Some(own), Some(other)) if idle[k] => {
                format!("{own:.1} nats, {:.1} more than {}: left out", own - other, names[simpler])
            }
            (_, own, _) => format!("{:.1} nats", own.unwrap_or(f64::NAN)),
        };
        format!("{}: {became}", names[k])
    };
    (0..names.len()).map(line).collect()
}
