//! The options of the matrix-free GP, as settings and files have them.

use super::{CgGp, CgGpOptions};
use crate::advice::Advice;
use crate::error::Result;
use crate::models::gp_model::GpModel;
use crate::models::options::{Context, Kind, ModelOptions, Parts, setters};
use crate::solvers::{CgOptions, Probes};

setters!(CgGpOptions { solver: CgOptions, rank: usize, probes: Probes, count: usize, seed: u64 });

impl Kind for CgGpOptions {
    const NAME: &'static str = "cggp";
}

impl ModelOptions for CgGpOptions {
    fn build(&self, Parts { prior, .. }: Parts, context: &Context) -> Result<Box<dyn GpModel>> {
        let model = CgGp::new(prior.kernel.clone());
        let options = Self { seed: self.seed.wrapping_add(context.seed), ..*self };
        Ok(Box::new(CgGp { prior, options, ..model }))
    }

    fn smaller(&self) -> Advice {
        Advice::from("choose a smaller rank").about("CgGpOptions::rank")
    }
}

#[cfg(feature = "command")]
mod command {
    use super::{CgGpOptions, Result};
    use crate::models::command::{Given, Offered, SolveArguments};
    use crate::values::{self, MOST};

    /// The arguments of the matrix-free GP.
    #[derive(Debug, Clone, clap::Args)]
    #[group(skip)]
    pub struct Arguments {
        #[command(flatten)]
        solves: SolveArguments,
        /// Largest rank of the preconditioner of conjugate gradients [default: 300]
        #[arg(long, value_name = "RANK", value_parser = values::count(0..=MOST))]
        rank: Option<usize>,
        /// Random vectors that estimate the log-determinant [default: 16]
        #[arg(long, value_name = "N", value_parser = values::count(1..=MOST))]
        probes: Option<usize>,
    }

    impl Offered for CgGpOptions {
        const ABOUT: &'static str =
            "The exact model without its matrix: conjugate gradients, memory linear in the rows";

        type Arguments = Arguments;

        fn from_arguments(arguments: Arguments, _given: &Given) -> Result<Self> {
            let Arguments { solves, rank, probes } = arguments;
            let mut options = Self::default();
            options.solver.relative = solves.tolerance().unwrap_or(options.solver.relative);
            options.rank = rank.unwrap_or(options.rank);
            options.count = probes.unwrap_or(options.count);
            Ok(options)
        }
    }
}
