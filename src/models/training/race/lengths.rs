//! The lengthscales in which the starts of a race differ.

use super::ROWS;
use crate::kernels::Kernel;
use crate::models::Observations;
use crate::models::diagnose::entry_columns;
use crate::models::gp_model::GpModel;
use crate::params::{Constraint, Parameter};

/// The learned lengthscales, which starts differ in, as indices among the parameters.
pub(super) enum Lengths {
    /// One for each column, with the columns' standard deviations.
    Columns(Vec<(usize, Vec<f64>)>),
    /// A single one of each kernel, for the only column, and a shorter value for it.
    Single { places: Vec<usize>, short: f64 },
}

impl Lengths {
    /// None if all starts would be the same.
    pub fn of(model: &dyn GpModel, data: &Observations) -> Option<Self> {
        let kernels: Vec<&Kernel> = model.priors().into_iter().map(|prior| &prior.kernel).collect();
        let columns = entry_columns(&kernels, data.d);
        let parameters = model.parameters();
        let all: Vec<_> = parameters.iter().enumerate().filter(|(_, (_, p))| p.is_length()).collect();
        let learned = all.iter().filter(|(_, (_, p))| !p.fixed && !p.given);
        if data.d == 1 {
            let short = short(&data.x)?;
            let free = |p: &Parameter| p.constraint() == Constraint::FREE && p.internal()[0] > short;
            let places: Vec<usize> = learned.filter(|(_, (_, p))| free(p)).map(|(at, _)| *at).collect();
            return (places.len() == kernels.len() && all.len() == kernels.len())
                .then_some(Self::Single { places, short });
        }
        let sds = |p: &Parameter| Some(columns.get(&p.id())?.iter().map(|c| data.sd(*c)).collect());
        let several = learned.filter(|(_, (_, p))| p.len() > 1);
        let columns: Vec<_> = several.filter_map(|(at, (_, p))| Some((*at, sds(p)?))).collect();
        (!columns.is_empty()).then_some(Self::Columns(columns))
    }

    /// The name of the start that is not the data's own.
    pub fn start(&self) -> &'static str {
        match self {
            Self::Columns(_) => "isotropic optimum",
            Self::Single { .. } => "short lengthscale",
        }
    }
}

fn each(model: &mut dyn GpModel, columns: &[(usize, Vec<f64>)], change: impl Fn(&mut Parameter, &[f64])) {
    let mut parameters = model.parameters_mut();
    columns.iter().for_each(|(at, sd)| change(&mut *parameters[*at].1, sd));
}

/// Sets lengthscales to their geometric mean in units of the columns' standard deviations.
pub(super) fn make_equal(model: &mut dyn GpModel, columns: &[(usize, Vec<f64>)]) {
    each(model, columns, |p, sd| {
        let ratios = p.internal().iter().zip(sd).map(|(length, sd)| (length / sd).ln()).sum::<f64>();
        let common = (ratios / sd.len() as f64).exp();
        p.put_internal(&sd.iter().map(|sd| common * sd).collect::<Vec<_>>());
    });
}

pub(super) fn tie(model: &mut dyn GpModel, columns: &[(usize, Vec<f64>)], tied: bool) {
    each(model, columns, |p, _| p.tied = tied);
}

/// The median distance from an input to the third one after it. Equal inputs count once, and more than [`ROWS`] as so
/// many, because sparse models have no more inducing inputs. None for fewer than four.
fn short(x: &[f64]) -> Option<f64> {
    let mut x = x.to_vec();
    x.sort_unstable_by(f64::total_cmp);
    x.dedup();
    let apart = (3 * x.len()).div_ceil(ROWS).max(3);
    let mut distances: Vec<f64> = x.iter().zip(x.iter().skip(apart)).map(|(first, later)| later - first).collect();
    distances.sort_unstable_by(f64::total_cmp);
    distances.get(distances.len() / 2).copied()
}
