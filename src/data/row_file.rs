//! Tables larger than memory: a file of records of one length, read as minibatches draw them.
//!
//! The records are little-endian doubles: the row's number in the table and its position there, a value a column (categories as codes)
//! and the target. Behind them lie their description as JSON, its length and a mark.

use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::dataset::Dataset;
use super::options::ReadOptions;
use super::read::{Place, Streamed, stream_training};
use super::scale::InputScale;
use super::schema::Schema;
use crate::atomic::write_atomically;
use crate::{Error, Result};

/// Last bytes of the file.
const MARK: &[u8; 8] = b"cageyrow";
const NUMBER: usize = size_of::<f64>();
/// Bytes of the description's length and the mark.
const TAIL: usize = 16;
/// Records that are looked at together when the whole file is.
const CHUNK: usize = 4096;

/// The rows of a table on disk: what [`read_training`](super::read_training) reads, without holding it in memory.
#[derive(Debug)]
pub struct RowFile {
    path: PathBuf,
    file: Mutex<File>,
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
    /// Numbers of a record.
    fn width(&self) -> usize {
        self.schema.features.len() + 3
    }

    /// Takes records apart.
    fn decode(&self, records: &[f64]) -> Dataset {
        let width = self.width();
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
        write_atomically(path, |temporary| {
            let io = |e: std::io::Error| Error::io(path, &e);
            let mut file = File::options().read(true).write(true).open(temporary).map_err(io)?;
            let mut writer = BufWriter::new(&file);
            let found = stream_training(table.as_ref(), options, |Place { row, record }, values| {
                let mut numbers = [row as f64, record as f64].into_iter().chain(values.iter().copied());
                numbers.try_for_each(|value| writer.write_all(&value.to_le_bytes())).map_err(io)
            })?;
            writer.flush().map_err(io)?;
            drop(writer);
            let about = settle(&mut file, found).map_err(io)?;
            let text = serde_json::to_vec(&about).map_err(|e| io(e.into()))?;
            file.seek(SeekFrom::End(0)).map_err(io)?;
            [&text[..], &(text.len() as u64).to_le_bytes(), MARK]
                .into_iter()
                .try_for_each(|part| file.write_all(part))
                .map_err(io)
        })?;
        Self::open(path)
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
        last.is_ok_and(|last| last == MARK)
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
        let length = file.metadata().map_err(io)?.len();
        let before = length.checked_sub(TAIL as u64).ok_or_else(bad)?;
        let tail = read_at(&mut file, before, TAIL).map_err(io)?;
        let (text, mark) = tail.split_at(NUMBER);
        let text = u64::from_le_bytes(std::array::from_fn(|k| text[k]));
        let records = before.checked_sub(text).filter(|_| mark == MARK).ok_or_else(bad)?;
        let text = read_at(&mut file, records, text as usize).map_err(io)?;
        let about: About = serde_json::from_slice(&text).map_err(|_| bad())?;
        let bytes = about.rows.checked_mul(about.width()).and_then(|cells| cells.checked_mul(NUMBER));
        let moments = [&about.moments.mean, &about.moments.sd].map(Vec::len);
        if bytes != Some(records as usize) || moments != [about.schema.d() + 1; 2] {
            return Err(bad());
        }
        Ok(Self { path: path.into(), file: Mutex::new(file), about })
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
    /// [`Error::Io`] when reading fails, [`Error::Usage`] for a row that there is not.
    pub fn read(&self, rows: &[usize]) -> Result<Dataset> {
        if let Some(row) = rows.iter().find(|row| **row >= self.len()) {
            return Err(Error::Usage(format!("row {row} of {} in {}", self.len(), self.path.display())));
        }
        let size = self.about.width() * NUMBER;
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
        Ok(self.about.decode(&numbers(&bytes)))
    }
}

/// Gives codes their final values in a file of records, and describes it.
fn settle(file: &mut File, found: Streamed) -> std::io::Result<About> {
    let Streamed { schema, codes, rows, dropped } = found;
    let mut moments = vec![Moments::default(); schema.d() + 1];
    let mut about = About { schema, rows, dropped, moments: InputScale::identity(0) };
    let width = about.width();
    for start in (0..rows).step_by(CHUNK) {
        let (at, count) = ((start * width * NUMBER) as u64, CHUNK.min(rows - start));
        let mut records = numbers(&read_at(file, at, count * width * NUMBER)?);
        for record in records.chunks_exact_mut(width) {
            let (inputs, target) = record[2..].split_at_mut(width - 3);
            codes.recode_inputs(inputs);
            codes.recode_targets(target);
        }
        if codes.any() {
            file.seek(SeekFrom::Start(at))?;
            file.write_all(&records.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())?;
        }
        let data = about.decode(&records);
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

fn numbers(bytes: &[u8]) -> Vec<f64> {
    bytes.as_chunks().0.iter().map(|&word| f64::from_le_bytes(word)).collect()
}

/// Mean and spread of numbers that pass by (Welford 1962).
#[derive(Debug, Clone, Default)]
struct Moments {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Moments {
    fn add(&mut self, value: f64) {
        self.count += 1;
        let off = value - self.mean;
        self.mean += off / self.count as f64;
        self.squares += off * (value - self.mean);
    }

    /// 1 for a constant.
    fn sd(&self) -> f64 {
        let sd = (self.squares / self.count as f64).sqrt();
        if sd > 0.0 { sd } else { 1.0 }
    }
}
