//! Weighted averages of fitted models: which kernel is right cannot be known from few rows, so several predict
//! together.
//!
//! A member's weight is `exp(−n (e + l) / 2T)`, up to a factor. e is minus the log evidence (as training left it,
//! priors included) and l the negative log density of the training rows, each left out in turn; both are per row and in
//! the target's own units, so that models of a transformed target compare with others. Evidence alone (Bayesian model
//! averaging, Hoeting et al. 1999) trusts the prior, and left-out densities alone a noisy estimate; their mean is
//! tempered by T = 16, because both were trained on the same rows (Grünwald and van Ommen 2017). Of classes and counts,
//! the left-out density decides alone. `docs/average.md` has the measurements. Where state-space models of a series are
//! among them, the weights are by the evidence alone: it predicts each row from earlier ones, and left-out densities
//! predict it from its neighbours on both sides. Of a series of more than a thousand rows, the evidence is nearly all
//! about the next row; there, weights are those of forecasts of the last four tenths, a tenth at a time.
//!
//! Models of many rows do not all leave rows out in closed form. Then some rows are set apart, and the weights are
//! those with the highest density of these rows (stacking, Yao et al. 2018).

mod candidates;
mod forecasts;
mod mixed;
mod search;
mod train;
mod transforms;
mod weights;

use std::sync::Arc;

pub use candidates::{AVERAGE, MANY, OF_LABELS, OF_MODELS, UNTRIED_MODELS, candidates, cost_of_labels, seconds};
pub(super) use candidates::{Asked, LINE, TELL, USUAL, asked, models, of_table};
pub(super) use train::{is_without, own, train};
pub(super) use transforms::{Chosen, chosen};

use super::{Fitted, LeftOut, Settings, Summary};
use crate::data::{Dataset, TargetTransform, WarpKind};
use crate::error::{Error, Result};
use crate::metrics::{Predictive, loss_of_shares};
use crate::models::fit;
use crate::models::laplace::LaplaceOptions;
use crate::models::options::Kind;
use crate::models::registry::usual;
use crate::models::state_space::StateSpaceOptions;
use crate::scope::Scope;
use crate::threads;

/// How far inputs that two models transform may differ, as shares of their size, and still be the same rows.
const SAME: f64 = 1e-6;
/// The share of the entropy of classes that a model may leave of them and still be alone. On letter, pendigits, digits
/// and eeg_eye_state it was below 0.1, on banana 0.36 and on credit_default 0.8.
const CERTAIN: f64 = 0.2;

/// One of the models that predict together.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its share of the predictive density. The weights of all members sum to 1.
    pub weight: f64,
    /// Minus the log evidence per row, in nats and the target's units: what its training minimised.
    pub evidence: f64,
    /// Mean negative log density of the training rows, each left out in turn, as the model says without its
    /// calibration (of classes, at its temperature); of a [long series](Self::is_of_forecasts), of forecasts of its
    /// last rows; or of rows set apart from the training, as it predicts them. In nats and the target's units.
    pub left_out: f64,
    /// The model, which predicts alone too.
    pub fitted: Fitted,
}

impl Member {
    /// A model and its measures, still without a weight.
    fn of(fitted: Fitted) -> Result<Self> {
        let (y, densities) = if fitted.is_long() {
            (fitted.targets(), fitted.forecasts()?)
        } else if fitted.is_gaussian() {
            // As the model says: its calibration would hide what the evidence is about, and vouches only near these
            // rows.
            let left = fitted.uncalibrated().left_out()?.ok_or_else(|| unfit(&fitted.model.title()))?;
            (left.y.clone(), left.log_densities())
        } else {
            let (y, predictions) = fitted.left_out_targets()?;
            let densities = y.iter().zip(&predictions).map(|(y, prediction)| prediction.log_density(*y)).collect();
            (y, densities)
        };
        let evidence = fitted.evidence(&y);
        let left_out = -densities.iter().sum::<f64>() / densities.len() as f64;
        if !(evidence + left_out).is_finite() {
            return Err(Error::NotFinite("its evidence, or the density of rows that it leaves out,".into()));
        }
        Ok(Self { weight: 0.0, evidence, left_out, fitted })
    }

    /// A model and its measures on rows that it was not trained on, with the log densities of these.
    fn beside(fitted: Fitted, apart: &Dataset) -> Result<(Self, Vec<f64>)> {
        let y = apart.y.as_deref().unwrap_or_default();
        let densities: Vec<f64> = match fitted.is_gaussian() {
            true => fitted.predict(apart)?.iter().zip(y).map(|(p, y)| p.log_density(*y)).collect(),
            false => fitted.predict_targets(apart)?.iter().zip(y).map(|(p, y)| p.log_density(*y)).collect(),
        };
        let (evidence, left_out) = (fitted.evidence(y), -densities.iter().sum::<f64>() / y.len() as f64);
        if !left_out.is_finite() {
            return Err(Error::NotFinite("the density of the rows set apart".into()));
        }
        Ok((Self { weight: 0.0, evidence, left_out, fitted }, densities))
    }

    /// Whether it predicts classes so well that other models could add nothing but their time.
    fn is_certain(&self) -> bool {
        let entropy = self.entropy();
        entropy > 0.0 && self.left_out < CERTAIN * entropy
    }

    /// The entropy of the shares of classes; 0 for other targets.
    fn entropy(&self) -> f64 {
        let count = |class: usize| self.fitted.data.y.iter().filter(|y| **y == class as f64).count();
        loss_of_shares((0..self.fitted.model.likelihood().classes().unwrap_or(0)).map(count))
    }

    /// Whether its measure is that of forecasts: of a single series of more than a thousand rows by a state-space
    /// model, with the parameters that all rows have.
    pub fn is_of_forecasts(&self) -> bool {
        self.fitted.is_long()
    }

    /// Its kernel, and the model and the transform of the target where they are not the usual ones.
    pub fn name(&self) -> String {
        name(&self.fitted.settings, &self.fitted.schema.target)
    }
}

/// A candidate's kernel, and what it models of the target.
fn name(settings: &Settings, target: &str) -> String {
    let kernel = match settings.model.kind() {
        // The kernels of series say what they are by themselves.
        kind if kind == usual().kind() || kind == StateSpaceOptions::NAME => settings.kernel.clone(),
        kind => format!("{kind} with {}", settings.kernel),
    };
    let kernel = match settings.input_transform.all {
        None | Some(WarpKind::None) => kernel,
        Some(kind) => format!("{kernel} on {kind}"),
    };
    match settings.target_transform {
        TargetTransform::Identity => kernel,
        TargetTransform::Log => format!("{kernel} of log({target})"),
        TargetTransform::Log1p => format!("{kernel} of log(1 + {target})"),
    }
}

/// The error for a model without a measure of how well it predicts rows that it has not seen.
pub(super) fn unfit(model: &str) -> Error {
    Error::Usage(format!(
        "the models of an average are weighed by leaving rows out in closed form, which this one cannot: {model}; \
         give a single kernel, or choose the exact model with the gaussian likelihood"
    ))
    .about("Settings::kernel")
}

impl Fitted {
    /// An average of models that were fitted to the same rows, each at least once; see
    /// [`members`](Self::members). Everything that belongs to a single model (its kernel, parameters, posterior) is
    /// that of the heaviest member.
    ///
    /// # Errors
    /// [`Error::Usage`] for no models, for models of other rows or columns, and for models without leave-one-out
    /// predictions in closed form; [`Error::NotFinite`] if such a prediction is not finite.
    pub fn average(models: Vec<Self>) -> Result<Self> {
        Self::weighed(models.into_iter().map(Member::of).collect::<Result<_>>()?)
    }

    /// Minus the log evidence per row, as training left it, in the units of some targets `y`, which stand for all.
    fn evidence(&self, y: &[f64]) -> f64 {
        let jacobian = y.iter().map(|y| self.target_scale.log_jacobian(*y)).sum::<f64>() / y.len() as f64;
        self.summary.loss - jacobian
    }

    /// The models that predict together, the heaviest first; none if this is a single model.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Whether every member leaves rows out in closed form.
    fn is_closed(&self) -> bool {
        self.members.iter().all(|member| member.fitted.posterior.leave_one_out().is_some())
    }

    /// The average of members with weights.
    pub(super) fn of_members(members: Vec<Member>) -> Result<Self> {
        let Some(heaviest) = members.first() else {
            return Err(Error::Usage("an average needs one model or more".into()));
        };
        let mut lead = heaviest.fitted.clone();
        // Sparse models need none of their rows, and experts may have them in another order, or with other inputs.
        let dense = |kind: &str| kind == usual().kind() || kind == LaplaceOptions::NAME;
        let closed = members.iter().all(|member| dense(member.fitted.settings.model.kind()));
        let same = |Member { fitted, .. }: &Member| {
            fitted.members.is_empty()
                && fitted.schema == lead.schema
                && fitted.summary.rows == lead.summary.rows
                && (!closed || fitted.has_rows_of(&lead))
        };
        if !members.iter().all(same) {
            return Err(Error::Usage("an average is of single models of the same rows and columns".into()));
        }
        let sum = |of: fn(&Self) -> usize| members.iter().map(|member| of(&member.fitted)).sum::<usize>();
        lead.summary.iterations = sum(|fitted| fitted.summary.iterations);
        lead.summary.evaluations = sum(|fitted| fitted.summary.evaluations);
        lead.summary.seconds = members.iter().map(|member| member.fitted.summary.seconds).sum();
        Ok(Self { members: Arc::from(members), ..lead })
    }

    /// Whether the inputs of another model of as many rows are the same, up to rounding if they are transformed.
    fn has_rows_of(&self, other: &Self) -> bool {
        if self.input_scale == other.input_scale {
            return self.data.x == other.data.x;
        }
        let own = |fitted: &Self| fitted.input_scale.invert(&fitted.data.x);
        let (Ok(x), Ok(others)) = (own(self), own(other)) else { return false };
        let ranges = self.input_scale.sd.iter().cycle();
        x.iter().zip(&others).zip(ranges).all(|((x, other), sd)| (x - other).abs() <= SAME * (sd + x.abs()))
    }

    /// The average after a change of every member; their weights change too, unless they came from rows set apart.
    pub(super) fn each(&self, change: impl Fn(&Self) -> Result<Self>) -> Result<Self> {
        let models = self.members.iter().map(|member| change(&member.fitted));
        if self.is_closed() {
            return Ok(Self::average(models.collect::<Result<_>>()?)?.said_as(self));
        }
        let kept = |(member, fitted): (&Member, Result<Self>)| Ok(Member { fitted: fitted?, ..member.clone() });
        Self::of_members(self.members.iter().zip(models).map(kept).collect::<Result<_>>()?)
    }

    /// What was said of the search and its members, also where another member has become the heaviest, and what all
    /// trainings took.
    fn said_as(mut self, before: &Self) -> Self {
        let Summary { trail, unheard, .. } = &before.summary;
        self.annotate(|summary| (summary.trail, summary.unheard) = (trail.clone(), unheard.clone()));
        let Summary { iterations, evaluations, seconds, .. } = before.summary;
        Self { summary: Summary { iterations, evaluations, seconds, ..self.summary.clone() }, ..self }
    }

    /// The average after a change of every member's predictions; weights stay.
    pub(super) fn each_kept(&self, change: impl Fn(&Self) -> Self) -> Self {
        let changed = |member: &Member| Member { fitted: change(&member.fitted), ..member.clone() };
        Self { members: self.members.iter().map(changed).collect(), ..change(self) }
    }

    /// The average with more rows. A model of the logarithm has no density at a target without one and is left out.
    /// Weights move with the rows, unless they came from rows set apart.
    pub(super) fn mixed_update(&self, more: &Dataset) -> Result<Self> {
        if !self.is_closed() {
            return self.each(|member| member.update(more));
        }
        let able = |member: &&Member| member.fitted.target_scale.forward(more).is_ok();
        let updated = |member: &Member| member.fitted.update(more)?.measured();
        let models = self.members.iter().filter(able).map(updated).collect::<Result<Vec<Self>>>()?;
        // Without any member, the error is about the row.
        if models.is_empty() { self.members[0].fitted.update(more) } else { Ok(Self::average(models)?.said_as(self)) }
    }

    /// The settings of the heaviest member on inputs as they are, or as they were asked for.
    pub(super) fn plain_settings(&self) -> &Settings {
        let plain = self.members.iter().find(|member| member.fitted.input_scale.warps.is_empty());
        plain.map_or(&self.settings, |member| &member.fitted.settings)
    }

    /// The transform that targets have to allow: none if a member models them as they are.
    pub fn target_transform(&self) -> TargetTransform {
        let own = |fitted: &Self| fitted.target_scale.transform;
        let plain = self.members.iter().any(|member| own(&member.fitted) == TargetTransform::Identity);
        if plain { TargetTransform::Identity } else { own(self) }
    }

    /// The same model with the objective of its rows, priors included, in place of the one that training ended with.
    pub(super) fn measured(self) -> Result<Self> {
        let compute = self.settings.compute;
        let evaluated =
            threads::helped(|| fit::evaluate(&*self.model, compute, &self.data.batch(&Scope::new(compute)?)))?;
        let loss = evaluated.loss / self.data.n() as f64;
        Ok(Self { summary: Summary { loss, ..self.summary.clone() }, ..self })
    }

    /// The training rows, each predicted from all others by every member; none if a member has no closed form for that.
    /// Errors are drawn from the heaviest member.
    pub(super) fn mixed_left_out(&self) -> Result<Option<LeftOut>> {
        if !self.is_closed() {
            return Ok(None);
        }
        let mut lead: Option<LeftOut> = None;
        let left_out = |member: &Self| match member.left_out()? {
            Some(left) => {
                let predictions = left.predictions.clone();
                lead.get_or_insert(left);
                Ok(predictions)
            }
            None => Err(unfit(&member.model.title())),
        };
        let predictions = self.averaged(left_out, Predictive::Average)?;
        Ok(lead.map(|lead| LeftOut { predictions, ..lead }))
    }

    /// Members that take part in predictions.
    fn heard(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.weight > 0.0)
    }

    /// What `of` predicts for each row by a single model, or by the members with their weights, `joined`.
    pub(super) fn averaged<T>(
        &self,
        mut of: impl FnMut(&Self) -> Result<Vec<T>>,
        joined: impl Fn(Vec<(f64, T)>) -> T,
    ) -> Result<Vec<T>> {
        if self.members.is_empty() {
            return of(self);
        }
        let mut each = Vec::new();
        for member in self.heard() {
            each.push((member.weight, of(&member.fitted)?.into_iter()));
        }
        let rows = each.first().map_or(0, |(_, predictions)| predictions.len());
        let row = |_| each.iter_mut().filter_map(|(weight, all)| Some((*weight, all.next()?))).collect();
        Ok((0..rows).map(row).map(joined).collect())
    }
}
