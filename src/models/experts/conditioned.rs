//! Experts conditioned on their rows, and their own predictions, on one rank or several.

use std::sync::OnceLock;

use serde_json::json;

use super::expert::Expert;
use super::rows::Data;
use super::{Experts, of, remote};
use crate::device::Compute;
use crate::error::Result;
use crate::exchange::{Message, Ranks, put, take};
use crate::linalg::jitter::{record, watch};
use crate::models::Observations;
use crate::models::posterior::Marginals;
use crate::threads;

/// The question to a rank: predict.
pub(super) const SAY: &str = "experts.say";

/// The name of the communication expert in messages.
const COMMON: &str = "the communication expert";
/// The most bytes that factors may take to be kept. If they take more, each expert is conditioned again when asked.
const KEPT: f64 = 2e9;

/// Experts conditioned on their rows. All rules use their predictions.
#[derive(Debug)]
pub(super) struct Conditioned {
    model: Experts,
    compute: Compute,
    /// The given rows, unless the model has its own.
    data: Observations,
    /// This process's experts; none if their factors take too much memory.
    locals: Option<Vec<Expert>>,
    /// The communication expert.
    common: OnceLock<Expert>,
    /// The experts with the communication expert's rows added; none if their factors take too much memory.
    augmented: OnceLock<Option<Vec<Expert>>>,
}

impl Conditioned {
    /// Conditions this process's experts, unless their factors take too much memory.
    pub(super) fn new(model: Experts, compute: Compute, data: Observations) -> Result<Self> {
        let (common, augmented) = (OnceLock::new(), OnceLock::new());
        let mut made = Self { model, compute, data, locals: None, common, augmented };
        let own: Vec<&[usize]> = made.model.own().map(|expert| &made.model.parts()[expert][..]).collect();
        let kept = kept(&own);
        made.locals = if kept { Some(made.conditioned(&own)?) } else { None };
        Ok(made)
    }

    pub(super) fn model(&self) -> &Experts {
        &self.model
    }

    pub(super) fn compute(&self) -> Compute {
        self.compute
    }

    pub(super) fn data(&self) -> Data<'_> {
        self.model.seen(&self.data)
    }

    /// The rows of an expert.
    pub(super) fn rows(&self, expert: usize) -> Result<Observations> {
        self.data().gather(&self.model.parts()[expert])
    }

    /// Conditions this process's experts, each on its rows, in parallel.
    fn conditioned(&self, rows: &[impl AsRef<[usize]> + Sync]) -> Result<Vec<Expert>> {
        let first = self.model.own().start;
        let made = threads::apart(rows.len(), |at| {
            let (local, jitter) = watch(|| self.local(first + at, rows[at].as_ref()));
            Ok((local?, jitter))
        })?;
        made.iter().for_each(|(_, jitter)| record(*jitter));
        Ok(made.into_iter().map(|(local, _)| local).collect())
    }

    fn local(&self, expert: usize, rows: &[usize]) -> Result<Expert> {
        let local = Expert::new(&self.model.shared, self.compute, self.data().gather(rows)?);
        local.map_err(|error| self.model.of_expert(expert, error))
    }

    /// Calls `f` with an expert. If it is not kept here, conditions it for this call.
    pub(super) fn with<R>(&self, expert: usize, f: impl FnOnce(&Expert) -> Result<R>) -> Result<R> {
        let known = self.locals.as_ref().filter(|_| self.model.own().contains(&expert));
        match known {
            Some(locals) => f(&locals[expert - self.model.own().start]),
            None => f(&self.local(expert, &self.model.parts()[expert])?),
        }
    }

    /// The rows of this process's experts together with those of the communication expert.
    fn augmented_rows(&self) -> Vec<Vec<usize>> {
        let with = |expert: usize| {
            let mut rows = [&self.model.communication[..], &self.model.parts()[expert]].concat();
            rows.sort_unstable();
            rows.dedup();
            rows
        };
        self.model.own().map(with).collect()
    }

    /// The predictions of this process's experts at `x`. If `augmented`, the experts have the rows of the communication
    /// expert as well. An expert whose rows are all among them predicts nothing: its marginals are empty.
    pub(super) fn say(&self, augmented: bool, x: &[f64]) -> Result<Vec<Marginals>> {
        let own = self.model.own();
        let predict = |at: usize, local: &Expert| {
            local.posterior().predict(x).map_err(|error| self.model.of_expert(own.start + at, error))
        };
        if !augmented {
            return threads::apart(own.len(), |at| self.with(own.start + at, |local| predict(at, local)));
        }
        let rows = self.augmented_rows();
        if self.augmented.get().is_none() {
            let made = kept(&rows).then(|| self.conditioned(&rows)).transpose()?;
            let _ = self.augmented.set(made);
        }
        threads::apart(rows.len(), |at| {
            if rows[at].len() == self.model.communication.len() {
                return Ok(Marginals::default());
            }
            match self.augmented.get().and_then(Option::as_ref) {
                Some(locals) => predict(at, &locals[at]),
                None => predict(at, &self.local(own.start + at, &rows[at])?),
            }
        })
    }

    /// The predictions of all experts, on all ranks.
    pub(super) fn all(&self, augmented: bool, x: &[f64]) -> Result<Vec<Marginals>> {
        match &self.model.ranks {
            Some(ranks) => elsewhere(self, ranks, augmented, x),
            None => self.say(augmented, x),
        }
    }

    /// The predictions of all experts: means less the prior mean, and variances, row-major `[count, t]`.
    pub(super) fn said(&self, augmented: bool, prior: &[f64], x: &[f64]) -> Result<[Vec<f64>; 2]> {
        let said = self.all(augmented, x)?;
        let deviation = |said: &Marginals| said.mean.iter().zip(prior).map(|(m, p)| m - p).collect::<Vec<f64>>();
        let mean = said.iter().flat_map(deviation).collect();
        Ok([mean, said.into_iter().flat_map(|said| said.variance).collect()])
    }

    /// The prediction of the communication expert.
    pub(super) fn common(&self, prior: &[f64], x: &[f64]) -> Result<[Vec<f64>; 2]> {
        if self.common.get().is_none() {
            let rows = self.data().gather(&self.model.communication)?;
            let local = Expert::new(&self.model.shared, self.compute, rows).map_err(|error| of(COMMON, error))?;
            let _ = self.common.set(local);
        }
        let Some(local) = self.common.get() else { return Ok([Vec::new(), Vec::new()]) };
        let said = local.posterior().predict(x).map_err(|error| of(COMMON, error))?;
        Ok([said.mean.iter().zip(prior).map(|(mean, prior)| mean - prior).collect(), said.variance])
    }
}

/// Whether the factors of experts on these rows are small enough to keep.
fn kept(rows: &[impl AsRef<[usize]>]) -> bool {
    8.0 * rows.iter().map(|rows| (rows.as_ref().len() as f64).powi(2)).sum::<f64>() <= KEPT
}

/// The predictions at `x` of the experts of all ranks, in the order of the experts.
fn elsewhere(experts: &Conditioned, ranks: &Ranks, augmented: bool, x: &[f64]) -> Result<Vec<Marginals>> {
    let mut talk = ranks.talk();
    remote::hold(experts.model(), &mut talk, ranks.size(), experts.data(), experts.compute())?;
    let mut message = remote::with_parameters(experts.model());
    message.document = json!({ "augmented": augmented });
    put(&mut message, "x", x.to_vec());
    let answers = talk.ask(SAY, message, || experts.say(augmented, x).map(said))?;
    answers.into_iter().map(heard).collect::<Result<Vec<_>>>().map(|heard| heard.concat())
}

/// Predictions of experts as a message.
pub(super) fn said(all: Vec<Marginals>) -> Message {
    let mut message = Message { document: json!({ "experts": all.len() }), ..Message::default() };
    put(&mut message, "counts", all.iter().map(|said| said.mean.len() as f64).collect());
    put(&mut message, "mean", all.iter().flat_map(|said| said.mean.clone()).collect());
    put(&mut message, "variance", all.into_iter().flat_map(|said| said.variance).collect());
    message
}

fn heard(mut message: Message) -> Result<Vec<Marginals>> {
    let counts = take(&mut message, "counts")?;
    let (mean, variance) = (take(&mut message, "mean")?, take(&mut message, "variance")?);
    let (mut means, mut variances) = (mean.into_iter(), variance.into_iter());
    let of_one = |count: f64| {
        let count = count as usize;
        let mean = means.by_ref().take(count).collect();
        Marginals { mean, variance: variances.by_ref().take(count).collect(), floored: 0 }
    };
    Ok(counts.into_iter().map(of_one).collect())
}
