//! Many rows: the last of them say which structural kernels there are, and where their trainings begin.

use super::{Asked, periods, takes};
use crate::data::{Dataset, Schema, TargetTransform};
use crate::fitted::alternatives::in_order;
use crate::fitted::{Fitted, Member, Settings};
use crate::models::gp_model::GpModel;

/// More rows are not searched, but this number of the last ones.
const LAST: usize = 2500;
/// The search pays with this many times as many.
const TIMES: usize = 2;
/// The least weight, and the largest number, of models that are trained on all rows.
const WEIGHT: f64 = 0.1;
pub(in crate::fitted) const BEST: usize = 2;
/// The least weight that is told.
const SHOWN: f64 = 0.01;

/// The last rows along a single input, if there are many.
pub(in crate::fitted) fn last(settings: &Settings, schema: &Schema, data: &Dataset) -> Option<Vec<usize>> {
    if !takes(settings, schema) || data.n < TIMES * LAST {
        return None;
    }
    let time = schema.series().map_or(0, |(series, _)| usize::from(series == 0));
    Some(in_order(data.n, |row| data.row(row)[time]).split_off(data.n - LAST))
}

/// The same question with the seasons that all rows show, if none are asked for: the last ones may have few years.
/// The logarithm is the one that all rows allow.
pub(in crate::fitted) fn of_all(asked: &Asked, schema: &Schema, data: &Dataset) -> Asked {
    let found = || periods(schema, data).iter().map(|period| format!("{period:?}")).collect();
    let seasons = Some(asked.seasons.clone().unwrap_or_else(found));
    let logarithm = TargetTransform::logarithm(data.y.as_deref().unwrap_or_default());
    Asked { seasons, log: asked.log && logarithm.is_some(), logarithm }
}

/// The models that all rows are worth: those that the last rows give weight to, the heaviest first.
pub(in crate::fitted) fn best(found: &Fitted) -> Vec<&Fitted> {
    let heavy = |(k, member): &(usize, &Member)| *k == 0 || member.weight >= WEIGHT;
    match found.members() {
        [] => vec![found],
        members => members.iter().enumerate().filter(heavy).take(BEST).map(|(_, member)| &member.fitted).collect(),
    }
}

/// Starts a model at the parameters of the same one of the last rows, in their units.
pub(in crate::fitted) fn carry(model: &mut dyn GpModel, found: &dyn GpModel) {
    for ((_, own), (_, found)) in model.parameters_mut().into_iter().zip(found.parameters()) {
        if !own.fixed && !own.given && own.len() == found.len() {
            own.put(&found.values());
        }
    }
}

/// What was found, in words.
pub(in crate::fitted) fn said(found: &Fitted) -> String {
    let members = found.members().iter().filter(|member| member.weight >= SHOWN);
    let members: Vec<String> = members.map(|member| format!("{} ({:.2})", member.name(), member.weight)).collect();
    format!("the last {LAST} rows show {}", members.join(", "))
}
