//! The comparison as text: the best first, with differences that say whether it is clearly the best.

use super::candidate::{Candidate, Difference};
use crate::cli::{report, settings};

/// A table with one row for each candidate, in their order: the best first.
pub fn table(candidates: &[Candidate], unit: &str) -> String {
    let Some(best) = candidates.first() else { return String::new() };
    let Some(first) = best.runs.first() else { return String::new() };
    let brief = first.scores.scored.brief();
    let folds = best.runs.len();
    let mut head = vec!["", "model"];
    head.extend(brief.iter().map(|(name, _)| *name));
    head.extend(["behind the best", "± by rows"]);
    head.extend((folds > 1).then_some("± by folds"));
    head.extend(["seconds", "MB a step"]);
    let mut rows = vec![head.into_iter().map(String::from).collect::<Vec<_>>()];
    for candidate in candidates {
        let Difference { mean, by_rows, by_folds } = candidate.difference(best);
        let is_best = std::ptr::eq(candidate, best);
        let mut row = vec![if is_best { "*" } else { "" }.to_string(), candidate.name.clone()];
        row.extend(brief.iter().enumerate().map(|(k, (_, kind))| {
            kind.with(candidate.over_folds(|run| run.scores.scored.brief()[k].1.value())).text()
        }));
        let of_others = |value: f64| if is_best { String::new() } else { report::fixed(value, 4) };
        row.extend([of_others(mean), of_others(by_rows)]);
        row.extend((folds > 1).then(|| by_folds.map_or(String::new(), of_others)));
        row.push(report::fixed(candidate.over_folds(|run| run.seconds), 1));
        let bytes = candidate.over_folds(|run| run.fit.as_ref().map_or(0.0, |fit| fit.bytes));
        row.push(if candidate.is_baseline() { String::new() } else { report::fixed(bytes / 1e6, 0) });
        rows.push(row);
    }
    let mut text = report::columns(&rows, 2);
    text += &format!("{}\n", verdict(candidates, best, unit));
    let models = || candidates.iter().filter(|candidate| !candidate.is_baseline());
    for candidate in models() {
        let against = |(name, skill): (String, f64)| {
            let sign = if skill < 0.0 { "above" } else { "below" };
            format!("{} {sign} {name}", report::percent(skill.abs()))
        };
        let skill: Vec<String> = candidate.skill(candidates).into_iter().map(against).collect();
        if !skill.is_empty() {
            text += &format!("{}: RMSE {}\n", candidate.name, skill.join(", "));
        }
    }
    for candidate in models() {
        let Some(fit) = candidate.runs[0].fit.as_ref() else { continue };
        let name = if folds > 1 { format!("{}, first fold", candidate.name) } else { candidate.name.clone() };
        if !fit.words.is_empty() {
            text += &format!("{name}: {}\n", fit.words);
        }
        for warning in &fit.fitted.summary.warnings {
            text += &format!("{name}: warning: {}\n", settings::words(warning));
        }
        let parameters = fit.fitted.model.parameters().into_iter().filter(|(_, p)| p.len() <= MOST_LISTED);
        let list: Vec<String> = parameters
            .map(|(path, p)| {
                let values: Vec<String> = p.values().into_iter().map(cagey::params::shown).collect();
                format!("{path} {}", values.join(", "))
            })
            .collect();
        text += &format!("{name}: {}\n", list.join("; "));
    }
    text
}

/// Parameters with more numbers are not listed.
const MOST_LISTED: usize = 16;

/// Says whether the best candidate is clearly better than the others.
fn verdict(candidates: &[Candidate], best: &Candidate, unit: &str) -> String {
    let what = best.runs[0].scores.name;
    let close: Vec<&str> = candidates[1..]
        .iter()
        .filter(|other| {
            let Difference { mean, by_rows, by_folds } = other.difference(best);
            // Uses the larger standard error; without a number there is no proof.
            let error = by_rows.max(by_folds.unwrap_or(0.0));
            error.is_nan() || mean <= 2.0 * error
        })
        .map(|other| other.name.as_str())
        .collect();
    let rows = report::count(best.rows().len(), "held-out row");
    let told = match (candidates.len(), close.as_slice()) {
        (1, _) => String::new(),
        (_, []) => format!("{} is best by more than two standard errors", best.name),
        (_, close) => format!("{} is not clearly better than {}", best.name, close.join(", ")),
    };
    let separator = if told.is_empty() { "" } else { "; " };
    format!("By {what} of {rows}{separator}{told}{unit}")
}
