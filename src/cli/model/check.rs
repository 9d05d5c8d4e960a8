//! Refuses options that the model to fit does not use.

use cagey::likelihoods::Auxiliary;
use cagey::models::registry::Row;
use cagey::{Error, Result};

use super::ModelOptions;
use crate::cli::registry;

impl ModelOptions {
    /// Refuses options that belong to none of the models that will be fitted.
    pub fn check(all: &[Self], likelihood: &str, rows: usize) -> Result<()> {
        let mut fitted: Vec<&Row> = Vec::new();
        for options in all {
            let row = options.kind(likelihood, rows)?;
            if !fitted.iter().any(|other| other.name == row.name) {
                fitted.push(row);
            }
        }
        all.iter().try_for_each(|options| options.kinds.check(&fitted))
    }

    /// Refuses an auxiliary column of another kind than the likelihood takes.
    pub(super) fn check_auxiliary_column(&self, likelihood: &str) -> Result<()> {
        let options = [
            ("--noise-column", &self.noise_column, Auxiliary::NoiseVariance, "gaussian"),
            ("--exposure", &self.exposure, Auxiliary::Exposure, "poisson or negative-binomial"),
            ("--trials", &self.trials, Auxiliary::Trials, "binomial"),
        ];
        // An unknown name is reported when the likelihood is built.
        let Ok(takes) = registry().likelihoods.parse(likelihood, None).map(|likelihood| likelihood.auxiliary()) else {
            return Ok(());
        };
        match options.into_iter().find(|(_, column, kind, _)| column.is_some() && *kind != takes) {
            None => Ok(()),
            Some((option, _, _, likelihoods)) => {
                Err(Error::Usage(format!("{option} is for --likelihood {likelihoods}, and this fits {likelihood}")))
            }
        }
    }
}
