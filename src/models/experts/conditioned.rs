//! Experts conditioned on their rows, and their own predictions, on one rank or several.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::Experts;
use super::aggregation::Rule;
use super::beyond::{Beyond, Common};
use super::expert::Expert;
use super::near::{self, Asked};
use crate::device::Compute;
use crate::distributed::parts::about;
use crate::distributed::{Data, Question, whole};
use crate::error::Result;
use crate::linalg::jitter::{record, watch};
use crate::models::Observations;
use crate::models::posterior::{Marginals, once};
use crate::serving::{self, Committee, Described, Own, Served};
use crate::threads;

/// The name of the communication expert in messages.
const COMMON: &str = "the communication expert";
/// The most bytes that factors may take to be kept. If they take more, each expert is conditioned again when asked.
const KEPT: f64 = 2e9;

/// Experts conditioned on their rows. All rules use their predictions.
#[derive(Debug)]
pub(crate) struct Conditioned {
    model: Experts,
    compute: Compute,
    /// The given rows, unless the model has its own.
    data: Observations,
    /// This process's experts; none if their factors take too much memory.
    locals: Option<Vec<Expert>>,
    /// The communication expert.
    common: OnceLock<Expert>,
    /// The experts with the communication expert's rows added; none if their factors take too much memory.
    augmented: OnceLock<Option<Vec<Augmented>>>,
}

/// An expert with the rows of the communication expert added.
#[derive(Debug)]
enum Augmented {
    /// All of its rows are among them.
    Same,
    /// An exact expert: its other rows, given them.
    Beyond(Box<Beyond>),
    /// A sparse expert on the rows of both.
    Whole(Box<Expert>),
}

impl Conditioned {
    /// Conditions this process's experts, unless their factors take too much memory.
    ///
    /// # Errors
    /// As [`Experts::posterior`].
    pub(crate) fn new(model: Experts, compute: Compute, data: Observations) -> Result<Self> {
        let (common, augmented) = (OnceLock::new(), OnceLock::new());
        let mut made = Self { model, compute, data, locals: None, common, augmented };
        let own: Vec<&[usize]> = made.model.parts.own().map(|expert| &made.model.parts()[expert][..]).collect();
        let kept = kept(own.iter().map(|rows| (rows.len() as f64).powi(2)));
        let first = made.model.parts.own().start;
        made.locals = if kept { Some(made.conditioned(|at| made.local(first + at, own[at]))?) } else { None };
        Ok(made)
    }

    pub(super) fn model(&self) -> &Experts {
        &self.model
    }

    pub(super) fn compute(&self) -> Compute {
        self.compute
    }

    pub(super) fn data(&self) -> Data<'_> {
        self.model.parts.seen(&self.data)
    }

    /// The rows of an expert.
    pub(super) fn rows(&self, expert: usize) -> Result<Observations> {
        self.data().gather(&self.model.parts()[expert])
    }

    /// Makes something of each of this process's experts, in parallel.
    fn conditioned<T: Send>(&self, make: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
        let made = threads::apart(self.model.parts.own().len(), |at| {
            let (local, jitter) = watch(|| make(at));
            Ok((local?, jitter))
        })?;
        made.iter().for_each(|(_, jitter)| record(*jitter));
        Ok(made.into_iter().map(|(local, _)| local).collect())
    }

    fn local(&self, expert: usize, rows: &[usize]) -> Result<Expert> {
        let local = Expert::new(&self.model.shared, self.compute, self.data().gather(rows)?);
        local.map_err(|error| self.model.parts.of_part(expert, error))
    }

    /// Calls `f` with an expert. If it is not kept here, conditions it for this call.
    pub(super) fn with<R>(&self, expert: usize, f: impl FnOnce(&Expert) -> Result<R>) -> Result<R> {
        let known = self.locals.as_ref().filter(|_| self.model.parts.own().contains(&expert));
        match known {
            Some(locals) => f(&locals[expert - self.model.parts.own().start]),
            None => f(&self.local(expert, &self.model.parts()[expert])?),
        }
    }

    /// The rows of one of this process's experts that the communication expert does not have.
    fn others(&self, at: usize) -> Vec<usize> {
        let common = &self.model.communication;
        let rows = &self.model.parts()[self.model.parts.own().start + at];
        rows.iter().copied().filter(|row| common.binary_search(row).is_err()).collect()
    }

    /// One of this process's experts with the rows of the communication expert added.
    fn with_common(&self, at: usize) -> Result<Augmented> {
        let (expert, others) = (self.model.parts.own().start + at, self.others(at));
        if others.is_empty() {
            return Ok(Augmented::Same);
        }
        if let Some(common) = self.common_expert()?.exact() {
            let beyond = Beyond::new(common, self.data().gather(&others)?);
            return Ok(Augmented::Beyond(beyond.map_err(|error| self.model.parts.of_part(expert, error))?.into()));
        }
        let mut rows = [&self.model.communication[..], &others].concat();
        rows.sort_unstable();
        Ok(Augmented::Whole(self.local(expert, &rows)?.into()))
    }

    /// The predictions of this process's experts. If `augmented`, the experts have the rows of the communication expert
    /// as well. An expert whose rows are all among them predicts nothing: its marginals are empty.
    fn say(&self, augmented: bool, asked: &Asked) -> Result<Vec<Marginals>> {
        let (own, x) = (self.model.parts.own(), asked.x);
        let predict = |at: usize, local: &Expert, x: &[f64]| {
            local.posterior().predict(x).map_err(|error| self.model.parts.of_part(own.start + at, error))
        };
        if !augmented {
            return threads::apart(own.len(), |at| self.with(own.start + at, |local| predict(at, local, x)));
        }
        let common = self.common_expert()?.exact();
        let augmented = once(&self.augmented, || {
            let common = self.model.communication.len() as f64;
            let room = (0..own.len()).map(|at| self.others(at).len() as f64 + common).map(|rows| rows * rows);
            kept(room).then(|| self.conditioned(|at| self.with_common(at))).transpose()
        })?;
        let known = common.map(|common| Common::new(common, x)).transpose()?;
        let predict = |at: usize, expert: &Augmented| {
            let points = asked.points(own.start + at);
            let of_some = points.as_ref().map(|points| asked.at(points));
            let x = of_some.as_deref().unwrap_or(x);
            match (expert, common, &known) {
                _ if x.is_empty() => Ok(Marginals::default()),
                (Augmented::Beyond(beyond), Some(common), Some(known)) => {
                    let of_some = points.map(|points| known.at(&points));
                    let said = beyond.predict(common, of_some.as_ref().unwrap_or(known), x);
                    said.map_err(|error| self.model.parts.of_part(own.start + at, error))
                }
                (Augmented::Whole(local), ..) => predict(at, local, x),
                _ => Ok(Marginals::default()),
            }
        };
        threads::apart(own.len(), |at| match augmented {
            Some(all) => predict(at, &all[at]),
            None => predict(at, &self.with_common(at)?),
        })
    }

    /// The predictions of all experts, on all ranks.
    pub(super) fn asked(&self, augmented: bool, numbers: &[Vec<f64>]) -> Result<Vec<Marginals>> {
        let own = || self.answers(augmented, numbers);
        let (data, question) = ((self.data(), self.compute), Question::Predict { augmented });
        let answers = whole::ask_with(&self.model, data, &question, numbers, own)?;
        let marginals = |mut mean: Vec<f64>| {
            let variance = mean.split_off(mean.len() / 2);
            Marginals { mean, variance, floored: 0 }
        };
        Ok(answers.into_iter().map(marginals).collect())
    }

    /// The predictions of all experts at all rows of `x`.
    pub(super) fn all(&self, augmented: bool, x: &[f64]) -> Result<Vec<Marginals>> {
        self.asked(augmented, &[x.to_vec()])
    }

    /// The [predictions](Self::say) of this process's experts as answers: means, then variances.
    ///
    /// # Errors
    /// What predicting reports.
    pub(crate) fn answers(&self, augmented: bool, numbers: &[Vec<f64>]) -> Result<Vec<Vec<f64>>> {
        let said = self.say(augmented, &Asked::new(numbers, self.data().d()))?;
        Ok(said.into_iter().map(|said| [said.mean, said.variance].concat()).collect())
    }

    /// The predictions of all experts: means less the prior mean, and variances, row-major `[count, t]`.
    pub(super) fn said(&self, augmented: bool, prior: &[f64], x: &[f64]) -> Result<[Vec<f64>; 2]> {
        let said = self.all(augmented, x)?;
        let deviation = |said: &Marginals| said.mean.iter().zip(prior).map(|(m, p)| m - p).collect::<Vec<f64>>();
        let mean = said.iter().flat_map(deviation).collect();
        Ok([mean, said.into_iter().flat_map(|said| said.variance).collect()])
    }

    /// The communication expert.
    fn common_expert(&self) -> Result<&Expert> {
        once(&self.common, || {
            let rows = self.data().gather(&self.model.communication)?;
            Expert::new(&self.model.shared, self.compute, rows).map_err(|error| about(COMMON, error))
        })
    }

    /// The experts in numbers, as a rule needs them.
    pub(super) fn served(&self, rule: Rule, weights: Option<Vec<f64>>) -> Result<Served> {
        let (needs, all, mut arrays) = (rule.needs(), self.model.len(), BTreeMap::new());
        let local = if needs.local || all == 1 { all } else { 0 };
        let latents = (0..local).map(|k| self.with(k, |expert| Ok(expert.latent(&format!("{k}."), &mut arrays))));
        let mut found = Committee { weights, ..Committee::of(rule) };
        found.experts = match latents.collect::<Result<std::result::Result<Vec<_>, String>>>()? {
            Ok(experts) => experts,
            Err(why) => return Ok(Served::refused(why)),
        };
        if needs.covariances {
            for k in 0..all {
                let rows = self.with(k, |expert| expert.rows(self.compute, &format!("{k}."), &mut arrays))?;
                found.rows.extend(rows);
            }
        }
        if needs.augmented {
            match self.common_expert()?.latent("common.", &mut arrays) {
                Ok(common) => found.common = Some(common),
                Err(why) => return Ok(Served::refused(why)),
            }
            for k in 0..all {
                let name = format!("{k}.");
                found.augmented.push(match self.with_common(k)? {
                    Augmented::Same => Own::Same,
                    Augmented::Beyond(beyond) => beyond.own(&name, &mut arrays),
                    Augmented::Whole(whole) => match whole.latent(&name, &mut arrays) {
                        Ok(latent) => Own::Whole(latent),
                        Err(why) => return Ok(Served::refused(why)),
                    },
                });
                if rule == Rule::Near {
                    let rows = near::sample(self, k)?.x.clone();
                    found.samples.push(serving::keep(&mut arrays, &format!("{k}.sample"), rows));
                }
            }
        }
        Ok(Served { posterior: Described::Experts(Box::new(found)), arrays })
    }

    /// The prediction of the communication expert.
    pub(super) fn common(&self, prior: &[f64], x: &[f64]) -> Result<[Vec<f64>; 2]> {
        let said = self.common_expert()?.posterior().predict(x).map_err(|error| about(COMMON, error))?;
        Ok([said.mean.iter().zip(prior).map(|(mean, prior)| mean - prior).collect(), said.variance])
    }
}

/// Whether factors of so many numbers are small enough to keep.
fn kept(numbers: impl Iterator<Item = f64>) -> bool {
    8.0 * numbers.sum::<f64>() <= KEPT
}
