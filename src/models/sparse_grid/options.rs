//! The options of sparse grids.

use serde::{Deserialize, Serialize};

use super::domain::Domain;
use super::{SparseGrid, UNION};
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

/// The kind of variances of a combination.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
#[non_exhaustive]
pub enum GridVariance {
    /// The mean-squared error of the predictor under the prior: never negative, n² operations for each model
    #[default]
    Prior,
    /// The partial grids' variances by the combination technique, as printed (eq. 35b): may be negative
    Combination,
}

/// The objective of training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
#[non_exhaustive]
pub enum GridBound {
    /// The collapsed bound with the inducing inputs of all grids
    Union,
    /// The mean of the partial grids' bounds: cheaper for large grids
    Partial,
}

/// Inducing inputs on a sparse grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SparseGridOptions {
    /// The level η.
    pub level: usize,
    /// How partial grids are combined.
    #[serde(default)]
    pub combination: Combination,
    /// The kind of variances.
    #[serde(default)]
    pub variance: GridVariance,
    /// The objective of training. If none, the union for up to [`UNION`] distinct points.
    #[serde(default)]
    pub bound: Option<GridBound>,
}

impl Default for SparseGridOptions {
    /// Level 5 and optimal coefficients.
    fn default() -> Self {
        Self { level: 5, combination: Combination::default(), variance: GridVariance::default(), bound: None }
    }
}

/// With more rows than this, variances that take n² operations give a warning.
const MANY: usize = 30_000;

setters!(SparseGridOptions {
    level: usize,
    combination: Combination,
    variance: GridVariance,
    bound: Option<GridBound>,
});

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

    fn stores_factor(&self) -> bool {
        true
    }

    fn warnings(&self, rows: usize) -> Vec<Advice> {
        let slow = rows > MANY && self.variance == GridVariance::Prior && self.combination != Combination::Union;
        let warning = slow.then(|| {
            let text = format!(
                "the variances of a combination of grids take n² operations after the training, which is \
                 minutes for {rows} rows; variances of the union and of the combination technique are fast"
            );
            Advice::from(text)
                .set("SparseGridOptions::combination", "union")
                .set("SparseGridOptions::variance", "combination")
        });
        warning.into_iter().collect()
    }

    fn smaller(&self) -> Advice {
        Advice::from("choose a lower level, or the bounds of the partial grids")
            .about("SparseGridOptions::level")
            .set("SparseGridOptions::bound", "partial")
    }
}

impl SparseGridOptions {
    /// The objective for this number of distinct points.
    pub(super) fn bound_for(&self, distinct: usize) -> GridBound {
        let usual = match self.combination == Combination::Union || distinct <= UNION {
            true => GridBound::Union,
            false => GridBound::Partial,
        };
        self.bound.unwrap_or(usual)
    }
}

#[cfg(feature = "command")]
mod command {
    use super::{Combination, Error, GridBound, GridVariance, Result, SparseGridOptions};
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
        /// Variances of a combination of grids [default: prior]
        #[arg(long, value_name = "NAME", value_enum)]
        grid_variance: Option<GridVariance>,
        /// Training objective of a sparse grid [default: union for up to 2,048 distinct points, else partial]
        #[arg(long, value_name = "NAME", value_enum)]
        grid_bound: Option<GridBound>,
    }

    impl Offered for SparseGridOptions {
        const ABOUT: &'static str = "Sparse, with inducing inputs on a sparse grid over up to 5 columns";

        type Arguments = Arguments;

        fn from_arguments(arguments: Arguments, _given: &Given) -> Result<Self> {
            let Arguments { level, combination, grid_variance, grid_bound } = arguments;
            let combination = combination.unwrap_or_default();
            if combination == Combination::Union && (grid_variance.is_some() || grid_bound.is_some()) {
                return Err(Error::Usage(
                    "--grid-variance and --grid-bound are for --combination opticom and ct: a union is one sparse model"
                        .into(),
                ));
            }
            Ok(Self {
                level: level.unwrap_or(5),
                combination,
                variance: grid_variance.unwrap_or_default(),
                bound: grid_bound,
            })
        }

        fn example() -> Option<&'static str> {
            Some("cagey fit surface.csv --model sparse-grid --level 5")
        }
    }
}
