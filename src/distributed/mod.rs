//! Rows and work elsewhere: the ranks of one job, tables that stay apart, files of rows.
//!
//! Ranks are processes of a cluster, or threads of this process. Rank 0 leads: only it reads options and files, trains,
//! takes decisions and writes files. It asks the other ranks for [their parts](crate::models::parts) of the computation.
//! The others [serve]: they do what each [message](ask) asks, until the last message. So one rank decides about
//! everything that ends a training, and nobody waits for a message that does not come.
//!
//! Messages travel by an [`Exchange`]: [`threads`] of this process, for tests and embedding, or MPI (feature `mpi`),
//! which clusters provide. A model takes part if it is [made of parts](crate::models::parts::OfParts) of the rows, or if
//! its objective is a [sum over rows](crate::models::minibatch::SumOverRows).

mod ask;
mod exchange;
mod file;
#[cfg(feature = "mpi")]
pub mod mpi;
mod rank;
mod ranks;
mod tables;
pub mod threads;

pub use exchange::{Exchange, Guard};
pub(crate) use file::{FileRows, Stored};
pub use rank::serve;
pub use ranks::{Ranks, on_signal, pass_on_signal, signal_waits};
pub(crate) use tables::Closed;
pub use tables::{Reading, Rows, Shard, Tables, Whereabouts};
