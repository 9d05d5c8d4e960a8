//! Decoding one column. A schema, or a survey of its cells, decides what they mean.

use std::collections::{BTreeMap, HashMap};

use super::cell::{Cell, Value, flag};
use super::dates::{When, month, when};
use super::notation::exchanged;
use super::options::{DateOrder, Missing, ReadOptions};
use super::table::Table;
use crate::Result;
use crate::advice::Advice;
use crate::data::classes::{Classes, canonical};
use crate::data::dataset::LARGEST;
use crate::data::listed;
use crate::data::schema::{Column, Encoding, Notation};

/// If a column has more categories than this, they are probably identifiers or free text.
pub(super) const MOST_CATEGORIES: usize = 1000;

/// The code of every label.
fn codes<'a>(labels: impl IntoIterator<Item = &'a String>) -> HashMap<String, usize> {
    labels.into_iter().cloned().zip(0..).collect()
}

/// Reads the cells of one column as numbers; categories become codes.
pub(super) struct ColumnReader {
    /// The position in the table.
    pub(super) index: usize,
    kind: Kind,
    /// Whether missing cells are NaN, to be filled later, instead of an error.
    fills: bool,
    /// Whether they could be, if asked for.
    fillable: bool,
    /// Whether categories are series.
    pub(super) series: bool,
    /// How many cells were missing, how many were not, and the mean of these.
    gaps: usize,
    cells: usize,
    mean: f64,
}

/// What the cells of a column mean.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    /// Numbers, the signs of some or all, and what is wrong with other cells.
    Number(Option<Notation>, Advice),
    Flag,
    Month,
    Date {
        order: Option<DateOrder>,
    },
    Category {
        codes: HashMap<String, usize>,
        others: Others,
    },
    /// Labels of a target.
    Class {
        codes: HashMap<String, usize>,
        /// What to call another label, if no more labels are allowed.
        other: Option<&'static str>,
    },
}

/// What happens to a category that is not known yet.
#[derive(Debug, Clone)]
pub(super) enum Others {
    /// It becomes known.
    Learned,
    Refused,
    /// It gets the code after the last one. Each such category is counted.
    Mixed(BTreeMap<String, usize>),
}

impl Kind {
    /// Categories that are not known yet.
    pub(super) fn categories() -> Self {
        Self::Category { codes: HashMap::new(), others: Others::Learned }
    }

    /// Classes, in the given order if there is one.
    pub(super) fn classes(order: Option<&Classes>) -> Self {
        let other = order.map(|_| "none of the classes given");
        Self::Class { codes: codes(order.map_or(&[][..], Classes::labels)), other }
    }

    fn encoding(&self) -> Encoding {
        match self {
            Self::Number(Some(notation), _) => Encoding::Written(notation.clone()),
            Self::Flag => Encoding::Flag,
            Self::Month => Encoding::Month,
            Self::Date { order: None } => Encoding::Date,
            Self::Date { order: Some(DateOrder::Day) } => Encoding::DayFirst,
            Self::Date { order: Some(DateOrder::Month) } => Encoding::MonthFirst,
            Self::Number(None, _) | Self::Category { .. } | Self::Class { .. } => Encoding::Numeric,
        }
    }

    /// The kind of cells with the encoding of the training data.
    fn trained(encoding: &Encoding, options: &ReadOptions) -> Self {
        let number = || Advice::from("is not a number; the model was trained with numbers in this column");
        match encoding {
            Encoding::Numeric => Self::Number(None, number()),
            Encoding::Written(notation) => Self::Number(Some(notation.clone()), number()),
            Encoding::Flag => Self::Flag,
            Encoding::Month => Self::Month,
            Encoding::Date => Self::Date { order: options.date_order },
            Encoding::DayFirst => Self::Date { order: Some(DateOrder::Day) },
            Encoding::MonthFirst => Self::Date { order: Some(DateOrder::Month) },
            Encoding::OneHot(categories) | Encoding::Series(categories) => {
                let others = if options.mix_unknown { Others::Mixed(BTreeMap::new()) } else { Others::Refused };
                Self::Category { codes: codes(categories), others }
            }
        }
    }
}

impl ColumnReader {
    /// Cells of a kind, such as the target of training data.
    pub(super) fn new(index: usize, kind: Kind, fills: bool) -> Self {
        Self { index, kind, fills, fillable: false, series: false, gaps: 0, cells: 0, mean: 0.0 }
    }

    /// A feature of training data.
    pub(super) fn feature(index: usize, kind: Kind, options: &ReadOptions) -> Self {
        Self { fillable: true, ..Self::new(index, kind, options.missing == Missing::Indicate) }
    }

    /// The column that tells series apart, of training data.
    pub(super) fn series(index: usize) -> Self {
        Self { series: true, ..Self::new(index, Kind::categories(), false) }
    }

    /// The target with the classes of the training data, if it had classes.
    pub(super) fn trained_target(
        index: usize,
        classes: Option<&Classes>,
        encoding: &Encoding,
        options: &ReadOptions,
    ) -> Self {
        let other = Some("a class the model was not trained with");
        let kind = match classes {
            Some(classes) => Kind::Class { codes: codes(classes.labels()), other },
            None => Kind::trained(encoding, options),
        };
        Self::new(index, kind, false)
    }

    /// A feature with the encoding of the training data.
    pub(super) fn trained(index: usize, column: &Column, options: &ReadOptions) -> Self {
        let series = matches!(column.encoding, Encoding::Series(_));
        Self { series, ..Self::new(index, Kind::trained(&column.encoding, options), column.fill.is_some()) }
    }

    /// The number for the cell of the current row.
    pub(super) fn read(&mut self, table: &dyn Table, row: usize) -> Result<f64> {
        let cell = table.cell(self.index)?;
        if self.fills && cell.is_missing() {
            self.gaps += 1;
            return Ok(f64::NAN);
        }
        let value = self.decode(cell).map_err(|Advice { text, settings }| {
            let problem = format!("{} {text}", cell.quoted());
            let error = table.layout().cell_error(row, self.index, problem).advised(settings);
            match cell.is_missing() && self.fillable {
                true => error.set("ReadOptions::missing", "indicate"),
                false => error,
            }
        })?;
        self.cells += 1;
        self.mean += (value - self.mean) / self.cells as f64;
        Ok(value)
    }

    /// Whether missing cells are to be filled and there is nothing to fill them with.
    pub(super) fn is_empty(&self) -> bool {
        self.gaps > 0 && self.cells == 0
    }

    /// The categories that the training data did not have, and how many rows have them.
    pub(super) fn unknown(&self) -> impl Iterator<Item = (&String, &usize)> {
        let found = match &self.kind {
            Kind::Category { others: Others::Mixed(found), .. } => Some(found),
            _ => None,
        };
        found.into_iter().flatten()
    }

    /// The category that differs from a text in upper and lower case only.
    pub(super) fn alike(&self, text: &str) -> Option<&String> {
        let Kind::Category { codes, .. } = &self.kind else { return None };
        codes.keys().filter(|known| known.to_lowercase() == text.to_lowercase()).min()
    }

    /// The number of categories.
    pub(super) fn categories(&self) -> usize {
        if let Kind::Category { codes, .. } = &self.kind { codes.len() } else { 0 }
    }

    /// Whether a cell is missing. Text that usually means missing may be the name of a class.
    pub(super) fn lacks(&self, cell: &Cell) -> bool {
        let known = matches!(&self.kind, Kind::Class { codes, .. } if codes.contains_key(&canonical(&cell.label())));
        cell.is_missing() && !known && !self.fills
    }

    /// The column, and for categories the new code of each old one. Codes follow the first appearance while reading,
    /// and the sorted order afterwards.
    pub(super) fn finish(self, name: &str) -> (Column, Option<Vec<usize>>) {
        let Self { index, kind, series, gaps, mean, .. } = self;
        let filled = |fill| (gaps > 0).then_some(fill);
        let Kind::Category { codes, .. } = kind else {
            return (Column { name: name.into(), index, encoding: kind.encoding(), fill: filled(mean) }, None);
        };
        let mut sorted: Vec<(String, usize)> = codes.into_iter().collect();
        sorted.sort();
        let mut renamed = vec![0; sorted.len()];
        for (new, (_, old)) in sorted.iter().enumerate() {
            renamed[*old] = new;
        }
        let labels = sorted.into_iter().map(|(category, _)| category).collect();
        let encoding = if series { Encoding::Series(labels) } else { Encoding::OneHot(labels) };
        (Column { name: name.into(), index, encoding, fill: filled(0.0) }, Some(renamed))
    }

    /// How a target that is no class is written.
    pub(super) fn encoding(&self) -> Encoding {
        self.kind.encoding()
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
        if cell.is_missing() && !matches!(self.kind, Kind::Class { .. }) {
            return Err(missing());
        }
        match &mut self.kind {
            Kind::Number(notation, wrong) => match (cell.value(), notation) {
                (Value::Number(_), Some(notation)) if notation.is_in_every_cell() => {
                    let sign = match &notation.unit {
                        Some(unit) => format!("unit `{unit}`"),
                        None => "percent sign".into(),
                    };
                    Err(format!("has no {sign}, unlike other cells of the column; correct it").into())
                }
                (Value::Number(number), _) => Ok(number),
                (Value::Written(found), Some(notation)) => match notation.with(&found.notation) {
                    Some(both) if both == *notation => Ok(found.value),
                    _ => {
                        let signs = notation.words();
                        let problem = format!("has other signs than the cells of the column, which have {signs}");
                        Err(format!("{problem}; correct it").into())
                    }
                },
                (Value::TooLarge, _) => {
                    Err(format!("is larger than {LARGEST:e} and would overflow; rescale the column").into())
                }
                _ => Err(decimal_comma(cell, wrong.clone())),
            },
            Kind::Flag => match (cell.value(), cell) {
                (Value::Number(number @ (0.0 | 1.0)), _) => Ok(number),
                (_, Cell::Text(text)) => {
                    flag(text).map(|flag| flag.into()).ok_or_else(|| "is neither True nor False".into())
                }
                _ => Err("is neither True nor False".into()),
            },
            Kind::Month => {
                month(&cell.label()).map(f64::from).ok_or_else(|| "is not the English name of a month".into())
            }
            Kind::Date { order } => date(cell, *order),
            Kind::Category { codes, others } => category(cell, codes, others),
            Kind::Class { codes, other } => class(cell, codes, *other),
        }
    }
}

fn date(cell: Cell, order: Option<DateOrder>) -> std::result::Result<f64, Advice> {
    let Cell::Text(text) = cell else { return Err("is a number in a column of dates".into()) };
    let first = match order {
        Some(DateOrder::Day) => " with the day first",
        Some(DateOrder::Month) => " with the month first",
        None => "",
    };
    match when(text).map(|when| (when, when.year(order))) {
        Some((_, Some(year))) => Ok(year),
        Some((When::ShortYear, _)) => Err("is a date with two digits of its year; write all four".into()),
        Some((_, None)) if order.is_none() => {
            let text = "could have its day or its month first, and no cell of the column tells; say which, or write \
                        dates as 1949-12-31";
            Err(Advice::from(text).about("ReadOptions::date_order"))
        }
        _ => Err(format!("is not a date{first} like the other cells of the column; correct it").into()),
    }
}

fn category(cell: Cell, codes: &mut HashMap<String, usize>, others: &mut Others) -> std::result::Result<f64, Advice> {
    let label = cell.label();
    let next = codes.len();
    match (codes.get(&label), others) {
        (Some(&code), _) => Ok(code as f64),
        (None, Others::Mixed(found)) => {
            *found.entry(label).or_default() += 1;
            Ok(next as f64)
        }
        (None, Others::Refused) => {
            let mut known: Vec<&str> = codes.keys().map(String::as_str).collect();
            known.sort_unstable();
            Err(format!("is a category the model was not trained with; known are {}", listed(&known, 8)).into())
        }
        (None, Others::Learned) if next == MOST_CATEGORIES => {
            let text = format!(
                "is category number {}; more than {MOST_CATEGORIES} look like identifiers or free text: leave the \
                 column out",
                next + 1
            );
            Err(Advice::from(text).about("ReadOptions::drop"))
        }
        (None, Others::Learned) => {
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

/// Whether a text is a number with a decimal comma.
pub(super) fn is_decimal_comma(cell: &Cell) -> bool {
    matches!(cell, Cell::Text(text) if text.contains(',') && exchanged(text).is_some())
}

/// The problem with a cell. If a decimal point would make it a number, adds the advice to read decimal commas.
fn decimal_comma(cell: Cell, wrong: Advice) -> Advice {
    if !is_decimal_comma(&cell) {
        return wrong;
    }
    let text = format!("{}; decimal commas are read only on request", wrong.text);
    Advice { text, ..wrong }.set("ReadOptions::decimal_comma", true)
}

/// The advice to leave a column out.
pub(super) fn dropping(advice: Advice, name: &str) -> Advice {
    match name.contains([' ', ',']) {
        true => advice.about("ReadOptions::drop"),
        false => advice.set("ReadOptions::drop", name),
    }
}
