//! What the command prints.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::OsString;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use cagey::advice::Advice;
use cagey::metrics::{ClassScores, Scores, TargetScores};
use cagey::{Error, Result};
use serde::Serialize;

use super::{output, settings};
use crate::plain::plain;

/// Prints to standard output, as [`plain`] text. A reader that has closed the pipe is no failure.
pub fn print(text: &str) -> Result<()> {
    output::check_standard()?;
    let mut out = std::io::stdout().lock();
    match out.write_all(plain(text).as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(Error::io("standard output", &e)),
        _ => Ok(()),
    }
}

/// Prints a value as one JSON document.
pub fn print_json(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value).map_err(|e| Error::Data(format!("cannot write as JSON: {e}")))?;
    print(&(text + "\n"))
}

static QUIET: AtomicBool = AtomicBool::new(false);

/// From now on, prints no notes, only errors and warnings.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Whether to print errors and warnings only.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// A message to the user of a program that calls the command's parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// What was done or chosen.
    Note(String),
    /// What is lost or doubtful.
    Warning(String),
}

thread_local! {
    static COLLECTED: RefCell<Option<Vec<Message>>> = const { RefCell::new(None) };
}

/// Calls a function and returns what it says on this thread, in place of printing it.
pub fn collect<R>(work: impl FnOnce() -> R) -> (R, Vec<Message>) {
    // Work that waits may do other work of the pool, which collects by itself.
    let before = COLLECTED.replace(Some(Vec::new()));
    let result = work();
    (result, COLLECTED.replace(before).unwrap_or_default())
}

/// Whether the message is collected, so that it is not printed.
fn is_collected(message: impl FnOnce() -> Message) -> bool {
    COLLECTED.with_borrow_mut(|all| all.as_mut().map(|all| all.push(message())).is_some())
}

/// Prints a note to standard error.
pub fn say(message: &str) {
    if !is_collected(|| Message::Note(message.into())) && !is_quiet() {
        tell(message);
    }
}

/// Prints a warning to standard error.
pub fn warn(message: &str) {
    if !is_collected(|| Message::Warning(message.into())) {
        tell(&format!("warning: {message}"));
    }
}

/// Prints advice to standard error as a warning.
pub fn advise(advice: &Advice) {
    warn(&settings::words(advice));
}

/// Prints what is wrong with the arguments, or the help that they ask for, and returns the exit code. Without colours
/// if an argument is not plain text, because a terminal could not tell them from what is in it.
pub fn refuse(error: &clap::Error) -> u8 {
    let acts = |argument: OsString| matches!(plain(&argument.to_string_lossy()), Cow::Owned(_));
    // A reader may close the pipe: that is no error.
    let _ = match std::env::args_os().any(acts) {
        false => error.print(),
        true => writeln!(std::io::stderr().lock(), "{}", plain(&error.render().to_string())),
    };
    if error.use_stderr() { 2 } else { 0 }
}

/// Prints the error that ended the command to standard error.
pub fn fail(error: &Error) {
    tell(&format!("error: {}", settings::error(error)));
}

/// Prints [`plain`] text. Ignores failures: a closed or full standard error must not lose a result.
fn tell(message: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", plain(message));
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

/// A share in percent.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// A number with five decimals.
pub fn number(value: f64) -> String {
    fixed(value, 5)
}

/// A number with `digits` decimals; in scientific notation if it is too small or too large for that.
pub fn fixed(value: f64, digits: usize) -> String {
    match value.abs() {
        0.0 => format!("{value:.digits$}"),
        f64::INFINITY => "infinite".into(),
        size if (1e-3..1e6).contains(&size) => format!("{value:.digits$}"),
        _ => format!("{value:.digits$e}"),
    }
}

/// Scores of counts and other targets, by name.
pub fn target_rows(scores: &TargetScores) -> Vec<(String, String)> {
    let mut rows = vec![
        ("rows".into(), scores.n.to_string()),
        ("RMSE".into(), number(scores.rmse)),
        ("MAE".into(), number(scores.mae)),
        ("NLPD".into(), number(scores.nlpd)),
        ("CRPS".into(), number(scores.crps)),
        ("coverage of 50 % intervals".into(), percent(scores.coverage_50)),
        ("coverage of 90 % intervals".into(), percent(scores.coverage_90)),
        ("coverage of 95 % intervals".into(), percent(scores.coverage_95)),
        ("mean width of 95 % intervals".into(), number(scores.width_95)),
        ("calibration error".into(), percent(scores.calibration_error)),
    ];
    rows.extend(scores.deviance.map(|deviance| ("deviance".to_string(), number(deviance))));
    rows.extend(scores.dispersion.map(|dispersion| ("dispersion (1 is right)".to_string(), number(dispersion))));
    rows
}

/// Most classes whose confusion matrix is printed.
const MOST_CLASSES: usize = 12;

/// Scores of classes, by name.
pub fn class_rows(scores: &ClassScores) -> Vec<(String, String)> {
    vec![
        ("rows".into(), scores.n.to_string()),
        ("accuracy".into(), percent(scores.accuracy)),
        ("log loss".into(), number(scores.log_loss)),
        ("Brier score".into(), number(scores.brier)),
        ("calibration error (ECE)".into(), percent(scores.ece)),
        ("AUC".into(), scores.auc.map_or("undefined (a class has no rows)".into(), number)),
    ]
}

/// The confusion matrix; nothing for more than `MOST_CLASSES` classes.
pub fn confusion(labels: &[String], counts: &[Vec<usize>]) -> String {
    if labels.len() > MOST_CLASSES {
        return String::new();
    }
    let width = labels.iter().map(|label| label.chars().count() + 2).max().unwrap_or(0).max(8);
    let head = ("".to_string(), labels.iter().map(|label| format!("{label:>width$}")).collect());
    let rows = labels
        .iter()
        .zip(counts)
        .map(|(label, row)| (label.clone(), row.iter().map(|count| format!("{count:>width$}")).collect::<String>()));
    format!("  true class by predicted class\n{}", table(&std::iter::once(head).chain(rows).collect::<Vec<_>>()))
}

/// Two columns of values under the same names, aligned.
pub fn beside(first: &[(String, String)], second: &[(String, String)], heads: [&str; 2]) -> String {
    let values = first.iter().map(|(_, value)| value.as_str()).chain([heads[0]]);
    let width = values.map(|value| value.chars().count()).max().unwrap_or(0);
    let both = |name: &str, a: &str, b: &str| (name.to_string(), format!("{a:<width$}  {b}"));
    let rows = first.iter().zip(second).map(|((name, a), (_, b))| both(name, a, b));
    table(&std::iter::once(both("", heads[0], heads[1])).chain(rows).collect::<Vec<_>>())
}

/// Scores of real targets, by name.
pub fn score_rows(scores: &Scores) -> Vec<(String, String)> {
    vec![
        ("rows".into(), scores.n.to_string()),
        ("RMSE".into(), number(scores.rmse)),
        ("MAE".into(), number(scores.mae)),
        ("R²".into(), scores.r2.map_or("undefined (constant targets)".into(), number)),
        ("NLPD".into(), number(scores.nlpd)),
        ("CRPS".into(), number(scores.crps)),
        ("coverage of 50 % intervals".into(), percent(scores.coverage_50)),
        ("coverage of 80 % intervals".into(), percent(scores.coverage_80)),
        ("coverage of 90 % intervals".into(), percent(scores.coverage_90)),
        ("coverage of 95 % intervals".into(), percent(scores.coverage_95)),
        ("mean width of 50 % intervals".into(), number(scores.width_50)),
        ("mean width of 95 % intervals".into(), number(scores.width_95)),
        ("calibration error".into(), percent(scores.calibration_error)),
    ]
}

/// Rows with equal numbers of cells as a table: the first `texts` columns are text, the others are numbers.
pub fn columns(rows: &[Vec<String>], texts: usize) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows.first().map_or(0, Vec::len)).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column < texts {
            true => format!("{cell:<width$}"),
            false => format!("{cell:>width$}"),
        });
        text += &format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    text
}
