//! What the cells of a column look like, and what they mean.

use std::collections::HashSet;

use super::cell::{Cell, Value};
use super::column::{Kind, MOST_CATEGORIES, dropping, is_decimal_comma};
use super::dates::{has_offset, month};
use super::options::{DateOrder, ReadOptions};
use crate::advice::Advice;
use crate::data::Notation;

/// Rows that a column of names or an index has at least.
const FEW: usize = 5;
/// A text for each row, if there are more than this and they are more than half of the rows.
const MANY: usize = 20;

/// What the cells of a column look like.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) missing: usize,
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
    pub(super) certain: bool,
    /// Plain numbers with a fraction, and those of them that look like a separated thousand: `1.650`.
    pub(super) fractions: usize,
    pub(super) thirds: usize,
    /// Dates that have the day first, the month first, and those that do not tell.
    orders: [usize; 2],
    open: usize,
    /// Dates with an offset from UTC.
    pub(super) offsets: usize,
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
    pub(super) fn add(&mut self, cell: &Cell, index: bool) {
        let value = cell.value();
        let first = !matches!(value, Value::Missing | Value::Number(_));
        if (first || !self.texts.is_empty()) && self.texts.len() <= MOST_CATEGORIES && value != Value::Missing {
            self.texts.insert(cell.label());
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
                self.offsets += usize::from(has_offset(&cell.label()));
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
    pub(super) fn cells(&self) -> usize {
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
    pub(super) fn is_index(&self, nameless: bool, index: bool) -> bool {
        let counted = self.wholes.len() > MOST_CATEGORIES || self.wholes.len() == self.numbers;
        let whole = !self.fractional && self.missing == 0 && self.numbers == self.cells() && self.numbers >= FEW;
        whole && ((nameless && !self.falls) || (index && counted))
    }

    /// Whether nearly every row has a text of its own.
    pub(super) fn is_names(&self) -> bool {
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
    pub(super) fn kind(&self, name: &str, options: &ReadOptions) -> Kind {
        let cells = self.cells();
        if self.is_dates() {
            if options.dates {
                return Kind::Date { order: self.order(options.date_order) };
            }
            let text = "is a date, not a number; read dates as decimal years, or leave the column out";
            return Kind::Number(None, dropping(Advice::from(text).about("ReadOptions::dates"), name));
        }
        if self.is_text() && options.one_hot {
            return Kind::categories();
        }
        if self.is_text() {
            let text = "is not a number; encode categories as one-hot inputs, or leave the column out";
            return Kind::Number(None, dropping(Advice::from(text).about("ReadOptions::one_hot"), name));
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
        Kind::Number(self.notation.clone(), why)
    }

    /// What the cells of a target mean whose kind is to be found out; none for classes.
    pub(super) fn target(&self) -> Option<Kind> {
        let cells = self.cells();
        if self.is_dates() {
            let text = "is a date, and a target is a number or a class; name the target column";
            return Some(Kind::Number(None, Advice::from(text).about("ReadOptions::target")));
        }
        let numbers = self.numerals() > 0 && 2 * self.numerals() >= cells;
        let commas = self.commas > 0 && self.numerals() + self.commas == cells;
        let numeric = numbers || commas || cells == 0;
        numeric.then(|| self.number("other targets are; correct it, or say that the target holds classes"))
    }

    pub(super) fn number(&self, why: &'static str) -> Kind {
        Kind::Number(self.notation.clone(), format!("is not a number; {why}").into())
    }
}
