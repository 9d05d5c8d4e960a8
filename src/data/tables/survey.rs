//! A first walk over a table, which decides from all cells of a column what they mean.

use std::collections::BTreeMap;

use super::column::{ColumnReader, Kind};
use super::options::{DateOrder, LeaveOut, ReadOptions, TargetKind};
use super::table::Table;
use super::tally::Tally;
use crate::Result;
use crate::advice::Advice;
use crate::data::{Notation, Notes};

/// Names of columns that name the rows, in lower case.
const INDEX_NAMES: [&str; 14] = [
    "rownames",
    "rowname",
    "row_names",
    "row.names",
    "unnamed: 0",
    "...1",
    "index",
    "id",
    "row",
    "rowid",
    "row_id",
    "row_number",
    "obs",
    "observation",
];
/// What was decided about the columns of a table.
pub(super) struct Survey {
    pub(super) inputs: Vec<ColumnReader>,
    pub(super) target: Option<Kind>,
    pub(super) notes: Notes,
}

/// Walks over a table, or decides without if all of its cells are numbers anyway.
pub(super) fn survey(
    table: &mut dyn Table,
    (features, target): (&[usize], usize),
    target_kind: TargetKind,
    options: &ReadOptions,
) -> Result<Survey> {
    let columns: Vec<usize> = features.iter().copied().chain([target]).collect();
    let names = table.layout().names.clone();
    let index: Vec<bool> =
        columns.iter().map(|at| INDEX_NAMES.contains(&names[*at].trim().to_lowercase().as_str())).collect();
    let mut tallies: Vec<Tally> = columns.iter().map(|_| Tally::default()).collect();
    while !table.is_numeric() && table.advance()?.is_some() {
        for ((tally, column), index) in tallies.iter_mut().zip(&columns).zip(&index) {
            // A cell that cannot be read is an error only in a row that is used.
            if let Ok(cell) = table.cell(*column) {
                tally.add(&cell, *index);
            }
        }
    }
    let of_target = tallies.pop().unwrap_or_default();
    let series = |column: usize| options.series.as_ref() == Some(&names[column]);
    let listed = |column: usize| options.categorical.contains(&names[column]) || series(column);
    let chosen = |column: usize| listed(column) || options.features.is_some();
    let layout = table.layout();
    let mut out = Vec::new();
    for ((column, tally), index) in features.iter().zip(&tallies).zip(&index) {
        let nameless = layout.named && names[*column] == format!("c{column}");
        let why = match options.leave_out {
            _ if chosen(*column) => None,
            LeaveOut::Nothing => None,
            _ if tally.is_index(nameless, *index) => Some(Why::Index),
            LeaveOut::Names if tally.is_names() => Some(Why::Names),
            LeaveOut::Names if tally.cells() == 0 && tally.missing > 0 => Some(Why::Empty),
            _ => None,
        };
        out.extend(why.map(|why| (*column, why)));
    }
    // An index may be all there is: the time of a series.
    let inputs = features.iter().filter(|column| !series(**column)).count();
    let each = |out: &[(usize, Why)]| -> Vec<String> {
        out.iter().map(|(at, why)| format!("`{}` {}", names[*at], why.words())).collect()
    };
    if out.len() == inputs {
        out.retain(|(_, why)| *why != Why::Index);
    }
    if out.len() == inputs {
        let problem = format!("no input is left: {}; name the inputs to use them all the same", each(&out).join(", "));
        return Err(layout.error(problem).about("ReadOptions::features"));
    }
    let mut inputs = Vec::new();
    let mut read: Vec<(&str, Kind, &Tally)> = Vec::new();
    for (column, tally) in features.iter().zip(&tallies).filter(|(at, _)| !out.iter().any(|(gone, _)| gone == *at)) {
        let name = names[*column].as_str();
        if series(*column) {
            inputs.push(ColumnReader::series(*column));
            continue;
        }
        let kind = if listed(*column) { Kind::categories() } else { tally.kind(name, options) };
        read.push((name, kind.clone(), tally));
        inputs.push(ColumnReader::feature(*column, kind, options));
    }
    let kind = match target_kind {
        TargetKind::Classes => None,
        TargetKind::Auto => of_target.target(),
        TargetKind::Numbers => Some(of_target.number("the target must be a number; code classes as 0, 1, …")),
    };
    read.extend(kind.clone().map(|kind| (names[target].as_str(), kind, &of_target)));
    let mut notes = Notes { said: said(&read), warnings: doubts(&read, options.decimal_comma) };
    if !out.is_empty() {
        let text = format!("left out: {}; name the inputs to keep such a column", few(&each(&out)));
        notes.said.push(Advice::from(text).about("ReadOptions::features"));
    }
    Ok(Survey { inputs, target: kind, notes })
}

/// Why a column is left out.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Why {
    Index,
    Names,
    Empty,
}

impl Why {
    fn words(self) -> &'static str {
        match self {
            Self::Index => "numbers the rows",
            Self::Names => "has a text of its own for nearly every row",
            Self::Empty => "is empty",
        }
    }
}

/// A list for a message; only the first ones if there are many.
fn few(all: &[String]) -> String {
    const MOST: usize = 8;
    let more = if all.len() > MOST { format!(" and {} more", all.len() - MOST) } else { String::new() };
    all[..all.len().min(MOST)].join(", ") + &more
}

/// How columns are read, if not as plain numbers.
fn said(read: &[(&str, Kind, &Tally)]) -> Vec<Advice> {
    let mut ways: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, kind, tally) in read {
        let way = match kind {
            Kind::Category { .. } => "categories, a 0/1 input for each text".into(),
            Kind::Date { order: None } if tally.offsets > 0 => {
                "dates in UTC, in decimal years; dates without an offset count as UTC, and results are in UTC".into()
            }
            Kind::Date { order: None } => "dates, in decimal years".into(),
            Kind::Date { order: Some(DateOrder::Day) } => "dates with the day first, in decimal years".into(),
            Kind::Date { order: Some(DateOrder::Month) } => "dates with the month first, in decimal years".into(),
            Kind::Flag => "0 and 1 for False and True".into(),
            Kind::Month => "the number of the month".into(),
            Kind::Number(Some(notation), _) if *notation != Notation::default() => {
                format!("numbers, without {}", notation.words())
            }
            Kind::Number(Some(_), _) => "numbers, those in brackets as negative".into(),
            Kind::Number(None, _) | Kind::Class { .. } => continue,
        };
        ways.entry(way).or_default().push(format!("`{name}`"));
    }
    ways.into_iter().map(|(way, columns)| format!("read as {way}: {}", few(&columns)).into()).collect()
}

/// Warnings about columns whose separators of thousands could be decimal commas, or the other way round.
fn doubts(read: &[(&str, Kind, &Tally)], decimal_comma: bool) -> Vec<Advice> {
    let doubtful = |(name, kind, tally): &(&str, Kind, &Tally)| {
        let doubt = match kind {
            Kind::Number(Some(Notation { thousands: Some(','), .. }), _) => !tally.certain && !decimal_comma,
            Kind::Number(None, _) => decimal_comma && tally.thirds > 0 && tally.thirds == tally.fractions,
            _ => false,
        };
        doubt.then(|| format!("`{name}`"))
    };
    let columns: Vec<String> = read.iter().filter_map(doubtful).collect();
    if columns.is_empty() {
        return Vec::new();
    }
    let columns = few(&columns);
    vec![match decimal_comma {
        true => Advice::from(format!(
            "cells such as `1,650` are read as 1.65 in {columns}, where every comma stands before three digits; if \
             they separate thousands, do not ask for decimal commas"
        )),
        false => {
            let text =
                format!("cells such as `1,650` are read as 1650 in {columns}; if these are decimal commas, say so");
            Advice::from(text).set("ReadOptions::decimal_comma", true)
        }
    }]
}
