//! Writing files so that a failure leaves nothing half-written behind.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use tempfile::{Builder, NamedTempFile};

use super::dataset::Kept;
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
    if path.as_os_str() == "-" {
        return match buffered(io::stdout().lock(), write) {
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(Error::io("standard output", &e)),
            _ => Ok(()),
        };
    }
    replace(path, write).map_err(|e| {
        let problem = match e.kind() {
            io::ErrorKind::NotFound => "the folder does not exist; create it first".to_owned(),
            io::ErrorKind::IsADirectory => "this is a directory; name a file in it".to_owned(),
            io::ErrorKind::StorageFull => "the disk is full; free some space and try again".to_owned(),
            _ => e.to_string(),
        };
        Error::Io { path: path.display().to_string(), problem }
    })
}

/// Writes a CSV file with the kept columns of the input, if any, followed by columns of numbers `[n]`.
///
/// Numbers are written in the fewest digits that read back as the same number.
///
/// # Errors
/// [`Error::Shape`] if the columns differ in length, [`Error::Io`] as in [`atomic_write`].
pub fn write_predictions(path: impl AsRef<Path>, kept: Option<&Kept>, columns: &[(&str, &[f64])]) -> Result<()> {
    let n = kept.map(Kept::len).or_else(|| columns.first().map(|(_, values)| values.len())).unwrap_or(0);
    for (name, values) in columns {
        if values.len() != n {
            return Err(Error::shape(format!("column `{name}`"), format!("{n} values"), values.len().to_string()));
        }
    }
    atomic_write(path, |file| {
        let mut writer = csv::Writer::from_writer(file);
        for name in kept.iter().flat_map(|kept| &kept.names) {
            writer.write_field(name)?;
        }
        writer.write_record(columns.iter().map(|(name, _)| name))?;
        for i in 0..n {
            for cell in kept.iter().flat_map(|kept| kept.row(i)) {
                writer.write_field(cell)?;
            }
            writer.write_record(columns.iter().map(|(_, values)| format!("{:?}", values[i])))?;
        }
        writer.flush()
    })
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

fn replace(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let existing = fs::metadata(&target).ok();
    match &existing {
        Some(meta) if meta.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Some(meta) if !meta.is_file() => return buffered(File::create(&target)?, write),
        _ => {}
    }
    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let temporary = temporary_file(folder)?;
    buffered(temporary.as_file(), write)?;
    if let Some(meta) = existing {
        temporary.as_file().set_permissions(meta.permissions())?;
    }
    temporary.as_file().sync_all()?;
    temporary.persist(&target).map_err(|e| e.error)?;
    Ok(())
}

/// A temporary file that the finished file's readers may read: the default would be private to its owner.
fn temporary_file(folder: &Path) -> io::Result<NamedTempFile> {
    let mut builder = Builder::new();
    builder.prefix(".cagey-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666)).tempfile_in(folder)
    }
    #[cfg(not(unix))]
    builder.tempfile_in(folder)
}
