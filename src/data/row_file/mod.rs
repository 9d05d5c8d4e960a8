//! Tables larger than memory: a file of records of one length, read as minibatches draw them.
//!
//! Each record has the row's number in the table, its position there, a value for each column (categories as codes) and
//! the target. After the records come their description as JSON, its checksum and length, and a mark.

#[cfg(feature = "table")]
mod create;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crc32fast::Hasher;
use serde::{Deserialize, Serialize};

use crate::data::InputScale;
use crate::data::classes::Classes;
use crate::data::dataset::{Dataset, LARGEST, Notes};
use crate::data::schema::Schema;
use crate::{Error, Result};

/// The last bytes of the file.
const MARK: &[u8; 8] = b"cageyro2";
/// The bytes of a number and of a checksum.
const NUMBER: usize = size_of::<f64>();
/// Tables have fewer rows than this, so that row numbers are exact as doubles.
const MOST_ROWS: f64 = 9e15;

/// The rows of a table on disk: the same as `read_training` reads, without holding them in memory.
#[derive(Debug)]
pub struct RowFile {
    path: PathBuf,
    file: Mutex<File>,
    about: About,
    /// The checksum of the description.
    checksum: u64,
    notes: Notes,
}

/// The description of the records.
#[derive(Debug, Serialize, Deserialize)]
struct About {
    schema: Schema,
    rows: usize,
    /// The number of rows of the table left out because of missing cells.
    dropped: usize,
    /// Moments of the encoded inputs and, last, of the target.
    moments: InputScale,
}

impl About {
    /// The form of the records.
    fn records(&self) -> Records {
        Records { width: self.schema.features.len() + 3 }
    }

    /// Whether the description could have come from a table.
    fn is_sound(&self) -> bool {
        self.schema.problem().is_none()
            && self.moments.problem().is_none()
            && self.moments.mean.len() == self.schema.d() + 1
    }

    /// Whether a record could have come from a table.
    fn permits(&self, record: &[f64]) -> bool {
        let whole = |number: f64, below: f64| number.fract() == 0.0 && (0.0..below).contains(&number);
        let (places, values) = record.split_at(2);
        let features = self.schema.features.iter();
        let features =
            features.map(|column| (column.encoding.categories().map(<[String]>::len), column.fill.is_some()));
        let kinds = features.chain([(self.schema.classes.as_ref().map(Classes::len), false)]);
        places.iter().all(|place| whole(*place, MOST_ROWS))
            && values.iter().zip(kinds).all(|(value, (codes, filled))| match codes {
                _ if value.is_nan() => filled,
                Some(codes) => whole(*value, codes as f64),
                None => value.abs() <= LARGEST,
            })
    }

    /// Decodes records.
    fn decode(&self, records: &[f64]) -> Dataset {
        let width = self.records().width;
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
    /// Whether a path is a file of rows, judged by its last bytes. A pipe is not examined, because it can be opened
    /// only once.
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

    /// Opens a file that `RowFile::create` wrote.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be read, [`Error::Data`] when it is another file or incomplete.
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
        if word(1)?.to_le_bytes() != *MARK {
            return Err(bad());
        }
        let (length, sum) = (word(2)?, word(3)?);
        let before = size.checked_sub(3 * NUMBER as u64).and_then(|end| end.checked_sub(length)).ok_or_else(bad)?;
        let text = read_at(&mut file, before, length as usize).map_err(io)?;
        if sum != checksum([&text[..]]) {
            return Err(bad());
        }
        let about: About = serde_json::from_slice(&text).map_err(|_| bad())?;
        if about.rows.checked_mul(about.records().size()) != Some(before as usize) || !about.is_sound() {
            return Err(bad());
        }
        Ok(Self { path: path.into(), file: Mutex::new(file), about, checksum: sum, notes: Notes::default() })
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.about.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.about.rows == 0
    }

    /// The number of inputs.
    pub fn d(&self) -> usize {
        self.about.schema.d()
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A checksum of the columns, their moments and the number of rows. It distinguishes files with different rows.
    pub fn checksum(&self) -> u64 {
        self.checksum
    }

    /// How the columns of the table were encoded.
    pub fn schema(&self) -> &Schema {
        &self.about.schema
    }

    /// The number of rows of the table that were left out because of missing cells.
    pub fn dropped(&self) -> usize {
        self.about.dropped
    }

    /// How the table was read, if this process read it.
    pub fn notes(&self) -> &Notes {
        &self.notes
    }

    /// The standardisation of the inputs.
    pub fn input_scale(&self) -> InputScale {
        let part = |all: &[f64]| all[..self.d()].to_vec();
        InputScale::affine(part(&self.about.moments.mean), part(&self.about.moments.sd))
    }

    /// Mean and standard deviation of the target; 0 and 1 for classes.
    pub fn target_moments(&self) -> (f64, f64) {
        match self.about.schema.classes {
            Some(_) => (0.0, 1.0),
            None => (self.about.moments.mean[self.d()], self.about.moments.sd[self.d()]),
        }
    }

    /// The given rows, in the given order and in the units of the table.
    ///
    /// # Errors
    /// [`Error::Io`] when reading fails, [`Error::Usage`] for a row that does not exist, [`Error::Data`] for a row
    /// whose bytes are not as they were written.
    pub fn read(&self, rows: &[usize]) -> Result<Dataset> {
        if let Some(row) = rows.iter().find(|row| **row >= self.len()) {
            return Err(Error::Usage(format!("row {row} of {} in {}", self.len(), self.path.display())));
        }
        let form = self.about.records();
        let size = form.size();
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
        let numbers = form.open(rows.iter().copied(), &bytes).map_err(|row| damaged(&self.path, row))?;
        let sound = |(_, record): &(&usize, &[f64])| self.about.permits(record);
        match rows.iter().zip(numbers.chunks_exact(form.width)).find(|found| !sound(found)) {
            Some((row, _)) => Err(damaged(&self.path, *row)),
            None => Ok(self.about.decode(&numbers)),
        }
    }
}

/// The form of the records of a file: little-endian doubles, and a checksum over them and the record's index.
#[derive(Debug, Clone, Copy)]
struct Records {
    /// The number of numbers in a record.
    width: usize,
}

impl Records {
    /// The bytes of a record.
    fn size(self) -> usize {
        (self.width + 1) * NUMBER
    }

    /// The numbers of the records with these indices, or the index of the first record that was changed since it was
    /// written.
    fn open(self, indices: impl IntoIterator<Item = usize>, bytes: &[u8]) -> std::result::Result<Vec<f64>, usize> {
        let mut numbers = Vec::with_capacity(bytes.len() / NUMBER);
        for (index, record) in indices.into_iter().zip(bytes.chunks_exact(self.size())) {
            let (values, sum) = record.split_at(self.width * NUMBER);
            if sum != of_record(index, values).to_le_bytes() {
                return Err(index);
            }
            numbers.extend(values.as_chunks().0.iter().map(|&word| f64::from_le_bytes(word)));
        }
        Ok(numbers)
    }
}

/// The checksum of the record with this index.
fn of_record(index: usize, values: &[u8]) -> u64 {
    checksum([&(index as u64).to_le_bytes(), values])
}

/// CRC-32. Every change of up to 32 bits in a row alters it.
fn checksum<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let mut crc = Hasher::new();
    parts.into_iter().for_each(|part| crc.update(part));
    crc.finalize().into()
}

/// The error for a record whose bytes changed.
fn damaged(path: &Path, index: usize) -> Error {
    let (file, record) = (path.display(), index + 1);
    Error::Data(format!("{file}: record {record} is damaged; make the file anew from its table"))
}

fn read_at(file: &mut File, at: u64, bytes: usize) -> std::io::Result<Vec<u8>> {
    let mut found = vec![0; bytes];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut found)?;
    Ok(found)
}
