//! What the command prints.

use std::io::Write;

use cagey::metrics::Scores;
use cagey::{Error, Result};
use serde::Serialize;

/// Prints to standard output; a reader that has gone away is no failure.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(Error::io("standard output", &e)),
        _ => Ok(()),
    }
}

/// Prints a value as one JSON document.
pub fn print_json(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value).map_err(|e| Error::Data(format!("cannot write as JSON: {e}")))?;
    print(&(text + "\n"))
}

/// Prints a warning to standard error.
pub fn warn(message: &str) {
    eprintln!("warning: {message}");
}

/// `1 row`, `2 rows`.
pub fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Rows of names and values, aligned.
pub fn table(rows: &[(String, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    rows.iter().map(|(name, value)| format!("  {name:<width$}  {value}\n")).collect()
}

/// Scores as a table.
pub fn scores(scores: &Scores) -> String {
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let number = |value: f64| format!("{value:.5}");
    table(&[
        ("rows".into(), scores.n.to_string()),
        ("RMSE".into(), number(scores.rmse)),
        ("MAE".into(), number(scores.mae)),
        ("R²".into(), scores.r2.map_or("undefined (constant targets)".into(), number)),
        ("NLPD".into(), number(scores.nlpd)),
        ("CRPS".into(), number(scores.crps)),
        ("coverage of 50 % intervals".into(), percent(scores.coverage_50)),
        ("coverage of 90 % intervals".into(), percent(scores.coverage_90)),
        ("coverage of 95 % intervals".into(), percent(scores.coverage_95)),
        ("mean width of 95 % intervals".into(), number(scores.width_95)),
        ("calibration error".into(), percent(scores.calibration_error)),
    ])
}
