//! The options of sparse grids.

use serde::{Deserialize, Serialize};

use super::SparseGrid;
use super::domain::Domain;
use crate::advice::Advice;
use crate::error::{Error, Result};
use crate::models::gp_model::GpModel;
use crate::models::options::{Context, Kind, ModelOptions, Parts, setters};

/// How partial grids are combined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
#[non_exhaustive]
pub enum Combination {
    /// By coefficients that fit the data best (OptiCom)
    #[default]
    Opticom,
    /// By the coefficients of the combination technique, which depend only on the grids
    Ct,
    /// Not at all: one sparse model with the inducing inputs of all grids
    Union,
}

/// Inducing inputs on a sparse grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SparseGridOptions {
    /// The level η.
    pub level: usize,
    /// How partial grids are combined.
    pub combination: Combination,
}

impl Default for SparseGridOptions {
    /// Level 5 and optimal coefficients.
    fn default() -> Self {
        Self { level: 5, combination: Combination::default() }
    }
}

/// With more rows than this, variances that take n² operations give a warning.
const MANY: usize = 30_000;

setters!(SparseGridOptions { level: usize, combination: Combination });

impl Kind for SparseGridOptions {
    const NAME: &'static str = "sparse-grid";
}

impl ModelOptions for SparseGridOptions {
    fn build(&self, Parts { prior, .. }: Parts, context: &Context) -> Result<Box<dyn GpModel>> {
        let domain = match context.saved {
            None => Domain::of(context.data),
            Some(saved) => match saved.parameters.iter().find(|parameter| parameter.name == "domain") {
                Some(kept) if kept.len() == 2 * context.data.d => Domain::kept(kept),
                _ => return Err(Error::Data("lacks the parameter `domain`".into())),
            },
        };
        Ok(Box::new(SparseGrid::new(prior, &domain, *self)?))
    }

    fn warnings(&self, rows: usize) -> Vec<Advice> {
        let slow = rows > MANY && self.combination != Combination::Union;
        let warning = slow.then(|| {
            let text = format!(
                "the variances of a combination of grids take n² operations after the training, which is \
                 minutes for {rows} rows; variances of the union are fast"
            );
            Advice::from(text).set("SparseGridOptions::combination", "union")
        });
        warning.into_iter().collect()
    }

    fn smaller(&self) -> Advice {
        Advice::from("choose a lower level").about("SparseGridOptions::level")
    }
}

#[cfg(feature = "command")]
mod command {
    use super::{Combination, Result, SparseGridOptions};
    use crate::models::command::{Given, Offered};
    use crate::values;

    /// The arguments of sparse grids.
    #[derive(Debug, Clone, clap::Args)]
    #[group(skip)]
    pub struct Arguments {
        /// Level of a sparse grid, with 2^level − 1 points along each input [default: 5]
        #[arg(long, value_name = "N", value_parser = values::count(1..=30))]
        level: Option<usize>,
        /// How the partial grids of a sparse grid are combined [default: opticom]
        #[arg(long, value_name = "NAME", value_enum)]
        combination: Option<Combination>,
    }

    impl Offered for SparseGridOptions {
        const ABOUT: &'static str = "Sparse, with inducing inputs on a sparse grid over up to 5 columns";

        const EXAMPLE: Option<&'static str> = Some("cagey fit surface.csv --model sparse-grid --level 5");

        type Arguments = Arguments;

        fn from_arguments(arguments: Arguments, _given: &Given) -> Result<Self> {
            let Arguments { level, combination } = arguments;
            let usual = Self::default();
            let (level, combination) = (level.unwrap_or(usual.level), combination.unwrap_or(usual.combination));
            Ok(Self { level, combination })
        }
    }
}
