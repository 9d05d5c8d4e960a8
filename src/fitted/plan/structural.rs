//! Plans of structural kernels, and where their trainings begin.

use super::Plan;
use crate::data::{Dataset, Schema};
use crate::error::Result;
use crate::fitted::{Fitted, Registry, Settings, structure};
use crate::models::race::Starts;
use crate::train::TrainConfig;

impl Plan {
    /// The models of structural kernels. Of many rows, those that the last ones show, from the parameters that they
    /// show.
    pub(super) fn structural(
        schema: Schema,
        data: &Dataset,
        (settings, asked): (Settings, &structure::Asked),
        seed: u64,
        registry: &Registry,
    ) -> Result<Self> {
        if let Some(last) = structure::last(&settings, data) {
            let asked = structure::of_all(asked, &schema, data);
            let small = Self::structural(schema.clone(), &data.subset(&last), (settings, &asked), seed, registry)?;
            let found = small.train(&TrainConfig { seed, ..TrainConfig::default() }, &mut [])?;
            let (first, others) = structure::best(&found);
            let all = || std::iter::once(first).chain(others.iter().copied());
            let each = all().map(|found| found.settings.clone()).collect();
            let plan = Self::average(schema, data, each, seed, registry)?.beginning_at(first);
            let others = plan.others.into_iter().zip(&others).map(|(plan, found)| plan.beginning_at(found)).collect();
            return Ok(Self { others, said: Some(structure::said(all())), ..plan });
        }
        let all = structure::candidates(&settings, &schema, data, asked)?;
        let (each, links): (Vec<_>, Vec<_>) = all.into_iter().map(|one| (one.settings, one.link)).unzip();
        let plan = Self::average(schema, data, each, seed, registry)?.bounded();
        let others = plan.others.into_iter().zip(links.into_iter().skip(1));
        let others = others.map(|(plan, link)| Self { link, ..plan.bounded() }).collect();
        Ok(Self { others, ..plan })
    }

    /// The same plan with the bounds of the search.
    fn bounded(mut self) -> Self {
        self.bounded = structure::bound(&mut *self.model, &self.data, &self.units);
        self
    }

    /// The same plan with a start at what the last rows show.
    fn beginning_at(self, found: &Fitted) -> Self {
        let mut plan = self.bounded();
        structure::carry(&mut *plan.model, &*found.model);
        plan.settings.starts = Starts::Data;
        plan
    }
}
