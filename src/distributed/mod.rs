//! Rows and work elsewhere: the ranks of one job, tables that stay apart, files of rows.
//!
//! Ranks are processes of a cluster, or threads of this process. Rank 0 leads: only it reads options and files, trains,
//! takes decisions and writes files. It asks the other ranks for [their parts](parts) of the computation. The others
//! [serve]: they do what each message asks, until the last message. So one rank decides about everything that ends a
//! training, and nobody waits for a message that does not come.
//!
//! Messages travel by an [`Exchange`]: [`threads`] of this process, for tests and embedding, or MPI (feature `mpi`),
//! which clusters provide. A model takes part if it is [made of parts](OfParts) of the rows, or if its objective is a
//! [sum over rows](crate::models::minibatch::SumOverRows), of minibatches in parts. All ask their questions about a
//! [`Work`].

mod ask;
mod batches;
#[cfg(feature = "mpi")]
pub mod mpi;
pub mod parts;
mod question;
mod rank;
mod ranks;
mod rows;
mod tables;
pub mod threads;
pub(crate) mod tree;
pub(crate) mod whole;

use std::fmt::Debug;

pub use batches::{Drawn, Spread};
pub use parts::Parts;
pub use question::Question;
pub use rank::serve;
pub use ranks::{Ranks, on_signal, pass_on_signal, signal_waits};
pub(crate) use rows::Stored;
pub use rows::{Data, FileRows, Window};
pub(crate) use tables::Closed;
pub use tables::{Reading, Rows, Shard, Shards, Tables, Whereabouts};
pub use whole::{OfParts, Work, WorkRows};

use crate::error::Result;

/// One rank's end of the channels between all ranks. Every rank calls the same functions in the same order.
pub trait Exchange: Debug + Send + Sync {
    /// The number of this rank; the leader is 0.
    fn rank(&self) -> usize;

    /// The number of ranks.
    fn size(&self) -> usize;

    /// Returns the leader's message at every rank. The arguments of the others are dropped.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) when a rank is gone.
    fn broadcast(&self, message: Vec<u8>) -> Result<Vec<u8>>;

    /// Returns the leader's message for this rank. The leader passes one message for each rank, the others pass none.
    ///
    /// # Errors
    /// As [`broadcast`](Self::broadcast).
    fn scatter(&self, messages: Vec<Vec<u8>>) -> Result<Vec<u8>>;

    /// Returns every rank's message at the leader, by rank; nothing at the others.
    ///
    /// # Errors
    /// As [`broadcast`](Self::broadcast).
    fn gather(&self, message: Vec<u8>) -> Result<Vec<Vec<u8>>>;

    /// Ends this rank's part of the job, after the last message.
    fn leave(&self) {}

    /// Ends all ranks at once, in cases where the remaining ones would wait for ever.
    fn abort(&self) {}
}

/// Ends all ranks if this one panics before the guard is dropped; otherwise the others would wait for it for ever.
/// Panics that are caught in the meantime end nothing.
#[derive(Debug)]
pub struct Guard<'a>(&'a dyn Exchange);

impl<'a> Guard<'a> {
    /// A guard for a rank's end, which must outlive it.
    pub fn new(exchange: &'a dyn Exchange) -> Self {
        Self(exchange)
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.abort();
        }
    }
}
