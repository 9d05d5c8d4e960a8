//! Held-out scores before and after following the advice that is printed, on real tables.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cagey::Result;
use cagey::data::{Dataset, ReadOptions, Schema, Split, TargetKind, TargetTransform, read_training};
use cagey::fitted::{Fitted, Registry, Settings};
use cagey::metrics::{score, score_targets};
use cagey::models::laplace::LaplaceOptions;
use cagey::train::TrainConfig;
use clap::Args;

#[derive(Args)]
pub struct Advised {
    /// Tables, target last (NAME.csv or NAME.csv.gz), or FILE:TARGET for another target
    tables: Vec<String>,
    /// Folder of the tables
    #[arg(long, default_value = ".")]
    data: PathBuf,
    /// Most rows of a table; the others are left out at random
    #[arg(long, default_value_t = 700)]
    rows: usize,
    /// Splits
    #[arg(long, default_value_t = 1)]
    splits: u64,
    /// Hold out the last fifth instead of random three tenths
    #[arg(long)]
    last: bool,
    /// Settings to try on all tables beside the advice, to see which gains were there: a kernel, `log`, `poisson`,
    /// `negative-binomial`, `gamma` or `student-t`
    #[arg(long, value_delimiter = ';')]
    others: Vec<String>,
}

/// The time that the command takes for advice.
const AS_COMMAND: Duration = Duration::from_secs(20);

/// What following advice did.
#[derive(Default)]
struct Count {
    given: usize,
    better: usize,
    worse: usize,
    /// Where another setting gains a tenth of a nat, and how often there was advice.
    open: usize,
    answered: usize,
}

impl Advised {
    pub fn run(&self) -> Result<()> {
        println!(
            "{:<26} {:>5} {:>8} {:>8} {:>9}  advice, predicted gain; seconds",
            "", "rows", "NLPD", "after", "CRPS %"
        );
        let mut count = Count::default();
        for table in &self.tables {
            for seed in 0..self.splits {
                if let Err(error) = self.one(table, seed, &mut count) {
                    println!("{table:<26} {error}");
                }
            }
        }
        let Count { given, better, worse, open, answered } = count;
        println!("given {given}, better {better}, worse by .02 {worse}; gains of .1 {open}, with advice {answered}");
        Ok(())
    }

    fn one(&self, table: &str, seed: u64, count: &mut Count) -> Result<()> {
        let (schema, train, test) = self.read(table, seed)?;
        let (before, fitted, seconds) = fit(&schema, &train, &test, Settings::default())?;
        let y = test.y.as_deref().unwrap_or_default();
        let held = fitted.diagnose(&test, y, &fitted.predict(&test)?)?;
        let mut found = held.findings.clone();
        if let Some(left) = fitted.left_out()?.filter(|_| !self.last) {
            found = fitted.diagnose_left_out(&left)?.findings;
        }
        let began = Instant::now();
        let advice = fitted.alternatives(&found, Some(AS_COMMAND), &Registry::default())?;
        let spent = began.elapsed().as_secs_f64();
        let name = Path::new(table).file_name().map_or(table.into(), |name| name.to_string_lossy());
        let line = |nlpd: f64, crps: f64, what: &str| {
            let change = 100.0 * (crps / before.crps - 1.0);
            println!("{name:<26} {:>5} {:>8.3} {nlpd:>8.3} {change:>9.1}  {what}", train.n, before.nlpd);
        };
        for one in advice.iter().take(3) {
            let (schema, train, test) = if one.numbered {
                let (train, test) = (numbered(&train)?, numbered(&test)?);
                (Schema::numeric(&train), train, test)
            } else {
                (schema.clone(), train.clone(), test.clone())
            };
            let (after, ..) = fit(&schema, &train, &test, one.settings.clone())?;
            count.given += 1;
            count.better += usize::from(after.nlpd < before.nlpd || after.crps < before.crps);
            count.worse += usize::from(after.nlpd > before.nlpd + 0.02);
            line(after.nlpd, after.crps, &format!("{:?}: {}; {seconds:.1}, {spent:.1} s", one.remedy, one.advice));
        }
        if advice.is_empty() {
            line(before.nlpd, before.crps, &format!("no advice; {seconds:.1}, {spent:.1} s"));
        }
        let mut best: Option<(f64, &str)> = None;
        for other in &self.others {
            let settings = match other.as_str() {
                "log" => Settings { target_transform: TargetTransform::Log, ..Settings::default() },
                name @ ("poisson" | "negative-binomial" | "gamma" | "student-t") => {
                    let model = LaplaceOptions::default().into();
                    Settings { likelihood: name.into(), model, ..Settings::default() }
                }
                kernel => Settings { kernel: kernel.into(), ..Settings::default() },
            };
            let Ok((after, ..)) = fit(&schema, &train, &test, settings) else { continue };
            if best.is_none_or(|(nlpd, _)| after.nlpd < nlpd) {
                best = Some((after.nlpd, other));
            }
        }
        if let Some((nlpd, other)) = best.filter(|(nlpd, _)| before.nlpd - nlpd > 0.1) {
            count.open += 1;
            count.answered += usize::from(!advice.is_empty());
            println!("{name:<26} {:>5} {:>8.3} {nlpd:>8.3} {:>9}  there was: {other}", "", before.nlpd, "");
        }
        Ok(())
    }

    fn read(&self, table: &str, seed: u64) -> Result<(Schema, Dataset, Dataset)> {
        let (file, target) = table.split_once(':').map_or((table, None), |(file, target)| (file, Some(target)));
        let options = ReadOptions {
            target: target.map(Into::into),
            target_kind: TargetKind::Numbers,
            dates: true,
            one_hot: true,
            ..ReadOptions::default()
        };
        let (schema, mut data) = read_training(self.data.join(file), &options)?;
        if data.n > self.rows {
            data = data.subset(&Split::random(data.n, self.rows as f64 / data.n as f64, seed)?.test);
        }
        let split = if self.last { Split::last(data.n, 0.2)? } else { Split::random(data.n, 0.3, seed)? };
        Ok((schema, data.subset(&split.train), data.subset(&split.test)))
    }
}

/// Mean scores of held-out rows.
struct Held {
    nlpd: f64,
    crps: f64,
}

fn fit(schema: &Schema, train: &Dataset, test: &Dataset, settings: Settings) -> Result<(Held, Fitted, f64)> {
    let config = TrainConfig::while_it_pays();
    let fitted = Fitted::fit(schema.clone(), train, settings, &config, &Registry::default(), &mut [])?;
    let y = test.y.as_deref().unwrap_or_default();
    let (nlpd, crps) = if fitted.is_gaussian() {
        let scores = score(y, &fitted.predict(test)?)?;
        (scores.nlpd, scores.crps)
    } else {
        let scores = score_targets(y, &fitted.predict_targets(test)?, 0)?;
        (scores.nlpd, scores.crps)
    };
    let seconds = fitted.summary.seconds;
    Ok((Held { nlpd, crps }, fitted, seconds))
}

/// The data with the number of the row as an additional input.
pub fn numbered(data: &Dataset) -> Result<Dataset> {
    let names: Vec<String> = data.feature_names.iter().cloned().chain(["row".to_string()]).collect();
    let number = |row: usize| data.records.get(row).map_or(row as f64, |record| *record as f64);
    let x = (0..data.n).flat_map(|row| data.row(row).iter().copied().chain([number(row)])).collect();
    Dataset::new(names, x)?.with_target(data.target_name.clone(), data.y.clone().unwrap_or_default())
}
