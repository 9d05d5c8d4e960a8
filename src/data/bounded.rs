//! An end to rows that have none.

use std::cell::Cell;
use std::fmt;
use std::io::{self, Read};
use std::rc::Rc;

/// Bytes of a row of text: far beyond any use, far below what memory holds.
pub(super) const LONGEST_ROW: usize = 64 << 20;

/// What is known of the row that is being read.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Bytes since the row before it was complete.
    bytes: Cell<usize>,
    /// Bytes, delimiters and whether there was an odd number of quotes since the last line end.
    line: Cell<(usize, usize, bool)>,
}

impl Progress {
    /// The row is complete.
    pub(super) fn next_row(&self) {
        self.bytes.set(0);
    }
}

/// A stream of text that fails where a row is longer than [`LONGEST_ROW`].
pub(super) struct Bounded<R> {
    inner: R,
    delimiter: u8,
    progress: Rc<Progress>,
}

impl<R: Read> Bounded<R> {
    pub(super) fn new(inner: R, delimiter: u8) -> (Self, Rc<Progress>) {
        let progress = Rc::new(Progress::default());
        (Self { inner, delimiter, progress: progress.clone() }, progress)
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (bytes, line) = (self.progress.bytes.get(), self.progress.line.get());
        if bytes > LONGEST_ROW {
            let (length, delimiters, _) = line;
            return Err(io::Error::other(Endless { column: (length > LONGEST_ROW).then_some(delimiters) }));
        }
        let n = self.inner.read(buffer)?;
        let read = &buffer[..n];
        let end = read.iter().rposition(|&byte| byte == b'\n');
        let (mut length, mut delimiters, mut quoted) = if end.is_some() { (0, 0, false) } else { line };
        for &byte in &read[end.map_or(0, |end| end + 1)..] {
            length += 1;
            quoted ^= byte == b'"';
            delimiters += usize::from(byte == self.delimiter && !quoted);
        }
        self.progress.bytes.set(bytes + n);
        self.progress.line.set((length, delimiters, quoted));
        Ok(n)
    }
}

/// A row that does not end.
#[derive(Debug)]
pub(super) struct Endless {
    /// Where all of it is one line: the column that it had come to.
    pub(super) column: Option<usize>,
}

impl fmt::Display for Endless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the row is longer than {} MiB", LONGEST_ROW >> 20)
    }
}

impl std::error::Error for Endless {}
