//! The posterior of experts. Each expert knows its own rows, and a rule combines the predictions into one.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::aggregation::{Augmented, Chunk, Covariances, Form, LocalPredictions, Record, Rule, Weights, aggregate};
use super::conditioned::Conditioned;
use super::{Experts, terms};
use crate::device::Compute;
use crate::distributed::Data;
use crate::error::{Error, Result};
use crate::models::Observations;
use crate::models::gp_model::GpModel;
use crate::models::posterior::{self, Aggregates, Joint, Marginals, Posterior, SavedPosterior};
use crate::scope::{Scope, to_f64};
use crate::serving::Served;
use crate::suggest::hint;

/// The array in files with the expert of each row `[n]`.
pub(super) const PARTS: &str = "posterior.experts";
/// The array in files with the rows of the communication expert.
pub(super) const COMMUNICATION: &str = "posterior.communication";

/// The largest number of rows that experts predict at once.
const ROWS: usize = 4096;
/// The most bytes that the weights of all rows in the experts' means may take for a chunk of predictions.
const BYTES: usize = 512 << 20;

/// The posterior of [`Experts`], combined by a rule.
#[derive(Debug, Clone)]
pub struct ExpertsPosterior {
    experts: Arc<Conditioned>,
    /// The weights of each form, solved once.
    weights: Arc<[OnceLock<Weights>; 2]>,
    rule: Rule,
    /// What was changed in the predictions so far.
    record: Arc<Mutex<Record>>,
}

impl ExpertsPosterior {
    pub(super) fn new(model: Experts, compute: Compute, data: Observations) -> Result<Self> {
        let data = match model.parts.own_rows() {
            // The given data are ignored.
            Some(own) => Observations::none(own.d()),
            None => data,
        };
        model.parts.check(model.parts.seen(&data))?;
        let rule = model.rule;
        let experts = Arc::new(Conditioned::new(model, compute, data)?);
        Ok(Self { experts, weights: Arc::default(), rule, record: Arc::default() })
    }

    /// The same experts with another rule. Nothing is computed again.
    pub fn by_rule(&self, rule: Rule) -> Self {
        Self { rule, record: Arc::default(), ..self.clone() }
    }

    /// The predictions of f at rows `x` by each expert alone.
    ///
    /// # Errors
    /// As [`predict`](Posterior::predict).
    pub fn each(&self, x: &[f64]) -> Result<Vec<Marginals>> {
        posterior::rows(x, self.experts.data().d())?;
        self.experts.all(false, x)
    }

    /// What was changed in the predictions so far.
    pub fn record(&self) -> Record {
        *self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The weights of the experts, if the rule has weights.
    ///
    /// # Errors
    /// Errors from their linear system.
    pub fn weights(&self) -> Result<Option<Weights>> {
        self.rule.needs().weights.map(|form| self.solved(form).cloned()).transpose()
    }

    /// The weights of a form. Solves for them once.
    fn solved(&self, form: Form) -> Result<&Weights> {
        posterior::once(&self.weights[form as usize], || self.solve(form))
    }

    fn solve(&self, form: Form) -> Result<Weights> {
        let experts = &*self.experts;
        // If rows have noise variances of their own, they are whitened: then the noise variance is 1.
        let whitened = form == Form::Normal && experts.data().has_auxiliary();
        let (system, inner) = if form.all_rows() {
            terms::sums(experts, experts.data(), whitened)?
        } else {
            // One row of each expert.
            let rows: Vec<usize> = experts.model().parts().iter().map(|rows| rows[rows.len() / 2]).collect();
            terms::sums(experts, Data::Memory(&experts.data().gather(&rows)?), false)?
        };
        let noise = if whitened { 1.0 } else { experts.model().likelihood().noise().unwrap_or_default() };
        system.solve(form, &inner, noise)
    }

    /// Whether the rule needs covariances among the experts.
    fn entangled(&self) -> bool {
        self.rule.needs().covariances
    }

    /// The number of rows that are predicted at once.
    fn chunk(&self) -> usize {
        if !self.entangled() {
            return ROWS;
        }
        let (n, m) = (self.experts.data().n(), self.experts.model().len());
        // w and k of all rows, a product for each thread, and the resulting covariances.
        let threads = rayon::current_num_threads().min(m) * self.experts.model().largest() * size_of::<f64>();
        let row = 2 * size_of::<f64>() * n + threads + Covariances::bytes(m, 1);
        (BYTES / row).clamp(1, ROWS)
    }

    /// Appends the predictions of a chunk to `all`.
    fn extend(&self, x: &[f64], all: &mut Marginals) -> Result<()> {
        let experts = &*self.experts;
        let (scope, d) = (Scope::new(experts.compute())?, experts.data().d());
        let points = scope.rows(x, d);
        let prior = experts.model().prior();
        let level = to_f64(prior.mean.at(&scope, &points)?)?;
        let variance = to_f64(prior.kernel.diag(&scope, &points)?)?;
        let needs = self.rule.needs();
        // A single expert is no committee.
        let local = needs.local || experts.model().len() == 1;
        let [mean, own] = if local { experts.said(false, &level, x)? } else { Default::default() };
        let common = if needs.augmented { Some(experts.common(&level, x)?) } else { None };
        let augmented = common.map(|common| {
            let said = match self.rule {
                Rule::Near => experts.near(&common, &level, x)?,
                _ => experts.said(true, &level, x)?,
            };
            Ok::<_, Error>((common, said))
        });
        let augmented = augmented.transpose()?;
        let covariances = if self.entangled() { Some(terms::covariances(experts, x)?) } else { None };
        let weights = needs.weights.map(|form| self.solved(form)).transpose()?;
        fn said([mean, variance]: &[Vec<f64>; 2]) -> LocalPredictions<'_> {
            LocalPredictions { mean, variance }
        }
        let chunk = Chunk {
            augmented: augmented
                .as_ref()
                .map(|(common, experts)| Augmented { communication: said(common), experts: said(experts) }),
            covariances: covariances.as_ref(),
            weights: weights.map(|weights| &weights.beta[..]),
            ..Chunk::new(LocalPredictions { mean: &mean, variance: &own }, &variance)
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
        let d = self.experts.data().d();
        posterior::rows(x, d)?;
        let mut all = Marginals::default();
        x.chunks(self.chunk() * d).try_for_each(|chunk| self.extend(chunk, &mut all))?;
        Ok(all)
    }

    fn is_joint(&self) -> bool {
        false
    }

    fn predict_joint(&self, x: &[f64]) -> Result<Joint> {
        if posterior::rows(x, self.experts.data().d())? == 0 {
            return Ok(Joint::default());
        }
        Err(Error::Usage(
            "experts have no joint distribution of several rows: their rules combine predictions row by row; \
             for joint samples fit one model of all rows"
                .into(),
        ))
    }

    fn served(&self, factor: bool) -> Result<Served> {
        if self.experts.model().parts.shards().is_some() {
            return Ok(Served::refused("its rows stay elsewhere"));
        }
        if !factor {
            return Ok(Served::refused(posterior::NO_FACTOR));
        }
        let weights = self.weights()?.map(|weights| weights.beta);
        self.experts.served(self.rule, weights)
    }

    fn saved(&self, _factor: bool) -> Result<SavedPosterior> {
        let (model, n) = (self.experts.model(), self.experts.data().n());
        if model.parts.shards().is_some() {
            return Ok(SavedPosterior::default());
        }
        let mut owners = vec![0.0; n];
        for (expert, rows) in model.parts().iter().enumerate() {
            rows.iter().for_each(|row| owners[*row] = expert as f64);
        }
        let common: Vec<f64> = model.communication.iter().map(|row| *row as f64).collect();
        let mut saved = SavedPosterior::default();
        saved.put(PARTS, &[n], owners);
        saved.put(COMMUNICATION, &[common.len()], common);
        Ok(saved)
    }

    fn aggregates(&self) -> Option<&dyn Aggregates> {
        Some(self)
    }
}

/// Above so many operations the user is told the cost.
const MANY: f64 = 1e11;

impl Aggregates for ExpertsPosterior {
    fn rules(&self) -> Vec<&'static str> {
        let apart = self.experts.model().parts.shards().is_some();
        Rule::ALL.into_iter().filter(|rule| !apart || !rule.joins_rows()).map(Rule::name).collect()
    }

    fn rule(&self) -> &'static str {
        self.rule.name()
    }

    fn by(&self, rule: &str) -> Result<Box<dyn Posterior>> {
        let Some(found) = Rule::ALL.into_iter().find(|other| other.name() == rule) else {
            let hint = hint(rule, &self.rules(), "the rules are");
            return Err(Error::Usage(format!("no aggregation `{rule}`; {hint}")));
        };
        if self.experts.model().parts.shards().is_some() {
            found.check_apart()?;
        }
        Ok(Box::new(self.by_rule(found)))
    }

    fn cost(&self, rows: usize) -> Option<String> {
        let (n, m) = (self.experts.data().n(), self.experts.model().len());
        // Half of the pairs with two operations each. The experts' solves add to it.
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
