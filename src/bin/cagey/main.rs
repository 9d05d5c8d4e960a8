//! The command `cagey`. Its subcommands are those of `src/cli`.
//!
//! What changes the whole process is here, not in the library: the allocator, and what the loader calls before `main`.

#![deny(clippy::undocumented_unsafe_blocks)]

mod allocation;
mod closed;

use std::process::ExitCode;

use cagey::fitted::Registry;

fn main() -> ExitCode {
    cagey::memory::keep_freed();
    cagey::device::ignore_settings_files();
    if closed::at_start() {
        cagey::cli::without_output();
    }
    cagey::cli::run(Registry::default())
}
