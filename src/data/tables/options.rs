//! How to read a file.

use serde::{Deserialize, Serialize};

/// What to do with a row that has a missing cell in a used column.
///
/// Missing cells are: empty, `NA`, `N/A`, `#N/A`, `nan`, `NaT`, `null`, `none`, `?` and infinities, in upper or lower
/// case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Missing {
    /// Stop with an error that names row and column.
    #[default]
    Reject,
    /// Leave the row out and count it in [`Dataset::dropped`](crate::data::Dataset::dropped).
    Drop,
}

/// Whether the first line of a text file has column names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Header {
    /// Decides by the first line. It is a header if one of its cells is a wanted column name, or is neither a number,
    /// nor a date, nor missing. In a target column of classes a word is a name if a number follows, or if the other
    /// cells count the columns.
    #[default]
    Auto,
    /// The first line is a header.
    Yes,
    /// There is no header. The columns are called `c0`, `c1`, ….
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
    /// Read ISO 8601 dates and date-times as decimal years.
    pub dates: bool,
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
}
