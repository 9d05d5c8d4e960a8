//! Decoding one column. A schema or the first cell decides what its cells mean.

use std::collections::HashMap;

use super::cell::{Cell, Value, decimal_year};
use super::options::{ReadOptions, TargetKind};
use super::table::Table;
use crate::Result;
use crate::advice::Advice;
use crate::data::classes::{Classes, canonical};
use crate::data::dataset::LARGEST;
use crate::data::schema::Encoding;

/// If a column has more categories than this, they are probably identifiers or free text.
const MOST_CATEGORIES: usize = 1000;

/// The code of every label.
fn codes(classes: &Classes) -> HashMap<String, usize> {
    classes.labels().iter().cloned().zip(0..).collect()
}

/// Reads the cells of one column as numbers; categories become codes.
pub(super) struct ColumnReader {
    /// The position in the table.
    pub(super) index: usize,
    kind: Kind,
}

enum Kind {
    /// No cell was read yet. The fields say what to accept.
    Unknown {
        one_hot: bool,
        dates: bool,
    },
    /// The target, or a column without a choice of encoding.
    Number {
        /// Why its cells must be numbers.
        why: &'static str,
        /// What reads them otherwise.
        setting: Option<&'static str>,
    },
    Date,
    Category {
        codes: HashMap<String, usize>,
        open: bool,
    },
    /// A target of labels or numbers; the first cell decides.
    Target,
    /// Labels of a target.
    Class {
        codes: HashMap<String, usize>,
        /// What to call another label, if no more labels are allowed.
        other: Option<&'static str>,
    },
}

impl Kind {
    /// Numbers, whatever is set.
    fn number(why: &'static str) -> Self {
        Self::Number { why, setting: None }
    }
}

impl ColumnReader {
    /// A feature. Its first cell decides the encoding, unless the column is listed as categorical.
    pub(super) fn feature(index: usize, categorical: bool, options: &ReadOptions) -> Self {
        let kind = if categorical {
            Kind::Category { codes: HashMap::new(), open: true }
        } else {
            Kind::Unknown { one_hot: options.one_hot, dates: options.dates }
        };
        Self { index, kind }
    }

    /// The target of training data, with its classes in the given order, if any.
    pub(super) fn target(index: usize, kind: TargetKind, classes: Option<&Classes>) -> Self {
        let kind = match (kind, classes) {
            (TargetKind::Numbers, _) => Kind::number("the target must be a number; code classes as 0, 1, …"),
            (_, Some(classes)) => Kind::Class { codes: codes(classes), other: Some("none of the classes given") },
            (TargetKind::Classes, None) => Kind::Class { codes: HashMap::new(), other: None },
            (TargetKind::Auto, None) => Kind::Target,
        };
        Self { index, kind }
    }

    /// The target with the classes of the training data, if it had classes.
    pub(super) fn trained_target(index: usize, classes: Option<&Classes>) -> Self {
        let Some(classes) = classes else { return Self::target(index, TargetKind::Numbers, None) };
        let other = Some("a class the model was not trained with");
        Self { index, kind: Kind::Class { codes: codes(classes), other } }
    }

    /// A feature with the encoding of the training data.
    pub(super) fn trained(index: usize, encoding: &Encoding) -> Self {
        let kind = match encoding {
            Encoding::Numeric => Kind::number("the model was trained with numbers in this column"),
            Encoding::Date => Kind::Date,
            Encoding::OneHot(categories) => {
                let codes = categories.iter().cloned().zip(0..).collect();
                Kind::Category { codes, open: false }
            }
        };
        Self { index, kind }
    }

    /// The number for the cell of the current row.
    pub(super) fn read(&mut self, table: &dyn Table, row: usize) -> Result<f64> {
        let cell = table.cell(self.index)?;
        self.decode(cell).map_err(|Advice { text, settings }| {
            let problem = format!("{} {text}", cell.quoted());
            table.layout().cell_error(row, self.index, problem).advised(settings)
        })
    }

    /// Whether a cell is missing. Text that usually means missing may be the name of a class.
    pub(super) fn lacks(&self, cell: &Cell) -> bool {
        let known = matches!(&self.kind, Kind::Class { codes, .. } if codes.contains_key(&canonical(&cell.label())));
        cell.is_missing() && !known
    }

    /// The encoding found, and for categories the new code of each old one. Codes follow the first appearance while
    /// reading, and the sorted order afterwards.
    pub(super) fn finish(self) -> (Encoding, Option<Vec<usize>>) {
        match self.kind {
            Kind::Unknown { .. } | Kind::Number { .. } | Kind::Target | Kind::Class { .. } => (Encoding::Numeric, None),
            Kind::Date => (Encoding::Date, None),
            Kind::Category { codes, .. } => {
                let mut sorted: Vec<(String, usize)> = codes.into_iter().collect();
                sorted.sort();
                let mut renamed = vec![0; sorted.len()];
                for (new, (_, old)) in sorted.iter().enumerate() {
                    renamed[*old] = new;
                }
                (Encoding::OneHot(sorted.into_iter().map(|(category, _)| category).collect()), Some(renamed))
            }
        }
    }

    /// The classes found in a target, and the new code of each old one, which followed the first appearance.
    pub(super) fn classes(self) -> Option<(Classes, Vec<usize>)> {
        let Kind::Class { codes, other } = self.kind else { return None };
        let mut labels: Vec<(String, usize)> = codes.iter().map(|(label, code)| (label.clone(), *code)).collect();
        labels.sort_unstable_by_key(|(_, code)| *code);
        let labels = labels.into_iter().map(|(label, _)| label);
        let classes = if other.is_none() { Classes::new(labels) } else { Classes::in_order(labels).ok()? };
        let mut renamed = vec![0; codes.len()];
        for (new, label) in classes.labels().iter().enumerate() {
            renamed[codes[label]] = new;
        }
        Some((classes, renamed))
    }

    fn decode(&mut self, cell: Cell) -> std::result::Result<f64, Advice> {
        match &mut self.kind {
            Kind::Number { why, setting } => number(cell, why, *setting),
            Kind::Date => match cell {
                Cell::Text(text) if !cell.is_missing() => decimal_year(text)
                    .ok_or_else(|| "is not an ISO 8601 date like the other cells of the column; correct it".into()),
                Cell::Text(_) => Err(missing()),
                Cell::Number(_) => Err("is a number in a column of dates".into()),
            },
            Kind::Category { codes, open } => category(cell, codes, *open),
            Kind::Class { codes, other } => class(cell, codes, *other),
            Kind::Target => {
                self.kind = match cell.value() {
                    Value::Label | Value::Date(_) => Kind::Class { codes: HashMap::new(), other: None },
                    Value::Missing => return Err(missing()),
                    Value::Number(_) | Value::TooLarge => Kind::number(
                        "the targets above it are numbers; correct it, or say that the target holds classes",
                    ),
                };
                self.decode(cell)
            }
            Kind::Unknown { one_hot, dates } => {
                self.kind = match cell.value() {
                    Value::Label if *one_hot => Kind::Category { codes: HashMap::new(), open: true },
                    Value::Label => {
                        let text = "is not a number; encode categories as one-hot inputs, or leave the column out";
                        let advice = Advice::from(text).about("ReadOptions::one_hot").about("ReadOptions::features");
                        return Err(decimal_comma(cell, advice));
                    }
                    Value::Date(_) if *dates => Kind::Date,
                    Value::Date(_) => {
                        let text = "is a date, not a number; read dates as decimal years, or leave the column out";
                        return Err(Advice::from(text).about("ReadOptions::dates").about("ReadOptions::features"));
                    }
                    Value::Missing => return Err(missing()),
                    Value::Number(_) | Value::TooLarge => Kind::Number {
                        why: "the cells above it are numbers; correct it, or list the column as categorical",
                        setting: Some("ReadOptions::categorical"),
                    },
                };
                self.decode(cell)
            }
        }
    }
}

fn number(cell: Cell, why: &str, setting: Option<&'static str>) -> std::result::Result<f64, Advice> {
    match cell.value() {
        Value::Number(number) => Ok(number),
        Value::Missing => Err(missing()),
        Value::TooLarge => Err(format!("is larger than {LARGEST:e} and would overflow; rescale the column").into()),
        Value::Date(_) | Value::Label => {
            let advice = Advice::from(format!("is not a number; {why}"));
            Err(decimal_comma(cell, setting.into_iter().fold(advice, Advice::about)))
        }
    }
}

fn category(cell: Cell, codes: &mut HashMap<String, usize>, open: bool) -> std::result::Result<f64, Advice> {
    if cell.is_missing() {
        return Err(missing());
    }
    let label = cell.label();
    let next = codes.len();
    match codes.get(&label) {
        Some(&code) => Ok(code as f64),
        None if !open => {
            let mut known: Vec<&str> = codes.keys().map(String::as_str).collect();
            known.sort_unstable();
            let more = if known.len() > 8 { ", …" } else { "" };
            known.truncate(8);
            Err(format!("is a category the model was not trained with; known are {}{more}", known.join(", ")).into())
        }
        None if next == MOST_CATEGORIES => {
            let text = format!(
                "is category number {}; more than {MOST_CATEGORIES} look like identifiers or free text: leave the \
                 column out",
                next + 1
            );
            Err(Advice::from(text).about("ReadOptions::features"))
        }
        None => {
            codes.insert(label, next);
            Ok(next as f64)
        }
    }
}

fn class(cell: Cell, codes: &mut HashMap<String, usize>, other: Option<&str>) -> std::result::Result<f64, Advice> {
    let label = canonical(&cell.label());
    let next = codes.len();
    match (codes.get(&label), other) {
        (Some(&code), _) => Ok(code as f64),
        _ if cell.is_missing() => Err(missing()),
        (None, Some(what)) => {
            Err(format!("is {what}; known are {}", Classes::new(codes.keys().cloned()).listing()).into())
        }
        (None, None) if next == MOST_CATEGORIES => Err(format!(
            "is class number {}; more than {MOST_CATEGORIES} look like numbers or identifiers: check the target column",
            next + 1
        )
        .into()),
        (None, None) => {
            codes.insert(label, next);
            Ok(next as f64)
        }
    }
}

fn missing() -> Advice {
    Advice::from("is a missing value; fill it in or leave such rows out").set("ReadOptions::missing", "drop")
}

/// The problem with a cell. If a decimal point would make it a number, adds the advice to read decimal commas.
fn decimal_comma(cell: Cell, wrong: Advice) -> Advice {
    match Cell::Text(&cell.label().replacen(',', ".", 1)).value() {
        Value::Number(_) => {
            let text = format!("{}; decimal commas are read only on request", wrong.text);
            Advice { text, ..wrong }.set("ReadOptions::decimal_comma", true)
        }
        _ => wrong,
    }
}
