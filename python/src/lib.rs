//! The native module `cagey._cagey`: models, fits and the command for Python.
//!
//! The package `cagey` beside it gives these the interface of scikit-learn. Numbers come in as buffers of float64 and
//! go out as bytes; whatever computes does so without the interpreter's lock. Nothing here changes the host process: no
//! allocator, no handler of signals, no settings file.

mod border;
mod errors;
mod model;
mod objective;
mod pool;
mod training;

use pyo3::prelude::*;

/// The native module.
#[pymodule]
mod _cagey {
    #[pymodule_export]
    use super::errors::TrainingError;
    #[pymodule_export]
    use super::model::Model;
    #[pymodule_export]
    use super::objective::Objective;
    #[pymodule_export]
    use super::training::{Frame, compare, fit, kernel_parameters, options};

    use super::*;

    #[pymodule_init]
    fn init(_: &Bound<'_, PyModule>) -> PyResult<()> {
        pool::is_forked();
        Ok(())
    }

    /// The command `cagey`, with `arguments[0]` as the name of the program; returns its exit code. It takes over the
    /// process, so it is only for a process of its own.
    #[pyfunction]
    fn run_command(py: Python<'_>, arguments: Vec<String>) -> u8 {
        cagey::memory::keep_freed();
        cagey::device::ignore_settings_files();
        let arguments = arguments.into_iter().map(Into::into).collect::<Vec<std::ffi::OsString>>();
        let code = py.detach(|| cagey::cli::run_with(arguments, cagey::fitted::Registry::default()));
        // An exit code cannot be read, only compared.
        (0..=2).find(|known| code == (*known).into()).unwrap_or(1)
    }

    /// The number of threads that `threads=None` stands for.
    #[pyfunction]
    fn default_threads() -> usize {
        pool::usual()
    }
}
