//! Delimited text, row by row.

use std::io::{self, Chain, Read};
use std::rc::Rc;

use ::csv::{ByteRecord, ErrorKind, Position, Reader, ReaderBuilder};

use super::bounded::{Bounded, Endless, Progress};
use super::cell::Cell;
use super::notation::exchanged;
use super::options::{Header, ReadOptions};
use super::table::{IsHeader, Layout, Table, positional_names};
use crate::{Error, Result};

/// An open CSV or TSV file.
pub(super) struct CsvTable {
    reader: Reader<Bounded<Newlines>>,
    progress: Rc<Progress>,
    record: ByteRecord,
    /// The line on which `record` starts.
    line: usize,
    /// The reader's position after it.
    next: Position,
    /// Whether `record` already holds the next row: the first line of a file without header.
    waiting: bool,
    /// The row after it and its line, if it was read to recognise a header.
    ahead: Option<(ByteRecord, usize)>,
    /// The cells of the current row with decimal points instead of decimal commas, if the file has decimal commas.
    decimals: Option<Vec<Option<String>>>,
    layout: Layout,
}

impl CsvTable {
    pub(super) fn open(
        reader: Box<dyn Read>,
        file: String,
        (delimiter, options): (u8, &ReadOptions),
        is_header: IsHeader,
    ) -> Result<Self> {
        let ReadOptions { header, decimal_comma, .. } = *options;
        let (bounded, progress) = Bounded::new(Newlines::new(reader), delimiter);
        let reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .buffer_capacity(1 << 16)
            .from_reader(bounded);
        let layout = Layout { file, names: Vec::new(), named: false };
        let decimals = decimal_comma.then(Vec::new);
        let mut table = Self {
            reader,
            progress,
            record: ByteRecord::new(),
            line: 0,
            next: Position::new(),
            waiting: false,
            ahead: None,
            decimals,
            layout,
        };
        if !table.read()? {
            return Err(table.layout.error("the file is empty"));
        }
        // This order, because names are needed to point at a cell that is not UTF-8.
        table.layout.names = positional_names(table.record.len());
        let width = table.record.len();
        let cells = (0..width).map(|column| table.text(column).map(str::to_owned)).collect::<Result<Vec<_>>>()?;
        let points = |cells: &[String]| match decimal_comma {
            true => cells.iter().map(|cell| exchanged(cell).unwrap_or_else(|| cell.clone())).collect(),
            false => cells.to_vec(),
        };
        let named = match header {
            Header::Yes => true,
            Header::No => false,
            Header::Auto => is_header(&points(&cells), &points(&table.peek()?)),
        };
        if named {
            let name = |(column, cell): (usize, &String)| match cell.trim() {
                "" => format!("c{column}"),
                name => name.to_owned(),
            };
            table.layout.names = cells.iter().enumerate().map(name).collect();
        }
        table.layout.named = named;
        table.waiting = !named;
        Ok(table)
    }

    fn read(&mut self) -> Result<bool> {
        let read = self.reader.read_byte_record(&mut self.record).map_err(|e| match e.into_kind() {
            ErrorKind::Io(e) => match e.get_ref().and_then(|cause| cause.downcast_ref::<Endless>()) {
                Some(endless) => self.endless(endless),
                None => Error::io(&self.layout.file, &e),
            },
            other => self.layout.error(format_args!("{other:?}")),
        })?;
        self.progress.next_row();
        self.next = self.reader.position().clone();
        // The record's own position lies before the empty lines that the reader skips, so its end is more exact. A
        // quote that is not closed is the exception: it includes the end of its line.
        let inside = self.record.as_slice().iter().filter(|&&byte| byte == b'\n').count();
        let by_end = (self.reader.position().line() as usize).saturating_sub(1 + inside);
        self.line = by_end.max(self.record.position().map_or(0, |start| start.line() as usize));
        Ok(read)
    }

    /// The error for a next row that is too long.
    fn endless(&self, endless: &Endless) -> Error {
        let Endless(line) = endless;
        // If a quote is open, there are lines between that are not empty.
        let empty = line.start.saturating_sub(self.next.byte()) == (line.before + 1).saturating_sub(self.next.line());
        let (row, column, what) = match (empty, self.layout.names.get(line.delimiters)) {
            (true, Some(name)) => (line.before + 1, format!(", column `{name}`"), "line ends"),
            (true, None) => (line.before + 1, format!(", cell {}", line.delimiters + 1), "line ends"),
            (false, _) => (self.next.line(), String::new(), "a quote that is not closed"),
        };
        self.layout.error(format_args!("row {row}{column}: {endless}; look for {what}"))
    }

    /// The cells of the row after the current one; none at the end.
    fn peek(&mut self) -> Result<Vec<String>> {
        let (record, line) = (self.record.clone(), self.line);
        if !self.read()? {
            (self.record, self.line) = (record, line);
            return Ok(Vec::new());
        }
        let cells = self.record.iter().map(|cell| String::from_utf8_lossy(cell).into_owned()).collect();
        self.ahead = Some((std::mem::replace(&mut self.record, record), std::mem::replace(&mut self.line, line)));
        Ok(cells)
    }

    fn text(&self, column: usize) -> Result<&str> {
        let bytes = &self.record[column];
        std::str::from_utf8(bytes).map_err(|_| {
            let shown = Cell::Text(&String::from_utf8_lossy(bytes)).quoted();
            let problem = format_args!("{shown} is not UTF-8 text; convert the file, for example with `iconv`");
            self.layout.cell_error(self.line, column, problem)
        })
    }
}

impl Table for CsvTable {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn advance(&mut self) -> Result<Option<usize>> {
        if !std::mem::take(&mut self.waiting) {
            match self.ahead.take() {
                Some(ahead) => (self.record, self.line) = ahead,
                None if !self.read()? => return Ok(None),
                None => {}
            }
        }
        let (width, expected) = (self.record.len(), self.layout.names.len());
        if width != expected {
            return Err(self.layout.error(format_args!(
                "row {} has {width} cells, but the first has {expected}; look for a missing or extra delimiter or an \
                 unclosed quote",
                self.line
            )));
        }
        if let Some(decimals) = &mut self.decimals {
            let cells = self.record.iter().map(|cell| std::str::from_utf8(cell).ok().and_then(exchanged));
            *decimals = cells.collect();
        }
        Ok(Some(self.line))
    }

    fn cell(&self, column: usize) -> Result<Cell<'_>> {
        let text = self.text(column)?;
        let Some(decimals) = &self.decimals else { return Ok(Cell::Text(text)) };
        if let Some(exchanged) = decimals.get(column).and_then(Option::as_deref) {
            return Ok(Cell::Text(exchanged));
        }
        if text.contains('.') && text.trim().parse::<f64>().is_ok() {
            let problem =
                format_args!("{} has a decimal point, but numbers have commas; correct it", Cell::Text(text).quoted());
            return Err(self.layout.cell_error(self.line, column, problem));
        }
        Ok(Cell::Text(text))
    }
}

/// A text stream with every line end (`\r\n`, `\r` or `\n`) as `\n`, and one at its very end.
struct Newlines {
    inner: Chain<Box<dyn Read>, &'static [u8]>,
    after_return: bool,
}

impl Newlines {
    fn new(inner: Box<dyn Read>) -> Self {
        Self { inner: inner.chain(b"\n".as_slice()), after_return: false }
    }
}

impl Read for Newlines {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let n = self.inner.read(buffer)?;
            if n == 0 || (!self.after_return && !buffer[..n].contains(&b'\r')) {
                return Ok(n);
            }
            let mut kept = 0;
            for i in 0..n {
                let byte = buffer[i];
                let second_half = self.after_return && byte == b'\n';
                self.after_return = byte == b'\r';
                if !second_half {
                    buffer[kept] = if byte == b'\r' { b'\n' } else { byte };
                    kept += 1;
                }
            }
            // All bytes may have been the second half of a line end. Returning 0 would mean the end of the file.
            if kept > 0 {
                return Ok(kept);
            }
        }
    }
}
