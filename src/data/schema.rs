//! The columns that a model uses, and how they become numbers.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::Dataset;
use super::classes::Classes;
use crate::error::{Error, Result};

/// How a column becomes one or more features.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Encoding {
    /// The number itself.
    Numeric,
    /// An ISO 8601 date or date-time as a decimal year, exact in leap years.
    Date,
    /// One 0/1 feature for each category, in sorted order. No category is left out.
    OneHot(Vec<String>),
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
}

impl Schema {
    /// The columns of a table of numbers, with the target last.
    pub fn numeric(data: &Dataset) -> Self {
        let column =
            |(index, name): (usize, &String)| Column { name: name.clone(), index, encoding: Encoding::Numeric };
        Self {
            features: data.feature_names.iter().enumerate().map(column).collect(),
            target: data.target_name.clone(),
            target_index: data.d,
            width: data.d + 1,
            classes: None,
        }
    }

    /// Refuses a table whose inputs are not those of this schema in the same order.
    ///
    /// # Errors
    /// [`Error::Shape`] with the names of both, and errors of [`Dataset::check`].
    pub fn check(&self, data: &Dataset) -> Result<()> {
        data.check()?;
        let names = self.feature_names();
        if data.feature_names == names {
            return Ok(());
        }
        let listed = |names: &[String]| format!("`{}`", names.join("`, `"));
        Err(Error::shape("input columns", listed(&names), listed(&data.feature_names)))
    }

    /// The number of features `d` after encoding.
    pub fn d(&self) -> usize {
        self.features.iter().map(|column| column.encoding.width()).sum()
    }

    /// The names of the `d` encoded features. A category's name is `column=category`.
    pub fn feature_names(&self) -> Vec<String> {
        self.features
            .iter()
            .flat_map(|column| match &column.encoding {
                Encoding::Numeric | Encoding::Date => vec![column.name.clone()],
                Encoding::OneHot(categories) => {
                    categories.iter().map(|category| format!("{}={category}", column.name)).collect()
                }
            })
            .collect()
    }

    /// The problem that makes the schema invalid, if any. Files can contain anything.
    pub(crate) fn problem(&self) -> Option<String> {
        let distinct = |labels: &[String]| labels.iter().collect::<HashSet<_>>().len() == labels.len();
        let sound = |column: &Column| {
            column.index < self.width
                && match &column.encoding {
                    Encoding::OneHot(categories) => !categories.is_empty() && distinct(categories),
                    Encoding::Numeric | Encoding::Date => true,
                }
        };
        let classes = self.classes.as_ref().is_none_or(|classes| distinct(classes.labels()));
        let sound = self.target_index < self.width && self.features.iter().all(sound) && classes;
        (!sound).then(|| "its columns are not those of a table".into())
    }

    /// Encodes rows with one value for each column (category codes for one-hot columns) as rows of `d` features.
    pub(super) fn encode(&self, values: Vec<f64>) -> Vec<f64> {
        if self.d() == self.features.len() && !self.features.iter().any(Column::is_one_hot) {
            return values;
        }
        let n = values.len() / self.features.len().max(1);
        let mut x = Vec::with_capacity(n * self.d());
        for row in values.chunks_exact(self.features.len()) {
            for (&value, column) in row.iter().zip(&self.features) {
                match &column.encoding {
                    Encoding::Numeric | Encoding::Date => x.push(value),
                    Encoding::OneHot(categories) => {
                        x.extend((0..categories.len()).map(|code| f64::from(code as f64 == value)));
                    }
                }
            }
        }
        x
    }
}

impl Column {
    fn is_one_hot(&self) -> bool {
        matches!(self.encoding, Encoding::OneHot(_))
    }
}

impl Encoding {
    /// The number of features that the column becomes.
    pub fn width(&self) -> usize {
        match self {
            Self::Numeric | Self::Date => 1,
            Self::OneHot(categories) => categories.len(),
        }
    }
}
