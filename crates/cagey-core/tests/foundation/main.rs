//! What the foundation keeps to itself: files that appear whole, text for terminals, the pool of threads, the order of
//! blocks.

mod atomic;
mod plain;
mod schedule;
mod threads;
