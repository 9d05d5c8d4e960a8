//! Making a row file from a table.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Mutex;

use super::{About, MARK, RowFile, checksum, damaged, of_record, read_at};
use crate::atomic::write_atomically;
use crate::data::tables::{Place, ReadOptions, Streamed, stream_training};
use crate::data::{InputScale, Moments};
use crate::{Error, Result};

/// The number of records processed together in a pass over the whole file.
const CHUNK: usize = 4096;

impl RowFile {
    /// Copies a table to the file `path`. Holds only a few of its rows at a time.
    ///
    /// # Errors
    /// As [`read_training`](crate::data::read_training), and [`Error::Io`] when `path` cannot be written.
    pub fn create(table: impl AsRef<Path>, options: &ReadOptions, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let (file, (about, checksum, notes)) = write_atomically(path, |file| {
            let io = |e: std::io::Error| Error::io(path, &e);
            let mut writer = BufWriter::new(&*file);
            let (mut bytes, mut index) = (Vec::new(), 0);
            let mut found = stream_training(table.as_ref(), options, |Place { row, record }, inputs, target| {
                bytes.clear();
                let numbers = [row as f64, record as f64].into_iter().chain(inputs.iter().copied()).chain(target);
                seal(index, numbers, &mut bytes);
                index += 1;
                writer.write_all(&bytes).map_err(io)
            })?;
            writer.flush().map_err(io)?;
            drop(writer);
            let notes = std::mem::take(&mut found.notes);
            let about = settle(path, file, found)?;
            let text = serde_json::to_vec(&about).map_err(|e| io(e.into()))?;
            file.seek(SeekFrom::End(0)).map_err(io)?;
            let sum = checksum([&text[..]]);
            [&text[..], &sum.to_le_bytes(), &(text.len() as u64).to_le_bytes(), MARK]
                .into_iter()
                .try_for_each(|part| file.write_all(part))
                .map_err(io)?;
            Ok((about, sum, notes))
        })?;
        // Another file may have that name by now. Keep the one that was written.
        Ok(Self { path: path.into(), file: Mutex::new(file), about, checksum, notes })
    }
}

/// Replaces codes in a file of records by their final values, and describes the file.
fn settle(path: &Path, file: &mut File, found: Streamed) -> Result<About> {
    let io = |e: std::io::Error| Error::io(path, &e);
    let Streamed { schema, codes, rows, dropped, .. } = found;
    let mut moments = vec![Moments::of(std::iter::empty()); schema.d() + 1];
    let mut about = About { schema, rows, dropped, moments: InputScale::identity(0) };
    let records = about.records();
    for start in (0..rows).step_by(CHUNK) {
        let (at, end) = ((start * records.size()) as u64, rows.min(start + CHUNK));
        let bytes = read_at(file, at, (end - start) * records.size()).map_err(io)?;
        let mut numbers = records.open(start..end, &bytes).map_err(|row| damaged(path, row))?;
        for record in numbers.chunks_exact_mut(records.width) {
            let (inputs, target) = record[2..].split_at_mut(records.width - 3);
            codes.recode_inputs(inputs);
            codes.recode_targets(target);
        }
        if codes.any() {
            let mut bytes = Vec::with_capacity(bytes.len());
            (start..end)
                .zip(numbers.chunks_exact(records.width))
                .for_each(|(index, record)| seal(index, record.iter().copied(), &mut bytes));
            file.seek(SeekFrom::Start(at)).and_then(|_| file.write_all(&bytes)).map_err(io)?;
        }
        let data = about.decode(&numbers);
        let inputs = (0..data.d).map(|at| Moments::of(data.x.iter().skip(at).step_by(data.d).copied()));
        let target = Moments::of(data.y.iter().flatten().copied());
        for (moments, more) in moments.iter_mut().zip(inputs.chain([target])) {
            *moments = if start == 0 { more } else { moments.with(&more) };
        }
    }
    // The standard deviation of a constant is 1.
    let sd = |sd: f64| if sd > 0.0 { sd } else { 1.0 };
    let scale = |moments: &Moments| (moments.mean, sd(moments.sd()));
    let (mean, sd) = moments.iter().map(scale).unzip();
    about.moments = InputScale::affine(mean, sd);
    Ok(about)
}

/// Appends the record with this index, and its checksum.
fn seal(index: usize, numbers: impl Iterator<Item = f64>, bytes: &mut Vec<u8>) {
    let start = bytes.len();
    numbers.for_each(|number| bytes.extend(number.to_le_bytes()));
    let sum = of_record(index, &bytes[start..]);
    bytes.extend(sum.to_le_bytes());
}
