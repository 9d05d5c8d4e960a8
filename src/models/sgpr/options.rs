//! The options of the sparse GP with the collapsed bound.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Pooled, Sgpr};
use crate::advice::Advice;
use crate::error::Result;
use crate::models::gp_model::GpModel;
use crate::models::options::{Context, Kind, ModelOptions, Parts, setters};
use crate::models::prior::Prior;

/// A sparse GP with the collapsed bound, in n m² time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SgprOptions {
    /// The number of inducing inputs m.
    pub inducing: usize,
}

impl Default for SgprOptions {
    /// 512 inducing inputs.
    fn default() -> Self {
        Self { inducing: 512 }
    }
}

setters!(SgprOptions { inducing: usize });

impl SgprOptions {
    pub(in crate::models) fn model(self, prior: Prior, context: &Context) -> Result<Sgpr> {
        let z = context.inducing(&prior.kernel, self.inducing)?;
        let mut model = Sgpr::new(prior.kernel, &z, context.data.d)?;
        model.process.prior.mean = prior.mean;
        Ok(model)
    }
}

impl Kind for SgprOptions {
    const NAME: &'static str = "sgpr";
    const READS: bool = true;
}

impl ModelOptions for SgprOptions {
    fn build(&self, Parts { prior, .. }: Parts, context: &Context) -> Result<Box<dyn GpModel>> {
        let model = self.model(prior, context)?;
        // In a job of several processes, each process computes the sums over its rows.
        let pooled = |model| Pooled::new(model, context.rows()).over(context.crew.cloned());
        Ok(match context.source {
            Some(source) => Box::new(pooled(model).reading(Arc::clone(source))?),
            None if context.crew.is_some() => Box::new(pooled(model)),
            None => Box::new(model),
        })
    }

    fn leaves_one_out(&self) -> bool {
        true
    }

    fn smaller(&self) -> Advice {
        Advice::from("choose fewer inducing inputs").about("SgprOptions::inducing")
    }
}

#[cfg(feature = "command")]
mod command {
    use super::{Result, SgprOptions};
    use crate::models::command::{Given, InducingArguments, Offered};

    impl Offered for SgprOptions {
        const ABOUT: &'static str = "Sparse, through inducing inputs and the collapsed bound";

        type Arguments = InducingArguments;

        fn from_arguments(inducing: InducingArguments, _given: &Given) -> Result<Self> {
            Ok(Self { inducing: inducing.count() })
        }
    }
}
