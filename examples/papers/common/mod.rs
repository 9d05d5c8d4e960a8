//! What the programs of the four papers share.
#![allow(dead_code)] // each program uses its own part

pub mod command;
#[path = "../../common/device.rs"]
pub mod device;
pub mod drawing;
pub mod results;
pub mod rows;
pub mod scores;
pub mod training;
