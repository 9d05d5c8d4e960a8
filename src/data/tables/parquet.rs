//! Parquet files through their record reader, which panics on some damaged files: that is an error like others.

use std::cell::Cell as Flag;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use jiff::{Span, Timestamp, civil::date, tz::Offset};
use parquet::basic::{LogicalType, TimeUnit, TimestampType};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::record::reader::RowIter;

use super::cell::Cell;
use super::table::{Layout, Table};
use crate::{Error, Result};

/// An open Parquet file.
pub(super) struct ParquetTable {
    rows: RowIter<'static>,
    cells: Vec<Owned>,
    /// The columns that are times in nanoseconds. The record reader returns these as whole numbers.
    nanoseconds: Vec<bool>,
    given: usize,
    layout: Layout,
}

enum Owned {
    Number(f64),
    Text(String),
}

thread_local! {
    static GUARDED: Flag<bool> = const { Flag::new(false) };
}

/// Whether a panic of this thread becomes an error, so that nobody needs to see it.
#[cfg(feature = "command")]
pub(crate) fn is_guarded() -> bool {
    GUARDED.get()
}

/// What the crate returns, or its error or panic in words.
fn guarded<T>(read: impl FnOnce() -> parquet::errors::Result<T>) -> std::result::Result<T, String> {
    GUARDED.set(true);
    let read = catch_unwind(AssertUnwindSafe(read));
    GUARDED.set(false);
    match read {
        Ok(read) => read.map_err(|problem| problem.to_string()),
        Err(_) => Err("its parts contradict each other".into()),
    }
}

impl ParquetTable {
    pub(super) fn open(path: &Path, file: String) -> Result<Self> {
        let handle = File::open(path).map_err(|e| Error::io(&file, &e))?;
        let mut layout = Layout { file, names: Vec::new(), named: true };
        let reader = guarded(|| SerializedFileReader::new(handle));
        let reader = reader.map_err(|e| layout.error(format_args!("damaged Parquet: {e}")))?;
        let schema = reader.metadata().file_metadata().schema();
        layout.names = schema.get_fields().iter().map(|field| field.name().to_owned()).collect();
        let nanoseconds = schema.get_fields().iter().map(|field| {
            let kind = field.get_basic_info().logical_type_ref();
            matches!(kind, Some(LogicalType::Timestamp(TimestampType { unit: TimeUnit::NANOS, .. })))
        });
        let nanoseconds = nanoseconds.collect();
        let rows = guarded(|| Ok(reader.into_iter()));
        let rows = rows.map_err(|e| layout.error(format_args!("damaged Parquet: {e}")))?;
        Ok(Self { rows, cells: Vec::new(), nanoseconds, given: 0, layout })
    }
}

impl Table for ParquetTable {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn advance(&mut self) -> Result<Option<usize>> {
        let row = guarded(|| self.rows.next().transpose());
        let Some(row) = row.map_err(|e| self.layout.error(format_args!("damaged Parquet: {e}")))? else {
            return Ok(None);
        };
        let cells = row.get_column_iter().zip(&self.nanoseconds).map(|((_, field), nanoseconds)| match field {
            Field::Long(time) if *nanoseconds => {
                Owned::Text(instant(Timestamp::from_nanosecond(i128::from(*time)), *time))
            }
            field => owned(field),
        });
        self.cells = cells.collect();
        self.given += 1;
        Ok(Some(self.given))
    }

    fn cell(&self, column: usize) -> Result<Cell<'_>> {
        Ok(match &self.cells[column] {
            Owned::Number(number) => Cell::Number(*number),
            Owned::Text(text) => Cell::Text(text),
        })
    }
}

/// Returns numbers and truth values as numbers, dates in ISO 8601, and everything else as text.
fn owned(field: &Field) -> Owned {
    let number = match *field {
        Field::Bool(x) => x.into(),
        Field::Byte(x) => x.into(),
        Field::Short(x) => x.into(),
        Field::Int(x) => x.into(),
        Field::Long(x) => x as f64,
        Field::UByte(x) => x.into(),
        Field::UShort(x) => x.into(),
        Field::UInt(x) => x.into(),
        Field::ULong(x) => x as f64,
        Field::Float16(x) => x.to_f64(),
        Field::Float(x) => x.into(),
        Field::Double(x) => x,
        _ => return Owned::Text(text(field)),
    };
    Owned::Number(number)
}

fn text(field: &Field) -> String {
    match field {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        Field::Date(days) => {
            let span = Span::new().try_days(*days).and_then(|span| date(1970, 1, 1).checked_add(span));
            span.map_or_else(|_| format!("day {days} from 1970"), |day| day.to_string())
        }
        Field::TimestampMillis(time) => instant(Timestamp::from_millisecond(*time), *time),
        Field::TimestampMicros(time) => instant(Timestamp::from_microsecond(*time), *time),
        // Nested values may contain dates for which their own text fails.
        Field::Group(_) | Field::ListInternal(_) | Field::MapInternal(_) => "(nested)".into(),
        other => other.to_string(),
    }
}

/// A time in ISO 8601, or the raw number if ISO 8601 has no year for it.
fn instant(time: std::result::Result<Timestamp, jiff::Error>, raw: i64) -> String {
    time.map_or_else(|_| format!("time {raw} from 1970"), |time| Offset::UTC.to_datetime(time).to_string())
}
