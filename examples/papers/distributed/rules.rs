//! Scores of all rules of aggregation for some experts.

use std::collections::BTreeMap;
use std::time::Instant;

use cagey::Result;
use cagey::models::Observations;
use cagey::models::experts::ExpertsPosterior;
use cagey::models::experts::aggregation::{Form, Rule, WeightSystem, Weights};
use cagey::models::posterior::{Marginals, Posterior};
use cagey::plot::Series;
use serde::{Deserialize, Serialize};

use crate::common::drawing::mean;
use crate::common::scores::{Scored, of_normal, shown};

/// What a rule gave.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Found {
    pub scored: Scored,
    /// Seconds of its predictions.
    pub seconds: f64,
}

/// Results by rule.
pub type All = BTreeMap<String, Found>;

/// The names of the paper's rules, and of ours.
pub fn names() -> Vec<String> {
    let extra = ["weights, printed variance", "weights as printed"].map(String::from);
    Rule::ALL.iter().map(ToString::to_string).chain(extra).collect()
}

/// Scores every rule at points against `truth`; predictive variances have `noise` added. Variances as printed need
/// each expert's predictions; the weights as printed also exact experts with the noise variance `known`.
pub fn scored(
    posterior: &ExpertsPosterior,
    (points, truth): (&[f64], &[f64]),
    noise: f64,
    known: Option<(&[Vec<usize>], &Observations, f64)>,
) -> Result<All> {
    let mut all = All::new();
    for rule in Rule::ALL {
        let (start, by) = (Instant::now(), posterior.by_rule(rule));
        let said = by.predict(points)?;
        let seconds = start.elapsed().as_secs_f64();
        all.insert(rule.to_string(), Found { scored: of_normal(truth, &said, noise)?, seconds });
    }
    let alone = posterior.each(points)?;
    let own = posterior.by_rule(Rule::Weights).weights()?;
    let printed = known.map(|(parts, data, noise)| printed(posterior, parts, data, noise)).transpose()?;
    for (name, weights) in [("weights, printed variance", own), ("weights as printed", printed)] {
        if let Some(Weights { beta, .. }) = weights {
            let scored = of_normal(truth, &independent(&beta, &alone), noise)?;
            all.insert(name.into(), Found { scored, seconds: 0.0 });
        }
    }
    Ok(all)
}

/// The weights of exact experts by eq. 44 as printed, with 1 where the paper's text has the noise. They may explode.
fn printed(experts: &ExpertsPosterior, parts: &[Vec<usize>], data: &Observations, noise: f64) -> Result<Weights> {
    let m = parts.len();
    let (mut inner, mut system) = (vec![0.0; m * m], WeightSystem::new(m));
    for (i, rows) in parts.iter().enumerate() {
        let own = cagey::models::minibatch::Rows::gather(data, rows)?;
        let f: Vec<Vec<f64>> = experts.each(&own.x)?.into_iter().map(|said| said.mean).collect();
        // K̂_i⁻¹y_i, from the residuals at the expert's rows.
        let alpha: Vec<f64> = own.y.iter().zip(&f[i]).map(|(y, f)| (y - f) / noise).collect();
        for (inner, f) in inner[i * m..].iter_mut().zip(&f) {
            *inner = alpha.iter().zip(f).map(|(a, f)| a * f).sum();
        }
        // The paper takes one row of each expert.
        let row = rows.len() / 2;
        system.add(&f.iter().map(|f| f[row]).collect::<Vec<_>>(), &own.y[row..=row])?;
    }
    system.solve(Form::Noise, &inner, 1.0)
}

/// Weighted predictions with the printed variances Σ β_i² v_i, as if the errors of the experts were independent.
fn independent(beta: &[f64], experts: &[Marginals]) -> Marginals {
    let rows = experts.first().map_or(0, |said| said.mean.len());
    let sum = |weight: fn(f64) -> f64, value: &dyn Fn(&Marginals) -> f64| {
        beta.iter().zip(experts).map(|(beta, said)| weight(*beta) * value(said)).sum::<f64>()
    };
    let mean = (0..rows).map(|row| sum(|beta| beta, &|said| said.mean[row])).collect();
    let variance = (0..rows).map(|row| sum(|beta| beta * beta, &|said| said.variance[row])).collect();
    Marginals { mean, variance, floored: 0 }
}

/// Prints means and standard deviations over runs.
pub fn show(title: &str, runs: &[All]) {
    for name in names() {
        let own: Vec<Found> = runs.iter().filter_map(|run| run.get(&name)).copied().collect();
        let column = |of: fn(&Found) -> f64| shown(&own.iter().map(of).collect::<Vec<_>>());
        if !own.is_empty() {
            println!(
                "{title} {name:<26} RMSE {}, NLPD {}, coverage {}, {} s",
                column(|f| f.scored.error),
                column(|f| f.scored.nlpd),
                column(|f| f.scored.calibration),
                column(|f| f.seconds)
            );
        }
    }
}

/// Means with a band of one standard deviation by number of experts, for the rules that fit into a figure. Each entry
/// of `all` has the runs of a number of experts.
pub fn series(at: &[f64], all: &[Vec<All>], of: fn(&Found) -> f64) -> Vec<Series> {
    let drawn = [Rule::Poe, Rule::Gpoe, Rule::Bcm, Rule::Rbcm, Rule::Grbcm, Rule::Npae, Rule::Weights];
    let column = |name: &str| -> Vec<Vec<f64>> {
        let of_runs = |runs: &Vec<All>| runs.iter().filter_map(|run| run.get(name)).map(of).collect();
        all.iter().map(of_runs).collect()
    };
    drawn.iter().map(|rule| mean(rule.to_string(), at, &column(rule.name()))).collect()
}
