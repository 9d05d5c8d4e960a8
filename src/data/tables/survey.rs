//! A first walk over a table, which decides from all cells of a column what they mean.

use std::collections::{BTreeMap, HashSet};

use super::cell::{Cell, Value};
use super::column::{ColumnReader, Kind, MOST_CATEGORIES, dropping, is_decimal_comma};
use super::dates::month;
use super::options::{DateOrder, LeaveOut, ReadOptions, TargetKind};
use super::table::{Layout, Table};
use crate::Result;
use crate::advice::Advice;
use crate::data::Notes;
use crate::data::notation::Notation;

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
/// Rows that a column of names or an index has at least.
const FEW: usize = 5;
/// A text for each row, if there are more than this and they are more than half of the rows.
const MANY: usize = 20;

/// What the cells of a column look like.
#[derive(Debug, Default)]
pub(super) struct Tally {
    missing: usize,
    numbers: usize,
    written: usize,
    flags: usize,
    dates: usize,
    months: usize,
    /// Texts that are numbers with a decimal comma.
    commas: usize,
    others: usize,
    notation: Option<Notation>,
    /// Whether a separator of thousands is certainly one.
    certain: bool,
    /// Plain numbers with a fraction, and those of them that look like a separated thousand: `1.650`.
    fractions: usize,
    thirds: usize,
    /// Dates that have the day first, the month first, and those that do not tell.
    orders: [usize; 2],
    open: usize,
    /// The texts of cells, from the first one on that is no plain number; at most one more than `MOST_CATEGORIES`.
    texts: HashSet<String>,
    /// Whole numbers of a column with the name of an index.
    wholes: HashSet<u64>,
    /// Whether all numbers are whole; whether each is larger than the one before.
    fractional: bool,
    falls: bool,
    last: Option<f64>,
}

impl Tally {
    fn add(&mut self, cell: &Cell, index: bool) {
        let value = cell.value();
        if !matches!(value, Value::Missing | Value::Number(_)) || !self.texts.is_empty() {
            if self.texts.len() <= MOST_CATEGORIES && value != Value::Missing {
                self.texts.insert(cell.label());
            }
        }
        match value {
            Value::Missing => self.missing += 1,
            Value::TooLarge => self.numbers += 1,
            Value::Number(number) => self.add_number(cell, number, index),
            Value::Written(number) => {
                self.written += 1;
                self.certain |= !number.doubtful;
                self.notation = match &self.notation {
                    Some(known) => known.with(&number.notation).or_else(|| Some(known.clone())),
                    None => Some(number.notation),
                };
            }
            Value::Flag(_) => self.flags += 1,
            Value::Date(when) => {
                self.dates += 1;
                match when.order() {
                    Some(DateOrder::Day) => self.orders[0] += 1,
                    Some(DateOrder::Month) => self.orders[1] += 1,
                    None => self.open += usize::from(when.year(None).is_none()),
                }
            }
            Value::Label if month(&cell.label()).is_some() => self.months += 1,
            Value::Label if is_decimal_comma(cell) => self.commas += 1,
            Value::Label => self.others += 1,
        }
    }

    fn add_number(&mut self, cell: &Cell, number: f64, index: bool) {
        self.numbers += 1;
        self.fractional |= number.fract() != 0.0;
        self.falls |= self.last.is_some_and(|last| number <= last);
        self.last = Some(number);
        if index && self.wholes.len() <= MOST_CATEGORIES {
            self.wholes.insert(number.to_bits());
        }
        if let Cell::Text(text) = cell
            && let Some((whole, fraction)) = text.trim().trim_start_matches(['-', '+']).split_once('.')
        {
            self.fractions += 1;
            let third = fraction.len() == 3 && (1..=3).contains(&whole.len()) && !whole.starts_with('0');
            self.thirds += usize::from(third);
        }
    }

    /// The cells that are not missing.
    fn cells(&self) -> usize {
        self.numbers + self.written + self.flags + self.dates + self.texts()
    }

    /// The cells that are nothing but text.
    fn texts(&self) -> usize {
        self.months + self.commas + self.others
    }

    fn numerals(&self) -> usize {
        self.numbers + self.written
    }

    /// Whether the column names the rows by whole numbers, to judge by its name too.
    fn is_index(&self, nameless: bool, index: bool) -> bool {
        let counted = self.wholes.len() > MOST_CATEGORIES || self.wholes.len() == self.numbers;
        let whole = !self.fractional && self.missing == 0 && self.numbers == self.cells() && self.numbers >= FEW;
        whole && ((nameless && !self.falls) || (index && counted))
    }

    /// Whether nearly every row has a text of its own.
    fn is_names(&self) -> bool {
        let (cells, distinct) = (self.cells(), self.texts.len());
        let nearly = cells >= FEW && 10 * distinct >= 9 * cells;
        self.is_text() && (nearly || distinct > MOST_CATEGORIES || (distinct > MANY && 2 * distinct > cells))
    }

    fn is_dates(&self) -> bool {
        self.dates > 0 && 2 * self.dates >= self.cells()
    }

    /// Whether the column is read as categories.
    fn is_text(&self) -> bool {
        let (cells, others) = (self.cells(), self.others + self.months + self.flags);
        let other = [self.numerals(), self.dates].into_iter().any(|part| part > 0 && 2 * part >= cells);
        !other && others > 0 && self.flags < cells && self.months < cells
    }

    fn order(&self, asked: Option<DateOrder>) -> Option<DateOrder> {
        match self.orders {
            [0, 0] if self.open == 0 => None,
            [0, 0] => asked,
            [day, month] if day >= month => Some(DateOrder::Day),
            _ => Some(DateOrder::Month),
        }
    }

    /// What the cells of a feature mean.
    fn kind(&self, name: &str, options: &ReadOptions) -> Kind {
        let cells = self.cells();
        if self.is_dates() {
            if options.dates {
                return Kind::Date { order: self.order(options.date_order) };
            }
            let text = "is a date, not a number; read dates as decimal years, or leave the column out";
            return Kind::Number(dropping(Advice::from(text).about("ReadOptions::dates"), name));
        }
        if self.is_text() && options.one_hot {
            return Kind::categories();
        }
        if self.is_text() {
            let text = "is not a number; encode categories as one-hot inputs, or leave the column out";
            return Kind::Number(dropping(Advice::from(text).about("ReadOptions::one_hot"), name));
        }
        if cells > 0 && self.flags == cells {
            return Kind::Flag;
        }
        if cells > 0 && self.months == cells {
            return Kind::Month;
        }
        let why = match self.commas == self.texts() && self.dates + self.flags == 0 {
            true => Advice::from("is not a number"),
            false => {
                let text =
                    "is not a number, unlike other cells of the column; correct it, or list the column as categorical";
                Advice::from(text).set("ReadOptions::categorical", name)
            }
        };
        match &self.notation {
            Some(notation) => Kind::Written(notation.clone(), why),
            None => Kind::Number(why),
        }
    }

    /// What the cells of a target mean whose kind is to be found out; none for classes.
    fn target(&self) -> Option<Kind> {
        let cells = self.cells();
        if self.is_dates() {
            let text = "is a date, and a target is a number or a class; name the target column";
            return Some(Kind::Number(Advice::from(text).about("ReadOptions::target")));
        }
        let numbers = self.numerals() > 0 && 2 * self.numerals() >= cells;
        let commas = self.commas > 0 && self.numerals() + self.commas == cells;
        let numeric = numbers || commas || cells == 0;
        numeric.then(|| self.number("other targets are; correct it, or say that the target holds classes"))
    }

    fn number(&self, why: &'static str) -> Kind {
        let why = Advice::from(format!("is not a number; {why}"));
        match &self.notation {
            Some(notation) => Kind::Written(notation.clone(), why),
            None => Kind::Number(why),
        }
    }
}

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
    let listed = |column: usize| options.categorical.contains(&names[column]);
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
    if out.len() == features.len() {
        out.retain(|(_, why)| *why != Why::Index);
    }
    if out.len() == features.len() {
        return Err(nothing_left(layout, &out));
    }
    let mut inputs = Vec::new();
    let mut read: Vec<(&str, Kind, &Tally)> = Vec::new();
    for (column, tally) in features.iter().zip(&tallies).filter(|(at, _)| !out.iter().any(|(gone, _)| gone == *at)) {
        let name = names[*column].as_str();
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
    notes.said.extend(left_out(&names, &out));
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

fn nothing_left(layout: &Layout, out: &[(usize, Why)]) -> crate::Error {
    let each: Vec<String> = out.iter().map(|(at, why)| format!("`{}` {}", layout.names[*at], why.words())).collect();
    let problem = format!("no input is left: {}; name the inputs to use them all the same", each.join(", "));
    layout.error(problem).about("ReadOptions::features")
}

fn left_out(names: &[String], out: &[(usize, Why)]) -> Option<Advice> {
    let each: Vec<String> = out.iter().map(|(at, why)| format!("`{}` {}", names[*at], why.words())).collect();
    let text = format!("left out: {}; name the inputs to keep such a column", few(&each));
    (!out.is_empty()).then(|| Advice::from(text).about("ReadOptions::features"))
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
    for (name, kind, _) in read {
        let way = match kind {
            Kind::Category { .. } => "categories, a 0/1 input for each text".into(),
            Kind::Date { order: None } => "dates, in decimal years".into(),
            Kind::Date { order: Some(DateOrder::Day) } => "dates with the day first, in decimal years".into(),
            Kind::Date { order: Some(DateOrder::Month) } => "dates with the month first, in decimal years".into(),
            Kind::Flag => "0 and 1 for False and True".into(),
            Kind::Month => "the number of the month".into(),
            Kind::Written(notation, _) if *notation != Notation::default() => {
                format!("numbers, without {}", notation.words())
            }
            Kind::Written(..) => "numbers, those in brackets as negative".into(),
            Kind::Number(_) | Kind::Class { .. } => continue,
        };
        ways.entry(way).or_default().push(format!("`{name}`"));
    }
    ways.into_iter().map(|(way, columns)| format!("read as {way}: {}", few(&columns)).into()).collect()
}

/// Warnings about columns whose separators of thousands could be decimal commas, or the other way round.
fn doubts(read: &[(&str, Kind, &Tally)], decimal_comma: bool) -> Vec<Advice> {
    let doubtful = |(name, kind, tally): &(&str, Kind, &Tally)| {
        let doubt = match kind {
            Kind::Written(Notation { thousands: Some(','), .. }, _) => !tally.certain && !decimal_comma,
            Kind::Number(_) => decimal_comma && tally.thirds > 0 && tally.thirds == tally.fractions,
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
            "`1,650` is read as 1.65 in {columns}, where every comma stands before three digits; if they separate \
             thousands, do not ask for decimal commas"
        )),
        false => {
            let text = format!("`1,650` is read as 1650 in {columns}; if the commas are decimal commas, say so");
            Advice::from(text).set("ReadOptions::decimal_comma", true)
        }
    }]
}
