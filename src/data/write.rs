//! Writing files so that a failure leaves nothing half-written behind.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::dataset::Kept;
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

/// Writes a CSV file with the kept columns of the input, if any, followed by columns of numbers `[n]`.
///
/// Numbers are written in the fewest digits that read back as the same number.
///
/// # Errors
/// [`Error::Shape`] if the columns differ in length, [`Error::Io`] as in [`atomic_write`].
pub fn write_predictions(path: impl AsRef<Path>, kept: Option<&Kept>, columns: &[(&str, &[f64])]) -> Result<()> {
    write_labelled(path, kept, None, columns)
}

/// The same with a column of words `[n]`, by its name, before the numbers.
///
/// # Errors
/// As [`write_predictions`].
pub fn write_labelled(
    path: impl AsRef<Path>,
    kept: Option<&Kept>,
    labels: Option<(&str, &[&str])>,
    columns: &[(&str, &[f64])],
) -> Result<()> {
    let n = kept.map(Kept::len).or_else(|| columns.first().map(|(_, values)| values.len())).unwrap_or(0);
    let lengths = labels.iter().map(|(name, values)| (*name, values.len()));
    for (name, length) in lengths.chain(columns.iter().map(|(name, values)| (*name, values.len()))) {
        if length != n {
            return Err(Error::shape(format!("column `{name}`"), format!("{n} values"), length.to_string()));
        }
    }
    atomic_write(path, |file| {
        let mut writer = csv::Writer::from_writer(file);
        let names = kept.iter().flat_map(|kept| &kept.names).map(String::as_str);
        let names = names.chain(labels.map(|(name, _)| name));
        writer.write_record(names.chain(columns.iter().map(|(name, _)| *name))).map_err(cause)?;
        for i in 0..n {
            for cell in kept.iter().flat_map(|kept| kept.row(i)).chain(labels.map(|(_, labels)| labels[i])) {
                writer.write_field(cell).map_err(cause)?;
            }
            writer.write_record(columns.iter().map(|(_, values)| format!("{:?}", values[i]))).map_err(cause)?;
        }
        writer.flush()
    })
}

/// The I/O failure behind one of CSV: the usual conversion hides its kind, such as a closed pipe or a full disk.
fn cause(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(source) => source,
        other => io::Error::other(format!("{other:?}")),
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
