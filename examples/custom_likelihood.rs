//! Your own likelihood: fitted to tables, saved, loaded, and used by every subcommand like a built-in one.
//!
//! The likelihood here is Weibull's, for lifetimes. As a lifetime grows, its end becomes more likely if the shape is
//! above 1, and less likely if it is below 1. Without arguments the example fits it to generated lifetimes. With
//! arguments the example is the command with this additional likelihood:
//!
//! ```sh
//! cargo run --release --example custom_likelihood
//! cargo run --release --example custom_likelihood -- fit lifetimes.csv --likelihood 'weibull(1.5)' -o lifetimes.cagey
//! ```

use std::process::ExitCode;
use std::sync::Arc;

use cagey::data::{ReadOptions, read_training};
use cagey::fitted::{Fitted, Registry, Settings};
use cagey::likelihoods::registry::{Argument, Row as Entry};
use cagey::likelihoods::{Density, Likelihood, Row, Support, Targets};
use cagey::models::minibatch::Minibatches;
use cagey::models::svgp::SvgpOptions;
use cagey::models::variational::Covariance;
use cagey::params::{Constraint, Parameter, Parameters, Unit, shown};
use cagey::train::TrainConfig;
use cagey::{Error, Result, cli};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use statrs::function::gamma::gamma;

/// Lifetimes with scale `exp(f)` and a learned shape.
#[derive(Debug, Clone)]
struct Weibull {
    shape: Parameter,
}

impl Parameters for Weibull {
    fn parameters(&self) -> Vec<(String, &Parameter)> {
        vec![("shape".into(), &self.shape)]
    }

    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        vec![("shape".into(), &mut self.shape)]
    }
}

impl Likelihood for Weibull {
    fn text(&self) -> String {
        format!("weibull({})", shown(self.shape.values()[0]))
    }

    fn check_row(&self, row: Row) -> std::result::Result<(), String> {
        if row.y > 0.0 { Ok(()) } else { Err("is not positive, but lifetimes are".into()) }
    }

    fn initialise(&mut self, targets: Targets) -> Vec<f64> {
        vec![(targets.y.iter().sum::<f64>() / targets.y.len() as f64).ln()]
    }

    fn density(&self) -> Arc<dyn Density> {
        Arc::new(Lifetime { shape: self.shape.internal()[0] })
    }

    fn boxed(&self) -> Box<dyn Likelihood> {
        Box::new(self.clone())
    }
}

/// Its formulas at a given shape: with `u = (y exp(−f))^shape`, `ln p = ln shape + (shape − 1) ln y − shape f − u`.
#[derive(Debug)]
struct Lifetime {
    shape: f64,
}

impl Lifetime {
    fn power(&self, y: f64, f: f64) -> f64 {
        (self.shape * (y.ln() - f)).exp()
    }
}

impl Density for Lifetime {
    fn support(&self, _auxiliary: f64) -> Support {
        Support::Positive
    }

    fn log_density(&self, row: Row, f: &[f64]) -> f64 {
        let k = self.shape;
        k.ln() + (k - 1.0) * row.y.ln() - k * f[0] - self.power(row.y, f[0])
    }

    fn derivatives(&self, row: Row, f: &[f64], gradient: &mut [f64], hessian: &mut [f64]) -> f64 {
        let (k, u) = (self.shape, self.power(row.y, f[0]));
        gradient[0] = k * (u - 1.0);
        hessian[0] = -k * k * u;
        self.log_density(row, f)
    }

    fn add_own_gradient(&self, row: Row, f: &[f64], weight: f64, own: &mut [f64]) {
        let distance = row.y.ln() - f[0];
        own[0] += weight * (1.0 / self.shape + distance * (1.0 - self.power(row.y, f[0])));
    }

    /// Adds the derivatives of W = shape² u, for models that approximate around a mode.
    fn add_curvature_slopes(&self, row: Row, f: &[f64], weights: &[f64], slopes: &mut [f64], own: &mut [f64]) {
        let (k, u, distance) = (self.shape, self.power(row.y, f[0]), row.y.ln() - f[0]);
        slopes[0] -= weights[0] * k.powi(3) * u;
        if let Some(own) = own.first_mut() {
            *own += weights[0] * k * u * (2.0 + k * distance);
        }
    }

    /// Adds the derivative of shape (u − 1).
    fn add_pull_slopes(&self, row: Row, f: &[f64], weights: &[f64], own: &mut [f64]) {
        let (u, distance) = (self.power(row.y, f[0]), row.y.ln() - f[0]);
        own[0] += weights[0] * (u - 1.0 + self.shape * u * distance);
    }

    fn mean(&self, f: &[f64], _auxiliary: f64) -> f64 {
        f[0].exp() * gamma(1.0 + 1.0 / self.shape)
    }

    fn variance(&self, f: &[f64], _auxiliary: f64) -> f64 {
        let [first, second] = [1.0, 2.0].map(|moment| gamma(1.0 + moment / self.shape));
        (2.0 * f[0]).exp() * (second - first * first)
    }

    fn cdf(&self, row: Row, f: &[f64]) -> f64 {
        -(-self.power(row.y, f[0])).exp_m1()
    }

    fn sample(&self, f: &[f64], _auxiliary: f64, rng: &mut dyn Rng) -> f64 {
        let uniform: f64 = rng.random();
        f[0].exp() * (-(-uniform).ln_1p()).powf(1.0 / self.shape)
    }

    fn peak(&self, row: Row) -> f64 {
        row.y.ln()
    }
}

fn registry() -> Registry {
    Registry::default().with_likelihood(Entry {
        name: "weibull",
        alias: "weibull",
        of_classes: false,
        argument: Argument::Value {
            parameter: "shape",
            meaning: "shape",
            above: 0.0,
            make: || {
                let positive = Constraint::Positive { floor: 1e-3 };
                Box::new(Weibull { shape: Parameter::new("shape", Unit::None, positive, &[1.0]) })
            },
        },
    })
}

/// A table of lifetimes of shape 3 that fall with the temperature.
fn lifetimes() -> String {
    let mut rng = StdRng::seed_from_u64(1);
    let truth = Lifetime { shape: 3.0 };
    let line = |temperature: f64| {
        let hours = truth.sample(&[8.0 - 0.03 * temperature], 1.0, &mut rng);
        format!("{temperature},{hours:.1}\n")
    };
    let lines: String = (0..200).map(|i| 20.0 + 0.5 * f64::from(i)).map(line).collect();
    format!("temperature,hours\n{lines}")
}

fn demonstrate() -> Result<()> {
    let [table, path] = ["lifetimes.csv", "lifetimes.cagey"].map(|name| std::env::temp_dir().join(name));
    std::fs::write(&table, lifetimes()).map_err(|e| Error::io(&table, &e))?;
    let (schema, data) = read_training(&table, &ReadOptions::default())?;
    let settings = Settings {
        likelihood: "weibull".into(),
        model: SvgpOptions { inducing: 20, covariance: Covariance::Full, batches: Minibatches::default() }.into(),
        ..Settings::default()
    };
    let config = TrainConfig { steps: 300, ..TrainConfig::default() };
    let fitted = Fitted::fit(schema, &data, settings, &config, &registry(), &mut [])?;
    fitted.save(&path)?;
    let loaded = Fitted::load_with(&path, &registry())?;
    println!("learned {}; the lifetimes were drawn with shape 3", loaded.model.likelihood().text());
    let predictions = loaded.predict_targets(&data)?;
    for row in [0, 100, 199] {
        println!("at {} degrees: {:.0} hours on average", data.x[row], predictions[row].mean());
    }
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
