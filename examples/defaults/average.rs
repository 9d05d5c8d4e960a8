//! Compares averages over kernels with the default kernel alone, on random parts of tables: rules for the weights,
//! temperatures, families of kernels, with and without the logarithm of positive targets.

use std::path::PathBuf;

use cagey::Result;
use cagey::data::{Dataset, ReadOptions, Split, read_training};
use cagey::fitted::{Fitted, Member, Plan, Registry, Settings, average};
use cagey::metrics::{Predictive, Scores, score};
use cagey::train::TrainConfig;
use clap::Args;

/// Compare averages over kernels with the default kernel
#[derive(Args)]
pub struct Averages {
    /// Folder of the tables
    #[arg(long)]
    data: PathBuf,
    /// Tables: names of files
    #[arg(long, value_delimiter = ',')]
    sets: Vec<String>,
    /// Numbers of training rows
    #[arg(long, value_delimiter = ',', default_value = "25,40,80,150,400")]
    sizes: Vec<usize>,
    /// Random parts of each table
    #[arg(long, default_value_t = 1)]
    splits: u64,
    /// Kernels to add to the members of the default average
    #[arg(long, num_args = 0..)]
    more: Vec<String>,
    /// Print every part of every table
    #[arg(long)]
    each: bool,
}

/// Most held-out rows.
const HELD_OUT: usize = 400;

/// A rule, and the weights that it gives to members fitted to so many rows.
type Rule = (String, Box<dyn Fn(&[Member], f64) -> Vec<f64>>);

/// Weights exp(−n of(member)), up to a factor.
fn exponential(members: &[Member], n: f64, of: impl Fn(&Member) -> f64) -> Vec<f64> {
    let least = members.iter().map(&of).fold(f64::INFINITY, f64::min);
    let weights: Vec<f64> = members.iter().map(|member| (-n * (of(member) - least)).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

/// All weight on the best member.
fn best(members: &[Member], of: impl Fn(&Member) -> f64) -> Vec<f64> {
    let least = members.iter().map(&of).fold(f64::INFINITY, f64::min);
    let first = members.iter().position(|member| of(member) == least);
    (0..members.len()).map(|k| f64::from(u8::from(Some(k) == first))).collect()
}

/// The weights that maximise the left-out density of the average (Yao et al. 2018), by expectation maximisation.
fn stacked(members: &[Member], _: f64) -> Vec<f64> {
    let left: Vec<(Vec<f64>, Vec<Predictive>)> =
        members.iter().map(|member| member.fitted.leave_one_out().expect("exact models leave rows out")).collect();
    let rows = left[0].0.len();
    let density = |k: usize, row: usize| left[k].1[row].log_density(left[k].0[row]).exp();
    let mut weights = vec![1.0 / members.len() as f64; members.len()];
    for _ in 0..200 {
        let mut shares = vec![0.0; members.len()];
        for row in 0..rows {
            let parts: Vec<f64> = (0..members.len()).map(|k| weights[k] * density(k, row)).collect();
            let sum = parts.iter().sum::<f64>().max(f64::MIN_POSITIVE);
            shares.iter_mut().zip(parts).for_each(|(share, part)| *share += part / sum / rows as f64);
        }
        weights = shares;
    }
    weights
}

fn rules() -> Vec<Rule> {
    let mut rules: Vec<Rule> = vec![
        ("the library's".into(), Box::new(|members, _| members.iter().map(|member| member.weight).collect())),
        ("picked by evidence".into(), Box::new(|members, _| best(members, |m| m.evidence))),
        ("picked by left-out density".into(), Box::new(|members, _| best(members, |m| m.left_out))),
        ("equal weights".into(), Box::new(|members, _| vec![1.0 / members.len() as f64; members.len()])),
        ("stacked".into(), Box::new(stacked)),
    ];
    for temperature in [1.0, 4.0, 8.0, 16.0] {
        let named = |what: &str| format!("{what}, T = {temperature}");
        rules.push((named("evidence"), Box::new(move |m, n| exponential(m, n, |m| m.evidence / temperature))));
        rules.push((named("left-out"), Box::new(move |m, n| exponential(m, n, |m| m.left_out / temperature))));
        let both = move |m: &Member| 0.5 * (m.evidence + m.left_out) / temperature;
        rules.push((named("both"), Box::new(move |m, n| exponential(m, n, both))));
    }
    rules
}

/// Members that a comparison keeps, with the words for it.
type Family = (&'static str, fn(&Member) -> bool);

fn is_log(member: &Member) -> bool {
    member.name().contains(" of log")
}

const FAMILIES: [Family; 4] = [
    ("all", |_| true),
    ("without logarithms", |member| !is_log(member)),
    ("with a lengthscale for each column", |member| member.name().contains("(ard)")),
    ("without the linear one", |member| !member.name().contains("linear")),
];

/// The scores of one rule on all parts of all tables, and those of the default kernel.
#[derive(Default)]
struct Tally(Vec<(Scores, Scores)>);

impl Tally {
    /// Mean difference of NLPD, the same without the outer tenths, parts that are worse by .02, mean ratio of RMSE, and
    /// coverage of 95 % intervals.
    fn print(&self, name: &str) {
        let count = self.0.len();
        if count == 0 {
            return;
        }
        let mut differences: Vec<f64> = self.0.iter().map(|(own, other)| capped(own) - capped(other)).collect();
        differences.sort_by(f64::total_cmp);
        let cut = count.div_ceil(10);
        let middle = if count > 2 * cut { &differences[cut..count - cut] } else { &differences[..] };
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let worse = differences.iter().filter(|difference| **difference > 0.02).count();
        let ratios: Vec<f64> = self.0.iter().map(|(own, other)| own.rmse / other.rmse).collect();
        let held: Vec<f64> = self.0.iter().map(|(own, _)| 100.0 * own.coverage_95).collect();
        let usual: Vec<f64> = self.0.iter().map(|(_, other)| 100.0 * other.coverage_95).collect();
        println!(
            "  {name:<44} {:+.3} {:+.3} {worse:>3}   {:.3}   {:.1} ({:.1})",
            mean(&differences),
            mean(middle),
            mean(&ratios),
            mean(&held),
            mean(&usual)
        );
    }
}

/// The NLPD, at most 20: a single row must not decide a mean.
fn capped(scores: &Scores) -> f64 {
    scores.nlpd.min(20.0)
}

/// The members' predictions of held-out rows, averaged by weights.
fn averaged(weights: &[f64], each: &[Vec<Predictive>]) -> Vec<Predictive> {
    let heard = || weights.iter().zip(each).filter(|(weight, _)| **weight > 1e-12);
    let row = |row: usize| Predictive::Average(heard().map(|(weight, all)| (*weight, all[row].clone())).collect());
    (0..each[0].len()).map(row).collect()
}

impl Averages {
    /// Fits, weighs, scores, prints one line for each rule.
    pub fn run(&self) -> Result<()> {
        for size in &self.sizes {
            let mut tallies: Vec<(String, Tally)> = Vec::new();
            let mut seconds = [0.0; 2];
            for set in &self.sets {
                for seed in 0..self.splits {
                    if let Some((train, test)) = self.part(set, *size, seed)? {
                        self.compare(set, (&train, &test), &mut tallies, &mut seconds)?;
                    }
                }
            }
            let [all, usual] = seconds;
            println!("{size} rows; seconds of all members {all:.1}, of the default kernel {usual:.1}");
            println!("  {:<44} NLPD   cut    worse  RMSE   95 %", "");
            tallies.iter().for_each(|(name, tally)| tally.print(name));
        }
        Ok(())
    }

    /// Random rows of a table for training, and others to hold out.
    fn part(&self, set: &str, size: usize, seed: u64) -> Result<Option<(Dataset, Dataset)>> {
        let (_, data) = read_training(self.data.join(format!("{set}.csv.gz")), &ReadOptions::default())?;
        if data.n < size + 30 {
            return Ok(None);
        }
        let held = HELD_OUT.min(data.n - size - 1);
        let both = Split::random(data.n, (size + held) as f64 / data.n as f64, 1000 * seed + size as u64)?.test;
        let split = Split::random(both.len(), held as f64 / both.len() as f64, seed)?;
        let of = |rows: &[usize]| data.subset(&rows.iter().map(|row| both[*row]).collect::<Vec<_>>());
        Ok(Some((of(&split.train), of(&split.test))))
    }

    fn compare(
        &self,
        set: &str,
        (train, test): (&Dataset, &Dataset),
        tallies: &mut Vec<(String, Tally)>,
        seconds: &mut [f64; 2],
    ) -> Result<()> {
        let (registry, settings) = (Registry::default(), Settings::default());
        let mut each = average::candidates(&settings, train, true);
        let more = self.more.iter().map(|kernel| Settings { kernel: kernel.clone(), ..settings.clone() });
        each.extend(more);
        let schema = cagey::data::Schema::numeric(train);
        let fitted = Plan::average(schema, train, each, 0, &registry)?.train(&TrainConfig::while_it_pays(), &mut [])?;
        let members = fitted.members();
        let Some(usual) = members.iter().find(|member| member.name() == settings.kernel) else { return Ok(()) };
        let y = test.y.as_deref().unwrap_or_default();
        let base = score(y, &usual.fitted.predict(test)?)?;
        seconds[0] += members.iter().map(|member| member.fitted.summary.seconds).sum::<f64>();
        seconds[1] += usual.fitted.summary.seconds;
        let mut add = |name: String, scores: Scores| {
            if self.each {
                println!("    {set} {name}: {:+.4}", capped(&scores) - capped(&base));
            }
            match tallies.iter_mut().find(|(known, _)| *known == name) {
                Some((_, tally)) => tally.0.push((scores, base)),
                None => tallies.push((name, Tally(vec![(scores, base)]))),
            }
        };
        for (words, kept) in FAMILIES {
            let kept: Vec<Member> = members.iter().filter(|member| kept(member)).cloned().collect();
            let models: Vec<Fitted> = kept.iter().map(|member| member.fitted.clone()).collect();
            let family = Fitted::average(models)?;
            let predictions = family.members().iter().map(|member| member.fitted.predict(test));
            let predictions: Vec<Vec<Predictive>> = predictions.collect::<Result<_>>()?;
            for (rule, weights) in rules() {
                let weights = weights(family.members(), train.n as f64);
                if let Ok(scores) = score(y, &averaged(&weights, &predictions)) {
                    add(format!("{words}: {rule}"), scores);
                }
            }
        }
        Ok(())
    }
}
