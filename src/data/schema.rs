//! The columns that a model uses, and how they become numbers.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::Dataset;
use super::classes::Classes;
use crate::error::{Error, Result};

/// How a column becomes one or more features.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Encoding {
    /// The number itself.
    #[default]
    Numeric,
    /// The number without the signs beside it.
    Written(Notation),
    /// `True` as 1, `False` as 0.
    Flag,
    /// The name of a month as its number: `Jan` is 1.
    Month,
    /// A date or date-time as a [decimal year](crate::data::calendar).
    Date,
    /// The same, with the day first in `01/02/1949`.
    DayFirst,
    /// The same, with the month first in `01/02/1949`.
    MonthFirst,
    /// One 0/1 feature for each category, in sorted order. No category is left out.
    OneHot(Vec<String>),
    /// The place of its text among these, in sorted order: the series that a row belongs to. Another text has the place
    /// after the last.
    Series(Vec<String>),
}

/// How the numbers of a column are written, beyond digits and a decimal point.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Notation {
    /// The sign or code of a currency, such as `$`, in some or all cells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// Whether every cell ends in a percent sign. `12 %` is read as 12.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub percent: bool,
    /// The unit that every cell ends in, such as `cm`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// What separates thousands in some or all cells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thousands: Option<char>,
}

/// A feature column of the training file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its position in the training file, from 0, used for files without header.
    pub index: usize,
    /// Its encoding.
    pub encoding: Encoding,
    /// The number in place of a missing cell, its mean over the training rows, if a 0/1 feature says where cells are
    /// missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill: Option<f64>,
}

/// The columns of the training data. A model keeps them to read later files in the same way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Schema {
    /// Feature columns in the order of the model's inputs.
    pub features: Vec<Column>,
    /// Name of the target column.
    pub target: String,
    /// Position of the target column in the training file, from 0.
    pub target_index: usize,
    /// Number of columns of the training file.
    pub width: usize,
    /// The classes of the target, if it is read as labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<Classes>,
    /// How the target is written, if it is no class.
    #[serde(default, skip_serializing_if = "is_plain")]
    pub target_encoding: Encoding,
}

fn is_plain(encoding: &Encoding) -> bool {
    *encoding == Encoding::Numeric
}

impl Schema {
    /// The columns of a table of numbers, with the target last.
    pub fn numeric(data: &Dataset) -> Self {
        let column = |(index, name): (usize, &String)| Column::numeric(name, index);
        Self {
            features: data.feature_names.iter().enumerate().map(column).collect(),
            target: data.target_name.clone(),
            target_index: data.d,
            width: data.d + 1,
            classes: None,
            target_encoding: Encoding::Numeric,
        }
    }

    /// Refuses a table whose inputs are not those of this schema in the same order.
    ///
    /// # Errors
    /// [`Error::Shape`] with the names of both, and errors of [`Dataset::check`].
    pub fn check(&self, data: &Dataset) -> Result<()> {
        self.check_without(data, None)
    }

    /// As [`check`](Self::check), for a table that lacks the column `absent`.
    pub(crate) fn check_without(&self, data: &Dataset, absent: Option<&str>) -> Result<()> {
        data.check()?;
        let mut names = self.feature_names();
        names.retain(|name| Some(name.as_str()) != absent);
        if data.feature_names == names {
            return Ok(());
        }
        let listed = |names: &[String]| format!("`{}`", names.join("`, `"));
        Err(Error::shape("input columns", listed(&names), listed(&data.feature_names)))
    }

    /// The number of features `d` after encoding.
    pub fn d(&self) -> usize {
        self.features.iter().map(Column::width).sum()
    }

    /// The names of the `d` encoded features. A category's name is `column=category`.
    pub fn feature_names(&self) -> Vec<String> {
        self.features.iter().flat_map(Column::feature_names).collect()
    }

    /// The column that tells series apart, and the number of its feature, if there are several series.
    pub fn series(&self) -> Option<(usize, &Column)> {
        let at = self.features.iter().position(|column| matches!(column.encoding, Encoding::Series(_)))?;
        Some((self.features[..at].iter().map(Column::width).sum(), &self.features[at]))
    }

    /// The problem that makes the schema invalid, if any. Files can contain anything.
    pub(crate) fn problem(&self) -> Option<String> {
        let distinct = |labels: &[String]| labels.iter().collect::<HashSet<_>>().len() == labels.len();
        let sound = |column: &Column| {
            column.index < self.width
                && column.fill.is_none_or(f64::is_finite)
                && column.encoding.labels().is_none_or(|all| !all.is_empty() && distinct(all))
        };
        let classes = self.classes.as_ref().is_none_or(|classes| distinct(classes.labels()));
        let sound = self.target_index < self.width && self.features.iter().all(sound) && classes;
        (!sound).then(|| "its columns are not those of a table".into())
    }

    /// Encodes rows with one value for each column as rows of `d` features. The values are category codes for one-hot
    /// columns, and NaN for missing cells that are to be filled. The code after the last one is a category that is not
    /// known: it stands for any of them, with equal weights.
    pub(super) fn encode(&self, values: Vec<f64>) -> Vec<f64> {
        if self.features.iter().all(|column| column.encoding.categories().is_none() && column.fill.is_none()) {
            return values;
        }
        let n = values.len() / self.features.len().max(1);
        let mut x = Vec::with_capacity(n * self.d());
        for row in values.chunks_exact(self.features.len()) {
            for (&value, column) in row.iter().zip(&self.features) {
                match (column.encoding.categories(), column.fill) {
                    (Some(categories), _) => {
                        let (count, unknown) = (categories.len(), categories.len() as f64 == value);
                        let weight = |code| if unknown { 1.0 / count as f64 } else { f64::from(code as f64 == value) };
                        x.extend((0..count).map(weight));
                    }
                    (None, Some(fill)) if value.is_nan() => x.push(fill),
                    (None, _) => x.push(value),
                }
                x.extend(column.fill.map(|_| f64::from(value.is_nan())));
            }
        }
        x
    }
}

impl Column {
    /// A column of numbers.
    pub fn numeric(name: impl Into<String>, index: usize) -> Self {
        Self { name: name.into(), index, encoding: Encoding::Numeric, fill: None }
    }

    /// The number of features that the column becomes.
    pub fn width(&self) -> usize {
        self.encoding.width() + usize::from(self.fill.is_some())
    }

    /// The names of these features.
    pub fn feature_names(&self) -> Vec<String> {
        let name = &self.name;
        let mut names = match self.encoding.categories() {
            Some(categories) => categories.iter().map(|category| format!("{name}={category}")).collect(),
            None => vec![name.clone()],
        };
        names.extend(self.fill.map(|_| format!("{name} is missing")));
        names
    }
}

impl Encoding {
    /// Whether texts are dates.
    pub(crate) fn is_date(&self) -> bool {
        matches!(self, Self::Date | Self::DayFirst | Self::MonthFirst)
    }

    /// The number of features that the column becomes, beside the one that says where cells are missing.
    pub fn width(&self) -> usize {
        self.categories().map_or(1, <[String]>::len)
    }

    /// The texts that a column of texts has.
    pub fn labels(&self) -> Option<&[String]> {
        match self {
            Self::OneHot(labels) | Self::Series(labels) => Some(labels),
            _ => None,
        }
    }

    /// The categories of a column that becomes one feature for each.
    pub fn categories(&self) -> Option<&[String]> {
        match self {
            Self::OneHot(categories) => Some(categories),
            _ => None,
        }
    }
}

impl Notation {
    /// Whether no cell may be a plain number.
    pub fn is_in_every_cell(&self) -> bool {
        self.percent || self.unit.is_some()
    }

    /// The signs in words.
    pub fn words(&self) -> String {
        let currency = self.currency.as_ref().map(|sign| format!("`{sign}`"));
        let percent = self.percent.then(|| "`%`".to_string());
        let unit = self.unit.as_ref().map(|unit| format!("`{unit}`"));
        let thousands = self.thousands.map(|_| "separators of thousands".to_string());
        [currency, percent, unit, thousands].into_iter().flatten().collect::<Vec<_>>().join(" and ")
    }
}
