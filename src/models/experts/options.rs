//! The options of experts.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::aggregation::Rule;
use super::partition::{self, Partition};
use super::posterior::{COMMUNICATION, PARTS};
use super::{Algorithm, Experts, Federation, Shared};
use crate::advice::Advice;
use crate::distributed;
use crate::error::{Error, Result};
use crate::models::Observations;
use crate::models::blueprint::Blueprint;
use crate::models::exact::ExactOptions;
use crate::models::gp_model::GpModel;
use crate::models::options::{Context, Kind, ModelOptions, Parts, Saved, setters};
use crate::models::posterior::SavedPosterior;
use crate::models::registry::Registry;
use crate::models::sgpr::SgprOptions;
use crate::train::TrainConfig;

/// The kind of each expert.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
#[non_exhaustive]
pub enum LocalKind {
    /// An exact Gaussian process on its own rows
    #[default]
    Exact,
    /// A sparse Gaussian process, with inducing inputs that all experts share
    Sgpr,
}

/// Experts on parts of the rows, with one set of parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ExpertsOptions {
    /// The number of experts M. If none, one for each 1,000 rows.
    pub experts: Option<usize>,
    /// Which expert gets which rows.
    pub partition: Partition,
    /// The kind of each expert.
    pub local: LocalKind,
    /// The number of inducing inputs m of sparse experts.
    pub inducing: usize,
    /// How predictions are combined unless another rule is asked for. If none, grBCM of the nearest experts if they
    /// have regions, grBCM for other parts, and gPoE by normalised entropies if the rows stay with their experts.
    pub aggregation: Option<Rule>,
    /// How they are trained together.
    pub training: Federation,
}

impl Default for ExpertsOptions {
    fn default() -> Self {
        Self {
            experts: None,
            partition: Partition::default(),
            local: LocalKind::default(),
            inducing: 512,
            aggregation: None,
            training: Federation::default(),
        }
    }
}

/// Rows of an expert if the number of experts is not given.
const ROWS: usize = 1000;

setters!(ExpertsOptions {
    experts: Option<usize>,
    partition: Partition,
    local: LocalKind,
    inducing: usize,
    aggregation: Option<Rule>,
    training: Federation,
});

impl Kind for ExpertsOptions {
    const NAME: &'static str = "experts";
    const APART: bool = true;
    const READS: bool = true;
}

impl ModelOptions for ExpertsOptions {
    fn build(&self, Parts { prior, .. }: Parts, context: &Context) -> Result<Box<dyn GpModel>> {
        let shared = match self.local {
            LocalKind::Exact => Shared::Exact(ExactOptions::default().model(prior)),
            LocalKind::Sgpr => Shared::Sparse(SgprOptions { inducing: self.inducing }.model(prior, context)?),
        };
        if let Some(shards) = context.shards {
            self.check_apart()?;
            let mut experts =
                Experts::apart(shared, self.aggregation.unwrap_or(Rule::GpoeEntropyNormalised), Arc::clone(shards))?;
            experts.federation = self.training.clone();
            return Ok(Box::new(experts));
        }
        let (parts, communication) = match context.saved {
            Some(saved) => self.saved(&saved, context.data.n())?,
            None => self.shared_out(context)?,
        };
        // Only of experts of regions some are nearer than others.
        let rule = match self.partition {
            Partition::Tree | Partition::Kmeans => Rule::Near,
            Partition::Random | Partition::Column(_) => Rule::Grbcm,
        };
        let mut experts = Experts::new(shared, self.aggregation.unwrap_or(rule), parts, communication)?;
        experts.federation = self.training.clone();
        experts = experts.over(context.crew.cloned());
        Ok(Box::new(match context.source {
            Some(source) => experts.reading(Arc::clone(source))?,
            None => experts,
        }))
    }

    fn check(&self, rows: usize) -> Result<()> {
        self.training.check()?;
        match self.experts {
            Some(count) if count == 0 || count > rows => {
                let problem = format!("{count} experts for {rows} rows: choose from 1 to {rows}");
                Err(Error::Usage(problem).about("ExpertsOptions::experts"))
            }
            _ => Ok(()),
        }
    }

    fn training(&self, _rows: usize) -> TrainConfig {
        self.training.training()
    }

    fn races(&self) -> bool {
        self.training.algorithm == Algorithm::Fact
    }

    fn smaller(&self) -> Advice {
        Advice::from("choose more experts, each of fewer rows").about("ExpertsOptions::experts")
    }
}

impl Experts {
    /// Experts on these parts of the rows, each with the model that another process describes. That process leads, so
    /// that its rule is used, not the one of these experts.
    ///
    /// # Errors
    /// As [`Blueprint::model`].
    pub(crate) fn rebuilt(
        blueprint: Blueprint,
        registry: &Registry,
        parts: distributed::Parts,
        communication: Vec<usize>,
    ) -> Result<Self> {
        let (Parts { prior, .. }, none) = (blueprint.parts(registry)?, Observations::none(blueprint.columns));
        let (sparse, exact) = (blueprint.model.of::<SgprOptions>(), blueprint.model.of::<ExactOptions>());
        let saved = Saved { parameters: &blueprint.parameters, posterior: &SavedPosterior::default() };
        let mut shared = match sparse {
            Some(sparse) => {
                Shared::Sparse(sparse.model(prior, &Context { saved: Some(saved), ..Context::new(&none, &[], 0) })?)
            }
            None => Shared::Exact(exact.unwrap_or_default().model(prior)),
        };
        blueprint.fill(shared.model_mut())?;
        Ok(Self::of(shared, Rule::Grbcm, parts, communication))
    }
}

impl ExpertsOptions {
    /// Refuses options that are impossible if each expert keeps its rows for itself.
    fn check_apart(&self) -> Result<()> {
        if self.experts.is_some() || self.partition != Partition::default() {
            return Err(Error::Usage(
                "where rows stay apart, each file is an expert: choose neither their number nor a partition".into(),
            )
            .about("ExpertsOptions::experts")
            .about("ExpertsOptions::partition"));
        }
        if self.local != LocalKind::Exact {
            return Err(Error::Usage(
                "the inducing inputs of sparse experts are chosen from all rows, but rows stay where they are: choose \
                 exact experts"
                    .into(),
            )
            .set("ExpertsOptions::local", "exact"));
        }
        Ok(())
    }

    fn shared_out(&self, context: &Context) -> Result<(Vec<Vec<usize>>, Vec<usize>)> {
        let n = context.rows();
        let count = self.experts.unwrap_or_else(|| n.div_ceil(ROWS));
        let parts = match context.source {
            Some(source) => self.partition.split_source(source, context.names, count, context.seed)?,
            None => self.partition.split(context.data, context.names, count, context.seed)?,
        };
        // Random parts: the first of them is a random sample already.
        let communication = match self.partition {
            Partition::Random => parts[0].clone(),
            _ => partition::some(n, n.div_ceil(parts.len()), context.seed),
        };
        Ok((parts, communication))
    }

    /// Reads the parts and the communication expert's rows from a file.
    fn saved(&self, saved: &Saved, n: usize) -> Result<(Vec<Vec<usize>>, Vec<usize>)> {
        let rows = |name: &str, most: usize| {
            let array = saved.posterior.arrays.get(name);
            let values = array.ok_or_else(|| Error::Data(format!("lacks the array `{name}`")))?.data.clone().into_f64();
            let whole = |value: &f64| value.fract() == 0.0 && (0.0..most as f64).contains(value);
            match values.iter().all(whole) {
                true => Ok(values.into_iter().map(|value| value as usize).collect::<Vec<usize>>()),
                false => Err(Error::Data(format!("has numbers in `{name}` that are not in 0..{most}"))),
            }
        };
        let owners = rows(PARTS, n)?;
        if owners.len() != n {
            return Err(Error::Data(format!("has the experts of {} rows, but there are {n} rows", owners.len())));
        }
        let mut parts = vec![Vec::new(); owners.iter().max().map_or(0, |most| most + 1)];
        owners.iter().enumerate().for_each(|(row, owner)| parts[*owner].push(row));
        Ok((parts, rows(COMMUNICATION, n)?))
    }
}

#[cfg(feature = "command")]
mod command {
    use clap::ValueEnum;

    use super::{Algorithm, Error, ExpertsOptions, Federation, LocalKind, Partition, Result, Rule};
    use crate::models::command::{Given, InducingArguments, Offered};
    use crate::values::{self, MOST};

    /// The arguments of experts.
    #[derive(Debug, Clone, clap::Args)]
    #[group(skip)]
    pub struct Arguments {
        /// Experts that share the rows out among them [default: one for each 1,000 rows]
        #[arg(long, value_name = "M", value_parser = values::count(1..=MOST))]
        experts: Option<usize>,
        /// Which expert gets which rows: random, tree (boxes of equal numbers of rows), kmeans (clusters) or
        /// column=NAME (an expert for each value of an input column) [default: tree]
        #[arg(long, value_name = "HOW")]
        partition: Option<Partition>,
        /// The kind of each expert [default: exact]
        #[arg(long, value_name = "NAME", value_enum)]
        local: Option<LocalKind>,
        /// How the predictions of the experts are combined into one; `predict` and `evaluate` may choose another rule
        /// [default: near for regions (tree, kmeans), grbcm for other parts, gpoe-entropy-normalised with --shards]
        #[arg(long, value_name = "RULE", value_enum)]
        aggregation: Option<Rule>,
        /// How experts are trained together [default: fact]
        #[arg(long, value_name = "NAME", value_enum)]
        training: Option<Algorithm>,
        /// Most local steps of an expert in a round of fedavg and fedprox [default: 5] or admm [default: 20]
        #[arg(long, value_name = "STEPS", value_parser = values::count(1..=MOST))]
        local_steps: Option<usize>,
        /// Share of the experts that take part in a round of fedavg and fedprox [default: 1]
        #[arg(long, value_name = "SHARE", value_parser = values::positive)]
        clients: Option<f64>,
        /// Weight of the term that keeps the local steps of fedprox near the common parameters [default: 0.01]
        #[arg(long, value_name = "WEIGHT", value_parser = values::positive)]
        proximal: Option<f64>,
        /// Penalty of admm and pxadmm [default: the mean number of rows of an expert]
        #[arg(long, value_name = "PENALTY", value_parser = values::positive)]
        penalty: Option<f64>,
        /// Bound on the curvature of an expert's objective, for pxadmm [default: the same]
        #[arg(long, value_name = "CURVATURE", value_parser = values::positive)]
        curvature: Option<f64>,
        #[command(flatten)]
        inducing: InducingArguments,
    }

    impl Arguments {
        /// The training. Refuses options of another training.
        fn federation(&self) -> Result<Federation> {
            use Algorithm::{Admm, Fedavg, Fedprox, Pxadmm};
            let algorithm = self.training.unwrap_or_default();
            let given: [(&str, bool, &[Algorithm], &str); 5] = [
                ("--local-steps", self.local_steps.is_some(), &[Fedavg, Fedprox, Admm], "fedavg, fedprox or admm"),
                ("--clients", self.clients.is_some(), &[Fedavg, Fedprox], "fedavg or fedprox"),
                ("--proximal", self.proximal.is_some(), &[Fedprox], "fedprox"),
                ("--penalty", self.penalty.is_some(), &[Admm, Pxadmm], "admm or pxadmm"),
                ("--curvature", self.curvature.is_some(), &[Pxadmm], "pxadmm"),
            ];
            if let Some((option, _, _, names)) =
                given.iter().find(|(_, given, of, _)| *given && !of.contains(&algorithm))
            {
                let this = algorithm.to_possible_value().map_or_else(String::new, |value| value.get_name().into());
                return Err(Error::Usage(format!("{option} is for --training {names}, and this is {this}")));
            }
            let usual = Federation::default();
            Ok(Federation {
                algorithm,
                local_steps: self.local_steps,
                share: self.clients.unwrap_or(usual.share),
                proximal: self.proximal.unwrap_or(usual.proximal),
                penalty: self.penalty,
                curvature: self.curvature,
            })
        }
    }

    impl Offered for ExpertsOptions {
        const ABOUT: &'static str = "Exact or sparse experts on parts of the rows, trained together";

        const EXAMPLE: Option<&'static str> = Some("cagey fit large.csv --model experts --experts 40 --partition tree");

        type Arguments = Arguments;

        fn from_arguments(arguments: Arguments, given: &Given) -> Result<Self> {
            let training = arguments.federation()?;
            let Arguments { experts, partition, local, aggregation, inducing, .. } = arguments;
            let (partition, local) = (partition.unwrap_or_default(), local.unwrap_or_default());
            if experts.is_some() && matches!(partition, Partition::Column(_)) {
                return Err(Error::Usage(
                    "--experts: with --partition column=NAME there is one expert for each value of the \
                     column; leave it out"
                        .into(),
                ));
            }
            if inducing.given() && local == LocalKind::Exact && !given.compared {
                return Err(Error::Usage("--inducing is for sparse experts: add --local sgpr".into()));
            }
            Ok(Self { experts, partition, local, inducing: inducing.count(), aggregation, training })
        }
    }
}
