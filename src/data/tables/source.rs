//! Opening a path: standard input, gzip, and the format of the bytes.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;

use super::csv::CsvTable;
use super::frame::Frame;
use super::options::ReadOptions;
use super::table::{IsHeader, Table};
use super::{idx, npy};
use crate::{Error, Result};

/// How many bytes of a file are examined to recognise its format and delimiter.
const PEEK: u64 = 1 << 16;

/// Where a table comes from.
pub(super) struct Origin<'a> {
    path: &'a Path,
    /// The bytes of a pipe that is to be read again.
    held: Option<Arc<[u8]>>,
    /// A table that is in memory, not in a file.
    frame: Option<&'a Frame>,
}

impl<'a> Origin<'a> {
    /// A table that is opened once.
    pub(super) fn once(path: &'a Path) -> Self {
        Self { path, held: None, frame: None }
    }

    /// A table in memory.
    pub(super) fn frame(frame: &'a Frame) -> Self {
        Self { frame: Some(frame), ..Self::once(Path::new("")) }
    }

    /// A table that can be opened again and again.
    pub(super) fn again(path: &'a Path) -> Result<Self> {
        if !is_stdin(path) && (path.is_file() || path.is_dir() || !path.exists()) {
            return Ok(Self::once(path));
        }
        let mut bytes = Vec::new();
        Self::once(path).raw()?.read_to_end(&mut bytes).map_err(|e| Error::io(display_name(path), &e))?;
        Ok(Self { held: Some(bytes.into()), ..Self::once(path) })
    }

    fn raw(&self) -> Result<Box<dyn Read>> {
        if let Some(bytes) = &self.held {
            return Ok(Box::new(Cursor::new(bytes.clone())));
        }
        if is_stdin(self.path) {
            return Ok(Box::new(io::stdin().lock()));
        }
        if self.path.is_dir() {
            return Err(Error::io(self.path, &io::ErrorKind::IsADirectory.into()));
        }
        let file = File::open(self.path).map_err(|e| Error::io(self.path, &e))?;
        Ok(Box::new(file))
    }
}

/// Opens a table in any of the formats.
pub(super) fn open(origin: &Origin, options: &ReadOptions, is_header: IsHeader) -> Result<Box<dyn Table>> {
    if let Some(frame) = origin.frame {
        return Ok(frame.table());
    }
    let path = origin.path;
    let file = display_name(path);
    let Unpacked { head, reader, zipped } = unpack(origin, &file)?;
    let problem = match head.as_slice() {
        [] => "the file is empty",
        [b'P', b'A', b'R', b'1', ..] if zipped || is_stdin(path) => {
            "Parquet is read from uncompressed files only; save it to one first"
        }
        [b'P', b'A', b'R', b'1', ..] => return open_parquet(path, file),
        [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => return npy::read(reader, file),
        head if idx::recognised(head) => {
            let beside = idx::labels_beside(path).map(|path| {
                let file = display_name(&path);
                unpack(&Origin::once(&path), &file).map(|labels| (labels.reader, file))
            });
            return idx::read((reader, file), beside.transpose()?);
        }
        head if head.get(8..).is_some_and(|rest| rest.starts_with(b"{\"__metadata__\"")) => {
            "this is a saved model, not a table; `cagey inspect` describes it"
        }
        [b'P', b'K', 3, 4, ..] => "this is a zip archive or a spreadsheet; export it as CSV",
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "the text is UTF-16; save it as UTF-8",
        _ => {
            let delimiter = options.delimiter.unwrap_or_else(|| delimiter(path, &head, options.decimal_comma));
            return Ok(Box::new(CsvTable::open(reader, file, (delimiter, options), is_header)?));
        }
    };
    Err(Error::Data(format!("{file}: {problem}")))
}

/// A file's bytes, unpacked if they were in gzip.
struct Unpacked {
    /// The first bytes.
    head: Vec<u8>,
    /// All bytes.
    reader: Box<dyn Read>,
    zipped: bool,
}

fn unpack(origin: &Origin, file: &str) -> Result<Unpacked> {
    let (head, reader) = peek(origin.raw()?).map_err(|e| Error::io(file, &e))?;
    if !head.starts_with(&[0x1f, 0x8b]) {
        return Ok(Unpacked { head, reader, zipped: false });
    }
    let (head, reader) = peek(Box::new(MultiGzDecoder::new(reader))).map_err(|e| damaged_gzip(file, &e))?;
    Ok(Unpacked { head, reader, zipped: true })
}

/// The name of a path in messages.
pub(super) fn display_name(path: &Path) -> String {
    if is_stdin(path) { "standard input".to_owned() } else { path.display().to_string() }
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The first bytes of a stream, and the stream with these bytes still in it.
fn peek(mut reader: Box<dyn Read>) -> io::Result<(Vec<u8>, Box<dyn Read>)> {
    let mut head = Vec::new();
    reader.by_ref().take(PEEK).read_to_end(&mut head)?;
    if head.starts_with(b"\xef\xbb\xbf") {
        head.drain(..3);
    }
    Ok((head.clone(), Box::new(Cursor::new(head).chain(reader))))
}

fn damaged_gzip(file: &str, source: &io::Error) -> Error {
    Error::Io { path: file.to_owned(), problem: format!("cannot unpack the gzip file: {source}; it may be cut short") }
}

/// The delimiter: tab for `.tsv` and `.tab`, else the most frequent of comma, tab and semicolon in the first line
/// outside quotes. Commas within numbers do not count.
fn delimiter(path: &Path, head: &[u8], decimal_comma: bool) -> u8 {
    let name = path.to_string_lossy().to_ascii_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    if name.ends_with(".tsv") || name.ends_with(".tab") {
        return b'\t';
    }
    let all = [(b';', 0), (b'\t', 0), (b',', 0)];
    let mut counts = all[..if decimal_comma { 2 } else { 3 }].to_vec();
    let mut quoted = false;
    let text = head.trim_ascii_start();
    for &byte in text.iter().take_while(|byte| !matches!(byte, b'\n' | b'\r')) {
        quoted ^= byte == b'"';
        if let Some(count) = counts.iter_mut().find(|count| count.0 == byte && !quoted) {
            count.1 += 1;
        }
    }
    counts.iter().max_by_key(|count| count.1).map_or(b',', |count| count.0)
}

#[cfg(feature = "parquet")]
fn open_parquet(path: &Path, file: String) -> Result<Box<dyn Table>> {
    Ok(Box::new(super::parquet::ParquetTable::open(path, file)?))
}

#[cfg(not(feature = "parquet"))]
fn open_parquet(_: &Path, file: String) -> Result<Box<dyn Table>> {
    Err(Error::Data(format!(
        "{file}: this build cannot read Parquet; build with `--features parquet` or convert the file to CSV"
    )))
}
