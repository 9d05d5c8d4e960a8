//! Rules of aggregation on the Ackley function: RMSE and coverage against the number of experts, compared with the full
//! model (Chen and Tuo 2024, *Aggregation models with optimal weights for distributed Gaussian processes*, section
//! 5.1.2). Hyperparameters are not trained, as in the paper.
//!
//! `cargo run --release --example experts_ackley [-- --rows 2000 --experts 2,4,8,16,32 --seeds 2 --output ackley.png]`
//!
//! The paper has `--rows 10000 --seeds 10 --experts 2,4,8,10,20,40,80,100`, experts with `--inducing 128`. The full
//! model is exact if the experts are exact and there are up to 10,000 rows. Otherwise it is sparse with the experts'
//! inducing inputs.

use std::f64::consts::{E, TAU};
use std::path::PathBuf;

use cagey::device::Compute;
use cagey::kernels::Kernel;
use cagey::likelihoods::Gaussian;
use cagey::models::Observations;
use cagey::models::exact::{ExactGp, ExactObjective};
use cagey::models::experts::aggregation::{Form, Rule, WeightSystem, Weights};
use cagey::models::experts::{Experts, ExpertsPosterior, Partition, Shared};
use cagey::models::inducing::{self, Choice};
use cagey::models::minibatch::Rows;
use cagey::models::posterior::{Marginals, Posterior};
use cagey::models::sgpr::Sgpr;
use cagey::plot::{Against, Figure, Frame, LearningCurve, Run};
use cagey::{Error, Result};
use clap::Parser;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};

/// Compare rules of aggregation on the Ackley function.
#[derive(Parser)]
struct Options {
    /// Training rows
    #[arg(long, default_value_t = 2000)]
    rows: usize,
    /// Input columns
    #[arg(long, default_value_t = 2)]
    columns: usize,
    /// Numbers of experts
    #[arg(long, value_delimiter = ',', default_value = "2,4,8,16,32")]
    experts: Vec<usize>,
    /// Lengthscales; scores are averages over them
    #[arg(long, value_delimiter = ',', default_value = "0.2,0.6,2")]
    lengthscales: Vec<f64>,
    /// Data sets
    #[arg(long, default_value_t = 2)]
    seeds: u64,
    /// How rows are shared out among experts: random, tree or kmeans
    #[arg(long, default_value = "random")]
    partition: Partition,
    /// Number of inducing inputs of sparse experts; without it, experts are exact
    #[arg(long)]
    inducing: Option<usize>,
    /// Points of the test grid along each column
    #[arg(long, default_value_t = 50)]
    grid: usize,
    /// Where to draw RMSE against the number of experts
    #[arg(long, default_value = "experts_ackley.png")]
    output: PathBuf,
}

/// Noise variance, of the paper and of the data here.
const NOISE: f64 = 0.025;
/// Most rows for an exact full model.
const EXACT: usize = 10_000;

/// One line of the comparison, with the sums of its scores.
#[derive(Clone)]
struct Line {
    name: String,
    squares: f64,
    covered: f64,
    runs: f64,
}

impl Line {
    fn new(name: impl ToString) -> Self {
        Self { name: name.to_string(), squares: 0.0, covered: 0.0, runs: 0.0 }
    }

    /// Adds the scores against the noise-free values `f`; intervals are those of `f`.
    fn add(&mut self, predicted: &Marginals, f: &[f64]) {
        let n = f.len() as f64;
        let errors = || predicted.mean.iter().zip(f).map(|(mean, f)| mean - f);
        self.squares += (errors().map(|e| e * e).sum::<f64>() / n).sqrt();
        let inside = errors().zip(&predicted.variance).filter(|(e, v)| e.abs() <= 1.96 * v.sqrt());
        self.covered += inside.count() as f64 / n;
        self.runs += 1.0;
    }

    fn rmse(&self) -> f64 {
        self.squares / self.runs
    }
}

fn ackley(x: &[f64]) -> f64 {
    let d = x.len() as f64;
    let (squares, waves) = (x.iter().map(|x| x * x).sum::<f64>(), x.iter().map(|x| (TAU * x).cos()).sum::<f64>());
    -20.0 * (-0.2 * (squares / d).sqrt()).exp() - (waves / d).exp() + 20.0 + E
}

fn rows(options: &Options, seed: u64) -> Result<Observations> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let x: Vec<f64> = (0..options.rows * options.columns).map(|_| rng.random_range(-1.0..1.0)).collect();
    let mut noise = || NOISE.sqrt() * Distribution::<f64>::sample(&StandardNormal, &mut rng);
    let y = x.chunks(options.columns).map(|x| ackley(x) + noise()).collect();
    Observations::new(x, options.columns, y, None)
}

/// The grid over the domain, row-major.
fn grid(points: usize, d: usize) -> Vec<f64> {
    let along = |i: usize| -1.0 + 2.0 * i as f64 / (points - 1).max(1) as f64;
    (0..points.pow(d as u32)).flat_map(|i| (0..d).map(move |k| along(i / points.pow(k as u32) % points))).collect()
}

fn shared(options: &Options, lengthscale: f64, data: &Observations, seed: u64) -> Result<Shared> {
    let kernel = Kernel::parse(&format!("rbf({lengthscale})"), data.d)?;
    let mut likelihood = Gaussian::new(NOISE);
    likelihood.noise.set(&[NOISE])?;
    Ok(match options.inducing {
        None => {
            let objective = ExactObjective::MarginalLikelihood;
            Shared::Exact(ExactGp { prior: kernel.into(), likelihood, objective })
        }
        Some(m) => {
            let z = inducing::choose(Choice::Kmeans, &kernel, &data.x, data.d, m, seed)?;
            let mut model = Sgpr::new(kernel, &z, data.d)?;
            model.likelihood = likelihood;
            Shared::Sparse(model)
        }
    })
}

/// The weights of exact experts by eq. 44 as printed, with 1 where the paper's text has the noise. They may explode.
fn printed(
    options: &Options,
    experts: &ExpertsPosterior,
    parts: &[Vec<usize>],
    data: &Observations,
) -> Result<Option<Weights>> {
    if options.inducing.is_some() {
        return Ok(None);
    }
    let m = parts.len();
    let (mut inner, mut system) = (vec![0.0; m * m], WeightSystem::new(m));
    for (i, rows) in parts.iter().enumerate() {
        let own = data.gather(rows)?;
        let f: Vec<Vec<f64>> = experts.each(&own.x)?.into_iter().map(|said| said.mean).collect();
        // K̂_i⁻¹y_i, from the residuals at the expert's rows.
        let alpha: Vec<f64> = own.y.iter().zip(&f[i]).map(|(y, f)| (y - f) / NOISE).collect();
        for (inner, f) in inner[i * m..].iter_mut().zip(&f) {
            *inner = alpha.iter().zip(f).map(|(a, f)| a * f).sum();
        }
        // The paper takes one row of each expert.
        let row = rows.len() / 2;
        system.add(&f.iter().map(|f| f[row]).collect::<Vec<_>>(), &own.y[row..=row])?;
    }
    system.solve(Form::Noise, &inner, 1.0).map(Some)
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

fn main() -> Result<()> {
    let options = Options::parse();
    if options.grid.pow(options.columns as u32) > 1_000_000 {
        return Err(Error::Usage("--grid: more than a million test points".into()));
    }
    cagey::memory::keep_freed();
    cagey::threads::start(None)?;
    let points = grid(options.grid, options.columns);
    let f: Vec<f64> = points.chunks(options.columns).map(ackley).collect();
    let (compute, mut full) = (Compute::default(), Line::new("full"));
    let mut table: Vec<Vec<Line>> = Vec::new();
    for &count in &options.experts {
        let names = Rule::ALL.iter().map(ToString::to_string);
        let extra = ["weights, printed variance", "weights-printed", "best expert"].map(String::from);
        table.push(names.chain(extra).map(Line::new).collect());
        let mut warnings = Vec::new();
        for seed in 1..=options.seeds {
            let data = rows(&options, seed)?;
            for &lengthscale in &options.lengthscales {
                let shared = shared(&options, lengthscale, &data, seed)?;
                if table.len() == 1 && (options.inducing.is_some() || data.n() <= EXACT) {
                    full.add(&shared.model().condition(compute, data.clone())?.predict(&points)?, &f);
                }
                let parts = options.partition.split(&data, &[], count, seed)?;
                let common = Partition::Random.split(&data, &[], count, seed)?.swap_remove(0);
                let experts = Experts::new(shared, Rule::Grbcm, parts.clone(), common)?;
                let posterior = experts.posterior(compute, data.clone())?;
                let lines = table.last_mut().into_iter().flatten();
                for (line, rule) in lines.zip(Rule::ALL) {
                    let by = posterior.by_rule(rule);
                    line.add(&by.predict(&points)?, &f);
                    let warning = by.weights()?.and_then(|weights| weights.warning());
                    warnings.extend(warning.map(|warning| format!("  {} (ℓ = {lengthscale}): {warning}", line.name)));
                }
                let alone = posterior.each(&points)?;
                if let Some(lines) = table.last_mut() {
                    let weights = posterior.by_rule(Rule::Weights).weights()?;
                    let all = [weights, printed(&options, &posterior, &parts, &data)?];
                    for (line, weights) in lines[Rule::ALL.len()..].iter_mut().zip(all) {
                        let Some(Weights { beta, .. }) = weights else { continue };
                        line.add(&independent(&beta, &alone), &f);
                    }
                }
                let rmse = |said: &Marginals| said.mean.iter().zip(&f).map(|(mean, f)| (mean - f).powi(2)).sum::<f64>();
                if let (Some(best), Some(line)) = (
                    alone.iter().min_by(|a, b| rmse(a).total_cmp(&rmse(b))),
                    table.last_mut().and_then(|lines| lines.last_mut()),
                ) {
                    line.add(best, &f);
                }
            }
        }
        println!("M = {count}");
        for line in std::iter::once(&full).chain(table.last().into_iter().flatten()).filter(|line| line.runs > 0.0) {
            let coverage = 100.0 * line.covered / line.runs;
            println!("  {:<26} RMSE {:>9.4}   coverage at 95 % {coverage:>5.1} %", line.name, line.rmse());
        }
        warnings.iter().for_each(|warning| println!("{warning}"));
    }
    draw(&options, &full, &table)
}

/// Draws RMSE against the number of experts, for the rules that fit into the figure.
fn draw(options: &Options, full: &Line, table: &[Vec<Line>]) -> Result<()> {
    let at: Vec<f64> = options.experts.iter().map(|count| *count as f64).collect();
    let drawn = [Rule::Poe, Rule::Bcm, Rule::Rbcm, Rule::Grbcm, Rule::Npae, Rule::Weights, Rule::Nearest];
    let mut lines: Vec<(String, Vec<f64>)> = drawn
        .iter()
        .map(|rule| {
            let of =
                |lines: &Vec<Line>| lines.iter().find(|line| line.name == rule.name()).map_or(f64::NAN, Line::rmse);
            (rule.to_string(), table.iter().map(of).collect())
        })
        .collect();
    if full.runs > 0.0 {
        lines.push(("full".into(), vec![full.rmse(); at.len()]));
    }
    let runs: Vec<Run> = lines.iter().map(|(name, loss)| Run { name, loss, seconds: &at }).collect();
    let frame = Frame { title: "Ackley function", x: "experts", y: "RMSE", ..Frame::default() };
    LearningCurve { runs: &runs, against: Against::Seconds, logarithmic: true, frame }.save(&options.output)
}
