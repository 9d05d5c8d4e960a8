//! The comparison on tables: Tables 1 and S1, Figures 3, 4, S1, S4 and S5. All draw on the same trainings.

use cagey::Result;

use crate::Options;
use crate::common::command::Job;
use crate::common::drawing::{line, mean, pane};
use crate::common::scores::{shown, spread};
use crate::common::training::{Point, Record};
use crate::training::{Case, Method, Optimiser};

const METHODS: [Method; 6] =
    [Method::Cholesky, Method::Sgpr, Method::Svgp, Method::Cggp, Method::CagpCg, Method::CagpOpt];
const SETS: [&str; 4] = ["parkinsons", "bike", "protein", "keggundirected"];
/// Of larger tables, the paper has no exact model.
const EXACT: [&str; 3] = ["parkinsons", "bike", "surface"];

/// The records of some runs of one method on one table.
type Runs = Vec<Record>;

/// A number of a point, with the title of its panel.
type Column = (&'static str, fn(&Point) -> f64);

impl Job<Options> {
    fn methods(&self, usual: &[Method]) -> Vec<Method> {
        if self.own.methods.is_empty() { usual.to_vec() } else { self.own.methods.clone() }
    }

    /// A training as Table S1 has it, with an epoch for a hundred of the quick kind.
    fn case(&self, set: &str, method: Method, rate: f64, seed: u64) -> Case {
        let (usual, _, epochs) = method.settings();
        let optimizer = if method == Method::Svgp { Optimiser::Adam } else { self.own.optimizer.unwrap_or(usual) };
        let epochs = if optimizer == Optimiser::Lbfgs { epochs.min(100) } else { epochs };
        let epochs = self.size(&self.own.epochs, [epochs.div_ceil(50).max(4), epochs.div_ceil(4), epochs]);
        Case { set: set.into(), method, optimizer, rate, epochs, seed, projected: false }
    }

    /// The rates to try. L-BFGS has a line search instead of a rate.
    fn rates(&self, method: Method) -> Vec<f64> {
        let (usual, rates, _) = method.settings();
        if method != Method::Svgp && self.own.optimizer.unwrap_or(usual) == Optimiser::Lbfgs {
            return vec![1.0];
        }
        if !self.own.rates.is_empty() { self.own.rates.clone() } else { rates.to_vec() }
    }

    /// The rate with the lowest test NLL after a tenth of the epochs on the first split.
    fn best_rate(&self, set: &str, method: Method) -> Result<Option<f64>> {
        let rates = self.rates(method);
        if let [only] = rates.as_slice() {
            return Ok(Some(*only));
        }
        let mut best: Option<(f64, f64)> = None;
        for rate in rates {
            let case = self.case(set, method, rate, 0);
            let case = Case { epochs: case.epochs.div_ceil(10), ..case };
            let Some(record) = self.attempted(&case)? else { continue };
            let nll = record.points.last().map_or(f64::INFINITY, |point| point.test.nlpd);
            println!("{set} {method:?}: rate {rate}, NLL {nll:.4} after {} epochs", case.epochs);
            if best.is_none_or(|(lowest, _)| nll < lowest) {
                best = Some((nll, rate));
            }
        }
        Ok(best.map(|(_, rate)| rate))
    }

    /// A training that may fail, for example at a rate that is too high.
    fn attempted(&self, case: &Case) -> Result<Option<Record>> {
        self.trained(case).or_else(|problem| {
            println!("{} {:?}, rate {}: {problem}", case.set, case.method, case.rate);
            Ok(None)
        })
    }

    /// The runs of all methods on a table, each with its best rate.
    fn runs(&self, set: &str, methods: &[Method], seeds: [u64; 3]) -> Result<Vec<(Method, Runs)>> {
        let mut all = Vec::new();
        for &method in methods.iter().filter(|method| **method != Method::Cholesky || EXACT.contains(&set)) {
            let Some(rate) = self.best_rate(set, method)? else { continue };
            let mut runs = Vec::new();
            for seed in self.seeds(seeds) {
                runs.extend(self.attempted(&self.case(set, method, rate, seed))?);
            }
            if !runs.is_empty() {
                all.push((method, runs));
            }
        }
        Ok(all)
    }

    /// Draws a column of the points of each method's first run against seconds, for each table.
    fn against_seconds(&self, columns: &[Column], methods: &[Method]) -> Result<()> {
        for set in self.sets(&self.own.sets, &SETS) {
            let all = self.runs(&set, methods, [1, 1, 5])?;
            let panes: Vec<_> = columns
                .iter()
                .map(|(title, of)| {
                    let lines = all.iter().map(|(method, runs)| {
                        line(format!("{method:?}"), &runs[0].column(|p| p.seconds), &runs[0].column(*of))
                    });
                    pane(*title, lines.collect())
                })
                .collect();
            self.panels(&format!("-{set}"), [&set, "seconds", ""], true, &panes)?;
        }
        Ok(())
    }
}

/// Table 1: at the epoch with the lowest mean NLL, and at the end.
pub fn table(job: &Job<Options>) -> Result<()> {
    for set in job.sets(&job.own.sets, &SETS) {
        println!(
            "{set}: {:<9} {:>6} {:>20} {:>20} {:>9} {:>20}",
            "", "epoch", "NLL", "RMSE", "seconds", "NLL at the end"
        );
        for (method, runs) in job.runs(&set, &job.methods(&METHODS), [1, 2, 5])? {
            let at = |k: usize, of: fn(&Point) -> f64| -> Vec<f64> {
                runs.iter().filter_map(|run| run.points.get(k)).map(of).collect()
            };
            let most = runs.iter().map(|run| run.points.len()).min().unwrap_or(1);
            let sum = |k: usize| at(k, |p| p.test.nlpd).iter().sum::<f64>();
            let best = (0..most).min_by(|a, b| sum(*a).total_cmp(&sum(*b))).unwrap_or(0);
            let (seconds, _) = spread(&at(best, |p| p.seconds));
            println!(
                "{set}: {:<9} {:>6} {:>20} {:>20} {seconds:>9.1} {:>20}",
                format!("{method:?}"),
                runs[0].points[best].epoch,
                shown(&at(best, |p| p.test.nlpd)),
                shown(&at(best, |p| p.test.error)),
                shown(&at(most - 1, |p| p.test.nlpd))
            );
        }
    }
    Ok(())
}

/// Table S1: the rates.
pub fn rates(job: &Job<Options>) -> Result<()> {
    for set in job.sets(&job.own.sets, &SETS) {
        for method in job.methods(&METHODS) {
            if method.settings().0 == Optimiser::Adam
                && let Some(rate) = job.best_rate(&set, method)?
            {
                println!("{set} {method:?}: {rate} is best");
            }
        }
    }
    Ok(())
}

/// Figure 3.
pub fn curves(job: &Job<Options>) -> Result<()> {
    let columns: [Column; 3] =
        [("training loss", |p| p.loss), ("test NLL", |p| p.test.nlpd), ("test RMSE", |p| p.test.error)];
    job.against_seconds(&columns, &job.methods(&METHODS))
}

/// Figure 4: the paper has the table Power.
pub fn coverage(job: &Job<Options>) -> Result<()> {
    let columns: [Column; 1] = [("|coverage of 95 % intervals − 95 %|", |p| (p.test.calibration - 0.95).abs())];
    job.against_seconds(&columns, &job.methods(&[Method::CagpOpt, Method::Svgp]))
}

/// Figure S5.
pub fn paths(job: &Job<Options>) -> Result<()> {
    for set in job.sets(&job.own.sets, &SETS) {
        let all = job.runs(&set, &job.methods(&METHODS), [1, 1, 5])?;
        let Some((_, first)) = all.first() else { continue };
        let panes: Vec<_> = first[0]
            .names
            .iter()
            .enumerate()
            .map(|(k, name)| {
                let of = |p: &Point| p.parameters.get(k).copied().unwrap_or(f64::NAN).log10();
                let lines = all.iter().map(|(method, runs)| {
                    let name = format!("{method:?}");
                    line(name, &runs[0].column(|p| p.epoch), &runs[0].column(of))
                });
                pane(format!("log10 {name}"), lines.collect())
            })
            .collect();
        for (method, runs) in &all {
            let ends = runs[0].points.last().map(|p| p.parameters.clone()).unwrap_or_default();
            println!("{set} {method:?}: {:?} end at {ends:.3?}", runs[0].names);
        }
        job.panels(&format!("-{set}"), [&set, "epoch", ""], false, &panes)?;
    }
    Ok(())
}

/// Figure S4.
pub fn effect(job: &Job<Options>) -> Result<()> {
    for set in job.sets(&job.own.sets, &SETS) {
        let (mut nll, mut rmse) = (Vec::new(), Vec::new());
        for method in job.methods(&[Method::Svgp, Method::CagpCg, Method::CagpOpt]) {
            let (mut rates, mut nlls, mut rmses) = (Vec::new(), Vec::new(), Vec::new());
            for rate in job.rates(method) {
                let mut runs = Vec::new();
                for seed in job.seeds([1, 1, 5]) {
                    runs.extend(job.attempted(&job.case(&set, method, rate, seed))?);
                }
                let best = |of: fn(&Point) -> f64| -> Vec<f64> {
                    runs.iter().map(|run| run.column(of).into_iter().fold(f64::INFINITY, f64::min)).collect()
                };
                if !runs.is_empty() {
                    rates.push(rate);
                    nlls.push(best(|p| p.test.nlpd));
                    rmses.push(best(|p| p.test.error));
                    println!("{set} {method:?}, rate {rate}: NLL {}", shown(&nlls[nlls.len() - 1]));
                }
            }
            nll.push(mean(format!("{method:?}"), &rates, &nlls));
            rmse.push(mean(format!("{method:?}"), &rates, &rmses));
        }
        let panes = [pane("lowest test NLL", nll), pane("lowest test RMSE", rmse)];
        job.panels(&format!("-{set}"), [&set, "first learning rate", ""], true, &panes)?;
    }
    Ok(())
}

/// Figure S1: actions of conjugate gradients, trained by the ELBO and by the loss of the projected data.
pub fn losses(job: &Job<Options>) -> Result<()> {
    for set in job.sets(&job.own.sets, &SETS[..2]) {
        let mut lines = Vec::new();
        for method in job.methods(&[Method::CagpCg]) {
            for (projected, name) in [(false, "ELBO"), (true, "projected data")] {
                let rate = job.own.rates.first().copied().unwrap_or(0.1);
                let case = Case { projected, ..job.case(&set, method, rate, 0) };
                let Some(record) = job.attempted(&case)? else { continue };
                let (epochs, nll) = (record.column(|p| p.epoch), record.column(|p| p.test.nlpd));
                println!("{set} {method:?}, {name}: test NLL {:.4}", nll[nll.len() - 1]);
                lines.push(line(format!("{method:?}, {name}"), &epochs, &nll));
            }
        }
        job.panels(&format!("-{set}"), [&set, "epoch", "test NLL"], false, &[pane("", lines)])?;
    }
    Ok(())
}
