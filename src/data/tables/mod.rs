//! Reading and writing tables in files, one module for each format.

mod bounded;
mod cell;
mod column;
mod csv;
mod dates;
mod frame;
mod idx;
mod mask;
mod notation;
mod npy;
mod options;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
mod read;
mod selection;
mod source;
mod survey;
mod table;
mod tally;
mod walk;
mod write;

pub use frame::{Cells, Frame};
pub use options::{DateOrder, Header, LeaveOut, Missing, ReadOptions, TargetKind};
pub(super) use read::{Streamed, stream_training};
pub use read::{read_training, read_with_schema};
pub(super) use walk::Place;
pub use write::{write_labelled, write_predictions};
