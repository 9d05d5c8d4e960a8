//! How to read a file.

use serde::{Deserialize, Serialize};

/// What to do with a row that has a missing cell in a used column.
///
/// Missing are empty cells, `NA`, `N/A`, `#N/A`, `nan`, `NaT`, `null`, `none`, `?` and infinities, in any case of
/// letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Missing {
    /// Stop with an error that names row and column.
    #[default]
    Reject,
    /// Leave the row out and count it in [`Dataset::dropped`](crate::data::Dataset::dropped).
    Drop,
}

/// Whether the first line of a text file holds column names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Header {
    /// It does when one of its cells is a wanted column name, or neither a number, nor a date, nor missing; a word in a
    /// target column of classes is a name above numbers, or where the other cells count the columns.
    #[default]
    Auto,
    /// It does.
    Yes,
    /// It does not; the columns are called `c0`, `c1`, ….
    No,
}

/// What the cells of the target column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum TargetKind {
    /// Numbers.
    #[default]
    Numbers,
    /// Labels of classes, even where they look like numbers; targets are their codes.
    Classes,
    /// Labels if the first cell is no number, else numbers.
    Auto,
}

/// Options for [`read_training`](crate::data::read_training) and [`read_with_schema`](crate::data::read_with_schema).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReadOptions {
    /// Name of the target column; the last column if absent.
    pub target: Option<String>,
    /// What the target column holds.
    pub target_kind: TargetKind,
    /// Labels of the target's classes in their order, for targets read as classes; sorted by
    /// [`Classes`](crate::data::Classes) if absent.
    pub classes: Option<Vec<String>>,
    /// Names of the feature columns, in this order; all but the target if absent.
    pub features: Option<Vec<String>>,
    /// Names of columns that are no features, where the features are all but the target.
    pub drop: Vec<String>,
    /// Encode columns of text as one 0/1 feature per category.
    pub one_hot: bool,
    /// Columns that are categories even where they look like numbers, such as postal codes.
    pub categorical: Vec<String>,
    /// Read ISO 8601 dates and date-times as decimal years.
    pub dates: bool,
    /// What to do with missing cells.
    pub missing: Missing,
    /// Whether there is a header.
    pub header: Header,
    /// The delimiter of a text file; guessed from the file's extension and first line if absent.
    pub delimiter: Option<u8>,
    /// Numbers of a text file have commas for decimal points.
    pub decimal_comma: bool,
    /// Keep the text of all columns of the rows read, to be written next to predictions.
    pub keep: bool,
}
