//! Tables larger than memory: a file of records of one length, read as minibatches draw them.
//!
//! The [records](super::records) hold the row's number in the table and its position there, a value a column (categories as codes) and the
//! target. Behind them lie their description as JSON, its checksum and length, and a mark. Files of the first layout, which are still
//! read, have no checksums.

use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::cell::LARGEST;
use super::classes::Classes;
use super::dataset::Dataset;
use super::options::ReadOptions;
use super::read::{Place, Streamed, stream_training};
use super::records::{Moments, NUMBER, Records, checksum};
use super::scale::InputScale;
use super::schema::{Encoding, Schema};
use crate::atomic::write_atomically;
use crate::{Error, Result};

/// Last bytes of the file.
const MARK: &[u8; 8] = b"cageyro2";
/// Those of the first layout.
const FIRST_MARK: &[u8; 8] = b"cageyrow";
/// Records that are looked at together when the whole file is.
const CHUNK: usize = 4096;
/// Rows of a table are fewer: their numbers are whole.
const MOST_ROWS: f64 = 9e15;

/// The rows of a table on disk: what [`read_training`](super::read_training) reads, without holding it in memory.
#[derive(Debug)]
pub struct RowFile {
    path: PathBuf,
    file: Mutex<File>,
    records: Records,
    about: About,
}

/// What the records are.
#[derive(Debug, Serialize, Deserialize)]
struct About {
    schema: Schema,
    rows: usize,
    /// Rows of the table left out because of missing cells.
    dropped: usize,
    /// Of the encoded inputs and, last, the target.
    moments: InputScale,
}

impl About {
    /// Records with checksums.
    fn records(&self) -> Records {
        Records { width: width(&self.schema), checked: true }
    }

    /// Whether the description is that of records that a table gave.
    fn is_sound(&self) -> bool {
        self.schema.problem().is_none()
            && self.moments.problem().is_none()
            && self.moments.mean.len() == self.schema.d() + 1
    }

    /// Whether a record could have come from a table.
    fn permits(&self, record: &[f64]) -> bool {
        let whole = |number: f64, below: f64| number.fract() == 0.0 && (0.0..below).contains(&number);
        let (places, values) = record.split_at(2);
        let features = self.schema.features.iter().map(|column| match &column.encoding {
            Encoding::OneHot(categories) => Some(categories.len()),
            Encoding::Numeric | Encoding::Date => None,
        });
        let codes = features.chain([self.schema.classes.as_ref().map(Classes::len)]);
        places.iter().all(|place| whole(*place, MOST_ROWS))
            && values.iter().zip(codes).all(|(value, codes)| match codes {
                Some(codes) => whole(*value, codes as f64),
                None => value.abs() <= LARGEST,
            })
    }

    /// Takes records apart.
    fn decode(&self, records: &[f64]) -> Dataset {
        let width = width(&self.schema);
        let (mut values, mut y) = (Vec::new(), Vec::new());
        let mut data = Dataset::default();
        for record in records.chunks_exact(width) {
            data.rows.push(record[0] as usize);
            data.records.push(record[1] as usize);
            values.extend(&record[2..width - 1]);
            y.push(record[width - 1]);
        }
        Dataset {
            x: self.schema.encode(values),
            n: y.len(),
            d: self.schema.d(),
            feature_names: self.schema.feature_names(),
            target_name: self.schema.target.clone(),
            y: Some(y),
            dropped: self.dropped,
            ..data
        }
    }
}

impl RowFile {
    /// Copies a table to the file `path`, holding a few of its rows at a time.
    ///
    /// # Errors
    /// As [`read_training`](super::read_training), and [`Error::Io`] when `path` cannot be written.
    pub fn create(table: impl AsRef<Path>, options: &ReadOptions, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let (file, about) = write_atomically(path, |file| {
            let io = |e: std::io::Error| Error::io(path, &e);
            let mut writer = BufWriter::new(&*file);
            let (mut bytes, mut index) = (Vec::new(), 0);
            let found = stream_training(table.as_ref(), options, |Place { row, record }, values| {
                bytes.clear();
                Records::seal(index, [row as f64, record as f64].iter().chain(values), &mut bytes);
                index += 1;
                writer.write_all(&bytes).map_err(io)
            })?;
            writer.flush().map_err(io)?;
            drop(writer);
            let about = settle(path, file, found)?;
            let text = serde_json::to_vec(&about).map_err(|e| io(e.into()))?;
            file.seek(SeekFrom::End(0)).map_err(io)?;
            [&text[..], &checksum([&text[..]]).to_le_bytes(), &(text.len() as u64).to_le_bytes(), MARK]
                .into_iter()
                .try_for_each(|part| file.write_all(part))
                .map_err(io)?;
            Ok(about)
        })?;
        // Another file may have that name by now: this one is the one that was written.
        Ok(Self { path: path.into(), file: Mutex::new(file), records: about.records(), about })
    }

    /// Whether a path is a file of rows, by its last bytes; a pipe, which can be opened once only, is not looked into.
    pub fn recognised(path: impl AsRef<Path>) -> bool {
        let path = path.as_ref();
        if !path.is_file() {
            return false;
        }
        let last = File::open(path).and_then(|mut file| {
            let at = file.seek(SeekFrom::End(-(MARK.len() as i64)))?;
            read_at(&mut file, at, MARK.len())
        });
        last.is_ok_and(|last| last == MARK || last == FIRST_MARK)
    }

    /// Opens a file that [`create`](Self::create) wrote.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be read, [`Error::Data`] when it is another file or cut short.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let io = |e: std::io::Error| Error::io(path, &e);
        let bad = || {
            let file = path.display();
            Error::Data(format!("{file}: not a file of rows, or cut short; make it anew from its table"))
        };
        let mut file = File::open(path).map_err(io)?;
        let size = file.metadata().map_err(io)?.len();
        let mut word = |from_end: usize| {
            let at = size.checked_sub((from_end * NUMBER) as u64).ok_or_else(bad)?;
            read_at(&mut file, at, NUMBER).map_err(io).map(|word| u64::from_le_bytes(std::array::from_fn(|k| word[k])))
        };
        let mark = word(1)?.to_le_bytes();
        let checked = mark == *MARK;
        if !checked && mark != *FIRST_MARK {
            return Err(bad());
        }
        let (length, sum) = (word(2)?, checked.then(|| word(3)).transpose()?);
        let tail = (2 + usize::from(checked)) * NUMBER;
        let before = size.checked_sub(tail as u64).and_then(|end| end.checked_sub(length)).ok_or_else(bad)?;
        let text = read_at(&mut file, before, length as usize).map_err(io)?;
        if sum.is_some_and(|sum| sum != checksum([&text[..]])) {
            return Err(bad());
        }
        let about: About = serde_json::from_slice(&text).map_err(|_| bad())?;
        let records = Records { checked, ..about.records() };
        if about.rows.checked_mul(records.size()) != Some(before as usize) || !about.is_sound() {
            return Err(bad());
        }
        Ok(Self { path: path.into(), file: Mutex::new(file), records, about })
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.about.rows
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.about.rows == 0
    }

    /// Number of inputs.
    pub fn d(&self) -> usize {
        self.about.schema.d()
    }

    /// How the columns of the table were encoded.
    pub fn schema(&self) -> &Schema {
        &self.about.schema
    }

    /// Number of rows of the table that were left out because of missing cells.
    pub fn dropped(&self) -> usize {
        self.about.dropped
    }

    /// The standardisation of the inputs.
    pub fn input_scale(&self) -> InputScale {
        let part = |all: &[f64]| all[..self.d()].to_vec();
        InputScale { mean: part(&self.about.moments.mean), sd: part(&self.about.moments.sd) }
    }

    /// Mean and standard deviation of the target; 0 and 1 for classes.
    pub fn target_moments(&self) -> (f64, f64) {
        match self.about.schema.classes {
            Some(_) => (0.0, 1.0),
            None => (self.about.moments.mean[self.d()], self.about.moments.sd[self.d()]),
        }
    }

    /// The given rows, in their order and in the units of the table.
    ///
    /// # Errors
    /// [`Error::Io`] when reading fails, [`Error::Usage`] for a row that there is not, [`Error::Data`] for one whose bytes are not those
    /// that were written.
    pub fn read(&self, rows: &[usize]) -> Result<Dataset> {
        if let Some(row) = rows.iter().find(|row| **row >= self.len()) {
            return Err(Error::Usage(format!("row {row} of {} in {}", self.len(), self.path.display())));
        }
        let size = self.records.size();
        let mut bytes = vec![0; rows.len() * size];
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rest = bytes.as_mut_slice();
        for run in rows.chunk_by(|before, row| before + 1 == *row) {
            let (records, others) = rest.split_at_mut(run.len() * size);
            file.seek(SeekFrom::Start((run[0] * size) as u64))
                .and_then(|_| file.read_exact(records))
                .map_err(|e| Error::io(&self.path, &e))?;
            rest = others;
        }
        drop(file);
        let numbers = self.records.open(rows.iter().copied(), &bytes).map_err(|row| damaged(&self.path, row))?;
        let sound = |(_, record): &(&usize, &[f64])| self.about.permits(record);
        match rows.iter().zip(numbers.chunks_exact(self.records.width)).find(|found| !sound(found)) {
            Some((row, _)) => Err(damaged(&self.path, *row)),
            None => Ok(self.about.decode(&numbers)),
        }
    }
}

/// A record whose bytes changed.
fn damaged(path: &Path, index: usize) -> Error {
    let (file, record) = (path.display(), index + 1);
    Error::Data(format!("{file}: record {record} is damaged; make the file anew from its table"))
}

/// Numbers of a record.
fn width(schema: &Schema) -> usize {
    schema.features.len() + 3
}

/// Gives codes their final values in a file of records, and describes it.
fn settle(path: &Path, file: &mut File, found: Streamed) -> Result<About> {
    let io = |e: std::io::Error| Error::io(path, &e);
    let Streamed { schema, codes, rows, dropped } = found;
    let mut moments = vec![Moments::default(); schema.d() + 1];
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
                .for_each(|(index, record)| Records::seal(index, record, &mut bytes));
            file.seek(SeekFrom::Start(at)).and_then(|_| file.write_all(&bytes)).map_err(io)?;
        }
        let data = about.decode(&numbers);
        for (i, y) in data.y.iter().flatten().enumerate() {
            moments.iter_mut().zip(data.row(i).iter().chain([y])).for_each(|(moments, value)| moments.add(*value));
        }
    }
    let (mean, sd) = moments.iter().map(|moments| (moments.mean, moments.sd())).unzip();
    about.moments = InputScale { mean, sd };
    Ok(about)
}

fn read_at(file: &mut File, at: u64, bytes: usize) -> std::io::Result<Vec<u8>> {
    let mut found = vec![0; bytes];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut found)?;
    Ok(found)
}
