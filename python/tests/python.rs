//! Runs the tests of the Python package with the module that cargo has built. What follows `--` goes to pytest:
//!
//! ```sh
//! cargo build --release -p cagey -p cagey-python --lib --test python
//! cargo test --release -p cagey -p cagey-python --test python -- tests/test_tables.py
//! ```
//!
//! `CAGEY_PYTHON` names the interpreter, which needs the packages of `python/pyproject.toml`; it is `python3` by
//! default. Without such a Python it says so, and passes.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const NEEDED: &str = "import sys, pytest, sklearn, pandas, polars; assert sys.version_info >= (3, 11)";

/// Where cargo put the module: beside the folder of this program.
fn module() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    let found = program.parent()?.parent()?.join("lib_cagey.so");
    found.is_file().then_some(found)
}

fn main() -> ExitCode {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = env::var("CAGEY_PYTHON").unwrap_or_else(|_| "python3".into());
    let usable = Command::new(&python).args(["-c", NEEDED]).output().is_ok_and(|done| done.status.success());
    if !usable {
        println!("{python} is no Python 3.11 or later with pytest, scikit-learn, pandas and polars: no test was run");
        return ExitCode::SUCCESS;
    }
    let Some(module) = module() else {
        println!("cargo has not built the module: cargo build --release -p cagey -p cagey-python --lib --test python");
        return ExitCode::FAILURE;
    };
    let built = package.join("cagey/_cagey.abi3.so");
    std::fs::copy(module, built).expect("the module can be copied");
    let mut tests = Command::new(python);
    tests.args(["-m", "pytest"]).args(env::args().skip(1)).current_dir(package).env("PYTHONPATH", package);
    match tests.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
