//! Limits on the length of a row and its cells, for files without line ends.

use std::cell::Cell;
use std::fmt;
use std::io::{self, Read};
use std::rc::Rc;

/// The most bytes of a row of text: far more than any real row, far less than memory.
pub(super) const LONGEST_ROW: usize = 64 << 20;

/// The most cells of a row of text. Each becomes a name and a column, so that a few packed kilobytes of delimiters
/// could fill the memory.
pub(super) const MOST_CELLS: usize = 1 << 20;

/// What is known about the text read so far.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Bytes since the end of the last complete row.
    bytes: Cell<usize>,
    line: Cell<Line>,
}

/// The line being read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Line {
    /// The number of lines before it.
    pub(super) before: u64,
    /// The place in the text where it starts.
    pub(super) start: u64,
    /// The number of delimiters in it so far, outside quotes.
    pub(super) delimiters: usize,
    quoted: bool,
}

impl Progress {
    /// Notes that a row is complete.
    pub(super) fn next_row(&self) {
        self.bytes.set(0);
    }
}

/// A stream of text that fails if a row is longer than [`LONGEST_ROW`] or has more than [`MOST_CELLS`] cells.
pub(super) struct Bounded<R> {
    inner: R,
    delimiter: u8,
    /// The number of bytes read.
    at: u64,
    progress: Rc<Progress>,
}

impl<R: Read> Bounded<R> {
    pub(super) fn new(inner: R, delimiter: u8) -> (Self, Rc<Progress>) {
        let progress = Rc::new(Progress::default());
        (Self { inner, delimiter, at: 0, progress: progress.clone() }, progress)
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (bytes, mut line) = (self.progress.bytes.get(), self.progress.line.get());
        if bytes > LONGEST_ROW || line.delimiters >= MOST_CELLS {
            return Err(io::Error::other(Endless(line)));
        }
        let n = self.inner.read(buffer)?;
        let read = &buffer[..n];
        let last = read.iter().rposition(|&byte| byte == b'\n');
        if let Some(end) = last {
            let before = line.before + read.iter().filter(|&&byte| byte == b'\n').count() as u64;
            line = Line { before, start: self.at + end as u64 + 1, ..Line::default() };
        }
        for &byte in &read[last.map_or(0, |end| end + 1)..] {
            line.quoted ^= byte == b'"';
            line.delimiters += usize::from(byte == self.delimiter && !line.quoted);
        }
        self.at += n as u64;
        self.progress.bytes.set(bytes + n);
        self.progress.line.set(line);
        Ok(n)
    }
}

/// The error of a row that does not end, with the line that was being read.
#[derive(Debug)]
pub(super) struct Endless(pub(super) Line);

impl fmt::Display for Endless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.delimiters {
            MOST_CELLS.. => write!(f, "the row has more than {MOST_CELLS} cells"),
            _ => write!(f, "the row is longer than {} MiB", LONGEST_ROW >> 20),
        }
    }
}

impl std::error::Error for Endless {}
