//! What the programs of the four papers share.
#![allow(dead_code)] // each program uses its own part

pub mod command;
pub mod drawing;
pub mod results;
pub mod rows;
pub mod scores;
pub mod training;
