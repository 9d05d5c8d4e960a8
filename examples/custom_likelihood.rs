//! Your own likelihood from its log density alone: fitted to tables, saved, loaded, and used by every subcommand like a
//! built-in one.
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

use cagey::data::{ReadOptions, read_training};
use cagey::fitted::{Fitted, Registry, Settings};
use cagey::likelihoods::registry::Row as Entry;
use cagey::likelihoods::{Custom, Likelihood, Support};
use cagey::models::minibatch::Minibatches;
use cagey::models::svgp::SvgpOptions;
use cagey::params::{Parameter, Unit};
use cagey::train::TrainConfig;
use cagey::{Error, Result, cli};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

cagey::log_density!(
    /// Lifetimes with scale `exp(f)` and a learned shape k: with `t = k (ln y − f)`, `ln p = ln k + t − eᵗ − ln y`.
    Weibull: Support::Positive, |row, f, own| {
        let t = own[0] * (-f[0] + row.y.ln());
        t - t.exp()
    },
    // What does not depend on f is computed once for many of them.
    |row, own| own[0].ln() - row.y.ln(),
);

fn weibull() -> Box<dyn Likelihood> {
    Box::new(Custom::new("weibull", Weibull, [Parameter::positive("shape", Unit::None, &[1.0])]))
}

fn registry() -> Registry {
    Registry::default().with_likelihood(Entry::new("weibull", weibull))
}

/// A table of lifetimes of shape 3 that fall with the temperature.
fn lifetimes() -> String {
    let mut rng = StdRng::seed_from_u64(1);
    let line = |temperature: f64| {
        let uniform: f64 = rng.random();
        let hours = (8.0 - 0.03 * temperature).exp() * (-(-uniform).ln_1p()).cbrt();
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
        model: SvgpOptions::default().inducing(20).batches(Minibatches::default()).into(),
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
