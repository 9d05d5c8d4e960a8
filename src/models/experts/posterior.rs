//! The posterior of experts: each knows its own rows, and a rule makes one prediction of theirs.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::aggregation::{
    Augmented, Chunk, Covariances, Form, Local as Said, Record, Rule, WeightVariance, Weighted, Weights, aggregate,
};
use super::local::Local;
use super::rows::Data;
use super::{Experts, of, remote, terms};
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::linalg::jitter::{record, watch};
use crate::model_file::{Array, ArrayData};
use crate::models::Observations;
use crate::models::gp_model::GpModel;
use crate::models::posterior::{self, Aggregates, Joint, Marginals, Posterior, SavedPosterior};
use crate::scope::{Scope, to_f64};
use crate::suggest::nearest;
use crate::threads;

/// In files: the expert of each row `[n]`.
pub(super) const PARTS: &str = "posterior.experts";
/// In files: the rows of the communication expert.
pub(super) const COMMUNICATION: &str = "posterior.communication";

/// What the communication expert is called in messages.
const COMMON: &str = "the communication expert";

/// Rows that all experts are asked about at once.
const ROWS: usize = 4096;
/// Bytes that the weights of all rows in the experts' means may take for a chunk of predictions.
const BYTES: usize = 512 << 20;
/// Bytes of factors up to which they are kept; beyond, each expert is conditioned again where it is asked.
const KEPT: f64 = 2e9;

/// The posterior of [`Experts`], by a rule.
#[derive(Debug, Clone)]
pub struct ExpertsPosterior {
    held: Arc<Held>,
    rule: Rule,
    variance: WeightVariance,
    /// What happened in predictions so far.
    record: Arc<Mutex<Record>>,
}

/// What all rules ask.
#[derive(Debug)]
pub(super) struct Held {
    model: Experts,
    compute: Compute,
    /// The rows that were given, unless the model has its own.
    data: Observations,
    /// This process's experts; none where their factors take too much memory.
    locals: Option<Vec<Local>>,
    /// The communication expert.
    common: OnceLock<Local>,
    /// The experts that have its rows, too; none where their factors take too much memory.
    augmented: OnceLock<Option<Vec<Local>>>,
    /// By form.
    weights: [OnceLock<Weights>; 3],
}

impl Held {
    /// Conditions this process's experts, unless their factors take too much memory.
    pub(super) fn new(model: Experts, compute: Compute, data: Observations) -> Result<Self> {
        let (common, augmented, weights) = (OnceLock::new(), OnceLock::new(), Default::default());
        let mut held = Self { model, compute, data, locals: None, common, augmented, weights };
        let own: Vec<&[usize]> = held.model.own().map(|expert| &held.model.parts()[expert][..]).collect();
        let kept = kept(&own);
        held.locals = if kept { Some(held.conditioned(&own)?) } else { None };
        Ok(held)
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

    /// This process's experts conditioned on rows that each has, in parallel.
    fn conditioned(&self, rows: &[impl AsRef<[usize]> + Sync]) -> Result<Vec<Local>> {
        let first = self.model.own().start;
        let made = threads::apart(rows.len(), |at| {
            let (local, jitter) = watch(|| self.local(first + at, rows[at].as_ref()));
            Ok((local?, jitter))
        })?;
        made.iter().for_each(|(_, jitter)| record(*jitter));
        Ok(made.into_iter().map(|(local, _)| local).collect())
    }

    fn local(&self, expert: usize, rows: &[usize]) -> Result<Local> {
        let local = Local::new(&self.model.shared, self.compute, self.data().gather(rows)?);
        local.map_err(|error| self.model.of_expert(expert, error))
    }

    /// What `f` makes of an expert; one that another rank holds is conditioned for it.
    pub(super) fn with<R>(&self, expert: usize, f: impl FnOnce(&Local) -> Result<R>) -> Result<R> {
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

    /// What this process's experts say at `x`, by themselves or with the rows of the communication expert: of those
    /// that have no others there are no rows.
    pub(super) fn say(&self, augmented: bool, x: &[f64]) -> Result<Vec<Marginals>> {
        let own = self.model.own();
        let predict = |at: usize, local: &Local| {
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

    /// What all experts say, wherever they are.
    fn all(&self, augmented: bool, x: &[f64]) -> Result<Vec<Marginals>> {
        match &self.model.ranks {
            Some(ranks) => remote::say(self, ranks, augmented, x),
            None => self.say(augmented, x),
        }
    }

    /// What all experts say: means, less the prior's, and variances, row-major `[count, t]`.
    fn said(&self, augmented: bool, prior: &[f64], x: &[f64]) -> Result<[Vec<f64>; 2]> {
        let said = self.all(augmented, x)?;
        let deviation = |said: &Marginals| said.mean.iter().zip(prior).map(|(m, p)| m - p).collect::<Vec<f64>>();
        let mean = said.iter().flat_map(deviation).collect();
        Ok([mean, said.into_iter().flat_map(|said| said.variance).collect()])
    }

    /// What the communication expert says.
    fn common(&self, prior: &[f64], x: &[f64]) -> Result<[Vec<f64>; 2]> {
        if self.common.get().is_none() {
            let rows = self.data().gather(&self.model.communication)?;
            let local = Local::new(&self.model.shared, self.compute, rows).map_err(|error| of(COMMON, error))?;
            let _ = self.common.set(local);
        }
        let Some(local) = self.common.get() else { return Ok([Vec::new(), Vec::new()]) };
        let said = local.posterior().predict(x).map_err(|error| of(COMMON, error))?;
        Ok([said.mean.iter().zip(prior).map(|(mean, prior)| mean - prior).collect(), said.variance])
    }

    /// The weights of a form, solved once.
    fn weights(&self, form: Form) -> Result<&Weights> {
        let slot = &self.weights[form as usize];
        if let Some(known) = slot.get() {
            return Ok(known);
        }
        // Rows whose noise differs count by it: whitened, their noise variance is 1.
        let whitened = form == Form::Normal && self.data().has_noise();
        let sums = if form.all_rows() {
            terms::sums(self, self.data(), whitened)?
        } else {
            // A row of each.
            let rows: Vec<usize> = self.model.parts().iter().map(|rows| rows[rows.len() / 2]).collect();
            terms::sums(self, Data::Memory(&self.data().gather(&rows)?), false)?
        };
        let noise = if whitened { 1.0 } else { self.model.likelihood().noise().unwrap_or_default() };
        let weights = sums.system.solve(form, &sums.inner, noise)?;
        Ok(slot.get_or_init(|| weights))
    }
}

/// Whether the factors of experts on these rows are few enough to be kept.
fn kept(rows: &[impl AsRef<[usize]>]) -> bool {
    8.0 * rows.iter().map(|rows| (rows.as_ref().len() as f64).powi(2)).sum::<f64>() <= KEPT
}

impl ExpertsPosterior {
    pub(super) fn new(model: Experts, compute: Compute, data: Observations) -> Result<Self> {
        let data = match model.own_rows() {
            // What was given is not looked at.
            Some(own) => Observations { x: Vec::new(), d: own.d(), y: Vec::new(), noise: None },
            None => data,
        };
        model.check(model.seen(&data))?;
        let rule = model.rule;
        let held = Arc::new(Held::new(model, compute, data)?);
        Ok(Self { held, rule, variance: WeightVariance::default(), record: Arc::default() })
    }

    /// The same experts by another rule: nothing is computed again.
    pub fn by_rule(&self, rule: Rule, variance: WeightVariance) -> Self {
        Self { held: Arc::clone(&self.held), rule, variance, record: Arc::default() }
    }

    /// What each expert says of f at rows `x`, by itself.
    ///
    /// # Errors
    /// As [`predict`](Posterior::predict).
    pub fn each(&self, x: &[f64]) -> Result<Vec<Marginals>> {
        posterior::rows(x, self.held.data().d())?;
        self.held.all(false, x)
    }

    /// What was changed in the predictions so far.
    pub fn record(&self) -> Record {
        *self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The weights of the experts, where the rule has some.
    ///
    /// # Errors
    /// What their system reports.
    pub fn weights(&self) -> Result<Option<Weights>> {
        self.rule.needs().weights.map(|form| self.held.weights(form).cloned()).transpose()
    }

    /// Whether the rule needs covariances among the experts.
    fn entangled(&self) -> bool {
        let needs = self.rule.needs();
        needs.covariances && (needs.weights.is_none() || self.variance == WeightVariance::Prior)
    }

    /// Rows that are predicted at once.
    fn chunk(&self) -> usize {
        if !self.entangled() {
            return ROWS;
        }
        let (n, m) = (self.held.data().n(), self.held.model.len());
        // w and k of all rows, a product for each thread, and what comes of them.
        let threads = rayon::current_num_threads().min(m) * self.held.model.largest() * size_of::<f64>();
        let row = 2 * size_of::<f64>() * n + threads + Covariances::bytes(m, 1);
        (BYTES / row).clamp(1, ROWS)
    }

    /// A chunk of predictions, added to those before.
    fn extend(&self, x: &[f64], all: &mut Marginals) -> Result<()> {
        let held = &*self.held;
        let (scope, d) = (Scope::new(held.compute)?, held.data().d());
        let points = scope.matrix(x, x.len() / d, d);
        let prior = held.model.prior();
        let level = to_f64(prior.mean.at(&scope, &points)?)?;
        let variance = to_f64(prior.kernel.diag(&scope, &points)?)?;
        let needs = self.rule.needs();
        let [mean, own] = held.said(false, &level, x)?;
        let augmented =
            if needs.augmented { Some((held.common(&level, x)?, held.said(true, &level, x)?)) } else { None };
        let covariances = if self.entangled() { Some(terms::covariances(held, x)?) } else { None };
        let weights = needs.weights.map(|form| held.weights(form)).transpose()?;
        fn said([mean, variance]: &[Vec<f64>; 2]) -> Said<'_> {
            Said { mean, variance }
        }
        let chunk = Chunk {
            augmented: augmented
                .as_ref()
                .map(|(common, experts)| Augmented { communication: said(common), experts: said(experts) }),
            covariances: covariances.as_ref(),
            weighted: weights.map(|weights| Weighted { weights: &weights.beta, variance: self.variance }),
            ..Chunk::new(Said { mean: &mean, variance: &own }, &variance)
        };
        let found = aggregate(self.rule, &chunk)?;
        self.record.lock().unwrap_or_else(PoisonError::into_inner).add(found.record);
        all.mean.extend(found.mean.iter().zip(level).map(|(mean, level)| mean + level));
        all.variance.extend(found.variance);
        all.floored += found.record.floored;
        Ok(())
    }
}

impl Posterior for ExpertsPosterior {
    fn predict(&self, x: &[f64]) -> Result<Marginals> {
        let d = self.held.data().d();
        posterior::rows(x, d)?;
        let mut all = Marginals::default();
        x.chunks(self.chunk() * d).try_for_each(|chunk| self.extend(chunk, &mut all))?;
        Ok(all)
    }

    fn is_joint(&self) -> bool {
        false
    }

    fn predict_joint(&self, x: &[f64]) -> Result<Joint> {
        if posterior::rows(x, self.held.data().d())? == 0 {
            return Ok(Joint::default());
        }
        Err(Error::Usage(
            "experts have no joint distribution of several rows: their rules combine what they say row by row; \
             for joint samples fit one model of all rows"
                .into(),
        ))
    }

    fn saved(&self, _factor: bool) -> Result<SavedPosterior> {
        let (model, n) = (&self.held.model, self.held.data().n());
        if model.shards.is_some() {
            return Ok(SavedPosterior::default());
        }
        let mut owners = vec![0.0; n];
        for (expert, rows) in model.parts().iter().enumerate() {
            rows.iter().for_each(|row| owners[*row] = expert as f64);
        }
        let common: Vec<f64> = model.communication.iter().map(|row| *row as f64).collect();
        let mut saved = SavedPosterior::default();
        for (name, values) in [(PARTS, owners), (COMMUNICATION, common)] {
            let array = Array { shape: vec![values.len()], data: ArrayData::F64(values) };
            saved.arrays.insert(name.into(), array);
        }
        Ok(saved)
    }

    fn aggregates(&self) -> Option<&dyn Aggregates> {
        Some(self)
    }
}

/// Operations from which on a cost is told.
const MANY: f64 = 1e11;

impl Aggregates for ExpertsPosterior {
    fn rules(&self) -> Vec<&'static str> {
        let apart = self.held.model.shards.is_some();
        Rule::ALL.into_iter().filter(|rule| !apart || !rule.joins_rows()).map(Rule::name).collect()
    }

    fn rule(&self) -> &'static str {
        self.rule.name()
    }

    fn by(&self, rule: &str) -> Result<Box<dyn Posterior>> {
        let Some(found) = Rule::ALL.into_iter().find(|other| other.name() == rule) else {
            let names = self.rules();
            let hint = match nearest(rule, names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}", names.join(", ")),
            };
            return Err(Error::Usage(format!("no aggregation `{rule}`; {hint}")));
        };
        if self.held.model.shards.is_some() {
            found.check_apart()?;
        }
        Ok(Box::new(self.by_rule(found, self.variance)))
    }

    fn cost(&self, rows: usize) -> Option<String> {
        let (n, m) = (self.held.data().n(), self.held.model.len());
        // Half of the pairs, two operations each; and the experts' solves.
        let pairs = (n as f64).powi(2) * rows as f64;
        (self.entangled() && pairs > MANY).then(|| {
            let gigabytes = (self.chunk().min(rows) * (2 * 8 * n + Covariances::bytes(m, 1))) as f64 / 1e9;
            format!(
                "aggregation {} multiplies the covariances of all {n} training rows for each of {rows} rows: \
                 {pairs:.1e} operations, {gigabytes:.1} GB; grbcm needs only the experts' own",
                self.rule
            )
        })
    }

    fn warnings(&self) -> Vec<String> {
        let warning = self.weights().ok().flatten().and_then(|weights| weights.warning());
        warning.map(|line| format!("aggregation {}: {line}", self.rule)).into_iter().collect()
    }

    fn notes(&self) -> Vec<String> {
        self.record().lines().into_iter().map(|line| format!("aggregation {}: {line}", self.rule)).collect()
    }
}
