//! Plans of structural kernels, and where their trainings begin.

use std::time::Instant;

use super::Plan;
use super::table::Table;
use crate::advice::Advice;
use crate::error::Result;
use crate::fitted::{Fitted, Settings, average, structure};
use crate::models::race::Starts;
use crate::train::{Following, Observer, TrainConfig};

/// The share of the time that a search may take.
const SEARCH: f64 = 0.5;

/// The rows that the steps of a training on all of them see together, and the fewest steps. They begin at what the last
/// rows show: more steps of many rows take many minutes and change little.
const SEEN: usize = 400_000;
const FEWEST: usize = 5;

impl Table<'_> {
    /// The models of structural kernels. Of many rows, a search of the last says which of them are trained.
    pub(super) fn structural(self, (settings, asked): (Settings, &structure::Asked)) -> Result<Plan> {
        let Self { schema, data, .. } = self;
        let last = structure::last(&settings, schema, data).map(|rows| data.subset(&rows));
        let of_all = last.is_some().then(|| structure::of_all(asked, schema, data));
        let asked = of_all.as_ref().unwrap_or(asked);
        let search = last.map(|last| Table { data: &last, ..self }.structural((settings.clone(), asked)));
        let all = structure::candidates(&settings, schema, data, asked)?;
        let (each, links): (Vec<_>, Vec<_>) = all.into_iter().map(|one| (one.settings, one.link)).unzip();
        let plan = self.average(each)?.bounded();
        let others = plan.others.into_iter().zip(links.into_iter().skip(1));
        let others = others.map(|(plan, link)| Plan { link, ..plan.bounded() }).collect();
        Ok(Plan { others, search: search.transpose()?.map(Box::new), ..plan })
    }
}

impl Plan {
    /// Trains the last rows, and then on all rows the models that are best there, from their parameters. An end of the
    /// search is an end of the training: what it has found by then is conditioned on all rows.
    pub(super) fn searched(
        search: Self,
        (first, others): (Self, Vec<Self>),
        config: &TrainConfig,
        observers: &mut [&mut dyn Observer],
    ) -> Result<Fitted> {
        let began = Instant::now();
        let mut following = Following { all: observers, ended: false };
        let half = config.max_time.map(|time| time.mul_f64(SEARCH));
        let brief = TrainConfig { max_time: half, checkpoint: None, resume: None, ..config.clone() };
        let found = search.train(&brief, &mut [&mut following])?;
        let said = structure::said(&found);
        following.chosen(&said);
        // Members that were left out of the search for want of time.
        let of_time = |warning: &&Advice| average::is_without(warning) && warning.is_about("TrainConfig::max_time");
        let cut: Vec<_> = found.summary.warnings.iter().filter(of_time).cloned().collect();
        let mut all: Vec<Self> = std::iter::once(first).chain(others).collect();
        let mut chosen = Vec::new();
        for found in structure::best(&found) {
            let same = |plan: &Self| {
                (&plan.settings.kernel, plan.settings.target_transform)
                    == (&found.settings.kernel, found.settings.target_transform)
            };
            if let Some(at) = all.iter().position(same) {
                let mut plan = all.swap_remove(at).beginning_at(found);
                plan.warnings.extend(cut.clone());
                chosen.push(Self { said: Some(said.clone()), ..plan });
            }
        }
        let mut chosen = chosen.into_iter();
        // Candidates of the last rows and of all rows are the same.
        let first = chosen.next().unwrap_or_else(|| all.swap_remove(0));
        let enough =
            if config.steps == TrainConfig::default().steps { FEWEST.max(SEEN / first.rows().n()) } else { usize::MAX };
        let config = TrainConfig {
            max_time: config.max_time.map(|time| time.saturating_sub(began.elapsed())),
            steps: config.steps.min(enough),
            ..config.clone()
        };
        let mut fitted = Self { others: chosen.collect(), ..first }.train(&config, &mut [&mut following])?;
        fitted.annotate(|summary| summary.trail = found.summary.trail.clone());
        Ok(fitted)
    }

    /// The same plan with the bounds of the search.
    fn bounded(mut self) -> Self {
        self.bounded = structure::bound(&mut *self.model, &self.data, &self.units);
        self
    }

    /// The same plan with a start at what the last rows show.
    fn beginning_at(mut self, found: &Fitted) -> Self {
        structure::carry(&mut *self.model, &*found.model);
        self.settings.starts = Starts::Data;
        Self { link: None, ..self }
    }
}
