//! Your own model: fitted to tables, saved, loaded, and used by every subcommand like a built-in one.
//!
//! The model here is the simplest possible approximation, an exact GP of some of the rows. Without arguments the
//! example fits it to the CO₂ record, saves and loads it. With arguments the example is the command with this
//! additional model:
//!
//! ```sh
//! cargo run --release --example custom_model
//! cargo run --release --example custom_model -- compare examples/data/mauna_loa_co2.csv.gz \
//!   --models exact,subset --keep-rows 100
//! ```

use std::process::ExitCode;

use burn::tensor::{Int, Tensor, TensorData};
use cagey::advice::Advice;
use cagey::data::{ReadOptions, read_training};
use cagey::device::Compute;
use cagey::fitted::{Fitted, Registry, Settings};
use cagey::likelihoods::{Gaussian, Likelihood};
use cagey::models::command::{Given, Offered};
use cagey::models::exact::{ExactGp, ExactObjective};
use cagey::models::gp_model::{GpModel, Size, UserUnits};
use cagey::models::minibatch::Rows;
use cagey::models::options::{Context, Kind, ModelOptions, Parts};
use cagey::models::posterior::Posterior;
use cagey::models::prior::Prior;
use cagey::models::registry::Row;
use cagey::models::{Batch, Model, Observations};
use cagey::params::{Parameter, Parameters};
use cagey::scope::Scope;
use cagey::train::TrainConfig;
use cagey::{Result, cli};
use serde::{Deserialize, Serialize};

/// An exact GP of at most `keep` rows.
#[derive(Debug, Clone)]
struct Subset {
    gp: ExactGp,
    keep: usize,
}

impl Subset {
    /// Evenly spaced rows out of `n`, at most `keep`.
    fn rows(&self, n: usize) -> Vec<usize> {
        (0..n).step_by(n.div_ceil(self.keep).max(1)).collect()
    }
}

impl Parameters for Subset {
    fn parameters(&self) -> Vec<(String, &Parameter)> {
        self.gp.parameters()
    }

    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        self.gp.parameters_mut()
    }
}

impl Model for Subset {
    fn objective(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
        let n = batch.y.dims()[0];
        let rows: Vec<i64> = self.rows(n).into_iter().map(|row| row as i64).collect();
        let (kept, count) = (rows.len(), n as f64 / rows.len() as f64);
        let rows = Tensor::<1, Int>::from_data(TensorData::new(rows, [kept]), scope.device());
        let part = Batch {
            x: batch.x.clone().select(0, rows.clone()),
            y: batch.y.clone().select(0, rows.clone()),
            auxiliary: batch.auxiliary.clone().map(|values| values.select(0, rows)),
            scale: 1.0,
        };
        // The loss is reported per row of all data.
        Ok(self.gp.objective(scope, &part)? * count)
    }
}

impl GpModel for Subset {
    fn title(&self) -> String {
        format!("Exact Gaussian process of at most {} rows", self.keep)
    }

    fn prior(&self) -> &Prior {
        &self.gp.prior
    }

    fn likelihood(&self) -> &dyn Likelihood {
        &self.gp.likelihood
    }

    fn start(&mut self, data: &Observations, units: &UserUnits) {
        self.gp.start(data, units);
    }

    fn bytes(&self, compute: Compute, size: Size) -> f64 {
        self.gp.bytes(compute, Size { rows: self.keep.min(size.rows), ..size })
    }

    fn condition(&self, compute: Compute, data: Observations) -> Result<Box<dyn Posterior>> {
        self.gp.condition(compute, data.gather(&self.rows(data.n()))?)
    }
}

/// The options of the model, as in settings and files.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct SubsetOptions {
    keep: usize,
}

impl Kind for SubsetOptions {
    const NAME: &'static str = "subset";
}

impl ModelOptions for SubsetOptions {
    fn build(&self, Parts { prior, .. }: Parts, _context: &Context) -> Result<Box<dyn GpModel>> {
        let (likelihood, objective) = (Gaussian::new(0.1), ExactObjective::MarginalLikelihood);
        Ok(Box::new(Subset { gp: ExactGp { prior, likelihood, objective }, keep: self.keep }))
    }

    fn smaller(&self) -> Advice {
        "choose fewer --keep-rows".into()
    }
}

/// The arguments of the model.
#[derive(clap::Args)]
struct Arguments {
    /// Most rows that the subset model uses [default: 200]
    #[arg(long, value_name = "N")]
    keep_rows: Option<usize>,
}

impl Offered for SubsetOptions {
    const ABOUT: &'static str = "Exact, with some of the rows";

    type Arguments = Arguments;

    fn from_arguments(arguments: Arguments, _given: &Given) -> Result<Self> {
        Ok(Self { keep: arguments.keep_rows.unwrap_or(200).max(1) })
    }
}

fn registry() -> Registry {
    Registry::default().with_model(Row::of::<SubsetOptions>())
}

fn demonstrate() -> Result<()> {
    let path = std::env::temp_dir().join("subset.cagey");
    let table = concat!(env!("CARGO_MANIFEST_DIR"), "/data/mauna_loa_co2.csv.gz");
    let (schema, data) = read_training(table, &ReadOptions::default())?;
    let settings = Settings {
        kernel: "matern52(50) + periodic(period=1, fix=period) * matern32(90)".into(),
        model: SubsetOptions { keep: 150 }.into(),
        ..Settings::default()
    };
    let config = TrainConfig { steps: 30, ..TrainConfig::default() };
    let fitted = Fitted::fit(schema, &data, settings, &config, &registry(), &mut [])?;
    fitted.save(&path)?;
    let loaded = Fitted::load_with(&path, &registry())?;
    let [last, again] = [&fitted, &loaded].map(|model| model.predict(&data).map(|all| all[data.n - 1].mean()));
    println!("{}: loss {:.3} per row", loaded.model.title(), loaded.summary.loss);
    println!("the last month: {:.2} ppm, from the file {:.2} ppm", last?, again?);
    match Fitted::load(&path) {
        Err(problem) => println!("without the registry: {problem}"),
        Ok(_) => println!("without the registry it should not load"),
    }
    Ok(())
}

fn main() -> ExitCode {
    if std::env::args().len() > 1 {
        return cli::run(registry());
    }
    match demonstrate() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
