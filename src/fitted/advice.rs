//! Advice on what looks wrong with the data before a training, or with the training afterwards.

use std::collections::HashMap;

use crate::advice::Advice;
use crate::data::{Dataset, Encoding, InputScale, Schema};
use crate::models::Observations;
use crate::params::shown;
use crate::train::{self, Outcome, Termination, TrainConfig};

/// A warning if a training ended above the objective that it began with.
pub fn worse(outcome: &Outcome) -> Option<Advice> {
    let mut curve = outcome.history.records.iter().filter(|record| record.restart == outcome.best_restart);
    let first = curve.next()?.loss;
    (outcome.loss > first + train::PAYS).then(|| {
        let text = format!(
            "the training ended at {} per row, above {} where it began: do not trust this fit; take a smaller rate, or \
             choose another model",
            shown(outcome.loss),
            shown(first)
        );
        Advice::from(text).about("Settings::model")
    })
}

/// A warning if there is only one row, or only one value of the target: error bars then rest on no data.
pub fn few(rows: usize, data: &Observations, target: &str) -> Option<String> {
    let what = match (rows, is_one_row(data)) {
        (1, _) => "there is one row of data".to_string(),
        (_, true) => format!("all {rows} rows are the same"),
        _ if !data.y.is_empty() && constant(data.y.iter()) => {
            return Some(format!("the target `{target}` is constant: error bars rest on no data"));
        }
        _ => return None,
    };
    Some(format!(
        "{what}: no scale of the target is known, so standard deviations are those of a prior of the target's own size \
         (1 for 0 and for a logarithm), and say nothing of the noise"
    ))
}

/// Whether all rows are the same, target included.
pub fn is_one_row(data: &Observations) -> bool {
    let first = data.x.get(..data.d);
    !data.y.is_empty() && constant(data.y.iter()) && data.x.chunks(data.d).all(|row| Some(row) == first)
}

/// A warning if a linear mean has many slopes for the rows. They are learned like the noise, without error bars.
pub fn slopes(rows: usize, columns: usize) -> Option<Advice> {
    (columns > 1 && rows < 5 * columns).then(|| {
        let text = format!(
            "a linear mean learns a slope for each of {columns} columns, too many for {rows} rows: error bars will be \
             too narrow; add `linear(dims=[…])` to the kernel instead, for the columns that have a trend"
        );
        Advice::from(text).about("Settings::kernel").about("Settings::mean")
    })
}

/// A warning if rows copy others, target included.
pub fn copies(data: &Observations) -> Option<Advice> {
    let (rows, copies) = (data.n(), super::copies::copies(data));
    let text = || {
        format!(
            "{copies} of {rows} rows copy another row, target included; they are no evidence of small noise: keep one \
             of each, unless they were measured anew"
        )
    };
    super::copies::are_many(copies, rows).then(|| Advice::from(text()))
}

/// What is said where copies are left out of the training.
pub fn once(rows: usize, kept: usize) -> Advice {
    let copies = rows - kept;
    Advice::from(format!(
        "{copies} of {rows} rows copy another row, target included: each counts once, as copies are no evidence of \
         small noise"
    ))
}

fn constant<'a>(mut values: impl Iterator<Item = &'a f64>) -> bool {
    let first = values.next();
    values.all(|value| Some(value) == first)
}

/// Most columns that a message names.
const FIRST: usize = 3;

/// Names in quotes; of many, the first and a count.
fn named<S: AsRef<str>>(names: &[S]) -> String {
    let quoted = |name: &S| format!("`{}`", name.as_ref());
    match names.len().checked_sub(FIRST).filter(|more| *more > 0) {
        None => names.iter().map(quoted).collect::<Vec<_>>().join(", "),
        Some(more) => format!("{} and {more} more", names[..FIRST].iter().map(quoted).collect::<Vec<_>>().join(", ")),
    }
}

/// Warnings about columns that are constant, from which nothing can be learned, and about columns that name the rows:
/// one for each kind.
pub fn constants(data: &Observations, schema: &Schema, auxiliary_column: Option<&str>) -> Vec<Advice> {
    let n = data.n();
    if n == 1 {
        // One row has one value of everything.
        return Vec::new();
    }
    let (mut telling, mut partial, mut idle) = (Vec::new(), Vec::new(), Vec::new());
    let mut at = 0;
    for column in schema.features.iter().filter(|column| Some(column.name.as_str()) != auxiliary_column) {
        let (name, width) = (column.name.as_str(), column.encoding.width());
        let unused = (at..at + width).filter(|input| constant(data.x[*input..].iter().step_by(data.d))).count();
        at += column.width();
        match column.encoding {
            Encoding::OneHot(_) if 2 * (width - unused) > n => telling.push((name, width - unused)),
            Encoding::OneHot(_) if width > 1 && unused > 0 => partial.push((name, unused, width)),
            _ if unused > 0 => idle.push(name),
            _ => {}
        }
    }
    let telling = match telling.as_slice() {
        [] => None,
        [(name, categories)] => Some(format!(
            "the column `{name}` has {categories} categories in {n} rows: it tells rows apart, and nothing about \
             others; leave it out"
        )),
        several => Some(format!(
            "the columns {} have a category for every one or two of {n} rows: they tell rows apart, and nothing about \
             others; leave them out",
            named(&several.iter().map(|(name, _)| *name).collect::<Vec<_>>())
        )),
    };
    let partial = match partial.as_slice() {
        [] => None,
        [(name, unused, width)] => Some(format!(
            "{unused} of the {width} categories of the column `{name}` are in none of the {n} training rows: nothing \
             is learned about them"
        )),
        several => Some(format!(
            "{} categories of the columns {} are in none of the {n} training rows: nothing is learned about them",
            several.iter().map(|(_, unused, _)| unused).sum::<usize>(),
            named(&several.iter().map(|(name, ..)| *name).collect::<Vec<_>>())
        )),
    };
    let idle = match idle.as_slice() {
        [] => None,
        [name] => Some(format!("the input `{name}` is constant and tells nothing: leave it out")),
        several => Some(format!("the inputs {} are constant and tell nothing: leave them out", named(several))),
    };
    let droppable = telling.into_iter().chain(idle).map(|text| Advice::from(text).about("ReadOptions::drop"));
    droppable.chain(partial.map(Advice::from)).collect()
}

/// A warning about texts of a column that differ in upper and lower case only, which are different categories or
/// classes.
pub fn cases(schema: &Schema) -> Option<Advice> {
    let target = schema.classes.iter().map(|classes| (schema.target.as_str(), classes.labels()));
    let features = schema.features.iter().filter_map(|column| Some((column.name.as_str(), column.encoding.labels()?)));
    let mut alike = features.chain(target).filter_map(|(name, labels)| {
        let mut known = HashMap::new();
        let twin = labels.iter().find_map(|label| Some((known.insert(label.to_lowercase(), label)?, label)));
        twin.map(|(one, other)| format!("`{name}` (`{one}`, `{other}`)"))
    });
    let first = alike.next()?;
    let more = alike.count();
    let more = if more == 0 { String::new() } else { format!(" and in {more} more columns") };
    Some(Advice::from(format!(
        "texts that differ in upper and lower case only are different ones, in {first}{more}: correct them if they mean \
         the same"
    )))
}

/// A warning about rows whose noise is known to be 0, which then count as exact.
pub fn exact_rows(sd: &[f64], y: &[f64], rows: &[usize], column: &str) -> Option<Advice> {
    let exact: Vec<usize> = sd.iter().zip(rows).filter(|(sd, _)| **sd == 0.0).map(|(_, row)| *row).collect();
    let named: Vec<String> = exact.iter().take(NAMED).map(usize::to_string).collect();
    let more = if exact.len() > named.len() { ", …" } else { "" };
    let (count, named) = (exact.len(), named.join(", "));
    let rows = if count == 1 { "row" } else { "rows" };
    let text = format!("the known noise `{column}` is 0 in {count} {rows} ({named}{more}): they count as exact");
    let counted = sd.iter().zip(y).all(|(sd, y)| (sd * sd - y).abs() <= 1e-3 * y.max(1.0));
    let advice = match counted {
        true => {
            let text = format!("{text}; its square is the target, as for counts, and an empty bin is not exact");
            Advice::from(text).set("Settings::likelihood", "poisson")
        }
        false => format!("{text}; give them the size of their errors, or leave them out").into(),
    };
    (count > 0).then_some(advice)
}

/// Most rows that a message names.
const NAMED: usize = 10;

/// A warning if a column without a name counts the rows.
pub fn index(schema: &Schema, data: &Dataset) -> Option<Advice> {
    let positional = |name: &str, index: usize| name == format!("c{index}");
    if positional(&schema.target, schema.target_index) || data.n < 3 || data.records.len() != data.n {
        return None;
    }
    let counts = |at: usize| {
        let off = |i: usize| data.row(i)[at] - data.records[i] as f64;
        (1..data.n).all(|i| off(i) == off(0))
    };
    let nameless = schema.features.iter().find(|column| positional(&column.name, column.index))?;
    let at = data.feature_names.iter().position(|name| *name == nameless.name)?;
    counts(at).then(|| {
        let name = &nameless.name;
        let text = format!(
            "the column {} has no name and counts the rows: if it is an index, leave it out",
            nameless.index + 1
        );
        Advice::from(text).set("ReadOptions::drop", name)
    })
}

/// Trainings with at most this many steps are not checked: the user asked for exactly these.
const FEW: usize = 10;

/// A warning if all steps are made and the last of them still lowered the objective, so that it is not at a minimum.
pub fn unfinished(outcome: &Outcome, config: &TrainConfig) -> Option<Advice> {
    let goes_on = outcome.termination == Termination::Steps && outcome.fall.is_some_and(|fall| fall.goes_on());
    (goes_on && config.steps > FEW).then(|| Advice::from(outcome.ending()).about("TrainConfig::steps"))
}

/// A warning if the training was cut short: its result is not at a minimum, and may be far from it.
pub fn cut_short(outcome: &Outcome, config: &TrainConfig) -> Option<Advice> {
    let why = match outcome.termination {
        Termination::MaxTime => "the time was up",
        Termination::Interrupted => "the training was interrupted",
        _ => return None,
    };
    let text = format!(
        "{why} after {} of at most {} steps, before the training had ended: predictions may be far from those that \
         more steps would give",
        outcome.iterations,
        config.steps * config.restarts.count
    );
    Some(Advice::from(text).about("TrainConfig::max_time"))
}

/// With fewer rows, a few of them may well hold most of a variance.
const MANY: usize = 100;
/// The command names rows that hold more than this share of an input's variance.
const SHARE: f64 = 0.9;

/// Warnings about inputs that vary almost only in one row, or in a thousandth of the rows: lengthscales and
/// standardisation then fit those rows only. Of many inputs, the first are described and the others counted.
pub fn outliers(data: &Observations, names: &[String], scale: &InputScale) -> Vec<Advice> {
    let n = data.n();
    let mut others = Vec::new();
    let mut told: Vec<Advice> = Vec::new();
    for column in (0..data.d).filter(|_| n >= MANY) {
        let Some(Outlier { far, distance, share, few }) = outlier(data, column) else { continue };
        if told.len() == FIRST {
            others.push(&names[column]);
            continue;
        }
        let text = format!(
            "the input `{}` has a value of {}, {distance:.0} standard deviations from its mean: {:.0} % of its \
             variance lie in {few} of {n} rows, beside which all others are alike. Correct or drop such rows, or \
             transform the input",
            names[column],
            shown(scale.value(column, far)),
            100.0 * share
        );
        told.push(Advice::from(text).set("Settings::input_transform", format!("\"{}=asinh\"", names[column])));
    }
    if !others.is_empty() {
        let are = if others.len() == 1 { "is one more such input" } else { "are more such inputs" };
        told.push(format!("there {are}: {}", named(&others)).into());
    }
    told
}

/// The value of an input that lies farthest from its mean.
struct Outlier {
    far: f64,
    /// In standard deviations of the input.
    distance: f64,
    /// The share of the input's variance that lies in the `few` rows farthest from its mean.
    share: f64,
    few: usize,
}

/// The outlier of an input, if a few rows hold almost all of its variance.
fn outlier(data: &Observations, column: usize) -> Option<Outlier> {
    let n = data.n();
    let values = || data.x[column..].iter().step_by(data.d).copied();
    let mean = values().sum::<f64>() / n as f64;
    let off = |value: f64| (value - mean).powi(2);
    let mut squares: Vec<f64> = values().map(off).collect();
    let (all, few) = (squares.iter().sum::<f64>(), (n / 1000).max(1));
    squares.select_nth_unstable_by(few - 1, |a, b| b.total_cmp(a));
    let share = squares[..few].iter().sum::<f64>() / all;
    // A rare category is meant to vary in few rows.
    let first = values().next()?;
    let other = values().find(|value| *value != first)?;
    let binary = values().all(|value| value == first || value == other);
    let far = values().max_by(|a, b| off(*a).total_cmp(&off(*b)))?;
    let distance = (off(far) * n as f64 / all).sqrt();
    (share > SHARE && !binary).then_some(Outlier { far, distance, share, few })
}
