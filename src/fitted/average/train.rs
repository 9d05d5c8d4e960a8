//! Trains the members of an average side by side.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde_json::{Map, Value};

use super::search::{Trained, best, is_hopeless, is_idle, levels, near, told};
use super::{Fitted, Member, name};
use crate::advice::Advice;
use crate::data::TargetTransform;
use crate::error::{Error, Result};
use crate::fitted::structure::Link;
use crate::fitted::{Plan, Summary};
use crate::models::options::Kind;
use crate::models::state_space::StateSpaceOptions;
use crate::threads;
use crate::train::{self, CheckpointPlan, Observer, Outcome, Report, TrainConfig};

/// How a warning begins that a model is left out.
const WITHOUT: &str = "the average is without";

/// Whether a warning says that a model is left out.
pub(in crate::fitted) fn is_without(warning: &Advice) -> bool {
    warning.text.starts_with(WITHOUT)
}

/// Trains each plan on one thread, as many at a time as there are threads, and averages the models. So the result does
/// not depend on the number of threads. A plan that begins at the parameters of another waits for it, and is left out
/// if it adds to one that is hopeless. Models of many rows, some of which are set apart, have work for all threads:
/// they are trained one after another, the others from the parameters of the first. A plan that fails is left out, with
/// a warning, and so is one whose training was cut short, unless all were, or a search finds it to have more evidence
/// than those that were not.
///
/// # Errors
/// The first plan's error if all fail, and [`Error::Device`] if the system has no threads for them.
pub(in crate::fitted) fn train(
    plans: Vec<Plan>,
    config: &TrainConfig,
    observers: &mut [&mut dyn Observer],
) -> Result<Fitted> {
    let began = Instant::now();
    let count = plans.len();
    let transform = |plan: &Plan| plan.settings().target_transform;
    let mixed = plans.iter().any(|plan| transform(plan) != transform(&plans[0]));
    let names: Vec<String> = plans.iter().map(|plan| name(plan.settings(), plan.target())).collect();
    let links: Vec<Option<Link>> = plans.iter().map(Plan::link).collect();
    let many = plans.iter().any(|plan| plan.apart().is_some());
    let searched = links.iter().any(Option::is_some);
    // An evaluation of theirs takes several times that of the exact model.
    let dear = searched || !many && plans.iter().any(|plan| !plan.settings().is_gaussian());
    let optimizer = if dear { near(&config.optimizer) } else { config.optimizer.clone() };
    let config = &TrainConfig { optimizer, ..config.clone() };
    let own = own(&plans.iter().collect::<Vec<_>>(), config);
    let plans: Vec<Mutex<Option<Plan>>> = plans.into_iter().map(|plan| Mutex::new(Some(plan))).collect();
    let watched = Watched { all: Mutex::new((observers, None)), count, stopped: AtomicBool::new(false) };
    let (threads, begun) = (rayon::current_num_threads(), AtomicUsize::new(0));
    let member = |k: usize, before: Option<&Fitted>| {
        let plan = plans[k].lock().unwrap_or_else(PoisonError::into_inner).take();
        // What is left of the time is shared among those that wait; of many rows, the first has twice as much as one
        // that begins at its parameters.
        let waiting = count - begun.fetch_add(1, Ordering::Relaxed);
        let share = match many {
            true => 2.0 / (waiting + 1) as f64,
            false => threads.min(waiting) as f64 / waiting as f64,
        };
        let left = config.max_time.map(|time| time.saturating_sub(began.elapsed()).mul_f64(share));
        let own = TrainConfig { max_time: left, ..of_member(&own[k], k, &names[k]) };
        // Parameters of the one before are worth a model without a training, where rows set apart tell its weight.
        let over = left.is_some_and(|left| left.is_zero()) && (before.is_none() || !many);
        let over = over || watched.stopped.load(Ordering::Relaxed);
        let plan = plan.filter(|_| k == 0 || !over);
        let plan = plan.ok_or_else(|| Error::Data("the training ended before its turn came".into()))?;
        let apart = plan.apart().cloned();
        let plan = match before {
            Some(before) if many => plan.starting_from(&*before.model)?,
            Some(before) => plan.extending(before),
            None => plan,
        };
        let fitted = plan.alone(&own, &mut [&mut Side { k, watched: &watched }])?;
        if mixed && fitted.explodes()? {
            return Err(Error::Data("far from the data it has no useful mean: its distribution is too wide".into()));
        }
        match apart {
            Some(apart) => Member::beside(fitted, &apart),
            None => Ok((Member::of(fitted)?, Vec::new())),
        }
    };
    let mut members: Vec<Option<Trained>> = plans.iter().map(|_| None).collect();
    if many {
        for k in 0..count {
            let before = members.iter().flatten().find_map(|before| before.as_ref().ok());
            if before.is_some_and(|(first, _)| first.is_certain()) {
                break;
            }
            members[k] = Some(member(k, before.map(|(first, _)| &first.fitted)));
        }
    } else {
        let levels = levels(&links);
        for level in 0..=levels.iter().copied().max().unwrap_or_default() {
            let of_level = (0..count).filter(|k| levels[*k] == level);
            let (now, without): (Vec<usize>, Vec<usize>) = of_level.partition(|k| !is_hopeless(*k, &links, &members));
            begun.fetch_add(without.len(), Ordering::Relaxed);
            let simpler = |k: usize| members[links[k]?.of].as_ref()?.as_ref().ok().map(|(simpler, _)| &simpler.fitted);
            let done = threads::apart(now.len(), |i| Ok(member(now[i], simpler(now[i]))))?;
            now.into_iter().zip(done).for_each(|(k, done)| members[k] = Some(done));
        }
    }
    let idle: Vec<bool> = (0..count).map(|k| is_idle(members[k].as_ref(), links[k], &members)).collect();
    let trail = if searched { told(&names, &links, &members, &idle) } else { Vec::new() };
    members.iter_mut().zip(idle).filter(|(_, idle)| *idle).for_each(|(member, _)| *member = None);
    let (observers, outcome) = watched.all.into_inner().unwrap_or_else(PoisonError::into_inner);
    outcome.iter().for_each(|outcome| observers.iter_mut().for_each(|observer| observer.finish(outcome)));
    // An unfinished training has at least this evidence, which says enough if no finished one has as much.
    let finished = |member: &Member| many || !member.fitted.summary.is_cut_short();
    let finished_ones = || members.iter().flatten().flatten().map(|(member, _)| member).filter(|m| finished(m));
    let (any_whole, best) = (finished_ones().count() > 0, best(finished_ones()));
    let whole = |(member, _): &(Member, Vec<f64>)| finished(member) || searched && member.log_of_evidence() > best;
    let mut warnings = Vec::new();
    let mut first = None;
    let mut fitted = Vec::new();
    for (member, name) in members.into_iter().zip(&names) {
        let without = |advice: Advice| Advice { text: format!("{WITHOUT} {name}: {}", advice.text), ..advice };
        match member {
            Some(Ok(member)) if any_whole && !whole(&member) => {
                let text = "its training was cut short, so its evidence says too little".to_string();
                warnings.push(without(Advice::from(text).about("TrainConfig::max_time")));
            }
            Some(Ok(member)) => fitted.push(member),
            Some(Err(error)) => {
                warnings.push(without(error.advice()));
                first = first.or(Some(error));
            }
            None => {}
        }
    }
    if let (true, Some(error)) = (fitted.is_empty(), first) {
        return Err(error);
    }
    if let ([(only, _)], true) = (&fitted[..], many)
        && only.is_certain()
    {
        let mut alone = only.fitted.clone();
        let share = only.left_out / only.entropy();
        let said = format!(
            "{} alone: it leaves open {:.0} % of what the shares of the classes do, and other models would add little",
            alone.settings.model.kind(),
            100.0 * share
        );
        alone.annotate(|summary| summary.chosen = Some(said.clone()));
        return Ok(alone);
    }
    let apart = fitted.iter().any(|(_, densities)| !densities.is_empty());
    let average = match apart {
        true => Fitted::stacked(fitted)?,
        false => Fitted::weighed(fitted.into_iter().map(|(member, _)| member).collect())?,
    };
    let mut average = average.heard_only()?;
    average.annotate(|summary| {
        summary.warnings.extend(warnings.clone());
        summary.trail = trail.clone();
    });
    Ok(average)
}

impl Fitted {
    /// Changes the summary: that of an average, and of its heaviest member, as the file keeps those of members only.
    pub(in crate::fitted) fn annotate(&mut self, change: impl Fn(&mut Summary)) {
        change(&mut self.summary);
        if let Some(heaviest) = Arc::get_mut(&mut self.members).and_then(<[Member]>::first_mut) {
            change(&mut heaviest.fitted.summary);
        }
    }

    /// Whether the mean of a log-normal prediction far from the data is more than e³ times its median, or e times that
    /// of a long series. A few such rows would decide the mean of an average.
    pub(super) fn explodes(&self) -> Result<bool> {
        if self.target_scale.transform == TargetTransform::Identity {
            return Ok(false);
        }
        // A walk knows nothing as far away as that; there, a forecast over the span of the rows has to do.
        let walks = self.settings.model.kind() == StateSpaceOptions::NAME;
        let far: Vec<f64> = match walks {
            true => self.later(),
            false => vec![FAR; self.data.d],
        };
        let far = threads::helped(|| self.posterior.predict(&far))?;
        let variance = far.variance[0] + self.noise().unwrap_or_default();
        let most = if self.is_long() { MOST_OF_LONG } else { MOST };
        Ok(0.5 * variance * self.target_scale.sd.powi(2) > most)
    }

    /// The inputs as long after the last row as the rows are wide, in the series of the first row.
    fn later(&self) -> Vec<f64> {
        let series = self.kernel().series();
        let ahead = |(at, [low, high]): (usize, &[f64; 2])| match series {
            Some(series) if series == at => self.data.x.get(at).copied().unwrap_or_default(),
            _ => 2.0 * high - low,
        };
        self.data.ranges().iter().enumerate().map(ahead).collect()
    }
}

/// Standard deviations of the inputs at which a row is far from all others.
const FAR: f64 = 1e6;
/// The largest logarithm of the ratio of a mean to a median; of a long series, whose forecasts do go that far, less.
const MOST: f64 = 3.0;
const MOST_OF_LONG: f64 = 1.0;

/// The configurations of members. Of different kinds of models, each has the optimiser and the rules of ending that are
/// usual for its kind, unless others are asked for.
pub(in crate::fitted) fn own(plans: &[&Plan], config: &TrainConfig) -> Vec<TrainConfig> {
    let like = |other: TrainConfig| {
        let TrainConfig { optimizer, steps, early_stopping, cooling, .. } = other;
        TrainConfig { optimizer, steps, early_stopping, cooling, ..config.clone() }
    };
    let usual: Vec<TrainConfig> = plans.iter().map(|plan| like(plan.options().training(plan.rows().n()))).collect();
    let many = plans.iter().any(|plan| plan.apart().is_some());
    let asked = usual.iter().chain([&like(TrainConfig::while_it_pays())]).all(|usual| usual != config);
    if many && !asked { usual } else { vec![config.clone(); plans.len()] }
}

/// The configuration of a member: its states have files and a fingerprint of their own.
fn of_member(config: &TrainConfig, k: usize, name: &str) -> TrainConfig {
    let numbered = |path: &Path| {
        let mut path = path.as_os_str().to_owned();
        path.push(format!(".{}", k + 1));
        PathBuf::from(path)
    };
    let fingerprint = match serde_json::from_str::<Map<String, Value>>(&config.fingerprint) {
        Ok(mut entries) => {
            entries.insert("member".into(), name.into());
            Value::Object(entries).to_string()
        }
        Err(_) => config.fingerprint.clone(),
    };
    let checkpoint = config.checkpoint.as_ref();
    TrainConfig {
        checkpoint: checkpoint.map(|plan| CheckpointPlan { path: numbered(&plan.path), ..plan.clone() }),
        // A training that was interrupted may not have begun with all members.
        resume: config.resume.as_deref().map(numbered).filter(|path| k == 0 || path.exists()),
        fingerprint,
        ..config.clone()
    }
}

/// The observers of all members, and how the last training ended.
struct Watched<'a, 'b> {
    all: Mutex<(&'a mut [&'b mut dyn Observer], Option<Outcome>)>,
    count: usize,
    stopped: AtomicBool,
}

/// Shows observers the trainings of all members as restarts of one training.
struct Side<'a, 'b, 'c> {
    k: usize,
    watched: &'a Watched<'b, 'c>,
}

impl Observer for Side<'_, '_, '_> {
    fn start(&mut self, plan: &train::Plan) {
        if self.k == 0 {
            let plan = train::Plan { restarts: self.watched.count, ..plan.clone() };
            let mut all = self.watched.all.lock().unwrap_or_else(PoisonError::into_inner);
            all.0.iter_mut().for_each(|observer| observer.start(&plan));
        }
    }

    fn step(&mut self, report: &Report) -> ControlFlow<()> {
        let mut all = self.watched.all.lock().unwrap_or_else(PoisonError::into_inner);
        let report = Report { restart: self.k, ..report.clone() };
        let told: Vec<ControlFlow<()>> = all.0.iter_mut().map(|observer| observer.step(&report)).collect();
        let stopped = told.iter().any(ControlFlow::is_break) || self.watched.stopped.load(Ordering::Relaxed);
        self.watched.stopped.store(stopped, Ordering::Relaxed);
        if stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn finish(&mut self, outcome: &Outcome) {
        self.watched.all.lock().unwrap_or_else(PoisonError::into_inner).1 = Some(outcome.clone());
    }
}
