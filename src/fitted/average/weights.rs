//! The weights of the members of an average: by what they say of the training rows, or by the density of rows set
//! apart.

use super::{Fitted, Member, forecasts};
use crate::data::Moments;
use crate::error::Result;
use crate::fitted::Summary;
use crate::models::options::Kind;
use crate::models::state_space::StateSpaceOptions;

/// The temperature T of the weights.
const TEMPERATURE: f64 = 16.0;
/// Where a member predicts rows that it leaves out to a small share of their spread, by so many nats, others whose
/// evidence and left-out density are further behind than this, per row, would only blur it: their weight runs out.
const SHARP: f64 = 2.0;
const BEHIND: f64 = 1.0;
const RUNS_OUT: f64 = 4.0;
/// The temperature of weights by the evidence alone, of models of a series. On five monthly and quarterly series, 8 was
/// better than 1 and than 4.
const OF_EVIDENCE: f64 = 8.0;
/// Steps of EM for weights by rows set apart, and the least weight of a member that is heard.
const STEPS: usize = 500;
const LEAST: f64 = 0.01;
/// The least weight of a member that is kept. Others would take time in every prediction and change hardly any.
const HEARD: f64 = 1e-4;
/// How many nats a row a member on transformed inputs may predict rows that it leaves out worse than one on the inputs
/// as they are, both calibrated, before its transform counts as breaking what was simple. On bike, where the target is
/// linear in two columns, ranks had the best evidence for 150 and 400 rows, and lost 1.4 and 2.7 nats of other rows.
const BROKEN: f64 = 0.5;

impl Member {
    /// The logarithm of its weight by the evidence alone, up to a constant.
    pub(super) fn log_of_evidence(&self) -> f64 {
        -(self.fitted.summary.rows as f64) * self.evidence / OF_EVIDENCE
    }
}

/// The members, and apart from them those that a transform of their inputs breaks.
fn whole(members: Vec<Member>) -> Result<(Vec<Member>, Vec<Member>)> {
    let is_plain = |m: &Member| m.fitted.input_scale.warps.is_empty();
    let plain = members.iter().filter(|m| is_plain(m)).count();
    if plain == 0 || plain == members.len() || !members.iter().all(|m| m.fitted.is_gaussian()) {
        return Ok((members, Vec::new()));
    }
    let loss = |m: &Member| {
        let left = m.fitted.left_out()?.map(|left| left.log_densities());
        Ok(left.map_or(f64::INFINITY, |densities| -densities.iter().sum::<f64>() / densities.len() as f64))
    };
    let losses = members.iter().map(loss).collect::<Result<Vec<f64>>>()?;
    let of_plain = members.iter().zip(&losses).filter(|(m, _)| is_plain(m)).map(|(_, loss)| *loss);
    let least = of_plain.fold(f64::INFINITY, f64::min);
    let (whole, broken): (Vec<_>, Vec<_>) =
        members.into_iter().zip(losses).partition(|(m, loss)| is_plain(m) || *loss <= least + BROKEN);
    let alone = |all: Vec<(Member, f64)>| all.into_iter().map(|(member, _)| member).collect();
    Ok((alone(whole), alone(broken)))
}

impl Fitted {
    /// The standard deviation of the targets, in their own units.
    fn spread(&self) -> f64 {
        Moments::of(self.targets().into_iter()).sd()
    }

    /// Gives the members their weights.
    pub(super) fn weighed(members: Vec<Member>) -> Result<Self> {
        let (mut members, broken) = whole(members)?;
        // Rows that follow one another are not predicted from later ones.
        let ordered = members.iter().any(|member| member.fitted.settings.model.kind() == StateSpaceOptions::NAME);
        // Forecasts compare with forecasts only.
        let forecast = members.iter().all(Member::is_of_forecasts);
        let best = |of: fn(&Member) -> f64| members.iter().map(of).fold(f64::INFINITY, f64::min);
        let (evidence, left_out) = (best(|m| m.evidence), best(|m| m.left_out));
        let is_sharp =
            members.first().is_some_and(|m| m.fitted.is_gaussian() && left_out < m.fitted.spread().ln() - SHARP);
        let log = |m: &Member| match ordered {
            true if forecast => -forecasts::WORTH * m.left_out,
            true => m.log_of_evidence(),
            false => {
                // Priors on lengthscales, which few rows for many columns have, would decide by the evidence of
                // classes.
                let measure = if m.fitted.is_gaussian() { 0.5 * (m.evidence + m.left_out) } else { m.left_out };
                let gap = (m.evidence - evidence).min(m.left_out - left_out);
                let behind = if is_sharp { (gap - BEHIND).max(0.0) } else { 0.0 };
                -(m.fitted.summary.rows as f64) * measure / TEMPERATURE - (RUNS_OUT * behind).powi(2)
            }
        };
        let top = members.iter().map(log).fold(f64::NEG_INFINITY, f64::max);
        members.iter_mut().for_each(|member| member.weight = (log(member) - top).exp());
        members.extend(broken.into_iter().map(|member| Member { weight: 0.0, ..member }));
        Self::in_shares(members)
    }

    /// The average of members whose weights are in proportion to those that they have.
    fn in_shares(mut members: Vec<Member>) -> Result<Self> {
        let sum: f64 = members.iter().map(|member| member.weight).sum();
        members.iter_mut().for_each(|member| member.weight /= sum);
        members.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        Self::of_members(members)
    }

    /// Gives the members the weights with the highest density of some rows, whose log densities each has: the fixed
    /// point of EM from equal weights.
    pub(super) fn stacked(members: Vec<(Member, Vec<f64>)>) -> Result<Self> {
        let (mut members, densities): (Vec<Member>, Vec<Vec<f64>>) = members.into_iter().unzip();
        let rows = densities.first().map_or(0, Vec::len);
        // Of a row, relative to its best member.
        let top = |row: usize| densities.iter().map(|own| own[row]).fold(f64::NEG_INFINITY, f64::max);
        let shares: Vec<Vec<f64>> =
            (0..rows).map(|row| densities.iter().map(|own| (own[row] - top(row)).exp()).collect()).collect();
        let mut weights = vec![1.0 / members.len() as f64; members.len()];
        for _ in 0..STEPS {
            let mut sums = vec![0.0; weights.len()];
            for row in &shares {
                let total: f64 = row.iter().zip(&weights).map(|(share, weight)| share * weight).sum();
                sums.iter_mut().zip(row).zip(&weights).for_each(|((sum, share), w)| *sum += share * w / total);
            }
            weights = sums.into_iter().map(|sum| sum / rows as f64).collect();
        }
        // A member that is hardly heard would only cost time.
        weights.iter_mut().filter(|weight| **weight < LEAST).for_each(|weight| *weight = 0.0);
        members.iter_mut().zip(weights).for_each(|(member, weight)| member.weight = weight);
        Self::in_shares(members)
    }

    /// The average without members that are hardly heard: their predictions would only take time.
    pub(super) fn heard_only(self) -> Result<Self> {
        let (heard, others): (Vec<Member>, Vec<Member>) =
            self.members.iter().cloned().partition(|member| member.weight >= HEARD);
        if others.is_empty() {
            return Ok(self);
        }
        let mut average = Self::in_shares(heard)?;
        let names: Vec<String> = others.iter().map(Member::name).collect();
        average.annotate(|summary| summary.unheard = names.clone());
        // All trainings took time.
        let Summary { iterations, evaluations, seconds, .. } = self.summary;
        average.summary = Summary { iterations, evaluations, seconds, ..average.summary };
        Ok(average)
    }
}
