//! Training with fixed inducing inputs: neighbours are found once, and a step touches what its batch sees.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::{Active, Spread, Swsgp, neighbours};
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::likelihoods::{Likelihood, Targets};
use crate::models::fit::add_priors;
use crate::models::minibatch::{Order, Rows};
use crate::models::process::Process;
use crate::models::{Batch, Observations};
use crate::params::{Parameter, Parameters, Unit, prefixed};
use crate::products::Neighbours;
use crate::scope::Scope;
use crate::train::{Adam, SparseAdam};

/// How [`train`] trains.
#[derive(Debug, Clone, PartialEq)]
pub struct SparseTraining {
    /// Rows of a batch.
    pub batch: usize,
    /// Steps in all.
    pub steps: usize,
    /// Adam's settings, for all parameters.
    pub adam: Adam,
    /// Multiplies the learning rate of q.
    pub variational_rate: f64,
    /// Epochs after which neighbours are found anew, with the lengthscales of then; none keeps the first ones.
    pub refresh: Option<usize>,
    /// Decides the batches.
    pub seed: u64,
}

impl Default for SparseTraining {
    fn default() -> Self {
        let adam = Adam::default();
        Self { batch: 64, steps: 1000, adam, variational_rate: 1.0, refresh: None, seed: 0 }
    }
}

/// What a step moves: kernel, mean, likelihood and the active part of q.
struct Moving<'a> {
    process: &'a mut Process,
    likelihood: &'a mut Box<dyn Likelihood>,
    mean: Parameter,
    root: Parameter,
}

impl Parameters for Moving<'_> {
    fn parameters(&self) -> Vec<(String, &Parameter)> {
        let mut all = prefixed("kernel", self.process.prior.kernel.parameters());
        all.extend(prefixed("mean", self.process.prior.mean.parameters()));
        all.extend(prefixed("likelihood", self.likelihood.parameters()));
        all.push(("variational.mean".into(), &self.mean));
        all.push(("variational.root".into(), &self.root));
        all
    }

    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        let mut all = prefixed("kernel", self.process.prior.kernel.parameters_mut());
        all.extend(prefixed("mean", self.process.prior.mean.parameters_mut()));
        all.extend(prefixed("likelihood", self.likelihood.parameters_mut()));
        all.push(("variational.mean".into(), &mut self.mean));
        all.push(("variational.root".into(), &mut self.root));
        all
    }
}

/// Trains everything but Z, and returns the loss per datum at each step, before it; `watch` is told each and may end
/// the training.
///
/// A step of b rows costs O(bH³), however many inducing inputs there are; q's moments stand still while nobody sees
/// them.
///
/// # Errors
/// [`Error::Usage`] for full covariances, whose every row belongs to all of S, and for a batch of 0; what the objective
/// reports.
pub fn train(
    model: &mut Swsgp,
    compute: Compute,
    data: &Observations,
    settings: &SparseTraining,
    watch: &mut dyn FnMut(usize, f64) -> ControlFlow<()>,
) -> Result<Vec<f64>> {
    if !model.variational.is_diagonal() {
        return Err(Error::Usage(
            "sparse training needs a diagonal covariance of q; use the other trainer for a full one".into(),
        ));
    }
    if settings.batch == 0 {
        return Err(Error::Usage("minibatches need at least one row".into()));
    }
    settings.adam.validate()?;
    if data.d != model.process.d() {
        let (want, got) = (format!("{} columns", model.process.d()), format!("{} columns", data.d));
        return Err(Error::shape("inputs", want, got));
    }
    model.likelihood.check(Targets { y: &data.y, extra: data.noise.as_deref() }, None)?;
    let (n, d) = (data.n(), model.process.d());
    let parts = n.div_ceil(settings.batch);
    let z = model.process.inducing.internal();
    let (mut mean, mut root) = (model.variational.mean.raw().to_vec(), model.variational.root.raw().to_vec());
    let prior = model.parameters().into_iter().filter(|(path, _)| !is_q_or_z(path)).map(|(_, p)| p.freedom()).sum();
    let mut of_prior = SparseAdam::new(settings.adam.clone(), prior);
    let [mut of_mean, mut of_root] = [0, 1].map(|_| SparseAdam::new(settings.adam.clone(), mean.len()));
    let every: Vec<u32> = (0..prior as u32).collect();
    let mut known = model.neighbours(compute, &data.x)?;
    let mut order = Order::default();
    let mut losses = Vec::with_capacity(settings.steps);
    for step in 0..settings.steps {
        let refresh = |epochs: usize| step > 0 && step.is_multiple_of(epochs.max(1) * parts);
        if settings.refresh.is_some_and(refresh) {
            known = model.neighbours(compute, &data.x)?;
        }
        let rows = order.rows(n, parts, settings.seed, step);
        let lists = rows.iter().flat_map(|&i| known.of(i)).copied().collect();
        let (active, places) = neighbours::union(&Neighbours { indices: lists, each: known.each });
        let scope = Scope::training(compute)?;
        let batch = Batch { scale: parts as f64, ..data.gather(&rows)?.batch(&scope) };
        let pick = |values: &[f64]| active.iter().map(|&i| values[i as usize]).collect::<Vec<f64>>();
        let part: Vec<f64> = active.iter().flat_map(|&i| &z[i as usize * d..][..d]).copied().collect();
        let own = [("mean", &mean), ("root", &root)].map(|(name, all)| Parameter::real(name, Unit::None, &pick(all)));
        let seen = Active {
            z: scope.matrix(&part, active.len(), d),
            mean: scope.wide_value(&own[0]),
            spread: Spread::Diagonal(scope.wide_value(&own[1])),
        };
        let loss = model.loss(&scope, &batch, seen, Arc::new(places))?;
        let [own_mean, own_root] = own;
        let mut moving =
            Moving { process: &mut model.process, likelihood: &mut model.likelihood, mean: own_mean, root: own_root };
        let (loss, mut gradient) = scope.gradient(loss, &moving)?;
        let penalty = add_priors(&moving, &mut gradient);
        gradient.iter_mut().for_each(|g| *g /= n as f64);
        losses.push((loss + penalty) / n as f64);
        let (in_prior, in_q) = gradient.split_at(prior);
        let (in_mean, in_root) = in_q.split_at(active.len());
        let mut raw = moving.free_raw();
        of_prior.step(&mut raw[..prior], &every, in_prior, 1.0, settings.steps);
        moving.set_free_raw(&raw)?;
        of_mean.step(&mut mean, &active, in_mean, settings.variational_rate, settings.steps);
        of_root.step(&mut root, &active, in_root, settings.variational_rate, settings.steps);
        if watch(step, losses[step]).is_break() {
            break;
        }
    }
    model.variational.mean.set_raw(&mean);
    model.variational.root.set_raw(&root);
    Ok(losses)
}

fn is_q_or_z(path: &str) -> bool {
    path == "inducing" || path.starts_with("variational.")
}
