//! Writing files so that a failure leaves no half-written file.

use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

use crate::atomic::{self, links, write_atomically};
use crate::plain::plain;
use crate::{Error, Result};

/// Writes `path` with `write`: first to a temporary file in the same folder, which gets the name once it is complete.
///
/// `-` is standard output; there a reader that stops early is not an error. A device or a pipe is written in place. A
/// symbolic link keeps its name.
///
/// # Errors
/// [`Error::Io`] naming `path`; the old contents are then unchanged.
pub fn atomic_write(path: impl AsRef<Path>, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let path = path.as_ref();
    let io = |source: io::Error| Error::io(path, &source);
    match Place::of(path) {
        Place::Output => match output(write) {
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(Error::io("standard output", &e)),
            _ => Ok(()),
        },
        Place::Device => {
            links::check(path)?;
            File::create(path).and_then(|file| buffered(file, write)).map_err(io)
        }
        Place::File => write_atomically(path, |file| buffered(file, write).map_err(io)).map(drop),
    }
}

/// Checks whether [`atomic_write`] could write `path`, without touching it. Call it before a long computation.
///
/// # Errors
/// [`Error::Io`] naming `path`.
pub fn check_destination(path: impl AsRef<Path>) -> Result<()> {
    match Place::of(path.as_ref()) {
        Place::Output | Place::Device => Ok(()),
        Place::File => atomic::check(path.as_ref()),
    }
}

/// As [`check_destination`], for files that are renamed into their place and so must be regular files: models, states,
/// figures, files of rows.
///
/// # Errors
/// [`Error::Io`] naming `path`.
pub fn check_file(path: impl AsRef<Path>) -> Result<()> {
    atomic::check(path.as_ref())
}

/// The kind of place that a path names.
enum Place {
    /// Standard output.
    Output,
    /// A device, a pipe or similar, which cannot be replaced.
    Device,
    /// A file, whether or not it exists yet.
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

/// Writes to standard output; to a terminal as [`plain`] text, since cells may be anybody's.
fn output(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    if !stdout.is_terminal() {
        return buffered(stdout, write);
    }
    let mut text = Vec::new();
    write(&mut text)?;
    stdout.write_all(plain(&String::from_utf8_lossy(&text)).as_bytes())?;
    stdout.flush()
}

fn buffered(sink: impl Write, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut sink = BufWriter::with_capacity(1 << 16, sink);
    let written = write(&mut sink).and_then(|()| sink.flush());
    if written.is_err() {
        // Otherwise dropping the buffer would try again to write it.
        let _ = sink.into_parts();
    }
    written
}
