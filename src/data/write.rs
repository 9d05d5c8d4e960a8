//! Writing files so that a failure leaves nothing half-written behind.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::atomic::{self, write_atomically};
use crate::{Error, Result};

/// Writes `path` through `write`: into a temporary file in the same folder, which takes the name once complete.
///
/// `-` is standard output, where a reader that stops early is no error. A device or a pipe is written in place, a
/// symbolic link keeps its name.
///
/// # Errors
/// [`Error::Io`] naming `path`; what was there before is then unchanged.
pub fn atomic_write(path: impl AsRef<Path>, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let path = path.as_ref();
    let io = |source: io::Error| Error::io(path, &source);
    match Place::of(path) {
        Place::Output => match buffered(io::stdout().lock(), write) {
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(Error::io("standard output", &e)),
            _ => Ok(()),
        },
        Place::Device => File::create(path).and_then(|file| buffered(file, write)).map_err(io),
        Place::File => write_atomically(path, |file| buffered(file, write).map_err(io)).map(drop),
    }
}

/// Finds out, without touching it, whether [`atomic_write`] could write `path`: better before a long computation than
/// after it.
///
/// # Errors
/// [`Error::Io`] naming `path`.
pub fn check_destination(path: impl AsRef<Path>) -> Result<()> {
    match Place::of(path.as_ref()) {
        Place::Output | Place::Device => Ok(()),
        Place::File => atomic::check(path.as_ref()),
    }
}

/// The same for what is renamed into its place and so must be a regular file: models, states, figures, files of rows.
///
/// # Errors
/// [`Error::Io`] naming `path`.
pub fn check_file(path: impl AsRef<Path>) -> Result<()> {
    atomic::check(path.as_ref())
}

/// What a path names.
enum Place {
    /// Standard output.
    Output,
    /// A device, a pipe or the like, which cannot be replaced.
    Device,
    /// A file, whether or not it is there yet.
    File,
}

impl Place {
    fn of(path: &Path) -> Self {
        match fs::metadata(path) {
            _ if path.as_os_str() == "-" => Self::Output,
            Ok(existing) if !existing.is_file() && !existing.is_dir() => Self::Device,
            _ => Self::File,
        }
    }
}

fn buffered(sink: impl Write, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut sink = BufWriter::with_capacity(1 << 16, sink);
    let written = write(&mut sink).and_then(|()| sink.flush());
    if written.is_err() {
        // Else dropping the buffer would try once more to write it.
        let _ = sink.into_parts();
    }
    written
}
