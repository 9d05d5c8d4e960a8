//! What a model offers: to optimisers, to tables and files, and to the command.

pub mod blueprint;
#[cfg(feature = "command")]
pub mod command;
pub mod gp_model;
pub mod model;
pub mod options;
