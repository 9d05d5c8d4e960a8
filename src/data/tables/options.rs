//! How to read a file.

use serde::{Deserialize, Serialize};

/// What to do with a row that has a missing cell in a used column.
///
/// Missing cells are: empty, `NA`, `N/A`, `#N/A`, `nan`, `NaT`, `null`, `none`, `?` and infinities, in upper or lower
/// case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
#[non_exhaustive]
pub enum Missing {
    /// Stop and name row and column
    #[default]
    Reject,
    /// Leave such rows out; at least half of the rows must be left
    ///
    /// They are counted in [`Dataset::dropped`](crate::data::Dataset::dropped). The half is for training.
    Drop,
    /// Put the column's mean in such cells, and add a 0/1 input that says where; `predict` then does the same
    ///
    /// The input is called as in `age is missing`. A missing category is none of the categories. Rows without a target
    /// are left out.
    Indicate,
}

/// The order of day and month before a year.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
#[non_exhaustive]
pub enum DateOrder {
    /// 31/01/1949
    Day,
    /// 01/31/1949
    Month,
}

/// Which columns are left out without being asked for, of those that are not chosen by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum LeaveOut {
    /// None.
    #[default]
    Nothing,
    /// Columns of whole numbers that name the rows, to judge by their names: the index of a data frame.
    Index,
    /// These, columns of texts of which nearly every row has its own (names, free text), and empty columns.
    Names,
}

/// Whether the first line of a text file has column names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
#[non_exhaustive]
pub enum Header {
    /// Names if it holds words above numbers, or the name of a column that an option asks for; use `yes` if all columns
    /// of words have numbers as names
    ///
    /// Words are cells that are neither numbers, nor dates, nor missing. In a target column of classes a word is a name
    /// if a number follows, or if the other cells count the columns.
    #[default]
    Auto,
    /// Names
    Yes,
    /// Data; columns are called c0, c1, …
    No,
}

/// The kind of cells in the target column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum TargetKind {
    /// Numbers.
    #[default]
    Numbers,
    /// Labels of classes, even if they look like numbers; targets are their codes.
    Classes,
    /// Labels if the first cell is not a number, else numbers.
    Auto,
}

/// Options for [`read_training`](crate::data::read_training) and [`read_with_schema`](crate::data::read_with_schema).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReadOptions {
    /// Name of the target column; the last column if absent.
    pub target: Option<String>,
    /// The kind of cells in the target column.
    pub target_kind: TargetKind,
    /// Labels of the target's classes in their order, if the target is read as classes; sorted by
    /// [`Classes`](crate::data::Classes) if absent.
    pub classes: Option<Vec<String>>,
    /// Names of the feature columns, in this order; all but the target if absent.
    pub features: Option<Vec<String>>,
    /// Names of columns that are not features, if the features are all but the target.
    pub drop: Vec<String>,
    /// Encode each column of text as 0/1 features, one for each category.
    pub one_hot: bool,
    /// Columns that are categories even if they look like numbers, such as postal codes.
    pub categorical: Vec<String>,
    /// The column that tells several series apart, one of the features: the number of a row's series.
    pub series: Option<String>,
    /// Read dates and date-times as decimal years: ISO 8601, `01/31/1949`, `31 Jan 1949`, and months and quarters such
    /// as `1949-01` and `1960Q1`, which stand for their first day.
    pub dates: bool,
    /// Whether day or month comes first in dates such as `01/02/1949`; found out from the whole column if absent.
    pub date_order: Option<DateOrder>,
    /// Which columns are left out without being asked for.
    pub leave_out: LeaveOut,
    /// What to do with missing cells.
    pub missing: Missing,
    /// Whether there is a header.
    pub header: Header,
    /// The delimiter of a text file; guessed from the file's extension and first line if absent.
    pub delimiter: Option<u8>,
    /// Whether the numbers of a text file have decimal commas.
    pub decimal_comma: bool,
    /// Keep the text of all columns of the rows, to write it next to predictions.
    pub keep: bool,
    /// Columns that a file with a header may lack, although the model was trained with them.
    pub optional: Vec<String>,
    /// Read a category that the model was not trained with as any of those it knows, each with the same weight, instead
    /// of refusing it.
    pub mix_unknown: bool,
}
