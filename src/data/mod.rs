//! Tables of numbers: reading, encoding, splitting, scaling and writing.
//!
//! A file becomes a [`Dataset`] (row-major inputs, optional targets, their line numbers in the file) and a [`Schema`],
//! which says how each column was encoded, so that later files are read in the same way. The cargo feature `table`
//! reads and writes files; programs without it make a [`Dataset`] from their own numbers. A [`RowFile`] keeps the rows
//! on disk, for training on minibatches.
//!
//! | format | recognised by | notes |
//! |---|---|---|
//! | CSV, TSV | anything else | comma, tab or semicolon; header or not; quoted fields, CRLF and a UTF-8 mark are fine |
//! | gzip of CSV, NPY or IDX | its first two bytes | several members in a row are read as one |
//! | NPY | its magic bytes | one or two dimensions, integers, floats or booleans |
//! | IDX | its first four bytes | images (MNIST) as rows; the file of their labels beside it is the last column |
//! | Parquet | its magic bytes | with the cargo feature `parquet` |
//!
//! A [`Frame`] is such a table in memory. The labels of an IDX file `…images…idx3…` are in the file `…labels…idx1…`.
//!
//! The path `-` is standard input. Training data are read twice: what a column holds is decided from all of its cells.
//! Text is never held in memory as a whole, unless it comes from a pipe. A row of text has at most 64 MiB.

pub mod calendar;
mod classes;
mod dataset;
mod row_file;
mod schema;
mod split;
#[cfg(feature = "table")]
mod tables;
mod write;

pub use crate::atomic::{discard_unfinished, resolved};
pub use cagey_base::scale::{InputScale, Moments, TargetScale, TargetTransform};
pub use cagey_base::warp::{Warp, WarpKind, Warping};
pub use classes::Classes;
pub use dataset::{Dataset, Notes, TextColumns};
pub(crate) use dataset::{bits, groups};
pub use row_file::RowFile;
pub use schema::{Column, Encoding, Notation, Schema};
pub use split::Split;
pub(crate) use split::test_count;
#[cfg(all(feature = "parquet", feature = "command"))]
pub(crate) use tables::parquet::is_guarded;
#[cfg(feature = "table")]
pub use tables::{
    Cells, DateOrder, Frame, Header, LeaveOut, Missing, ReadOptions, TargetKind, read_training, read_with_schema,
    write_labelled, write_predictions,
};
pub use write::{atomic_write, check_destination, check_file};

/// The first names for a message, at most so many, and whether there are more.
pub(crate) fn listed(names: &[impl AsRef<str>], most: usize) -> String {
    let shown: Vec<&str> = names.iter().take(most).map(AsRef::as_ref).collect();
    shown.join(", ") + if names.len() > most { ", …" } else { "" }
}
