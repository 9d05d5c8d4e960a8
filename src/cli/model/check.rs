//! Options that what is fitted has no use for.

use cagey::likelihoods::{Auxiliary, text};
use cagey::{Error, Result};
use clap::ValueEnum;

use super::ModelOptions;
use super::names::{ModelName, PolicyName};

impl ModelOptions {
    /// Refuses options of other models than the one that will be fitted.
    pub fn check_model(&self, likelihood: &str, rows: usize) -> Result<()> {
        Self::check_models(std::slice::from_ref(self), likelihood, rows)
    }

    /// Refuses options that are of none of the models that will be fitted.
    pub fn check_models(all: &[Self], likelihood: &str, rows: usize) -> Result<()> {
        let mut fitted: Vec<ModelName> = all.iter().map(|options| options.model_for(likelihood, rows)).collect();
        fitted.dedup();
        all.iter().try_for_each(|options| options.check_options(&fitted))
    }

    /// Refuses options that are of none of the models.
    fn check_options(&self, fitted: &[ModelName]) -> Result<()> {
        use ModelName::{Cagp, Exact, Sgpr, Svgp, Swsgp};
        let options: [(&str, bool, &[ModelName]); 14] = [
            ("--objective", self.objective.is_some(), &[Exact]),
            ("--actions", self.actions.is_some(), &[Cagp]),
            ("--policy", self.policy.is_some(), &[Cagp]),
            ("--refresh", self.refresh.is_some(), &[Cagp]),
            ("--tolerance", self.tolerance.is_some(), &[Cagp]),
            ("--loss", self.loss.is_some(), &[Cagp]),
            ("--row-order", self.row_order.is_some(), &[Cagp]),
            ("--inducing", self.inducing.is_some(), &[Sgpr, Svgp, Swsgp]),
            ("--neighbors", self.neighbors.is_some(), &[Swsgp]),
            ("--divergence", self.divergence.is_some(), &[Swsgp]),
            ("--union", self.union, &[Swsgp]),
            ("--batch", self.batch.is_some(), &[Svgp, Swsgp]),
            ("--natural-gradients", self.natural_gradients.is_some(), &[Svgp]),
            ("--mean-field", self.mean_field, &[Svgp, Swsgp]),
        ];
        let name = |model: &ModelName| model.to_possible_value().map_or(String::new(), |value| value.get_name().into());
        let names = |models: &[ModelName], join: &str| models.iter().map(name).collect::<Vec<_>>().join(join);
        let foreign = |models: &[ModelName]| !models.iter().any(|model| fitted.contains(model));
        if let Some((option, _, models)) = options.into_iter().find(|(_, given, models)| *given && foreign(models)) {
            return Err(Error::Usage(format!(
                "{option} is for --model {}, and this fits {}",
                names(models, " or "),
                names(fitted, " and ")
            )));
        }
        match matches!(self.policy, None | Some(PolicyName::Learned)) {
            true if self.refresh.is_some() => Err(Error::Usage(
                "--refresh is for another --policy than learned: such actions change in every step".into(),
            )),
            true if self.tolerance.is_some() => {
                Err(Error::Usage("--tolerance is for another --policy than learned, which takes all actions".into()))
            }
            false if self.row_order.is_some() => {
                Err(Error::Usage("--row-order is for --policy learned: others do not cut rows into blocks".into()))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a column of rows of another kind than the likelihood takes.
    pub(super) fn check_row_column(&self, likelihood: &str) -> Result<()> {
        let options = [
            ("--noise-column", &self.noise_column, Auxiliary::NoiseVariance, "gaussian"),
            ("--exposure", &self.exposure, Auxiliary::Exposure, "poisson or negative-binomial"),
            ("--trials", &self.trials, Auxiliary::Trials, "binomial"),
        ];
        // What no likelihood is called is told where it is made.
        let Ok(takes) = text::parse(likelihood, None).map(|likelihood| likelihood.auxiliary()) else { return Ok(()) };
        match options.into_iter().find(|(_, column, kind, _)| column.is_some() && *kind != takes) {
            None => Ok(()),
            Some((option, _, _, likelihoods)) => {
                Err(Error::Usage(format!("{option} is for --likelihood {likelihoods}, and this fits {likelihood}")))
            }
        }
    }
}
