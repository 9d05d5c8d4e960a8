//! The one error type of the library: every failure that data, options or files can cause.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::advice::{Advice, Setting};

/// What went wrong, with the values that a reader needs to correct it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    #[error("{path}: {problem}")]
    Io {
        /// The path as the user gave it.
        path: String,
        /// The system's reason, with advice if there is any.
        problem: String,
    },
    /// A data set cannot be used as it is; the message names file, row and column if there are any.
    #[error("{0}")]
    Data(String),
    /// A kernel expression does not parse or does not fit the data; `pointer` marks the place.
    #[error("kernel: {problem}\n  {text}\n  {pointer}")]
    KernelText {
        /// What is wrong and what would be right.
        problem: String,
        /// The expression.
        text: String,
        /// Spaces and carets under the offending part.
        pointer: String,
    },
    /// An option or argument has no valid value.
    #[error("{0}")]
    Usage(String),
    /// Shapes do not fit together.
    #[error("{what}: expected {expected}, got {got}")]
    Shape {
        /// The quantity whose shape is wrong.
        what: String,
        /// The shape that fits.
        expected: String,
        /// The shape that was given.
        got: String,
    },
    /// A matrix that must be positive definite is not, even with the largest permitted jitter.
    #[error(
        "{matrix} [{size}, {size}] ({dtype}) is not positive definite: pivot {pivot} failed with jitter {jitter:.1e} \
         (relative to the mean diagonal); try a larger noise variance or shorter lengthscales, or remove duplicate \
         rows{}",
        if *.finite { "" } else { ". It holds NaN or infinite entries" }
    )]
    NotPositiveDefinite {
        /// The name of the matrix in the papers' notation.
        matrix: String,
        /// Number of rows.
        size: usize,
        /// `f32` or `f64`.
        dtype: &'static str,
        /// The first pivot that failed.
        pivot: usize,
        /// The largest relative jitter tried.
        jitter: f64,
        /// Whether all entries of the matrix were finite.
        finite: bool,
    },
    /// A computed value is NaN or infinite.
    #[error("{0} is not finite; look for extreme values among data, initial values, bounds and priors")]
    NotFinite(String),
    /// An iterative solver ended with a residual, or a last step, above its tolerance.
    #[error(
        "{what}: not converged after {iterations} iterations: the relative error {residual:.1e} is above the tolerance \
         {tolerance:.1e}: {reason}"
    )]
    NotConverged {
        /// The system that was solved.
        what: String,
        /// The relative residual reached, or the relative size of the last step.
        residual: f64,
        /// The one asked for.
        tolerance: f64,
        /// Iterations taken.
        iterations: usize,
        /// Why the solver ended, with advice.
        reason: String,
    },
    /// Another rank of the job failed.
    #[error("rank {rank}: {problem}")]
    Remote {
        /// The rank.
        rank: usize,
        /// The kind of failure.
        kind: ErrorKind,
        /// What went wrong there.
        problem: String,
    },
    /// A failure, and the settings that would prevent it.
    #[error("{}", shown(.error, .settings))]
    Advised {
        /// What went wrong.
        error: Box<Error>,
        /// What to change.
        settings: Vec<Setting>,
    },
    /// A device or data type is not available.
    #[error("device: {0}")]
    Device(String),
    /// A model file is damaged, of another version, or not a model file.
    #[error("{path}: {problem}")]
    ModelFile {
        /// The file.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// The kind of failure, by which a service chooses its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request is wrong: data, settings, text or shapes that cannot be used. The same request fails again.
    Request,
    /// A training, factorisation or solve did not converge to finite numbers. With other data or settings it may.
    Training,
    /// A file cannot be read or written, or holds no model.
    File,
    /// The device or its precision is not available, or did not answer.
    Device,
}

/// The result of a fallible library function.
pub type Result<T> = std::result::Result<T, Error>;

fn advice(error: &Error, settings: &[Setting]) -> Advice {
    Advice { text: error.to_string(), settings: settings.to_vec() }
}

fn shown(error: &Error, settings: &[Setting]) -> String {
    advice(error, settings).to_string()
}

impl Error {
    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Data(_) | Self::KernelText { .. } | Self::Usage(_) | Self::Shape { .. } => ErrorKind::Request,
            Self::NotPositiveDefinite { .. } | Self::NotFinite(_) | Self::NotConverged { .. } => ErrorKind::Training,
            Self::Io { .. } | Self::ModelFile { .. } => ErrorKind::File,
            Self::Device(_) => ErrorKind::Device,
            Self::Remote { kind, .. } => *kind,
            Self::Advised { error, .. } => error.kind(),
        }
    }

    /// The same error with settings that would prevent it.
    pub fn advised(self, more: Vec<Setting>) -> Self {
        let (error, mut settings) = self.parted();
        settings.extend(more);
        if settings.is_empty() { error } else { Self::Advised { error: Box::new(error), settings } }
    }

    /// The same error with a field that would prevent it; see [`Advice::about`].
    pub fn about(self, field: &'static str) -> Self {
        self.advised(vec![Setting { field: field.into(), value: None }])
    }

    /// The same error with a field and a value that would prevent it; see [`Advice::set`].
    pub fn set(self, field: &'static str, value: impl std::fmt::Display) -> Self {
        self.advised(vec![Setting { field: field.into(), value: Some(value.to_string()) }])
    }

    /// Splits off the settings that would prevent the error.
    fn parted(self) -> (Self, Vec<Setting>) {
        match self {
            Self::Advised { error, settings } => (*error, settings),
            other => (other, Vec::new()),
        }
    }

    /// Replaces the error by another one about the same settings.
    pub fn map(self, f: impl FnOnce(Self) -> Self) -> Self {
        let (error, settings) = self.parted();
        f(error).advised(settings)
    }

    /// The error without the settings that would prevent it.
    pub fn cause(&self) -> &Self {
        match self {
            Self::Advised { error, .. } => error.cause(),
            other => other,
        }
    }

    /// The message to a user, whose program may have its own names for settings.
    pub fn advice(&self) -> Advice {
        match self {
            Self::Advised { error, settings } => advice(error, settings),
            other => other.to_string().into(),
        }
    }

    /// An I/O failure at `path`. For common reasons, the message says what to do.
    pub fn io(path: impl AsRef<Path>, source: &std::io::Error) -> Self {
        use std::io::ErrorKind;
        let problem = match source.kind() {
            ErrorKind::NotFound => "no such file or folder; check the spelling",
            ErrorKind::IsADirectory => "this is a directory; name a file in it",
            ErrorKind::NotADirectory => "a part of this path is a file, not a folder; check the spelling",
            ErrorKind::PermissionDenied => "no permission; change its mode or owner, or choose another place",
            ErrorKind::ReadOnlyFilesystem => "the file system is read-only; choose another place",
            ErrorKind::StorageFull => "the disk is full; free some space and try again",
            _ => &source.to_string(),
        };
        Self::Io { path: path.as_ref().display().to_string(), problem: problem.into() }
    }

    /// A shape mismatch.
    pub fn shape(what: impl Into<String>, expected: impl Into<String>, got: impl Into<String>) -> Self {
        Self::Shape { what: what.into(), expected: expected.into(), got: got.into() }
    }
}
